"""Groups of more than a transaction, and the deletion of groups (recipes 20 to 22)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.worlds.stepped_stores import GROUP, P0, SteppedStores, StoreNode, led, member, record
from zkgroup.broker.groups.store_events import OffsetsDeleted
from zkgroup.coordinator.effects import DeleteOffsets
from zkgroup.coordinator.events import WriteOutcome
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Check, Create, Delete, Multi
from zkgroup.testing.memory_zookeeper import Fault
from zkgroup.znodes.consumers import (
    group_path,
    ids_path,
    offsets_path,
    offsets_topic_path,
    owner_path,
    owners_topic_path,
)
from zkgroup.znodes.coordinated_groups import CHUNK_BYTES, GroupChunk, SlotOwner
from zkgroup.znodes.group_history import GroupHistory, RebalanceRecord
from zkgroup.znodes.group_records import Reset, StoredAssignment, View

STORED, NOT_OWNER = WriteOutcome.STORED, WriteOutcome.NOT_OWNER


def test_a_group_of_three_megabytes_has_chunks_that_fit() -> None:
    """Chunks are written before the header names them; each transaction is below 1 MiB."""
    world, node = led()
    world.claim(node)
    stored = record(members=[member(f"m{number}", b"a" * 200_000) for number in range(12)])
    sent = world.store(node, stored)
    world.run()

    assert node.outcome(sent) is STORED
    assert len(world.chunks()) == world.header().chunks >= 6
    assert all(
        len(world.find(GroupChunk.path(0, GROUP, 1, number)).data or b"") <= CHUNK_BYTES
        for number in range(world.header().chunks)
    )
    second = world.node(2)
    world.move(second)
    world.run()
    assert second.loaded[GROUP] == stored


@pytest.mark.parametrize("step", range(8))
def test_a_large_group_is_never_seen_half_written(step: int) -> None:
    """Moved after any of its requests, it is loaded as it was or as it will be."""
    world, node = led()
    world.claim(node)
    former = record(members=[member("m", b"a" * 900_000)])
    following = record(generation=2, members=[member("m", b"b" * 900_000)])
    world.store(node, former)
    world.run()
    world.store(node, following)
    node.loop.run_pending()
    for _ in range(step):
        if world.server.pending():
            world.deliver(world.server.pending()[0])
    second = world.node(2)
    world.move(second)
    world.run()

    assert second.loaded[GROUP] in (former, following)
    assert len(world.chunks()) == world.header().chunks


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("fault", ["lost_reply", "lost_request"])
def test_a_large_group_with_a_lost_answer_is_stored_with_other_chunks(number: int, fault: Fault) -> None:
    """A chunk without an answer, or the header: the write is made again, and nothing of it is left over."""
    world, node = led()
    world.claim(node)
    world.run()
    stored = record(members=[member("m", b"a" * 900_000)])
    sent = world.store(node, stored)
    for _ in range(number):
        world.until_asks(node, Multi)
        world.deliver(world.server.pending()[0])
    if node.outcome(sent) is None:
        world.run(lambda: node.client.requests)
        world.lose(node, fault)
    world.run()
    world.advance(2000)

    assert node.outcome(sent) is STORED
    assert len(world.chunks()) == world.header().chunks
    second = world.node(2)
    world.move(second)
    world.run()
    assert second.loaded[GROUP] == stored


def test_a_large_group_becomes_small_again() -> None:
    """All former chunks go with the header that names other ones."""
    world, node = led()
    world.claim(node)
    world.store(node, record(members=[member(f"m{number}", b"a" * 200_000) for number in range(12)]))
    stored = world.store(node, record(generation=2))
    world.run()

    assert node.outcome(stored) is STORED
    assert world.chunks() == ["rec-2-0"]


def test_what_zookeeper_does_not_accept_is_too_large() -> None:
    """A group whose header alone is above 1 MiB: nothing is stored, and the slot stays."""
    world, node = led()
    world.stable(node)
    stored = world.store(node, record(generation=2, members=[member("m" * 600_000)]))
    world.run()

    assert node.outcome(stored) is WriteOutcome.TOO_LARGE
    assert world.header().generation == 1
    again = world.store(node, record(generation=2))
    world.run()
    assert node.outcome(again) is STORED


def test_offsets_with_the_longest_names_are_deleted() -> None:
    """Of a group of 255 bytes and a topic of 255: no transaction exceeds what ZooKeeper accepts."""
    group, partitions = "g" * 255, [TopicPartition("t" * 255, number) for number in range(1_000)]
    world, node = led()
    committed = world.commit(node, dict.fromkeys(partitions, 1), group)
    world.run()
    outcomes = node.commit_outcomes(committed)
    assert outcomes is not None
    assert set(outcomes.values()) == {STORED}
    node.loop.post(
        DeleteOffsets(request_id=7000, group_id=group, partitions=tuple(partitions), subscribed=())
    )
    world.run()

    (deleted,) = node.emitted(OffsetsDeleted)
    assert deleted.outcomes == dict.fromkeys(partitions, STORED)


LEFT_BY_MEMBERS = (
    owners_topic_path(GROUP, "t"),
    Reset.path(GROUP, P0),
    View.path(GROUP, "m"),
    StoredAssignment.path(GROUP),
    GroupHistory.path(GROUP),
    RebalanceRecord.path(0, GROUP, 1),
)
"""What zkgroup's members and operators leave below the znode of a group."""


