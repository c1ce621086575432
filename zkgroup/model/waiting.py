"""Waiting for something, at most until a time of a clock: one way for all threads that wait.

On a clock that goes by itself a wait has a real timeout. On a `DrivenClock` it has none: the clock ends it
when it is moved there, and knows meanwhile who waits. So tests need not wait for real time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


def after(clock: Clock, seconds: float) -> int:
    """The time of the clock in so many seconds."""
    return clock.now_ms() + int(seconds * 1000)


def wait_for(
    clock: Clock, is_over: Callable[[], object], until_ms: int | None, wait: Callable[[float], object]
) -> bool:
    """For calls that block: returns `is_over()` once that is true or the clock has come to `until_ms`.

    `wait(timeout_s)` waits for it in real time. `is_over` is asked by other threads as well, and takes no
    lock that is held for long.
    """
    if isinstance(clock, DrivenClock):
        clock.wait_for(is_over, until_ms)
        return bool(is_over())
    while not (over := bool(is_over())) and (left_s := seconds_until(clock, until_ms)) > 0:
        wait(left_s)
    return over


class Sleeper:
    """The waits of one thread, which works in between. A `Party` of a `DrivenClock`."""

    def __init__(self, clock: Clock, name: str, has_news: Callable[[], object]) -> None:
        """`has_news`: whether what the thread waits for has come. It stays true until the thread wakes."""
        self.name = name
        self.worker: object = None
        self.turns = 0
        self.clock = clock
        self._driven = clock if isinstance(clock, DrivenClock) else None
        self._usual_news = self._has_news = has_news
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

    def after(self, seconds: float) -> int:
        """The time of its clock in so many seconds."""
        return after(self.clock, seconds)

    def is_quiet(self) -> bool:
        if not self._asleep or self._has_news():
            return False
        return self._until_ms is None or self.clock.now_ms() < self._until_ms

    def sleep(
        self,
        until_ms: int | None,
        wait: Callable[[float], T],
        wake: Callable[[], None],
        has_news: Callable[[], object] | None = None,
    ) -> T:
        """Calls `wait(timeout_s)`, which ends when there is news, and on this clock by `until_ms`.

        `wake` ends `wait`, from any thread. It may end before there is any reason for it. `has_news` is what
        this wait is for, where that is not the usual.
        """
        if self._driven is None:
            return wait(seconds_until(self.clock, until_ms))
        if until_ms is None:
            with self.resting(has_news=has_news):
                return wait(WAIT_MAX_S)
        cancel = self._driven.call_at(until_ms, wake)
        try:
            with self.resting(until_ms, has_news):
                return wait(WAIT_MAX_S)
        finally:
            cancel()

    @contextmanager
    def resting(
        self, until_ms: int | None = None, has_news: Callable[[], object] | None = None
    ) -> Iterator[None]:
        """The thread waits meanwhile, by means of its own; it may be woken by news, or at this time."""
        self._until_ms = until_ms
        self._has_news = has_news or self._usual_news
        self._asleep = True
        if self._driven is not None:
            self._driven.notice()
        try:
            yield
        finally:
            self.turns += 1
            self._asleep = False
