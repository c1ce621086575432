"""`KafkaCluster(security=...)`, and what its clients see: Kafka's for Python, zkgroup's, and its commands."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import kafka
import pytest
from confluent_kafka import KafkaError, Producer

from tests.waiting import PATIENCE_S
from tests.worlds.shell import Shell
from tests.worlds.unhurried import unhurried
from zkgroup import Admin, Consumer, GroupSettings
from zkgroup.errors import BrokerAuthenticationError, ConfigError, SourceUnavailableError
from zkgroup.model import TopicPartition
from zkgroup.security import ClientSecurity
from zkgroup.sources import BrokerSource
from zkgroup.testing import ClusterSecurity, KafkaCluster

Make = Callable[..., KafkaCluster]
SCRAM = ClusterSecurity(users={"alice": "canary"}, mechanism="SCRAM-SHA-512")
KINDS = {
    "plain": ClusterSecurity(protocol="SASL_PLAINTEXT", users={"alice": 'can"ary\\'}, mechanism="PLAIN"),
    "scram": SCRAM,
    "certificates": ClusterSecurity(protocol="SSL", client_auth="required"),
    "both": ClusterSecurity(users={"alice": "canary"}, client_auth="required"),
}


def properties(security: ClientSecurity) -> str:
    """The file of `--command-config`."""
    lines = [f"security.protocol={security.protocol}"]
    if security.tls is not None:
        lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={security.tls.trust_store}"]
    if security.mechanism is not None:
        assert security.password is not None
        module = (
            f"org.apache.kafka.common.security.scram.ScramLoginModule required username={security.username}"
        )
        lines += [f"sasl.mechanism={security.mechanism}"]
        lines += [f'sasl.jaas.config={module} password="{security.password.reveal()}";']
    return "\n".join(lines)


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_that_belongs_there_gets_in(kafka_cluster_factory: Make, kind: str) -> None:
    """kafka-python produces; zkgroup's source reads; the brokers replicate by the same listener."""
    cluster = kafka_cluster_factory(security=KINDS[kind], settings=unhurried())
    cluster.create_topic("orders")
    alice = cluster.client_security("alice")
    with kafka.KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, acks="all", **alice.kafka_python_options()
    ) as producer:
        producer.send("orders", b"two apples").get(timeout=PATIENCE_S)
    assert cluster.isr("orders") == (1, 2, 3)

    consumer = Consumer(
        client=cluster.zookeeper.client("ada"),
        group="g",
        topics=["orders"],
        source=BrokerSource(security=alice),
        settings=GroupSettings(auto_offset_reset="earliest"),
    )
    with consumer:
        assert next(iter(consumer)).value == b"two apples"


def test_a_client_that_does_not_belong_there_sees_why(kafka_cluster_factory: Make) -> None:
    """A wrong password, no user, no password: confluent-kafka's error, and zkgroup's at once."""
    cluster = kafka_cluster_factory(1, security=SCRAM, settings=unhurried())
    cluster.create_topic("orders")
    wrong = cluster.client_security("alice", password="guessed")
    assert wrong.tls is not None
    failed: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": wrong.tls.trust_store,
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": "guessed",
            "error_cb": failed.append,
            "log_level": 0,
        }
    )
    while not any(error.code() == KafkaError._AUTHENTICATION for error in failed):
        producer.poll(PATIENCE_S)

    consumer = Consumer(
        client=cluster.zookeeper.client("eve"),
        group="g",
        topics=["orders"],
        source=BrokerSource(security=wrong),
    )
    with pytest.raises(BrokerAuthenticationError, match=r"failed \(SCRAM-SHA-512\): user alice"), consumer:
        next(iter(consumer))
    without = ClientSecurity(protocol="SSL", tls=wrong.tls)
    source = BrokerSource(cluster.bootstrap_servers, security=without)
    with pytest.raises(SourceUnavailableError, match="expected a listener of SSL there"):
        source.bounds(TopicPartition("orders", 0))
    with pytest.raises(ConfigError, match="expected a password"):
        cluster.client_security("eve")


def test_a_user_is_added_while_the_cluster_runs(kafka_cluster_factory: Make) -> None:
    """By an operator, in the znodes that brokers watch."""
    cluster = kafka_cluster_factory(1, security=SCRAM, settings=unhurried())
    with Admin(client=cluster.zookeeper.client("admin")) as admin:
        admin.add_user("bob", "of bob", mechanism="SCRAM-SHA-512")
    bob = cluster.client_security("bob", password="of bob")
    with kafka.KafkaAdminClient(
        bootstrap_servers=cluster.bootstrap_servers, **bob.kafka_python_options()
    ) as client:
        assert client.list_topics() == ["__consumer_offsets"]


@pytest.fixture
def shell(
    kafka_cluster_factory: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> tuple[Shell, KafkaCluster]:
    """A shell whose commands run on a secured cluster."""
    cluster = kafka_cluster_factory(1, security=SCRAM, settings=unhurried())

    return commands_on(cluster, monkeypatch, tmp_path), cluster


def commands_on(cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Shell:
    """A shell whose commands find the ZooKeeper of the cluster."""
    numbers = count(1)

    def client(*_: object) -> Any:
        made: Any = cluster.zookeeper.client(f"command-{next(numbers)}")
        made.wait_connected, made.opened = lambda timeout_s: None, None
        return made

    monkeypatch.setattr("zkgroup.zookeeper.ZooKeeperClient", client)
    return Shell(folder, "127.0.0.1:1")


def test_commands_log_in(shell: tuple[Shell, KafkaCluster], tmp_path: Path) -> None:
    """At the registered listener, or where `--bootstrap-server` says; a wrong password is one line."""
    run, cluster = shell
    cluster.create_topic("orders")
    right, wrong = tmp_path / "right.properties", tmp_path / "wrong.properties"
    right.write_text(properties(cluster.client_security("alice")))
    wrong.write_text(properties(cluster.client_security("alice", password="guessed")))
    for file in (right, wrong):
        file.chmod(0o600)
    asking = (
        ("broker", "describe", "1"),
        ("topic", "describe", "orders", "--replicas"),
        ("coordinator", "describe"),
    )
    bootstrap = ("--bootstrap-server", cluster.bootstrap_servers)

    produced = run.run("produce", "orders", "--command-config", str(right), stdin="a\nb\n")
    assert (produced.code, produced.err) == (0, "")
    for words in asking:
        for more in ((), bootstrap):
            done = run.run(*words, "--command-config", str(right), *more)
            assert (done.code, done.err) == (0, ""), words
        refused = run.run(*words, "--command-config", str(wrong), *bootstrap)
        assert refused.code == 1, words
        (error,) = (line for line in refused.err.splitlines() if line.startswith("error: "))
        assert "authentication failed (SCRAM-SHA-512): user alice" in error
        assert "guessed" not in refused.err
