"""The states of a group, its protocol votes, its leader and its generations."""

from __future__ import annotations

import itertools

import pytest

from zkgroup.coordinator.group import (
    VALID_PREVIOUS_STATES,
    ConsumerGroupState,
    GroupMetadata,
    MemberMetadata,
)
from zkgroup.errors import IllegalTransitionError


def member(name: str, *protocols: str, instance: str | None = None) -> MemberMetadata:
    return MemberMetadata(
        member_id=name,
        group_instance_id=instance,
        client_id="c",
        client_host="/h",
        session_timeout_ms=500,
        rebalance_timeout_ms=500,
        protocols=tuple((each, each.encode()) for each in protocols or ("range",)),
    )


def group_of(*members: MemberMetadata) -> GroupMetadata:
    group = GroupMetadata("g")
    for each in members:
        group.add(each, "consumer")
    return group


@pytest.mark.parametrize(("before", "after"), [*itertools.product(ConsumerGroupState, ConsumerGroupState)])
def test_only_kafkas_transitions_are_possible(before: ConsumerGroupState, after: ConsumerGroupState) -> None:
    """Every pair of states: Kafka's are made and stamped, the others are a bug and raise."""
    group = GroupMetadata("g")
    group.state = before

    if before in VALID_PREVIOUS_STATES[after]:
        group.transition_to(after, 7)
        assert (group.state, group.state_timestamp_ms) == (after, 7)
    else:
        with pytest.raises(IllegalTransitionError):
            group.transition_to(after, 7)
        assert group.state is before


def test_the_legal_transitions_are_those_of_kafka() -> None:
    """The table itself."""
    found = {(old.value, new.value) for new, olds in VALID_PREVIOUS_STATES.items() for old in olds}

    assert found == {
        ("Stable", "PreparingRebalance"),
        ("CompletingRebalance", "PreparingRebalance"),
        ("Empty", "PreparingRebalance"),
        ("PreparingRebalance", "CompletingRebalance"),
        ("CompletingRebalance", "Stable"),
        ("PreparingRebalance", "Empty"),
        *((each.value, "Dead") for each in ConsumerGroupState),
    }


@pytest.mark.parametrize(
    ("lists", "selected"),
    [
        (["range rr"], "range"),
        (["range rr", "rr range"], "range"),
        (["range rr", "rr range", "rr range"], "rr"),
        (["range rr", "rr x"], "rr"),
        (["rr range", "range rr"], "rr"),
        (["a b c", "c b a", "b c a"], "a"),
        (["x a b", "b a"], "a"),
        (["a a"], "a"),
        (["b b a", "a a a"], "a"),
    ],
)
def test_the_protocol_with_most_votes_is_selected(lists: list[str], selected: str) -> None:
    """Votes count among the protocols of all; the leader (first here) decides a tie."""
    group = group_of(*(member(f"m{n}", *names.split()) for n, names in enumerate(lists)))

    assert group.select_protocol() == selected


@pytest.mark.parametrize(
    ("kind", "protocols", "is_supported"),
    [
        ("consumer", ("range",), True),
        ("consumer", ("x", "rr"), True),
        ("consumer", ("x",), False),
        ("consumer", ("only-a",), False),
        ("consumer", (), False),
        ("connect", ("range",), False),
        ("", ("range",), False),
    ],
)
def test_a_member_needs_a_protocol_that_all_have(
    kind: str, protocols: tuple[str, ...], is_supported: bool
) -> None:
    """The type is the group's, and one protocol is listed by every member."""
    group = group_of(member("a", "range", "rr", "only-a"), member("b", "rr", "range"))
    group.state = ConsumerGroupState.STABLE

    assert group.supports(kind, [(each, b"") for each in protocols]) is is_supported


@pytest.mark.parametrize(
    ("kind", "protocols", "is_supported"),
    [("consumer", ("x",), True), ("", ("x",), False), ("consumer", (), False)],
)
def test_an_empty_group_takes_any_type_that_is_named(
    kind: str, protocols: tuple[str, ...], is_supported: bool
) -> None:
    """Also another type than it had before."""
    group = GroupMetadata("g")
    group.protocol_type = "connect"

    assert group.supports(kind, [(each, b"") for each in protocols]) is is_supported


