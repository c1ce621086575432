"""What a user with too few rights sees of zkgroup's commands, sources and `Admin` on a cluster with ACLs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import kafka
import pytest

from tests.long.clients.test_secured_clusters import commands_on, properties
from tests.waiting import PATIENCE_S, eventually
from tests.worlds.shell import Shell
from tests.worlds.unhurried import unhurried
from zkgroup import Admin, Consumer, GroupSettings
from zkgroup.errors import AuthorizationError
from zkgroup.sources import BrokerSource, KafkaSource
from zkgroup.testing import ClusterSecurity, KafkaCluster

SECURITY = ClusterSecurity(
    users={"alice": "canary", "root": "r"}, mechanism="SCRAM-SHA-512", authorizer=True, super_users=["root"]
)
OF_TOPIC = "not authorized: its broker answers 29 (topic authorization failed)"
OF_GROUP = "not authorized: its broker answers 30 (group authorization failed)"

_numbers = count(1)


@pytest.fixture
def shell(
    kafka_cluster_factory: Callable[..., KafkaCluster], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> tuple[Shell, KafkaCluster]:
    """A shell, and a cluster of one broker with the topic `orders` and the idle group `billing`."""
    cluster = kafka_cluster_factory(1, security=SECURITY, settings=unhurried())
    cluster.create_topic("orders", replication_factor=1)
    root = cluster.client_security("root").kafka_python_options()
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, group_id="billing", enable_auto_commit=False, **root
    )
    orders = kafka.TopicPartition("orders", 0)
    consumer.assign([orders])
    consumer.commit({orders: kafka.structs.OffsetAndMetadata(0, "", -1)})
    consumer.close()
    return commands_on(cluster, monkeypatch, tmp_path), cluster


def test_commands_end_with_what_is_refused(shell: tuple[Shell, KafkaCluster], tmp_path: Path) -> None:
    """Exit code 1, the topic or the group, and all else that they know; nothing is changed."""
    run, cluster = shell
    file = tmp_path / "alice.properties"
    file.write_text(properties(cluster.client_security("alice")))
    file.chmod(0o600)
    for words, said in (
        (("topic", "describe", "orders", "--replicas"), f"orders-0: {OF_TOPIC}"),
        (("broker", "describe", "1"), f"__consumer_offsets-0: {OF_TOPIC}"),
        (("group", "describe", "billing"), f"the end of orders-0 is not known: {OF_TOPIC}"),
        (("group", "check", "billing"), f"the end of orders-0 is not known: {OF_TOPIC}"),
        (("offsets", "show", "billing", "--source", "brokers"), f"orders-0 is not known: {OF_TOPIC}"),
        (
            ("offsets", "reset", "idle", "--to", "earliest", "--topic", "orders", "--source", "brokers"),
            OF_TOPIC,
        ),
        (("coordinator", "describe"), f"billing: {OF_GROUP}"),
        (("coordinator", "describe", "billing"), f"billing: {OF_GROUP}"),
        (("group", "list"), f"of billing reports is not known: {OF_GROUP}"),
        (("status",), f"of billing reports is not known: {OF_GROUP}"),
        (("group", "delete", "billing", "--execute", "--yes"), "billing: not authorized: broker 1"),
        (("produce", "orders"), "not authorized: TopicAuthorizationFailedError: orders"),
    ):
        ran = run.run(*words, "--command-config", str(file), stdin="a\n")
        assert (ran.code, "canary" in ran.err) == (1, False), words
        (error,) = (line for line in ran.err.splitlines() if line.startswith("error: "))
        assert said in error
        if words[0] != "produce" and words[-1] not in ("brokers", "--yes"):
            assert "orders" in ran.out or "billing" in ran.out
    assert cluster.zookeeper.find("/consumers/billing/offsets/orders/0") is not None


def topics_of(cluster: KafkaCluster, user: str) -> list[str]:
    """What a user is told of."""
    options = cluster.client_security(user).kafka_python_options()
    client = kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers, **options)
    try:
        return list(client.list_topics())
    finally:
        client.close()


@pytest.mark.parametrize("source", [BrokerSource, KafkaSource])
def test_a_consumer_that_may_not_read_any_more_fails_and_leaves(
    shell: tuple[Shell, KafkaCluster], source: type[BrokerSource | KafkaSource]
) -> None:
    """`AuthorizationError` with the topic, as before it could read; nobody is left in the group."""
    _, cluster = shell
    rights = {"topics": ["orders"]}

    def consumer() -> Consumer:
        return Consumer(
            client=cluster.zookeeper.client(f"member-{next(_numbers)}"),
            group="g",
            topics=["orders"],
            source=source(security=cluster.client_security("alice")),
            settings=GroupSettings(auto_offset_reset="earliest"),
        )

    with pytest.raises(AuthorizationError, match=r"not authorized: .*orders"), consumer() as refused:
        next(iter(refused))
    root = cluster.client_security("root").kafka_python_options()
    with (
        Admin(client=cluster.zookeeper.client("admin")) as admin,
        kafka.KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **root) as producer,
    ):
        producer.send("orders", b"two apples").get(timeout=PATIENCE_S)
        admin.add_acls("User:alice", "read", **rights)
        eventually(lambda: "orders" in topics_of(cluster, "alice"))

        def read_and_lose_the_right() -> None:
            with consumer() as member:
                assert next(iter(member)).value == b"two apples"
                admin.remove_acls("User:alice", **rights)
                next(iter(member))

        with pytest.raises(AuthorizationError, match=r"not authorized: .*orders"):
            read_and_lose_the_right()
    assert [path for path in cluster.zookeeper.tree() if path.startswith("/consumers/g/ids/")] == []
