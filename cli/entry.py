"""What the script `zkgroup` runs: ready for Ctrl-C before anything that takes time is imported.

Until `main` of `.app` turns an interruption into a word and an exit code, Python would print a traceback
of whatever import it came into. Nothing has been done by then, so the process ends on the spot.
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import NoReturn


def main() -> None:
    """Imports the command line and runs it. Interrupted before it is there: exit code 130, no traceback."""
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a shell's `&` has it ignored
    if heard:
        signal.signal(signal.SIGINT, _interrupted)
    from .app import main as run

    if heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _interrupted(number: int, frame: FrameType | None) -> NoReturn:
    os.write(2, b"interrupted\n")
    os._exit(130)
