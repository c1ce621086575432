"""Offsets that expire or are deleted (recipes 23), and the lease of the coordinator (recipes 9)."""

from __future__ import annotations

import pytest

from tests.worlds.stepped_stores import GROUP, P0, SteppedStores, StoreNode, led, record
from zkgroup.broker.groups.store_events import (
    ExpireOffsets,
    MembersRead,
    OffsetsDeleted,
    OffsetsExpired,
    OffsetsRecorded,
    ReadMembers,
    RetentionChecked,
    SlotResigned,
    TopicsDeleted,
)
from zkgroup.coordinator.effects import DeleteOffsets
from zkgroup.coordinator.events import LeaseExtended, WriteOutcome
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode
from zkgroup.model.requests import Exists, ListMany, Multi
from zkgroup.runtime.procedures import lease_ms
from zkgroup.testing.memory_zookeeper import Fault
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import ids_path, offset_path
from zkgroup.znodes.coordinated_groups import OffsetAndMetadata, SlotOwner

P1 = TopicPartition("t", 1)
STORED = WriteOutcome.STORED
INTERVAL_MS = 10_000


def recorded() -> tuple[SteppedStores, StoreNode]:
    """A group with two offsets, that the retention has read."""
    world, node = led(offsets_retention_check_interval_ms=INTERVAL_MS)
    wall_ms = world.clock.wall_ms()
    world.commit(node, {P0: 5, P1: 6}, is_member=False, commit_timestamp_ms=wall_ms - 500)
    world.run()
    world.advance(INTERVAL_MS)
    return world, node


def post_expiry(node: StoreNode, *partitions: TopicPartition) -> None:
    """Expires offsets as the retention has read them."""
    found = node.emitted(OffsetsRecorded)[-1]
    node.loop.post(ExpireOffsets(GROUP, {each: found.recorded[each] for each in partitions}))


def expire(world: SteppedStores, node: StoreNode, *partitions: TopicPartition) -> OffsetsExpired:
    post_expiry(node, *partitions)
    world.run()
    world.advance(1000)
    return node.emitted(OffsetsExpired)[-1]


def test_offsets_are_read_at_intervals_with_times_of_the_machines_clock() -> None:
    """So they can be compared with the times of groups."""
    world, node = recorded()
    (found,) = node.emitted(OffsetsRecorded)

    assert found.group_id == GROUP
    assert not found.has_others
    assert found.offsets[P0].offset == 5
    assert found.offsets[P0].commit_timestamp_ms <= world.clock.now_ms() - INTERVAL_MS - 500
    world.advance(INTERVAL_MS)
    assert len(node.emitted(OffsetsRecorded)) == 2


def test_an_offset_that_has_expired_is_deleted_with_its_metadata() -> None:
    """The result says whether the group has offsets left."""
    world, node = recorded()

    assert expire(world, node, P0) == OffsetsExpired(
        group_id=GROUP, partitions=frozenset({P0}), has_offsets=True
    )
    assert world.offset(P0) is None
    assert world.server.find(OffsetAndMetadata.path(0, GROUP, P0)) is None
    assert world.offset(P1) == b"6"
    assert not expire(world, node, P1).has_offsets


def test_an_offset_of_a_zookeeper_consumer_does_not_expire() -> None:
    """The coordinator did not write it last: it is not among those that may expire."""
    world, node = recorded()
    world.server.put(offset_path(GROUP, P0), b"9")
    world.advance(INTERVAL_MS)
    found = node.emitted(OffsetsRecorded)[-1]

    assert set(found.offsets) == {P1}
    assert found.has_others


@pytest.mark.parametrize("value", [b"9", b"5"])
def test_an_offset_that_was_written_since_it_was_read_stays(value: bytes) -> None:
    """Also where a ZooKeeper consumer wrote the same number."""
    world, node = recorded()
    world.server.put(offset_path(GROUP, P0), value)
    world.server.catch_up("n1")

    assert expire(world, node, P0).partitions == frozenset()
    assert world.offset() == value


def test_an_offset_that_is_written_between_read_and_delete_stays() -> None:
    """The delete has the version that was read."""
    world, node = recorded()
    post_expiry(node, P0)
    world.until_asks(node, Multi, offset_path(GROUP, P0))
    world.server.put(offset_path(GROUP, P0), b"9")
    world.run()
    world.advance(1000)

    assert node.emitted(OffsetsExpired)[-1].partitions == frozenset()
    assert world.offset() == b"9"


