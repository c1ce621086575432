"""CreateTopics, DeleteTopics and CreatePartitions: what is written, and the error code of each refusal."""

from __future__ import annotations

from typing import Any

import pytest

from tests.pure.broker.admin.conftest import BY
from tests.worlds.memory_cluster import MemoryCluster
from tests.worlds.stores import MeddledStore
from zkgroup.broker.admin.failures import Failure
from zkgroup.broker.admin.topics import (
    Created,
    RequestedDeletion,
    TopicDefaults,
    create_partitions,
    create_topics,
    delete_topics,
)
from zkgroup.model.requests import Delete
from zkgroup.wire.admin_apis import (
    AddedReplicas,
    CreatableTopic,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    GrownTopic,
    NewConfig,
    NewReplicas,
)
from zkgroup.wire.messages import ErrorCode
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import BrokerRegistration, Topic
from zkgroup.znodes.config import TopicConfig

DEFAULTS = TopicDefaults(partitions=3, replication_factor=2)


def _topic(name: str, partitions: int = 1, factor: int = 1, **fields: Any) -> CreatableTopic:
    return CreatableTopic(topic=name, partitions=partitions, replication_factor=factor, **fields)


def _create(cluster: MemoryCluster, *topics: CreatableTopic, validate_only: bool = False) -> dict[str, Any]:
    request = CreateTopicsRequest(topics=topics, validate_only=validate_only)
    return create_topics(cluster.world.ensemble, request, DEFAULTS, BY)


def _replicas(*lists: tuple[int, ...]) -> tuple[NewReplicas, ...]:
    return tuple(NewReplicas(partition=number, brokers=brokers) for number, brokers in enumerate(lists))


def test_a_topic_gets_the_numbers_and_configs_of_the_request(cluster: MemoryCluster) -> None:
    """The znodes are those that `topic create` writes."""
    found = _create(cluster, _topic("new", 4, 3, configs=(NewConfig(name="retention.ms", value="7"),)))

    assert isinstance(found["new"], Created)
    assert {len(brokers) for brokers in cluster.replicas("new").values()} == {3}
    assert (len(cluster.replicas("new")), found["new"].replicas) == (4, cluster.replicas("new"))
    assert cluster.overrides(TopicConfig.path("new")) == {"retention.ms": "7"}


def test_numbers_that_are_left_out_are_the_brokers_defaults(cluster: MemoryCluster) -> None:
    """-1 from version 4 on (KIP-464)."""
    found = _create(cluster, _topic("new", -1, -1))

    assert isinstance(found["new"], Created)
    assert (len(found["new"].replicas), found["new"].replication_factor) == (3, 2)


