"""The bounds of a slot: clients cannot fill ZooKeeper with groups and offsets."""

from __future__ import annotations

from dataclasses import replace

from tests.worlds.coordinators import SETTINGS, Coordinator
from tests.worlds.stepped_stores import GROUP, P0, SteppedStores, StoreNode, led
from zkgroup.broker.groups.slot_usage import SlotBounds
from zkgroup.broker.groups.store_events import LegacyOffsetsWritten, WriteLegacyOffsets
from zkgroup.coordinator.effects import DeleteOffsets
from zkgroup.coordinator.events import WriteOutcome
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode
from zkgroup.model.requests import Delete
from zkgroup.znodes.consumers import offset_path

STORED, FULL = WriteOutcome.STORED, WriteOutcome.SLOT_FULL
P1, P2 = TopicPartition("t", 1), TopicPartition("t", 2)


def committed(
    world: SteppedStores,
    node: StoreNode,
    *partitions: TopicPartition,
    group: str = GROUP,
    metadata: str = "",
) -> list[WriteOutcome]:
    write = world.commit(node, dict.fromkeys(partitions, 5), group, metadata=metadata)
    world.run()
    outcomes = node.commit_outcomes(write)
    assert outcomes is not None
    return [outcomes[each] for each in partitions]


def test_a_full_slot_takes_no_further_offset_and_keeps_those_that_it_has() -> None:
    """A made-up group gets error 28 for each, and no znode; an offset that is deleted makes room."""
    world, node = led(bounds=SlotBounds(offsets_max=2))
    assert committed(world, node, P0, P1) == [STORED, STORED]

    before = len(world.server.log)
    assert committed(world, node, P0, group="made-up") == [FULL]
    assert len(world.server.log) == before
    assert committed(world, node, P0, P2, P1) == [STORED, FULL, STORED]

    node.loop.post(DeleteOffsets(request_id=9, group_id=GROUP, partitions=(P0,), subscribed=()))
    world.run()
    assert committed(world, node, P2) == [STORED]
    assert committed(world, node, P0) == [FULL]


def test_the_bytes_of_metadata_are_bounded() -> None:
    """Those of a commit that is already there can always be written again, and shortened."""
    world, node = led(bounds=SlotBounds(metadata_bytes_max=100))
    assert committed(world, node, P0, metadata="m" * 60) == [STORED]

    assert committed(world, node, P1, metadata="\u20ac" * 20) == [FULL]
    assert committed(world, node, P1, metadata="m" * 40) == [STORED]
    assert committed(world, node, P0, metadata="n" * 60) == [STORED]
    assert committed(world, node, P0, metadata="n" * 61) == [FULL]
    assert committed(world, node, P0, metadata="n" * 10) == [STORED]
    assert committed(world, node, P1, metadata="m" * 90) == [STORED]


def test_a_slot_is_measured_when_it_is_loaded() -> None:
    """By another broker; what others have written and deleted is noticed by the check at intervals."""
    world, node = led(bounds=SlotBounds(offsets_max=2))
    assert committed(world, node, P0, P1) == [STORED, STORED]
    other = world.node(2, bounds=SlotBounds(offsets_max=2))
    world.move(other)
    world.run()

    assert committed(world, other, P2) == [FULL]
    assert committed(world, other, P0, P1) == [STORED, STORED]
    world.server.write(Delete(offset_path(GROUP, P0), -1))
    world.clock.advance(600_000)
    world.run()
    assert committed(world, other, P2) == [STORED]


def test_a_commit_that_is_not_stored_takes_no_room() -> None:
    """Its size is noted when it is accepted, as others of its transaction count."""
    world, node = led(bounds=SlotBounds(offsets_max=1))
    world.zookeeper_member()
    refused = world.commit(node, {P0: 5}, is_member=False)
    world.run()
    assert node.commit_outcomes(refused) == {P0: WriteOutcome.ZOOKEEPER_MEMBERS}

    assert committed(world, node, P1, group="other") == [STORED]
    assert committed(world, node, P0, group="other") == [FULL]


def test_a_full_slot_takes_no_further_group() -> None:
    """Error 81 for a join and 28 for a commit; the groups that are there go on."""
    coordinator = Coordinator(replace(SETTINGS, slot_max_groups=2))
    assert coordinator.commit(group="one") is ErrorCode.NONE
    assert coordinator.commit(group="two") is ErrorCode.NONE

    assert coordinator.commit(group="made-up") is ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert coordinator.join(group="made-up") is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert {one.group for one in coordinator.list().groups} == {"one", "two"}
    assert coordinator.commit(group="one") is ErrorCode.NONE


def test_version_0_makes_no_further_group_either() -> None:
    """It has no coordinator: the groups of all slots are counted."""
    world, node = led(bounds=SlotBounds(groups_max=1))

    def legacy(group: str) -> WriteOutcome:
        node.loop.post(WriteLegacyOffsets(len(node.effects), group, {P0: 5}))
        world.run()
        return node.emitted(LegacyOffsetsWritten)[-1].outcomes[P0]

    assert legacy("one") is STORED
    assert legacy("made-up") is FULL
    assert legacy("one") is STORED


def test_a_group_whose_first_commit_is_refused_takes_no_place() -> None:
    """Another one gets it; a group that a client has joined meanwhile stays."""
    coordinator = Coordinator(replace(SETTINGS, slot_max_groups=1), stores=False)
    for group in ("made-up", "another"):
        coordinator.send_commit(group=group)
        coordinator.complete(FULL)
        assert coordinator.list().groups == ()
    coordinator.send_commit(group="joined")
    coordinator.send_join(group="joined")
    coordinator.complete(FULL)
    assert [one.group for one in coordinator.list().groups] == ["joined"]
