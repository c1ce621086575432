"""Kafka's clients for Python on brokers of zkgroup, in one process."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterable, Iterator

import pytest

from tests.waiting import PATIENCE_S
from tests.worlds.kafka_clients import CLIENTS, KafkaRecord
from zkgroup.model import TopicPartition
from zkgroup.testing import KafkaCluster

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

T0 = TopicPartition("t", 0)
RECORDS = [
    KafkaRecord(b"a value", b"a key", timestamp_ms=1_600_000_000_000),
    KafkaRecord(b"no key"),
    KafkaRecord(None, b"no value"),
    KafkaRecord(b"", b""),
    KafkaRecord(b"two\nlines\r\n", headers=(("h", b"1"), ("h", b"2"), ("empty", b""))),
    KafkaRecord(bytes(range(256)), "schl\u00fcssel".encode(), (("\u00fc", b"\xff\x00"),), 1_800_000_000_123),
    KafkaRecord(b"x" * 100_000, b"large"),
]
"""Keys, nulls, headers, timestamps, bytes that are no text; a value larger than a batch."""


@pytest.fixture(autouse=True)
def _collected(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """kafka-python 3.0 leaves sockets of refused connections to the collector, and its logs keep them."""
    caplog.set_level(logging.CRITICAL, "kafka")
    yield
    gc.collect()


each_client = pytest.mark.parametrize("client", CLIENTS)


@pytest.mark.parametrize("reader", CLIENTS)
@pytest.mark.parametrize("writer", CLIENTS)
def test_records_are_read_as_they_were_sent(kafka_cluster: KafkaCluster, writer: str, reader: str) -> None:
    """By each client, whichever sent them, at the offsets that the sender got."""
    kafka_cluster.create_topic("t")
    offsets = CLIENTS[writer].send(kafka_cluster.bootstrap_servers, T0, RECORDS)
    assert offsets == list(range(len(RECORDS)))
    found = CLIENTS[reader].read(kafka_cluster.bootstrap_servers, T0, 0, len(RECORDS))

    assert found == dict(zip(offsets, RECORDS, strict=True))


@each_client
def test_compressed_records_from_an_offset_on(kafka_cluster: KafkaCluster, client: str) -> None:
    """A read begins in the middle of a batch."""
    kafka_cluster.create_topic("t")
    records = [KafkaRecord(b"value %d" % number, timestamp_ms=number) for number in range(1000)]
    offsets = CLIENTS[client].send(kafka_cluster.bootstrap_servers, T0, records, compression="gzip")
    assert offsets == list(range(1000))
    found = CLIENTS[client].read(kafka_cluster.bootstrap_servers, T0, 700, 300)

    assert found == dict(enumerate(records[700:], 700))


def killing(cluster: KafkaCluster, records: Iterable[KafkaRecord], at: int) -> Iterator[KafkaRecord]:
    """The records; before number `at` the leader of the partition is killed."""
    for number, record in enumerate(records):
        if number == at:
            cluster.kill(cluster.wait_for_leader(*T0, timeout_s=PATIENCE_S))
        yield record


@each_client
def test_offsets_are_found_by_time(kafka_cluster: KafkaCluster, client: str) -> None:
    """The first record that is not older; exact within a batch of gzip; none behind the last one."""
    kafka_cluster.create_topic("t")
    records = [KafkaRecord(b"value", timestamp_ms=1_000 + 10 * number) for number in range(100)]
    CLIENTS[client].send(kafka_cluster.bootstrap_servers, T0, records, compression="gzip")

    def found(timestamp_ms: int) -> int | None:
        return CLIENTS[client].offset_for(kafka_cluster.bootstrap_servers, T0, timestamp_ms)

    assert [found(time) for time in (0, 1_000, 1_001, 1_430, 1_990, 1_991)] == [0, 0, 1, 43, 99, None]


@pytest.mark.parametrize("idempotent", [True, False])
@each_client
def test_no_acknowledged_record_is_lost_with_its_leader(
    kafka_cluster: KafkaCluster, client: str, idempotent: bool
) -> None:
    """A producer with acks=all; its leader is killed in the middle.

    Every record is acknowledged in the end and is at the offset of its acknowledgement; one of an
    idempotent producer is there only once.
    """
    kafka_cluster.create_topic("t")
    records = [KafkaRecord(b"value %d" % number) for number in range(2000)]
    sent = killing(kafka_cluster, records, at=1000)
    offsets = CLIENTS[client].send(kafka_cluster.bootstrap_servers, T0, sent, idempotent=idempotent)
    count = max(offsets) + 1
    found = CLIENTS[client].read(kafka_cluster.bootstrap_servers, T0, 0, count)

    acknowledged = dict(zip(offsets, records, strict=True))
    assert len(acknowledged) == 2000
    assert {offset: found[offset] for offset in acknowledged} == acknowledged
    assert count == 2000 or not idempotent
