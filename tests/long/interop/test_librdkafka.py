"""librdkafka of several releases of confluent-kafka at zkgroup brokers.

It is that of this interpreter. With ZKGROUP_INTEROP_LIBRDKAFKA, the Python of an environment that has another
confluent-kafka, also that one.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.long.interop.members import HERE
from tests.long.interop.record_lines import line_of, parsed
from tests.long.interop.servers import RealZooKeeper
from tests.long.interop.tooled import BROKERS, OurBrokers
from tests.waiting import PATIENCE_S
from tests.worlds.kafka_clients import CLIENTS, KafkaRecord
from zkgroup.model import TopicPartition

PYTHONS = [sys.executable, *filter(None, [os.environ.get("ZKGROUP_INTEROP_LIBRDKAFKA")])]
PROGRAM = str(HERE / "librdkafka_client.py")
RECORDS = [
    KafkaRecord(b"a value", b"a key", timestamp_ms=1_600_000_000_000),
    KafkaRecord(None, b"no value"),
    KafkaRecord(b"", b""),
    KafkaRecord(b"two\nlines\r\n", headers=(("h", b"1"), ("h", b"2"), ("empty", b""))),
    KafkaRecord(bytes(range(256)), "schl\u00fcssel".encode(), (("\u00fc", b"\xff\x00"),), 1_800_000_000_123),
    *(KafkaRecord(b"value %d" % number, timestamp_ms=1_900_000_000_000 + number) for number in range(50)),
]
_numbers = itertools.count(1)


@cache
def version_of(python: str) -> str:
    """The version of its librdkafka, which is that of the package."""
    code = "import confluent_kafka; print(confluent_kafka.libversion()[0])"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@dataclass(frozen=True)
class Librdkafka:
    """Producer and consumer of one release, each call in a process of its own."""

    python: str
    folder: Path

    def sending(
        self, bootstrap: str, tp: TopicPartition, records: Iterable[KafkaRecord], *settings: str
    ) -> subprocess.Popen[str]:
        """A process that prints number and offset of each record when it is acknowledged."""
        path = self.folder / "records"
        path.write_text("".join(f"{line_of(record)}\n" for record in records), encoding="ascii")
        words = ("send", bootstrap, tp.topic, str(tp.partition), str(path), *settings)
        return subprocess.Popen([self.python, PROGRAM, *words], stdout=subprocess.PIPE, text=True)

    def send(
        self, bootstrap: str, tp: TopicPartition, records: Iterable[KafkaRecord], *settings: str
    ) -> list[int]:
        """The offsets of the records."""
        with self.sending(bootstrap, tp, records, *settings) as producer:
            try:
                printed, _ = producer.communicate(timeout=PATIENCE_S)
            finally:
                producer.kill()
        assert producer.returncode == 0
        return [offset for _, offset in sorted(map(_acknowledgement, printed.splitlines()))]

    def read(self, bootstrap: str, tp: TopicPartition, offset: int, count: int) -> dict[int, KafkaRecord]:
        words = ("read", bootstrap, tp.topic, str(tp.partition), str(offset), str(count))
        done = subprocess.run(
            [self.python, PROGRAM, *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, done.stderr
        return dict(map(parsed, done.stdout.splitlines()))


def _acknowledgement(line: str) -> tuple[int, int]:
    number, offset = line.split()
    return int(number), int(offset)


@pytest.fixture(scope="module")
def brokers(real_zookeeper: RealZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurBrokers]:
    cluster = OurBrokers(real_zookeeper, tmp_path_factory.mktemp("librdkafka"), "/librdkafka")
    try:
        cluster.start(*BROKERS)
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(params=PYTHONS, ids=version_of)
def librdkafka(request: pytest.FixtureRequest, tmp_path: Path) -> Librdkafka:
    return Librdkafka(str(request.param), tmp_path)


def _topic(brokers: OurBrokers, *replicas: int) -> tuple[str, TopicPartition]:
    """The addresses of the brokers, and the partition of a new topic, which is served."""
    name = f"records-{next(_numbers)}"
    brokers.create(name, replicas)
    ports = [brokers.json(f"/brokers/ids/{broker}")["port"] for broker in BROKERS]
    return ",".join(f"127.0.0.1:{port}" for port in ports), TopicPartition(name, 0)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_librdkafka_sends_every_client_reads(
    brokers: OurBrokers, librdkafka: Librdkafka, compression: str
) -> None:
    """Keys, nulls, headers, timestamps and bytes that are no text; idempotent where it is compressed."""
    bootstrap, tp = _topic(brokers, 1, 2, 3)
    idempotent = str(compression != "none").lower()
    settings = (f"compression.type={compression}", f"enable.idempotence={idempotent}")
    offsets = librdkafka.send(bootstrap, tp, RECORDS, *settings)

    sent = dict(enumerate(RECORDS))
    assert offsets == list(range(len(RECORDS)))
    assert librdkafka.read(bootstrap, tp, 0, len(RECORDS)) == sent
    assert librdkafka.read(bootstrap, tp, 30, 10) == {n: RECORDS[n] for n in range(30, 40)}
    for name, client in CLIENTS.items():
        if name != "kafka-python" or compression in ("none", "gzip"):
            assert client.read(bootstrap, tp, 0, len(RECORDS)) == sent


@pytest.mark.parametrize("client", CLIENTS)
def test_what_others_send_librdkafka_reads(brokers: OurBrokers, librdkafka: Librdkafka, client: str) -> None:
    """As sent."""
    bootstrap, tp = _topic(brokers, 2, 3, 1)
    offsets = CLIENTS[client].send(bootstrap, tp, RECORDS, idempotent=True, compression="gzip")

    assert librdkafka.read(bootstrap, tp, 0, len(RECORDS)) == dict(zip(offsets, RECORDS, strict=True))


def test_no_record_that_librdkafka_sent_is_lost_with_its_leader(
    brokers: OurBrokers, librdkafka: Librdkafka
) -> None:
    """The process of the leader is killed while an idempotent producer with acks=all sends."""
    bootstrap, tp = _topic(brokers, 1, 2, 3)
    records = [KafkaRecord(b"value %d" % number) for number in range(20_000)]
    leader = brokers.rows(tp.topic)[0][1]
    with librdkafka.sending(bootstrap, tp, records, "enable.idempotence=true") as producer:
        assert producer.stdout is not None
        lines = [producer.stdout.readline() for _ in range(2000)]
        brokers.kill(leader)
        lines += producer.stdout.readlines()
        assert producer.wait(PATIENCE_S) == 0
    try:
        offsets = dict(map(_acknowledgement, lines))
        assert sorted(offsets) == sorted(offsets.values()) == list(range(20_000))
        found = librdkafka.read(bootstrap, tp, 0, 20_000)
        assert found == {offsets[number]: record for number, record in enumerate(records)}
    finally:
        brokers.start(leader)