def test_an_offset_that_was_created_again_stays() -> None:
    """Its version is that of the former znode (`delete-unguarded`)."""
    world, node = recorded()
    world.server.remove(offset_path(GROUP, P0))
    world.server.put(offset_path(GROUP, P0), b"5")
    world.server.catch_up("n1")

    assert expire(world, node, P0).partitions == frozenset()
    assert world.offset() == b"5"


def test_no_offset_expires_while_zookeeper_consumers_are_members() -> None:
    """The guard of `ids` is in the transaction (`delete-unguarded`)."""
    world, node = recorded()
    world.zookeeper_member()

    assert expire(world, node, P0).partitions == frozenset()
    assert world.offset() == b"5"
    assert world.server.find(f"{ids_path(GROUP)}/c1") is not None


def test_a_deposed_coordinator_expires_nothing() -> None:
    """The slot's check is in the transaction."""
    world, node = recorded()
    post_expiry(node, P0)
    world.until_asks(node, Multi, offset_path(GROUP, P0))
    world.elect(2)
    world.server.put(SlotOwner.path(0), SlotOwner(2, 9).encode())
    world.run()

    assert node.emitted(OffsetsExpired)[-1].partitions == frozenset()
    assert world.offset() == b"5"


def test_the_offsets_of_zookeeper_consumers_are_not_the_coordinators() -> None:
    """A group without a header is none of the retention's."""
    world, node = led(offsets_retention_check_interval_ms=INTERVAL_MS)
    world.server.put(offset_path("old", P0), b"4")
    world.advance(INTERVAL_MS)

    assert node.emitted(OffsetsRecorded) == []


@pytest.mark.parametrize("is_late", [False, True], ids=["before the list", "after the list"])
@pytest.mark.parametrize("is_topic_new", [False, True])
def test_an_offset_that_is_written_before_a_group_that_is_over_is_deleted_stays(
    is_late: bool, is_topic_new: bool
) -> None:
    """Whoever wrote it, also a ZooKeeper consumer that is gone again; the slot is not loaded again."""
    world, node = recorded()
    expire(world, node, P0, P1)
    late = TopicPartition("new", 0) if is_topic_new else P0

    deleted = world.delete(node, keeps_offsets=True)
    if is_late:
        world.until_asks(node, Multi)
    world.server.put(offset_path(GROUP, late), b"9")
    world.run()
    world.advance(1000)

    assert node.outcome(deleted) is WriteOutcome.HAS_OFFSETS
    assert world.offset(late) == b"9"
    assert node.notes("slot.lost") == []


def test_a_group_that_is_over_is_deleted() -> None:
    """Without offsets nothing of it stays."""
    world, node = recorded()
    expire(world, node, P0, P1)

    deleted = world.delete(node, keeps_offsets=True)
    world.run()

    assert node.outcome(deleted) is STORED
    assert not [path for path in world.server.tree() if GROUP in path]


def test_the_check_of_a_slot_ends_with_the_groups_that_the_store_knows() -> None:
    """What else the coordinator has was never stored."""
    _, node = recorded()

    assert node.emitted(RetentionChecked) == [RetentionChecked(0, frozenset({GROUP}))]


def test_a_group_whose_clients_were_refused_is_read_too() -> None:
    """So it is removed once the ZooKeeper consumers have left no offset."""
    world, node = led(offsets_retention_check_interval_ms=INTERVAL_MS)
    world.zookeeper_member()
    claimed = world.claim(node)
    world.run()
    assert node.outcome(claimed) is WriteOutcome.ZOOKEEPER_MEMBERS
    world.advance(INTERVAL_MS)

    assert node.emitted(OffsetsRecorded) == [
        OffsetsRecorded(group_id=GROUP, offsets={}, recorded={}, has_others=False)
    ]


MARKER = TopicDeletion.path("t")


def drop(world: SteppedStores, node: StoreNode) -> frozenset[TopicPartition]:
    """What is found of deleted topics is deleted, as the coordinator does it; returns what was found."""
    found = node.emitted(OffsetsRecorded)[-1]
    assert found.of_deleted_topics, found
    assert expire(world, node, *found.of_deleted_topics).partitions == found.of_deleted_topics
    return found.of_deleted_topics


