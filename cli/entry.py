"""The entry of the script `zkgroup`: it handles Ctrl-C before anything that takes time is imported.

Before `main` of `.app` runs, an interrupted import would print a traceback. Nothing has been done by then,
so the process ends at once.
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import NoReturn


def main() -> None:
    """Imports the command line and runs it. Interrupted during the import: exit code 130, no traceback."""
    is_handled = (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )  # not where a shell's `&` ignores it
    if is_handled:
        signal.signal(signal.SIGINT, _interrupted)
    from .app import main as run

    if is_handled:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _interrupted(number: int, frame: FrameType | None) -> NoReturn:
    os.write(2, b"interrupted\n")
    os._exit(130)
