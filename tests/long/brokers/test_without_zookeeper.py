"""zkgroup brokers during a long outage of ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.real.broker.server_brokers import QUICK, Cluster
from tests.waiting import becomes, eventually
from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.client import SystemClock

SESSION_MS = 3000


@pytest.fixture
def cluster(zk_chaos_server: ChaosZooKeeper, witness: Blocking) -> Iterator[Cluster]:
    """A cluster without brokers, behind a network that the test can break."""
    cluster = Cluster(zk_chaos_server.address, witness)
    try:
        yield cluster
    finally:
        zk_chaos_server.heal()
        cluster.close()


def test_brokers_serve_on_for_ten_session_timeouts(cluster: Cluster, zk_chaos_server: ChaosZooKeeper) -> None:
    """Metadata stay as they were; afterwards all brokers are registered and in sync."""
    cluster.add(1, 2, settings=replace(QUICK, session_timeout_ms=SESSION_MS))
    cluster.create_topic("t", (1, 2), (2, 1))
    for broker in (1, 2):
        becomes(lambda broker=broker: cluster.leaders(broker, "t"), [1, 2])
    epochs = {broker: cluster.brokers[broker].epoch for broker in (1, 2)}
    zk_chaos_server.cut(refuse=True)
    clock = SystemClock()
    until_ms = clock.now_ms() + 10 * SESSION_MS

    def is_over() -> bool:
        assert [cluster.leaders(broker, "t") for broker in (1, 2)] == [[1, 2], [1, 2]]
        return clock.now_ms() > until_ms

    eventually(is_over)
    assert cluster.find(BrokerRegistration.path(1)) is None
    zk_chaos_server.heal()

    eventually(lambda: all(cluster.brokers[one].epoch not in (None, epochs[one]) for one in epochs))
    for partition in (0, 1):
        becomes(lambda one=partition: sorted(cluster.isr("t", one)), [1, 2])
