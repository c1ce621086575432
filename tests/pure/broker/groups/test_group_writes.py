"""Changes of groups: outcomes, order, answers that are lost (recipes 20 to 22)."""

from __future__ import annotations

import pytest

from tests.worlds.stepped_stores import GROUP, P0, SteppedStores, StoreNode, led, member, record
from zkgroup.broker.groups.store_events import SlotResigned, ZooKeeperMembersNoticed
from zkgroup.coordinator.events import GroupWritten, MarkerLost, OffsetsWritten, WriteOutcome
from zkgroup.model.requests import Multi
from zkgroup.testing.memory_zookeeper import Fault
from zkgroup.znodes.consumers import group_path, ids_path
from zkgroup.znodes.coordinated_groups import GroupHeader, ProtocolMarker, SlotOwner

STORED, NOT_OWNER = WriteOutcome.STORED, WriteOutcome.NOT_OWNER


def set_by_another(world: SteppedStores) -> None:
    world.server.put(SlotOwner.path(0), SlotOwner(2, 9).encode())


def test_a_claim_sets_the_marker_and_reserves_generations() -> None:
    """One transaction, also for a group of which nothing exists (recipes 22)."""
    world, node = led()
    claimed = world.claim(node, reserved=100)
    world.run()

    assert node.outcome(claimed) is STORED
    assert world.has_marker()
    assert (world.header().generation, world.header().reserved_generation) == (0, 100)


def test_an_assignment_is_stored_in_one_transaction() -> None:
    """Chunk, header and the removal of the former chunk together: a generation costs one write."""
    world, node = led()
    world.stable(node)
    before = len(world.server.log)
    stored = world.store(node, record(generation=2))
    world.run()

    assert node.outcome(stored) is STORED
    assert len(world.server.log) == before + 1
    assert world.chunks() == ["rec-2-0"]


def test_a_second_write_of_a_generation_has_other_chunks() -> None:
    """A static member was replaced: the numbers go on."""
    world, node = led()
    world.stable(node)
    world.store(node, record(members=[member("m2")]))
    world.run()

    assert world.chunks() == ["rec-1-1"]
    assert world.header().first_chunk == 1


def test_the_empty_group_loses_marker_and_chunks() -> None:
    """In the transaction of the header (`marker-stays-when-empty`)."""
    world, node = led()
    world.stable(node)
    emptied = world.store(node, record(generation=2, members=()))
    world.run()

    assert node.outcome(emptied) is STORED
    assert not world.has_marker()
    assert world.chunks() == []
    assert world.header().chunks == 0


def test_an_empty_group_whose_marker_somebody_has_taken_off_is_stored() -> None:
    """The delete of the marker is left out, and the write is sent again."""
    world, node = led()
    world.stable(node)
    world.server.remove(ProtocolMarker.path(GROUP))
    emptied = world.store(node, record(generation=2, members=()))
    world.run()

    assert node.outcome(emptied) is STORED


def test_the_next_claim_sets_the_marker_again() -> None:
    """A group that was empty goes on with its generation."""
    world, node = led()
    world.stable(node)
    world.store(node, record(generation=2, members=()))
    claimed = world.claim(node, reserved=200)
    world.run()

    assert node.outcome(claimed) is STORED
    assert world.has_marker()
    assert (world.header().generation, world.header().reserved_generation) == (2, 200)


def test_a_reservation_keeps_the_members() -> None:
    """A later block changes one number of the header; its chunks stay."""
    world, node = led()
    world.stable(node)
    reserved = world.claim(node, reserved=300, marks=False)
    world.run()

    assert node.outcome(reserved) is STORED
    assert world.header().reserved_generation == 300
    second = world.node(2)
    world.move(second)
    world.run()
    assert second.loaded[GROUP].members == (member(),)


def test_a_claim_is_refused_while_zookeeper_consumers_are_members() -> None:
    """And says who they are (`marker-unguarded`)."""
    world, node = led()
    world.zookeeper_member()
    claimed = world.claim(node)
    world.run()

    assert node.outcome(claimed) is WriteOutcome.ZOOKEEPER_MEMBERS
    assert node.emitted(ZooKeeperMembersNoticed) == [ZooKeeperMembersNoticed(GROUP, ("c1",))]
    assert not world.has_marker()


