"""Waiting for something, at most until a time of a clock: one way for all threads that wait.

On a clock that goes by itself a wait has a real timeout. On a `DrivenClock` it has none: the clock wakes it
when it is moved there, and knows meanwhile that the thread waits. So tests need not wait for real time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from zkgroup.model.ports import Clock, DrivenClock

WAIT_MAX_S = 3600.0
"""Longest single wait of a thread: a bound, not a poll."""

T = TypeVar("T")


def seconds_until(clock: Clock, at_ms: int | None) -> float:
    """How long a real wait may last on a clock that goes by itself; at most `WAIT_MAX_S`, never negative."""
    if at_ms is None:
        return WAIT_MAX_S
    return max(0.0, min(WAIT_MAX_S, (at_ms - clock.now_ms()) / 1000))


class Sleeper:
    """The waits of one thread, which works in between. A `Party` of a `DrivenClock`."""

    def __init__(self, clock: Clock, name: str, has_news: Callable[[], bool]) -> None:
        """`has_news`: whether what the thread waits for has come. It stays true until the thread wakes."""
        self.name = name
        self.thread_id: int | None = None
        self.turns = 0
        self._clock = clock
        self._driven = clock if isinstance(clock, DrivenClock) else None
        self._has_news = has_news
        self._asleep = False
        self._until_ms: int | None = None
        self._leave: Callable[[], None] | None = None

    def join(self) -> None:
        """The thread takes part from now on; it may be called before its start."""
        if self._driven is not None and self._leave is None:
            self._leave = self._driven.join(self)

    def leave(self) -> None:
        """The thread ends."""
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()

    def is_quiet(self) -> bool:
        if not self._asleep or self._has_news():
            return False
        return self._until_ms is None or self._clock.now_ms() < self._until_ms

    def sleep(self, until_ms: int | None, wait: Callable[[float], T], wake: Callable[[], None]) -> T:
        """Calls `wait(timeout_s)`, which ends when there is news, and on this clock by `until_ms`.

        `wake` ends `wait`, from any thread. It may end before there is any reason for it.
        """
        if self._driven is None:
            return wait(seconds_until(self._clock, until_ms))
        if until_ms is None:
            return self._sleep_driven(self._driven, wait)
        cancel = self._driven.call_at(until_ms, wake)
        try:
            return self._sleep_driven(self._driven, wait, until_ms)
        finally:
            cancel()

    def _sleep_driven(self, clock: DrivenClock, wait: Callable[[float], T], until_ms: int | None = None) -> T:
        self._until_ms = until_ms
        self._asleep = True
        clock.notice()
        try:
            return wait(WAIT_MAX_S)
        finally:
            self.turns += 1
            self._asleep = False