@pytest.mark.parametrize("topic_is", ["being deleted", "gone", "there again"])
def test_the_offsets_of_a_deleted_topic_are_deleted_as_soon_as_it_is(topic_is: str) -> None:
    """But not those of other topics, of ZooKeeper consumers, and of a new topic of that name."""
    of_zookeeper, other = TopicPartition("t", 2), TopicPartition("u", 0)
    world, node = led()
    world.server.put(Topic.path("u"), b"")
    world.commit(node, {P0: 5, P1: 6, other: 7}, is_member=False)
    world.run()
    world.server.put(offset_path(GROUP, of_zookeeper), b"9")
    if topic_is == "being deleted":
        world.server.put(MARKER, b"")
    else:
        world.server.remove(Topic.path("t"))
    if topic_is == "there again":
        world.server.put(Topic.path("t"), b"")
        world.commit(node, {P1: 6}, is_member=False)
        world.run()

    node.loop.post(TopicsDeleted(frozenset({"t"})))
    world.run()

    deleted = {P0} if topic_is == "there again" else {P0, P1}
    assert drop(world, node) == deleted
    left = {each for each in (P0, P1, of_zookeeper, other) if world.offset(each) is not None}
    assert left == {P0, P1, of_zookeeper, other} - deleted


@pytest.mark.parametrize(
    "loads", ["before the deletion ends", "with a lost watch", "without an answer", "after it", "even later"]
)
def test_a_slot_that_is_loaded_after_the_notice_keeps_no_offset_of_the_topic(loads: str) -> None:
    """The former coordinator has stopped before it deleted them; nothing was reported to this one."""
    world, node = led()
    world.commit(node, {P0: 5, P1: 6}, is_member=False)
    world.run()
    world.server.put(MARKER, b"")
    successor = world.node(2)
    is_early = loads not in ("after it", "even later")
    if is_early:
        world.move(successor)
        if loads == "without an answer":
            world.until_asks(successor, Exists, MARKER)
            world.lose(successor, "lost_request")
        world.run()
        world.advance(2000)
        assert successor.emitted(OffsetsRecorded) == []  # a controller may refuse to delete the topic
    if loads == "with a lost watch":
        world.server.cut("n2")
    world.server.remove(Topic.path("t"))
    world.server.remove(MARKER)
    if loads == "even later":
        world.server.put(Topic.path("t"), b"")
    if not is_early:
        world.move(successor)
    world.run()
    world.advance(2000)

    assert drop(world, successor) == {P0, P1}
    assert (world.offset(P0), world.offset(P1)) == (None, None)


def test_offsets_stay_where_the_request_to_delete_their_topic_is_dropped() -> None:
    """A controller drops it where deletion is disabled."""
    world, node = led()
    world.commit(node, {P0: 5}, is_member=False)
    world.run()
    world.server.put(MARKER, b"")
    successor = world.node(2)
    world.move(successor)
    world.run()
    world.server.remove(MARKER)
    world.run()
    world.advance(2000)

    assert successor.emitted(OffsetsRecorded) == []


def test_a_commit_that_is_stored_after_the_notice_goes_with_the_topic() -> None:
    """It was accepted before the notice, and waited for a change of its group."""
    world, node = led()
    world.commit(node, {P0: 5}, is_member=False)
    world.run()
    world.server.put(MARKER, b"")
    node.loop.post(TopicsDeleted(frozenset({"t"})))
    world.run()
    assert drop(world, node) == {P0}
    world.commit(node, {P1: 6}, is_member=False)
    world.run()

    world.server.remove(Topic.path("t"))
    world.server.remove(MARKER)
    world.run()

    assert drop(world, node) == {P1}
    assert (world.offset(P0), world.offset(P1)) == (None, None)


def test_offsets_of_a_topic_that_no_controller_deletes_go_at_the_next_check() -> None:
    """Nothing reports its deletion."""
    world, node = recorded()
    world.server.remove(Topic.path("t"))
    world.advance(INTERVAL_MS)

    assert drop(world, node) == {P0, P1}