@pytest.mark.parametrize("is_known", [True, False], ids=["deleted", "deleted before the load"])
def test_a_marker_that_another_program_has_deleted_comes_back_with_the_next_generation(
    is_known: bool,
) -> None:
    """Without it ZooKeeper consumers would become members beside the clients."""
    world, node = led()
    world.stable(node)
    world.server.remove(ProtocolMarker.path(GROUP))
    if not is_known:
        node = world.node(2)
        world.move(node)
        world.run()
    stored = world.store(node, record(generation=2))
    world.run()

    assert node.outcome(stored) is STORED
    assert world.has_marker()
    assert len(node.notes("group.unmarked")) == 1
    emptied = world.store(node, record(generation=3, members=[]))
    world.run()
    assert node.outcome(emptied) is STORED
    assert not world.has_marker()


def test_no_generation_is_stored_beside_zookeeper_consumers_without_the_marker() -> None:
    """They have registered because another program had deleted it; they are reported."""
    world, node = led()
    world.stable(node)
    world.server.remove(ProtocolMarker.path(GROUP))
    world.zookeeper_member()
    stored = world.store(node, record(generation=2))
    world.run()

    assert node.outcome(stored) is WriteOutcome.ZOOKEEPER_MEMBERS
    assert world.header().generation == 1
    assert ZooKeeperMembersNoticed(GROUP, ("c1",)) in node.effects
    assert node.notes("slot.lost") == []


def unmarked_beside_a_consumer(how: str) -> tuple[SteppedStores, StoreNode]:
    """A group with a member, whose marker is gone, and a ZooKeeper consumer."""
    world, node = led()
    world.stable(node)
    if how == "with the group's znode":
        for path in (f"{group_path(GROUP)}/offsets", ids_path(GROUP), ProtocolMarker.path(GROUP)):
            if world.server.find(path):
                world.server.remove(path)
        world.server.remove(group_path(GROUP))
        world.run()
    else:
        world.server.remove(ProtocolMarker.path(GROUP))
    if how == "before the load":
        world.run()
        node = world.node(2)
        world.move(node)
        world.run()
    world.zookeeper_member()
    world.run()
    return world, node


@pytest.mark.parametrize("how", ["alone", "with the group's znode", "before the load"])
def test_members_give_way_to_consumers_that_register_without_the_marker(how: str) -> None:
    """As soon as one registers: the coordinator learns it, and what it then stores needs no marker."""
    world, node = unmarked_beside_a_consumer(how)

    effects = [each for each in node.effects if isinstance(each, (MarkerLost, ZooKeeperMembersNoticed))]
    assert effects == [MarkerLost(GROUP), ZooKeeperMembersNoticed(GROUP, ("c1",))]
    assert len(node.notes("group.unmarked")) == 1
    stored = world.store(node, record(generation=2, members=[]))
    world.run()
    assert node.outcome(stored) is STORED
    world.zookeeper_member(name="c2")
    world.run()
    assert node.emitted(MarkerLost) == [MarkerLost(GROUP)]


def test_members_stay_beside_consumers_that_do_not_know_the_marker() -> None:
    """Those of Kafka 0.8 are reported: as long as the marker is there, nobody has asked the members to go."""
    world, node = led()
    world.stable(node)
    world.zookeeper_member()
    world.run()

    assert node.emitted(ZooKeeperMembersNoticed) == [ZooKeeperMembersNoticed(GROUP, ("c1",))]
    assert node.emitted(MarkerLost) == []


def test_the_marker_that_the_last_member_takes_off_is_not_lost() -> None:
    """A consumer registers right after the write of the empty group, whose reply has not come."""
    world, node = led()
    world.stable(node)
    stored = world.store(node, record(generation=2, members=[]))
    world.until_asks(node, Multi)
    world.deliver(world.server.pending()[0])
    world.zookeeper_member()
    world.run()

    assert node.outcome(stored) is STORED
    assert node.emitted(MarkerLost) == []


def test_clients_that_try_again_do_not_repeat_the_report() -> None:
    """It comes once a minute, and when other members are there."""
    world, node = led()
    world.zookeeper_member()

    def refused() -> list[tuple[str, ...]]:
        world.claim(node)
        world.run()
        return [each.members for each in node.emitted(ZooKeeperMembersNoticed)]

    assert refused() == refused() == [("c1",)]
    world.zookeeper_member(name="c2")
    assert refused() == [("c1",), ("c1", "c2")]
    world.advance(60_000)
    assert refused() == [("c1",), ("c1", "c2"), ("c1", "c2")]


