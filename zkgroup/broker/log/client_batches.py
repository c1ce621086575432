"""Record batches on their way into a log: those of clients are checked and stamped, those of a leader are
checked against the log that they shall go on. Pure.

Sources: kafka/log/Log.scala (`analyzeAndValidateRecords`), kafka/log/LogValidator.scala @2.8.2.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from zkgroup.broker.log.batch_header import (
    CHECKED_AT,
    HEADER_BYTES,
    BatchHeader,
    ErrorCode,
    has_crc,
    read_header,
)
from zkgroup.broker.log.log_config import LogConfig
from zkgroup.wire.crc32c import crc32c

TIMESTAMP_TYPE: Final = 0x08
"""Attribute of a batch whose records have the time at which the leader appended them."""
CONTROL: Final = 0x20
"""Attribute of a batch that only a transaction coordinator writes."""
CODECS: Final = range(5)
"""None, gzip, snappy, lz4, zstd: the lowest three bits of the attributes."""

_OFFSET: Final = struct.Struct(">q")
_EPOCH: Final = struct.Struct(">i")
_ATTRIBUTES: Final = struct.Struct(">h")
_EPOCH_AT: Final = 12
_CRC_AT: Final = 17
_MAX_TIMESTAMP_AT: Final = 35


class Refused(NamedTuple):
    """Why batches are not appended."""

    error: ErrorCode
    reason: str


def checked_batches(records: bytes, config: LogConfig) -> list[BatchHeader] | Refused:
    """The headers of a client's batches, all of which may be appended."""
    batches: list[BatchHeader] = []
    at = 0
    while at < len(records) or not batches:
        if at + HEADER_BYTES > len(records):
            return Refused(ErrorCode.CORRUPT_RECORD, f"the batch at byte {at} is cut short")
        batch = read_header(records, at)
        if (refused := _refusal(batch, memoryview(records)[at : at + batch.size], config)) is not None:
            return refused
        batches.append(batch)
        at += batch.size
    return batches


def _refusal(batch: BatchHeader, data: memoryview, config: LogConfig) -> Refused | None:
    if not batch.is_plausible or len(data) != batch.size:
        return Refused(ErrorCode.CORRUPT_RECORD, "expected a record batch of magic 2, and all of it")
    if batch.size > config.max_message_bytes:
        limit = config.max_message_bytes
        return Refused(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {batch.size} bytes is larger than {limit}")
    if not has_crc(batch, data):
        return Refused(ErrorCode.CORRUPT_RECORD, "the checksum of a batch is wrong")
    if batch.record_count != batch.last_offset_delta + 1:
        found = f"{batch.record_count} records, the last at {batch.last_offset_delta}"
        return Refused(ErrorCode.INVALID_RECORD, f"a batch has {found}")
    if batch.attributes & CONTROL or batch.attributes & 7 not in CODECS:
        return Refused(ErrorCode.INVALID_RECORD, f"a batch has attributes {batch.attributes:#x}")
    if batch.attributes & TIMESTAMP_TYPE:
        return Refused(ErrorCode.INVALID_TIMESTAMP, "a client's batch has timestamps of type LogAppendTime")
    return None


def stamp(
    records: bytes, batches: list[BatchHeader], base_offset: int, leader_epoch: int, append_time: int | None
) -> tuple[bytearray, list[BatchHeader]]:
    """The batches with offsets from `base_offset` on and the leader's epoch, which lie outside the CRC; with
    `append_time` as the timestamp of all records, and with the CRC that this makes."""
    data = bytearray(records)
    stamped = []
    at = 0
    for batch in batches:
        _OFFSET.pack_into(data, at, base_offset)
        _EPOCH.pack_into(data, at + _EPOCH_AT, leader_epoch)
        if append_time is not None:
            _ATTRIBUTES.pack_into(data, at + CHECKED_AT, batch.attributes | TIMESTAMP_TYPE)
            _OFFSET.pack_into(data, at + _MAX_TIMESTAMP_AT, append_time)
            crc = crc32c(bytes(memoryview(data)[at + CHECKED_AT : at + batch.size]))
            data[at + _CRC_AT : at + CHECKED_AT] = crc.to_bytes(4, "big")
        stamped.append(read_header(data, at))
        base_offset += batch.record_count
        at += batch.size
    return data, stamped


def follower_batches(
    records: bytes, next_offset: int, last_epoch: int, leader_epoch: int
) -> tuple[list[BatchHeader], str | None]:
    """The headers of a leader's batches that continue a log, which ends at an offset with a record of
    `last_epoch`; and what is wrong with the batch behind them, None where nothing is.

    A batch at the end that is not whole is left out.
    """
    batches: list[BatchHeader] = []
    at = 0
    while at + HEADER_BYTES <= len(records):
        batch = read_header(records, at)
        data = memoryview(records)[at : at + batch.size]
        if batch.is_plausible and len(data) < batch.size and batches:
            break
        follows = batch.base_offset == next_offset and last_epoch <= batch.leader_epoch <= leader_epoch
        if not (batch.is_plausible and len(data) == batch.size and follows and has_crc(batch, data)):
            return batches, (
                f"the leader's batch of {batch.record_count} records at {batch.base_offset}, epoch "
                f"{batch.leader_epoch}, is damaged or does not follow record {next_offset}"
            )
        batches.append(batch)
        next_offset, last_epoch = batch.last_offset + 1, batch.leader_epoch
        at += batch.size
    return batches, None