def test_no_client_gets_the_offset_of_a_former_topic() -> None:
    """Also before it is deleted. An offset of a ZooKeeper consumer is served, as Kafka 0.8 does."""
    of_zookeeper, new = TopicPartition("t", 2), TopicPartition("t", 3)
    world, node = led()
    world.commit(node, {P0: 5}, is_member=False)
    world.run()
    world.server.put(offset_path(GROUP, of_zookeeper), b"9")
    assert set(world.fetch(node, None).offsets) == {P0, of_zookeeper}
    world.server.remove(Topic.path("t"))
    world.server.put(Topic.path("t"), b"")
    world.commit(node, {new: 1}, is_member=False)
    world.run()

    assert world.offset(P0) is not None
    assert set(world.fetch(node, None).offsets) == {of_zookeeper, new}


def test_topics_that_are_deleted_during_a_check_are_read_after_it() -> None:
    """Also where an answer is lost meanwhile."""
    world, node = led()
    u0 = TopicPartition("u", 0)
    world.server.put(Topic.path("u"), b"")
    world.commit(node, {P0: 5, u0: 6}, is_member=False)
    world.run()
    world.server.remove(Topic.path("t"))
    world.server.remove(Topic.path("u"))
    node.loop.post(TopicsDeleted(frozenset({"t"})))
    world.until_asks(node, ListMany)
    world.lose(node, "lost_reply")
    node.loop.post(TopicsDeleted(frozenset({"u"})))
    world.run()
    world.advance(2000)

    assert [set(each.offsets) for each in node.emitted(OffsetsRecorded)] == [{P0}, {u0}]


def delete(
    world: SteppedStores, node: StoreNode, *partitions: TopicPartition
) -> dict[TopicPartition, WriteOutcome]:
    node.loop.post(DeleteOffsets(request_id=7000, group_id=GROUP, partitions=partitions, subscribed=()))
    world.run()
    world.advance(2000)
    found = node.emitted(OffsetsDeleted)[-1]
    assert found.request_id == 7000
    return dict(found.outcomes)


@pytest.mark.parametrize("fault", [None, "lost_reply", "lost_request"])
def test_offsets_are_deleted_by_request(fault: Fault | None) -> None:
    """One that does not exist counts as deleted; a missing answer makes it begin again."""
    world, node = recorded()
    if fault is not None:
        node.loop.post(DeleteOffsets(request_id=7000, group_id=GROUP, partitions=(P0, P1), subscribed=()))
        world.until_asks(node, Multi, offset_path(GROUP, P0))
        world.lose(node, fault)
        world.run()
        world.advance(2000)
        assert node.emitted(OffsetsDeleted) == [OffsetsDeleted(7000, {P0: STORED, P1: STORED})]
    else:
        missing = TopicPartition("none", 0)
        assert delete(world, node, P0, P1, missing) == {P0: STORED, P1: STORED, missing: STORED}
    assert world.offset(P0) is None
    committed = world.commit(node, {P0: 1})
    world.run()
    assert node.commit_outcomes(committed) == {P0: STORED}


def test_offsets_are_not_deleted_while_zookeeper_consumers_are_members() -> None:
    """OffsetDelete has the guard of `ids` too."""
    world, node = recorded()
    world.zookeeper_member()

    assert delete(world, node, P0) == {P0: WriteOutcome.ZOOKEEPER_MEMBERS}
    assert world.offset() == b"5"


def test_offsets_of_another_brokers_slot_are_not_deleted() -> None:
    """Nothing is sent."""
    world = SteppedStores()
    node = world.node()
    world.run()

    assert delete(world, node, P0) == {P0: WriteOutcome.NOT_OWNER}


def test_the_members_of_a_group_are_read() -> None:
    """ZooKeeper's; none where there is no group."""
    world, node = led()
    world.zookeeper_member()
    node.loop.post(ReadMembers(1, GROUP))
    node.loop.post(ReadMembers(2, "other"))
    world.run()

    assert node.emitted(MembersRead) == [
        MembersRead(1, ErrorCode.NONE, ("c1",)),
        MembersRead(2, ErrorCode.NONE, ()),
    ]


