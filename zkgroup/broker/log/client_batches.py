"""Checks record batches before an append, and stamps those of clients. Pure.

Sources: kafka/log/Log.scala (`analyzeAndValidateRecords`), kafka/log/LogValidator.scala @2.8.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final, NamedTuple

from zkgroup.broker.log.log_config import LogConfig
from zkgroup.errors import CorruptRecordError
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.record_batch import (
    BatchHeader,
    can_be_read,
    check_batch,
    check_records,
    read_header,
    records_of,
    stamp,
    stamp_append_time,
)
from zkgroup.wire.records import RecordError
from zkgroup.wire.schema import Buffer

RECORD_ERRORS_MAX: Final = 10_000
"""Most records that a refusal names: a batch may claim to have 2,147,483,647."""


_CODES: Final[Mapping[str, ErrorCode]] = {
    "header": ErrorCode.INVALID_RECORD,
    "record count": ErrorCode.INVALID_RECORD,
    "attributes": ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
}
"""By the field of a `CorruptRecordError`. Clients send a batch again after CORRUPT_RECORD alone, which is for
damage on the way. (Kafka 2.8 has UNKNOWN for a compression that it does not know.)"""


class RefusedBatches(NamedTuple):
    """The reason why batches are not appended."""

    error: ErrorCode
    reason: str
    record_errors: tuple[RecordError, ...] = ()
    """The records for which a batch is refused, where it is refused for single records."""


def checked_batches(
    records: Buffer, config: LogConfig, topic_partition: TopicPartition
) -> list[BatchHeader] | RefusedBatches:
    """The headers of a client's batches, all of which may be appended."""
    try:
        batches = check_records(records)
    except CorruptRecordError as error:
        return RefusedBatches(_CODES.get(error.field, ErrorCode.CORRUPT_RECORD), str(error))
    if not batches:
        return RefusedBatches(ErrorCode.INVALID_RECORD, "expected a record batch, found none")
    at = 0
    for batch in batches:
        refused = _refusal(batch, config)
        if refused is None and config.needs_keys and can_be_read(batch):
            refused = _refused_keys(memoryview(records)[at : at + batch.size], topic_partition)
        if refused is not None:
            return refused
        at += batch.size
    return batches


def _refusal(batch: BatchHeader, config: LogConfig) -> RefusedBatches | None:
    if batch.size > config.max_message_bytes:
        limit = config.max_message_bytes
        return RefusedBatches(
            ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {batch.size} bytes is larger than {limit}"
        )
    if batch.base_offset != 0:
        return RefusedBatches(
            ErrorCode.INVALID_RECORD, f"a batch has base offset {batch.base_offset}: expected 0"
        )
    if batch.record_count != batch.last_offset_delta + 1:
        found = f"{batch.record_count} records, the last at {batch.last_offset_delta}"
        return RefusedBatches(ErrorCode.INVALID_RECORD, f"a batch has {found}")
    if batch.is_control or batch.is_transactional:
        return RefusedBatches(
            ErrorCode.INVALID_RECORD, "a batch is of a transaction, and there are none here"
        )
    if batch.has_append_time:
        return _refused_timestamps(batch)
    return None


def _refused_timestamps(batch: BatchHeader) -> RefusedBatches:
    """Names each record, as Kafka does, which checks the timestamps of all."""
    reason = "the producer has set the timestamp type LogAppendTime, which is the leader's"
    named = range(min(batch.record_count, RECORD_ERRORS_MAX))
    return RefusedBatches(
        ErrorCode.INVALID_TIMESTAMP,
        "one or more records are refused for their timestamps",
        tuple(RecordError(index, reason) for index in named),
    )


def _refused_keys(batch: Buffer, topic_partition: TopicPartition) -> RefusedBatches | None:
    """Names each record without a key, in Kafka's words, or the place where the records are damaged."""
    where = f"topic partition {topic_partition.topic}-{topic_partition.partition}"
    reason = f"Compacted topic cannot accept message without key in {where}."
    try:
        without_key = (index for index, record in enumerate(records_of(batch)) if record.key is None)
        named = tuple(RecordError(index, reason) for index in islice(without_key, RECORD_ERRORS_MAX))
    except CorruptRecordError as error:
        return RefusedBatches(ErrorCode.INVALID_RECORD, str(error))
    if not named:
        return None
    return RefusedBatches(ErrorCode.INVALID_RECORD, "One or more records have been rejected", named)


def stamped(
    records: Buffer, batches: list[BatchHeader], base_offset: int, leader_epoch: int, append_time: int | None
) -> tuple[bytearray, list[BatchHeader]]:
    """The batches with offsets from `base_offset` on and the leader's epoch; with `append_time` as the
    timestamp of all records. And their headers then."""
    data = bytearray(records)
    headers = []
    at = 0
    for batch in batches:
        stamp(data, at, base_offset, leader_epoch)
        if append_time is not None:
            stamp_append_time(data, at, append_time)
        headers.append(read_header(data, at))
        base_offset += batch.record_count
        at += batch.size
    return data, headers


def follower_batches(
    records: Buffer, next_offset: int, last_epoch: int, leader_epoch: int
) -> tuple[list[BatchHeader], str | None]:
    """The headers of a leader's batches that continue a log, which ends at an offset with a record of
    `last_epoch`; and what is wrong with the batch behind them, None where nothing is.

    A batch behind others that is not whole is left out.
    """
    batches: list[BatchHeader] = []
    at = 0
    while at < len(records):
        try:
            batch = check_batch(records, at)
        except CorruptRecordError as error:
            if batches and error.field in ("header", "length"):
                return batches, None
            return batches, f"the leader's batch for offset {next_offset} is damaged: {error}"
        if batch.base_offset != next_offset or not last_epoch <= batch.leader_epoch <= leader_epoch:
            return batches, (
                f"the leader's batch of {batch.record_count} records at {batch.base_offset}, epoch "
                f"{batch.leader_epoch}, does not follow record {next_offset}"
            )
        batches.append(batch)
        next_offset, last_epoch = batch.last_offset + 1, batch.leader_epoch
        at += batch.size
    return batches, None
