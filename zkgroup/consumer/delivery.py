"""Delivers records from the source to the application: buffers, acknowledgements, commits, the reset policy.

Three threads use it, each briefly under one lock, which is not taken during calls of ZooKeeper, the source or
the application's code: the member's own (assigns, stops, commits), the fetcher (fills buffers through
`FetchBuffer`) and the application's (takes, acknowledges). No delivery of a record starts outside the lease.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from zkgroup.consumer.lease import DeliveryPort, ProcessedPositions
from zkgroup.consumer.machine.events import Assign, FinishCommit, SeekTo
from zkgroup.consumer.member_engine import MemberEngine
from zkgroup.consumer.subscription_state import (
    PendingRevocations,
    PositionEpoch,
    SubscriptionState,
    TopicPartitionState,
)
from zkgroup.consumer.telemetry import HistoryQueue
from zkgroup.errors import CommitResult
from zkgroup.model import LeaseGrant, TopicPartition
from zkgroup.sources.port import Record, SourceRecord

FETCH_RECORDS = 500
"""Most records of one partition in one fetch from the source."""


class Delivery(DeliveryPort):
    """The delivery of all partitions of one consumer."""

    def __init__(
        self,
        *,
        auto_ack: bool,
        auto_commit: bool,
        unacked_max: int,
        chunks_max: int,
        records_noted: bool,
        wake_fetcher: Callable[[], None],
        wake_application: Callable[[], None],
    ) -> None:
        self._auto_ack = auto_ack
        self._auto_commit = auto_commit
        self._unacked_max = unacked_max
        self._buffered_max = FETCH_RECORDS * chunks_max
        self._records_noted = records_noted
        self._wake_fetcher = wake_fetcher
        self._wake_application = wake_application
        self._subscriptions = SubscriptionState()
        self._history_queue = HistoryQueue(lambda kind, fields: self.host.note_delivery(kind, fields))
        self.fetch_buffer = FetchBuffer(
            self._subscriptions,
            lambda: self.host,
            buffered_max=self._buffered_max,
            history_queue=self._history_queue if records_noted else None,
            wake_application=wake_application,
        )
        self._paused: set[TopicPartition] = set()
        self._unacked_batch: list[Record] = []
        self._drains = PendingRevocations()
        self._given_up: set[TopicPartition] = set()
        """Revoked partitions, whose release commits the processed positions, until they are claimed again."""
        self._host: MemberEngine | None = None
        self.acks_ignored = 0
        """Number of acknowledgements that came after the partition was given up."""

    def attach(self, host: MemberEngine) -> None:
        """Connects the delivery with its member, before anything else is called."""
        self._host = host

    @property
    def host(self) -> MemberEngine:
        assert self._host is not None, "attach() comes first"
        return self._host

    def assigned(self, effect: Assign) -> None:
        with self._subscriptions.lock:
            self._subscriptions.last_seek_id = max(self._subscriptions.last_seek_id, effect.seek_id)
            for grant in effect.grants:
                self._given_up.discard(grant.topic_partition)
                state = TopicPartitionState(grant, self._unacked_max)
                state.paused = grant.topic_partition in self._paused
                self._subscriptions.by_partition[grant.topic_partition] = state
        self._wake_fetcher()

    def started(self, grants: Iterable[LeaseGrant]) -> None:
        with self._subscriptions.lock:
            for grant in grants:
                state = self._subscriptions.find(grant.topic_partition)
                if state is not None and state.grant.token == grant.token:
                    state.started = True
        self._wake_application()

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        with self._subscriptions.lock:
            for state in self._subscriptions.of(partitions):
                state.stopped = True
                state.buffer.clear()
        self._history_queue.send()  # before the member records that the ownership ends

    def drain(
        self, partitions: Iterable[TopicPartition], until_ms: int, done: Callable[[ProcessedPositions], None]
    ) -> None:
        wanted = frozenset(partitions)

        def finish() -> None:
            with self._subscriptions.lock:
                if not self._drains.take(number):
                    return
                processed = self._subscriptions.news(wanted if self._auto_commit else ())
                self._given_up |= wanted
            self._history_queue.send()  # before a commit covers it
            done(processed)

        with self._subscriptions.lock:
            number = self._drains.add(wanted, lambda: self.host.call_soon(finish))
            ready = self._drains.is_closed or self._subscriptions.are_drained(wanted)
        if ready:
            finish()
        else:
            self.host.call_at(f"drain-{number}", until_ms, finish)

    def ended(self, partitions: Iterable[TopicPartition]) -> None:
        with self._subscriptions.lock:
            for topic_partition in partitions:
                self._subscriptions.by_partition.pop(topic_partition, None)
        self._history_queue.send()
        self._wake_application()

    def extended(self) -> None:
        with self._subscriptions.lock:
            waiting = any(state.buffer for state in self._subscriptions.by_partition.values())
        if waiting:
            self._wake_application()

    def seek_performed(self, seek: SeekTo) -> None:
        with self._subscriptions.lock:
            self._subscriptions.last_seek_id = seek.seek_id
            state = self._subscriptions.find(seek.topic_partition)
            if state is not None:
                state.move(seek.offset if seek.offset >= 0 else None)
        self._wake_fetcher()

    def committed(self, outcome: FinishCommit) -> None:
        with self._subscriptions.lock:
            for topic_partition, offset in outcome.committed.items():
                if (state := self._subscriptions.find(topic_partition)) is not None:
                    state.was_committed(outcome.stored.get(topic_partition, offset))

    def finished(self) -> None:
        with self._subscriptions.lock:
            self._subscriptions.by_partition.clear()
        self._wake_application()
        self._wake_fetcher()

    def begin_poll(self) -> None:
        """Acknowledges, in automatic mode, the records that the last poll returned."""
        with self._subscriptions.lock:
            if self._auto_ack:
                for record in self._unacked_batch:
                    self._ack(record)
            self._unacked_batch.clear()
            drained = self._drains.ready(self._subscriptions.are_drained)
        self._history_queue.send()
        for finish in drained:
            finish()

    def take(self, max_records: int) -> list[Record]:
        """Up to `max_records` records, partition by partition in turn, each started within the lease."""
        records: list[Record] = []
        with self._subscriptions.lock:
            states = list(self._subscriptions.by_partition.values())
        for state in states:
            while taken := self._take_from(state, max_records - len(records)):
                records += taken
                self._history_queue.send()
            if len(records) >= max_records:
                break
        return records

    def _take_from(self, state: TopicPartitionState, max_records: int) -> list[Record]:
        """The next records of one partition; a single one if the start of each delivery is recorded."""
        records: list[Record] = []
        token, lease_table = state.grant.token, self.host.lease_table
        with self._subscriptions.lock:
            if self._subscriptions.find(state.topic_partition) is not state or not state.is_open:
                return records
            holdings = lease_table.current
            for _ in range(min(1, max_records) if self._records_noted else max_records):
                if not state.buffer or state.tracker.is_full:
                    break
                if not holdings.may_deliver(state.topic_partition, token, lease_table.now_ms()):
                    break
                records.append(state.hand_out())
                if self._records_noted:
                    self._note("deliver.start", records[-1], until_ms=holdings.until_ms)
            if records:
                self._subscriptions.put_last(state)
            is_low = state.reached_low_watermark(self._buffered_max)
            if self._auto_ack:
                self._unacked_batch.extend(records)
        if is_low:
            self._wake_fetcher()
        return records

    def ack(self, record: Record) -> bool:
        """Marks a record as processed; False (and counted) if its partition was given up."""
        with self._subscriptions.lock:
            acked = self._ack(record)
            drained = self._drains.ready(self._subscriptions.are_drained)
        self._history_queue.send()
        for finish in drained:
            finish()
        return acked

    def _ack(self, record: Record) -> bool:
        state = self._subscriptions.find(record.topic_partition)
        if state is None or state.grant.token != record.token:
            self.acks_ignored += 1
            return False
        was_full = state.tracker.is_full
        if state.tracker.is_waiting(record.offset) and self._records_noted:
            self._note("deliver.end", record)  # before any commit can cover it
        state.tracker.ack(record.offset)
        if was_full and not state.tracker.is_full:
            self._wake_application()
        return True

    def _note(self, kind: str, record: Record, **more: object) -> None:
        fields = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
        self._history_queue.add(kind, {**fields, "token": record.token, **more})

    def to_commit(self) -> ProcessedPositions:
        """The positions that are processed and not committed yet."""
        with self._subscriptions.lock:
            news = self._subscriptions.news(self._subscriptions.by_partition)
        self._history_queue.send()
        return news

    def is_given_up(self, topic_partition: TopicPartition) -> bool:
        """Returns whether the partition was revoked, so that its release commits its processed position."""
        with self._subscriptions.lock:
            return topic_partition in self._given_up

    def as_given(self, offsets: Positions) -> ProcessedPositions:
        """The positions for offsets that the application gave; they may go back after a seek."""
        with self._subscriptions.lock:
            given = ProcessedPositions(
                dict(offsets), self._subscriptions.seeks(offsets), self._subscriptions.last_seek_id
            )
        self._history_queue.send()
        return given

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stops delivery of these partitions until `resume`, also if they come back after a rebalance."""
        with self._subscriptions.lock:
            self._paused.update(partitions)
            for state in self._subscriptions.of(partitions):
                state.paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        with self._subscriptions.lock:
            self._paused.difference_update(partitions)
            for state in self._subscriptions.of(partitions):
                state.paused = False
        self._wake_application()

    @property
    def paused(self) -> frozenset[TopicPartition]:
        with self._subscriptions.lock:
            return frozenset(self._paused)

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Continues from this offset; raises `NotOwnerError` if the partition is not owned."""
        with self._subscriptions.lock:
            state = self._subscriptions.owned(topic_partition)
            state.seek(offset)
            if self._records_noted:
                self._history_queue.add("seek", state.place(offset))
            self._unacked_batch = [r for r in self._unacked_batch if r.topic_partition != topic_partition]
        self._history_queue.send()
        self._wake_fetcher()

    def position(self, topic_partition: TopicPartition) -> int | None:
        """Offset of the next record to be delivered; None until the reset policy has given one."""
        with self._subscriptions.lock:
            state = self._subscriptions.owned(topic_partition)
            return state.tracker.next_offset if state.fetch_offset is not None else None

    def owned(self) -> tuple[TopicPartition, ...]:
        with self._subscriptions.lock:
            return tuple(sorted(self._subscriptions.by_partition))

    def stop_draining(self) -> None:
        """Makes releases not wait for acknowledgements: the application is leaving."""
        with self._subscriptions.lock:
            finishes = self._drains.close()
        for finish in finishes:
            finish()

    def resume_draining(self) -> None:
        """Makes releases wait for acknowledgements again: the application polls again."""
        with self._subscriptions.lock:
            self._drains.reopen()


START_RETRY_MS = 200
"""Milliseconds before the commit of a start position is tried again."""

Positions = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class FetchOrder:
    """The partitions that the fetcher should fetch or resolve next."""

    unresolved: Mapping[TopicPartition, PositionEpoch]
    """Partitions whose start position the reset policy gives."""
    positions: Positions
    identities: Mapping[TopicPartition, PositionEpoch]
    """Identities of the partitions in `positions`: records fetched for another one are dropped."""


class FetchBuffer:
    """The fetcher's side of the delivery; start positions are committed on the member's thread."""

    def __init__(
        self,
        subscriptions: SubscriptionState,
        host: Callable[[], MemberEngine],
        *,
        buffered_max: int,
        history_queue: HistoryQueue | None,
        wake_application: Callable[[], None],
    ) -> None:
        self._subscriptions = subscriptions
        self._host = host
        self._buffered_max = buffered_max
        self._history_queue = history_queue
        self._wake_application = wake_application
        self._retries = 0

    def order(self) -> FetchOrder:
        """The partitions to fetch now; empty if there is nothing to do until `wake_fetcher`."""
        with self._subscriptions.lock:
            states = self._subscriptions.by_partition
            unresolved = {tp: state.identity for tp, state in states.items() if state.unresolved}
            wanted = {tp: state for tp, state in states.items() if state.wants}
            positions = {
                tp: state.fetch_offset for tp, state in wanted.items() if state.fetch_offset is not None
            }
            identities = {tp: state.identity for tp, state in wanted.items()}
        return FetchOrder(unresolved, positions, identities)

    def accept(self, order: FetchOrder, records: Sequence[SourceRecord]) -> None:
        """Buffers fetched records, except of partitions that were given up or sought meanwhile."""
        by_partition: dict[TopicPartition, list[SourceRecord]] = {}
        for record in records:
            by_partition.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        with self._subscriptions.lock:
            for topic_partition, fetched in by_partition.items():
                state = self._subscriptions.find(topic_partition)
                if state is None or state.stopped:
                    continue
                if order.identities.get(topic_partition) == state.identity:
                    state.accept(fetched, self._buffered_max)
        if records:
            self._wake_application()

    def out_of_range(self, topic_partition: TopicPartition, order: FetchOrder) -> None:
        """Makes the reset policy give another position: the source does not have this one."""
        with self._subscriptions.lock:
            state = self._subscriptions.find(topic_partition)
            if state is None or order.identities.get(topic_partition) != state.identity:
                return
            state.restart()

    def resolved(self, order: FetchOrder, starts: Positions) -> None:
        """Takes start positions of the reset policy; each is committed before its first delivery."""
        with self._subscriptions.lock:
            fresh: dict[TopicPartition, PositionEpoch] = {}
            for topic_partition, offset in starts.items():
                state = self._subscriptions.find(topic_partition)
                if state is None or state.identity != order.unresolved.get(topic_partition):
                    continue
                state.begin_at(offset)
                if self._history_queue is not None:
                    self._history_queue.add("seek" if state.sought else "start", state.place(offset))
                fresh[topic_partition] = state.identity
        if self._history_queue is not None:
            self._history_queue.send()
        if fresh:
            self._host().call_soon(lambda: self._commit_starts(fresh))

    def _commit_starts(self, wanted: Mapping[TopicPartition, PositionEpoch]) -> None:
        with self._subscriptions.lock:
            states = [state for _, state in self._settling(wanted)]
            positions = {state.topic_partition: state.tracker.position for state in states}
            processed = ProcessedPositions(
                positions, self._subscriptions.seeks(positions), self._subscriptions.last_seek_id
            )
        if positions:
            future: Future[CommitResult] = Future()
            future.add_done_callback(lambda done: self._starts_committed(done, wanted))
            self._host().begin_commit(processed, future)

    def _starts_committed(
        self, done: Future[CommitResult], wanted: Mapping[TopicPartition, PositionEpoch]
    ) -> None:
        """Handles the result of the commit, on the member's thread within the effect `FinishCommit`."""
        if done.exception() is not None:
            return  # the member has ended
        result = done.result()
        with self._subscriptions.lock:
            for topic_partition, state in self._settling(wanted):
                if topic_partition in result.committed:
                    state.settling = False
            left = {tp: state.identity for tp, state in self._settling(wanted)}
        self._wake_application()
        if left:
            self._retries += 1  # each batch has a timer of its own: batches may share partitions
            name = f"start-{self._retries}"
            at_ms = self._host().lease_table.now_ms() + START_RETRY_MS
            self._host().call_at(name, at_ms, lambda: self._commit_starts(left))

    def _settling(
        self, wanted: Mapping[TopicPartition, PositionEpoch]
    ) -> list[tuple[TopicPartition, TopicPartitionState]]:
        return [
            (tp, state)
            for tp, state in self._subscriptions.by_partition.items()
            if state.settling and not state.stopped and state.identity == wanted.get(tp)
        ]
