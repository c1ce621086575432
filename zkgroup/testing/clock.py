"""A clock that stands still until the test moves it, and a wait for what other threads do."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from zkgroup.model.ports import Party

_POLL_S = 0.002
_NOTICE_S = 0.05
"""Longest wait for the notice of a party that has become quiet: a bound, not a poll."""
PATIENCE_S = 30.0
"""So long, in real time, the clock waits for threads that work."""
ADVANCE_MAX_MS = 3_600_000
"""So far `advance_until` goes, unless told otherwise."""


class FakeClock:
    """Implements `model.ports.DrivenClock`. Thread-safe; time passes only while somebody moves it.

    Members and brokers that wait on it take part: before each step forward the clock waits, in real time,
    until all of their threads have done what there was to do. So a minute of theirs passes as a minute of
    real time would, in milliseconds: no timer is late, and no lease ends because a thread was slow.
    """

    def __init__(self, now_ms: int = 1_000_000, wall_ms: int = 1_767_225_600_000) -> None:
        self._now_ms = now_ms
        self._wall_offset_ms = wall_ms - now_ms
        self._lock = threading.Lock()
        self._waiters: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._parties: dict[int, Party] = {}
        self._aside: dict[int, int] = {}
        self._noticed = threading.Condition()
        self._moving = threading.RLock()

    # --- Clock ------------------------------------------------------------------------------------

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

    # --- threads that take part -------------------------------------------------------------------

    def join(self, party: Party) -> Callable[[], None]:
        """See `DrivenClock.join`."""
        with self._noticed:
            key = next(self._order)
            self._parties[key] = party

        def leave() -> None:
            with self._noticed:
                self._parties.pop(key, None)
                self._noticed.notify_all()

        return leave

    def notice(self) -> None:
        """See `DrivenClock.notice`."""
        with self._noticed:
            self._noticed.notify_all()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """The clock does not wait for this thread meanwhile.

        For a callback that waits for the test by means of its own (an Event, a Queue): it works, as far as
        the clock can see, and time would stand still until it returns.
        """
        me = threading.get_ident()
        with self._noticed:
            self._aside[me] = self._aside.get(me, 0) + 1
            self._noticed.notify_all()
        try:
            yield
        finally:
            with self._noticed:
                self._aside[me] -= 1
                if not self._aside[me]:
                    del self._aside[me]

    def wait_quiet(self, timeout_s: float = PATIENCE_S) -> None:
        """Returns when every thread that takes part waits; time stands still meanwhile.

        Raises TimeoutError naming those that still work after `timeout_s` of real time.
        """
        with self.aside():
            self._wait_quiet(_never, timeout_s)

    def _wait_quiet(self, is_over: Callable[[], object], timeout_s: float = PATIENCE_S) -> bool:
        """Waits until all is quiet or `is_over()`, which it returns."""
        deadline_s = time.monotonic() + timeout_s
        while not is_over():
            with self._noticed:
                working = self._working()
                if not working:
                    break
                self._noticed.wait(_NOTICE_S)
            if time.monotonic() > deadline_s:
                raise TimeoutError(
                    f"the clock stands still: after {timeout_s:g} s these threads still work: "
                    f"{', '.join(working)}; a callback that waits for the test does so in `clock.aside()`"
                )
        return bool(is_over())

    def _working(self) -> list[str]:
        """Names of those that work. Seen twice with nothing done in between, they were quiet all at once."""
        parties = [one for one in self._parties.values() if one.thread_id not in self._aside]
        turns = [party.turns for party in parties]
        for _ in range(2):
            working = [party.name for party in parties if not party.is_quiet()]
            if working:
                return working
        return [party.name for party, before in zip(parties, turns, strict=True) if party.turns != before]

    # --- moving it --------------------------------------------------------------------------------

    def advance(self, ms: int) -> None:
        """Moves on by `ms`, stopping at the time of each waiter in between to call it.

        Waits before each move until the threads that take part are quiet, and after the last one.
        """
        if ms < 0:
            raise ValueError(f"time does not go back: {ms} ms")
        self.advance_to(self._now_ms + ms)

    def advance_to(self, at_ms: int) -> None:
        """As `advance`, to a point in time; nothing happens when it is past."""
        with self.aside():
            while self._now_ms < at_ms:
                self._wait_quiet(_never)
                self._step(at_ms)
            self._wait_quiet(_never)

    def jump(self, ms: int) -> None:
        """Moves on by `ms` at once, as when the machine slept: every thread finds itself so much later."""
        if ms < 0:
            raise ValueError(f"time does not go back: {ms} ms")
        with self._moving:
            with self._lock:
                self._now_ms += ms
            self._call_due()

    def advance_until(
        self,
        predicate: Callable[[], object],
        message: str | Callable[[], str] = "",
        *,
        max_ms: int = ADVANCE_MAX_MS,
        timeout_s: float = PATIENCE_S,
    ) -> None:
        """Moves on from waiter to waiter until `predicate()` is true, and no further than that.

        Raises TimeoutError with `message` where that needs more than `max_ms` of this clock. Once there, or
        when nothing waits for a time any more, other threads have `timeout_s` of real time to make it true.
        """
        begun_ms = self._now_ms
        with self.aside():
            while not self._wait_quiet(predicate, timeout_s):
                if self._now_ms >= begun_ms + max_ms or not self._waiters:
                    break
                self._step(begun_ms + max_ms)
        wait_until(predicate, timeout_s, lambda: _told(predicate, message, self._now_ms - begun_ms))

    def _step(self, end_ms: int) -> None:
        """Moves to the next time for which a waiter was registered, at most to `end_ms`, and calls it."""
        with self._moving:
            with self._lock:
                next_ms = self._waiters[0][0] if self._waiters else end_ms
                self._now_ms = max(self._now_ms, min(next_ms, end_ms))
            self._call_due()

    def _call_due(self) -> None:
        while True:
            with self._lock:
                if not self._waiters or self._waiters[0][0] > self._now_ms:
                    return
                callback = heapq.heappop(self._waiters)[2]
            callback()

    def step_wall(self, ms: int) -> None:
        """The wall clock jumps (NTP, an operator); nothing that is right depends on it."""
        self._wall_offset_ms += ms


def _never() -> bool:
    return False


def _told(predicate: Callable[[], object], message: str | Callable[[], str], passed_ms: int) -> str:
    told = message() if callable(message) else message
    return f"{told or predicate}; {passed_ms} ms of the clock have passed"


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
