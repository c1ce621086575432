"""Runs a command that ends, at the latest, with the process that started it.

    python -m zkgroup.demo.tethered INPUT COMMAND...

The command reads the file INPUT; it is killed when the standard input of this process closes, and gets the
SIGTERM that this process gets. The exit code is the command's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType


def main() -> None:
    """Starts the command, and waits for its end or for the end of standard input."""
    name, *command = sys.argv[1:]
    with Path(name).open("rb") as source:
        process = subprocess.Popen(command, stdin=source)

    def terminate(number: int, frame: FrameType | None) -> None:
        process.terminate()

    def end_with_stdin() -> None:
        while os.read(0, 1024):
            pass
        process.kill()

    signal.signal(signal.SIGTERM, terminate)
    threading.Thread(target=end_with_stdin, daemon=True).start()
    code = process.wait()
    os._exit(code if code >= 0 else 128 - code)  # the thread waits for its input


if __name__ == "__main__":
    main()
