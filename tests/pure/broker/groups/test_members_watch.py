"""ZooKeeper consumers in groups of the coordinator are noticed (recipes 22)."""

from __future__ import annotations

from tests.worlds.acls import UNREADABLE
from tests.worlds.stepped_stores import GROUP, led, record
from zkgroup.coordinator.events import MarkerLost
from zkgroup.znodes.consumers import ids_path
from zkgroup.znodes.coordinated_groups import ProtocolMarker


def test_a_group_that_was_empty_when_the_connection_broke_is_watched_again() -> None:
    """Past bug: its watch was taken for armed, and consumers were never noticed."""
    world, node = led()
    world.stable(node)
    world.store(node, record(generation=2, members=[]))
    world.run()
    world.server.cut("n1")
    world.run()
    world.stable(node, generation=101)
    world.server.remove(ProtocolMarker.path(GROUP))
    world.zookeeper_member()
    world.run()

    assert node.emitted(MarkerLost) == [MarkerLost(GROUP)]


def test_consumers_that_an_acl_hides_do_not_hide_those_of_other_groups() -> None:
    """Past bug: the read of a slot's groups ended at the first one that was refused."""
    world, node = led()
    world.stable(node, "a")
    world.stable(node, "b")
    world.server.set_acl(ids_path("a"), UNREADABLE)
    world.server.remove(ProtocolMarker.path("b"))
    world.zookeeper_member("b")
    successor = world.node(2)
    world.move(successor)
    world.run()

    assert successor.emitted(MarkerLost) == [MarkerLost("b")]
