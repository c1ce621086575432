"""Settings of a partition's log, and what follows from them: when to roll, what to delete. Pure.

Names and defaults: kafka/log/LogConfig.scala@2.8.2; kafka/log/Log.scala@2.8.2 (`deletableSegments`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from zkgroup.broker.log.storage import Flush
from zkgroup.errors import ConfigError

WEEK_MS: Final = 7 * 24 * 60 * 60 * 1000
SEGMENT_BYTES_MIN: Final = 14
SEGMENT_BYTES_MAX: Final = (1 << 31) - 1


class TimestampType(Enum):
    """`message.timestamp.type`."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Settings of a log; those of a topic may differ from its broker's."""

    segment_bytes: int = 1024**3
    segment_ms: int = WEEK_MS
    retention_bytes: int = -1
    """-1: no limit."""
    retention_ms: int = WEEK_MS
    """-1: no limit."""
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1_048_588
    """Of a batch from a client."""
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    keeps_all: bool = False
    """True if no record may be deleted: the topic's `cleanup.policy` lacks `delete`."""
    needs_keys: bool = False
    """True if a record without a key is refused: the topic's `cleanup.policy` has `compact`."""
    flush: Flush = Flush.NONE
    producer_id_expiration_ms: int = WEEK_MS
    """Kafka's `transactional.id.expiration.ms`, which is about idempotent producers too."""

    def __post_init__(self) -> None:
        """Positions in an index are int32. Raises ConfigError."""
        if not SEGMENT_BYTES_MIN <= self.segment_bytes <= SEGMENT_BYTES_MAX:
            limits = f"{SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX}"
            raise ConfigError(f"segment.bytes: expected {limits}, found {self.segment_bytes}")


def should_roll(config: LogConfig, size: int, added: int, age_ms: int | None) -> bool:
    """Returns whether a batch begins a new segment.

    `size`: of the active segment; `added`: of the batch; `age_ms`: from the segment's first batch to this
    one, None where either has no timestamp.
    """
    if size == 0:
        return False
    return size + added > config.segment_bytes or (age_ms is not None and age_ms > config.segment_ms)


def count_deletable(
    config: LogConfig,
    sizes: Sequence[int],
    ends: Sequence[int],
    high_watermark: int,
    now_ms: int,
    newest_ms: Callable[[int], int],
) -> int:
    """Returns the number of segments, from the oldest on, that retention deletes.

    Those are the ones that end at or below the high watermark, as long as the log is larger than
    `retention_bytes` without them or they are older than `retention_ms`.

    `sizes` and `ends` (the next offset) are of all segments; `newest_ms` gives the largest timestamp in
    one by its number, -1 with none.
    """
    excess = sum(sizes) - config.retention_bytes if config.retention_bytes >= 0 else -1
    for number, (size, end) in enumerate(zip(sizes, ends, strict=True)):
        if end > high_watermark:
            return number
        if excess < size and not _is_old(config, now_ms, newest_ms, number):
            return number
        excess -= size
    return len(sizes)


def _is_old(config: LogConfig, now_ms: int, newest_ms: Callable[[int], int], number: int) -> bool:
    if config.retention_ms < 0:
        return False
    newest = newest_ms(number)
    return newest >= 0 and now_ms - newest > config.retention_ms
