"""Slots: which group belongs to which, loads, moves, leader epochs, the lease."""

from __future__ import annotations

import pytest

from tests.worlds.coordinators import GROUP, SETTINGS, TIMEOUT_MS, Coordinator
from zkgroup.coordinator.effects import FetchOffsetsResult, ReadOffsets, WriteGroup
from zkgroup.coordinator.events import (
    LeaseExtended,
    SlotKept,
    SlotLoaded,
    SlotLoading,
    SlotUnloaded,
    Stopped,
    WriteOutcome,
)
from zkgroup.coordinator.group_ids import is_valid_group_id, slot_of
from zkgroup.coordinator.records import GroupRecord
from zkgroup.model.error_codes import ErrorCode
from zkgroup.wire.groups import LeaveGroupResponse


def stored(coordinator: Coordinator) -> GroupRecord:
    """What was last written of the group."""
    return [each.record for each in coordinator.written if isinstance(each, WriteGroup)][-1]


@pytest.mark.parametrize(
    ("group", "of_50", "of_2"),
    [
        ("", 0, 0),
        ("g", 3, 1),
        ("groupId", 18, 0),
        ("otherGroup", 13, 1),
        ("my-group", 12, 0),
        ("test-consumer-group", 31, 1),
        ("polygenelubricants", 0, 0),
        ("\u7fa4", 26, 0),
        ("\U0001f600", 49, 1),
    ],
)
def test_a_group_has_the_slot_that_java_gives_it(group: str, of_50: int, of_2: int) -> None:
    """Java's hash; its smallest number, which has no absolute value, counts as 0."""
    assert (slot_of(group, 50), slot_of(group, 2)) == (of_50, of_2)


@pytest.mark.parametrize(
    ("group", "is_valid"),
    [
        ("g", True),
        ("a.b-c_d e", True),
        ("\u7fa4", True),
        ("...", True),
        ("a/b", False),
        ("a%2Fb", False),
        (".", False),
        ("..", False),
        ("a\x00", False),
        ("a\x1f", False),
        ("\x7f", False),
        ("\x9f", False),
        ("\ue000", False),
        ("\U0001f600", False),
        ("a" * 255, True),
        ("a" * 256, False),
        ("a" * 1_000, False),
        ("a" * 32_767, False),
        ("\u7fa4" * 85, True),
        ("\u7fa4" * 86, False),
    ],
    ids=lambda value: str(value)[:9],
)
def test_a_group_id_is_a_name_that_zookeeper_takes(group: str, is_valid: bool) -> None:
    """Others would be another path, or none, or too long: 255 bytes of UTF-8."""
    coordinator = Coordinator()

    assert is_valid_group_id(group) is is_valid
    assert (coordinator.join(group=group) is ErrorCode.INVALID_GROUP_ID) is not is_valid
    assert (coordinator.commit(group=group) is ErrorCode.INVALID_GROUP_ID) is not is_valid


def errors(coordinator: Coordinator, group: str = GROUP) -> dict[str, ErrorCode | None]:
    """The answer of each API."""
    read = coordinator.fetch(group=group)
    assert isinstance(read, ReadOffsets | FetchOffsetsResult)
    leave, entries = coordinator.leave("x", group=group)
    return {
        "join": coordinator.join("x", group=group),
        "sync": coordinator.sync("x", 1, group=group),
        "heartbeat": coordinator.beat("x", 1, group=group),
        "leave": leave or (entries or [ErrorCode.NONE])[0],
        "commit": coordinator.commit("x", 1, group=group),
        "fetch": read.error if isinstance(read, FetchOffsetsResult) else ErrorCode.NONE,
        "describe": coordinator.describe(group).error,
        "delete": coordinator.delete(group),
    }


APIS = ("join", "sync", "heartbeat", "leave", "commit", "fetch", "describe", "delete")
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
UNKNOWN_GROUP = {
    "join": ErrorCode.UNKNOWN_MEMBER_ID,
    "sync": ErrorCode.UNKNOWN_MEMBER_ID,
    "heartbeat": ErrorCode.UNKNOWN_MEMBER_ID,
    "leave": ErrorCode.UNKNOWN_MEMBER_ID,
    "commit": ErrorCode.ILLEGAL_GENERATION,
    "fetch": ErrorCode.NONE,
    "describe": ErrorCode.NONE,
    "delete": ErrorCode.GROUP_ID_NOT_FOUND,
}


def test_answers_while_a_slot_is_loaded() -> None:
    """14, which SyncGroup gives as 27 and Heartbeat as 0; groups of other slots work."""
    coordinator = Coordinator(slots=2)
    assert (slot_of("g", 2), slot_of("groupId", 2)) == (1, 0)
    coordinator.do(SlotLoading(1, 1))

    assert errors(coordinator, "g") == {
        **dict.fromkeys(APIS, LOADING),
        "sync": ErrorCode.REBALANCE_IN_PROGRESS,
        "heartbeat": ErrorCode.NONE,
    }
    assert errors(coordinator, "groupId") == UNKNOWN_GROUP
    listed = coordinator.list()
    assert listed.error is LOADING

    coordinator.do(SlotLoaded(1, 1, ()))
    assert errors(coordinator, "g") == UNKNOWN_GROUP
    assert coordinator.list().error is ErrorCode.NONE


