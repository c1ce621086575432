"""Members and consumers in steps: production engine, machine, delivery and callbacks, without a thread."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, cast
from weakref import WeakKeyDictionary

from tests.simulation.group.application import Application, Log, SteppedSource
from tests.simulation.group.step_checks import EffectOrderChecker
from tests.simulation.schedule import ScheduleRecording
from zkgroup.consumer._base import MemberOptions
from zkgroup.consumer.callbacks import CallbackCall, Callbacks, RebalanceListener
from zkgroup.consumer.consumer_engine import ConsumerEngine
from zkgroup.consumer.delivery import Delivery
from zkgroup.consumer.lease import DeliveryPort, ProcessedPositions
from zkgroup.consumer.machine import MemberConfig, MemberMachine, MemberSnapshot
from zkgroup.consumer.machine import events as ef
from zkgroup.consumer.machine import events as ev
from zkgroup.consumer.machine.membership import SharedSession
from zkgroup.consumer.member_engine import MemberEngine
from zkgroup.errors import MemberIdInUseError
from zkgroup.model import LeaseGrant, TopicPartition
from zkgroup.model.ports import Instant
from zkgroup.model.requests import Request
from zkgroup.runtime.events import Submit
from zkgroup.testing.clock import FakeClock
from zkgroup.testing.memory_zookeeper.client import MemoryClient


class SteppedRunner:
    """A `CallbackRunner` in steps. The work of a callback is done when it begins; it returns later, or
    never."""

    def __init__(self) -> None:
        self._waiting: deque[CallbackCall] = deque()
        self._running: CallbackCall | None = None
        self._left: list[CallbackCall] = []
        """Calls whose return is no longer awaited, and that have not returned yet."""
        self._errors: dict[CallbackCall, BaseException] = {}
        self._inside = False
        self._other: SteppedRunner | None = None
        self.may_return: Callable[[], bool] = lambda: True
        """Whether the running callback can return."""

    def submit(self, call: CallbackCall) -> None:
        self._waiting.append(call)

    def stop_waiting_for(self, call: CallbackCall) -> bool:
        if call in self._waiting:
            self._waiting.remove(call)
            return False
        if self._running is call:
            self._running = None
            self._left.append(call)
        return True

    def another(self) -> SteppedRunner:
        """The one for `on_prepare`."""
        made = SteppedRunner()
        self._other = made
        return made

    @property
    def can_prepare(self) -> bool:
        """Whether `on_prepare` is to be called, or to return."""
        return self._other is not None and (self._other.can_begin or self._other._running is not None)

    def prepare(self) -> None:
        """Has `on_prepare` begin, or return."""
        assert self._other is not None
        (self._other.begin if self._other.can_begin else self._other.finish)()

    @property
    def running(self) -> CallbackCall | None:
        return self._running

    def is_inside(self) -> bool:
        return self._inside

    def stop(self, timeout_s: float) -> bool:
        del timeout_s
        return self._running is None

    @property
    def can_begin(self) -> bool:
        return self._running is None and bool(self._waiting)

    @property
    def can_return(self) -> bool:
        return self._running is not None and self.may_return()

    @property
    def can_return_late(self) -> bool:
        return bool(self._left)

    def begin(self) -> CallbackCall:
        """Runs the next callback. Its exception is reported when it returns."""
        call = self._running = self._waiting.popleft()
        self._inside = True
        try:
            call.run()
        except Exception as error:  # noqa: BLE001 - the application's; it is given to the member below
            self._errors[call] = error
        finally:
            self._inside = False
        return call

    def finish(self) -> CallbackCall:
        """Ends the running callback."""
        assert self._running is not None
        call, self._running = self._running, None
        call.done(self._errors.pop(call, None))
        return call

    def finish_late(self) -> CallbackCall:
        """Ends a callback whose return is no longer awaited."""
        call = self._left.pop(0)
        call.done(self._errors.pop(call, None))
        return call


STANDSTILL_REQUESTS_MAX = 100
"""Most requests of one member at one time of the clock."""


_acknowledged: WeakKeyDictionary[SharedSession, Counter[str]] = WeakKeyDictionary()


class CheckedMachine(MemberMachine):
    """The production machine, with checks on all its events and effects."""

    def __init__(self, config: MemberConfig) -> None:
        super().__init__(config)
        self._order = EffectOrderChecker(config.group)
        self._state = ef.MemberState.NEW
        self.finished: ef.Finish | None = None
        self.states: list[ef.MemberState] = []
        self.asked: list[Request] = []
        self.effects: list[ef.Effect] = []
        self.on_committed: Callable[[Mapping[TopicPartition, int]], None] = lambda committed: None
        """Called with offsets that count as committed."""
        self.on_extended: Callable[[int], None] = lambda until_ms: None
        """Called with the end of a granted lease."""
        self.let_go: set[TopicPartition] | None = set()
        """Partitions that it has released or may release without a rebalance; None if it has ever left."""
        self.session_id: int | None = None
        """The session before the present step, which may lose it behind the extension of a lease."""
        self._asked_at = (0, 0)
        """A time, and the number of requests at that time."""

    def share_session(self, shared: SharedSession) -> None:
        super().share_session(shared)
        self._order.acknowledged = _acknowledged.setdefault(shared, Counter())

    def step(self, event: ev.Event, now: Instant) -> tuple[ef.Effect, ...]:
        session = self._components.context.session
        self.session_id = session.session_id if session is not None else None
        self._order.event(event)
        effects = super().step(event, now)
        for effect in effects:
            self._order.effect(effect)
            self._see(effect, now.ms)
        owned = self._components.context.owned
        if self._components.context.is_leaving:
            self.let_go = None
        elif self.let_go is not None:
            self.let_go |= owned.handed_back | owned.orphaned
        self.effects += effects
        return effects

    def _see(self, effect: ef.Effect, now_ms: int) -> None:
        if isinstance(effect, Submit):
            assert self.finished is None, "sends a request after Finish"
            self.asked.append(effect.request)
            self._count_request(now_ms)
        elif isinstance(effect, ef.ChangeState):
            assert effect.before is self._state, f"{effect.before} reported, {self._state} known"
            self._state = effect.after
            self.states.append(effect.after)
        elif isinstance(effect, ef.FinishCommit):
            self.on_committed(effect.stored)
        elif isinstance(effect, ef.ExtendLease):
            self.on_extended(effect.until_ms)
        elif isinstance(effect, ef.Finish):
            self.finished = effect

    def _count_request(self, now_ms: int) -> None:
        at_ms, count = self._asked_at
        count = count + 1 if at_ms == now_ms else 1
        self._asked_at = (now_ms, count)
        assert count <= STANDSTILL_REQUESTS_MAX, (
            f"{count} requests of {self._components.context.config.member_id} at one time of the clock"
        )


class Actor:
    """One member, stepped by the schedule."""

    def __init__(
        self,
        config: MemberConfig,
        client: MemoryClient,
        clock: FakeClock,
        recording: ScheduleRecording,
        pid: int,
        *,
        listener: RebalanceListener | None = None,
        share: DeliveryPort | None = None,
    ) -> None:
        self.member_id = config.member_id
        self.client = client
        self.pid = pid
        """Number of this process among all started ones."""
        self.runner = SteppedRunner()
        self.machine = CheckedMachine(config)
        self._config = config
        self._clock = clock
        self._recording = recording
        self._is_dead = False
        self.engine = self._open(listener, share)

    def _open(self, listener: RebalanceListener | None, share: DeliveryPort | None) -> MemberEngine:
        engine = self._built(listener, share)
        engine.open()
        return engine

    def _built(self, listener: RebalanceListener | None, share: DeliveryPort | None) -> MemberEngine:
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
            metrics=None,
            delivery=share,
        )

    @property
    def finished(self) -> ef.Finish | None:
        return self.machine.finished

    @property
    def state(self) -> ef.MemberState:
        return self.engine.state

    @property
    def states(self) -> list[ef.MemberState]:
        """All its states, in order."""
        return self.machine.states

    @property
    def asked(self) -> list[Request]:
        """Every request, in order."""
        return self.machine.asked

    @property
    def effects(self) -> list[ef.Effect]:
        """Every effect, in order."""
        return self.machine.effects

    def grants(self) -> Mapping[TopicPartition, LeaseGrant]:
        """Partitions that the machine owns, with their leases."""
        return self.machine.grants()

    def handed_back(self) -> frozenset[TopicPartition]:
        """Partitions that its application handed back until the next assignment."""
        return frozenset(self.machine._components.context.owned.handed_back)

    def describe(self) -> MemberSnapshot:
        return self.machine.describe()

    @property
    def has_work(self) -> bool:
        """Whether the loop has something to handle."""
        return self.engine.loop.has_work

    def next_timer_ms(self) -> int | None:
        return self.engine.loop.next_timer_ms

    def run(self, limit: int = 1) -> int:
        """Has the loop handle up to `limit` waiting entries, and timers that are due."""
        return self.engine.loop.run_pending(limit)

    def post(self, event: ev.Event) -> None:
        """Puts an event at the end of the loop's queue."""
        self.engine.loop.post(event)

    def give(self, event: ev.Event) -> None:
        """Steps the machine with this event now."""
        self.engine.loop.step(event)

    def kill(self) -> None:
        """Ends the member as by SIGKILL, without any notification."""
        self._is_dead = True
        self.engine.loop.stop()

    def record(self, kind: str, fields: Mapping[str, object]) -> None:
        """Adds a record, as a `HistoryFile` would."""
        session = self.client.session.session_id if self.client.session else 0
        self._recording.record(self.pid, self.member_id, session, kind, fields)


