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


def test_records_are_read_as_they_were_sent(kafka_cluster: KafkaCluster) -> None:
    """By each client, whichever sent them, at the offsets that the sender got."""
    for writer, client in CLIENTS.items():
        tp = TopicPartition(f"by-{writer}", 0)
        kafka_cluster.create_topic(tp.topic)
        offsets = client.send(kafka_cluster.bootstrap_servers, tp, RECORDS)
        assert (writer, offsets) == (writer, list(range(len(RECORDS))))
        for reader in CLIENTS:
            found = CLIENTS[reader].read(kafka_cluster.bootstrap_servers, tp, 0, len(RECORDS))
            assert (writer, reader, found) == (writer, reader, dict(zip(offsets, RECORDS, strict=True)))


def test_compressed_records_from_an_offset_on(kafka_cluster: KafkaCluster) -> None:
    """A read of each client begins in the middle of a batch."""
    records = [KafkaRecord(b"value %d" % number, timestamp_ms=number) for number in range(1000)]
    for name, client in CLIENTS.items():
        tp = TopicPartition(f"by-{name}", 0)
        kafka_cluster.create_topic(tp.topic)
        offsets = client.send(kafka_cluster.bootstrap_servers, tp, records, compression="gzip")
        assert (name, offsets) == (name, list(range(1000)))
        found = client.read(kafka_cluster.bootstrap_servers, tp, 700, 300)
        assert (name, found) == (name, dict(enumerate(records[700:], 700)))


def killing(cluster: KafkaCluster, records: Iterable[KafkaRecord], at: int) -> Iterator[KafkaRecord]:
    """The records; before number `at` the leader of the partition is killed."""
    for number, record in enumerate(records):
        if number == at:
            cluster.kill(cluster.wait_for_leader(*T0, timeout_s=PATIENCE_S))
        yield record


def test_offsets_are_found_by_time(kafka_cluster: KafkaCluster) -> None:
    """The first record that is not older; exact within a batch of gzip; none behind the last one."""
    records = [KafkaRecord(b"value", timestamp_ms=1_000 + 10 * number) for number in range(100)]
    for name, client in CLIENTS.items():
        tp = TopicPartition(f"by-{name}", 0)
        kafka_cluster.create_topic(tp.topic)
        client.send(kafka_cluster.bootstrap_servers, tp, records, compression="gzip")
        found = [
            client.offset_for(kafka_cluster.bootstrap_servers, tp, timestamp_ms)
            for timestamp_ms in (0, 1_000, 1_001, 1_430, 1_990, 1_991)
        ]
        assert (name, found) == (name, [0, 0, 1, 43, 99, None])


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("client", CLIENTS)
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
