"""Record batches as clients send them, made by kafka-python; and logs in memory to put them into."""

from __future__ import annotations

from collections.abc import Sequence

from kafka.record.default_records import DefaultRecordBatchBuilder

from zkgroup.broker.log.log_config import LogConfig
from zkgroup.broker.log.log_loader import LoadMarks, create_log, load_log
from zkgroup.broker.log.partition_log import PartitionLog
from zkgroup.broker.log.storage import MemoryStorage, Storage
from zkgroup.model import TopicPartition
from zkgroup.wire.record_batch import BatchHeader, read_header

TP = TopicPartition("orders", 0)
FOLDER = "orders-0"
GZIP = 1


def batch(
    *values: bytes,
    timestamp: int | Sequence[int] = 1_000,
    producer: tuple[int, int, int] = (-1, -1, -1),
    compression: int = 0,
) -> bytes:
    """One batch; `producer`: id, epoch, base sequence; `timestamp`: of all records, or of each."""
    times = [timestamp] * len(values) if isinstance(timestamp, int) else timestamp
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=False,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        batch_size=1 << 30,
    )
    for number, (value, time) in enumerate(zip(values, times, strict=True)):
        assert builder.append(number, timestamp=time, key=None, value=value, headers=[]) is not None
    return bytes(builder.build())


def headers_of(records: bytes) -> list[BatchHeader]:
    """The headers of whole batches."""
    found, at = [], 0
    while at < len(records):
        found.append(read_header(records, at))
        at += found[-1].size
    assert at == len(records)
    return found


def new_log(
    storage: Storage | None = None, config: LogConfig | None = None, high_watermark: int | None = 0
) -> PartitionLog:
    return create_log(storage or MemoryStorage(), TP, config or LogConfig(), high_watermark)


def opened(
    storage: Storage,
    config: LogConfig | None = None,
    *,
    recovery_point: int = 0,
    start_offset: int = 0,
    clean: bool = False,
    now_ms: int = 2_000,
) -> PartitionLog:
    """The log in a storage, which has one."""
    marks = LoadMarks(recovery_point, start_offset, clean)
    log = load_log(storage, TP, config or LogConfig(), marks, now_ms)
    assert log is not None
    return log


def append(
    log: PartitionLog, *values: bytes, epoch: int = 0, now_ms: int = 1_000, timestamp: int = 1_000
) -> int:
    """Appends one batch as leader; returns its base offset."""
    appended = log.append_as_leader(batch(*values, timestamp=timestamp), epoch, now_ms)
    assert appended.error == 0, appended
    return appended.base_offset


def contents(log: PartitionLog) -> bytes:
    """All that a follower would get."""
    found, offset = b"", log.start_offset
    while offset < log.end_offset:
        records = log.read(offset, log.end_offset, 1 << 20)
        assert records
        found += records
        offset = headers_of(records)[-1].last_offset + 1
    return found
