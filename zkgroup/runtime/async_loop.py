"""`AsyncMachineLoop`: a machine on an asyncio event loop, beside whatever else runs on that loop.

The machine is stepped on the event loop alone, so code on the loop steps it by a plain call. ZooKeeper's
threads enqueue. `MachineLoop` gives a machine a thread of its own instead.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from zkgroup.model.ports import Clock, Instant, Store
from zkgroup.model.requests import SessionEvent
from zkgroup.runtime.events import (
    CancelTimer,
    SessionConnected,
    SessionLost,
    SessionSuspended,
    SetTimer,
    SharedEvent,
    Submit,
    TimerFired,
)
from zkgroup.runtime.loop import Machine, session_event, submit

V = TypeVar("V")
E = TypeVar("E")


class LoopTimer:
    """Calls back on the running event loop at a time of a clock. A later time costs no new timer.

    The callback runs after the callbacks of all sockets that were ready when the time came.
    """

    def __init__(self, clock: Clock, callback: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._callback = callback
        self.at_ms: int | None = None
        """The time of the call; None: no call."""
        self._handle: asyncio.Handle | None = None
        self._handle_ms = 0

    def set(self, at_ms: int | None) -> None:
        """Sets or moves the time; None: no call."""
        self.at_ms = at_ms
        if at_ms is None or (self._handle is not None and self._handle_ms <= at_ms):
            return
        if self._handle is not None:
            self._handle.cancel()
        self._arm(at_ms)

    def cancel(self) -> None:
        self.at_ms = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self, at_ms: int) -> None:
        self._handle_ms = at_ms
        self._handle = self._loop.call_later(max(0, at_ms - self._clock.now_ms()) / 1000, self._fire)

    def _fire(self) -> None:
        self._handle = None
        if self.at_ms is None:
            return
        if self.at_ms > self._clock.now_ms():
            self._arm(self.at_ms)
            return
        # What the sockets have brought in this turn of the loop is handled in the next one, before this.
        self._handle = self._loop.call_soon(self._call)
        self._handle_ms = self.at_ms

    def _call(self) -> None:
        self._handle = None
        if self.at_ms is not None and self.at_ms <= self._clock.now_ms():
            self.at_ms = None
            self._callback()
        elif self.at_ms is not None:
            self._arm(self.at_ms)


class AsyncMachineLoop(Generic[V, E]):
    """The queue and the timers of one machine. Made and used on one event loop.

    As in `MachineLoop`, the loss of a session is handled before all queued events, and the replies that have
    come before the timers that are due.
    """

    def __init__(
        self,
        machine: Machine[V, E],
        store: Store,
        clock: Clock,
        *,
        perform: Callable[[E], None],
        on_crash: Callable[[Exception], None],
    ) -> None:
        """
        Args:
            perform: performs an effect of the machine's own. It may call `step`: that event follows once all
                effects of the present one are performed.
            on_crash: called with an error of the machine or of `perform`; the machine is stopped before.
        """
        self._loop = asyncio.get_running_loop()
        self._machine = machine
        self._store = store
        self._clock = clock
        self._perform_own = perform
        self._on_crash = on_crash
        self._inbox: deque[SharedEvent] = deque()
        """From other threads."""
        self._is_woken = False
        self._events: deque[V | SharedEvent] = deque()
        self._is_stepping = False
        self._timers: dict[str, int] = {}
        self._timer = LoopTimer(clock, self._timers_due)
        self._unlisten: Callable[[], None] | None = None
        self._is_closed = False

    def listen(self) -> None:
        """Registers for the store's session events."""
        self._unlisten = self._store.listen(self._on_session)

    def step(self, event: V | SharedEvent) -> None:
        """Gives the machine an event and performs its effects; within a step, after the present one."""
        if self._is_closed:
            return
        self._events.append(event)
        if not self._is_stepping:
            self._run()

    @property
    def is_overdue(self) -> bool:
        """Returns whether a timer is due: it fires in one of the loop's next turns, or by `catch_up`."""
        at_ms = self._timer.at_ms
        return at_ms is not None and at_ms <= self._clock.now_ms()

    def catch_up(self) -> None:
        """Handles what has come from other threads and fires the timers that are due, at once.

        With thousands of connections a turn of the loop may take longer than the machine can wait.
        """
        self._timers_due()

    def close(self) -> None:
        """Ends the machine: it gets no more events. Idempotent."""
        self._is_closed = True
        self._events.clear()
        self._timers.clear()
        self._timer.cancel()
        if self._unlisten is not None:
            self._unlisten()
            self._unlisten = None

    def _post(self, event: SharedEvent) -> None:
        self._inbox.append(event)
        if not self._is_woken:
            self._is_woken = True
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._take_inbox)

    def _on_session(self, event: SessionEvent) -> None:
        self._post(session_event(event))

    def _take_inbox(self) -> None:
        self._is_woken = False  # first, so that a later event wakes the loop again
        arrived: list[SharedEvent] = []
        while self._inbox:
            event = self._inbox.popleft()
            if isinstance(event, SessionLost):
                arrived = [event, *(one for one in arrived if not _is_older(one, event.incarnation))]
            else:
                arrived.append(event)
        for event in arrived:
            self.step(event)

    def _timers_due(self) -> None:
        self._take_inbox()
        now_ms = self._clock.now_ms()
        for name, at_ms in sorted(self._timers.items(), key=lambda timer: timer[1]):
            if at_ms <= now_ms and self._timers.get(name) == at_ms:
                del self._timers[name]
                self.step(TimerFired(name))
        self._set_timer()

    def _set_timer(self) -> None:
        self._timer.set(min(self._timers.values(), default=None))

    def _run(self) -> None:
        self._is_stepping = True
        try:
            while self._events and not self._is_closed:
                event = self._events.popleft()
                now = Instant(self._clock.now_ms(), self._clock.wall_ms())
                for effect in self._machine.step(event, now):
                    self._perform(effect)
        except Exception as error:  # noqa: BLE001  # the machine's owner ends and reports it
            self.close()
            self._on_crash(error)
        finally:
            self._is_stepping = False

    def _perform(self, effect: object) -> None:
        match effect:
            case Submit():
                submit(self._store, effect, self._post)
            case SetTimer(name, at_ms):
                self._timers[name] = at_ms
                self._set_timer()
            case CancelTimer(name):
                self._timers.pop(name, None)
                self._set_timer()
            case _:
                self._perform_own(effect)  # type: ignore[arg-type]  # what is not shared is the machine's own


def _is_older(event: SharedEvent, incarnation: int) -> bool:
    """Returns whether the loss of this incarnation makes a session event obsolete."""
    match event:
        case SessionConnected(session):
            return session.incarnation <= incarnation
        case SessionSuspended(suspended):
            return suspended <= incarnation
        case _:
            return False
