"""Heartbeat, LeaveGroup, sessions, and the size of a group."""

from __future__ import annotations

import pytest

from tests.worlds.coordinators import RANGE, TIMEOUT_MS, Coordinator
from zkgroup.coordinator.effects import WriteGroup
from zkgroup.coordinator.records import GroupRecord
from zkgroup.model.error_codes import ErrorCode
from zkgroup.wire.groups import LeavingMember
from zkgroup.znodes.coordinated_groups import StoredMember

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID
REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS


def dead() -> Coordinator:
    """A coordinator with a group that is being deleted."""
    coordinator = Coordinator()
    coordinator.leave(*coordinator.stable())
    coordinator.stores = False
    coordinator.delete()
    return coordinator


def test_a_heartbeat_says_what_the_group_does() -> None:
    """0 in Stable and CompletingRebalance, 27 in PreparingRebalance."""
    coordinator = Coordinator()
    found = {"never seen": coordinator.beat("x", 1)}
    members = coordinator.completing(2)
    found["CompletingRebalance"] = coordinator.beat(members[0], 1)
    coordinator.send_sync(members[0], 1)
    found["Stable"] = coordinator.beat(members[0], 1)
    found["unknown"] = coordinator.beat("x", 9)
    found["older"], found["newer"] = coordinator.beat(members[0], 0), coordinator.beat(members[0], 2)
    coordinator.leave(members[1])
    found["PreparingRebalance"] = coordinator.beat(members[0], 1)
    coordinator.leave(members[0])
    found["Empty"] = coordinator.beat(members[0], 1)

    assert found == {
        "never seen": UNKNOWN,
        "CompletingRebalance": NONE,
        "Stable": NONE,
        "unknown": UNKNOWN,
        "older": ErrorCode.ILLEGAL_GENERATION,
        "newer": ErrorCode.ILLEGAL_GENERATION,
        "PreparingRebalance": REBALANCE,
        "Empty": UNKNOWN,
    }
    assert dead().beat("x", 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("sign", "is_alive"),
    [
        ("heartbeat", True),
        ("commit", True),
        ("sync", True),
        ("join", False),
        ("fetch", False),
        ("old heartbeat", False),
    ],
)
def test_what_keeps_a_session_alive(sign: str, is_alive: bool) -> None:
    """Heartbeats, commits and syncs; no join that is answered at once, no fetch, nothing
    that is refused.
    """
    coordinator = Coordinator()
    _, follower = coordinator.stable(2, rebalance_ms=9000)
    coordinator.advance(TIMEOUT_MS - 1)
    match sign:
        case "heartbeat":
            coordinator.beat(follower, 1)
        case "commit":
            coordinator.commit(follower, 1)
        case "sync":
            coordinator.send_sync(follower, 1)
        case "join":
            coordinator.send_join(follower, rebalance_ms=9000)
        case "fetch":
            coordinator.fetch()
        case _:
            coordinator.beat(follower, 0)
    coordinator.advance(TIMEOUT_MS - 1)

    assert [each.member_id for each in coordinator.describe().members] == ([follower] if is_alive else [])


def test_a_commit_keeps_a_session_alive_during_a_rebalance() -> None:
    """In PreparingRebalance as well."""
    coordinator = Coordinator()
    leader, follower = coordinator.stable(2, rebalance_ms=9000)
    coordinator.send_join(leader, rebalance_ms=9000)
    coordinator.advance(TIMEOUT_MS - 1)
    assert coordinator.commit(follower, 1) is NONE
    coordinator.advance(TIMEOUT_MS - 1)

    assert len(coordinator.describe().members) == 2


def test_a_member_that_waits_does_not_expire() -> None:
    """In a join or in a sync; its session begins when it is answered."""
    coordinator = Coordinator()
    leader, follower = coordinator.stable(2, session_ms=100, rebalance_ms=5000)
    number = coordinator.send_join(leader, session_ms=100, rebalance_ms=5000)
    for _ in range(30):
        coordinator.advance(90)
        coordinator.beat(follower, 1)
    assert coordinator.error(number) is None
    coordinator.send_join(follower, session_ms=100, rebalance_ms=5000)
    assert coordinator.joined(number).generation == 2

    waiting = coordinator.send_sync(follower, 2)
    for _ in range(30):
        coordinator.advance(90)
        coordinator.beat(leader, 2)
    assert coordinator.error(waiting) is None
    coordinator.send_sync(leader, 2)
    assert coordinator.error(waiting) is NONE
    coordinator.advance(99)
    assert len(coordinator.describe().members) == 2
    coordinator.advance(1)
    assert coordinator.state == "Empty"


def test_a_silent_member_is_removed() -> None:
    """At the end of its session, not before; the others are to join again."""
    coordinator = Coordinator()
    leader, follower = coordinator.stable(2)
    coordinator.advance(TIMEOUT_MS - 1)
    assert coordinator.beat(leader, 1) is NONE
    coordinator.advance(1)

    assert coordinator.beat(leader, 1) is REBALANCE
    assert coordinator.beat(follower, 1) is UNKNOWN


