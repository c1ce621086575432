"""The first record of a batch that has a timestamp or a later one. Pure.

Exact for batches without compression and with gzip, which Python can always decompress, and for those in
which all records or the first one fit. For others it is the first record of the batch: a client that starts
there gets some records too many. So it is for a batch of more than `RECORDS_MAX` records, and for one whose
records are not as its header says: a client can make a batch of a few bytes that would take hours.

Only the beginning of each record is read; a batch is decompressed piece by piece, so that one of a few bytes
cannot fill the memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from zkgroup.wire.record_batch import GZIP, HEADER_BYTES, INFLATED_BYTES_MAX, BatchHeader, can_be_read

RECORDS_MAX: Final = 200_000
"""Most records of a batch that are looked at, in about a second; a batch of 1 MiB without compression has
fewer."""
_PIECE_BYTES: Final = 64 * 1024
_PACKED_BYTES: Final = 4 * 1024
_GZIP_WINDOW: Final = 31


class TimestampOffset(NamedTuple):
    """A record that was found by its time."""

    offset: int
    timestamp: int


def first_record_from(
    header: BatchHeader, batch: bytes, timestamp: int, start_offset: int
) -> TimestampOffset | None:
    """The first record at a time or later, and at an offset or behind it; None with none, which can only be
    where the batch begins before that offset.

    `batch` is all of it; its largest timestamp is not before `timestamp`.
    """
    first = max(header.base_offset, start_offset)
    if header.has_append_time:
        return TimestampOffset(first, header.max_timestamp)
    if header.first_timestamp >= timestamp and first == header.base_offset:
        return TimestampOffset(first, header.first_timestamp)
    inexact = TimestampOffset(first, header.max_timestamp)
    if not can_be_read(header) or header.record_count > RECORDS_MAX:
        return inexact
    data = memoryview(batch)[HEADER_BYTES:]
    pieces = _decompressed(data) if header.compression == GZIP else iter((bytes(data),))
    try:
        for offset_delta, timestamp_delta in _deltas(_Bytes(pieces), header.record_count):
            offset = header.base_offset + offset_delta
            time = header.first_timestamp + timestamp_delta
            if time >= timestamp and offset >= start_offset:
                return TimestampOffset(offset, time)
    except (EOFError, zlib.error):
        return inexact  # its checksum holds: the client wrote it so
    return inexact if first == header.base_offset else None


def _decompressed(data: memoryview) -> Iterator[bytes]:
    unpacking = zlib.decompressobj(_GZIP_WINDOW)
    room = INFLATED_BYTES_MAX
    for start in range(0, len(data), _PACKED_BYTES):
        left = bytes(data[start : start + _PACKED_BYTES])
        while left and not unpacking.eof:
            piece = unpacking.decompress(left, _PIECE_BYTES)
            if (room := room - len(piece)) < 0:
                return
            yield piece
            left = unpacking.unconsumed_tail


def _deltas(records: _Bytes, count: int) -> Iterator[tuple[int, int]]:
    """Offset and timestamp of each record, less those of the first one."""
    for _ in range(count):
        length = records.varint()
        before = records.position
        records.skip(1)  # attributes
        timestamp_delta, offset_delta = records.varint(), records.varint()
        records.skip(length - (records.position - before))
        yield offset_delta, timestamp_delta


class _Bytes:
    """Bytes that come in pieces. Raises EOFError where they end too early, or a length is wrong."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._piece = b""
        self._at = 0
        self.position = 0

    def skip(self, size: int) -> None:
        if size < 0:
            raise EOFError
        self.position += size
        while size > len(self._piece) - self._at:
            size -= len(self._piece) - self._at
            self._next()
        self._at += size

    def varint(self) -> int:
        """A signed number, zigzag."""
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value >> 1 ^ -(value & 1)
            shift += 7
            if shift > 63:
                raise EOFError

    def _byte(self) -> int:
        while self._at == len(self._piece):
            self._next()
        self._at += 1
        self.position += 1
        return self._piece[self._at - 1]

    def _next(self) -> None:
        piece = next(self._pieces, None)
        if piece is None:
            raise EOFError
        self._piece, self._at = piece, 0
