"""Record batches (magic 2), as logs, Produce and Fetch have them. Pure.

A batch stays as its producer made it: its base offset and partition leader epoch lie outside of its CRC, so a
leader stamps them. Its records are read only where that is asked for, and only of batches without compression
or with gzip. No size is believed before the bytes are there.

Layout: int64 base offset, int32 length of what follows, int32 partition leader epoch, int8 magic, uint32
CRC-32C of what follows, int16 attributes, int32 last offset delta, int64 first and max timestamp, int64
producer id, int16 producer epoch, int32 base sequence, int32 count of records, then the records.
Source: org/apache/kafka/common/record/DefaultRecordBatch.java, DefaultRecord.java @2.8.2.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from zkgroup.errors import CorruptRecordError
from zkgroup.wire.crc32c import crc32c
from zkgroup.wire.schema import Buffer

MAGIC: Final = 2
HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size
SIZED: Final = struct.Struct(">qi")
"""Base offset and length: what stands before the bytes that the length counts."""
MAGIC_AT: Final = 16
"""Also in the message sets of magic 0 and 1."""
CRC_AT: Final = 17
CHECKED_AT: Final = 21
"""Start of the bytes that the CRC covers."""

COMPRESSION: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
GZIP: Final = 1
ZSTD: Final = 4
COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""By their number in the attributes."""

INFLATED_BYTES_MAX: Final = 100 * 1024 * 1024
"""Records of one batch with gzip take no more when they are unpacked."""

_OFFSET: Final = struct.Struct(">q")
_EPOCH_AT: Final = 12
_EPOCH: Final = struct.Struct(">i")
_ATTRIBUTES: Final = struct.Struct(">h")
_MAX_TIMESTAMP_AT: Final = 35
_CRC: Final = struct.Struct(">I")
_RECORD_BYTES_MIN: Final = 7
"""Length, attributes, two deltas, lengths of key and value, count of headers."""


class BatchHeader(NamedTuple):
    """All of a batch but its records."""

    base_offset: int
    length: int
    """Bytes behind this field."""
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    first_timestamp: int
    """Epoch milliseconds; -1 for none."""
    max_timestamp: int
    producer_id: int
    """-1 for none."""
    producer_epoch: int
    base_sequence: int
    """Of the first record; -1 where the producer is not idempotent."""
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + SIZED.size

    @property
    def last_offset(self) -> int:
        """Of its last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def compression(self) -> int:
        """Its number; see `COMPRESSIONS`."""
        return self.attributes & COMPRESSION

    @property
    def has_append_time(self) -> bool:
        """True if all records have the max timestamp, which the leader gave them."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """True if it ends a transaction; consumers do not see it."""
        return bool(self.attributes & CONTROL)


class Record(NamedTuple):
    """One record."""

    offset: int
    timestamp_ms: int
    """Epoch milliseconds; -1 for none."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def read_header(data: Buffer | bytearray, at: int = 0) -> BatchHeader:
    """The header at an offset that has `HEADER_BYTES` behind it. Nothing is checked."""
    return BatchHeader._make(HEADER.unpack_from(data, at))


def has_crc(header: BatchHeader, batch: Buffer | bytearray) -> bool:
    """Returns whether the checksum of a whole batch holds."""
    return crc32c(memoryview(batch)[CHECKED_AT : header.size]) == header.crc


def check_batch(data: Buffer | bytearray, at: int = 0) -> BatchHeader:
    """The header of the batch at an offset, which is there to its last byte and not damaged.

    Raises CorruptRecordError.
    """
    left = len(data) - at
    if left > MAGIC_AT and (magic := data[at + MAGIC_AT]) != MAGIC:
        raise CorruptRecordError("magic", at + MAGIC_AT, f"{MAGIC}", _magic_name(magic))
    if left < HEADER_BYTES:
        raise CorruptRecordError("header", at, f"{HEADER_BYTES} bytes", f"{left} before the end")
    header = read_header(data, at)
    if not HEADER_BYTES - SIZED.size <= header.length <= left - SIZED.size:
        expected = f"{HEADER_BYTES - SIZED.size} to {left - SIZED.size} bytes"
        raise CorruptRecordError("length", at + 8, expected, str(header.length))
    crc = crc32c(memoryview(data)[at + CHECKED_AT : at + header.size])
    if crc != header.crc:
        raise CorruptRecordError("crc", at + CRC_AT, f"{crc:#010x}, by the bytes", f"{header.crc:#010x}")
    if header.compression >= len(COMPRESSIONS):
        expected = f"a compression below {len(COMPRESSIONS)}"
        raise CorruptRecordError("attributes", at + CHECKED_AT, expected, str(header.compression))
    if header.last_offset_delta < 0 or not 0 <= header.record_count <= header.last_offset_delta + 1:
        expected = f"0 to {header.last_offset_delta + 1} by its last offset delta"
        raise CorruptRecordError("record count", at + HEADER_BYTES - 4, expected, str(header.record_count))
    return header


def _magic_name(magic: int) -> str:
    return f"{magic}, a message set of Kafka before 0.11" if magic < MAGIC else str(magic)


