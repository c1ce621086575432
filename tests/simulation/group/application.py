"""The application of a simulated consumer, and the source that gives it records without waiting.

The application polls, processes, commits, seeks and gets callbacks, in steps; its next step is drawn. What it
gets is checked at once: no record of a claim is delivered before `on_assigned` of that claim has returned,
and no commit covers a record that is not processed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from tests.simulation.schedule import Action
from zkgroup.consumer.callbacks import CallbackCall, RebalanceListener
from zkgroup.consumer.consumer_engine import ConsumerEngine
from zkgroup.consumer.lease import Lease
from zkgroup.consumer.subscription_state import PositionEpoch, SubscriptionState
from zkgroup.errors import CommitResult, OffsetOutOfRangeError, SourceUnavailableError
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Sleeper
from zkgroup.sources.port import Bounds, Record, RecordSource, SourceRecord
from zkgroup.testing.clock import FakeClock

T = TypeVar("T")

RECORDS_AT_FIRST = 3
TURN_MS = 4000
"""Longest wait of a fetcher without a wake-up, in ms of the clock."""


class Log:
    """Partitions whose records are their own offsets. Shared by the sources of all members."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self._ends: dict[TopicPartition, int] = {}
        self._earliest: dict[TopicPartition, int] = {}
        self._unavailable_until: dict[TopicPartition, int] = {}
        self.sources: list[SteppedSource] = []

    def end(self, tp: TopicPartition) -> int:
        return self._ends.get(tp, RECORDS_AT_FIRST)

    def append(self, tp: TopicPartition, count: int = 1) -> None:
        """Appends a number of records."""
        self._ends[tp] = self.end(tp) + count
        for source in self.sources:
            source.wake()

    def earliest(self, tp: TopicPartition) -> int:
        return self._earliest.get(tp, 0)

    def drop(self, tp: TopicPartition) -> None:
        """Appends a record, and deletes all records, as by retention."""
        self.append(tp)
        self._earliest[tp] = self.end(tp)

    def fail(self, tp: TopicPartition, until_ms: int) -> None:
        """Makes the partition unavailable for a while."""
        self._unavailable_until[tp] = until_ms

    def repair(self) -> None:
        """Makes all partitions available."""
        self._unavailable_until.clear()

    def check(self, tp: TopicPartition) -> None:
        """Raises `SourceUnavailableError`."""
        if self.clock.now_ms() < self._unavailable_until.get(tp, 0):
            raise SourceUnavailableError(f"{tp} has no leader")


class _NoSleep(Sleeper):
    """Remembers how long a thread would sleep."""

    until_ms: int | None = None

    def sleep(
        self,
        until_ms: int | None,
        wait: Callable[[float], T],
        wake: Callable[[], None],
        has_news: Callable[[], object] | None = None,
    ) -> T:
        del wake
        if not (has_news or self._usual_news)():
            self.until_ms = until_ms + TURN_MS if until_ms is not None else None
        return wait(0)


class SteppedSource(RecordSource):
    """The source of one consumer; where the default `poll` would wait, it returns."""

    poll_interval_s = 1.0
    is_rung = False
    """Called where a waiting `poll` would be woken now."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._sleeper = _NoSleep(log.clock, "source", lambda: False)
        log.sources.append(self)

    def wait_with(self, sleeper: Sleeper) -> None:
        del sleeper
        super().wait_with(self._sleeper)

    def slept_until(self) -> int | None:
        """The time until which the last `poll` would have waited; None where it would not. Reset by the
        call."""
        until_ms, self._sleeper.until_ms = self._sleeper.until_ms, None
        return until_ms

    def wake(self) -> None:
        self.is_rung = True
        super().wake()

    def bounds(self, topic_partition: TopicPartition) -> Bounds:
        self._log.check(topic_partition)
        return Bounds(self._log.earliest(topic_partition), self._log.end(topic_partition))

    def read(self, topic_partition: TopicPartition, offset: int, max_records: int) -> Sequence[SourceRecord]:
        self._log.check(topic_partition)
        end = self._log.end(topic_partition)
        if not self._log.earliest(topic_partition) <= offset <= end:
            raise OffsetOutOfRangeError(topic_partition, offset)
        topic, partition = topic_partition.topic, topic_partition.partition
        return [
            SourceRecord(topic, partition, at, b"") for at in range(offset, min(end, offset + max_records))
        ]

    def close(self) -> None:
        if self in self._log.sources:
            self._log.sources.remove(self)
        super().close()


TAKEN_AT_ONCE = (1, 1, 2, 5)
MANY = 1100
"""Number of commits in a burst: more than the member's scheduler starts without a response."""
BEHIND_OR_AHEAD = (-3, -1, 0, 0, 1, 4)
"""Distance of an application's own offset from its position."""


