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
    DeleteTopicState,
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

    request = DeleteTopicsRequest(topic_names=("b", "absent", "b", "absent"), timeout_ms=TIMEOUT_MS)
    deleted = ask(_port(kafka_cluster), request, DeleteTopicsResponse, version=5).topics
    assert [(row.topic, row.error) for row in deleted] == [("b", 0), ("absent", 3), ("b", 0), ("absent", 3)]


def test_a_topic_is_deleted_by_its_name_and_not_by_an_id(kafka_cluster: KafkaCluster) -> None:
    """An id gets 100, as no topic has one; name and id together refuse the whole request (42)."""
    _create(kafka_cluster, "c")
    named, by_id = DeleteTopicState(topic="c"), DeleteTopicState(topic_id=b"i" * 16)
    both = DeleteTopicState(topic="c", topic_id=b"i" * 16)

    for asked, expected in (((named, both), (42, 42)), ((named, by_id), (0, 100))):
        request = DeleteTopicsRequest(topics=asked, timeout_ms=TIMEOUT_MS)
        found = ask(_port(kafka_cluster), request, DeleteTopicsResponse, version=6).topics
        assert [(row.topic, row.topic_id) for row in found] == [(one.topic, one.topic_id) for one in asked]
        assert tuple(row.error for row in found) == expected


def test_a_refused_topic_has_no_configs(kafka_cluster: KafkaCluster) -> None:
    """An empty list: null would say that they may not be described."""
    refused, made = _create(kafka_cluster, "no name", "good")

    assert (refused.error, refused.configs, refused.partitions) == (17, (), -1)
    assert made.error == 0
    assert made.configs
