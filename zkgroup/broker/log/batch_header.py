"""Headers of record batches, as the log needs them, until `zkgroup.wire.record_batch` is there."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from zkgroup.wire.crc32c import crc32c

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size
SIZED: Final = struct.Struct(">qi")
CRC_AT: Final = 17
CHECKED_AT: Final = 21


class ErrorCode(IntEnum):
    """Kafka's error codes of an append."""

    NONE = 0
    CORRUPT_RECORD = 2
    MESSAGE_TOO_LARGE = 10
    INVALID_TIMESTAMP = 32
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    UNKNOWN_PRODUCER_ID = 59
    INVALID_RECORD = 87


class BatchHeader(NamedTuple):
    """All of a batch but its records."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    first_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
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
    def is_plausible(self) -> bool:
        """Whether it can be the header of a batch."""
        return (
            self.magic == 2 and self.size >= HEADER_BYTES and self.last_offset_delta >= 0 <= self.record_count
        )


def read_header(data: bytes | bytearray | memoryview, at: int = 0) -> BatchHeader:
    """The header of the batch that begins at a byte, which has enough bytes behind it."""
    return BatchHeader._make(HEADER.unpack_from(data, at))


def has_crc(header: BatchHeader, batch: bytes | memoryview) -> bool:
    """Whether the checksum of a whole batch holds."""
    return crc32c(bytes(batch[CHECKED_AT:])) == header.crc
