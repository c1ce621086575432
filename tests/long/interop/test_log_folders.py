"""Kafka's own `DumpLogSegments` reads zkgroup's data folders, and zkgroup reads those of Kafka's brokers."""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.record.memory_records import MemoryRecords

from tests.long.interop.conftest import fetched
from tests.long.interop.log_folders import (
    APPENDED_MS,
    CODECS,
    CONFIG,
    PRODUCER,
    PRODUCER_EPOCH,
    Sent,
    write_folder,
)
from tests.long.interop.servers import RealBroker, RealZooKeeper
from tests.long.interop.toolbox import Toolbox
from tests.waiting import PATIENCE_S, eventually
from zkgroup.broker.log.data_dir import DataDir
from zkgroup.broker.log.log_config import LogConfig
from zkgroup.broker.log.partition_log import PartitionLog
from zkgroup.model import TopicPartition

RELEASE = "2.8.2"


class Dump:
    """`DumpLogSegments` on the files of one ending in a folder."""

    def __init__(self, box: Toolbox, folder: Path) -> None:
        self._box = box
        self._folder = folder

    def __call__(self, ending: str, *options: str) -> str:
        files = ",".join(str(path) for path in sorted(self._folder.glob(f"*{ending}")))
        printed = self._box.run(RELEASE, "kafka.tools.DumpLogSegments", *options, "--files", files)
        assert printed.code == 0, printed.text
        return printed.text


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Sent]]:
    folder = tmp_path_factory.mktemp("ours") / "data"
    return folder / "orders-0", write_folder(folder)


@pytest.fixture(scope="module")
def dumping() -> Iterator[Toolbox]:
    fetched(RELEASE)
    with Toolbox() as box:
        yield box


@pytest.fixture
def dump(dumping: Toolbox, written: tuple[Path, list[Sent]]) -> Dump:
    return Dump(dumping, written[0])


def fields(line: str) -> dict[str, str]:
    """The `name: value` pairs of a dumped line."""
    return dict(re.findall(r"(\w+): (\[[^\]]*\]|\S+)", line))


def test_every_record_is_dumped_as_it_was_sent(dump: Dump, written: tuple[Path, list[Sent]]) -> None:
    """Keys, values, nulls, headers, timestamps, leader epochs, sequences, and every available codec."""
    lines = [fields(line) for line in dump(".log", "--deep-iteration", "--print-data-log").splitlines()]
    records = [line for line in lines if "payload" in line or "keySize" in line]
    batches = [line for line in lines if "isvalid" in line]
    sent = written[1]

    assert len(list(written[0].glob("*.log"))) > 2
    assert {batch["isvalid"] for batch in batches} == {"true"}
    assert {batch["compresscodec"] for batch in batches} == set(CODECS)
    assert [int(record["offset"]) for record in records] == [each.offset for each in sent]
    for record, each in zip(records, sent, strict=True):
        assert int(record["CreateTime"]) == each.timestamp
        assert int(record["keySize"]) == (-1 if each.key is None else len(each.key))
        assert int(record["valueSize"]) == (-1 if each.value is None else len(each.value))
        assert record["headerKeys"] == "[" + ",".join(key for key, _ in each.headers) + "]"
        assert record["compressType"] == each.codec
        assert int(record["partitionLeaderEpoch"]) == each.leader_epoch
        assert (int(record["sequence"]), int(record["producerEpoch"])) == (each.offset, PRODUCER_EPOCH)
        if each.key is not None:
            assert record["key"] == each.key.decode()
        if each.value:
            assert record["payload"] == each.value.split()[0].decode()


def test_the_indexes_bear_kafkas_examination(dump: Dump, written: tuple[Path, list[Sent]]) -> None:
    """Sane, and every entry found in the segment; a control shows that the tool notices a wrong one."""
    assert dump(".index", "--index-sanity-check").count("passed sanity check") > 2
    for ending in (".index", ".timeindex"):
        text = dump(ending, "--deep-iteration")
        assert len(re.findall(r"offset: \d+", text)) > 20
        assert "Mismatches" not in text
        assert "are not found" not in text
        assert "out of order" not in text.lower()


