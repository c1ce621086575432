"""Commands with a person at a terminal: what they saw, in order, stdout and stderr as one."""

from __future__ import annotations

import codecs
import os
import pty
import select
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from tests.waiting import PATIENCE_S, ended, waiting
from tests.worlds.processes import started

QUESTION = "[y/N]: "


def on_terminal(*args: str, env: Mapping[str, str | None], answer: str) -> tuple[int, str]:
    """Runs `zkgroup`, types the answer when it is asked; the exit code and everything on the screen."""
    with Terminal(*args, env={**env, "NO_COLOR": "1"}) as terminal:
        terminal.until(QUESTION)
        terminal.type(answer)
        return terminal.finish()


class Terminal:
    """A `zkgroup` on a terminal; what is on the screen is kept."""

    def __init__(self, *args: str, env: Mapping[str, str | None]) -> None:
        self._end, their_end = pty.openpty()
        given = {**os.environ, **{name: value for name, value in env.items() if value is not None}}
        self.process = started(
            args, given, stdin=their_end, stdout=their_end, stderr=their_end, new_session=True
        )
        os.close(their_end)
        self._seen = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._end)

    def type(self, text: str) -> None:
        os.write(self._end, text.encode())

    def until(self, text: str) -> str:
        """Waits until this is written, and returns what was written since the last call."""
        before, deadline = len(self._seen), time.monotonic() + PATIENCE_S
        while text not in self._seen[before:]:
            assert self._read(deadline), f"ended without {text!r}: {self._seen}"
        return self._seen[before:]

    def finish(self) -> tuple[int, str]:
        """The exit code, and everything that was written until the end."""
        deadline = time.monotonic() + PATIENCE_S
        while self._read(deadline):
            pass
        return ended(self.process), self._seen.replace("\r\n", "\n")

    def _read(self, deadline: float) -> bool:
        """Reads a part; False at the end."""
        with waiting():
            ready, _, _ = select.select([self._end], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"nothing more was written: {self._seen}"
        try:
            part = os.read(self._end, 65536)
        except OSError:  # EIO: the other side is closed
            part = b""
        self._seen += self._decoder.decode(part)  # a part may end within a character
        return bool(part)
