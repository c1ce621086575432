"""What `topic describe` reports about topics with a pending deletion."""

from __future__ import annotations

import pytest

from tests.worlds.memory_cluster import MemoryCluster, move
from tests.worlds.memory_groups import MemoryGroups
from zkgroup.admin.topics.listing import NOT_REPORTED, PendingDeletion, describe_topics
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.controller import ControllerStatus


@pytest.fixture
def cluster(world: MemoryGroups) -> MemoryCluster:
    """Topics `orders` and `clicks`; `orders` has a pending deletion."""
    found = MemoryCluster(world)
    found.topic("orders", (1, 2), (2, 4))
    found.topic("clicks", (1, 4))
    world.server.put(TopicDeletion.path("orders"), b"")
    return found


def _told(world: MemoryGroups) -> PendingDeletion:
    found = {one.topic: one.deletion for one in describe_topics(world.ensemble)[1]}
    assert found["clicks"] is None
    assert found["orders"] is not None
    return found["orders"]


def test_the_reason_that_a_zkgroup_controller_wrote_is_reported(
    world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """It names the brokers; a status that is older than the request says nothing about it (K20)."""
    cluster.ours()
    unsaid = _told(world)
    marker = world.server.find(TopicDeletion.path("orders"))
    assert marker is not None
    zxid = marker.stat.mzxid
    world.hold(ControllerStatus.path(), ControllerStatus(1, 7, zxid - 1, 5).encode())
    older = _told(world)
    world.hold(ControllerStatus.path(), ControllerStatus(1, 7, zxid, 5).encode())
    free = _told(world)
    waiting = {"deletion of orders": "waits for broker 4 to be back", "deletion of clicks": "no"}
    world.hold(ControllerStatus.path(), ControllerStatus(1, 7, 1, 5, waiting=waiting).encode())

    assert unsaid == PendingDeletion(marker.stat.ctime, NOT_REPORTED)
    assert older == unsaid
    assert free == PendingDeletion(marker.stat.ctime, None)
    assert _told(world) == PendingDeletion(marker.stat.ctime, "waits for broker 4 to be back")


def test_brokers_that_are_not_waited_for_are_listed(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """The brokers in the request; an unreadable request names none (K20)."""
    path = TopicDeletion.path("orders")
    world.server.put(path, TopicDeletion((4,)).encode())
    named = _told(world).without_brokers
    world.server.put(path, b'{"zkgroup":{}}')

    assert named == (4,)
    assert _told(world).without_brokers == ()


def test_what_a_real_controller_waits_for_follows_from_the_znodes(
    world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """Kafka's controllers say nothing: brokers that are gone and moves are in the way of every one."""
    gone = _told(world)
    cluster.broker(4)
    free = _told(world)
    cluster.request(move("orders", 1, 1, 2))
    moved = _told(world)
    cluster.no_controller()

    assert gone.detail == "waits for broker 4 to be back"
    assert free.detail is None
    assert moved.detail == "waits for the reassignment of its partitions"
    assert _told(world).detail == "waits for an active controller"
