"""The log of one replica, in segments: Kafka's `UnifiedLog`.

A leader stamps offsets and its epoch on the batches that clients send; a follower keeps what its leader has
stamped. Records are decoded only for offsets by time and to look for keys, and never encoded anew.

What a method changes in the files is such that a crash at any point leaves a log that opens (`log_loader`).
A method that raises ReplicaStorageError has changed nothing that a reader can see, unless it says otherwise.

Sources: kafka/log/Log.scala@2.8.2.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from zkgroup.broker.log.checkpoints import (
    HIGH_WATERMARK,
    LEADER_EPOCHS,
    encode_high_watermark,
    encode_leader_epochs,
)
from zkgroup.broker.log.client_batches import RefusedBatches, checked_batches, follower_batches, stamped
from zkgroup.broker.log.leader_epochs import LeaderEpochs
from zkgroup.broker.log.log_config import LogConfig, TimestampType, count_deletable, should_roll
from zkgroup.broker.log.producer_state import ProducerStates, SnapshotError, decode_snapshot
from zkgroup.broker.log.record_search import TimestampOffset, first_record_from
from zkgroup.broker.log.segment import Segment
from zkgroup.broker.log.storage import Flush, Storage, storage_errors
from zkgroup.errors import ReplicaStorageError
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.record_batch import BatchHeader
from zkgroup.wire.records import EARLIEST, LATEST, RecordError
from zkgroup.wire.schema import Buffer


class Appended(NamedTuple):
    """The result for the batches of a client."""

    error: ErrorCode
    base_offset: int = -1
    """Of the first record; with a duplicate, that of the batch in the log."""
    end_offset: int = -1
    """Behind the last one: acks=all waits until the high watermark is there."""
    log_append_time: int = -1
    """The timestamp of all records; -1 where they have their own."""
    message: str = ""
    """With an error: what is wrong, for people."""
    record_errors: tuple[RecordError, ...] = ()
    """The records for which a batch was refused, where it was for single records."""


@dataclass(slots=True)
class LogParts:
    """The parts of a log, as `log_loader` has found them."""

    segments: list[Segment]
    epochs: LeaderEpochs
    high_watermark: int | None
    start_offset: int
    recovery_point: int
    producers: ProducerStates
    snapshots: list[int] = field(default_factory=list)
    """Offsets of the producer snapshots, ascending."""


class PartitionLog:
    """The log of one replica; from `log_loader`."""

    __slots__ = (
        "_first_timestamp",
        "_folder",
        "_has_failed",
        "_segments",
        "_snapshots",
        "_storage",
        "config",
        "end_offset",
        "epochs",
        "kept_high_watermark",
        "persist_recovery_point",
        "producers",
        "recovery_point",
        "start_offset",
        "topic_partition",
    )

    def __init__(
        self, storage: Storage, topic_partition: TopicPartition, config: LogConfig, parts: LogParts
    ) -> None:
        self._storage = storage
        self.topic_partition = topic_partition
        self.config = config
        """May be set to other settings; `index_interval_bytes` is taken by new segments."""
        self.persist_recovery_point: Callable[[int], None] = _ignore
        """Called before what lies below the recovery point is cut, with the new one, to store it."""
        self._folder = folder_of(topic_partition)
        self._segments = parts.segments
        self.epochs = parts.epochs
        self.kept_high_watermark = parts.high_watermark
        """The high watermark that was kept last; None in a log that was made without one."""
        self.start_offset = parts.start_offset
        """Offset of the first record that may be read."""
        self.recovery_point = parts.recovery_point
        """The offset up to which all was forced to the disk."""
        self.producers = parts.producers
        self._snapshots = parts.snapshots
        self.end_offset = parts.segments[-1].next_offset
        """Offset that the next record will get."""
        self._has_failed = False
        self._first_timestamp: int | None = None
        """Of the active segment; None before it is asked for."""

    @property
    def size(self) -> int:
        """Bytes in its segments."""
        with storage_errors(self._folder):
            return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """From the oldest to the active one."""
        return tuple(self._segments)

    def keep_high_watermark(self, offset: int) -> None:
        """Stores the high watermark (docs/adr/0018)."""
        path = f"{self._folder}/{HIGH_WATERMARK}"
        with self._writing():
            self._storage.write(path, 0, encode_high_watermark(offset))
        self.kept_high_watermark = offset

    def begin_epoch(self, leader_epoch: int) -> None:
        """Marks the log's end as the start of a leader epoch. Raises ValueError for one before the latest."""
        self._keep_epochs(self.epochs.begin(leader_epoch, self.end_offset))

    def append_as_leader(self, records: Buffer, leader_epoch: int, now_ms: int) -> Appended:
        """Checks the batches of a client, stamps offsets and the epoch on them, and appends all or none.

        Errors: 2 damaged, 10 too large, 32 and 87 batches that Kafka does not take either, and of an
        idempotent producer 45, 46, 47, 59. A duplicate has no error and the offsets of the first time.
        """
        batches = checked_batches(records, self.config, self.topic_partition)
        if isinstance(batches, RefusedBatches):
            return Appended(batches.error, message=batches.reason, record_errors=batches.record_errors)
        at_append = self.config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        for batch in batches:
            check = self.producers.check(batch)
            if (found := check.duplicate) is not None:
                time = found.timestamp if at_append else -1
                return Appended(ErrorCode.NONE, found.first_offset, found.last_offset + 1, time)
            if check.error is not ErrorCode.NONE:
                return Appended(check.error, message=_sequence_message(batch, check.error))
        self.producers.at(now_ms)
        append_time = now_ms if at_append else None
        base_offset = self.end_offset
        data, headers = stamped(records, batches, base_offset, leader_epoch, append_time)
        with self._writing():
            self.begin_epoch(leader_epoch)
            self._append(data, headers)
        return Appended(ErrorCode.NONE, base_offset, self.end_offset, now_ms if at_append else -1)

    def append_as_follower(self, records: Buffer, leader_epoch: int) -> str | None:
        """Appends the batches that a leader of this epoch has sent, with their offsets and epochs.

        Returns None, or why it stopped before one that is damaged or does not follow.
        """
        batches, reason = follower_batches(
            records, self.end_offset, self.epochs.epoch_before(self.end_offset), leader_epoch
        )
        at = 0
        with self._writing():
            for run in _by_epoch(batches):
                epoch, size = run[0].leader_epoch, sum(batch.size for batch in run)
                if epoch < self.epochs.last:  # an epoch in which this replica led, without a record
                    self._keep_epochs(self.epochs.cut(self.end_offset))
                self.begin_epoch(epoch)
                self._append(records[at : at + size], run)
                at += size
        return reason

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Around what changes files. Once that has failed, the next start checks the end of the log."""
        try:
            with storage_errors(self._folder):
                yield
        except ReplicaStorageError:
            self._has_failed = True
            raise

    def _append(self, data: Buffer | bytearray, batches: list[BatchHeader]) -> None:
        active = self._segments[-1]
        if self._must_roll(active, len(data), batches):
            active = self._roll()
        active.append(data, batches, self.config.flush is Flush.BATCH)
        if self._first_timestamp is None and active.size == len(data):
            self._first_timestamp = batches[0].max_timestamp
        for batch in batches:
            self.producers.update(batch)
        self.end_offset = active.next_offset

    def _must_roll(self, active: Segment, added: int, batches: list[BatchHeader]) -> bool:
        if not active.size:
            return False
        if not active.can_hold(batches[-1].last_offset):
            return True
        if self._first_timestamp is None:
            self._first_timestamp = active.first_timestamp()
        first, newest = self._first_timestamp, max(batch.max_timestamp for batch in batches)
        return should_roll(self.config, active.size, added, newest - first if first >= 0 <= newest else None)

    def roll(self) -> None:
        """Begins a new segment; without effect where the active one is empty."""
        with self._writing():
            if self._segments[-1].size:
                self._roll()

    def _roll(self) -> Segment:
        self._segments[-1].seal()
        self._write_snapshot()
        made = Segment(self._storage, self._folder, self.end_offset, self.config.index_interval_bytes)
        flush = self.config.flush is Flush.BATCH
        made.create(flush)
        if flush:
            self._storage.flush(self._folder)
        self._segments.append(made)
        self._first_timestamp = None
        return made

    def _keep_epochs(self, epochs: LeaderEpochs) -> None:
        if epochs == self.epochs:
            return
        path = f"{self._folder}/{LEADER_EPOCHS}"
        with self._writing():
            self._storage.replace(path, encode_leader_epochs(epochs), self.config.flush is Flush.BATCH)
        self.epochs = epochs

    def read(self, offset: int, end_offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one that holds `offset`, as long as they end at or below `end_offset`: at
        least one where there is one, else as many as fit `max_bytes`, of one segment.

        Raises ValueError for an offset that is not in the log nor its end.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise ValueError(f"{offset} is not from {self.start_offset} to {self.end_offset}")
        with storage_errors(self._folder):
            return self._segments[self._number_of(offset)].read(offset, end_offset, max_bytes)

    def offset_for_time(self, timestamp: int, end_offset: int) -> TimestampOffset | None:
        """The first record below an offset that has this timestamp or a later one; None with none.

        Exact for batches that are not compressed or with gzip; else the first record of the batch.
        """
        with storage_errors(self._folder):
            for segment in self._segments[self._number_of(self.start_offset) :]:
                if segment.base_offset >= end_offset:
                    return None
                start = max(self.start_offset, segment.base_offset)
                while (located := segment.find_by_time(timestamp, start)) is not None:
                    batch = segment.batch(located)
                    found = first_record_from(located.header, batch, timestamp, start)
                    if found is not None:
                        return found if found.offset < end_offset else None
                    start = located.header.last_offset + 1
        return None

    def offsets_before(self, time_ms: int, count: int, now_ms: int) -> list[int]:
        """Starts of segments, the latest first, and the end of the log if the last one has records.

        At most `count`, of those that were written last at that time or before; LATEST: all, EARLIEST: the
        first one (`legacyFetchOffsetsBefore` in kafka/log/Log.scala@2.8.2).
        """
        with storage_errors(self._folder):
            starts = [(max(one.base_offset, self.start_offset), one.modified_ms()) for one in self._segments]
        if self._segments[-1].size:
            starts.append((self.end_offset, now_ms))
        if time_ms == EARLIEST:
            del starts[1:]
        elif time_ms != LATEST:
            while starts and starts[-1][1] > time_ms:
                starts.pop()
        return sorted((offset for offset, _ in starts[::-1][: max(0, count)]), reverse=True)

    def _number_of(self, offset: int) -> int:
        """Of the segment that holds an offset."""
        return max(bisect_right(self._segments, offset, key=attrgetter("base_offset")) - 1, 0)

    def truncate_to(self, offset: int) -> None:
        """Removes the records from an offset on, and those before it in the same batch."""
        if offset >= self.end_offset:
            return
        if offset < self._segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        with self._writing():
            self._lower_recovery_point(offset)
            while self._segments[-1].base_offset > offset:
                self._segments[-1].remove()
                del self._segments[-1]
            self._segments[-1].truncate_to(offset)
            self._after_cut()
            self._keep_epochs(self.epochs.cut(self.end_offset))
            self._reload_producers()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Removes all records; the next one gets this offset, which is the log start offset too.

        An error may leave a log without records that starts at another offset.
        """
        with self._writing():
            self._lower_recovery_point(0)
            while self._segments:
                self._segments[-1].remove()
                del self._segments[-1]
            made = Segment(self._storage, self._folder, offset, self.config.index_interval_bytes)
            made.create(self.config.flush is Flush.BATCH)
            self._segments.append(made)
            self.start_offset = offset
            self._after_cut()
            self._keep_epochs(LeaderEpochs())
            for snapshot in self._snapshots:
                self._storage.remove(self._snapshot_path(snapshot))
            self._snapshots = []
            self.producers.replace(())
            self.recovery_point = offset

    def _after_cut(self) -> None:
        self.end_offset = self._segments[-1].next_offset
        self.start_offset = min(self.start_offset, self.end_offset)
        self._first_timestamp = None

    def _lower_recovery_point(self, offset: int) -> None:
        """Else a log that grows again after a cut would be trusted up to where it was before."""
        if offset < self.recovery_point:
            self.recovery_point = offset
            self.persist_recovery_point(offset)

    def advance_start(self, offset: int) -> None:
        """Moves the log start offset up, and removes the segments below it. Raises ValueError where it is
        behind the log's end."""
        if offset > self.end_offset:
            raise ValueError(f"the log of {self.topic_partition} ends at {self.end_offset}, before {offset}")
        if offset <= self.start_offset:
            return
        with self._writing():
            self.start_offset = offset
            while len(self._segments) > 1 and self._segments[1].base_offset <= offset:
                self._segments[0].remove()
                del self._segments[0]
            first = self._segments[0].base_offset
            while self._snapshots and self._snapshots[0] < first:
                self._storage.remove(self._snapshot_path(self._snapshots[0]))
                del self._snapshots[0]
            self._keep_epochs(self.epochs.drop_before(offset))

    def apply_retention(self, now_ms: int) -> int | None:
        """Deletes segments that are too many or too old, below the high watermark, and forgets producers
        that are too old. Returns the new log start offset; None if it has not moved."""
        self.producers.expire(now_ms, self.config.producer_id_expiration_ms)
        with self._writing():
            segments = self._segments
            ends = [*(segment.base_offset for segment in segments[1:]), self.end_offset]
            number = count_deletable(
                self.config,
                [segment.size for segment in segments],
                ends,
                min(self.kept_high_watermark or 0, self.end_offset),
                now_ms,
                lambda number: _newest_ms(segments[number]),
            )
            if number == len(segments):
                if segments[-1].size:
                    self._roll()
                else:
                    number -= 1
        if not number:
            return None
        self.advance_start(ends[number - 1])
        return self.start_offset

    def _snapshot_path(self, offset: int) -> str:
        return f"{self._folder}/{snapshot_name(offset)}"

    def _write_snapshot(self) -> None:
        """Of the producers up to the log's end."""
        if self._snapshots and self._snapshots[-1] == self.end_offset:
            return
        path = self._snapshot_path(self.end_offset)
        self._storage.replace(path, self.producers.encode(), self.config.flush is Flush.BATCH)
        bases = {segment.base_offset for segment in self._segments}
        for offset in [offset for offset in self._snapshots if offset not in bases]:
            self._storage.remove(self._snapshot_path(offset))
            self._snapshots.remove(offset)
        self._snapshots.append(self.end_offset)

    def _reload_producers(self) -> None:
        """After a cut. Without a producer that is known there was none before either."""
        while self._snapshots and self._snapshots[-1] > self.end_offset:
            self._storage.remove(self._snapshot_path(self._snapshots[-1]))
            del self._snapshots[-1]
        if len(self.producers):
            self.producers.replace(())
            start = read_snapshot(self._storage, self._folder, self._snapshots, self.producers)
            for batch in self.batches(start):
                self.producers.update(batch)

    def batches(self, offset: int) -> Iterator[BatchHeader]:
        """The headers of the batches that begin at an offset or behind it."""
        for segment in self._segments[self._number_of(offset) :]:
            start = max(offset, segment.base_offset)
            if segment.next_offset <= start:
                continue
            for located in segment.walk(segment.find(start).position):
                if located.header.base_offset >= offset:
                    yield located.header

    def flush_rolled(self) -> None:
        """Forces the segments before the active one to the disk, and moves the recovery point behind them."""
        self._flush(self._segments[:-1], self._segments[-1].base_offset)

    def flush(self) -> None:
        """Forces all to the disk: the recovery point is the log's end then."""
        self._flush(self._segments, self.end_offset)

    def _flush(self, segments: list[Segment], offset: int) -> None:
        if offset <= self.recovery_point:
            return
        with self._writing():
            for segment in segments[self._number_of(self.recovery_point) :]:
                segment.flush()
            # Else the batches that are trusted at the next start could be of other epochs than the file says.
            self._storage.flush(f"{self._folder}/{LEADER_EPOCHS}")
            self._storage.flush(self._folder)
        self.recovery_point = offset

    def close(self) -> None:
        """Leaves the files so that the next start reads none of the records.

        Raises ReplicaStorageError also where a write failed before: then the next start has to check them.
        """
        if self._has_failed:
            raise ReplicaStorageError(f"{self._folder}: a write has failed")
        with self._writing():
            self._segments[-1].seal()
            self._write_snapshot()
        self.flush()


