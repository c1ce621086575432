"""A member in the simulation: a real machine, a client of the memory server, an application.

The actor is the shell in small: it keeps the inbox (where the session's loss jumps the queue) and the
timers, and carries effects out in their order. It decides nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import assert_never

from zkgroup.consumer import effects as ef
from zkgroup.consumer import events as ev
from zkgroup.consumer.machine import MemberConfig, MemberMachine
from zkgroup.errors import CommitResult
from zkgroup.machinery.effects import Ask, CancelTimer, Note, SetTimer
from zkgroup.machinery.events import (
    SessionLost,
    TimerFired,
)
from zkgroup.machinery.store_events import session_event, submit
from zkgroup.model.ports import Instant
from zkgroup.model.requests import Request, SessionEvent
from zkgroup.testing.clock import FakeClock
from zkgroup.testing.memory_zookeeper_client import MemoryClient
from zkgroup.testing.simulation.application import Application
from zkgroup.testing.simulation.order import OrderRules
from zkgroup.testing.simulation.recording import Recording


class Actor:
    """One member, stepped from outside."""

    def __init__(
        self,
        config: MemberConfig,
        client: MemoryClient,
        clock: FakeClock,
        recording: Recording,
        pid: int,
    ) -> None:
        self.member_id = config.member_id
        self.client = client
        self.machine = MemberMachine(config)
        self.application = Application(self._record)
        self._order = OrderRules(config.group)
        self.inbox: deque[ev.Event] = deque()
        self.finished: ef.Finish | None = None
        self.state = ef.MemberState.NEW
        self.states: list[ef.MemberState] = []
        self.asked: list[Request] = []
        """Every request, in order."""
        self.effects: list[ef.Effect] = []
        """Every effect, in order."""
        self.pid = pid
        """Number of this process among all that were ever started."""
        self._clock = clock
        self._recording = recording
        self._timers: dict[str, int] = {}
        self._stop_listening = client.listen(self._heard)
        self.inbox.append(ev.Opened())

    # --- inbox ------------------------------------------------------------------------------------

    def _heard(self, event: SessionEvent) -> None:
        news = session_event(event)
        if isinstance(news, SessionLost):
            self.inbox.appendleft(news)
        else:
            self.inbox.append(news)

    def due_timers(self) -> list[str]:
        now_ms = self._clock.now_ms()
        return [name for name, at_ms in self._timers.items() if at_ms <= now_ms]

    def next_timer_ms(self) -> int | None:
        return min(self._timers.values(), default=None)

    def fire_timers(self) -> None:
        """Puts what is due into the inbox, oldest first."""
        for name in sorted(self.due_timers(), key=lambda n: (self._timers[n], n)):
            del self._timers[name]
            self.inbox.append(TimerFired(name))

    def take_event(self) -> None:
        """One step of the machine."""
        self.give(self.inbox.popleft())

    def give(self, event: ev.Event) -> None:
        """Steps the machine with this event now."""
        now = Instant(self._clock.now_ms(), self._clock.wall_ms())
        self._order.event(event)
        for effect in self.machine.step(event, now):
            self._order.effect(effect)
            self._perform(effect)

    def commit(self) -> None:
        """The application asks for a commit of everything that it owns."""
        request = self.application.commit()
        if request is not None:
            self.inbox.append(request)

    def answer_call(self, call_id: int) -> None:
        """The application's callback returns."""
        self.inbox.append(self.application.answer_call(call_id))

    def kill(self) -> None:
        """SIGKILL: nothing more is done, nobody is told."""
        self._stop_listening()
        self.inbox.clear()
        self._timers.clear()

    # --- effects ----------------------------------------------------------------------------------

    def _perform(self, effect: ef.Effect) -> None:  # noqa: C901 - one arm an effect
        application = self.application
        self.effects.append(effect)
        match effect:
            case Ask():
                self._ask(effect)
            case SetTimer(name, at_ms):
                self._timers[name] = at_ms
            case CancelTimer(name):
                self._timers.pop(name, None)
            case ef.Assign():
                application.assign(effect)
            case ef.Revoke():
                application.revoke(effect)
            case ef.EndOverdue(call_id, partitions):
                application.end_call(call_id, partitions)
            case ef.EndLease(partitions) | ef.Lose(partitions, _):
                application.end(partitions)
            case ef.ExtendLease(until_ms):
                application.extend(until_ms)
            case ef.MoveTo():
                application.move(effect)
            case ef.FinishCommit(commit_id, committed, refused, stands):
                application.committed(commit_id, CommitResult(committed, refused), stands)
            case ef.ChangeState(before, after, reason):
                assert before is self.state, f"{before} told, {self.state} known"
                self.state = after
                self.states.append(after)
                self._record("state", before=before.value, after=after.value, reason=reason)
            case ef.Abandon(incarnation, reason):
                self.client.abandon(incarnation, reason)
            case Note(kind, fields):
                self._record(kind, **fields)
            case ef.Finish():
                self._finish(effect)
            case _:
                assert_never(effect)

    def _ask(self, effect: Ask) -> None:
        assert self.finished is None, "asks after Finish"
        self.asked.append(effect.request)
        submit(self.client, effect, self.inbox.append)

    def _finish(self, effect: ef.Finish) -> None:
        self.finished = effect
        self._stop_listening()
        if effect.close_session:
            self.client.close()

    def _record(self, kind: str, **fields: object) -> None:
        record: Mapping[str, object] = fields
        session = self.client.session.session_id if self.client.session else 0
        self._recording.record(self.pid, self.member_id, session, kind, record)
