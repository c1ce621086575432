"""The runtime of a machine in steps: inbox, timers and store, driven by the schedule."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from zkgroup.model.ports import Instant, Store
from zkgroup.model.requests import SessionEvent
from zkgroup.runtime.events import CancelTimer, SessionLost, SetTimer, Submit, TimerFired
from zkgroup.runtime.loop import session_event, submit
from zkgroup.testing.clock import FakeClock

REQUESTS_MAX = 400
"""Most requests of one machine to ZooKeeper at one time of the clock. In 250 schedules a controller made 143
at most, a broker 38: two plans of two phases were executed within one millisecond. An endless loop makes
thousands."""


class SteppedMachine(Protocol):
    """The production machine of a controller or broker."""

    def step(self, event: Any, now: Instant) -> Sequence[Any]: ...


@dataclass(frozen=True, slots=True)
class Task:
    """Work for the machine's thread that is no event."""

    run: Callable[[], None]


class MachineShell:
    """The runtime of one machine. `perform` performs the effects that not all machines have."""

    def __init__(
        self, machine: SteppedMachine, store: Store, clock: FakeClock, perform: Callable[[Any], None]
    ) -> None:
        self.machine = machine
        self.inbox: deque[Any] = deque()
        self.steps = 0
        self._store = store
        self._clock = clock
        self._perform = perform
        self._timers: dict[str, int] = {}
        self._next_timer_ms: int | None = None
        """The earliest of them: it is asked for far more often than they change."""
        self._asked = (0, 0)
        """Time of the last request to ZooKeeper, and the number of requests at that time."""
        self._is_over = False
        self._stop_listening = store.listen(self._heard)

    def _heard(self, event: SessionEvent) -> None:
        news = session_event(event)
        if not isinstance(news, SessionLost):
            self.enqueue(news)
        elif not self._is_over:
            self.inbox.appendleft(news)

    def enqueue(self, event: object) -> None:
        """Puts an event into the inbox."""
        if not self._is_over:
            self.inbox.append(event)

    def stop(self) -> None:
        """Stops the machine without any notification."""
        self._is_over = True
        self._stop_listening()
        self.inbox.clear()
        self._timers.clear()
        self._next_timer_ms = None

    def has_due_timers(self) -> bool:
        return self._next_timer_ms is not None and self._next_timer_ms <= self._clock.now_ms()

    def next_timer_ms(self) -> int | None:
        return self._next_timer_ms

    def fire_timers(self) -> None:
        """Puts due timers into the inbox, oldest first."""
        now_ms = self._clock.now_ms()
        due = sorted((at_ms, name) for name, at_ms in self._timers.items() if at_ms <= now_ms)
        for _, name in due:
            del self._timers[name]
            self.inbox.append(TimerFired(name))
        self._next_timer_ms = min(self._timers.values(), default=None)

    def take_event(self) -> None:
        """Handles the next event of the inbox, or runs a task."""
        event = self.inbox.popleft()
        if isinstance(event, Task):
            event.run()
        else:
            self.step(event)

    def _count(self, now_ms: int) -> None:
        at_ms, count = self._asked
        self._asked = now_ms, count + 1 if at_ms == now_ms else 1
        name = type(self.machine).__name__
        assert self._asked[1] <= REQUESTS_MAX, (
            f"pace: {self._asked[1]} requests of a {name} at one time of the clock"
        )

    def step(self, event: object) -> None:
        """Steps the machine with this event now."""
        self.steps += 1
        now = Instant(self._clock.now_ms(), self._clock.wall_ms())
        for effect in self.machine.step(event, now):
            match effect:
                case Submit():
                    self._count(now.ms)
                    submit(self._store, effect, self.enqueue)
                case SetTimer(name, at_ms):
                    self._timers[name] = at_ms
                    self._next_timer_ms = min(self._timers.values())
                case CancelTimer(name):
                    self._timers.pop(name, None)
                    self._next_timer_ms = min(self._timers.values(), default=None)
                case _:
                    self._perform(effect)
