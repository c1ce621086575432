"""CreateTopics and DeleteTopics at a broker's port: a row for each row of the request, as Kafka 2.8.2."""

from __future__ import annotations

from tests.waiting import PATIENCE_S
from tests.worlds.running_brokers import ask
from zkgroup.testing import KafkaCluster
from zkgroup.wire.admin_apis import (
    CreatableTopic,
    CreatedTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

TIMEOUT_MS = round(PATIENCE_S * 1000)


def _create(cluster: KafkaCluster, *names: str) -> tuple[CreatedTopic, ...]:
    topics = tuple(CreatableTopic(topic=name, partitions=1, replication_factor=1) for name in names)
    request = CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS)
    return ask(_port(cluster), request, CreateTopicsResponse, version=5).topics


def _port(cluster: KafkaCluster) -> int:
    return int(cluster.address(1).rpartition(":")[2])


def test_a_topic_that_is_named_twice_has_two_rows(kafka_cluster: KafkaCluster) -> None:
    """Both are refused when it is to be created (42). It is deleted once, and both rows say so."""
    found = _create(kafka_cluster, "a", "b", "a")
    assert [(row.topic, row.error) for row in found] == [("a", 42), ("b", 0), ("a", 42)]

    request = DeleteTopicsRequest(topics=("b", "absent", "b", "absent"), timeout_ms=TIMEOUT_MS)
    deleted = ask(_port(kafka_cluster), request, DeleteTopicsResponse, version=5).topics
    assert [(row.topic, row.error) for row in deleted] == [("b", 0), ("absent", 3), ("b", 0), ("absent", 3)]


def test_a_refused_topic_has_no_configs(kafka_cluster: KafkaCluster) -> None:
    """An empty list: null would say that they may not be described."""
    refused, made = _create(kafka_cluster, "no name", "good")

    assert (refused.error, refused.configs, refused.partitions) == (17, (), -1)
    assert made.error == 0
    assert made.configs
