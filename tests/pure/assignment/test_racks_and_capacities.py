"""Shares by the capacity of members, and partitions to members in the rack of a replica."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from zkgroup.assignment import STRATEGIES, assign
from zkgroup.assignment.strategies import inputs_digest
from zkgroup.model import EvaluatedMember, TopicPartition

ABC = "abc"


def _racks(topics: Mapping[str, int], copies: int, brokers: int) -> dict[TopicPartition, tuple[str, ...]]:
    """Replicas as in AbstractPartitionAssignorTest: on the next brokers in turn, each in a rack of its
    own."""
    found, start = {}, 0
    for topic, count in topics.items():
        for number in range(count):
            racks = {ABC[(start + copy) % brokers] for copy in range(copies)}
            found[TopicPartition(topic, number)] = tuple(sorted(racks))
            start += 1
    return found


def _shares(
    strategy: str,
    topics: Mapping[str, int],
    wanted: Sequence[str],
    racks: str,
    replicas: Mapping[TopicPartition, Sequence[str]],
) -> list[str]:
    members = [
        EvaluatedMember(f"g_c{number}", dict.fromkeys(each.split(), 1), rack=rack)
        for number, (each, rack) in enumerate(zip(wanted, racks, strict=True))
    ]
    owners = assign(strategy, members, {t: range(n) for t, n in topics.items()}, None, replicas).owners
    return [
        ", ".join(str(tp) for tp in sorted(owners) if owners[tp] == f"{member.member}-0")
        for member in members
    ]


SIX_SEVEN_TWO, FIVES = {"t1": 6, "t2": 7, "t3": 2}, {"t1": 5, "t2": 5, "t3": 5}
FOUR = {"t1": 6, "t2": 6, "t3": 2, "t4": 2}
ALL, SOME = ["t1 t2 t3"] * 3, ["t1 t2 t3", "t1 t2 t3", "t1 t3"]
PAIRS = ["t1 t2", "t1 t2", "t3 t4", "t3 t4"]


@pytest.mark.parametrize(
    ("topics", "wanted", "racks", "copies", "brokers", "expected"),
    [
        (SIX_SEVEN_TWO, ALL, "abc", 3, 3,
         ["t1-0, t1-1, t2-0, t2-1, t2-2, t3-0", "t1-2, t1-3, t2-3, t2-4, t3-1", "t1-4, t1-5, t2-5, t2-6"]),
        (SIX_SEVEN_TWO, ALL, "def", 1, 3,
         ["t1-0, t1-1, t2-0, t2-1, t2-2, t3-0", "t1-2, t1-3, t2-3, t2-4, t3-1", "t1-4, t1-5, t2-5, t2-6"]),
        (SIX_SEVEN_TWO, ALL, "abc", 1, 3,
         ["t1-0, t1-3, t2-0, t2-3, t2-6", "t1-1, t1-4, t2-1, t2-4, t3-0", "t1-2, t1-5, t2-2, t2-5, t3-1"]),
        (SIX_SEVEN_TWO, ALL, "abc", 2, 3,
         ["t1-0, t1-2, t2-0, t2-2, t2-3, t3-1", "t1-1, t1-3, t2-1, t2-4, t3-0", "t1-4, t1-5, t2-5, t2-6"]),
        (SIX_SEVEN_TWO, SOME, "abc", 1, 3,
         ["t1-0, t1-3, t2-0, t2-2, t2-3, t2-6", "t1-1, t1-4, t2-1, t2-4, t2-5, t3-0", "t1-2, t1-5, t3-1"]),
        (FIVES, SOME, "abc", 2, 3,
         ["t1-2, t2-0, t2-1, t2-3, t3-2", "t1-0, t1-3, t2-2, t2-4, t3-0, t3-3", "t1-1, t1-4, t3-1, t3-4"]),
        (FOUR, PAIRS, "abba", 1, 2,
         ["t1-0, t1-2, t1-4, t2-0, t2-2, t2-4", "t1-1, t1-3, t1-5, t2-1, t2-3, t2-5", "t3-1, t4-1",
          "t3-0, t4-0"]),
        (FOUR, ["t1 t2 t3 t4"] * 4, "abba", 1, 3,
         ["t1-0, t1-3, t2-0, t2-3, t3-0, t4-0", "t1-1, t1-4, t2-1, t2-4, t3-1, t4-1", "t1-2, t2-2",
          "t1-5, t2-5"]),
    ],
)  # fmt: skip
def test_range_by_racks_is_that_of_kafka(
    topics: Mapping[str, int],
    wanted: Sequence[str],
    racks: str,
    copies: int,
    brokers: int,
    expected: list[str],
) -> None:
    """The cases of RangeAssignorTest (3.5, KIP-881); threads are zkgroup's, one a member."""
    assert _shares("range", topics, wanted, racks, _racks(topics, copies, brokers)) == expected


