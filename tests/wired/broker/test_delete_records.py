"""DeleteRecords at the ports of brokers, by kafka-python and byte by byte."""

from __future__ import annotations

from contextlib import closing

import pytest
from kafka import KafkaProducer
from kafka import TopicPartition as KafkaPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import OffsetOutOfRangeError

from tests.waiting import PATIENCE_S
from tests.worlds.kafka_clients import CLIENTS
from tests.worlds.running_brokers import ask
from zkgroup.model import TopicPartition
from zkgroup.testing import KafkaCluster
from zkgroup.wire.records import (
    DeletedPartition,
    DeletedTopicRecords,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
)
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC

TP = KafkaPartition("orders", 0)


def _produce(cluster: KafkaCluster, count: int) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all")
    for number in range(count):
        producer.send("orders", b"%d" % number, partition=0).get(PATIENCE_S)
    producer.close()


def test_deleted_records_stay_deleted_when_the_leader_dies(kafka_cluster: KafkaCluster) -> None:
    """The followers have deleted them too when the request is answered; the others can be read."""
    kafka_cluster.create_topic("orders", 1, replication_factor=3)
    _produce(kafka_cluster, 5)
    with closing(KafkaAdminClient(bootstrap_servers=kafka_cluster.bootstrap_servers)) as admin:
        assert admin.delete_records({TP: 2})[TP]["low_watermark"] == 2
        assert admin.delete_records({TP: 1})[TP]["low_watermark"] == 2
        with pytest.raises(OffsetOutOfRangeError):
            admin.delete_records({TP: 9})
    kafka_cluster.kill(kafka_cluster.wait_for_leader("orders", 0))
    leader = kafka_cluster.wait_for_leader("orders", 0)

    address = kafka_cluster.address(leader)
    read = CLIENTS["confluent-kafka"].read(address, TopicPartition("orders", 0), 2, 3)
    assert {offset: one.value for offset, one in read.items()} == {2: b"2", 3: b"3", 4: b"4"}
    assert _ask(kafka_cluster, leader, ("orders", ((0, -1),))) == [("orders", 0, 5, 0)]


def _ask(
    cluster: KafkaCluster, broker: int, *topics: tuple[str, tuple[tuple[int, int], ...]]
) -> list[object]:
    named = tuple(
        DeletedTopicRecords(topic, tuple(DeletedPartition(*each) for each in partitions))
        for topic, partitions in topics
    )
    port = int(cluster.address(broker).rpartition(":")[2])
    found = ask(port, DeleteRecordsRequest(named, 30_000), DeleteRecordsResponse, version=2)
    return [
        (topic.topic, one.partition, one.low_watermark, one.error)
        for topic in found.topics
        for one in topic.partitions
    ]


def test_each_partition_has_the_error_of_kafka(kafka_cluster: KafkaCluster) -> None:
    """One row for a partition that is named twice, with the offset that is named last."""
    kafka_cluster.create_topic("orders", 1, replication_factor=1)
    _produce(kafka_cluster, 3)
    leader = kafka_cluster.wait_for_leader("orders", 0)
    other = next(broker for broker in kafka_cluster.brokers if broker != leader)

    assert _ask(kafka_cluster, leader, ("orders", ((0, 2), (0, 1), (7, 0))), ("absent", ((0, 0),))) == [
        ("orders", 0, 1, 0),
        ("orders", 7, -1, 3),
        ("absent", 0, -1, 3),
    ]
    assert _ask(kafka_cluster, other, ("orders", ((0, 2),))) == [("orders", 0, -1, 6)]
    assert _ask(kafka_cluster, leader) == []


def test_nothing_is_kept_of_partitions_that_cannot_exist(
    kafka_cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Error 3 for each; they are no failed replicas, and no line names them."""
    (broker, *_) = kafka_cluster.brokers
    names = ("a/b", "x\nforged \x1b[31m", "..", "n" * 32_767)

    asked = _ask(kafka_cluster, broker, *((name, ((0, -1), (-5, 0))) for name in names))

    assert {error for _, _, _, error in asked} == {3}
    assert {each.topic for each in kafka_cluster.broker(broker).replicas()} == {OFFSETS_TOPIC}
    assert caplog.text == ""
