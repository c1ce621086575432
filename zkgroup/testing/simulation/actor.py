"""A member in steps: the production engine and machine, a client of the memory server, and no thread.

The scheduler decides when the loop handles what waits for it, when a callback begins and when it returns.
Every event and effect of the machine is seen on its way, and judged by the order rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from zkgroup.consumer import effects as ef
from zkgroup.consumer import events as ev
from zkgroup.consumer.callbacks import Callbacks
from zkgroup.consumer.engine import MemberEngine
from zkgroup.consumer.listener import RebalanceListener
from zkgroup.consumer.machine import MemberConfig, MemberDescription, MemberMachine
from zkgroup.consumer.share import Share
from zkgroup.machinery.effects import Ask
from zkgroup.metrics import NoMetrics
from zkgroup.model import LeaseGrant, TopicPartition
from zkgroup.model.ports import Instant
from zkgroup.model.requests import Request
from zkgroup.testing.clock import FakeClock
from zkgroup.testing.memory_zookeeper_client import MemoryClient
from zkgroup.testing.simulation.order import OrderRules
from zkgroup.testing.simulation.recording import Recording
from zkgroup.testing.simulation.runner import SteppedRunner

STANDSTILL_REQUESTS_MAX = 100
"""Of one member, while the clock stands still."""


class WatchedMachine(MemberMachine):
    """The machine, with an eye on all that goes in and comes out."""

    def __init__(self, config: MemberConfig) -> None:
        super().__init__(config)
        self._order = OrderRules(config.group)
        self._state = ef.MemberState.NEW
        self.finished: ef.Finish | None = None
        self.states: list[ef.MemberState] = []
        self.asked: list[Request] = []
        self.effects: list[ef.Effect] = []
        self.on_committed: Callable[[Mapping[TopicPartition, int]], None] = lambda stands: None
        """Told of offsets that count as committed."""
        self.on_extended: Callable[[int], None] = lambda until_ms: None
        """Told of the end of a lease that is granted."""
        self._asked_at = (0, 0)
        """A time, and the number of requests since the clock came there."""

    def step(self, event: ev.Event, now: Instant) -> tuple[ef.Effect, ...]:
        self._order.event(event)
        effects = super().step(event, now)
        for effect in effects:
            self._order.effect(effect)
            self._see(effect, now.ms)
        self.effects += effects
        return effects

    def _see(self, effect: ef.Effect, now_ms: int) -> None:
        if isinstance(effect, Ask):
            assert self.finished is None, "asks after Finish"
            self.asked.append(effect.request)
            self._count_request(now_ms)
        elif isinstance(effect, ef.ChangeState):
            assert effect.before is self._state, f"{effect.before} told, {self._state} known"
            self._state = effect.after
            self.states.append(effect.after)
        elif isinstance(effect, ef.FinishCommit):
            self.on_committed(effect.stands)
        elif isinstance(effect, ef.ExtendLease):
            self.on_extended(effect.until_ms)
        elif isinstance(effect, ef.Finish):
            self.finished = effect

    def _count_request(self, now_ms: int) -> None:
        at_ms, count = self._asked_at
        count = count + 1 if at_ms == now_ms else 1
        self._asked_at = (now_ms, count)
        assert count <= STANDSTILL_REQUESTS_MAX, (
            f"{count} requests of {self._parts.core.config.member_id} while the clock stands still"
        )


class Actor:
    """One member, stepped from outside."""

    def __init__(
        self,
        config: MemberConfig,
        client: MemoryClient,
        clock: FakeClock,
        recording: Recording,
        pid: int,
        *,
        listener: RebalanceListener | None = None,
        share: Share | None = None,
    ) -> None:
        self.member_id = config.member_id
        self.client = client
        self.pid = pid
        """Number of this process among all that were ever started."""
        self.runner = SteppedRunner()
        self.machine = WatchedMachine(config)
        self._config = config
        self._clock = clock
        self._recording = recording
        self._is_dead = False
        self.engine = self._open(listener, share)

    def _open(self, listener: RebalanceListener | None, share: Share | None) -> MemberEngine:
        engine = self._built(listener, share)
        engine.open()
        return engine

    def _built(self, listener: RebalanceListener | None, share: Share | None) -> MemberEngine:
        return MemberEngine(
            group=self._config.group,
            member=self.member_id,
            machine=self.machine,
            store=self.client,
            clock=self._clock,
            callbacks=Callbacks(listener, self.runner),
            callback_timeout_ms=self._config.settings.revoke_timeout_ms,
            owns_client=self._config.owns_client,
            history=self,
            metrics=NoMetrics(),
            share=share,
        )

    # --- what can be seen -------------------------------------------------------------------------

    @property
    def finished(self) -> ef.Finish | None:
        return self.machine.finished

    @property
    def state(self) -> ef.MemberState:
        return self.engine.state

    @property
    def states(self) -> list[ef.MemberState]:
        """All that it was in, in order."""
        return self.machine.states

    @property
    def asked(self) -> list[Request]:
        """Every request, in order."""
        return self.machine.asked

    @property
    def effects(self) -> list[ef.Effect]:
        """Every effect, in order."""
        return self.machine.effects

    def held(self) -> Mapping[TopicPartition, LeaseGrant]:
        """What the machine believes to own."""
        return self.machine.held()

    def handed_back(self) -> frozenset[TopicPartition]:
        """What its application does not want before a later plan."""
        return frozenset(self.machine._parts.core.owned.handed_back)

    def describe(self) -> MemberDescription:
        return self.machine.describe()

    # --- steps ------------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """The loop has something to handle."""
        return self.engine.loop.has_work

    def next_timer_ms(self) -> int | None:
        return self.engine.loop.next_timer_ms

    def run(self, limit: int = 1) -> int:
        """The loop handles up to so many of the entries that wait, and timers that are due."""
        return self.engine.loop.run_pending(limit)

    def post(self, event: ev.Event) -> None:
        """Gives the loop an event, after all that waits."""
        self.engine.loop.post(event)

    def give(self, event: ev.Event) -> None:
        """Gives the machine this event now."""
        self.engine.loop.step(event)

    def kill(self) -> None:
        """SIGKILL: nothing more is done, nobody is told."""
        self._is_dead = True
        self.engine.loop.stop()

    # --- HistorySink ------------------------------------------------------------------------------

    def record(self, kind: str, fields: Mapping[str, object]) -> None:
        """What a `HistoryFile` would write."""
        session = self.client.session.session_id if self.client.session else 0
        self._recording.record(self.pid, self.member_id, session, kind, fields)
