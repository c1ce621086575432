"""One process of a demo: `python -m zkgroup.demo.worker MODULE` calls the module's `serve`.

The first line of its standard input holds the settings. It ends in order on SIGTERM, and when its standard
input closes. Its events go to standard output, one JSON object a line.
"""

from __future__ import annotations

import importlib
import os
import sys

from zkgroup.demo.processes import Stopping, decoded


def main() -> None:
    """Imports the module before the settings are there: it takes a while."""
    module = importlib.import_module(sys.argv[1])
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(sys.stdin.fileno(), 1)):  # no byte beyond the line
        line += byte
    if line:
        settings = decoded(line)
        module.serve(Stopping(), **settings)


if __name__ == "__main__":
    main()
