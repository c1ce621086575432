"""pytest fixtures for code that talks to ZooKeeper or Kafka. Nothing is loaded before its use.

| fixture | gives |
|---|---|
| `zk_server` | a chroot of its own on one real server |
| `zk_ensemble` | a chroot of its own on an ensemble of three |
| `zk_chaos` | as `zk_ensemble`, on servers of its own with proxies before and between them, and faults |
| `zk_chaos_server` | as `zk_chaos`, on the one server |
| `memory_zookeeper` | a fresh `MemoryZooKeeper` with a `FakeClock` |
| `kafka_cluster` | a `KafkaCluster` of three brokers in this process, with `bootstrap_servers` |
| `kafka_cluster_factory` | makes such clusters, with the arguments of `KafkaCluster` |
| `kafka_cluster_session` | such a cluster, one for the whole run |
| `kafka_topic` | the name of a fresh topic of it |

The servers are started once, when the first test needs them, and end with the run. Each has an `address` to
connect to. After each test its faults are healed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from zkgroup.testing.chaos import ChaosZooKeeper
    from zkgroup.testing.kafka_cluster import KafkaCluster
    from zkgroup.testing.memory_zookeeper.server import MemoryZooKeeper
    from zkgroup.testing.proxies import PeerLinks
    from zkgroup.zookeeper.embedded import EmbeddedServer, EmbeddedZooKeeper

_numbers = itertools.count(1)


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Keeps pytest from rewriting the asserts of zkgroup, which would cost time in every run.

    pytest marks all modules of a distribution with a plugin, and compiles each at its import where it cannot
    cache the result. Only the suites that users inherit need it. If another version of pytest stores its
    marks elsewhere, only that time is lost.
    """
    marked = getattr(pluginmanager.rewrite_hook, "_must_rewrite", None)
    if isinstance(marked, set):
        marked -= {"zkgroup", "zkgroup_cli"}
    pytest.register_assert_rewrite("zkgroup.testing.conformance")


class ServerTree:
    """An empty chroot for one test, on servers shared with other tests."""

    def __init__(self, zookeeper: EmbeddedZooKeeper) -> None:
        self.zookeeper = zookeeper
        self.chroot = f"/test-{next(_numbers)}"
        zookeeper.create_chroot(self.chroot)

    @property
    def address(self) -> str:
        """Connection string with the chroot."""
        return self.zookeeper.address + self.chroot

    def server(self, number: int) -> EmbeddedServer:
        """One of the servers, which the test may stop and pause."""
        return self.zookeeper.server(number)


def _tree(zookeeper: EmbeddedZooKeeper) -> Iterator[ServerTree]:
    yield ServerTree(zookeeper)
    zookeeper.revive()


def _chaos(tree: ServerTree, links: PeerLinks | None = None) -> Iterator[ChaosZooKeeper]:
    from zkgroup.testing.chaos import ChaosZooKeeper

    with ChaosZooKeeper(tree.zookeeper, tree.chroot, links) as chaos:
        yield chaos


@pytest.fixture(scope="session")
def zk_server_process() -> Iterator[EmbeddedZooKeeper]:
    """One real server for the whole run."""
    from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

    with EmbeddedZooKeeper(fsync=False) as zookeeper:
        yield zookeeper


@pytest.fixture(scope="session")
def zk_ensemble_processes() -> Iterator[EmbeddedZooKeeper]:
    """Three real servers for the whole run."""
    from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

    with EmbeddedZooKeeper(3, fsync=False) as zookeeper:
        yield zookeeper


@pytest.fixture(scope="session")
def zk_peer_links() -> Iterator[PeerLinks]:
    """The links between the servers of `zk_chaos`."""
    from zkgroup.testing.proxies import PeerLinks

    with PeerLinks() as links:
        yield links


@pytest.fixture(scope="session")
def zk_chaos_processes(zk_peer_links: PeerLinks) -> Iterator[EmbeddedZooKeeper]:
    """Three real servers for the whole run, with a proxy in each link between them."""
    from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

    with EmbeddedZooKeeper(3, fsync=False, route=zk_peer_links.route) as zookeeper:
        yield zookeeper


@pytest.fixture
def zk_server(zk_server_process: EmbeddedZooKeeper) -> Iterator[ServerTree]:
    """An empty tree on a real server."""
    yield from _tree(zk_server_process)


@pytest.fixture
def zk_ensemble(zk_ensemble_processes: EmbeddedZooKeeper) -> Iterator[ServerTree]:
    """An empty tree on a real ensemble of three."""
    yield from _tree(zk_ensemble_processes)


@pytest.fixture
def zk_chaos(zk_chaos_processes: EmbeddedZooKeeper, zk_peer_links: PeerLinks) -> Iterator[ChaosZooKeeper]:
    """An empty tree on an ensemble with network faults to clients and between servers."""
    yield from _chaos(ServerTree(zk_chaos_processes), zk_peer_links)


@pytest.fixture
def zk_chaos_server(zk_server: ServerTree) -> Iterator[ChaosZooKeeper]:
    """An empty tree on one server with network faults."""
    yield from _chaos(zk_server)


@pytest.fixture
def memory_zookeeper() -> MemoryZooKeeper:
    """An empty ZooKeeper in memory, in direct mode, with a `FakeClock`."""
    from zkgroup.testing.memory_zookeeper.server import MemoryZooKeeper

    return MemoryZooKeeper()


@pytest.fixture
def kafka_cluster_factory() -> Iterator[Callable[..., KafkaCluster]]:
    """Starts a `KafkaCluster` with the arguments that it gets; the clusters are closed after the test."""
    from zkgroup.testing.kafka_cluster import KafkaCluster

    with ExitStack() as clusters:
        yield lambda *args, **kwargs: clusters.enter_context(KafkaCluster(*args, **kwargs))


@pytest.fixture
def kafka_cluster(kafka_cluster_factory: Callable[..., KafkaCluster]) -> KafkaCluster:
    """Three brokers, without a topic but that of the groups."""
    return kafka_cluster_factory()


@pytest.fixture(scope="session")
def kafka_cluster_session() -> Iterator[KafkaCluster]:
    """Three brokers for the whole run."""
    from zkgroup.testing.kafka_cluster import KafkaCluster

    with KafkaCluster() as cluster:
        yield cluster


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, kafka_cluster_session: KafkaCluster) -> Iterator[str]:
    """The name of an empty topic with one partition, or as its parameter says; deleted after the test.

    Brokers that the test has killed, stopped, paused or isolated are back before the next test.
    """
    topic, cluster = f"test-{next(_numbers)}", kafka_cluster_session
    cluster.create_topic(topic, getattr(request, "param", 1))
    yield topic
    cluster.heal()
    for broker in cluster.brokers:
        if broker in cluster.running:
            cluster.resume(broker)
        else:
            cluster.restart(broker)
    cluster.delete_topic(topic)
