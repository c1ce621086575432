"""JoinGroup: checks in their order, a join in each state, the initial delay, the join phase."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.coordinators import GROUP, RANGE, SETTINGS, TIMEOUT_MS, Coordinator
from zkgroup.coordinator.effects import WriteGroup
from zkgroup.coordinator.group import GroupPhase
from zkgroup.coordinator.settings import NEW_MEMBER_JOIN_TIMEOUT_MS, CoordinatorSettings
from zkgroup.model.error_codes import ErrorCode

CHANGED = (("range", b"changed"),)
NO_TYPE: dict[str, Any] = {"protocol_type": ""}


@pytest.mark.parametrize(
    ("session_ms", "error"),
    [
        (9, ErrorCode.INVALID_SESSION_TIMEOUT),
        (10, None),
        (600_000, None),
        (600_001, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
def test_a_session_timeout_is_within_its_bounds(session_ms: int, error: ErrorCode | None) -> None:
    """Bounds included; no group comes of a join that is refused for it."""
    coordinator = Coordinator()

    assert coordinator.join(session_ms=session_ms) is error
    assert bool(coordinator.list().groups) is (error is None)


def test_the_session_timeout_is_checked_before_the_member() -> None:
    """J1 comes before J2."""
    assert Coordinator().join("x", session_ms=1) is ErrorCode.INVALID_SESSION_TIMEOUT


def test_an_id_on_an_unknown_group_makes_no_group() -> None:
    """J2."""
    coordinator = Coordinator()

    assert coordinator.join("x") is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.list().groups == ()


@pytest.mark.parametrize("count", [0, 1])
def test_an_id_that_a_group_does_not_know(count: int) -> None:
    """J10, in a group with members and in one without."""
    coordinator = Coordinator()
    if count:
        coordinator.stable()
    else:
        coordinator.join(v4=True)

    assert coordinator.join("x") is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("options", [NO_TYPE, {"protocols": ()}])
def test_a_first_join_without_protocols_is_refused(options: dict[str, Any]) -> None:
    """The group stays, Empty and without a type (J3, J6)."""
    coordinator = Coordinator()

    assert coordinator.join(**options) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    (listed,) = coordinator.list().groups
    assert (listed.group, listed.protocol_type, listed.state) == (GROUP, "", "Empty")


@pytest.mark.parametrize("options", [{"protocol_type": "connect"}, {"protocols": (("x", b""),)}, NO_TYPE])
@pytest.mark.parametrize("member", ["", "unknown"])
def test_a_join_of_another_kind_disturbs_nobody(options: dict[str, Any], member: str) -> None:
    """J6, before J7 and J10."""
    coordinator = Coordinator()
    coordinator.stable(2)

    assert coordinator.join(member, **options) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (coordinator.state, coordinator.generation) == ("Stable", 1)


def test_an_error_has_no_generation_and_no_protocol() -> None:
    """It has the id that came with the request."""
    coordinator = Coordinator()
    refused = coordinator.joined(coordinator.send_join("x"))

    assert (refused.generation, refused.protocol_type, refused.protocol) == (-1, None, None)
    assert (refused.leader, refused.member_id, refused.members) == ("", "x", ())


def test_a_member_first_gets_an_id() -> None:
    """It is no member until it joins with it, and keeps it."""
    coordinator = Coordinator()
    given = coordinator.joined(coordinator.send_join(v4=True, client="app"))
    described = coordinator.describe()
    assert (given.error, given.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "app-0001")
    assert (described.state, described.members, described.pending_members) == ("Empty", (), 1)

    number = coordinator.send_join(given.member_id, v4=True)
    assert coordinator.describe().pending_members == 0
    coordinator.advance(50)
    assert coordinator.joined(number).member_id == given.member_id


@pytest.mark.parametrize("state", ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"])
def test_an_id_is_given_in_every_state_and_changes_none(state: str) -> None:
    """Asked again in the same state, the id is a new one."""
    coordinator, _ = group_in(state)
    given = {coordinator.joined(coordinator.send_join(v4=True)).member_id for _ in range(2)}

    assert len(given) == 2
    assert coordinator.state == state


def test_an_old_client_gets_its_id_with_its_generation() -> None:
    """Versions 0 to 3 park at once."""
    coordinator = Coordinator()
    number = coordinator.send_join(client="old")
    assert coordinator.error(number) is None

    coordinator.advance(50)
    assert coordinator.joined(number).member_id == "old-0001"


def test_an_id_that_is_not_used_is_forgotten() -> None:
    """After the session timeout of its request; it has no heartbeats."""
    coordinator = Coordinator()
    member = coordinator.joined(coordinator.send_join(v4=True, session_ms=100)).member_id
    assert coordinator.beat(member, 0) is ErrorCode.UNKNOWN_MEMBER_ID
    coordinator.advance(99)
    assert coordinator.describe().pending_members == 1
    coordinator.advance(1)

    assert coordinator.describe().pending_members == 0
    assert coordinator.join(member) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_is_not_taken_with_an_instance_id() -> None:
    """J8: it was given to a dynamic member."""
    coordinator = Coordinator()
    member = coordinator.joined(coordinator.send_join(v4=True)).member_id
    refused = coordinator.joined(coordinator.send_join(member, instance="i"))

    assert (refused.error, refused.member_id) == (ErrorCode.UNKNOWN, "")


@pytest.mark.parametrize("how", ["joins", "leaves", "expires"])
def test_a_pending_id_delays_the_others(how: str) -> None:
    """Until it joins, leaves or expires."""
    coordinator = Coordinator()
    members = coordinator.stable(2, session_ms=5000, rebalance_ms=5000)
    pending = coordinator.joined(coordinator.send_join(v4=True, session_ms=200)).member_id
    numbers = [coordinator.send_join(each) for each in members]
    assert coordinator.error(numbers[0]) is None

    if how == "joins":
        coordinator.send_join(pending)
    elif how == "leaves":
        coordinator.leave(pending)
    else:
        coordinator.advance(200)
    assert coordinator.joined(numbers[0]).generation == 2


def test_a_pending_id_does_not_outlast_the_join_timer() -> None:
    """It may join later, which is another rebalance."""
    coordinator = Coordinator()
    (member,) = coordinator.stable(rebalance_ms=300, session_ms=5000)
    pending = coordinator.joined(coordinator.send_join(v4=True, session_ms=5000)).member_id
    number = coordinator.send_join(member, rebalance_ms=300)
    coordinator.advance(300)
    assert coordinator.joined(number).generation == 2

    assert coordinator.join(pending) is None
    assert coordinator.state == "PreparingRebalance"


def group_in(state: str) -> tuple[Coordinator, list[str]]:
    """A group of two members in a state, and their ids; the first leads."""
    coordinator = Coordinator()
    if state == "Empty":
        members = coordinator.stable()
        coordinator.leave(members[0])
        return coordinator, [*members, "x"]
    members = coordinator.completing(2) if state == "CompletingRebalance" else coordinator.stable(2)
    if state == "PreparingRebalance":
        coordinator.send_join()
    assert coordinator.state == state
    return coordinator, members


@pytest.mark.parametrize(
    ("state", "who", "protocols", "error", "after"),
    [
        ("Empty", 0, RANGE, ErrorCode.UNKNOWN_MEMBER_ID, "Empty"),
        ("PreparingRebalance", 0, RANGE, None, "PreparingRebalance"),
        ("PreparingRebalance", 1, CHANGED, None, "PreparingRebalance"),
        ("CompletingRebalance", 0, RANGE, ErrorCode.NONE, "CompletingRebalance"),
        ("CompletingRebalance", 1, RANGE, ErrorCode.NONE, "CompletingRebalance"),
        ("CompletingRebalance", 0, CHANGED, None, "PreparingRebalance"),
        ("CompletingRebalance", 1, CHANGED, None, "PreparingRebalance"),
        ("Stable", 0, RANGE, None, "PreparingRebalance"),
        ("Stable", 0, CHANGED, None, "PreparingRebalance"),
        ("Stable", 1, RANGE, ErrorCode.NONE, "Stable"),
        ("Stable", 1, CHANGED, None, "PreparingRebalance"),
    ],
)
def test_a_member_joins_again(
    state: str, who: int, protocols: Any, error: ErrorCode | None, after: str
) -> None:
    """Parked, or answered at once with the present generation; the leader of a
    stable group always starts a rebalance.
    """
    coordinator, members = group_in(state)
    generation = coordinator.generation
    number = coordinator.send_join(members[who], protocols=protocols)

    assert coordinator.error(number) is error
    assert (coordinator.state, coordinator.generation) == (after, generation)
    if error is ErrorCode.NONE:
        answer = coordinator.joined(number)
        assert (answer.generation, answer.leader, answer.member_id) == (1, members[0], members[who])
        assert len(answer.members) == (2 if who == 0 else 0)


@pytest.mark.parametrize(
    ("protocols", "is_equal"),
    [
        ((("a", b"1"), ("b", b"2")), True),
        ((("b", b"2"), ("a", b"1")), False),
        ((("a", b"1"),), False),
        ((("a", b"1"), ("b", b"3")), False),
        ((("a", b"1"), ("b", b"2"), ("c", b"")), False),
    ],
)
def test_metadata_is_equal_in_number_order_and_bytes(protocols: Any, is_equal: bool) -> None:
    """What counts as changed."""
    coordinator = Coordinator()
    _, follower = coordinator.stable(2, protocols=(("a", b"1"), ("b", b"2")))
    coordinator.send_join(follower, protocols=protocols)

    assert (coordinator.state == "Stable") is is_equal


def test_a_join_that_is_repeated_replaces_the_first() -> None:
    """The first is not answered: its connection is closed. The second gets the generation."""
    coordinator = Coordinator()
    member = coordinator.joined(coordinator.send_join(v4=True)).member_id
    first, second = coordinator.send_join(member), coordinator.send_join(member)
    coordinator.advance(50)

    assert coordinator.dropped == {first}
    assert coordinator.joined(second).generation == 1
    assert first not in coordinator.answers


@pytest.mark.parametrize(
    ("state", "rebalances"), [("PreparingRebalance", 0), ("CompletingRebalance", 1), ("Stable", 1)]
)
def test_a_new_member_starts_a_rebalance(state: str, rebalances: int) -> None:
    """Unless one is being prepared; parked syncs get 27."""
    coordinator, members = group_in(state)
    sync = coordinator.send_sync(members[1], 1) if state == "CompletingRebalance" else None
    before = len(coordinator.logged)
    coordinator.send_join()

    assert coordinator.state == "PreparingRebalance"
    assert sum(each.kind == "group_state" for each in coordinator.logged[before:]) == rebalances
    if sync is not None:
        assert coordinator.error(sync) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_rejoin_changes_the_timeouts() -> None:
    """Of the session, and of the next rebalance (Kafka from 3.4 on)."""
    coordinator = Coordinator()
    _, follower = coordinator.stable(2, session_ms=5000)
    coordinator.send_join(follower, session_ms=100)
    coordinator.beat(follower, 1)
    coordinator.advance(100)

    assert len(coordinator.describe().members) == 1


@pytest.mark.parametrize(
    ("delay", "timeout", "joins", "completes"),
    [
        (3000, 60000, [0], 3000),
        (3000, 60000, [0, 1000], 6000),
        (3000, 60000, [0, 1000, 4000], 9000),
        (3000, 10000, [0, 1000, 4000, 7000, 9500], 10000),
        (3000, 2000, [0, 1000], 3000),
        (0, 60000, [0], 0),
        (50, 150, [0, 49], 100),
        (50, 100, [0, 0, 70], 100),
    ],
)
def test_the_initial_delay_waits_for_members(
    delay: int, timeout: int, joins: list[int], completes: int
) -> None:
    """Extended by each member that joins, up to the rebalance timeout."""
    coordinator = Coordinator(CoordinatorSettings(group_initial_rebalance_delay_ms=delay))
    numbers = []
    for at_ms in joins:
        coordinator.advance(at_ms - coordinator.now_ms)
        numbers.append(coordinator.send_join(rebalance_ms=timeout, session_ms=6000))
        assert coordinator.describe().phase == GroupPhase.INITIAL_DELAY.value
    coordinator.advance(completes - coordinator.now_ms - 1 if completes else -1)
    assert all(coordinator.error(number) is None for number in numbers)
    coordinator.advance(1)

    results = [coordinator.joined(number) for number in numbers]
    assert {each.generation for each in results} == {1}
    assert [bool(each.members) for each in results] == [True] + [False] * (len(joins) - 1)
    assert results[0].leader == results[0].member_id


def test_a_group_that_was_empty_again_waits_once() -> None:
    """No extension when its generation is above 0."""
    coordinator = Coordinator()
    coordinator.leave(*coordinator.stable())
    numbers = [coordinator.send_join()]
    coordinator.advance(20)
    numbers.append(coordinator.send_join())
    coordinator.advance(30)

    assert [coordinator.joined(number).generation for number in numbers] == [3, 3]


def test_an_id_that_is_given_does_not_extend_the_delay() -> None:
    """Only members that are added do."""
    coordinator = Coordinator()
    number = coordinator.send_join()
    coordinator.advance(20)
    coordinator.send_join(v4=True)
    coordinator.advance(30)

    assert coordinator.joined(number).generation == 1


def test_the_delay_ends_no_earlier_when_all_leave() -> None:
    """The group is Empty then, and a generation older."""
    coordinator = Coordinator()
    member = coordinator.joined(coordinator.send_join(v4=True)).member_id
    coordinator.send_join(member)
    coordinator.leave(member)
    coordinator.advance(49)
    assert coordinator.describe().phase == GroupPhase.INITIAL_DELAY.value
    coordinator.advance(1)

    assert (coordinator.state, coordinator.generation) == ("Empty", 1)


def test_a_generation_for_each_join_phase() -> None:
    """One more each time, also when the group empties."""
    coordinator = Coordinator()
    leader, follower = coordinator.stable(2)
    found = [coordinator.generation, *(coordinator.rejoin(leader, follower) for _ in range(3))]
    coordinator.leave(leader)
    coordinator.send_join(follower)
    found.append(coordinator.generation)
    coordinator.leave(follower)
    found.append(coordinator.generation)

    assert found == [1, 2, 3, 4, 5, 6]


def test_a_member_that_does_not_join_in_time_is_removed() -> None:
    """Although it sends heartbeats, which are answered with 27."""
    coordinator = Coordinator()
    leader, follower = coordinator.stable(2, session_ms=5000)
    number = coordinator.send_join(leader, session_ms=5000)
    for _ in range(4):
        coordinator.advance(100)
        assert coordinator.beat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    coordinator.advance(99)
    assert coordinator.error(number) is None
    coordinator.advance(1)

    assert [each.member_id for each in coordinator.joined(number).members] == [leader]
    assert coordinator.beat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_longest_rebalance_timeout_counts() -> None:
    """Of the members when the timer is armed; later ones do not lengthen it."""
    coordinator = Coordinator()
    joins = [coordinator.send_join(rebalance_ms=each, session_ms=9000) for each in (300, 700)]
    coordinator.advance(100)
    leader, follower = (coordinator.joined(number).member_id for number in joins)
    for each in (leader, follower):
        coordinator.send_sync(each, 1)
    number = coordinator.send_join(leader, rebalance_ms=300, session_ms=9000)
    coordinator.send_join(rebalance_ms=5000, session_ms=9000)
    coordinator.advance(699)
    assert coordinator.error(number) is None
    coordinator.advance(1)

    assert coordinator.joined(number).generation == 2


def test_a_silent_member_ends_the_join_phase_earlier() -> None:
    """Its session runs on."""
    coordinator = Coordinator()
    leader, _ = coordinator.stable(2, session_ms=200, rebalance_ms=5000)
    number = coordinator.send_join(leader, session_ms=200, rebalance_ms=5000)
    coordinator.advance(200)

    assert coordinator.joined(number).generation == 2


def test_a_new_member_waits_for_five_minutes_at_most() -> None:
    """Then its join gets 25 and it is gone; the other member is not affected."""
    coordinator = Coordinator()
    (member,) = coordinator.stable(rebalance_ms=900_000, session_ms=400_000)
    number = coordinator.send_join(rebalance_ms=900_000, session_ms=400_000)
    coordinator.advance(NEW_MEMBER_JOIN_TIMEOUT_MS - 1)
    assert coordinator.error(number) is None
    coordinator.advance(1)

    refused = coordinator.joined(number)
    assert (refused.error, refused.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert [each.member_id for each in coordinator.describe().members] == [member]


def test_after_its_first_generation_a_member_has_its_session() -> None:
    """The five minutes no longer apply."""
    coordinator = Coordinator()
    coordinator.completing(session_ms=100, rebalance_ms=5000)
    coordinator.advance(100)

    assert coordinator.state == "Empty"


def test_the_leader_sees_the_metadata_of_the_selected_protocol() -> None:
    """Static members first."""
    coordinator = Coordinator()
    protocols = (("rr", b"of rr"), ("range", b"of range"))
    leader = coordinator.send_join(protocols=protocols)
    coordinator.send_join(protocols=protocols, instance="i")
    coordinator.advance(100)
    result = coordinator.joined(leader)

    assert result.protocol == "rr"
    assert [(each.group_instance_id, each.metadata) for each in result.members] == [
        ("i", b"of rr"),
        (None, b"of rr"),
    ]


def test_an_empty_group_is_stored() -> None:
    """With its new generation."""
    coordinator = Coordinator()
    coordinator.leave(*coordinator.stable())
    last = coordinator.written[-1]

    assert isinstance(last, WriteGroup)
    assert (last.record.generation, last.record.members, last.record.state.value) == (2, (), "Empty")


def test_the_delay_of_a_full_kafka_group_is_three_seconds() -> None:
    """Kafka's defaults."""
    settings = CoordinatorSettings()

    assert settings.group_initial_rebalance_delay_ms == 3000
    assert (settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms) == (
        6000,
        1_800_000,
    )
    assert (SETTINGS.group_max_size, TIMEOUT_MS) == (4, 500)
