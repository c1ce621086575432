"""A machine's runtime in steps: inbox, timers and store, driven from outside. It decides nothing."""

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
"""Of one machine to ZooKeeper while the clock stands still. In 250 schedules a controller made 143 at most, a
broker 38: two plans of two phases were carried out within one millisecond. What asks without end makes
thousands."""


class Steps(Protocol):
    """What is stepped: any machine of ours."""

    def step(self, event: Any, now: Instant) -> Sequence[Any]: ...


@dataclass(frozen=True, slots=True)
class Task:
    """Something for the machine's thread that is no event."""

    run: Callable[[], None]


class Shell:
    """One machine. `perform` carries out the effects that are not shared by all machines."""

    def __init__(
        self, machine: Steps, store: Store, clock: FakeClock, perform: Callable[[Any], None]
    ) -> None:
        self.machine = machine
        self.inbox: deque[Any] = deque()
        self.steps = 0
        self._store = store
        self._clock = clock
        self._perform = perform
        self._timers: dict[str, int] = {}
        self._asked = (0, 0)
        """Time of the last request to ZooKeeper, and how many were made at that time."""
        self._is_over = False
        self._stop_listening = store.listen(self._heard)

    def _heard(self, event: SessionEvent) -> None:
        news = session_event(event)
        if not isinstance(news, SessionLost):
            self.tell(news)
        elif not self._is_over:
            self.inbox.appendleft(news)

    def tell(self, event: object) -> None:
        """Puts an event into the inbox."""
        if not self._is_over:
            self.inbox.append(event)

    def stop(self) -> None:
        """Nothing more is done, and nobody is told."""
        self._is_over = True
        self._stop_listening()
        self.inbox.clear()
        self._timers.clear()

    # --- time ---------------------------------------------------------------------------------------

    def has_due_timers(self) -> bool:
        now_ms = self._clock.now_ms()
        return any(at_ms <= now_ms for at_ms in self._timers.values())

    def next_timer_ms(self) -> int | None:
        return min(self._timers.values(), default=None)

    def fire_timers(self) -> None:
        """Puts what is due into the inbox, oldest first."""
        now_ms = self._clock.now_ms()
        due = sorted((at_ms, name) for name, at_ms in self._timers.items() if at_ms <= now_ms)
        for _, name in due:
            del self._timers[name]
            self.inbox.append(TimerFired(name))

    # --- a step -------------------------------------------------------------------------------------

    def take_event(self) -> None:
        """One step of the machine, or a task of the shell."""
        event = self.inbox.popleft()
        if isinstance(event, Task):
            event.run()
        else:
            self.give(event)

    def _count(self, now_ms: int) -> None:
        at_ms, count = self._asked
        self._asked = now_ms, count + 1 if at_ms == now_ms else 1
        name = type(self.machine).__name__
        assert self._asked[1] <= REQUESTS_MAX, f"pace: {self._asked[1]} requests of a {name} at one moment"

    def give(self, event: object) -> None:
        """Steps the machine with this event now."""
        self.steps += 1
        now = Instant(self._clock.now_ms(), self._clock.wall_ms())
        for effect in self.machine.step(event, now):
            match effect:
                case Submit():
                    self._count(now.ms)
                    submit(self._store, effect, self.tell)
                case SetTimer(name, at_ms):
                    self._timers[name] = at_ms
                case CancelTimer(name):
                    self._timers.pop(name, None)
                case _:
                    self._perform(effect)
