"""Who waits on a `FakeClock`, who works, and who is to be left aside."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from zkgroup.model.ports import Party

POLL_S = 0.002
_NOTICE_S = 0.05
"""Longest wait for the notice of a party that has become quiet: a bound, not a poll."""
PATIENCE_S = 30.0
"""So long, in real time, the clock waits for what works."""


class Blocked:
    """A call of the application that waits: a `Party` that speaks for its thread or task."""

    name = "a call that has what it waited for"
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
    """All that takes part in one clock. Thread-safe."""

    def __init__(self) -> None:
        self._parties: dict[int, Party] = {}
        self._order = itertools.count()
        self._aside: list[object] = []
        self._noticed = threading.Condition()

    def join(self, party: Party) -> Callable[[], None]:
        """The party takes part until the result is called."""
        with self._noticed:
            key = next(self._order)
            self._parties[key] = party

        def leave() -> None:
            with self._noticed:
                self._parties.pop(key, None)
                self._noticed.notify_all()

        return leave

    def notice(self) -> None:
        """Something has begun to wait, or to be late."""
        with self._noticed:
            self._noticed.notify_all()

    def wait_notice(self) -> None:
        """Waits for the next `notice`, or a moment."""
        with self._noticed:
            self._noticed.wait(POLL_S)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """This thread, or task, is not waited for meanwhile."""
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
        """Those that work. Seen twice with nothing done in between, the others were quiet all at once."""
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
        """Waits until all is quiet or `is_over()`, which it returns. Raises TimeoutError."""
        if not self._parties:
            return bool(is_over())
        deadline_s = time.monotonic() + timeout_s
        while not is_over():
            is_late = time.monotonic() > deadline_s  # before the look: what was late to wake may be done
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
    """The asyncio task that runs here, or the number of the thread."""
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
    """The text of an error: the clock could not be moved."""
    return (
        f"the clock stands still: after {timeout_s:g} s these still work: "
        f"{', '.join(party.name for party in working)}; what waits for the test does so in `clock.aside()`"
    )


def _check_event_loop(working: list[Party]) -> None:
    """What runs on the event loop of this very thread cannot go on while the thread waits for it."""
    asyncio = sys.modules.get("asyncio")
    running = asyncio._get_running_loop() if asyncio is not None else None
    if running is not None and any(getattr(party, "event_loop", None) is running for party in working):
        raise RuntimeError("on an event loop the clock is moved with `await clock.advance_async(...)`")