def test_a_group_that_is_loaded_is_listed_while_others_are_not() -> None:
    """The list has what there is, beside the error."""
    coordinator = Coordinator(slots=2)
    coordinator.commit(group="groupId")
    coordinator.do(SlotLoading(1, 1))

    listed = coordinator.list()
    assert (listed.error, [each.group for each in listed.groups]) == (LOADING, ["groupId"])


def test_answers_for_a_slot_of_another_broker() -> None:
    """16 everywhere; the list is without the group, and without an error."""
    coordinator = Coordinator()
    coordinator.stable()
    coordinator.do(SlotUnloaded(0, 1))

    assert errors(coordinator) == dict.fromkeys(APIS, ErrorCode.NOT_COORDINATOR)
    assert (coordinator.list().error, coordinator.list().groups) == (ErrorCode.NONE, ())


def test_answers_of_a_coordinator_that_stops() -> None:
    """15 everywhere, before what is known of the slot."""
    coordinator = Coordinator()
    coordinator.do(SlotLoading(0, 1))
    coordinator.do(Stopped())

    assert errors(coordinator) == dict.fromkeys(APIS, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert coordinator.list().error is ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("api", "error"),
    [
        *((api, ErrorCode.INVALID_GROUP_ID) for api in ("join", "sync", "heartbeat", "leave")),
        ("commit", ErrorCode.ILLEGAL_GENERATION),
        ("fetch", ErrorCode.NONE),
        ("describe", ErrorCode.NONE),
        ("delete", ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_the_empty_group_id_is_a_group_of_offsets_only(api: str, error: ErrorCode) -> None:
    """No member can be in it, and offsets can."""
    assert errors(Coordinator(), "")[api] is error


def test_no_member_joins_the_empty_group_id_where_it_has_offsets() -> None:
    """Also once the group is there, for its commit."""
    coordinator = Coordinator()
    coordinator.commit(group="")

    assert coordinator.machine.group("") is not None
    assert coordinator.join(group="") is ErrorCode.INVALID_GROUP_ID


def test_an_invalid_group_id_comes_before_everything_else() -> None:
    """24 also from a coordinator that stops."""
    coordinator = Coordinator()
    coordinator.do(Stopped())

    assert errors(coordinator, "a/b") == dict.fromkeys(APIS, ErrorCode.INVALID_GROUP_ID)


def test_a_group_id_of_zookeeper_consumers_may_be_longer_than_a_new_one() -> None:
    """What makes no group takes it: offsets are read, described and deleted; members and commits get 24."""
    found = errors(Coordinator(), "a" * 256)

    refused = dict.fromkeys(("join", "sync", "heartbeat", "leave", "commit"), ErrorCode.INVALID_GROUP_ID)
    assert found == {**UNKNOWN_GROUP, **refused}


def test_a_moved_group_keeps_its_generation() -> None:
    """Members need not join again, also those with several protocols; their
    sessions begin anew.
    """
    old = Coordinator()
    two = (("range", b"r"), ("rr", b"x"))
    leader, follower = old.stable(2, protocols=two)
    new = Coordinator()
    new.now_ms = 90_000
    new.load(stored(old), epoch=1)

    assert (new.state, new.generation) == ("Stable", 1)
    assert [new.beat(each, 1) for each in (leader, follower)] == [ErrorCode.NONE] * 2
    again = new.joined(new.send_join(follower, protocols=two))
    assert (again.error, again.generation, again.leader) == (ErrorCode.NONE, 1, leader)
    assert new.synced(new.send_sync(follower, 1)).assignment == follower.encode()
    new.advance(TIMEOUT_MS - 1)
    assert new.state == "Stable"
    new.advance(1)
    assert (new.state, new.describe().members) == ("Empty", ())


def test_a_generation_that_was_given_and_not_stored_is_never_given_again() -> None:
    """Its members are told so, and the next generation comes from the next block."""
    old = Coordinator()
    (leader,) = old.stable()
    joined = old.joined(old.send_join(leader))
    assert joined.generation == 2
    new = Coordinator()
    new.load(stored(old), epoch=1)

    assert new.sync(leader, 2) is ErrorCode.ILLEGAL_GENERATION
    assert new.beat(leader, 1) is ErrorCode.NONE
    assert new.joined(new.send_join(leader)).generation == 101


def test_an_empty_group_keeps_its_generation_over_a_move() -> None:
    """Its next generation is behind its block as well."""
    old = Coordinator()
    old.leave(*old.stable())
    new = Coordinator()
    new.load(stored(old), epoch=1)

    assert (new.state, new.generation) == ("Empty", 2)
    number = new.send_join()
    new.advance(SETTINGS.group_initial_rebalance_delay_ms)
    assert new.joined(number).generation == 101


def test_parked_requests_of_a_moved_slot_are_answered() -> None:
    """Joins and syncs get 16, and no timer fires afterwards."""
    coordinator = Coordinator()
    _, follower = coordinator.completing(2)
    sync = coordinator.send_sync(follower, 1)
    join = coordinator.send_join(group="other")
    pending = coordinator.send_join(group="third", v4=True)
    coordinator.do(SlotUnloaded(0, 1))

    assert coordinator.error(sync) is ErrorCode.NOT_COORDINATOR
    assert coordinator.error(join) is ErrorCode.NOT_COORDINATOR
    assert coordinator.error(pending) is ErrorCode.MEMBER_ID_REQUIRED
    assert coordinator.machine.next_deadline_ms is None
    assert list(coordinator.machine.groups()) == []


def test_a_write_that_ends_after_its_slot_moved_changes_nothing() -> None:
    """The members have their answer, and the group is another coordinator's."""
    coordinator = Coordinator(stores=False)
    number = coordinator.send_join()
    coordinator.complete()
    coordinator.advance(50)
    member = coordinator.joined(number).member_id
    sync = coordinator.send_sync(member, 1)
    coordinator.do(SlotUnloaded(0, None))
    assert coordinator.error(sync) is ErrorCode.NOT_COORDINATOR

    coordinator.complete(WriteOutcome.STORED)
    assert coordinator.beat(member, 1) is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize(("epoch", "is_taken"), [(4, False), (5, True), (6, True)])
def test_a_load_of_an_older_epoch_is_ignored(epoch: int, is_taken: bool) -> None:
    """The slot stays as it is."""
    coordinator = Coordinator()
    coordinator.load(epoch=5)
    coordinator.do(SlotLoading(0, epoch))

    assert (coordinator.list().error is LOADING) is is_taken


@pytest.mark.parametrize(("epoch", "is_taken"), [(4, False), (5, True), (6, True), (None, True)])
def test_an_unload_of_an_older_epoch_is_ignored(epoch: int | None, is_taken: bool) -> None:
    """An unload without epoch follows a refused write, and is always right."""
    coordinator = Coordinator()
    coordinator.load(epoch=5)
    coordinator.do(SlotUnloaded(0, epoch))

    assert (coordinator.beat("x", 1) is ErrorCode.NOT_COORDINATOR) is is_taken


def test_what_was_read_for_an_older_epoch_is_not_taken() -> None:
    """A load that a later one has overtaken."""
    coordinator = Coordinator()
    coordinator.do(SlotLoading(0, 1))
    coordinator.do(SlotLoading(0, 2))
    coordinator.do(SlotLoaded(0, 1, ()))
    assert coordinator.list().error is LOADING

    coordinator.do(SlotLoaded(0, 2, ()))
    assert coordinator.list().error is ErrorCode.NONE


def test_a_new_epoch_of_the_same_leader_keeps_the_groups() -> None:
    """Members notice nothing, and events of the epochs before are old."""
    coordinator = Coordinator()
    (member,) = coordinator.stable()
    coordinator.do(SlotKept(0, 7))
    coordinator.do(SlotUnloaded(0, 6))
    coordinator.do(SlotLoading(0, 6))

    assert coordinator.beat(member, 1) is ErrorCode.NONE


def test_nothing_is_answered_from_memory_outside_the_lease() -> None:
    """16, and nobody expires who could not have sent a heartbeat; afterwards the session starts anew."""
    coordinator = Coordinator()
    (member,) = coordinator.stable()
    coordinator.do(LeaseExtended(coordinator.now_ms + 100))
    coordinator.advance(99)
    assert coordinator.beat(member, 1) is ErrorCode.NONE
    coordinator.now_ms += 1
    assert errors(coordinator) == dict.fromkeys(APIS, ErrorCode.NOT_COORDINATOR)

    coordinator.now_ms += 10 * TIMEOUT_MS
    coordinator.do(LeaseExtended(coordinator.now_ms + 10 * TIMEOUT_MS))
    coordinator.advance(TIMEOUT_MS - 1)
    assert coordinator.state == "Stable"
    coordinator.advance(1)
    assert coordinator.state == "Empty"


def test_no_timer_fires_outside_the_lease() -> None:
    """The clock may pass all deadlines."""
    coordinator = Coordinator()
    coordinator.stable()
    coordinator.do(LeaseExtended(coordinator.now_ms + 1))
    coordinator.now_ms += 10 * TIMEOUT_MS

    assert coordinator.machine.advance(coordinator.now_ms) == []
    assert [group.state.value for group in coordinator.machine.groups()] == ["Stable"]


def test_leaving_a_slot_that_moved_has_no_entries() -> None:
    """The error stands for the request as a whole."""
    coordinator = Coordinator()
    coordinator.do(SlotUnloaded(0, 1))
    coordinator.leave("x")

    (result,) = [each for each in coordinator.answers.values() if isinstance(each, LeaveGroupResponse)]
    assert result.members == ()