def folder_of(topic_partition: TopicPartition) -> str:
    """Name of the folder of a partition."""
    return f"{topic_partition.topic}-{topic_partition.partition}"


def snapshot_name(offset: int) -> str:
    """Name of a producer snapshot."""
    return f"{offset:020d}.snapshot"


def read_snapshot(storage: Storage, folder: str, snapshots: list[int], producers: ProducerStates) -> int:
    """Takes over the latest snapshot that can be read, and removes those that cannot. Returns its offset;
    0 with none."""
    while snapshots:
        path = f"{folder}/{snapshot_name(snapshots[-1])}"
        try:
            producers.replace(decode_snapshot(storage.read_all(path) or b""))
        except SnapshotError:
            storage.remove(path)
            del snapshots[-1]
        else:
            return snapshots[-1]
    return 0


def _newest_ms(segment: Segment) -> int:
    newest = segment.largest_timestamp()
    return newest if newest >= 0 or not segment.size else segment.modified_ms()


def _by_epoch(batches: list[BatchHeader]) -> Iterator[list[BatchHeader]]:
    """Runs of batches of one leader epoch."""
    run: list[BatchHeader] = []
    for batch in batches:
        if run and run[-1].leader_epoch != batch.leader_epoch:
            yield run
            run = []
        run.append(batch)
    if run:
        yield run


def _sequence_message(batch: BatchHeader, error: ErrorCode) -> str:
    return (
        f"{error.name.lower()}: producer {batch.producer_id}, epoch {batch.producer_epoch}, "
        f"sequence {batch.base_sequence}"
    )


def _ignore(_offset: int) -> None: ...
