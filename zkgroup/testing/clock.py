"""`FakeClock`: a clock that only the test moves, and a wait for the work of other threads."""

from __future__ import annotations

import heapq
import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from zkgroup.model.ports import Party
from zkgroup.testing.patience import PATIENCE_S

POLL_S = 0.002
_NOTICE_S = 0.05
"""Longest wait for the notice that a party is quiet: a bound, not a poll."""


class Blocked:
    """A blocking call of the application: a `Party` for its thread or task."""

    name = "a call whose condition is true"
    turns = 0

    def __init__(
        self, now_ms: Callable[[], int], is_over: Callable[[], object], until_ms: int | None
    ) -> None:
        self.worker = this_worker()
        self.until_ms = until_ms
        self._now_ms = now_ms
        self._is_over = is_over

    def is_quiet(self) -> bool:
        return not self._is_over() and (self.until_ms is None or self._now_ms() < self.until_ms)


class Parties:
    """The parties of one clock. Thread-safe."""

    def __init__(self) -> None:
        self._parties: dict[int, Party] = {}
        self._order = itertools.count()
        self._aside: list[object] = []
        self._noticed = threading.Condition()

    def join(self, party: Party) -> Callable[[], None]:
        """Adds a party; the result removes it."""
        with self._noticed:
            key = next(self._order)
            self._parties[key] = party

        def leave() -> None:
            with self._noticed:
                self._parties.pop(key, None)
                self._noticed.notify_all()

        return leave

    def notice(self) -> None:
        """Notes that a party has begun to wait, or is late."""
        with self._noticed:
            self._noticed.notify_all()

    def wait_notice(self) -> None:
        """Waits for the next `notice`, or for a short time."""
        with self._noticed:
            self._noticed.wait(POLL_S)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Excludes this thread or task from the parties that the clock waits for."""
        me = this_worker()
        with self._noticed:
            self._aside.append(me)
            self._noticed.notify_all()
        try:
            yield
        finally:
            with self._noticed:
                self._aside.remove(me)

    def working(self) -> list[Party]:
        """The working parties. None twice in a row means that all were quiet at once."""
        with self._noticed:
            return self._working()

    def _working(self) -> list[Party]:
        blocked = [one for one in self._parties.values() if isinstance(one, Blocked)]
        spoken_for = [one.worker for one in blocked]
        others = [one for one in self._parties.values() if not isinstance(one, Blocked)]
        parties = [*blocked, *(one for one in others if one.worker not in spoken_for)]
        parties = [one for one in parties if one.worker not in self._aside]
        turns = [party.turns for party in parties]
        for _ in range(2):
            working = [party for party in parties if not party.is_quiet()]
            if working:
                return working
        return [party for party, before in zip(parties, turns, strict=True) if party.turns != before]

    def wait_quiet(self, is_over: Callable[[], object], timeout_s: float = PATIENCE_S) -> bool:
        """Waits until all parties are quiet or `is_over()`, which it returns. Raises TimeoutError."""
        if not self._parties:
            return bool(is_over())
        deadline_s = time.monotonic() + timeout_s
        while not is_over():
            is_late = (
                time.monotonic() > deadline_s
            )  # read before the check: a party that was late may have finished
            with self._noticed:
                working = self._working()
                if not working:
                    break
                _check_event_loop(working)
                if is_late:
                    raise TimeoutError(still_working(working, timeout_s))
                self._noticed.wait(min(_NOTICE_S, timeout_s))
        return bool(is_over())


def this_worker() -> object:
    """The present asyncio task, or the number of the thread."""
    asyncio = sys.modules.get("asyncio")  # not loaded: there is no task
    if asyncio is not None:
        try:
            task = asyncio.current_task()
        except RuntimeError:
            task = None
        if task is not None:
            return task
    return threading.get_ident()


def still_working(working: list[Party], timeout_s: float) -> str:
    """The message of an error: the clock could not be moved."""
    return (
        f"the clock cannot be moved: after {timeout_s:g} s these still work: "
        f"{', '.join(party.name for party in working)}; wait for the test inside `clock.aside()`"
    )


def _check_event_loop(working: list[Party]) -> None:
    """Raises where a party runs on the event loop of this thread, which cannot go on while the thread
    waits."""
    asyncio = sys.modules.get("asyncio")
    running = asyncio._get_running_loop() if asyncio is not None else None
    if running is not None and any(getattr(party, "event_loop", None) is running for party in working):
        raise RuntimeError("on an event loop the clock is moved with `await clock.advance_async(...)`")


STANDSTILL_S = PATIENCE_S
"""Longest real time that a call with a timeout waits for another thread to move the clock."""
ADVANCE_MAX_MS = 3_600_000
"""Default limit of `advance_until`."""


class FakeClock:
    """Implements `model.ports.DrivenClock`. Thread-safe.

    Time passes while a thread moves the clock (`advance`, `advance_until`, `jump`), and while a blocking call
    waits on the thread that created the clock: `wait_until_assigned(timeout_s=30)` or `poll()` there take
    as much time of the clock as they need and hardly any real time. Calls of other threads wait until the
    clock is moved, unless they are made in `moving_here()`.

    Members that get the clock take part: before each step forward it waits, in real time, until all of their
    threads have finished their work. So a minute passes for them as a minute of real time would, within
    milliseconds: no timer is late, and no lease ends because a thread was slow.
    """

    def __init__(self, now_ms: int = 1_000_000, wall_ms: int = 1_767_225_600_000) -> None:
        """Time stands still until the clock is moved, or a call waits on this thread.

        Args:
            now_ms: the first value of `now_ms()`.
            wall_ms: the first value of `wall_ms()`, epoch milliseconds.
        """
        self._now_ms = now_ms
        self._wall_offset_ms = wall_ms - now_ms
        self._lock = threading.Lock()
        self._waiters: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._parties = Parties()
        self._stepping = threading.RLock()
        self._movers: list[int] = [threading.get_ident()]
        self._by_hand: list[object] = []

    def now_ms(self) -> int:
        """Milliseconds of the clock; never goes back."""
        return self._now_ms

    def wall_ms(self) -> int:
        """Epoch milliseconds of the clock."""
        return self._now_ms + self._wall_offset_ms

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` once, on the thread that advances to `at_ms` or beyond; the result cancels it.

        At once, on this thread, when that time is past already.
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
        """Advances by `ms`, and stops at the time of each waiter in between to call it.

        Waits until all parties are quiet before each step, and after the last one.
        """
        if ms < 0:
            raise ValueError(f"time does not go back: {ms} ms")
        self.advance_to(self._now_ms + ms)

    def advance_to(self, at_ms: int) -> None:
        """As `advance`, to a point in time; nothing happens when it is past."""
        with self._advancing():
            while self._now_ms < at_ms:
                self._parties.wait_quiet(_never)
                self._step(at_ms)
            self._parties.wait_quiet(_never)

    def advance_until(
        self,
        predicate: Callable[[], object],
        message: str | Callable[[], str] = "",
        *,
        max_ms: int = ADVANCE_MAX_MS,
        timeout_s: float = PATIENCE_S,
    ) -> None:
        """Advances from waiter to waiter until `predicate()` is true, and no further.

        Raises TimeoutError with `message` where that takes more than `max_ms` of this clock. At that time, or
        when no waiter is left, other threads have `timeout_s` of real time to make it true.
        """
        begun_ms = self._now_ms
        with self._advancing():
            while not self._parties.wait_quiet(self._asked(predicate)):
                if self._now_ms >= begun_ms + max_ms or not self._waiters:
                    break
                self._step(begun_ms + max_ms)
        wait_until(
            predicate, timeout_s, lambda: _timeout_message(predicate, message, self._now_ms - begun_ms)
        )

    async def advance_async(self, ms: int) -> None:
        """`advance` on an event loop, which keeps running: coroutine callbacks can run."""
        if ms < 0:
            raise ValueError(f"time does not go back: {ms} ms")
        with self._advancing():
            await self._pass_async(_never, self._now_ms + ms)
            deadline_s = time.monotonic() + PATIENCE_S
            while working := self._parties.working():
                _check_patience(working, deadline_s)
                await _nap()

    async def advance_until_async(
        self,
        predicate: Callable[[], object],
        message: str | Callable[[], str] = "",
        *,
        max_ms: int = ADVANCE_MAX_MS,
        timeout_s: float = PATIENCE_S,
    ) -> None:
        """`advance_until` on an event loop, which keeps running."""
        begun_ms = self._now_ms
        with self._advancing():
            await self._pass_async(self._asked(predicate), begun_ms + max_ms)
            deadline_s = time.monotonic() + timeout_s
            while not predicate():
                if time.monotonic() > deadline_s:
                    raise TimeoutError(_timeout_message(predicate, message, self._now_ms - begun_ms))
                await _nap()

    def jump(self, ms: int) -> None:
        """Advances by `ms` at once, as when the machine slept: every thread finds itself that much later."""
        if ms < 0:
            raise ValueError(f"time does not go back: {ms} ms")
        with self._stepping:
            with self._lock:
                self._now_ms += ms
            self._call_due()

    def step_wall(self, ms: int) -> None:
        """Moves the wall clock alone, as NTP or an operator does; correct code does not depend on it."""
        self._wall_offset_ms += ms

    def _step(self, end_ms: int | None) -> None:
        """Advances to the next time that has a waiter, at most to `end_ms`, and calls the waiter."""
        with self._stepping:
            with self._lock:
                next_ms = self._waiters[0][0] if self._waiters else end_ms
                if next_ms is not None and end_ms is not None:
                    next_ms = min(next_ms, end_ms)
                self._now_ms = max(self._now_ms, next_ms or 0)
            self._call_due()

    def _call_due(self) -> None:
        while True:
            with self._lock:
                if not self._waiters or self._waiters[0][0] > self._now_ms:
                    return
                callback = heapq.heappop(self._waiters)[2]
            callback()

    def join(self, party: Party) -> Callable[[], None]:
        """See `DrivenClock.join`."""
        return self._parties.join(party)

    def notice(self) -> None:
        """See `DrivenClock.notice`."""
        self._parties.notice()

    def aside(self) -> AbstractContextManager[None]:
        """Excludes this thread, or asyncio task, from the parties that the clock waits for.

        For a callback or a source that waits for the test on an Event or a Queue: for the clock it works, so
        time could not pass until it returns.
        """
        return self._parties.aside()

    @contextmanager
    def _advancing(self) -> Iterator[None]:
        """While a test moves the clock, blocking calls do not move it."""
        mark = object()
        with self.aside():
            self._by_hand.append(mark)
            try:
                yield
            finally:
                self._by_hand.remove(mark)

    def _asked(self, predicate: Callable[[], object]) -> Callable[[], bool]:
        """The predicate; blocking calls inside it may move the clock."""

        def ask() -> bool:
            mark = self._by_hand.pop()
            try:
                return bool(predicate())
            finally:
                self._by_hand.append(mark)

        return ask

    @contextmanager
    def moving_here(self) -> Iterator[None]:
        """Lets blocking calls move the clock on this thread too, as they do on the one that created it."""
        me = threading.get_ident()
        self._movers.append(me)
        try:
            yield
        finally:
            self._movers.remove(me)

    def wait_quiet(self, timeout_s: float = PATIENCE_S) -> None:
        """Waits until all parties are quiet; no time passes meanwhile.

        Raises TimeoutError naming what still works after `timeout_s` of real time.
        """
        with self.aside():
            self._parties.wait_quiet(_never, timeout_s)

    def wait_for(self, is_over: Callable[[], object], until_ms: int | None = None) -> None:
        """See `DrivenClock.wait_for`."""
        with self._blocked(is_over, until_ms) as blocked:
            if threading.get_ident() in self._movers:
                self._move_for(blocked)
            else:
                self._wait_moved(blocked)

    async def await_for(self, is_over: Callable[[], object], until_ms: int | None = None) -> None:
        """See `DrivenClock.await_for`."""
        with self._blocked(is_over, until_ms):
            if threading.get_ident() in self._movers:
                await self._pass_async(is_over, until_ms, yields=True)
            while not is_over() and (until_ms is None or self._now_ms < until_ms):
                await _nap()

    @contextmanager
    def _blocked(self, is_over: Callable[[], object], until_ms: int | None) -> Iterator[Blocked]:
        blocked = Blocked(self.now_ms, is_over, until_ms)
        leave = self.join(blocked)
        cancel = self.call_at(until_ms, self.notice) if until_ms is not None else None
        try:
            yield blocked
        finally:
            leave()
            if cancel is not None:
                cancel()

    def _move_for(self, blocked: Blocked) -> None:
        while blocked.is_quiet():
            try:
                over = self._parties.wait_quiet(lambda: not blocked.is_quiet())
            except TimeoutError as error:  # otherwise a call of the application would count as its own
                raise RuntimeError(str(error)) from None
            if over:
                return
            if self._by_hand or (blocked.until_ms is None and not self._waiters):
                time.sleep(POLL_S)  # another thread moves the clock, or no time makes it true
            else:
                self._step(blocked.until_ms)

    def _wait_moved(self, blocked: Blocked) -> None:
        """Waits for another thread to move the clock."""
        begun_ms, deadline_s = self._now_ms, time.monotonic() + STANDSTILL_S
        while blocked.is_quiet():
            self._parties.wait_notice()
            late = blocked.until_ms is not None and time.monotonic() > deadline_s
            if late and self._now_ms == begun_ms:
                raise RuntimeError(
                    f"a call with a timeout has waited for {STANDSTILL_S:g} s and no thread moved the clock: "
                    "advance it on another thread, or make the call in `clock.moving_here()`"
                )

    async def _pass_async(
        self, is_over: Callable[[], object], until_ms: int | None, *, yields: bool = False
    ) -> None:
        """Advances until `is_over()` or that time; with `yields`, not while another task advances."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not is_over() and (until_ms is None or self._now_ms < until_ms):
            working = self._parties.working()
            if working:
                _check_patience(working, deadline_s)
            else:
                deadline_s = time.monotonic() + PATIENCE_S
                if not (yields and self._by_hand):
                    self._step(until_ms)
            await _nap()


def _check_patience(working: list[Party], deadline_s: float) -> None:
    if time.monotonic() > deadline_s:
        raise RuntimeError(still_working(working, PATIENCE_S))


async def _nap() -> None:
    import asyncio  # imported here: programs without an event loop need not load it

    await asyncio.sleep(POLL_S / 4)


def _never() -> bool:
    return False


def _timeout_message(
    predicate: Callable[[], object], message: str | Callable[[], str], passed_ms: int
) -> str:
    description = message() if callable(message) else message
    return f"{description or predicate}; {passed_ms} ms of the clock have passed"


def wait_until(
    predicate: Callable[[], object], timeout_s: float = PATIENCE_S, message: str | Callable[[], str] = ""
) -> None:
    """Returns as soon as `predicate()` is true; raises TimeoutError with `message` after `timeout_s`.

    For work of other threads and processes that sends no notification. Uses real time, not the code's clock.
    """
    deadline = time.monotonic() + timeout_s
    while not predicate():
        if time.monotonic() > deadline:
            description = message() if callable(message) else message
            raise TimeoutError(f"not within {timeout_s:g} s: {description or predicate}")
        time.sleep(POLL_S)
