"""The freezes of a coordinator's groups: found by a load, ended by ZooKeeper's clock (recipes 26)."""

from __future__ import annotations

import pytest

from tests.worlds.acls import READ_ONLY, UNREADABLE
from tests.worlds.stepped_stores import GROUP, SteppedStores, StoreNode, led
from zkgroup.model.requests import Create, Delete, Multi, SetData
from zkgroup.testing.memory_zookeeper import Fault
from zkgroup.znodes.coordinated_groups import SlotOwner
from zkgroup.znodes.group_records import Freeze
from zkgroup.zookeeper import OPEN_ACL

FOR_MS = 20_000


def freeze(world: SteppedStores, for_ms: int = FOR_MS) -> None:
    """As an operator does: the slot is set in the same transaction."""
    marker = Freeze(reason="r", by="me", for_ms=for_ms, allows_takeover=False)
    _set_slot(world, Create(Freeze.path(GROUP), marker.encode()))


def _set_slot(world: SteppedStores, change: Create | Delete) -> None:
    owner = world.find(SlotOwner.path(0))
    world.server.write(change, SetData(owner.path, owner.data or b"", owner.stat.version))
    world.run()


def frozen() -> tuple[SteppedStores, StoreNode]:
    world, node = led()
    world.stable(node)
    freeze(world)
    return world, node


def test_a_freeze_is_found_by_the_load_that_it_causes() -> None:
    """So is its end by an operator; the members stay as they are stored."""
    world, node = frozen()
    assert node.loaded[GROUP].is_frozen
    assert len(node.loaded[GROUP].members) == 1

    _set_slot(world, Delete(Freeze.path(GROUP), -1))
    assert not node.loaded[GROUP].is_frozen


def test_a_freeze_ends_by_itself_and_the_slot_is_loaded_again() -> None:
    """Not before its time, whatever the clock of the broker says: the answer to the write has the time."""
    world, node = frozen()
    world.advance(FOR_MS - 1)
    assert node.loaded[GROUP].is_frozen

    world.advance(2)
    assert world.server.find(Freeze.path(GROUP)) is None
    assert not node.loaded[GROUP].is_frozen
    assert len(node.notes("slot.lost")) == 2


def test_a_new_leader_keeps_the_freeze() -> None:
    """It is in ZooKeeper, and the new coordinator ends it."""
    world, _ = frozen()
    successor = world.node(2)
    world.move(successor)
    world.run()
    assert successor.loaded[GROUP].is_frozen

    world.advance(FOR_MS)
    assert not successor.loaded[GROUP].is_frozen


@pytest.mark.parametrize("why", ["corrupt", "hidden"])
def test_a_marker_that_cannot_be_read_holds_until_it_is_deleted(why: str) -> None:
    """Nobody knows its end. Past bug: one that an ACL hides was taken for none."""
    world, node = led()
    world.stable(node)
    if why == "corrupt":
        _set_slot(world, Create(Freeze.path(GROUP), b"?"))
    else:
        freeze(world)
        world.server.set_acl(Freeze.path(GROUP), UNREADABLE)
        node = world.node(2)
        world.move(node)
    world.advance(10 * FOR_MS)

    assert node.loaded[GROUP].is_frozen
    assert len(node.notes("freeze.unreadable")) == 1


@pytest.mark.parametrize("fault", ["lost_reply", "lost_request"])
def test_an_end_without_an_answer_is_an_end(fault: Fault) -> None:
    """Past bug: where the marker was deleted and the answer lost, the group stayed frozen for ever."""
    world, node = frozen()
    world.clock.advance(FOR_MS)
    world.until_asks(node, Multi, "Delete")
    world.lose(node, fault)
    world.advance(10_000)

    assert world.server.find(Freeze.path(GROUP)) is None
    assert not node.loaded[GROUP].is_frozen


def test_a_marker_that_an_acl_protects_is_tried_again() -> None:
    """Past bug: it ended the broker."""
    world, node = frozen()
    world.server.set_acl(Freeze.path(GROUP), READ_ONLY)
    world.advance(FOR_MS + 20_000)
    assert node.loaded[GROUP].is_frozen
    assert node.notes("unexpected_reply")

    world.server.set_acl(Freeze.path(GROUP), *OPEN_ACL)
    world.advance(10_000)
    assert not node.loaded[GROUP].is_frozen