def test_replica_lists_are_taken_as_they_are(cluster: MemoryCluster) -> None:
    """The order of the brokers in a list is kept: the first is the preferred leader."""
    _create(cluster, _topic("new", -1, -1, replicas=_replicas((3, 1), (2, 3))))

    assert cluster.replicas("new") == {0: (3, 1), 1: (2, 3)}


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (_topic("a/b"), ErrorCode.INVALID_TOPIC),
        (_topic(".."), ErrorCode.INVALID_TOPIC),
        (_topic("x" * 250), ErrorCode.INVALID_TOPIC),
        (_topic("new", 0), ErrorCode.INVALID_PARTITIONS),
        (_topic("new", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (_topic("new", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (_topic("orders"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (_topic("new", 1, 1, replicas=_replicas((1,))), ErrorCode.INVALID_REQUEST),
        (_topic("new", -1, -1, replicas=_replicas((1, 1))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (
            _topic("new", -1, -1, replicas=(NewReplicas(partition=1, brokers=(1,)),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (_topic("new", configs=(NewConfig(name="retention", value="1"),)), ErrorCode.INVALID_CONFIG),
        (_topic("new", configs=(NewConfig(name="retention.ms", value="x"),)), ErrorCode.INVALID_CONFIG),
        (_topic("new", configs=(NewConfig(name="retention.ms", value=None),)), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_topic_that_cannot_be_is_refused_with_kafkas_code(
    cluster: MemoryCluster, topic: CreatableTopic, error: ErrorCode
) -> None:
    """The other topics of the request are created."""
    found = _create(cluster, topic, _topic("good"))

    failure = found[topic.topic]
    assert isinstance(failure, Failure)
    assert (failure.error, bool(failure.message)) == (error, True)
    assert isinstance(found["good"], Created)
    assert cluster.world.server.find(Topic.path("new")) is None


def test_a_name_that_collides_with_another_is_refused_in_kafkas_words(cluster: MemoryCluster) -> None:
    """A dot and an underscore are the same in the names of metrics."""
    _create(cluster, _topic("a.b"))

    refused = _create(cluster, _topic("a_b"))["a_b"]

    assert refused == (ErrorCode.INVALID_TOPIC, "Topic 'a_b' collides with existing topics: a.b")
    assert cluster.world.server.find(Topic.path("a_b")) is None


def test_a_topic_that_is_named_twice_is_not_created(cluster: MemoryCluster) -> None:
    """As in Kafka, which cannot know which one is meant."""
    found = _create(cluster, _topic("new", 1), _topic("new", 2))

    assert found["new"].error == ErrorCode.INVALID_REQUEST
    assert cluster.world.server.find(Topic.path("new")) is None


def test_a_request_that_only_validates_writes_nothing(cluster: MemoryCluster) -> None:
    """The result is that of a request that writes."""
    before = len(cluster.world.server.log)

    found = _create(cluster, _topic("new", 2), _topic("orders"), validate_only=True)

    assert isinstance(found["new"], Created)
    assert found["orders"].error == ErrorCode.TOPIC_ALREADY_EXISTS
    assert len(cluster.world.server.log) == before


def test_without_a_live_broker_no_topic_is_created(cluster: MemoryCluster) -> None:
    """The command line creates a topic without brokers then; clients expect leaders."""
    for number in (1, 2, 3):
        cluster.world.write(Delete(BrokerRegistration.path(number), -1))

    assert _create(cluster, _topic("new"))["new"].error == ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_deletion_asks_the_controller_and_shows_its_end(cluster: MemoryCluster) -> None:
    """It is over once the znodes are gone."""
    found = delete_topics(cluster.world.ensemble, ["orders", "absent", "a/b"], BY)
    pending = found["orders"]

    assert isinstance(pending, RequestedDeletion)
    assert cluster.world.server.find(TopicDeletion.path("orders")) is not None
    for name in ("absent", "a/b"):
        failure = found[name]
        assert isinstance(failure, Failure)
        assert failure.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    seen = pending.read()
    assert (seen.gone, seen.is_over) == (False, False)
    for path in sorted(cluster.world.server.tree(), reverse=True):
        if path.startswith(("/brokers/topics/orders", "/config/topics/orders", TopicDeletion.path("orders"))):
            cluster.world.write(Delete(path, -1))
    assert pending.read().gone


def _requests(cluster: MemoryCluster, topics: list[str]) -> tuple[int, int]:
    """The requests to ZooKeeper of a deletion, and those of them that concern groups."""
    store = MeddledStore(cluster.world.server.client())
    found = delete_topics(cluster.world.operator(store), topics, BY)
    store.close()
    assert all(isinstance(one, RequestedDeletion) for one in found.values())
    return len(store.requests), sum("/consumers" in repr(request) for request in store.requests)


def test_a_deletion_of_many_topics_reads_the_brokers_once(cluster: MemoryCluster) -> None:
    """More groups and brokers cost nothing more for each topic; 400 topics took 53 s when they did."""
    for number in range(13):
        cluster.topic(f"t{number}", (1, 2))
    cluster.world.topic("other", 1)
    for number in range(5):
        cluster.world.commit(f"g{number}", "other", 0, 1)
    one, of_groups = _requests(cluster, ["t0"])
    more, of_groups_of_more = _requests(cluster, [f"t{number}" for number in range(1, 13)])

    assert of_groups == of_groups_of_more == 0
    assert (more - one) / 11 <= 15


def test_a_topic_is_deleted_though_members_subscribe_to_it(cluster: MemoryCluster) -> None:
    """As in Kafka, where the command line of zkgroup refuses it."""
    cluster.topic("used", (1, 2))
    cluster.world.member("readers", "one", {"used": 1})

    found = delete_topics(cluster.world.ensemble, ["used"], BY)

    assert isinstance(found["used"], RequestedDeletion)
    assert cluster.world.server.find(TopicDeletion.path("used")) is not None


def _grow(cluster: MemoryCluster, *topics: GrownTopic, validate_only: bool = False) -> dict[str, Any]:
    request = CreatePartitionsRequest(topics=topics, timeout_ms=1, validate_only=validate_only)
    return create_partitions(cluster.world.ensemble, request, BY)


def test_a_topic_grows_and_its_partitions_stay(cluster: MemoryCluster) -> None:
    """The count is of all partitions, old and new."""
    found = _grow(cluster, GrownTopic(topic="orders", count=4))

    grown = cluster.replicas("orders")
    assert found["orders"] == (2, 3)
    assert (grown[0], grown[1], sorted(grown)) == ((1, 2), (2, 1), [0, 1, 2, 3])


def test_new_partitions_go_where_the_request_says(cluster: MemoryCluster) -> None:
    """One list for each new partition."""
    _grow(cluster, GrownTopic(topic="orders", count=3, replicas=(AddedReplicas(brokers=(3, 2)),)))

    assert cluster.replicas("orders")[2] == (3, 2)


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (GrownTopic(topic="absent", count=4), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (GrownTopic(topic="orders", count=2), ErrorCode.INVALID_PARTITIONS),
        (GrownTopic(topic="orders", count=1), ErrorCode.INVALID_PARTITIONS),
        (GrownTopic(topic="orders", count=3, replicas=()), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (
            GrownTopic(topic="orders", count=3, replicas=(AddedReplicas(brokers=(1, 9)),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
    ],
)
def test_growth_that_cannot_be_is_refused_with_kafkas_code(
    cluster: MemoryCluster, topic: GrownTopic, error: ErrorCode
) -> None:
    """Nothing is written."""
    before = len(cluster.world.server.log)

    assert _grow(cluster, topic)[topic.topic].error == error
    assert len(cluster.world.server.log) == before