@pytest.mark.parametrize("left", [(), LEFT_BY_MEMBERS[:1], LEFT_BY_MEMBERS], ids=["none", "owners", "all"])
def test_a_group_is_deleted_with_its_offsets(left: Sequence[str]) -> None:
    """Header, chunks, metadata, offsets, marker, and what is below /consumers: no tool lists the group."""
    world, node = led()
    world.stable(node)
    world.commit(node)
    world.store(node, record(generation=2, members=()))
    for path in left:
        world.server.put(path)
    deleted = world.delete(node)
    world.run()

    assert node.outcome(deleted) is STORED
    assert [path for path in world.server.tree() if GROUP in path] == []


@pytest.mark.parametrize("path", [owner_path(GROUP, P0), f"{group_path(GROUP)}/notes"])
def test_a_deleted_group_keeps_what_is_not_its_own(path: str) -> None:
    """An owner's znode, or a znode that nobody knows; the offsets are gone."""
    world, node = led()
    world.commit(node)
    world.run()
    world.server.put(path)
    deleted = world.delete(node)
    world.run()

    assert node.outcome(deleted) is STORED
    assert world.server.find(path) is not None
    assert world.offset() is None


def test_a_zookeeper_consumer_that_registers_while_its_group_is_deleted_keeps_the_offsets() -> None:
    """The last transaction deletes `ids`, which is refused while there is a member."""
    world, node = led()
    world.commit(node)
    world.run()
    world.server.put(ids_path(GROUP))
    deleted = world.delete(node)
    world.until_asks(node, Multi, f"Delete(path='{ids_path(GROUP)}'")
    world.zookeeper_member()
    world.run()

    assert node.outcome(deleted) is WriteOutcome.ZOOKEEPER_MEMBERS
    assert world.offset() == b"1"


LONG = "g" * 255
TOPICS = [f"{number:04}".ljust(249, "t") for number in range(2_200)]


def empty_with_long_names() -> tuple[SteppedStores, StoreNode]:
    """An empty group whose offsets once were of 2,200 topics; their paths have 1.1 MiB, and two are left."""
    world, node = led()
    world.commit(node, dict.fromkeys([TopicPartition(TOPICS[0], 0), TopicPartition(TOPICS[1], 0)], 1), LONG)
    world.run()
    for topic in TOPICS:
        world.server.put(offsets_topic_path(LONG, topic))
    return world, node