def test_a_claim_after_the_zookeeper_consumers_have_left() -> None:
    """The refusal changed nothing."""
    world, node = led()
    world.zookeeper_member()
    world.claim(node)
    world.run()
    world.server.remove(f"{ids_path(GROUP)}/c1")
    claimed = world.claim(node)
    world.run()

    assert node.outcome(claimed) is STORED


@pytest.mark.parametrize("exists", ["nothing", "group", "ids"])
def test_a_claim_makes_the_parents_that_are_missing(exists: str) -> None:
    """In its own transaction, so that a refusal leaves nothing."""
    world, node = led()
    if exists != "nothing":
        world.server.put(group_path(GROUP) if exists == "group" else ids_path(GROUP))
    claimed = world.claim(node)
    world.run()

    assert node.outcome(claimed) is STORED
    assert world.server.find(ids_path(GROUP)) is not None


def test_a_claim_whose_group_appears_meanwhile_is_tried_again() -> None:
    """A ZooKeeper consumer has registered and left between read and claim."""
    world, node = led()
    claimed = world.claim(node)
    world.until_asks(node, Multi, ProtocolMarker.path(GROUP))
    world.server.put(ids_path(GROUP))
    world.run()

    assert node.outcome(claimed) is STORED


def test_a_claim_that_finds_the_marker_is_a_conflict_and_the_slot_is_loaded_again() -> None:
    """The load takes the marker off, so the next claim is stored."""
    world, node = led()
    world.server.put(ProtocolMarker.path(GROUP), b"x")
    world.claim(node, "other")
    world.run()
    claimed = world.claim(node)
    world.run()

    assert node.outcome(claimed) is WriteOutcome.CONFLICT
    assert node.slot_events[-2:] == ["SlotLoading", "SlotLoaded"]


def test_a_header_that_somebody_has_changed_is_a_conflict() -> None:
    """The slot is loaded again, and the next write has the present version."""
    world, node = led()
    world.stable(node)
    world.server.put(GroupHeader.path(0, GROUP), world.find(GroupHeader.path(0, GROUP)).data)
    stored = world.store(node, record(generation=2))
    world.run()
    again = world.store(node, record(generation=2))
    world.run()

    assert node.outcome(stored) is WriteOutcome.CONFLICT
    assert node.slot_events[-2:] == ["SlotLoading", "SlotLoaded"]
    assert node.outcome(again) is STORED


@pytest.mark.parametrize("kind", ["claim", "store", "empty", "commit", "delete"])
def test_a_deposed_coordinator_writes_nothing(kind: str) -> None:
    """The slot's check refuses every write (`no-slot-check`, `no-slot-check-of-commits`)."""
    world, node = led()
    world.stable(node, "other")
    if kind in ("store", "empty"):
        world.stable(node)
    # Its watch has not fired yet when it sends.
    sent = send(world, node, kind)
    node.loop.run_pending()
    before = world.server.tree()
    world.elect(2)
    set_by_another(world)
    changed = {*before} ^ {*world.server.tree()}
    world.run()

    assert outcome(node, sent) is NOT_OWNER
    assert world.owner() == SlotOwner(2, 9)
    assert not changed
    assert {path: each.data for path, each in world.server.tree().items() if GROUP in path} == {
        path: each.data for path, each in before.items() if GROUP in path
    }
    assert node.slot_events[-1] == "SlotUnloaded"


def send(world: SteppedStores, node: StoreNode, kind: str) -> int:
    match kind:
        case "claim":
            return world.claim(node)
        case "store":
            return world.store(node, record(generation=2))
        case "empty":
            return world.store(node, record(generation=2, members=()))
        case "commit":
            return world.commit(node)
        case _:
            return world.delete(node)


def outcome(node: StoreNode, write_id: int) -> WriteOutcome | None:
    commits = node.commit_outcomes(write_id)
    return node.outcome(write_id) if commits is None else commits[P0]


