"""Commands with a person at a terminal: what they saw, in order, stdout and stderr as one."""

from __future__ import annotations

import os
import pty
import select
import time
from collections.abc import Mapping

from tests.waiting import PATIENCE_S, ended, waiting
from tests.worlds.processes import started

QUESTION = "[y/N]: "


def on_terminal(*args: str, env: Mapping[str, str | None], answer: str) -> tuple[int, str]:
    """Runs `zkgroup`, types the answer when it is asked; the exit code and everything on the screen."""
    own_end, their_end = pty.openpty()
    given = {**os.environ, **{name: value for name, value in env.items() if value is not None}}
    environment = {**given, "NO_COLOR": "1"}
    process = started(
        args, environment, stdin=their_end, stdout=their_end, stderr=their_end, new_session=True
    )
    os.close(their_end)
    try:
        seen = _read(own_end, until=QUESTION)
        os.write(own_end, answer.encode())
        seen += _read(own_end, until=None)
        return ended(process), seen.replace("\r\n", "\n")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(own_end)


def _read(terminal: int, *, until: str | None) -> str:
    """Until this was printed, or to the end."""
    seen, deadline = "", time.monotonic() + PATIENCE_S
    while until is None or until not in seen:
        with waiting():
            ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"nothing more was written: {seen}"
        try:
            part = os.read(terminal, 65536)
        except OSError:  # EIO: the other side is closed
            part = b""
        if not part:
            assert until is None, f"ended without a question: {seen}"
            break
        seen += part.decode()
    return seen
