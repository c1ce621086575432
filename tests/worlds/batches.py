"""Record batches of plain values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from zkgroup.wire.record_batch import Record, build_batch, check_batch
from zkgroup.wire.record_batch import records_of as read_records
from zkgroup.wire.records import NO_EPOCH
from zkgroup.wire.schema import Buffer


class ValueBatch(NamedTuple):
    """The values of records that were appended together."""

    base_offset: int
    leader_epoch: int
    """Of the leader that appended them."""
    values: tuple[bytes, ...]

    @property
    def end_offset(self) -> int:
        """The first offset behind the batch."""
        return self.base_offset + len(self.values)


def records_of(
    values: Sequence[bytes], *, timestamp_ms: int, base_offset: int = 0, leader_epoch: int = NO_EPOCH
) -> bytes:
    """One record batch with a record for each value. A leader stamps base offset and leader epoch anew."""
    records = [Record(base_offset + n, timestamp_ms, None, value) for n, value in enumerate(values)]
    return build_batch(records, leader_epoch=leader_epoch)


def batches_in(records: Buffer) -> Iterator[ValueBatch]:
    """The batches of a record set, one after the other. Raises CorruptRecordError at one that is damaged."""
    at = 0
    while at < len(records):
        header = check_batch(records, at)
        batch = memoryview(records)[at : at + header.size]
        values = tuple(record.value or b"" for record in read_records(batch))
        yield ValueBatch(header.base_offset, header.leader_epoch, values)
        at += header.size