def test_the_last_member_leaves() -> None:
    """Empty, one generation more, stored."""
    coordinator = Coordinator()
    assert coordinator.leave(*coordinator.stable()) == (NONE, [NONE])

    last = coordinator.written[-1]
    assert (coordinator.state, coordinator.generation) == ("Empty", 2)
    assert isinstance(last, WriteGroup)
    assert last.record.generation == 2


def test_one_of_several_leaves() -> None:
    """The others are to join again, and it is no member."""
    coordinator = Coordinator()
    leader, follower = coordinator.stable(2)
    coordinator.leave(follower)

    assert coordinator.beat(leader, 1) is REBALANCE
    assert coordinator.beat(follower, 1) is UNKNOWN


def test_a_member_that_is_unknown_leaves() -> None:
    """Each entry has the error; a group that is deleted has no entries."""
    coordinator = Coordinator()
    assert coordinator.leave("x", group="never seen") == (NONE, [UNKNOWN])
    coordinator.stable()
    assert coordinator.leave("x") == (NONE, [UNKNOWN])
    assert dead().leave("x") == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])


def test_an_operator_removes_static_members() -> None:
    """By their instance ids; another member's id is fenced."""
    coordinator = Coordinator()
    members = coordinator.static("a", "b", "c")
    fenced = LeavingMember(member_id=members["a"], group_instance_id="c")

    assert coordinator.leave_all(fenced) == (NONE, [ErrorCode.FENCED_INSTANCE_ID])
    assert coordinator.leave("", "a", "unknown", "b") == (NONE, [NONE, UNKNOWN, NONE])
    assert [each.member_id for each in coordinator.describe().members] == [members["c"]]


def test_a_member_leaves_while_its_join_waits() -> None:
    """The join ends with 25, and the others go on."""
    coordinator = Coordinator()
    leader, follower = coordinator.stable(2)
    number = coordinator.send_join(leader)
    coordinator.leave(leader)

    assert coordinator.error(number) is UNKNOWN
    assert coordinator.joined(coordinator.send_join(follower)).leader == follower


def test_a_member_leaves_while_its_sync_waits() -> None:
    """The sync ends with 25; Kafka never answers it."""
    coordinator = Coordinator()
    _, follower = coordinator.completing(2)
    number = coordinator.send_sync(follower, 1)
    coordinator.leave(follower)

    assert coordinator.error(number) is UNKNOWN


@pytest.mark.parametrize("state", ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"])
def test_a_pending_id_leaves(state: str) -> None:
    """0, and the group stays as it is."""
    coordinator = Coordinator()
    if state in ("PreparingRebalance", "Stable"):
        coordinator.stable(2)
    elif state == "CompletingRebalance":
        coordinator.completing()
    if state == "PreparingRebalance":
        coordinator.send_join()
    pending = coordinator.joined(coordinator.send_join(v4=True)).member_id

    assert coordinator.leave(pending) == (NONE, [NONE])
    assert coordinator.state == state


def test_a_full_group_takes_nobody_more() -> None:
    """The fifth is refused while the first four wait, and later."""
    coordinator = Coordinator()
    numbers = [coordinator.send_join() for _ in range(4)]
    refused = coordinator.joined(coordinator.send_join())
    assert (refused.error, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    coordinator.advance(200)

    assert [coordinator.error(number) for number in numbers] == [NONE] * 4
    assert coordinator.join() is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert coordinator.join(v4=True) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert coordinator.state == "CompletingRebalance"


def test_a_pending_id_takes_no_room_and_is_forgotten_when_refused() -> None:
    """As Kafka 3.9.1 does; in 2.8.2 it goes on to delay the others."""
    coordinator = Coordinator()
    pending = [coordinator.joined(coordinator.send_join(v4=True)).member_id for _ in range(6)]
    joins = [coordinator.send_join(each) for each in pending]

    assert [coordinator.error(each) for each in joins] == [None] * 4 + [ErrorCode.GROUP_MAX_SIZE_REACHED] * 2
    assert coordinator.describe().pending_members == 0


def test_a_group_that_is_loaded_too_large_loses_those_that_join_last() -> None:
    """Six members, and four places."""
    names = [f"m{number}" for number in range(6)]
    coordinator = Coordinator()
    coordinator.load(
        GroupRecord(
            group_id="g",
            generation=3,
            reserved_generation=100,
            protocol_type="consumer",
            protocol="range",
            leader="m0",
            state_timestamp_ms=0,
            members=tuple(
                StoredMember(
                    member_id=name,
                    group_instance_id=None,
                    client_id="c",
                    client_host="/h",
                    session_timeout_ms=5000,
                    rebalance_timeout_ms=5000,
                    protocols=RANGE,
                    assignment=b"",
                )
                for name in names
            ),
        ),
        epoch=1,
    )
    assert coordinator.state == "PreparingRebalance"
    assert coordinator.beat("m5", 3) is REBALANCE
    joins = [coordinator.send_join(name) for name in names]

    assert [coordinator.error(number) for number in joins] == [NONE] * 4 + [
        ErrorCode.GROUP_MAX_SIZE_REACHED
    ] * 2
    assert coordinator.beat("m5", 101) is UNKNOWN