def test_sticky_by_racks_keeps_first_what_is_in_the_rack() -> None:
    """AbstractStickyAssignorTest's case, and partitions in the wrong rack that nobody can take better."""
    replicas = _racks(SIX_SEVEN_TWO, 1, 3)
    assert _shares("sticky", SIX_SEVEN_TWO, ALL, "abc", replicas) == [
        "t1-0, t1-3, t2-0, t2-3, t2-6",
        "t1-1, t1-4, t2-1, t2-4, t3-0",
        "t1-2, t1-5, t2-2, t2-5, t3-1",
    ]

    members = [EvaluatedMember(f"g_c{n}", {"t": 1}, rack=rack) for n, rack in enumerate("ab")]
    before = {TopicPartition("t", n): f"g_c{n % 2}-0" for n in range(4)}
    in_c = dict.fromkeys(before, ("c",))
    swapped = {tp: ("b",) if n % 2 == 0 else ("a",) for n, tp in enumerate(before)}

    def after(racks: Mapping[TopicPartition, Sequence[str]]) -> Mapping[TopicPartition, str]:
        return assign("sticky", members, {"t": range(4)}, before, racks).owners

    assert after(in_c) == before
    assert after(swapped) == {tp: f"g_c{(n + 1) % 2}-0" for n, tp in enumerate(before)}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_capacities_and_racks_of_some_members_only_count_for_nothing(strategy: str) -> None:
    """A member that publishes none, as a JVM member, does not know them; digests are as without, too."""
    plain = [EvaluatedMember(f"g_{name}", {"t": 1}) for name in "abc"]
    some = [EvaluatedMember("g_a", {"t": 1}, 5, "a"), EvaluatedMember("g_b", {"t": 1}, 1, "b"), plain[2]]
    racks = {TopicPartition("t", n): ("b",) for n in range(7)}
    partitions = {"t": range(7)}

    assert assign(strategy, some, partitions, None, racks) == assign(strategy, plain, partitions)
    assert inputs_digest(strategy, some, partitions, None, racks) == inputs_digest(
        strategy, plain, partitions
    )
    all_of_them = [*some[:2], EvaluatedMember("g_c", {"t": 1}, 1, "c")]
    assert inputs_digest(strategy, all_of_them, partitions) != inputs_digest(strategy, plain, partitions)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("capacities", "shares"), [((1, 1, 1), [4, 4, 4]), ((1, 2, 3), [2, 4, 6]), ((100, 1, 1), [12, 0, 0])]
)
def test_shares_are_in_proportion_to_the_capacities(
    strategy: str, capacities: Sequence[int], shares: list[int]
) -> None:
    """Equal ones give the same as none; a member's threads share its capacity."""
    members = [
        EvaluatedMember(f"g_{name}", {"t": 2 if name == "c" else 1}, capacity)
        for name, capacity in zip("abc", capacities, strict=True)
    ]
    owners = assign(strategy, members, {"t": range(12)}).owners

    count = Counter(thread.rpartition("-")[0] for thread in owners.values())
    assert [count[member.member] for member in members] == shares
    equal = [EvaluatedMember(f"g_{name}", {"t": 1}, 7) for name in "abc"]
    none = [EvaluatedMember(f"g_{name}", {"t": 1}) for name in "abc"]
    assert assign(strategy, equal, {"t": range(11)}) == assign(strategy, none, {"t": range(11)})


def test_sticky_with_capacities_is_balanced_and_moves_little_with_different_subscriptions() -> None:
    """The sum of squares over capacities is least; from a balanced assignment nothing moves."""
    members = [
        EvaluatedMember("g_a", {"x": 1, "y": 1}, 4),
        EvaluatedMember("g_b", {"x": 1}, 2),
        EvaluatedMember("g_c", {"y": 1}, 1),
    ]
    partitions = {"x": range(7), "y": range(7)}
    first = assign("sticky", members, partitions).owners

    assert Counter(first.values()) == {"g_a-0": 8, "g_b-0": 4, "g_c-0": 2}
    assert assign("sticky", members, partitions, first).owners == first


def test_round_robin_of_unequal_subscriptions_counts_capacities() -> None:
    """KIP-49's fewest partitions are those that weigh least."""
    members = [EvaluatedMember("g_a", {"x": 1, "y": 1}, 3), EvaluatedMember("g_b", {"y": 1}, 1)]
    owners = assign("roundrobin", members, {"x": range(2), "y": range(6)}).owners

    assert Counter(owners.values()) == {"g_a-0": 6, "g_b-0": 2}