def test_a_group_with_many_long_names_of_topics_is_deleted_in_parts() -> None:
    """Each transaction is below 1 MiB, and has the check of the slot and the guard of `ids`."""
    world, node = empty_with_long_names()
    before = len(world.server.log)
    deleted = world.delete(node, LONG)
    world.run()

    assert node.outcome(deleted) is STORED
    assert [path for path in world.server.tree() if LONG in path] == []
    sent = [transaction.operations for transaction in world.server.log[before:]]
    deletions = [each for each in sent if any(isinstance(operation, Delete) for operation in each)]
    assert len(deletions) >= 3
    for operations in deletions:
        assert operations[0] == Check(SlotOwner.path(0), 1)
        assert Delete(ids_path(LONG), -1) in operations[1:] or Create(ids_path(LONG), None) in operations


@pytest.mark.parametrize("done", [1, 2])
def test_a_deletion_that_ends_between_its_parts_can_be_repeated(done: int) -> None:
    """The next coordinator has an empty group, which ZooKeeper consumers can join, without what is gone."""
    world, node = empty_with_long_names()
    world.delete(node, LONG)
    for _ in range(done):
        world.until_asks(node, Multi)
        world.deliver(world.server.pending()[0])
    world.server.expire("n1")
    second = world.node(2)
    world.move(second)
    world.run()

    assert len([path for path in world.server.tree() if path.startswith(offsets_path(LONG))]) > 1
    assert second.loaded[LONG].members == ()
    assert not world.has_marker(LONG)
    deleted = world.delete(second, LONG)
    world.run()
    assert second.outcome(deleted) is STORED
    assert [path for path in world.server.tree() if LONG in path] == []


def test_a_zookeeper_consumer_that_registers_between_the_parts_of_a_deletion_keeps_the_group() -> None:
    """It can claim and commit: what it needs is there, or is made by it."""
    world, node = empty_with_long_names()
    deleted = world.delete(node, LONG)
    world.until_asks(node, Multi)
    world.deliver(world.server.pending()[0])
    world.zookeeper_member(LONG)
    world.run()

    assert node.outcome(deleted) is WriteOutcome.ZOOKEEPER_MEMBERS
    assert world.server.find(f"{ids_path(LONG)}/c1") is not None


def empty_beside_a_consumer() -> tuple[SteppedStores, StoreNode]:
    """An empty group with an offset, which a ZooKeeper consumer has joined."""
    world, node = led()
    world.stable(node)
    world.commit(node)
    world.store(node, record(generation=2, members=()))
    world.run()
    world.zookeeper_member()
    return world, node


def test_a_group_with_zookeeper_consumers_is_not_deleted() -> None:
    """The guard of `ids` is in the transaction; no offset is lost."""
    world, node = empty_beside_a_consumer()
    deleted = world.delete(node)
    world.run()

    assert node.outcome(deleted) is WriteOutcome.ZOOKEEPER_MEMBERS
    assert world.offset() == b"1"


def test_offsets_of_a_group_with_zookeeper_consumers_are_not_deleted() -> None:
    """The guard of `ids` is in that transaction, too."""
    world, node = empty_beside_a_consumer()
    node.loop.post(DeleteOffsets(request_id=7000, group_id=GROUP, partitions=(P0,), subscribed=()))
    world.run()

    (deleted,) = node.emitted(OffsetsDeleted)
    assert deleted.outcomes == {P0: WriteOutcome.ZOOKEEPER_MEMBERS}
    assert world.offset() == b"1"


def test_a_deleted_group_can_be_claimed_anew() -> None:
    """Nothing of the former group is expected to be there."""
    world, node = led()
    world.stable(node)
    world.store(node, record(generation=2, members=()))
    deleted = world.delete(node)
    claimed = world.claim(node)
    stored = world.store(node, record())
    world.run()

    assert [node.outcome(each) for each in (deleted, claimed, stored)] == [STORED] * 3
    assert world.chunks() == ["rec-1-0"]
