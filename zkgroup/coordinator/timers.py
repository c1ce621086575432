"""Timers as data: a heap of deadlines, moved without touching the heap."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import count

STALE_MAX = 1000
"""Stale entries that are left in the heap, whatever its size."""


class Timer:
    """A deadline and what is called when it has passed."""

    __slots__ = ("deadline_ms", "on_expiry", "queued_ms")

    def __init__(self, on_expiry: Callable[[], None]) -> None:
        self.on_expiry = on_expiry
        self.deadline_ms: int | None = None
        """None while the timer is not set."""
        self.queued_ms: int | None = None
        """Of its entry in the heap that can still fire; None without one."""


class TimerQueue:
    """The timers of a coordinator. Moving a deadline to a later time does not touch the heap."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._numbers = count()
        self._stale = 0

    def __len__(self) -> int:
        """The number of entries, stale ones included."""
        return len(self._heap)

    def set(self, timer: Timer, deadline_ms: int) -> None:
        """Sets or moves a timer."""
        timer.deadline_ms = deadline_ms
        if timer.queued_ms is None or deadline_ms < timer.queued_ms:
            if timer.queued_ms is not None:
                self._entry_is_stale()
            self._push(timer, deadline_ms)

    def cancel(self, timer: Timer) -> None:
        """Unsets a timer."""
        timer.deadline_ms = None
        if timer.queued_ms is not None:
            timer.queued_ms = None
            self._entry_is_stale()

    def next_deadline_ms(self) -> int | None:
        """No timer fires before it; one that was moved may fire later. None without timers."""
        while self._heap and not self._is_live(self._heap[0]):
            heapq.heappop(self._heap)
            self._stale -= 1
        return self._heap[0][0] if self._heap else None

    def due(self, now_ms: int) -> Iterator[Timer]:
        """Takes the timers whose deadline has passed, one after another, the earliest first.

        What is done with one may set or cancel others, which the next step sees.
        """
        while self._heap and self._heap[0][0] <= now_ms:
            entry = heapq.heappop(self._heap)
            if not self._is_live(entry):
                self._stale -= 1
                continue
            timer = entry[2]
            timer.queued_ms = None
            assert timer.deadline_ms is not None
            if timer.deadline_ms > now_ms:
                self._push(timer, timer.deadline_ms)
                continue
            timer.deadline_ms = None
            yield timer

    def _push(self, timer: Timer, at_ms: int) -> None:
        timer.queued_ms = at_ms
        heapq.heappush(self._heap, (at_ms, next(self._numbers), timer))

    @staticmethod
    def _is_live(entry: tuple[int, int, Timer]) -> bool:
        return entry[2].queued_ms == entry[0]

    def _entry_is_stale(self) -> None:
        self._stale += 1
        if self._stale > STALE_MAX and self._stale > len(self._heap) // 2:
            self._heap = [entry for entry in self._heap if self._is_live(entry)]
            heapq.heapify(self._heap)
            self._stale = 0
