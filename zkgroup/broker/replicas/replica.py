"""One replica of a partition: its role, its appends, and its answers to Fetch. Pure but for its log.

A replica may lead only if its log reaches the high watermark that is stored with it. A log that ends below
its stored high watermark has lost acknowledged records. A log that was created for a follower in a leader
epoch above 0 has no stored high watermark until the follower has been level with a leader. Without this rule
a replica with an emptied directory could win an election and delete the topic's records.

A `ReplicaStorageError` of the log is not caught: the replica cannot be used after it. A leader that finds
that it has lost records raises the same error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from zkgroup.broker.log.partition_log import PartitionLog
from zkgroup.broker.replica_view import FETCH_BYTES_MAX, AppendResult, ReplicaView, Role
from zkgroup.broker.replicas.leader_state import LeaderState
from zkgroup.errors import IllegalTransitionError, ReplicaStorageError
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.record_batch import HEADER_BYTES, read_header
from zkgroup.wire.records import (
    CONSUMER_REPLICA,
    EARLIEST,
    HIGH_WATERMARK,
    LATEST,
    NO_EPOCH,
    NO_EPOCH_END,
    NO_OFFSET,
    OBSERVER_REPLICA,
    EpochEnd,
    EpochEndResult,
    EpochPartition,
    FetchedPartition,
    FetchPartition,
    ListedPartition,
    ListOffsetsPartition,
)
from zkgroup.wire.schema import Buffer


class _Limit(NamedTuple):
    """The size of the records in an answer."""

    max_bytes: int
    at_least_one: bool
    """True if the first batch comes however large it is."""


class FollowerState(NamedTuple):
    """The progress of a follower in one leader epoch."""

    leader_epoch: int
    level_at: int | None
    """The leader's log end offset when the two logs first agreed in this leader epoch; None before."""


class StrandedFollower(NamedTuple):
    """A follower whose files have failed; the first two fields are those of `FollowerState`."""

    leader_epoch: int
    level_at: int | None
    was_open: bool
    """True if its files were open in this process before. If not, it may never have had any."""


