"""A clock that stands still until the test moves it, and a wait for what other threads do."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable

_POLL_S = 0.002


class FakeClock:
    """Implements `model.ports.Clock`. Thread-safe; time passes only in `advance`."""

    def __init__(self, now_ms: int = 1_000_000, wall_ms: int = 1_767_225_600_000) -> None:
        self._now_ms = now_ms
        self._wall_offset_ms = wall_ms - now_ms
        self._lock = threading.Lock()
        self._waiters: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def now_ms(self) -> int:
        return self._now_ms

    def wall_ms(self) -> int:
        return self._now_ms + self._wall_offset_ms

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` once, on the thread that advances to `at_ms` or beyond; the result cancels it.

        At once, on this thread, when that time has come already.
        """
        with self._lock:
            due = at_ms <= self._now_ms
            entry = (at_ms, next(self._order), callback)
            if not due:
                heapq.heappush(self._waiters, entry)
        if due:
            callback()
        return lambda: self._forget(entry)

    def _forget(self, entry: tuple[int, int, Callable[[], None]]) -> None:
        with self._lock:
            if entry in self._waiters:
                self._waiters.remove(entry)
                heapq.heapify(self._waiters)

    def advance(self, ms: int) -> None:
        """Moves on by `ms`, stopping at the time of each waiter in between to call it."""
        if ms < 0:
            raise ValueError(f"time does not go back: {ms} ms")
        self.advance_to(self._now_ms + ms)

    def advance_to(self, at_ms: int) -> None:
        """As `advance`, to a point in time; nothing happens when it is past."""
        while True:
            with self._lock:
                if not self._waiters or self._waiters[0][0] > at_ms:
                    self._now_ms = max(self._now_ms, at_ms)
                    return
                due_ms, _, callback = heapq.heappop(self._waiters)
                self._now_ms = max(self._now_ms, due_ms)
            callback()

    def step_wall(self, ms: int) -> None:
        """The wall clock jumps (NTP, an operator); nothing that is right depends on it."""
        self._wall_offset_ms += ms


def wait_until(
    predicate: Callable[[], object], timeout_s: float = 30.0, message: str | Callable[[], str] = ""
) -> None:
    """Returns as soon as `predicate()` is true; raises TimeoutError with `message` after `timeout_s`.

    For what other threads and processes do and cannot tell us. Real time, whatever clock the code has.
    """
    deadline = time.monotonic() + timeout_s
    while not predicate():
        if time.monotonic() > deadline:
            told = message() if callable(message) else message
            raise TimeoutError(f"not within {timeout_s:g} s: {told or predicate}")
        time.sleep(_POLL_S)
