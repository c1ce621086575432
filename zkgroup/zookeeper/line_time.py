"""The time that a line measures its connection by, and how its thread waits."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from zkgroup.model.ports import Clock
from zkgroup.model.waiting import Sleeper

T = TypeVar("T")


class LineTime:
    """Seconds of `time.monotonic`, or of a clock that a test moves. Used on the connection thread."""

    def __init__(self, clock: Clock | None, name: str, has_news: Callable[[], object]) -> None:
        """`has_news`: whether the thread was woken, or has been told to wake."""
        self.now: Callable[[], float] = time.monotonic
        self._sleeper: Sleeper | None = None
        if clock is not None:
            self.now = lambda: clock.now_ms() / 1000
            self._sleeper = Sleeper(clock, name, has_news)

    def begin(self) -> None:
        """On the thread itself, before anything else."""
        if self._sleeper is not None:
            self._sleeper.worker = threading.get_ident()
            self._sleeper.join()

    def end(self) -> None:
        """The thread waits no more."""
        if self._sleeper is not None:
            self._sleeper.leave()

    def sleep(self, seconds: float | None, wait: Callable[[float | None], T], wake: Callable[[], None]) -> T:
        """`wait(seconds)`, which `wake` ends; real time is not bounded where a test moves the clock."""
        if self._sleeper is None:
            return wait(seconds)
        until_ms = None if seconds is None else math.ceil((self.now() + seconds) * 1000)
        return self._sleeper.sleep(until_ms, wait, wake)