def test_counts_of_protocols_follow_the_members() -> None:
    """Members added, changed and removed; no count of zero is kept."""
    first, second = member("a", "range", "rr"), member("b", "rr")
    group = group_of(first, second)
    assert group.supported_protocols == {"range": 1, "rr": 2}

    group.update(second, (("range", b""),))
    assert group.supported_protocols == {"range": 2, "rr": 1}

    group.remove(first)
    assert dict(group.supported_protocols) == {"range": 1}


def test_a_protocol_that_a_member_lists_twice_counts_once() -> None:
    """With the metadata of its first place; it goes with the member."""
    twice = member("a")
    twice.protocols = (("range", b"first"), ("rr", b""), ("range", b"second"))
    group = group_of(twice, member("b", "range"))

    assert group.supported_protocols == {"range": 2, "rr": 1}
    assert group.select_protocol() == "range"
    assert twice.metadata("range") == b"first"

    group.remove(twice)
    assert dict(group.supported_protocols) == {"range": 1}


def test_the_leader_is_the_first_member_and_then_the_earliest_that_is_left() -> None:
    """A group without members has no leader."""
    members = [member(name) for name in "abc"]
    group = group_of(*members)
    leaders = [group.leader]
    for each in members:
        group.remove(each)
        leaders.append(group.leader)

    assert leaders == ["a", "b", "c", None]


def test_a_leader_that_has_not_joined_gives_way_to_the_earliest_that_has() -> None:
    """One that has joined stays."""
    members = [member(name) for name in "abc"]
    group = group_of(*members)
    assert not group.elect_joined_leader()

    group.park_join(members[2], 1)
    group.park_join(members[1], 2)
    assert (group.elect_joined_leader(), group.leader) == (True, "b")

    group.park_join(members[0], 3)
    assert (group.elect_joined_leader(), group.leader) == (True, "b")


def test_members_are_listed_static_first() -> None:
    """By group.instance.id, then the dynamic ones by member id."""
    group = group_of(member("d2"), member("s1", instance="z"), member("d1"), member("s2", instance="a"))

    assert [each.member_id for each in group.members_in_order()] == ["s2", "s1", "d1", "d2"]


def test_a_static_member_keeps_its_place_and_its_leadership_under_a_new_id() -> None:
    """Everything that names the former id names the new one."""
    first, second = member("a1", instance="a"), member("b1", instance="b")
    group = group_of(first, second)
    group.pending_sync = {"a1", "b1"}

    group.replace_id(first, "a2")

    assert list(group.members) == ["a2", "b1"]
    assert (group.leader, group.static_members) == ("a2", {"a": "a2", "b": "b1"})
    assert group.pending_sync == {"a2", "b1"}


@pytest.mark.parametrize(
    ("generation", "reserved", "skipped", "following", "to_reserve"),
    [
        (0, 0, 0, 1, 100),
        (7, 100, 0, 8, 100),
        (50, 100, 0, 51, 150),
        (100, 100, 0, 101, 200),
        (7, 100, 100, 101, 200),
        (0, 30, 30, 31, 130),
    ],
)
def test_generations_come_from_blocks(
    generation: int, reserved: int, skipped: int, following: int, to_reserve: int
) -> None:
    """A loaded group begins behind its former block; a write reserves more when less than half is left."""
    group = GroupMetadata("g")
    group.generation, group.reserved_generation, group.skipped_generation = generation, reserved, skipped

    assert group.next_generation == following
    assert group.generation_to_reserve() == to_reserve


def test_what_was_asked_to_be_reserved_is_never_lowered() -> None:
    """A write that fails may have been stored, and a later write must not take its numbers back."""
    group = GroupMetadata("g")
    assert group.generation_to_reserve() == 100
    group.generation = 60
    assert group.generation_to_reserve() == 160
    group.generation = 0

    assert group.generation_to_reserve() == 160
