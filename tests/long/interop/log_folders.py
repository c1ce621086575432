"""A data folder that zkgroup writes and Kafka's tools read: codecs, leader epochs, producers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from kafka import codec
from kafka.record.default_records import DefaultRecordBatchBuilder

from zkgroup.broker.log.data_dir import DataDir
from zkgroup.broker.log.log_config import LogConfig
from zkgroup.broker.log.partition_log import PartitionLog
from zkgroup.model import TopicPartition

TP = TopicPartition("orders", 0)
CODECS = {
    "NONE": 0,
    **{
        name: number
        for name, number, present in (
            ("GZIP", 1, codec.has_gzip()),
            ("SNAPPY", 2, codec.has_snappy()),
            ("LZ4", 3, codec.has_lz4()),
            ("ZSTD", 4, codec.has_zstd()),
        )
        if present
    },
}
"""Kafka's names of the codecs that kafka-python can write here, and their numbers."""
CONFIG = LogConfig(segment_bytes=4_096, index_interval_bytes=512)
"""Makes more than two segments: the batches are 17 kB with every codec and 35 kB with gzip alone."""
PRODUCER, PRODUCER_EPOCH = 4711, 3
APPENDED_MS = 1_700_000_000_000
"""The broker's clock at every append, in milliseconds."""


@dataclass(frozen=True)
class Sent:
    """A record as its client sent it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    codec: str
    leader_epoch: int


def write_folder(folder: Path) -> list[Sent]:
    """Writes segments of three leader epochs into a data folder and shuts it down cleanly; the records."""
    data_dir = DataDir.on_disk(folder, 1, "cluster-a", CONFIG, lambda: APPENDED_MS)
    log = data_dir.create(TP, 0)
    sent: list[Sent] = []
    for number in range(120):
        name = list(CODECS)[number % len(CODECS)]
        sent += _append(log, number, name, leader_epoch=number // 40)
    log.keep_high_watermark(log.end_offset)
    data_dir.close()
    return sent


def _append(log: PartitionLog, number: int, name: str, leader_epoch: int) -> list[Sent]:
    records = [
        Sent(
            offset=log.end_offset + delta,
            timestamp=1_690_000_000_000 + 1_000 * (number + number * 7 % 5) + delta,
            key=None if number % 4 == 0 else b"k%d" % number,
            value=None if (number + delta) % 9 == 8 else b"value %d " % number * (number % 30 + 1),
            headers=(("h", b"x"),) if number % 3 == 0 else (),
            codec=name,
            leader_epoch=leader_epoch,
        )
        for delta in range(number % 5 + 1)
    ]
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=CODECS[name],
        is_transactional=False,
        producer_id=PRODUCER,
        producer_epoch=PRODUCER_EPOCH,
        base_sequence=log.end_offset,
        batch_size=1 << 20,
    )
    for delta, record in enumerate(records):
        builder.append(delta, record.timestamp, record.key, record.value, list(record.headers))
    batch = bytes(builder.build())
    appended = log.append_as_leader(batch, leader_epoch, APPENDED_MS)
    assert (appended.error, appended.base_offset) == (0, records[0].offset), appended
    if batch[22] & 7 == 0:  # it is smaller without compression, so kafka-python does without
        return [replace(record, codec="NONE") for record in records]
    return records
