"""Brokers that replica lists name and that are not registered."""

from __future__ import annotations

from tests.worlds.memory_cluster import MemoryCluster
from tests.worlds.memory_groups import MemoryGroups
from zkgroup.admin.status import diagnose, read_status
from zkgroup.admin.topics.listing import MissingBroker
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Delete
from zkgroup.znodes.brokers import BrokerRegistration


def _orders(*numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("orders", number) for number in numbers)


def test_a_dead_broker_is_named_with_its_partitions_and_the_time(world: MemoryGroups) -> None:
    """Since the oldest state that has it out of sync or no leader; unknown where all states are older."""
    cluster = MemoryCluster(world, brokers=4)
    cluster.topic("orders", (1, 2), (2, 3), (2,), (1, 3), (4, 1))
    for broker in (2, 4):
        world.write(Delete(BrokerRegistration.path(broker), -1))
    world.pass_time(60)
    gone_ms = world.clock.wall_ms()
    cluster.state("orders", 0, 1, (1,))
    cluster.state("orders", 1, 3, (3,))
    world.pass_time(60)
    cluster.state("orders", 2, -1, (2,))

    status = read_status(world.ensemble)
    found = [one for one in diagnose(status, wanted_timeout_ms=10_000) if one.subject.startswith("broker ")]

    assert status.missing == (
        MissingBroker(broker=2, partitions=_orders(0, 1, 2), out_of_sync_since_ms=gone_ms),
        MissingBroker(broker=4, partitions=_orders(4), out_of_sync_since_ms=None),
    )
    assert [one.subject for one in found if one.severity == "warning"] == ["broker 2", "broker 4"]
    assert "replicas of orders-0, orders-1, orders-2, out of sync since " in found[0].detail
    assert "out of sync" not in found[1].detail
    assert found[0].next == "zkgroup plan decommission 2"


def test_a_registration_that_cannot_be_read_is_of_a_broker_that_lives(world: MemoryGroups) -> None:
    """It is reported as unreadable; a persistent one, which is nobody's, as missing too."""
    cluster = MemoryCluster(world, brokers=1)
    cluster.topic("orders", (1, 2, 3))
    world.hold(BrokerRegistration.path(2), b"{")
    world.server.put(BrokerRegistration.path(3), BrokerRegistration("h", 9092, 1, 0).encode())

    assert [one.broker for one in read_status(world.ensemble).missing] == [3]
