"""Producers of kafka-python and librdkafka write to three brokers; offsets are asked for by time.

What a producer was promised is compared with the batches in the files of every replica.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import TopicPartition as KafkaTopicPartition

from tests.pure.broker.log.made_batches import headers_of
from tests.waiting import PATIENCE_S, eventually
from tests.worlds.unhurried import unhurried
from zkgroup.broker.log.data_dir import stored_records
from zkgroup.broker.log.disk_storage import DiskStorage
from zkgroup.model import TopicPartition
from zkgroup.testing.kafka_cluster import KafkaCluster
from zkgroup.wire.record_batch import COMPRESSIONS, BatchHeader, Record, records_of


@pytest.fixture
def stored_cluster(tmp_path: Path) -> Iterator[tuple[KafkaCluster, Path]]:
    """Three brokers with folders."""
    with KafkaCluster(data=tmp_path, settings=unhurried()) as cluster:
        yield cluster, tmp_path


def batches(folder: Path, broker: int, topic: str) -> bytes:
    """What a broker has in the files of partition 0."""
    return stored_records(DiskStorage(folder / f"broker-{broker}"), TopicPartition(topic, 0))


def records(stored: bytes) -> list[Record]:
    found: list[Record] = []
    at = 0
    for header in headers_of(stored):
        found += records_of(stored[at : at + header.size])
        at += header.size
    return found


def replicated(folder: Path, topic: str, count: int) -> tuple[bytes, list[BatchHeader]]:
    """The batches of the partition, once all replicas have so many records; they are the same everywhere."""

    def ends() -> list[int]:
        stored = [headers_of(batches(folder, broker, topic)) for broker in (1, 2, 3)]
        return [headers[-1].last_offset + 1 if headers else 0 for headers in stored]

    eventually(lambda: ends() == [count] * 3)
    one, two, three = (batches(folder, broker, topic) for broker in (1, 2, 3))
    assert one == two == three
    return one, headers_of(one)


def produced(cluster: KafkaCluster, topic: str, count: int, **config: object) -> list[int]:
    """The offsets of so many records, as the producer was told."""
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **config)
    try:
        sent = [
            producer.send(
                topic,
                key=b"k%d" % number if number % 4 else None,
                value=b"v%d\n\xff" % number if number % 4 != 1 else None,
                headers=[("h", b"%d" % number)],
                timestamp_ms=1_000 + number,
                partition=0,
            )
            for number in range(count)
        ]
        producer.flush(PATIENCE_S)
        return [one.get(PATIENCE_S).offset for one in sent]
    finally:
        producer.close()


def expected(count: int) -> list[Record]:
    return [
        Record(
            number,
            1_000 + number,
            b"k%d" % number if number % 4 else None,
            b"v%d\n\xff" % number if number % 4 != 1 else None,
            (("h", b"%d" % number),),
        )
        for number in range(count)
    ]


CONFIGS: dict[str, tuple[dict[str, object], str]] = {
    "all": ({"acks": "all", "enable_idempotence": False}, "none"),
    "leader": ({"acks": 1, "enable_idempotence": False}, "none"),
    "idempotent": ({"acks": "all", "enable_idempotence": True}, "none"),
    "packed": ({"acks": "all", "enable_idempotence": True, "compression_type": "gzip"}, "gzip"),
}


def test_acknowledged_records_are_in_all_replicas(stored_cluster: tuple[KafkaCluster, Path]) -> None:
    """Each at its offset, with its key, value, headers and timestamp; compressed ones stay compressed."""
    cluster, folder = stored_cluster
    for topic, (config, compression) in CONFIGS.items():
        cluster.create_topic(topic, replication_factor=3)

        assert (topic, produced(cluster, topic, 50, linger_ms=20, **config)) == (topic, list(range(50)))

        stored, headers = replicated(folder, topic, 50)
        assert (topic, records(stored)) == (topic, expected(50))
        assert {COMPRESSIONS[header.compression] for header in headers} == {compression}
        is_idempotent = config["enable_idempotence"]
        assert all((header.producer_id >= 0) == is_idempotent for header in headers)


def test_records_without_acknowledgement_arrive(stored_cluster: tuple[KafkaCluster, Path]) -> None:
    """acks=0: the producer gets no offset, and its connection stays open."""
    cluster, folder = stored_cluster
    cluster.create_topic("none", replication_factor=3)

    produced(cluster, "none", 50, acks=0, enable_idempotence=False)

    assert records(replicated(folder, "none", 50)[0]) == expected(50)


def test_offsets_are_found_by_time(stored_cluster: tuple[KafkaCluster, Path]) -> None:
    """The first, the last, and the first that is not older than a time."""
    cluster, _ = stored_cluster
    cluster.create_topic("times", replication_factor=3)
    produced(cluster, "times", 20, acks="all")
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, enable_auto_commit=False)
    tp = KafkaTopicPartition("times", 0)
    try:
        assert consumer.beginning_offsets([tp]) == {tp: 0}
        assert consumer.end_offsets([tp]) == {tp: 20}
        found = consumer.offsets_for_times({tp: 1_007})[tp]
        assert (found.offset, found.timestamp, found.leader_epoch) == (7, 1_007, 0)
        assert consumer.offsets_for_times({tp: 1_020}) == {tp: None}
    finally:
        consumer.close()


def test_batches_of_librdkafka_arrive_compressed(stored_cluster: tuple[KafkaCluster, Path]) -> None:
    """It compresses only for brokers that list Produce from version 0 on, and does not say so."""
    cluster, folder = stored_cluster
    for compression in COMPRESSIONS:
        cluster.create_topic(compression, replication_factor=3)
        offsets: list[int] = []
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "enable.idempotence": True,
                "compression.type": compression,
                "linger.ms": 20,
            }
        )
        for number in range(100):
            producer.produce(
                compression,
                b"value %d" % number,
                partition=0,
                on_delivery=lambda _, sent, offsets=offsets: offsets.append(sent.offset()),
            )
        assert producer.flush(PATIENCE_S) == 0

        assert offsets == list(range(100))
        _, headers = replicated(folder, compression, 100)
        assert {COMPRESSIONS[header.compression] for header in headers} == {compression}


def test_a_transactional_producer_fails_at_once(kafka_cluster: KafkaCluster) -> None:
    """With words, although it would wait for ever: librdkafka asks again at other errors."""
    addresses = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    producer = Producer({**addresses, "transactional.id": "pay"})

    with pytest.raises(KafkaException, match="This broker does not support transactions") as caught:
        producer.init_transactions(PATIENCE_S)
    assert caught.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
