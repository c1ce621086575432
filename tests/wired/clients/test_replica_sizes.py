"""What moves have still to copy, by what brokers say of the sizes of their replicas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.wired.clients.test_log_ends import produce
from tests.worlds.memory_groups import MemoryGroups
from tests.worlds.record_brokers import RecordBrokers
from zkgroup.admin.reassign.progress import ReassignmentProgress, ReassignmentStatus
from zkgroup.admin.reassign.sizes import bytes_left, list_with_sizes, telling_bytes, with_time_left
from zkgroup.clients.addresses import BrokerAddress, addresses_of
from zkgroup.clients.log_dirs import NOT_SERVED, read_replica_sizes
from zkgroup.model import TopicPartition
from zkgroup.znodes.admin_requests import Move, Reassignment
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic

TP = TopicPartition("orders", 0)
LEFT = ReassignmentStatus(
    topic_partition=TP, before=(1,), target=(1, 2), status="in_progress", bytes_left=400
)


@pytest.fixture
def moving() -> Iterator[tuple[MemoryGroups, RecordBrokers]]:
    """A partition of broker 1 that broker 2 shall have too; it has fetched nothing yet."""
    world = MemoryGroups()
    with RecordBrokers(2) as brokers:
        brokers.held.add(2)
        brokers.lead(TP, 1, isr=(1,))
        produce(brokers, b"a" * 1000, b"b" * 1000)
        for number, one in brokers.registrations().items():
            world.hold(BrokerRegistration.path(number), one.encode())
        world.server.put(Topic.path("orders"), Topic({0: (1,)}).encode())
        world.server.put(PartitionState.path(TP), PartitionState(1, 0, (1,), 1).encode())
        world.server.put(Reassignment.path(), Reassignment((Move(TP, (1, 2)),)).encode())
        yield world, brokers


def test_bytes_left_are_those_that_the_new_replica_lacks(moving: tuple[MemoryGroups, RecordBrokers]) -> None:
    """Without an answer they are not known; a broker before Kafka 0.10 is not asked."""
    world, brokers = moving
    addresses = addresses_of(brokers.registrations())
    sizes = read_replica_sizes(addresses, [(TP, 1), (TP, 2)], 5_000)
    _, (row,), _ = list_with_sizes(world.ensemble)
    told: list[ReassignmentProgress] = []
    tell = telling_bytes(world.ensemble, [Move(TP, (1, 2))], told.append)
    tell(ReassignmentProgress(done=0, total=1, elapsed_ms=0))
    brokers.stop(2)
    _, (unknown,), _ = list_with_sizes(world.ensemble)
    tell(ReassignmentProgress(done=0, total=1, elapsed_ms=1))
    old = {1: BrokerAddress("127.0.0.1", 1, negotiates=False)}

    size = sizes[TP, 1]
    assert isinstance(size, int)
    assert size > 2000
    assert sizes[TP, 2] == 0
    assert row.bytes_left == size
    assert [one.bytes_left for one in told] == [size, None]
    assert (unknown.status, unknown.bytes_left) == ("in_progress", None)
    assert read_replica_sizes(old, [(TP, 1)], 5_000) == {(TP, 1): NOT_SERVED}


def test_time_left_is_at_the_rate_of_the_window() -> None:
    """Unknown where nothing came, and for another move."""
    state = PartitionState(1, 0, (1,), 1)
    assert bytes_left(LEFT, state, {(TP, 1): 1000, (TP, 2): 600}) == 400
    assert bytes_left(LEFT, state, {(TP, 1): 1000, (TP, 2): "gone"}) is None
    assert bytes_left(LEFT, PartitionState(1, 0, (1, 2), 1), {}) == 0

    later = replace(LEFT, bytes_left=100)
    assert with_time_left(later, LEFT, 6_000).left_ms == 2_000
    assert with_time_left(LEFT, later, 6_000).left_ms is None
    assert with_time_left(later, replace(LEFT, target=(2,)), 6_000).left_ms is None
    assert with_time_left(replace(LEFT, bytes_left=0), LEFT, 6_000).left_ms == 0
