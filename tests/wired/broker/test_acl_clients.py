"""Clients that list, add and remove ACLs at brokers with an authorizer, and at brokers without one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaProducer
from kafka.errors import TopicAuthorizationFailedError

from tests.waiting import PATIENCE_S
from tests.worlds.unhurried import unhurried
from zkgroup.testing import ClusterSecurity, KafkaCluster

Make = Callable[..., KafkaCluster]
SECURITY = ClusterSecurity(
    protocol="SASL_PLAINTEXT",
    mechanism="PLAIN",
    users={"alice": "a", "root": "r"},
    authorizer=True,
    super_users=["root"],
)
WRITE_ORDERS = AclBinding(
    *(ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, "User:alice", "*"),
    *(AclOperation.WRITE, AclPermissionType.ALLOW),
)
EVERY = AclBindingFilter(
    *(ResourceType.ANY, None, ResourcePatternType.ANY, None, None),
    *(AclOperation.ANY, AclPermissionType.ANY),
)


def _admin(cluster: KafkaCluster, user: str, password: str) -> AdminClient:
    return AdminClient(
        {
            "bootstrap.servers": cluster.address(1),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": password,
        }
    )


def test_an_acl_counts_at_the_broker_that_has_answered(kafka_cluster_factory: Make) -> None:
    """At once, added and removed; who may not alter the cluster changes nothing."""
    cluster = kafka_cluster_factory(1, security=SECURITY, settings=unhurried())
    cluster.create_topic("orders", replication_factor=1)
    root, alice = _admin(cluster, "root", "r"), _admin(cluster, "alice", "a")
    options = cluster.client_security("alice").kafka_python_options()

    with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
        alice.create_acls([WRITE_ORDERS])[WRITE_ORDERS].result(PATIENCE_S)
    with KafkaProducer(
        bootstrap_servers=cluster.address(1), enable_idempotence=False, max_block_ms=60_000, **options
    ) as producer:
        root.create_acls([WRITE_ORDERS])[WRITE_ORDERS].result(PATIENCE_S)
        assert producer.send("orders", b"x").get(timeout=PATIENCE_S).offset == 0
        assert root.describe_acls(EVERY).result(PATIENCE_S) == [WRITE_ORDERS]
        assert root.delete_acls([EVERY])[EVERY].result(PATIENCE_S) == [WRITE_ORDERS]
        with pytest.raises(TopicAuthorizationFailedError):
            producer.send("orders", b"x").get(timeout=PATIENCE_S)
    assert root.describe_acls(EVERY).result(PATIENCE_S) == []


def test_without_an_authorizer_there_are_no_acls(kafka_cluster: KafkaCluster) -> None:
    """As in Kafka: error 54, which librdkafka drops of DescribeAcls."""
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    for asked in (
        admin.create_acls([WRITE_ORDERS])[WRITE_ORDERS],
        admin.delete_acls([EVERY])[EVERY],
    ):
        with pytest.raises(KafkaException) as caught:
            asked.result(PATIENCE_S)
        assert caught.value.args[0].code() == KafkaError.SECURITY_DISABLED
