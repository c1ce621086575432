"""Record batches of plain values, and of records."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from zkgroup.wire.crc32c import crc32c
from zkgroup.wire.primitives import uvarint
from zkgroup.wire.record_batch import (
    CHECKED_AT,
    CRC_AT,
    GZIP,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    SIZED,
    Record,
    check_batch,
)
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


def build_batch(
    records: Sequence[Record],
    *,
    gzip: bool = False,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    attributes: int = 0,
) -> bytes:
    """One batch of one or more records in the order of their offsets; the first gives the base offset.

    attributes: `TRANSACTIONAL`, `CONTROL`, `LOG_APPEND_TIME`; gzip adds its own.
    """
    base, first = records[0].offset, records[0].timestamp_ms
    body = b"".join(_encoded(record, record.offset - base, record.timestamp_ms - first) for record in records)
    if gzip:
        deflater = zlib.compressobj(wbits=31)
        body = deflater.compress(body) + deflater.flush()
        attributes |= GZIP
    max_timestamp = max(record.timestamp_ms for record in records)
    fields = (
        *(attributes, records[-1].offset - base, first, max_timestamp),
        *(producer_id, producer_epoch, base_sequence, len(records)),
    )
    length = HEADER_BYTES - SIZED.size + len(body)
    head = HEADER.pack(base, length, leader_epoch, MAGIC, 0, *fields)
    crc = crc32c(head[CHECKED_AT:] + body)
    return b"".join((head[:CRC_AT], crc.to_bytes(4, "big"), head[CHECKED_AT:], body))


def _encoded(record: Record, offset_delta: int, time_delta: int) -> bytes:
    parts = [b"\0", _zigzag(time_delta), _zigzag(offset_delta), _sized(record.key), _sized(record.value)]
    parts.append(_zigzag(len(record.headers)))
    for name, value in record.headers:
        parts += (_sized(name.encode()), _sized(value))
    body = b"".join(parts)
    return _zigzag(len(body)) + body


def _sized(value: bytes | None) -> bytes:
    return _zigzag(-1) if value is None else _zigzag(len(value)) + value


def _zigzag(value: int) -> bytes:
    return uvarint(value << 1 if value >= 0 else (-value << 1) - 1)
