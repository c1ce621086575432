"""Kafka's Java clients, and those for Python, at zkgroup brokers: what one sends, each reads the same."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.long.interop.conftest import fetched
from tests.long.interop.jars import compiled, java, kafka_jars
from tests.long.interop.members import HERE
from tests.long.interop.record_lines import line_of, parsed
from tests.long.interop.releases import EVERYTHING, NEWEST
from tests.long.interop.toolbox import Toolbox
from tests.long.interop.tooled import OurBrokers
from tests.waiting import PATIENCE_S, eventually
from tests.worlds.kafka_clients import CLIENTS, KafkaRecord
from zkgroup.model import TopicPartition

RELEASES = ("2.0.1", "2.3.1", "2.8.2", NEWEST) if EVERYTHING else ("2.8.2", NEWEST)
WITHOUT_ZSTD = ("2.0.1",)
COMPRESSIONS = (None, "gzip", "snappy", "lz4", "zstd")
COMPRESSED = [
    (release, compression)
    for release in RELEASES
    for compression in COMPRESSIONS
    if compression != "zstd" or release not in WITHOUT_ZSTD
]
"""Releases with the compressions that they have."""
PRODUCERS = (
    [(release, idempotent) for release in RELEASES for idempotent in (True, False)]
    if EVERYTHING
    else [("2.8.2", False), (NEWEST, True)]
)
"""Releases with their producers: each one's default in CI, since idempotent ones are it from 3.0 on."""
RECORDS = [
    KafkaRecord(b"a value", b"a key", timestamp_ms=1_600_000_000_000),
    KafkaRecord(b"no key"),
    KafkaRecord(None, b"no value"),
    KafkaRecord(b"", b""),
    KafkaRecord(b"two\nlines\r\n", headers=(("h", b"1"), ("h", b"2"), ("empty", b""))),
    KafkaRecord(bytes(range(256)), "schl\u00fcssel".encode(), (("\u00fc", b"\xff\x00"),), 1_800_000_000_123),
    *(KafkaRecord(b"value %d" % number, timestamp_ms=1_900_000_000_000 + number) for number in range(50)),
]
_numbers = itertools.count(1)


@dataclass(frozen=True)
class JavaClient:
    """Producer and consumer of one release of Kafka."""

    box: Toolbox
    release: str
    folder: Path
    settings: tuple[str, ...] = ()
    """Further ones of the producer, as `name=value`."""

    def send(
        self,
        bootstrap: str,
        tp: TopicPartition,
        records: Iterable[KafkaRecord],
        *,
        idempotent: bool = False,
        compression: str | None = None,
    ) -> list[int]:
        settings = (
            f"enable.idempotence={str(idempotent).lower()}",
            f"compression.type={compression or 'none'}",
            *self.settings,
        )
        text = self._run("produce", bootstrap, *_names(tp), self.file(records), *settings)
        return [int(line) for line in text.splitlines()]

    def read(self, bootstrap: str, tp: TopicPartition, offset: int, count: int) -> dict[int, KafkaRecord]:
        text = self._run("consume", bootstrap, *_names(tp), str(offset), str(count))
        return dict(parsed(line) for line in text.splitlines())

    def offset_for(self, bootstrap: str, tp: TopicPartition, timestamp_ms: int) -> int | None:
        text = self._run("offset", bootstrap, *_names(tp), str(timestamp_ms)).split()[0]
        return None if text == "null" else int(text)

    def file(self, records: Iterable[KafkaRecord]) -> str:
        path = self.folder / "records"
        path.write_text("".join(f"{line_of(record)}\n" for record in records), encoding="ascii")
        return str(path)

    def classes(self) -> Path:
        return compiled(HERE / "Records.java", f"{kafka_jars(self.release)}/*")

    def _run(self, *words: str) -> str:
        printed = self.box.run(self.release, "Records", *words, classes=self.classes())
        assert printed.code == 0, printed.text
        # The rest is what the client logs.
        return "".join(f"{line}\n" for line in printed.text.splitlines() if re.match(r"\d|null$", line))


