"""The idempotent producers of a partition: each batch is in the log once and in order. Pure.

Each producer id has its epoch and its last five batches. A batch that is sent again is found among them and
answered with its offset. `ProducerStates` is rebuilt from a snapshot, which has the last batch of each
producer, and the batches in the log behind it.

Sources: KIP-98; kafka/log/ProducerStateManager.scala@2.8.2. An unknown producer id must begin at sequence 0
(error 59), as in Kafka up to 2.4: later brokers take any sequence, and lose the order without a word when
their state is gone. So a producer's age is that of its last append, by the broker's clock: Kafka goes by the
timestamps of records, which may be years old. Error 46 is for a duplicate that is older than the five:
clients take it for success.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from zkgroup.wire.crc32c import crc32c
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.record_batch import BatchHeader

NO_PRODUCER_ID: Final = -1
NO_TIME: Final = -1
BATCHES_KEPT: Final = 5
"""Of a producer: as many as a client may have in flight."""
SEQUENCES: Final = 1 << 31
"""After 2^31 - 1 sequence numbers go on with 0."""

PRODUCERS_MAX: Final = 50_000
"""Producers of a partition that are known; a further one displaces the one that appended longest ago.

One takes up to 800 bytes, and a client may begin a new one for each batch. Replicas append in the same order,
so all displace the same ones."""

SNAPSHOT_VERSION: Final = 1
_SNAPSHOT_HEAD: Final = struct.Struct(">hIi")
"""Version, CRC-32C of what follows it, number of producers."""
_CHECKED_AT: Final = 6
_SNAPSHOT_ENTRY: Final = struct.Struct(">qhiqiqiq")
"""Producer id and epoch; last sequence, last offset, offset delta and timestamp of the last batch; epoch of
the transaction coordinator and first offset of the open transaction, both -1 here."""


class SnapshotError(ValueError):
    """A snapshot is damaged or of another version."""


class SequenceCheck(NamedTuple):
    """The verdict on a batch."""

    error: ErrorCode
    duplicate: ProducedBatch | None = None
    """The batch that it repeats, with NONE: it is answered and not appended."""


class ProducedBatch(NamedTuple):
    """A batch of a producer in the log."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    """Of the last record to the first."""
    timestamp: int
    """Time of its append, in epoch milliseconds by this broker's clock, or the leader's for
    `LogAppendTime`; `NO_TIME` until the next search for producers that are too old."""

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) % SEQUENCES

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


_NO_BATCH: Final = (ProducedBatch(-1, -1, 0, -1),)


class ProducerEntry(NamedTuple):
    """A producer."""

    producer_epoch: int
    batches: tuple[ProducedBatch, ...]
    """Up to five, the latest one last."""


def check_sequence(entry: ProducerEntry | None, batch: BatchHeader) -> SequenceCheck:
    """Compares a producer's batch with the last ones that the log has of the producer."""
    first = batch.base_sequence
    if first < 0 or batch.producer_epoch < 0:
        return SequenceCheck(ErrorCode.INVALID_RECORD)
    if entry is None:
        return SequenceCheck(ErrorCode.NONE if first == 0 else ErrorCode.UNKNOWN_PRODUCER_ID)
    if batch.producer_epoch < entry.producer_epoch:
        return SequenceCheck(ErrorCode.INVALID_PRODUCER_EPOCH)
    if batch.producer_epoch > entry.producer_epoch or not entry.batches:
        return SequenceCheck(ErrorCode.NONE if first == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    if first == (entry.batches[-1].last_sequence + 1) % SEQUENCES:
        return SequenceCheck(ErrorCode.NONE)
    last = (first + batch.last_offset_delta) % SEQUENCES
    for known in entry.batches:
        if (known.first_sequence, known.last_sequence) == (first, last):
            return SequenceCheck(ErrorCode.NONE, known)
    distance = (entry.batches[0].first_sequence - last) % SEQUENCES
    if 0 < distance < SEQUENCES // 2:
        return SequenceCheck(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    return SequenceCheck(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


class ProducerStates:
    """The producers of a partition: Kafka's `ProducerStateManager`."""

    __slots__ = ("_entries", "_now_ms")

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        """In the order of their last appends."""
        self._now_ms = NO_TIME
        """The broker's time, as it was given last; a follower gives it from time to time only."""

    def __len__(self) -> int:
        return len(self._entries)

    def entry(self, producer_id: int) -> ProducerEntry | None:
        """None for a producer that has no batch here, or none that is not too old."""
        return self._entries.get(producer_id)

    def at(self, now_ms: int) -> None:
        """Gives the broker's time, for the batches that follow."""
        self._now_ms = now_ms

    def check(self, batch: BatchHeader) -> SequenceCheck:
        """Checks that a batch from a client may be appended."""
        if batch.producer_id == NO_PRODUCER_ID:
            return SequenceCheck(ErrorCode.NONE)
        return check_sequence(self._entries.get(batch.producer_id), batch)

    def update(self, batch: BatchHeader) -> None:
        """Takes in a batch that was appended, with its offsets; what a leader appended is right."""
        if batch.producer_id == NO_PRODUCER_ID or batch.base_sequence < 0:
            return
        made = ProducedBatch(
            last_sequence=(batch.base_sequence + batch.last_offset_delta) % SEQUENCES,
            last_offset=batch.last_offset,
            offset_delta=batch.last_offset_delta,
            timestamp=batch.max_timestamp if batch.has_append_time else self._now_ms,
        )
        known = self._entries.pop(batch.producer_id, None)
        before = known.batches if known is not None and known.producer_epoch == batch.producer_epoch else ()
        self._entries[batch.producer_id] = ProducerEntry(
            batch.producer_epoch, (*before[1 - BATCHES_KEPT :], made)
        )
        if len(self._entries) > PRODUCERS_MAX:
            del self._entries[next(iter(self._entries))]

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forgets producers whose last batch was appended longer ago."""
        self.at(now_ms)
        for producer_id, entry in list(self._entries.items()):
            if not entry.batches:
                continue
            last = entry.batches[-1]
            if last.timestamp == NO_TIME:
                batches = (*entry.batches[:-1], last._replace(timestamp=now_ms))
                self._entries[producer_id] = entry._replace(batches=batches)
            elif last.timestamp < now_ms - expiration_ms:
                del self._entries[producer_id]

    def replace(self, entries: Iterable[tuple[int, ProducerEntry]]) -> None:
        """Has these producers from now on, and no others: of too many the last ones."""
        known = list(entries)
        self._entries = dict(known[-PRODUCERS_MAX:])

    def encode(self) -> bytes:
        """A `.snapshot`, version 1."""
        entries = b"".join(
            _SNAPSHOT_ENTRY.pack(producer_id, entry.producer_epoch, *(entry.batches or _NO_BATCH)[-1], -1, -1)
            for producer_id, entry in self._entries.items()
        )
        head = _SNAPSHOT_HEAD.pack(SNAPSHOT_VERSION, 0, len(self._entries))
        checked = head[_CHECKED_AT:] + entries
        return head[:2] + crc32c(checked).to_bytes(4, "big") + checked


def decode_snapshot(data: bytes) -> list[tuple[int, ProducerEntry]]:
    """The producers in a `.snapshot`. Raises SnapshotError."""
    if len(data) < _SNAPSHOT_HEAD.size:
        raise SnapshotError(f"expected {_SNAPSHOT_HEAD.size} bytes or more, found {len(data)}")
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise SnapshotError(f"expected version {SNAPSHOT_VERSION}, found {version}")
    if crc32c(data[_CHECKED_AT:]) != crc:
        raise SnapshotError("the checksum is wrong")
    if len(data) != _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size:
        raise SnapshotError(f"expected {count} producers, found {len(data)} bytes")
    found = []
    for fields in _SNAPSHOT_ENTRY.iter_unpack(data[_SNAPSHOT_HEAD.size :]):
        producer_id, epoch, *batch = fields[:6]
        made = ProducedBatch(*batch)
        found.append((producer_id, ProducerEntry(epoch, (made,) if made.last_offset >= 0 else ())))
    return found