def check_records(data: Buffer | bytearray) -> list[BatchHeader]:
    """The headers of all batches of a record set, each checked. Raises CorruptRecordError."""
    found: list[BatchHeader] = []
    at = 0
    while at < len(data):
        found.append(check_batch(data, at))
        at += found[-1].size
    return found


def stamp(data: bytearray, at: int, base_offset: int, leader_epoch: int) -> None:
    """Gives the batch at an offset its place in the log. Its CRC still holds."""
    _OFFSET.pack_into(data, at, base_offset)
    _EPOCH.pack_into(data, at + _EPOCH_AT, leader_epoch)


def stamp_append_time(data: bytearray, at: int, append_time_ms: int) -> None:
    """Gives all records of the whole batch at an offset one timestamp, and the batch the CRC of that."""
    header = read_header(data, at)
    _ATTRIBUTES.pack_into(data, at + CHECKED_AT, header.attributes | LOG_APPEND_TIME)
    _OFFSET.pack_into(data, at + _MAX_TIMESTAMP_AT, append_time_ms)
    with memoryview(data) as view:
        _CRC.pack_into(data, at + CRC_AT, crc32c(view[at + CHECKED_AT : at + header.size]))


def can_be_read(header: BatchHeader) -> bool:
    """Returns whether `records_of` reads the records of the batch."""
    return header.compression <= GZIP


def records_of(batch: Buffer, max_bytes: int = INFLATED_BYTES_MAX) -> Iterator[Record]:
    """The records of one whole batch, whose CRC is not checked again.

    Args:
        batch: with no compression or gzip.
        max_bytes: of the records when they are unpacked.

    Raises CorruptRecordError.
    """
    header = read_header(batch)
    data = bytes(memoryview(batch)[HEADER_BYTES : header.size])
    if header.compression == GZIP:
        data = _inflated(data, max_bytes)
    elif header.compression:
        expected = "none or gzip, which are read here"
        raise CorruptRecordError("compression", CHECKED_AT, expected, COMPRESSIONS[header.compression])
    at = 0
    for _ in range(header.record_count):
        record, at = _record(data, at, header)
        yield record
    if at != len(data):
        raise CorruptRecordError("records", at, "the end", f"{len(data) - at} bytes more")


def all_records(batches: Buffer) -> Iterator[Record]:
    """The records of whole batches that lie one after the other, as in a log. Raises CorruptRecordError."""
    at = 0
    while at < len(batches):
        end = at + check_batch(batches, at).size
        yield from records_of(memoryview(batches)[at:end])
        at = end


def _inflated(data: bytes, max_bytes: int) -> bytes:
    inflater = zlib.decompressobj(wbits=31)
    try:
        found = inflater.decompress(data, max_bytes)
    except zlib.error as error:
        raise CorruptRecordError("records", HEADER_BYTES, "gzip", str(error)) from error
    if not inflater.eof:
        expected = f"the end of gzip within {max_bytes} bytes"
        raise CorruptRecordError("records", HEADER_BYTES, expected, f"{len(found)} bytes and no end")
    return found


def _record(data: bytes, at: int, header: BatchHeader) -> tuple[Record, int]:
    size, start = _varint(data, at)
    end = start + size
    if size < _RECORD_BYTES_MIN - 1 or end > len(data):
        raise CorruptRecordError("record", at, f"at most {len(data) - start} bytes", str(size))
    time_delta, at = _varint(data, start + 1)  # behind attributes, which are not used
    offset_delta, at = _varint(data, at)
    key, at = _nullable(data, at, end)
    value, at = _nullable(data, at, end)
    count, at = _varint(data, at)
    if not 0 <= count <= (end - at) // 2:
        raise CorruptRecordError("headers", at, f"0 to {(end - at) // 2}", str(count))
    headers = []
    for _ in range(count):
        name, place = _nullable(data, at, end)
        if name is None:
            raise CorruptRecordError("header", at, "a name", "null")
        found, at = _nullable(data, place, end)
        try:
            headers.append((name.decode(), found))
        except UnicodeDecodeError as error:
            raise CorruptRecordError("header", place, "UTF-8", repr(name[:40])) from error
    if at != end:
        raise CorruptRecordError("record", at, f"its end at {end}", "another length")
    time = header.max_timestamp if header.has_append_time else header.first_timestamp + time_delta
    return Record(header.base_offset + offset_delta, time, key, value, tuple(headers)), at


def _nullable(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    size, start = _varint(data, at)
    if size < 0:
        if size != -1:
            raise CorruptRecordError("length", at, "-1 or more", str(size))
        return None, start
    if size > end - start:
        raise CorruptRecordError("length", at, f"at most {end - start}", str(size))
    return data[start : start + size], start + size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint of up to ten bytes."""
    value = shift = 0
    for index in range(at, min(at + 10, len(data))):
        byte = data[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), index + 1
        shift += 7
    raise CorruptRecordError("varint", at, "its end within 10 bytes", data[at : at + 10].hex(" "))