OPEN_MAX = 2
"""Most commits under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationOptions:
    """What an application does besides polling and committing processed records."""

    ack_mode: str = "auto"
    own_offsets: bool = False
    """Whether it commits offsets that it counts itself."""
    bursts: bool = False
    """Whether it sometimes requests a thousand commits at once."""
    seeks: bool = False
    calls_inside: bool = False
    """Whether it uses the consumer in its callbacks."""


class DeliveryError(AssertionError):
    """A consumer delivered or committed something that it must not."""


@dataclass(slots=True)
class ApplicationCommit:
    """A commit of the application, until its future ends."""

    future: Future[CommitResult]
    own: dict[TopicPartition, int] | None
    """The application's own offsets; None for a commit of the processed records."""
    claims: dict[TopicPartition, PositionEpoch]
    """The claims under which it was requested."""


class Application(RebalanceListener):
    """The program of one member. Its steps raise `DeliveryError` for a violation."""

    def __init__(self, rng: random.Random, habits: ApplicationOptions) -> None:
        self._rng = rng
        self._habits = habits
        self._acks = habits.ack_mode == "explicit"
        """Whether it acknowledges each record; otherwise the next poll does."""
        self._member: ConsumerEngine | None = None
        self._is_polling = False
        self._is_woken = False
        self.in_hand: list[Record] = []
        """Delivered and not acknowledged."""
        self._returned: set[int] = set()
        """Tokens of the claims whose `on_assigned` has returned."""
        self._assigning: dict[CallbackCall, list[int]] = {}
        self._assigned: list[int] = []
        self._open: list[ApplicationCommit] = []
        self.own_committed: set[int] = set()
        """Tokens of claims in which it has committed offsets of its own."""
        self.figures: Counter[str] = Counter()
        self._awaited: Future[CommitResult] | None = None
        """The future that the running callback waits for."""
        self.handed_back: list[Future[None]] = []
        self.stuck_until_ms = 0
        """It does nothing before this time, as if stuck in a record."""
        self.results: list[CommitResult] = []
        self.reached: dict[TopicPartition, int] = {}
        """The offset after the last record delivered."""

    def attach(self, member: ConsumerEngine) -> None:
        self._member = member

    @property
    def member(self) -> ConsumerEngine:
        assert self._member is not None
        return self._member

    def wake(self) -> None:
        """Wakes a waiting poll."""
        self._is_woken = True

    def on_assigned(self, leases: Sequence[Lease]) -> None:
        self._assigned = [lease.token for lease in leases]
        self._do_inside()

    def on_prepare(self, partitions: Sequence[TopicPartition]) -> None:
        self.figures["preparations"] += 1

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._do_inside()

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._do_inside()

    def _do_inside(self) -> None:
        """Uses the consumer inside a callback."""
        self._awaited = None
        if not self._habits.calls_inside:
            return
        self.figures["callback actions"] += 1
        action = self._rng.choice(
            ("nothing", "commit", "commit and wait", "seek", "pause", "hand back", "ack")
        )
        if action.startswith("commit"):
            future = self.commit()
            self._awaited = future if action == "commit and wait" else None
        elif action == "ack" and self._acks:
            while self.in_hand:
                self.ack(0)
        elif action in ("seek", "pause", "hand back") and self.owned:
            self._change(action, self._rng.choice(self.owned))

    def _change(self, action: str, tp: TopicPartition) -> None:
        if action == "seek":
            self.seek(tp)
        elif action == "hand back":
            self.hand_back(tp)
        else:
            self.member.delivery.pause([tp])
            self.member.delivery.resume([tp])

    def may_return(self) -> bool:
        """Whether the running callback can return."""
        return self._awaited is None or self._awaited.done()

    def began(self, call: CallbackCall) -> None:
        """Called when a callback has run and not returned yet."""
        self._assigning[call], self._assigned = self._assigned, []

    def returned(self, call: CallbackCall) -> None:
        self._returned.update(self._assigning.pop(call, ()))

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        return self.member.delivery.owned()

    @property
    def _subscriptions(self) -> SubscriptionState:
        return self.member.delivery._subscriptions

    @property
    def open_commits(self) -> int:
        return len(self._open)

    def actions(self) -> list[Action]:
        """Possible next steps of the application."""
        actions: list[Action] = []
        if self.member.engine.clock.now_ms() < self.stuck_until_ms:
            return actions
        if not self._is_polling:
            actions.append(self.begin_poll)
        elif self._is_woken:
            actions.append(self.take)
        if self._acks and self.in_hand:
            actions.append(lambda: self.ack(self._rng.randrange(len(self.in_hand))))
        owned = self.owned
        if owned and self.open_commits < OPEN_MAX:
            if self._rng.random() < 0.4:
                actions.append(self.commit)
            if self._habits.own_offsets and self._rng.random() < 0.5:
                actions.append(self.commit_own)
            if self._habits.bursts and not self.figures["bursts"] and self._rng.random() < 0.05:
                actions.append(self.commit_many)
        if owned and self._habits.seeks and self._rng.random() < 0.2:
            actions.append(lambda: self.seek(self._rng.choice(owned)))
        return actions

    def begin_poll(self) -> None:
        if not self._acks:
            self.in_hand.clear()
        self._is_polling = self._is_woken = True
        self.member.begin_poll()

    def take(self) -> None:
        """A waiting poll checks again; it ends where there are records."""
        self._is_woken = False
        records = self.member.delivery.take(self._rng.choice(TAKEN_AT_ONCE))
        if not records:
            return
        self._is_polling = False
        self.member.end_poll()
        for record in records:
            if record.token not in self._returned:
                raise DeliveryError(
                    f"{record.topic_partition} at {record.offset} was delivered before the on_assigned of "
                    f"its claim {record.token} had returned"
                )
            self.reached[record.topic_partition] = record.offset + 1
        self.in_hand += records

    def ack(self, index: int) -> None:
        self.member.ack(self.in_hand.pop(index))

    def commit(self) -> Future[CommitResult]:
        """Commits the processed records."""
        return self._order(None)

    def commit_own(self) -> None:
        """Commits an own offset of one partition: ahead of the processed records, or behind them."""
        tp = self._rng.choice(self.owned)
        at = self.member.delivery.position(tp)
        if at is not None:
            self.figures["commits of own offsets"] += 1
            self._order({tp: max(0, at + self._rng.choice(BEHIND_OR_AHEAD))})

    def commit_many(self) -> None:
        """Commits own offsets a thousand times without waiting, as tasks do that process one record each."""
        state = self._subscriptions.find(self._rng.choice(self.owned))
        if state is not None and not state.settling:
            self.figures["bursts"] += 1
            for _ in range(MANY):
                self._order({state.topic_partition: state.tracker.position})

    def _order(self, offsets: dict[TopicPartition, int] | None) -> Future[CommitResult]:
        claims = {tp: state.identity for tp, state in self._subscriptions.by_partition.items()}
        self.own_committed.update(claims[tp][0] for tp in offsets or () if tp in claims)
        self._open.append(ApplicationCommit(self.member.commit(offsets), offsets, claims))
        return self._open[-1].future

    def seek(self, tp: TopicPartition) -> None:
        """Seeks some records back or forward."""
        at = self.member.delivery.position(tp)
        if at is not None:
            self.figures["seeks"] += 1
            self.member.delivery.seek(tp, max(0, at + self._rng.choice((-4, -2, -1, 1))))

    def hand_back(self, tp: TopicPartition) -> None:
        self.handed_back.append(self.member.engine.hand_back([tp]))

    def reap(self) -> None:
        """Checks the results of commits that have ended."""
        if not any(ordered.future.done() for ordered in self._open):
            return
        ended = [ordered for ordered in self._open if ordered.future.done()]
        self._open = [ordered for ordered in self._open if not ordered.future.done()]
        for ordered in ended:
            if ordered.future.exception() is None:
                self.results.append(ordered.future.result())
                self._check_result(ordered)

    def _check_result(self, ordered: ApplicationCommit) -> None:
        result = ordered.future.result()
        for tp, value in result.committed.items():
            state = self._subscriptions.find(tp)
            if ordered.own is not None or state is None or state.sought or state.settling:
                continue
            # A position from before a reset would fail here: its records do not count as processed any more.
            is_same = state.grant.token == ordered.claims.get(tp, (0, 0))[0]
            if is_same and value > state.tracker.position:
                raise DeliveryError(f"{tp} committed at {value}, processed up to {state.tracker.position}")
        owned = self.member.engine._machine._components.context.owned.partitions
        for tp, error in result.refused.items():
            state, claim = self._subscriptions.find(tp), owned.get(tp)
            if ordered.own is None or state is None or claim is None or "without a seek" not in str(error):
                continue
            if claim.position_epoch > self._subscriptions.last_seek_id:
                continue  # by a later reset, which is not reported where the partition is being released
            # An offset up to what this member committed in this claim is committed.
            if state.identity == ordered.claims.get(tp) and ordered.own[tp] >= claim.floor:
                raise DeliveryError(f"{tp}: {ordered.own[tp]} is refused: {error}")

    def check_ended(self) -> None:
        """Checks that every requested commit has ended, after the member ended or converged."""
        waiting = [ordered.future for ordered in self._open] + self.handed_back
        if not all(future.done() for future in waiting):
            raise DeliveryError("a requested commit does not end")

    def calm(self) -> bool:
        """Performs one step of a plain application; False where it waits for records."""
        self.stuck_until_ms = 0
        while self._acks and self.in_hand:
            self.ack(0)
        if not self._is_polling:
            self.begin_poll()
        elif self._is_woken:
            self.take()
        else:
            return False
        return True
