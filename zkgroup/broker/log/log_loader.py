"""Opens a partition's log, and recovers it after a crash.

Up to the recovery point all was forced to the disk, so it is believed; behind it each batch is checked, and
the log ends before the first one that is damaged, does not follow, or is of another leader epoch than
`leader-epoch-checkpoint` says. After a clean shutdown all is believed. In both cases the headers of the
batches behind the last index entry are read.

Sources: kafka/log/Log.scala (`loadSegments`, `recoverLog`) @2.8.2.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

from zkgroup.broker.log.checkpoints import (
    HIGH_WATERMARK,
    LEADER_EPOCHS,
    CheckpointError,
    decode_high_watermark,
    decode_leader_epochs,
    encode_high_watermark,
    encode_leader_epochs,
)
from zkgroup.broker.log.leader_epochs import EpochStart, LeaderEpochs
from zkgroup.broker.log.log_config import LogConfig
from zkgroup.broker.log.partition_log import LogParts, PartitionLog, folder_of, read_snapshot, snapshot_name
from zkgroup.broker.log.producer_state import ProducerStates
from zkgroup.broker.log.segment import Segment
from zkgroup.broker.log.storage import Flush, Storage, storage_errors
from zkgroup.errors import ReplicaStorageError
from zkgroup.model import TopicPartition
from zkgroup.wire.record_batch import BatchHeader
from zkgroup.wire.records import NO_EPOCH

OFFSET_DIGITS: Final = 20
"""In the name of a segment's file."""


class LoadMarks(NamedTuple):
    """The facts about a partition in the checkpoints of the data folder."""

    recovery_point: int = 0
    start_offset: int = 0
    is_clean: bool = False
    """True if the broker was shut down cleanly."""


def create_log(
    storage: Storage, topic_partition: TopicPartition, config: LogConfig, high_watermark: int | None
) -> PartitionLog:
    """A new, empty log, with the high watermark that it keeps. Its `.log` file is made last."""
    folder = folder_of(topic_partition)
    flush = config.flush is Flush.BATCH
    with storage_errors(folder):
        storage.make_folder(folder)
        storage.replace(f"{folder}/{LEADER_EPOCHS}", encode_leader_epochs(LeaderEpochs()), flush)
        storage.replace(f"{folder}/{HIGH_WATERMARK}", encode_high_watermark(high_watermark), flush)
        segment = Segment(storage, folder, 0, config.index_interval_bytes)
        segment.create(flush)
        if flush:
            storage.flush(folder)
            storage.flush("")
    parts = LogParts([segment], LeaderEpochs(), high_watermark, 0, 0, ProducerStates())
    return PartitionLog(storage, topic_partition, config, parts)


def load_log(
    storage: Storage, topic_partition: TopicPartition, config: LogConfig, marks: LoadMarks, now_ms: int
) -> PartitionLog | None:
    """The log of a partition; None where there is none, or only what the beginning of one has left behind."""
    folder = folder_of(topic_partition)
    with storage_errors(folder):
        names = storage.names(folder)
        stored = storage.read_all(f"{folder}/{HIGH_WATERMARK}")
        high_watermark = None if stored is None else decode_high_watermark(stored)
        if not any(_offset_in(name, ".log") is not None for name in names) and not high_watermark:
            return None
        return _Loader(storage, topic_partition, config, marks, names).load(high_watermark, now_ms)


