"""SyncGroup: checks, assignments, the sync timer, and what becomes of a write that fails."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.coordinators import Coordinator
from zkgroup.coordinator.effects import WriteGroup
from zkgroup.coordinator.events import WriteOutcome
from zkgroup.coordinator.group import GroupPhase
from zkgroup.model.error_codes import ErrorCode


@pytest.mark.parametrize(
    ("state", "member", "generation", "error"),
    [
        ("none", "x", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("Empty", "x", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        ("PreparingRebalance", "known", 1, ErrorCode.REBALANCE_IN_PROGRESS),
        ("PreparingRebalance", "known", 2, ErrorCode.ILLEGAL_GENERATION),
        ("PreparingRebalance", "x", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        ("CompletingRebalance", "known", 0, ErrorCode.ILLEGAL_GENERATION),
        ("CompletingRebalance", "known", 2, ErrorCode.ILLEGAL_GENERATION),
        ("CompletingRebalance", "x", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("Stable", "known", 2, ErrorCode.ILLEGAL_GENERATION),
        ("Stable", "x", 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("Stable", "known", 1, ErrorCode.NONE),
        ("Dead", "x", 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_sync_is_checked(state: str, member: str, generation: int, error: ErrorCode) -> None:
    """The group, the member, the generation, the state."""
    coordinator = Coordinator()
    known = ""
    if state == "CompletingRebalance":
        known, _ = coordinator.completing(2)
    elif state != "none":
        known, _ = coordinator.stable(2)
    if state == "PreparingRebalance":
        coordinator.send_join()
    if state in ("Empty", "Dead"):
        for each in coordinator.describe().members:
            coordinator.leave(each.member_id)
    if state == "Dead":
        coordinator.stores = False
        coordinator.delete()

    assert coordinator.sync(known if member == "known" else member, generation) is error


@pytest.mark.parametrize(
    ("protocol", "error"),
    [
        ({}, ErrorCode.NONE),
        ({"protocol_type": "consumer", "protocol": "range"}, ErrorCode.NONE),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol": "rr"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"requires_protocol": True}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"requires_protocol": True, "protocol": "range"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"requires_protocol": True, "protocol_type": "consumer"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (
            {"requires_protocol": True, "protocol_type": "consumer", "protocol": "range"},
            ErrorCode.NONE,
        ),
    ],
)
def test_a_sync_names_its_protocol(protocol: dict[str, Any], error: ErrorCode) -> None:
    """From version 5 on both must be given; a success returns both."""
    coordinator = Coordinator()
    (member,) = coordinator.completing()
    number = coordinator.send_sync(member, 1, **protocol)

    result = coordinator.synced(number)
    assert result.error is error
    if error is ErrorCode.NONE:
        assert (result.protocol_type, result.protocol) == ("consumer", "range")


def test_a_missing_protocol_comes_before_everything_else() -> None:
    """Also where the group is unknown."""
    coordinator = Coordinator()

    assert coordinator.sync("x", 1, requires_protocol=True) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_followers_get_their_assignments_with_the_leader() -> None:
    """One that came before waits, one that comes after does not."""
    coordinator = Coordinator()
    leader, early, late = coordinator.completing(3)
    waiting = coordinator.send_sync(early, 1)
    assert coordinator.error(waiting) is None

    given = {leader: b"0", early: b"1", late: b"2"}
    numbers = [coordinator.send_sync(leader, 1, given), waiting, coordinator.send_sync(late, 1)]
    assert [coordinator.synced(number).assignment for number in numbers] == [b"0", b"1", b"2"]
    assert coordinator.state == "Stable"


def test_only_members_have_assignments() -> None:
    """One that the leader left out gets nothing, other ids are dropped."""
    coordinator = Coordinator()
    leader, follower = coordinator.completing(2)
    coordinator.send_sync(leader, 1, {leader: b"0", "stranger": b"x"})

    assert coordinator.synced(coordinator.send_sync(follower, 1)).assignment == b""
    last = coordinator.written[-1]
    assert isinstance(last, WriteGroup)
    assert {each.member_id: each.assignment for each in last.record.members} == {
        leader: b"0",
        follower: b"",
    }


def test_a_stable_group_answers_what_is_stored() -> None:
    """Whatever the leader sends now."""
    coordinator = Coordinator()
    leader, _ = coordinator.stable(2)
    writes = len(coordinator.written)

    result = coordinator.synced(coordinator.send_sync(leader, 1, {leader: b"new"}))
    assert result.assignment == leader.encode()
    assert len(coordinator.written) == writes


def test_a_repeated_sync_ends_the_first() -> None:
    """With 27: its client may have gone."""
    coordinator = Coordinator()
    leader, follower = coordinator.completing(2)
    first, second = coordinator.send_sync(follower, 1), coordinator.send_sync(follower, 1)
    coordinator.send_sync(leader, 1, {follower: b"1"})

    assert coordinator.error(first) is ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.synced(second).assignment == b"1"


def keep_alive(coordinator: Coordinator, members: list[str], ms: int) -> None:
    """Heartbeats of all members for so long."""
    for _ in range(ms // 100):
        coordinator.advance(100)
        for each in members:
            coordinator.beat(each, 1)


def test_a_leader_that_dies_before_it_syncs() -> None:
    """Its session ends, waiting followers get 27, another one leads."""
    coordinator = Coordinator()
    leader, follower = coordinator.completing(2, session_ms=200)
    waiting = coordinator.send_sync(follower, 1)
    coordinator.advance(200)
    assert coordinator.error(waiting) is ErrorCode.REBALANCE_IN_PROGRESS

    again = coordinator.joined(coordinator.send_join(follower))
    assert (again.generation, again.leader) == (2, follower)
    assert coordinator.beat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_nobody_syncs() -> None:
    """Heartbeats do not keep the members."""
    coordinator = Coordinator()
    members = coordinator.completing(2, session_ms=9000)
    keep_alive(coordinator, members, 300)
    assert [coordinator.beat(each, 1) for each in members] == [ErrorCode.NONE] * 2
    keep_alive(coordinator, members, 200)

    assert (coordinator.state, coordinator.generation) == ("Empty", 2)
    assert [coordinator.beat(each, 1) for each in members] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2


def test_one_follower_does_not_sync() -> None:
    """It is removed from the stable group, and the others are to join again."""
    coordinator = Coordinator()
    leader, follower = coordinator.completing(2, session_ms=9000)
    coordinator.send_sync(leader, 1, {})
    keep_alive(coordinator, [leader, follower], 400)
    assert coordinator.state == "Stable"
    keep_alive(coordinator, [follower], 100)

    changes = [each.fields["reason"] for each in coordinator.logged if each.kind == "group_state"]
    assert changes[-1] == "1 member did not sync"
    assert coordinator.beat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.beat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_leader_does_not_sync() -> None:
    """Syncs that wait end with 27."""
    coordinator = Coordinator()
    leader, follower = coordinator.completing(2, session_ms=9000)
    waiting = coordinator.send_sync(follower, 1)
    keep_alive(coordinator, [leader], 500)

    assert coordinator.error(waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert [each.member_id for each in coordinator.describe().members] == [follower]


def test_all_have_synced() -> None:
    """The timer is gone."""
    coordinator = Coordinator()
    members = coordinator.stable(2, session_ms=9000)
    assert coordinator.describe().phase_ends_in_ms == -1
    keep_alive(coordinator, members, 1000)

    assert (coordinator.state, coordinator.generation) == ("Stable", 1)


def syncing() -> tuple[Coordinator, list[str], list[int]]:
    """Two members that have synced, and an assignment that is being written."""
    coordinator = Coordinator()
    members = coordinator.completing(2)
    coordinator.stores = False
    numbers = [coordinator.send_sync(each, 1, {each: b"a"}) for each in reversed(members)]
    return coordinator, members, numbers


def test_nobody_is_answered_before_the_assignment_is_stored() -> None:
    """Write first, answer then; one write a generation."""
    coordinator, _, numbers = syncing()
    assert [coordinator.error(number) for number in numbers] == [None, None]
    assert coordinator.describe().phase == GroupPhase.STORING.value

    coordinator.complete()
    assert [coordinator.error(number) for number in numbers] == [ErrorCode.NONE] * 2
    assert coordinator.unwritten == []


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (WriteOutcome.NOT_OWNER, ErrorCode.NOT_COORDINATOR),
        (WriteOutcome.CONFLICT, ErrorCode.REBALANCE_IN_PROGRESS),
        (WriteOutcome.UNKNOWN, ErrorCode.REBALANCE_IN_PROGRESS),
        (WriteOutcome.TOO_LARGE, ErrorCode.UNKNOWN),
    ],
)
def test_an_assignment_that_is_not_stored(outcome: WriteOutcome, error: ErrorCode) -> None:
    """All waiting syncs get the code, nobody keeps an assignment, a rebalance starts."""
    coordinator, members, numbers = syncing()
    coordinator.complete(outcome)

    assert [coordinator.error(number) for number in numbers] == [error] * 2
    assert coordinator.state == "PreparingRebalance"
    coordinator.stores = True
    assert coordinator.rejoin(*members) == 2


def test_an_assignment_that_zookeeper_consumers_refuse_removes_the_members() -> None:
    """Another program has deleted the marker: all waiting syncs get 23, and the group is stored as empty."""
    coordinator, members, numbers = syncing()
    coordinator.complete(WriteOutcome.ZOOKEEPER_MEMBERS)

    assert [coordinator.error(number) for number in numbers] == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL] * 2
    assert coordinator.state == "Empty"
    (emptied,) = coordinator.unwritten
    assert isinstance(emptied, WriteGroup)
    assert emptied.record.members == ()
    assert [coordinator.beat(each, 1) for each in members] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2


def test_a_write_that_ends_after_a_rebalance_began() -> None:
    """Changes nothing."""
    coordinator, members, numbers = syncing()
    coordinator.send_join(members[1], protocols=(("range", b"changed"),))
    assert [coordinator.error(number) for number in numbers] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    coordinator.complete()
    assert coordinator.state == "PreparingRebalance"

    joined = coordinator.send_join(members[0])
    assert coordinator.joined(joined).generation == 2


def test_a_write_of_the_generation_before_does_not_end_the_next_one() -> None:
    """Also where that one waits for its own assignment."""
    coordinator, members, _ = syncing()
    numbers = [coordinator.send_join(each) for each in reversed(members)]
    coordinator.send_join(members[0])
    assert coordinator.joined(numbers[0]).generation == 1
    second = [coordinator.send_join(each, protocols=(("range", b"new"),)) for each in members]
    assert coordinator.joined(second[0]).generation == 2
    waiting = coordinator.send_sync(members[0], 2, {})
    coordinator.complete()

    assert coordinator.error(waiting) is None
    assert coordinator.state == "CompletingRebalance"
    coordinator.complete()
    assert coordinator.error(waiting) is ErrorCode.NONE