class CheckedLock:
    """The delivery's lock, which detects that its holder takes it again."""

    def __init__(self) -> None:
        self.is_held = False
        self.was_taken_twice = False

    def __enter__(self) -> None:
        if self.is_held:
            self.was_taken_twice = True  # the caller may catch errors of the application
            raise AssertionError("the holder of the delivery's lock takes it again")
        self.is_held = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.is_held = False


class ConsumingActor(Actor):
    """One consumer, stepped by the schedule."""

    def __init__(
        self,
        config: MemberConfig,
        client: MemoryClient,
        clock: FakeClock,
        recording: ScheduleRecording,
        pid: int,
        *,
        log: Log,
        application: Application,
        acknowledged: Callable[[Mapping[TopicPartition, int]], None],
    ) -> None:
        self.application = application
        self._source = SteppedSource(log)
        self._fetch_due_ms: int | None = 0
        self._acknowledged = acknowledged
        self._lock = CheckedLock()
        self._complaints: list[str] = []
        self._sought: dict[TopicPartition, tuple[int, int]] = {}
        """Claims with a seek that are being released: token, and position to be released with."""
        super().__init__(config, client, clock, recording, pid, listener=application)
        self.runner.may_return = application.may_return
        self.machine.on_committed = self._committed

    def _open(self, listener: RebalanceListener | None, share: DeliveryPort | None) -> MemberEngine:
        """Opens the member with its delivery."""
        del share
        config = self._config
        options = MemberOptions(
            address=None,
            client=self.client,
            group=config.group,
            subscription=config.subscription,
            settings=config.settings,
            listener=listener,
            history=self,
            metrics=None,
            clock=self._clock,
            connection=None,
        )
        self.member = ConsumerEngine(
            options,
            self._source,
            self.runner,
            self.application.wake,
            lambda _, __, share: self._built(listener, share),
        )
        self.member.delivery._subscriptions.lock = self._lock  # type: ignore[assignment]
        self.application.attach(self.member)
        self._watch_drains(self.member.delivery)
        self.member.open()
        return self.member.engine

    def _committed(self, committed: Mapping[TopicPartition, int]) -> None:
        """Checks that committed offsets are in the tree, and no further than the processed records."""
        self._acknowledged(committed)
        subscriptions = self.member.delivery._subscriptions
        for tp, value in committed.items():
            state, owned = subscriptions.find(tp), self.machine._components.context.owned.partitions.get(tp)
            if state is None or owned is None or state.grant.token != owned.token or state.settling:
                continue
            is_of_before = state.sought != owned.sought or owned.position_epoch > subscriptions.last_seek_id
            if is_of_before or owned.token in self.application.own_committed:
                continue
            at = state.tracker.position
            assert value <= at, f"{tp} is committed at {value}, processed up to {at}"

    def _watch_drains(self, delivery: Delivery) -> None:
        """Remembers the final position of each released claim with a seek."""
        real = delivery.drain

        def drain(
            partitions: Iterable[TopicPartition], until_ms: int, done: Callable[[ProcessedPositions], None]
        ) -> None:
            tokens = {tp: self.grants()[tp].token for tp in partitions if tp in self.grants()}

            def drained(processed: ProcessedPositions) -> None:
                for tp in processed.seeks.keys() & tokens.keys() & processed.positions.keys():
                    if tokens[tp] not in self.application.own_committed:
                        self._sought[tp] = (tokens[tp], processed.positions[tp])
                done(processed)

            real(partitions, until_ms, drained)

        delivery.drain = drain  # type: ignore[method-assign]

    def _check_release(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """The position of a seek is released with the partition, unless the offset was changed since."""
        for row in rows:
            tp, offset = TopicPartition(row["topic"], row["partition"]), row["offset"]
            token, position = self._sought.pop(tp, (None, None))
            if token == row["token"] and offset is not None and offset != position:
                self._complaints.append(f"{tp} had a seek, processed up to {position}, released at {offset}")

    def next_timer_ms(self) -> int | None:
        times = [at for at in (super().next_timer_ms(), self._fetch_due_ms) if at is not None]
        return min(times, default=None)

    @property
    def can_fetch(self) -> bool:
        """Whether the fetcher has something to do."""
        if self.finished is not None:
            return False
        is_due = self._fetch_due_ms is not None and self._clock.now_ms() >= self._fetch_due_ms
        return is_due or self.member.fetcher._work.is_set() or self._source.is_rung

    def fetch(self) -> None:
        """Runs one round of the fetcher."""
        self._source.is_rung = False
        due_ms = self.member.fetcher.run_pending()
        slept_ms = self._source.slept_until()
        self._fetch_due_ms = due_ms if slept_ms is None else slept_ms

    def begin_callback(self) -> None:
        self.application.began(self.runner.begin())

    def end_callback(self) -> None:
        self.application.returned(self.runner.finish())

    def end_late_callback(self) -> None:
        self.application.returned(self.runner.finish_late())

    def check(self) -> None:
        """Raises AssertionError for violations in earlier steps."""
        assert not self._lock.was_taken_twice, "application code was called under the lock of the delivery"
        assert not self._complaints, "; ".join(self._complaints)
        if self.finished is not None:
            self._source.close()
            self.application.check_ended()
            error = (
                self.finished.error
            )  # the id is in use while the session of a killed process has not expired
            is_in_order = error is None or isinstance(error, MemberIdInUseError)
            assert is_in_order, f"{self.member_id} failed: {error!r}"
        self.application.reap()

    def record(self, kind: str, fields: Mapping[str, object]) -> None:
        self._lock.was_taken_twice |= self._lock.is_held
        if kind in ("reset.applied", "foreign_write"):  # the position changes
            self._sought.pop(TopicPartition(str(fields["topic"]), cast("int", fields["partition"])), None)
        if kind == "release.ok":
            self._check_release(cast("Iterable[Mapping[str, Any]]", fields["partitions"]))
        super().record(kind, fields)

    def leave(self, timeout_s: float, *, leave: bool = True) -> None:
        self.member.begin_close(timeout_s, leave=leave)

    def kill(self) -> None:
        super().kill()
        self._source.close()