def test_without_the_slot_nothing_is_sent() -> None:
    """A write for a slot that is not loaded here is refused without ZooKeeper."""
    world = SteppedStores()
    node = world.node()
    world.run()
    claimed, committed = world.claim(node), world.commit(node)
    node.loop.run_pending()

    assert outcome(node, claimed) is outcome(node, committed) is NOT_OWNER
    assert not node.client.requests


def test_changes_of_a_group_are_made_in_order() -> None:
    """Sent at once, each with the version that the one before leaves."""
    world, node = led()
    writes = [world.claim(node), *(world.store(node, record(generation=number)) for number in range(1, 5))]
    world.run()

    assert [each.write_id for each in node.emitted(GroupWritten)] == writes
    assert {node.outcome(each) for each in writes} == {STORED}
    assert world.header().generation == 4


def test_changes_of_many_groups_are_under_way_at_once() -> None:
    """No group waits for the write of another one."""
    world, node = led()
    for number in range(10):
        world.stable(node, f"g{number}")
    for number in range(10):
        world.store(node, record(f"g{number}", generation=2))
    node.loop.run_pending()

    assert len(node.client.requests) == 10


def test_a_change_of_a_group_waits_for_the_commits_before_it() -> None:
    """Else a commit of the group could be stored after its last member has left."""
    world, node = led()
    world.stable(node)
    committed = world.commit(node)
    emptied = world.store(node, record(generation=2, members=()))
    world.run()

    order = [type(each) for each in node.effects if isinstance(each, (GroupWritten, OffsetsWritten))]
    assert order[-2:] == [OffsetsWritten, GroupWritten]
    assert outcome(node, committed) is outcome(node, emptied) is STORED


def results(node: StoreNode) -> list[int]:
    """The write ids of changes and commits, in the order in which they ended."""
    found: list[int] = []
    for each in node.effects:
        if isinstance(each, GroupWritten):
            found.append(each.write_id)
        elif isinstance(each, OffsetsWritten):
            found += each.outcomes
    return found


def test_a_commit_of_no_member_waits_for_the_changes_of_its_group_before_it() -> None:
    """It was accepted because the group has no members, which is not stored yet."""
    world, node = led()
    world.stable(node)
    world.store(node, record(generation=2, members=()))
    world.commit(node, is_member=False)
    world.run()
    claimed = world.claim(node)  # it reads before it writes; the commit would have nothing to read
    committed = world.commit(node, is_member=False)
    world.run()

    assert results(node)[-2:] == [claimed, committed]
    assert outcome(node, claimed) is outcome(node, committed) is STORED


def test_commits_and_changes_of_a_group_never_wait_for_each_other() -> None:
    """Each waits for what came before it alone; what came behind a commit that waits keeps its order."""
    world, node = led()
    world.stable(node)
    queued = [
        world.commit(node),
        world.store(node, record(generation=2, members=())),
        world.commit(node, is_member=False),
        world.commit(node, group="other"),
        world.claim(node),
        world.commit(node, is_member=False),
    ]
    world.run()

    assert results(node)[-len(queued) :] == queued
    assert {outcome(node, each) for each in queued} == {STORED}


@pytest.mark.parametrize("fault", ["lost_reply", "lost_request", "late"])
@pytest.mark.parametrize("kind", ["claim", "store", "empty", "reserve", "delete", "first"])
def test_a_change_without_an_answer_is_read_back(kind: str, fault: Fault) -> None:
    """It is stored once, whether it was applied or not: where not, it is made again."""
    world, node = led()
    if kind not in ("claim", "first"):
        world.stable(node)
    if kind == "reserve":
        sent = world.claim(node, reserved=300, marks=False)
    elif kind == "first":
        sent = world.store(node, record())
    else:
        sent = send(world, node, kind)
    world.until_asks(node, Multi, GroupHeader.path(0, GROUP))
    world.lose(node, fault)
    world.run()
    world.advance(2000)

    assert node.outcome(sent) is STORED
    assert node.slot_events.count("SlotLoaded") == 1
    expected = {"claim": 1, "store": 2, "empty": 2, "reserve": 2, "first": 1}
    if kind == "delete":
        assert world.server.find(GroupHeader.path(0, GROUP)) is None
    else:
        assert len(world.chunks()) == world.header().chunks == (kind in ("store", "reserve", "first"))
        assert world.find(GroupHeader.path(0, GROUP)).stat.version <= expected[kind] + 1
    assert world.has_marker() is (kind not in ("empty", "delete"))


