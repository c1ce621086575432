"""SIGINT and SIGTERM as something to wait for, for commands that serve until they are told to end."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self


class StopSignals:
    """While the block runs, the first SIGINT or SIGTERM is remembered; a second one interrupts or hurries.

    The handler only writes a byte into a pipe: taking a lock in it could deadlock with its own thread.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self, on_stop: Callable[[], None] | None = None, *, interrupts: bool = True) -> None:
        """`on_stop` runs in the handler, once: it must not block.

        `interrupts`: a second signal raises KeyboardInterrupt; else it sets `again`.
        """
        self._on_stop = on_stop
        self._interrupts = interrupts
        self.again = False
        self._former: dict[signal.Signals, Any] = {}
        self.received = False

    def __enter__(self) -> Self:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._former = {number: signal.signal(number, self._handle) for number in self._SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)
        os.close(self._read)
        os.close(self._write)

    def wait(self, timeout_s: float) -> bool:
        """Whether a signal has come, waiting for one this long at most."""
        if not self.received:
            select.select([self._read], [], [], timeout_s)
        return self.received

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received:
            if self._interrupts:
                raise KeyboardInterrupt
            self.again = True
            return
        self.received = True
        os.write(self._write, b"!")
        if self._on_stop:
            self._on_stop()