class _Loader:
    def __init__(
        self,
        storage: Storage,
        topic_partition: TopicPartition,
        config: LogConfig,
        marks: LoadMarks,
        names: list[str],
    ) -> None:
        self._storage = storage
        self._topic_partition = topic_partition
        self._folder = folder_of(topic_partition)
        self._config = config
        self._marks = marks
        self._bases = _offsets(names, ".log")
        self._snapshots = _offsets(names, ".snapshot")
        self._producers = ProducerStates()
        self._replayed = 0
        """Up to this offset the producers are known."""
        self._remove_leftovers(names)

    def load(self, high_watermark: int | None, now_ms: int) -> PartitionLog:
        self._producers.at(now_ms)
        segments = self._segments()
        stored = epochs = self._stored_epochs()
        start = max(self._marks.start_offset, segments[0].base_offset)
        if not (self._marks.is_clean and self._is_loadable(segments[-1])):
            self._recover(segments, epochs)
        end = segments[-1].next_offset
        if not epochs:
            epochs = _epochs_of(segments)
        epochs = LeaderEpochs(each for each in epochs if each.start_offset <= end)
        # A log start offset that was not in the checkpoint yet is where the epochs begin.
        start = min(max(start, epochs[0].start_offset if epochs else 0), end)
        epochs = epochs.drop_before(start)
        if epochs != stored:
            self._store_epochs(epochs)
        recovery_point = end if self._marks.is_clean else min(self._marks.recovery_point, end)
        parts = LogParts(segments, epochs, high_watermark, start, recovery_point, self._producers)
        log = PartitionLog(self._storage, self._topic_partition, self._config, parts)
        self._load_producers(log, parts)
        self._producers.expire(now_ms, self._config.producer_id_expiration_ms)
        return log

    def _segments(self) -> list[Segment]:
        interval = self._config.index_interval_bytes
        if not self._bases:
            segment = Segment(self._storage, self._folder, self._marks.start_offset, interval)
            segment.create(self._config.flush is Flush.BATCH)
            return [segment]
        return [Segment(self._storage, self._folder, base, interval) for base in self._bases]

    def _remove_leftovers(self, names: list[str]) -> None:
        """Removes what a deletion or a write that was cut short has left behind."""
        kept = {f"{base:020d}" for base in self._bases}
        for name in names:
            stem, _, ending = name.partition(".")
            is_orphan = ending in ("index", "timeindex") and stem.isdecimal() and stem not in kept
            if is_orphan or name.endswith((".tmp", ".deleted")):
                self._storage.remove(f"{self._folder}/{name}")

    def _is_loadable(self, active: Segment) -> bool:
        """Returns whether the end of the log is as a clean shutdown has left it."""
        try:
            active.load()
        except ReplicaStorageError:
            return False
        return True

    def _recover(self, segments: list[Segment], epochs: LeaderEpochs | None) -> None:
        """Checks what lies behind the recovery point, and removes what is wrong with all that follows it."""
        trusted = self._marks.recovery_point
        first = max(bisect_right(self._bases, trusted) - 1, 0)
        check = _EpochCheck(epochs)
        snapshot = max((offset for offset in self._snapshots if offset <= trusted), default=0)
        self._replayed = self._take_snapshot(snapshot)

        def accept(batch: BatchHeader) -> bool:
            if not check.accepts(batch):
                return False
            if batch.base_offset == self._replayed:
                self._producers.update(batch)
                self._replayed = batch.last_offset + 1
            return True

        for number in range(first, len(segments)):
            segment = segments[number]
            if number > first and segment.base_offset != segments[number - 1].next_offset:
                for later in reversed(segments[number:]):
                    later.remove()
                del segments[number:]
                break
            segment.recover(trusted, accept)
            if number < len(segments) - 1:
                segment.seal()

    def _take_snapshot(self, offset: int) -> int:
        """Takes the latest producer snapshot at or before an offset. Returns its offset; 0 with none."""
        candidates = [snapshot for snapshot in self._snapshots if snapshot <= offset]
        return read_snapshot(self._storage, self._folder, candidates, self._producers)

    def _load_producers(self, log: PartitionLog, parts: LogParts) -> None:
        """From the latest snapshot and the batches behind it, as far as the recovery has not had them."""
        end, kept = log.end_offset, {*self._bases}
        for snapshot in [each for each in self._snapshots if each > end]:
            self._storage.remove(f"{self._folder}/{snapshot_name(snapshot)}")
            self._snapshots.remove(snapshot)
        if self._replayed != end:
            self._producers.replace(())
            start = read_snapshot(self._storage, self._folder, self._snapshots, self._producers)
            for batch in log.batches(start):
                self._producers.update(batch)
        for snapshot in [each for each in self._snapshots[:-1] if each not in kept]:
            self._storage.remove(f"{self._folder}/{snapshot_name(snapshot)}")
            self._snapshots.remove(snapshot)
        parts.snapshots.extend(self._snapshots)

    def _stored_epochs(self) -> LeaderEpochs | None:
        data = self._storage.read_all(f"{self._folder}/{LEADER_EPOCHS}")
        try:
            return None if data is None else decode_leader_epochs(data)
        except CheckpointError:
            return None

    def _store_epochs(self, epochs: LeaderEpochs) -> None:
        path = f"{self._folder}/{LEADER_EPOCHS}"
        self._storage.replace(path, encode_leader_epochs(epochs), self._config.flush is Flush.BATCH)


class _EpochCheck:
    """Compares the leader epochs of batches with those that are stored. They lie outside the CRC of a batch,
    and a leader stores each epoch before it writes its first batch."""

    def __init__(self, epochs: LeaderEpochs | None) -> None:
        self._epochs = epochs or LeaderEpochs()
        self._last = NO_EPOCH

    def accepts(self, batch: BatchHeader) -> bool:
        """Returns whether epochs do not go down, at least, where nothing is stored about an offset."""
        ascends = batch.leader_epoch >= self._last
        self._last = batch.leader_epoch
        if not self._epochs:
            return ascends
        if batch.base_offset < self._epochs[0].start_offset:  # below the log start offset
            return ascends and batch.leader_epoch <= self._epochs[0].leader_epoch
        return self._epochs.epoch_before(batch.base_offset + 1) == batch.leader_epoch


def _epochs_of(segments: list[Segment]) -> LeaderEpochs:
    """The leader epochs of all batches."""
    starts: list[EpochStart] = []
    for segment in segments:
        for located in segment.walk(0, segment.size):
            if not starts or located.header.leader_epoch > starts[-1].leader_epoch:
                starts.append(EpochStart(located.header.leader_epoch, located.header.base_offset))
    return LeaderEpochs(starts)


def _offset_in(name: str, ending: str) -> int | None:
    stem = name.removesuffix(ending)
    return int(stem) if stem != name and len(stem) == OFFSET_DIGITS and stem.isdecimal() else None


def _offsets(names: list[str], ending: str) -> list[int]:
    return sorted(offset for name in names if (offset := _offset_in(name, ending)) is not None)