@pytest.mark.parametrize("fault", ["lost_reply", "lost_request"])
@pytest.mark.parametrize("kind", ["claim", "store", "empty"])
def test_a_change_without_an_answer_whose_slot_was_set_is_unknown(kind: str, fault: Fault) -> None:
    """Reading back cannot tell: the slot is loaded again, or it is another's."""
    world, node = led()
    if kind != "claim":
        world.stable(node)
    sent = send(world, node, kind)
    world.until_asks(node, Multi, GroupHeader.path(0, GROUP))
    world.lose(node, fault)
    world.elect(2)
    set_by_another(world)
    world.run()
    world.advance(2000)

    assert node.outcome(sent) in (WriteOutcome.UNKNOWN, NOT_OWNER)
    assert (node.outcome(sent) is NOT_OWNER) <= (fault == "lost_request")
    assert node.slot_events[-1] == "SlotUnloaded"


@pytest.mark.parametrize("executed", [0, 1])
def test_a_change_whose_slot_was_set_while_the_connection_was_broken_is_unknown(executed: int) -> None:
    """The slot is read back with the group: what stands there may be the successor's."""
    world, node = led()
    world.stable(node)
    sent = world.store(node, record(generation=2))
    node.loop.run_pending()
    world.server.cut("n1", executed=executed, hold=True)
    world.run()
    world.elect(2)
    set_by_another(world)
    world.server.resume("n1")
    world.run()

    assert node.outcome(sent) is WriteOutcome.UNKNOWN
    assert node.slot_events[-1] == "SlotUnloaded"


@pytest.mark.parametrize("executed", [0, 1])
def test_a_connection_that_breaks_during_a_change(executed: int) -> None:
    """In the same session it is read back on the next connection."""
    world, node = led()
    world.stable(node)
    sent = world.store(node, record(generation=2))
    node.loop.run_pending()
    world.server.cut("n1", executed=executed)
    world.run()
    world.advance(2000)

    assert node.outcome(sent) is STORED
    assert node.slot_events[-1] == "SlotKept"
    assert world.chunks() == [f"rec-2-{1 - executed}"]


@pytest.mark.parametrize("executed", [0, 1])
def test_a_session_that_ends_during_a_change(executed: int) -> None:
    """The outcome is unknown, what waited is not stored, and the slot is loaded again."""
    world, node = led()
    world.stable(node)
    sent = world.store(node, record(generation=2))
    waits = world.store(node, record(generation=3))
    node.loop.run_pending()
    world.server.cut("n1", executed=executed)
    world.server.expire("n1")
    world.run()
    world.advance(2000)

    assert node.outcome(sent) is WriteOutcome.UNKNOWN
    assert node.outcome(waits) is NOT_OWNER
    assert node.loaded[GROUP].generation == 1 + executed


def test_changes_while_the_connection_is_broken_are_made_on_the_next() -> None:
    """In the same session; nothing is sent while suspended."""
    world, node = led()
    world.stable(node)
    world.server.cut("n1", hold=True)
    world.run()
    sent = world.store(node, record(generation=2))
    node.loop.run_pending()
    assert node.outcome(sent) is None

    world.server.resume("n1")
    world.run()
    world.advance(1000)
    assert node.outcome(sent) is STORED


def test_a_slot_that_is_resigned_during_a_change_gives_its_outcome() -> None:
    """What was sent is reported as ZooKeeper answers; what waited is not stored."""
    world, node = led()
    world.stable(node)
    sent = world.store(node, record(generation=2))
    waits = world.store(node, record(generation=3))
    node.loop.run_pending()
    node.loop.post(SlotResigned(0, 1))
    world.run()

    assert node.outcome(sent) is STORED
    assert node.outcome(waits) is NOT_OWNER


def test_a_slot_that_is_resigned_before_a_change_is_read_back() -> None:
    """Nothing more is sent for a slot that is given up: the outcome stays unknown."""
    world, node = led()
    world.stable(node)
    sent = world.store(node, record(generation=2))
    node.loop.run_pending()
    world.server.cut("n1", executed=1, hold=True)
    world.run()
    node.loop.post(SlotResigned(0, 1))
    node.loop.run_pending()

    assert node.outcome(sent) is WriteOutcome.UNKNOWN