def test_the_tool_would_see_a_wrong_index(
    dumping: Toolbox, written: tuple[Path, list[Sent]], tmp_path: Path
) -> None:
    """A control: the tool notices one wrong entry in each index."""
    folder = shutil.copytree(written[0], tmp_path / "orders-0")
    for ending, position in ((".index", 3), (".timeindex", 7)):
        path = sorted(folder.glob(f"*{ending}"))[0]
        data = bytearray(path.read_bytes())
        data[position] ^= 1
        path.write_bytes(data)
        assert re.search("Mismatches|are not found", Dump(dumping, folder)(ending))


def test_producer_snapshots_are_dumped(dump: Dump, written: tuple[Path, list[Sent]]) -> None:
    """The last batch of the producer at each roll and at the end, and the broker's time of its append."""
    snapshots = [fields(line) for line in dump(".snapshot").splitlines() if "producerId" in line]
    ends = [int(path.stem) for path in sorted(written[0].glob("*.snapshot"))]

    assert len(snapshots) == len(ends) > 2
    assert ends[-1] == len(written[1])
    for snapshot, end in zip(snapshots, ends, strict=True):
        assert snapshot["producerId"] == str(PRODUCER)
        assert snapshot["producerEpoch"] == str(PRODUCER_EPOCH)
        assert int(snapshot["lastOffset"]) == int(snapshot["lastSequence"]) == end - 1
        assert int(snapshot["timestamp"]) == APPENDED_MS


TOPIC = TopicPartition("written-by-kafka", 0)
RECORDS = 1_000


@pytest.fixture(scope="module", params=["clean", "killed"])
def kafkas(
    request: pytest.FixtureRequest, real_zookeeper: RealZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The data folder of a broker of 2.8.2 that was shut down, or killed."""
    fetched(RELEASE)
    broker = RealBroker(
        real_zookeeper,
        tmp_path_factory.mktemp(f"kafka-{request.param}"),
        number=7,
        chroot=f"/log-folders-{request.param}",
        version=RELEASE,
        auto_create_topics_enable="true",
        log_segment_bytes=8_192,
        log_index_interval_bytes=512,
    )
    try:
        broker.wait_ready()
        producer = KafkaProducer(bootstrap_servers=[broker.address], linger_ms=5, batch_size=600)
        answers = [
            producer.send(
                TOPIC.topic, b"value %d" % n, key=b"k%d" % n, partition=0, timestamp_ms=1_000_000 + n
            )
            for n in range(RECORDS)
        ]
        assert [answer.get(PATIENCE_S).offset for answer in answers] == list(range(RECORDS))
        producer.close()
        if request.param == "clean":
            broker.process.signal(signal.SIGTERM)
            eventually(lambda: not broker.process.running, what="the broker has ended")
    finally:
        broker.stop()
    return Path(broker.process.log).parent / "logs"


def records_of(log: PartitionLog) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """Offset, timestamp, key and value of all records, read as a consumer reads."""
    found = []
    offset = log.start_offset
    while offset < log.end_offset:
        batches = MemoryRecords(log.read(offset, log.end_offset, 1_000))
        while (batch := batches.next_batch()) is not None:
            found += [(record.offset, record.timestamp, record.key, record.value) for record in batch]
        offset = found[-1][0] + 1
    return found


def test_a_folder_of_kafkas_is_read(kafkas: Path, tmp_path: Path) -> None:
    """All records, at their offsets and times, of a broker shut down or killed; the folder takes appends."""
    folder = shutil.copytree(kafkas, tmp_path / "logs")
    config = replace(CONFIG, retention_ms=-1)
    data_dir = DataDir.on_disk(folder, 7, None, config, lambda: 2_000_000)
    try:
        assert TOPIC in data_dir.partitions()
        log = data_dir.open(TOPIC)
        assert log is not None
        assert len(log.segments) > 2
        assert records_of(log) == [(n, 1_000_000 + n, b"k%d" % n, b"value %d" % n) for n in range(RECORDS)]
        assert log.epochs == ((0, 0),)
        assert len(log.producers) == 1
        for n in range(0, RECORDS, 23):
            assert log.offset_for_time(1_000_000 + n, RECORDS) == (n, 1_000_000 + n)
        assert log.kept_high_watermark is None
    finally:
        data_dir.close()
    again = DataDir.on_disk(folder, 7, None, LogConfig(retention_ms=-1), lambda: 2_000_000)
    log = again.open(TOPIC)
    assert log is not None
    assert log.end_offset == RECORDS
    again.close()
