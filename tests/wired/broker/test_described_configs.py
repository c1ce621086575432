"""What DescribeConfigs tells of a broker and its topics, under Kafka's names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.worlds.running_brokers import MemoryBrokers, ask
from tests.worlds.unhurried import unhurried
from zkgroup.testing import KafkaCluster
from zkgroup.wire.admin_apis import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfig,
)
from zkgroup.znodes.config import BrokerConfig, ConfigEntity


def _described(cluster: KafkaCluster, kind: int, name: str) -> dict[str, DescribedConfig]:
    request = DescribeConfigsRequest(resources=(ConfigResource(kind=kind, name=name),))
    port = int(cluster.address(1).rpartition(":")[2])
    (row,) = ask(port, request, DescribeConfigsResponse, version=3).resources
    assert row.error == 0
    return {one.name: one for one in row.configs}


def test_what_a_broker_knows_is_told(
    kafka_cluster_factory: Callable[..., KafkaCluster], tmp_path: Path
) -> None:
    """How it was started, and what is fixed; of a topic the defaults of what is stored."""
    cluster = kafka_cluster_factory(1, data=tmp_path, settings=unhurried())
    cluster.create_topic("orders", configs={"segment.jitter.ms": "5"})
    address = cluster.address(1)

    of_broker = _described(cluster, BROKER_RESOURCE, "1")
    expected = {
        "advertised.listeners": f"PLAINTEXT://{address}",
        "host.name": "127.0.0.1",
        "listeners": f"PLAINTEXT://{address}",
        "log.cleaner.enable": "false",
        "log.cleanup.policy": "delete",
        "log.dirs": str(tmp_path / "broker-1"),
        "port": address.rpartition(":")[2],
        "security.inter.broker.protocol": "PLAINTEXT",
    }
    assert {name: of_broker[name].value for name in expected} == expected
    assert [name for name in expected if not of_broker[name].read_only] == ["log.cleanup.policy"]
    of_topic = _described(cluster, TOPIC_RESOURCE, "orders")
    never = str(2**63 - 1)
    expected = {"compression.type": "producer", "flush.messages": never, "flush.ms": never}
    expected["segment.jitter.ms"] = "5"
    assert {name: of_topic[name].value for name in expected} == expected


def test_what_a_listener_is_told_has_no_secrets(world: MemoryBrokers) -> None:
    """`broker run` prints it."""
    jaas = "listener.name.outside.plain.sasl.jaas.config"
    overrides = {jaas: 'password="canary";', "ssl.key.password": "canary", "max.connections": "9"}
    world.server.put(ConfigEntity.broker(1).config_path, BrokerConfig(overrides).encode())
    world.add(1)

    world.becomes(lambda: len(world.running.told[1].of("config")), 1)
    told = str(world.running.told[1].of("config"))
    assert ("canary" in told, "max.connections" in told) == (False, True)