class Replica:
    """A replica of one partition on one broker."""

    def __init__(self, broker: int, topic_partition: TopicPartition, log: PartitionLog) -> None:
        self._broker = broker
        self._topic_partition = topic_partition
        self._log = log
        self.role = Role.NONE
        self._leader_epoch = NO_EPOCH
        self._leader_state: LeaderState | None = None
        self._level_at: int | None = None
        """See `FollowerState`."""
        self._has_asked = False
        """True if it has said where to fetch since it took its role: an answer before that is for another
        replica, perhaps of a deleted topic of the same name."""
        self.failure: str | None = None
        """The reason why the replica has no role or cannot take its leader's records; else None."""

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def high_watermark(self) -> int:
        log = self._log
        return max(log.start_offset, min(log.kept_high_watermark or 0, log.end_offset))

    @property
    def mark(self) -> tuple[object, ...]:
        """The state that the fetch of a follower that has everything depends on, to find changes."""
        log, leader_state = self._log, self._leader_state
        others = () if leader_state is None else leader_state.others
        starts = 0 if leader_state is None else leader_state.starts_changed
        offsets = log.end_offset, self.high_watermark, log.start_offset
        return self.role, self._leader_epoch, *offsets, others, starts

    @property
    def maximal_isr_size(self) -> int | None:
        """Size of the maximal ISR, for which the high watermark waits; None if this replica does not lead."""
        return None if self._leader_state is None else self._leader_state.maximal_isr_size

    @property
    def leads(self) -> bool:
        return self._leader_state is not None

    @property
    def size(self) -> int:
        """Bytes in the segments of its log."""
        return self._log.size

    def view(self) -> ReplicaView:
        leader_state = self._leader_state
        return ReplicaView(
            role=self.role,
            leader_epoch=NO_EPOCH if self.role is Role.NONE else self._leader_epoch,
            log_end_offset=self.end_offset,
            high_watermark=self.high_watermark,
            leader_epoch_start=-1 if leader_state is None else leader_state.start_offset,
            followers={} if leader_state is None else leader_state.followers(self.high_watermark),
            failure=self.failure,
        )

    def _lacks(self, leader_epoch: int) -> str | None:
        """The reason why this replica must not lead; None if it may."""
        if self._log.epochs.last > leader_epoch:
            return self._from_later()
        kept = self._log.kept_high_watermark
        if kept is None:
            return (
                "it may lack records: it was created in a later leader epoch, and never caught up with a "
                "leader"
            )
        if kept > self.end_offset:
            return f"records are lost: it ends at {self.end_offset}, and {kept} was its high watermark"
        return None

    def lead(self, leader_epoch: int, replicas: Collection[int], isr: Collection[int]) -> ErrorCode:
        """Becomes leader, or sets the replicas and ISR of a leader; see `ReplicaManager.become_leader`."""
        if self._leader_state is None or self._leader_state.leader_epoch != leader_epoch:
            self._enter(leader_epoch, Role.LEADER)
            if (lack := self._lacks(leader_epoch)) is not None:
                return self._give_up(f"cannot lead in epoch {leader_epoch}: {lack}")
            self._log.begin_epoch(leader_epoch)
            self._leader_state = LeaderState(self._broker, leader_epoch, self.end_offset)
            self.role = Role.LEADER
        self._leader_state.set_replicas(replicas)
        self._leader_state.set_maximal_isr(isr)
        self._advance(self._leader_state)
        return ErrorCode.NONE

    def follow(self, leader_epoch: int, level_at: int | None = None) -> ErrorCode:
        """Becomes follower, or stays it. `level_at` is that of an earlier `FollowerState` of this epoch."""
        if self.role is not Role.FOLLOWER or self._leader_epoch != leader_epoch:
            self._enter(leader_epoch, Role.FOLLOWER)
            if self._log.epochs.last > leader_epoch:
                return self._give_up(f"cannot follow in epoch {leader_epoch}: {self._from_later()}")
            self.role = Role.FOLLOWER
            self._level_at = level_at
        return ErrorCode.NONE

    @property
    def following(self) -> FollowerState | None:
        """The state that `follow` needs after the log is opened again; None if it does not follow."""
        return FollowerState(self._leader_epoch, self._level_at) if self.role is Role.FOLLOWER else None

    def stop(self) -> None:
        """Ends the role."""
        self.role = Role.NONE
        self._leader_state = self._level_at = self.failure = None

    def flush_rolled(self) -> None:
        """Forces the full segments of the log to the disk."""
        self._log.flush_rolled()

    def _enter(self, leader_epoch: int, role: Role) -> None:
        same = leader_epoch == self._leader_epoch and self.role not in (Role.NONE, role)
        if leader_epoch < self._leader_epoch or same:
            now = f"{self.role.value} in epoch {self._leader_epoch}"
            raise IllegalTransitionError(
                f"{self._topic_partition}: {role.value} in epoch {leader_epoch}, after {now}"
            )
        self.stop()
        self._has_asked = False
        self._leader_epoch = leader_epoch

    def _give_up(self, failure: str) -> ErrorCode:
        """Stores the reason why the replica has no role in the present leader epoch."""
        self.failure = failure
        return ErrorCode.KAFKA_STORAGE_ERROR

    def _from_later(self) -> str:
        return f"its records are from epoch {self._log.epochs.last}"

    def set_replicas(self, leader_epoch: int, replicas: Collection[int]) -> None:
        """Sets the replicas, if this replica leads at that leader epoch."""
        if self._leader_state is not None and self._leader_state.leader_epoch == leader_epoch:
            self._leader_state.set_replicas(replicas)

    def set_maximal_isr(self, leader_epoch: int, isr: Collection[int]) -> None:
        """Sets the maximal ISR, for which the high watermark waits, if this replica leads at that epoch."""
        if self._leader_state is not None and self._leader_state.leader_epoch == leader_epoch:
            self._leader_state.set_maximal_isr(isr)
            self._advance(self._leader_state)

    def append(self, records: Buffer, now_ms: int, leader_epoch: int = NO_EPOCH) -> AppendResult:
        """Appends a client's record batches, all or none; see `ReplicaManager.append`."""
        present = NO_EPOCH if self._leader_state is None else self._leader_state.leader_epoch
        error = self._refusal(present if leader_epoch == NO_EPOCH else leader_epoch)
        if error is not ErrorCode.NONE or self._leader_state is None:
            return AppendResult(error, message=f"{self._topic_partition}: not led here in that epoch")
        appended = self._log.append_as_leader(records, self._leader_state.leader_epoch, now_ms)
        if appended.error is not ErrorCode.NONE:
            return AppendResult(
                appended.error,
                log_start_offset=self._log.start_offset,
                message=appended.message,
                record_errors=appended.record_errors,
            )
        self._advance(self._leader_state)
        return AppendResult(
            ErrorCode.NONE,
            appended.base_offset,
            appended.end_offset,
            self._log.epochs.epoch_before(appended.end_offset),
            appended.log_append_time,
            self._log.start_offset,
            self.high_watermark,
        )

    def list_offset(self, request: ListOffsetsPartition, replica_id: int) -> ListedPartition:
        """Answers ListOffsets for this partition; see `ReplicaManager.list_offset`."""
        number = request.partition
        if (
            error := self._refusal_of_offsets(request.current_leader_epoch, replica_id)
        ) is not ErrorCode.NONE:
            return ListedPartition(number, error)
        log, is_client = self._log, replica_id == CONSUMER_REPLICA
        if request.time_ms == EARLIEST:
            epoch = log.epochs.epoch_before(log.start_offset + 1)
            return ListedPartition(number, error, offset=log.start_offset, leader_epoch=epoch)
        end = self.high_watermark if is_client else log.end_offset
        # Until the high watermark has reached the start of the epoch, it may be lower than it was before.
        lags = is_client and self._leader_state is not None and self._leader_state.start_offset > end
        if request.time_ms == LATEST:
            if lags:
                return ListedPartition(number, ErrorCode.OFFSET_NOT_AVAILABLE)
            return ListedPartition(number, error, offset=end, leader_epoch=self._leader_epoch)
        found = log.offset_for_time(request.time_ms, end)
        if found is None:
            return ListedPartition(number, ErrorCode.OFFSET_NOT_AVAILABLE if lags else error)
        epoch = log.epochs.epoch_before(found.offset + 1)
        return ListedPartition(
            number, error, time_ms=found.timestamp, offset=found.offset, leader_epoch=epoch
        )

    def list_legacy_offsets(
        self, request: ListOffsetsPartition, replica_id: int, now_ms: int
    ) -> ListedPartition:
        """Answers version 0: the starts of the segments up to a time, the latest first, and the end.

        A consumer gets no offset beyond the high watermark (`legacyFetchOffsetsForTimestamp`).
        """
        error = self._refusal_of_offsets(NO_EPOCH, replica_id)
        if error is not ErrorCode.NONE:
            return ListedPartition(request.partition, error)
        found = self._log.offsets_before(request.time_ms, request.max_offsets, now_ms)
        end = self.high_watermark
        if replica_id == CONSUMER_REPLICA and found and found[0] > end:
            found = [end, *(offset for offset in found if offset <= end)]
        return ListedPartition(request.partition, error, tuple(found))

    def _refusal_of_offsets(self, leader_epoch: int, replica_id: int) -> ErrorCode:
        """The error for a reader of offsets; an observer may ask a replica in any role."""
        if self._leader_state is None and replica_id != OBSERVER_REPLICA:
            return ErrorCode.NOT_LEADER_FOR_PARTITION
        if leader_epoch == NO_EPOCH or leader_epoch == self._leader_epoch:
            return ErrorCode.NONE
        is_old = leader_epoch < self._leader_epoch
        return ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH

    def epoch_end(self, request: EpochPartition) -> EpochEndResult:
        """Answers OffsetForLeaderEpoch for this partition; see `ReplicaManager.epoch_end`."""
        number, epochs = request.partition, self._log.epochs
        error = self._refusal_of_offsets(request.current_leader_epoch, CONSUMER_REPLICA)
        if error is not ErrorCode.NONE or not NO_EPOCH < request.leader_epoch <= epochs.last:
            return EpochEndResult(error, number)
        if request.leader_epoch < epochs[0].leader_epoch:
            return EpochEndResult(error, number, request.leader_epoch, epochs[0].start_offset)
        end = epochs.end_of(request.leader_epoch, self.end_offset)
        return EpochEndResult(error, number, end.leader_epoch, end.end_offset)

    def keeps(self, leader_epoch: int, end_offset: int) -> bool:
        """Returns whether this replica leads, and its last record before `end_offset` is of that epoch."""
        if self._leader_state is None or end_offset > self.end_offset:
            return False
        return self._log.epochs.epoch_before(end_offset) == leader_epoch

    def fetch(
        self, request: FetchPartition, follower: int | None, max_bytes: int, *, at_least_one: bool, held: bool
    ) -> FetchedPartition:
        """Answers a follower or a consumer at once, and updates a follower's progress."""
        leader_epoch = request.current_leader_epoch
        if follower is None and leader_epoch == NO_EPOCH:
            error = ErrorCode.NONE if self._leader_state else ErrorCode.NOT_LEADER_FOR_PARTITION
        else:
            error = self._refusal(leader_epoch)
        if error is ErrorCode.NONE and request.offset < 0:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        if error is not ErrorCode.NONE or self._leader_state is None:
            return no_fetch(request.partition, error)
        limit = _Limit(min(request.max_bytes, max_bytes, FETCH_BYTES_MAX), at_least_one)
        if follower is None:
            return self._to_consumer(request, limit)
        return self._to_follower(request, limit, self._leader_state, follower, held)

    def _refusal(self, leader_epoch: int) -> ErrorCode:
        if self._leader_state is None:
            return ErrorCode.NOT_LEADER_FOR_PARTITION
        if leader_epoch < self._leader_state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if leader_epoch > self._leader_state.leader_epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE

    def _to_consumer(self, request: FetchPartition, limit: _Limit) -> FetchedPartition:
        # An epoch that is not here yet: 2.8 has error 1 for it. A follower would truncate fully at error 1.
        is_later = request.last_fetched_epoch > self._log.epochs.last
        if is_later or request.offset < self._log.start_offset:
            return no_fetch(request.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
        if (diverging := self._diverging(request)) is not None:
            return self._fetched(request, diverging=diverging)
        if request.offset > self.end_offset:
            return no_fetch(request.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
        return self._fetched(request, self._read(request.offset, self.high_watermark, limit))

    def _to_follower(
        self, request: FetchPartition, limit: _Limit, leader_state: LeaderState, broker: int, held: bool
    ) -> FetchedPartition:
        if not leader_state.replicates(broker):
            return no_fetch(request.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if request.last_fetched_epoch == leader_state.leader_epoch and request.offset > self.end_offset:
            if not leader_state.in_maximal_isr(broker):
                # The leader never waited for it, so its records may be of a deleted topic of the same name.
                return no_fetch(request.partition, ErrorCode.STALE_BROKER_EPOCH)
            self._log.keep_high_watermark(request.offset)  # it must not lead again without these records
            raise ReplicaStorageError(
                f"records are lost: broker {broker} has {request.offset} of them from this leader "
                f"in epoch {leader_state.leader_epoch}, and {self.end_offset} are left"
            )
        is_below = request.offset < self._log.start_offset
        if not is_below and (diverging := self._diverging(request)) is not None:
            return self._fetched(request, diverging=diverging, is_of_follower=True)
        if request.offset > self.end_offset:
            return self._out_of_range(request)
        leader_state.update_follower(
            broker, request.offset, self.end_offset, held=held, log_start_offset=request.log_start_offset
        )
        self._advance(leader_state)
        if leader_state.has_lost_records(broker, self.high_watermark):
            # Until it is out of the ISR: with some of its records it could be elected.
            return self._fetched(request, is_of_follower=True)
        if is_below:
            return self._out_of_range(request)
        records = self._read(request.offset, self.end_offset, limit)
        return self._fetched(request, records, is_of_follower=True)

    def _out_of_range(self, request: FetchPartition) -> FetchedPartition:
        """The answer to a follower whose log ends before this one starts: it starts there."""
        return no_fetch(request.partition, ErrorCode.OFFSET_OUT_OF_RANGE, self._log.start_offset)

    def _read(self, offset: int, end: int, limit: _Limit) -> bytes:
        if limit.max_bytes <= 0 and not limit.at_least_one:
            return b""
        records = self._log.read(offset, end, limit.max_bytes)
        return records if limit.at_least_one or len(records) <= limit.max_bytes else b""

    def _diverging(self, request: FetchPartition) -> EpochEnd | None:
        return self._log.epochs.diverging(self.end_offset, request.last_fetched_epoch, request.offset)

    def _fetched(
        self,
        request: FetchPartition,
        records: bytes = b"",
        diverging: EpochEnd = NO_EPOCH_END,
        *,
        is_of_follower: bool = False,
    ) -> FetchedPartition:
        high_watermark = self.high_watermark
        return FetchedPartition(
            request.partition,
            ErrorCode.NONE,
            high_watermark,
            last_stable_offset=high_watermark,
            log_start_offset=self._log.start_offset,
            diverging=diverging,
            log_end_offset=self.end_offset if is_of_follower else NO_OFFSET,
            records=records,
        )

    def offsets(self) -> FetchedPartition:
        """The offsets of this replica in any role, without records."""
        request = FetchPartition(self._topic_partition.partition, self.end_offset, 0)
        return self._fetched(request, is_of_follower=True)

    def delete_records(self, offset: int) -> ErrorCode:
        """Moves the log start offset of a leader up; see `ReplicaManager.delete_records`."""
        if self._leader_state is None:
            return ErrorCode.NOT_LEADER_FOR_PARTITION
        if self._log.config.keeps_all:
            return ErrorCode.POLICY_VIOLATION
        if offset == HIGH_WATERMARK:
            offset = self.high_watermark
        if not 0 <= offset <= self.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        self._log.advance_start(offset)
        return ErrorCode.NONE

    def low_watermark(self, is_live: Callable[[int], bool]) -> int | None:
        """The smallest log start offset of the live replicas; None if this replica does not lead."""
        leader_state = self._leader_state
        return None if leader_state is None else leader_state.low_watermark(self._log.start_offset, is_live)

    def _advance(self, leader_state: LeaderState) -> None:
        present = self.high_watermark
        if (offset := leader_state.high_watermark(self.end_offset, present)) > present:
            self._log.keep_high_watermark(offset)

    def next_fetch(self, max_bytes: int) -> FetchPartition | None:
        """Returns the next fetch from the leader; None if this replica does not follow."""
        if self.role is not Role.FOLLOWER:
            return None
        self._has_asked = True
        log = self._log
        return FetchPartition(
            self._topic_partition.partition,
            log.end_offset,
            max_bytes,
            current_leader_epoch=self._leader_epoch,
            last_fetched_epoch=log.epochs.epoch_before(log.end_offset),
            log_start_offset=log.start_offset,
        )

    def take(self, request: FetchPartition, response: FetchedPartition) -> bool:
        """Handles the leader's answer; see `ReplicaManager.take`."""
        position = request.current_leader_epoch, request.offset
        present = self._leader_epoch, self.end_offset
        if self.role is not Role.FOLLOWER or not self._has_asked or position != present:
            return True
        if response.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            return self._start_anew(response.log_start_offset)
        if response.error != ErrorCode.NONE:
            return False
        self.failure = None
        if response.diverging != NO_EPOCH_END:
            return self._cut_back(response.diverging)
        if response.log_end_offset == NO_OFFSET:
            self.failure = "the leader's answer has no log end offset: it is no zkgroup broker"
            return False
        records: Buffer = response.records or b""
        self._begin_with(records)
        self.failure = damage = self._log.append_as_follower(records, self._leader_epoch)
        self._learn(response.high_watermark, response.log_end_offset)
        start = min(response.log_start_offset, self.high_watermark)
        if start > self._log.start_offset:
            self._log.advance_start(start)
        return damage is None

    def _begin_with(self, records: Buffer) -> None:
        """Lets a log without records start before its end, where that is within the leader's first batch.

        The leader's log starts there, because records were deleted up to an offset within a batch.
        """
        log = self._log
        if log.start_offset == log.end_offset and len(records) >= HEADER_BYTES:
            first = read_header(records)
            if first.base_offset < log.end_offset <= first.last_offset:
                log.truncate_fully_and_start_at(first.base_offset)

    def _start_anew(self, log_start_offset: int) -> bool:
        """Truncates fully and starts at the leader's log start offset, which is beyond the end of this log.

        A log without records may also be beyond the end of the leader's log, and goes back.
        """
        log = self._log
        is_beyond = log_start_offset > log.end_offset
        is_ahead = self._level_at is None and log.start_offset == log.end_offset
        if log_start_offset < 0 or not (is_beyond or is_ahead):
            return False
        self.failure = None
        log.truncate_fully_and_start_at(log_start_offset)
        return True

    def _cut_back(self, diverging: EpochEnd) -> bool:
        offset = self._log.epochs.cut_point(self.end_offset, diverging)
        if self._level_at is not None or offset >= self.end_offset:
            self.failure = (
                f"the leader of epoch {self._leader_epoch} has lost records: it agreed with this log before, "
                f"which ends at {self.end_offset}, and now its answer would truncate it to {offset}"
            )
            return False
        self._log.truncate_to(offset)
        return True

    def _learn(self, high_watermark: int, log_end_offset: int) -> None:
        """Stores the leader's high watermark, but not beyond the end of this log.

        A replica that lacks records keeps its stored high watermark until it has been level with the leader:
        before that the leader's can be below an offset that this replica has acknowledged.
        """
        if self._level_at is None:
            self._level_at = log_end_offset
        kept = self._log.kept_high_watermark
        if kept is not None and kept <= self.end_offset:
            offset = max(kept, min(high_watermark, self.end_offset))
        elif self.end_offset >= max(self._level_at, high_watermark):
            offset = high_watermark
        else:
            return
        if offset != kept:
            self._log.keep_high_watermark(offset)


def no_fetch(partition: int, error: ErrorCode, log_start_offset: int = NO_OFFSET) -> FetchedPartition:
    """The answer to a fetch of a partition that was refused with `error`."""
    return FetchedPartition(partition, error, -1, log_start_offset=log_start_offset, records=b"")