def _names(tp: TopicPartition) -> tuple[str, str]:
    return tp.topic, str(tp.partition)


@pytest.fixture(params=RELEASES)
def java_client(request: pytest.FixtureRequest, box: Toolbox, tmp_path: Path) -> JavaClient:
    fetched(str(request.param))
    return JavaClient(box, str(request.param), tmp_path)


def _topic(brokers: OurBrokers, *replicas: int) -> TopicPartition:
    """A topic with one partition; returns that partition, which is served."""
    name = f"records-{next(_numbers)}"
    brokers.create(name, replicas)
    return TopicPartition(name, 0)


@pytest.mark.parametrize(("java_client", "compression"), COMPRESSED, indirect=["java_client"])
def test_what_java_sends_every_client_reads(
    brokers: OurBrokers, java_client: JavaClient, compression: str | None
) -> None:
    """Keys, nulls, headers, timestamps and bytes that are no text; idempotent where it is compressed."""
    tp, bootstrap = _topic(brokers, 1, 2, 3), brokers.bootstrap
    offsets = java_client.send(
        bootstrap, tp, RECORDS, idempotent=compression is not None, compression=compression
    )

    assert offsets == list(range(len(RECORDS)))
    sent = dict(enumerate(RECORDS))
    assert java_client.read(bootstrap, tp, 0, len(RECORDS)) == sent
    for client in CLIENTS.values():
        assert client.read(bootstrap, tp, 0, len(RECORDS)) == sent
    assert java_client.read(bootstrap, tp, 30, 10) == {n: RECORDS[n] for n in range(30, 40)}


@pytest.mark.parametrize("client", CLIENTS)
def test_what_python_sends_java_reads(brokers: OurBrokers, java_client: JavaClient, client: str) -> None:
    """As sent; and a compressed log gives the offset of a time."""
    tp, bootstrap = _topic(brokers, 2, 3, 1), brokers.bootstrap
    offsets = CLIENTS[client].send(bootstrap, tp, RECORDS, idempotent=True, compression="gzip")

    assert java_client.read(bootstrap, tp, 0, len(RECORDS)) == dict(zip(offsets, RECORDS, strict=True))
    assert java_client.offset_for(bootstrap, tp, 1_900_000_000_020) == len(RECORDS) - 30
    assert java_client.offset_for(bootstrap, tp, 2_000_000_000_000) is None


@pytest.mark.parametrize(("java_client", "idempotent"), PRODUCERS, indirect=["java_client"])
def test_no_acknowledged_record_is_lost_with_its_leader(
    brokers: OurBrokers, java_client: JavaClient, idempotent: bool
) -> None:
    """The process of the leader is killed while a producer with acks=all sends; it tries again.

    Every record is at the offset of its acknowledgement; one of an idempotent producer is there only once.
    """
    tp, bootstrap = _topic(brokers, 1, 2, 3), brokers.bootstrap
    records = [KafkaRecord(b"value %d" % number) for number in range(20_000)]
    leader = brokers.rows(tp.topic)[0][1]
    path = f"{java_client.classes()}:{kafka_jars(java_client.release)}/*"
    settings = (f"enable.idempotence={str(idempotent).lower()}", "retries=2147483647")
    words = ("produce", bootstrap, *_names(tp), java_client.file(records), *settings)
    command = java(path, "Records", *words, log=kafka_jars(java_client.release) / "log4j.properties")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as producer:
        assert producer.stdout is not None
        offsets = [int(producer.stdout.readline()) for _ in range(2000)]
        brokers.kill(leader)
        offsets += [int(line) for line in producer.stdout]
        assert producer.wait(PATIENCE_S) == 0
    try:
        acknowledged = dict(zip(offsets, records, strict=True))
        assert len(acknowledged) == 20_000
        assert max(offsets) == 19_999 or not idempotent
        found = java_client.read(bootstrap, tp, 0, max(offsets) + 1)
        assert {offset: found[offset] for offset in offsets} == acknowledged
    finally:
        brokers.start(leader)
        eventually(
            lambda: brokers.rows(tp.topic)[0][3] == [1, 2, 3], what="the killed broker is in sync again"
        )