def test_the_members_of_another_brokers_group_are_not_read() -> None:
    """Also where the slot is given up meanwhile."""
    world, node = led()
    node.loop.post(ReadMembers(1, GROUP))
    node.loop.post(SlotResigned(0, 9))
    node.loop.post(ReadMembers(2, GROUP))
    world.run()

    refused = ErrorCode.NOT_COORDINATOR
    assert node.emitted(MembersRead) == [MembersRead(1, refused), MembersRead(2, refused)]


def test_an_acknowledged_write_extends_the_lease_from_the_time_when_it_was_sent() -> None:
    """Not from the time of the answer (recipes 9)."""
    world, node = led()
    timeout_ms = node.client.session_timeout_ms
    (first,) = node.emitted(LeaseExtended)
    assert first.until_ms <= world.clock.now_ms() + lease_ms(timeout_ms, 2 / 3, 2000)

    sent_ms = world.clock.now_ms() + timeout_ms // 10
    world.clock.advance(timeout_ms // 10)
    world.claim(node)
    world.run(lambda: any(step.kind == "reply" for step in world.server.pending()) and world.has_marker())
    world.clock.advance(50)
    world.run()

    assert node.emitted(LeaseExtended)[-1].until_ms == sent_ms + lease_ms(timeout_ms, 2 / 3, 2000)


def test_a_heartbeat_extends_the_lease_of_a_broker_without_other_writes() -> None:
    """A transaction of the checks of all slots; reads and pings extend nothing."""
    world, node = led()
    timeout_ms = node.client.session_timeout_ms
    for _ in range(12):
        world.advance(timeout_ms // 4)
        assert node.emitted(LeaseExtended)[-1].until_ms > world.clock.now_ms()


def test_writes_make_heartbeats_unnecessary() -> None:
    """No packet more than the commits themselves."""
    world, node = led()
    world.commit(node)
    world.run()
    timeout_ms = node.client.session_timeout_ms
    sent: list[object] = []
    submit = node.client.submit

    def counted(request: object, **options: object) -> None:
        sent.append(request)
        submit(request, **options)  # type: ignore[arg-type]

    node.client.submit = counted  # type: ignore[method-assign]
    for number in range(20):
        world.commit(node, {P0: number})
        world.advance(timeout_ms // 10)

    assert len(sent) == 20


def test_a_broker_that_leads_no_slot_sends_no_heartbeats() -> None:
    """It has no lease to extend."""
    world = SteppedStores()
    node = world.node()
    world.run()
    sent: list[object] = []
    node.client.submit = lambda request, **options: sent.append(request)  # type: ignore[method-assign]
    world.advance(10 * node.client.session_timeout_ms)

    assert sent == []


def test_the_lease_is_not_extended_without_a_connection() -> None:
    """It runs out, before the session can end on the server."""
    world, node = led()
    world.server.cut("n1", hold=True)
    world.run()
    until_ms = node.emitted(LeaseExtended)[-1].until_ms
    world.advance(2 * node.client.session_timeout_ms)

    assert node.emitted(LeaseExtended)[-1].until_ms == until_ms
    assert until_ms < world.clock.now_ms()


def test_a_heartbeat_that_is_refused_gives_the_slot_up_and_keeps_the_others() -> None:
    """Where the watch has not fired: the check says it."""
    world = SteppedStores(slots=3)
    node = world.node()
    for slot in range(3):
        world.lead(node, slot)
    world.run()
    world.clock.advance(node.client.session_timeout_ms // 4)
    node.loop.run_pending()
    world.elect(2, slot=1)
    world.server.put(SlotOwner.path(1), SlotOwner(2, 9).encode())
    world.run()
    world.advance(1000)

    assert world.owner(1) == SlotOwner(2, 9)
    assert world.owner(0).broker == world.owner(2).broker == 1
    assert node.emitted(LeaseExtended)[-1].until_ms > world.clock.now_ms()


def test_times_of_groups_are_stored_as_wall_time() -> None:
    """The machine's clock is another on another broker."""
    world, node = led()
    world.claim(node)
    since_ms = world.clock.now_ms() - 300
    world.store(node, record(timestamp_ms=since_ms))
    world.run()
    assert world.header().state_timestamp_ms == world.clock.wall_ms() - 300

    second = world.node(2)
    world.move(second)
    world.run()
    assert second.loaded[GROUP].state_timestamp_ms == since_ms
