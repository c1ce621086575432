"""Brokers with an authorizer: they follow the ACLs in ZooKeeper, and clients see what these let them do."""

from __future__ import annotations

from collections.abc import Callable

import kafka
import pytest
from kafka.errors import TopicAuthorizationFailedError

from tests.waiting import PATIENCE_S, eventually
from tests.worlds.guarded_handlers import binding
from tests.worlds.unhurried import unhurried
from zkgroup.errors import ConfigError
from zkgroup.testing import ClusterSecurity, KafkaCluster
from zkgroup.testing.memory_zookeeper import MemoryZooKeeper
from zkgroup.znodes.acls import AclChangeNode, ResourceAcls

Make = Callable[..., KafkaCluster]
KINDS = {
    "sasl": ClusterSecurity(
        protocol="SASL_PLAINTEXT", users={"alice": "canary"}, mechanism="PLAIN", authorizer=True
    ),
    "certificates": ClusterSecurity(protocol="SSL", client_auth="required", authorizer=True),
}


def put(zookeeper: MemoryZooKeeper, *texts: str) -> None:
    """Writes ACLs of different patterns, as `kafka-acls` does by ZooKeeper: entries, then a notification."""
    for pattern, entry in map(binding, texts):
        zookeeper.put(ResourceAcls.path(pattern), ResourceAcls({entry: {}}).encode())
        paths = (AclChangeNode.path(pattern.pattern_type, number) for number in range(100))
        free = next(path for path in paths if zookeeper.find(path) is None)
        zookeeper.put(free, AclChangeNode(pattern).encode())


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_may_do_what_the_acls_say(kafka_cluster_factory: Make, kind: str) -> None:
    """Brokers are super users, so they replicate; alice writes once she may; the age of the ACLs is 0."""
    cluster = kafka_cluster_factory(security=KINDS[kind], settings=unhurried())
    cluster.create_topic("orders")
    alice = cluster.client_security("alice").kafka_python_options()

    with kafka.KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, acks="all", enable_idempotence=False, **alice
    ) as producer:
        with pytest.raises(TopicAuthorizationFailedError):
            producer.send("orders", b"two apples").get(timeout=PATIENCE_S)
        put(cluster.zookeeper, "allow alice WRITE topic ord...")

        sent = eventually(
            lambda: producer.send("orders", b"two apples").get(timeout=PATIENCE_S),
            ignoring=(TopicAuthorizationFailedError,),
        )
        assert sent.offset == 0
    assert cluster.isr("orders") == (1, 2, 3)
    assert cluster.broker(1).health().acl_age_ms == 0


def test_the_acls_that_were_read_last_decide_while_zookeeper_is_away(kafka_cluster_factory: Make) -> None:
    """Their age is shown; changes of the meantime count when the broker is back."""
    cluster = kafka_cluster_factory(1, security=KINDS["sasl"], settings=unhurried())
    cluster.create_topic("orders")
    put(cluster.zookeeper, "allow alice WRITE topic orders")
    alice = cluster.client_security("alice").kafka_python_options()

    with kafka.KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, acks=1, enable_idempotence=False, **alice
    ) as producer:

        def send() -> int:
            found: int = producer.send("orders", b"two apples").get(timeout=PATIENCE_S).offset
            return found

        first = eventually(lambda: [send()], ignoring=(TopicAuthorizationFailedError,))
        cluster.isolate(1, brokers=False)
        assert eventually(lambda: cluster.broker(1).health().acl_age_ms, what="an age")
        put(cluster.zookeeper, "deny alice WRITE topic orders")
        assert send() == first[0] + 1

        cluster.heal()
        eventually(lambda: cluster.broker(1).health().acl_age_ms == 0, what="current ACLs")
        with pytest.raises(TopicAuthorizationFailedError):
            send()


def test_a_cluster_with_an_authorizer_knows_its_brokers() -> None:
    """Else everybody would be a super user, or no broker could replicate."""
    with pytest.raises(ConfigError, match="by which brokers are known"):
        ClusterSecurity(protocol="SSL", authorizer=True)
