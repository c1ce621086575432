"""kafka-python's admin client at brokers in this process: each answer comes after its effect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from kafka import KafkaProducer
from kafka import TopicPartition as KafkaPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic
from kafka.errors import (
    InvalidReplicationFactorError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from tests.waiting import PATIENCE_S, eventually
from tests.worlds.led_brokers import ask
from tests.worlds.unhurried import unhurried
from zkgroup import Admin
from zkgroup.broker.admin.apis import THREADS
from zkgroup.testing import KafkaCluster
from zkgroup.wire.metadata import MetadataRequest, MetadataResponse
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import Topic


@pytest.fixture
def cluster(kafka_cluster: KafkaCluster) -> KafkaCluster:
    return kafka_cluster


@pytest.fixture
def admin(cluster: KafkaCluster) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    yield client
    client.close()


def _described(admin: KafkaAdminClient, topic: str) -> list[tuple[int, list[int]]]:
    """Leader and replicas of each partition, from any broker: another one may learn of the topic later."""
    (described,) = admin.describe_topics([topic])
    return [(one["leader_id"], one["replica_nodes"]) for one in described["partitions"]]


def test_a_topic_can_be_used_when_its_creation_is_answered(
    cluster: KafkaCluster, admin: KafkaAdminClient
) -> None:
    """Each partition has a leader; a second creation and too many replicas are refused."""
    admin.create_topics([NewTopic("made", 3, 2, topic_configs={"retention.ms": "1000"})])

    assert all(cluster.leader("made", number) in (1, 2, 3) for number in range(3))
    rows = eventually(lambda: _described(admin, "made"), what="every broker knows the topic")
    assert [len(replicas) for _, replicas in rows] == [2, 2, 2]
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic("made", 1, 1)])
    with pytest.raises(InvalidReplicationFactorError):
        admin.create_topics([NewTopic("other", 1, 4)])


def test_a_topic_is_gone_when_its_deletion_is_answered(
    cluster: KafkaCluster, admin: KafkaAdminClient
) -> None:
    """It can be created again at once, and is then another topic."""
    admin.create_topics([NewTopic("short", 2, 3)])

    admin.delete_topics(["short"])
    assert cluster.zookeeper.find(Topic.path("short")) is None
    admin.create_topics([NewTopic("short", 1, 1)])
    assert len(cluster.partitions("short")) == 1
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics(["absent"])


def test_other_requests_are_answered_while_deletions_wait_for_a_lost_broker(
    cluster: KafkaCluster,
) -> None:
    """As many wait as there are threads for requests, and one more; their clients get error 7 much later."""
    names = [f"t{number}" for number in range(THREADS + 1)]
    for name in names:
        cluster.create_topic(name)
    cluster.kill(3)
    eventually(
        lambda: [cluster.broker(one).health().live_brokers for one in (1, 2)],
        lambda known: known == [{1, 2}, {1, 2}],
        what="no client is told of broker 3",
    )
    address = cluster.address(1)
    clients = [KafkaAdminClient(bootstrap_servers=address) for _ in range(len(names) + 1)]
    with ThreadPoolExecutor(len(names)) as threads:
        waiting = [
            threads.submit(client.delete_topics, [name], timeout_ms=60_000)
            for client, name in zip(clients, names, strict=False)
        ]
        marked = [TopicDeletion.path(name) for name in names]
        eventually(lambda: all(map(cluster.zookeeper.find, marked)), what="all deletions are requested")

        clients[-1].create_topics([NewTopic("made", 1, 1)])

        assert not any(one.done() for one in waiting)
        cluster.restart(3)
        for one in waiting:
            one.result(PATIENCE_S)
    for client in clients:
        client.close()


def test_a_topic_grows(cluster: KafkaCluster, admin: KafkaAdminClient) -> None:
    """New partitions have leaders when the request is answered."""
    admin.create_topics([NewTopic("growing", 1, 2)])

    admin.create_partitions({"growing": NewPartitions(4)})

    assert all(cluster.leader("growing", number) in (1, 2, 3) for number in range(4))


def test_a_running_reassignment_gets_another_target_and_a_further_move(
    cluster: KafkaCluster, admin: KafkaAdminClient
) -> None:
    """KIP-455: each ends at its last target, and the broker of the first one is left with nothing."""
    cluster.create_topic("moved", 3, replication_factor=1)
    leader = cluster.wait_for_controller()
    unreachable, other = (broker for broker in cluster.brokers if broker != leader)
    moved, added = KafkaPartition("moved", leader - 1), KafkaPartition("moved", other - 1)
    cluster.isolate(unreachable, zookeeper=False)
    assert admin.alter_partition_reassignments({moved: [unreachable]}) == {moved: None}
    eventually(
        lambda: _replicas(cluster)[moved.partition] == (unreachable, leader), what="the first has begun"
    )

    changed = {moved: [other], added: [leader]}
    assert admin.alter_partition_reassignments(changed) == {moved: None, added: None}
    cluster.heal()
    ended = {moved.partition: (other,), added.partition: (leader,), unreachable - 1: (unreachable,)}
    eventually(lambda: _replicas(cluster) == ended, what="both have ended")

    assert admin.list_partition_reassignments() == {}
    assert cluster.wait_for_leader("moved", moved.partition) == other


def _replicas(cluster: KafkaCluster) -> Mapping[int, tuple[int, ...]]:
    znode = cluster.zookeeper.find(Topic.path("moved"))
    assert znode is not None
    return Topic.decode(znode.path, znode.data).partitions


def test_configs_are_changed_and_described(cluster: KafkaCluster, admin: KafkaAdminClient) -> None:
    """An override with its source; the defaults of the broker beside it."""
    admin.create_topics([NewTopic("configured", 1, 1)])
    resource = ConfigResource(ConfigResourceType.TOPIC, "configured", {"retention.ms": "5000"})

    admin.alter_configs([resource])

    with Admin(client=cluster.zookeeper.client()) as operator:
        (row,) = operator.describe_configs("topics", "configured")
    assert row.configs == {"retention.ms": "5000"}


def test_a_broker_logs_that_it_does_not_compact(
    cluster: KafkaCluster, admin: KafkaAdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka Streams and Connect make compacted topics, and end where they cannot. A policy may be empty."""
    policies = {"kept": "compact", "both": "compact,delete", "empty": ""}
    with caplog.at_level("WARNING", "zkgroup.broker"):
        made = [
            NewTopic(name, 1, 1, topic_configs={"cleanup.policy": text}) for name, text in policies.items()
        ]
        admin.create_topics(made)
        for name, kept in (("kept", "keep every record"), ("both", "delete by time and size only")):
            line = (
                f"/config/topics/{name}: cleanup.policy={policies[name]}: "
                f"brokers of zkgroup do not compact, they {kept}"
            )
            eventually(lambda line=line: line in caplog.messages, what=f"a broker logs {line!r}")
    with Admin(client=cluster.zookeeper.client()) as operator:
        found = {row.entity.name: row.configs for row in operator.describe_configs("topics")}
    assert found == {name: {"cleanup.policy": text} for name, text in policies.items()}


def test_a_client_that_asks_for_an_unknown_topic_creates_it(cluster: KafkaCluster) -> None:
    """`auto.create.topics.enable`, with `num.partitions` and `default.replication.factor`."""
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    try:
        assert producer.send("asked-for", b"1").get(PATIENCE_S).offset == 0
    finally:
        producer.close()
    assert len(cluster.partitions("asked-for")) == 1


def test_a_client_that_asks_for_a_topic_that_cannot_be_gets_the_reason(
    kafka_cluster_factory: Callable[..., KafkaCluster],
) -> None:
    """At once, and each time: 38 for more replicas than brokers, 17 for a name like that of another topic."""
    cluster = kafka_cluster_factory(1, settings=replace(unhurried(), default_replication_factor=2))
    cluster.create_topic("a.b")
    host, port = cluster.bootstrap_servers.split(":")
    for topic, error in (("new", 38), ("a_b", 17), ("new", 38)):
        answer = ask((host, int(port)), MetadataRequest.of(topic), MetadataResponse, 1)
        assert answer is not None
        assert [one.error for one in answer.topics] == [error]
