"""Sticky: balance first, then the fewest moves."""

from __future__ import annotations

import random
import time
from collections import Counter

from zkgroup.assignment import assign, assignment_diff
from zkgroup.model import EvaluatedMember, TopicPartition


def group_of(count: int, topics: dict[str, int] | None = None) -> list[EvaluatedMember]:
    return [EvaluatedMember(f"g_m{n:03}", topics or {"t": 1}) for n in range(count)]


def partitions(count: int) -> dict[str, list[int]]:
    return {"t": list(range(count))}


def test_a_join_moves_only_what_the_newcomer_gets() -> None:
    """Ten members with 100 partitions: the eleventh gets 9, nothing else moves."""
    before = assign("sticky", group_of(10), partitions(100)).owners

    after = assign("sticky", group_of(11), partitions(100), before).owners

    changed = assignment_diff(before, after)
    assert len(changed.moved) == 9
    assert {after[tp] for tp in changed.moved} == {"g_m010-0"}


def test_a_leave_moves_only_what_the_leaver_had() -> None:
    """Its partitions are spread over the others."""
    before = assign("sticky", group_of(10), partitions(100)).owners

    after = assign("sticky", group_of(9), partitions(100), before).owners

    changed = assignment_diff(before, after)
    assert len(changed.moved) == 10
    assert sorted(Counter(after.values()).values()) == [11] * 8 + [12]


def test_new_partitions_move_nothing() -> None:
    """Growth of a topic is dealt to those with least."""
    before = assign("sticky", group_of(3), partitions(7)).owners

    after = assign("sticky", group_of(3), partitions(9), before).owners

    changed = assignment_diff(before, after)
    assert (len(changed.kept), len(changed.moved), len(changed.gained)) == (7, 0, 2)
    assert set(Counter(after.values()).values()) == {3}


def test_a_deleted_topic_is_dropped() -> None:
    """Partitions of a deleted topic have no owner."""
    before = assign("sticky", group_of(2), partitions(4)).owners

    after = assign("sticky", group_of(2), partitions(3), before).owners

    assert assignment_diff(before, after).dropped == (TopicPartition("t", 3),)


def test_without_a_past_the_topics_are_spread_over_all() -> None:
    """Unlike range, the remainders of several topics go to different threads."""
    topics = {f"t{n}": [0] for n in range(6)}
    group = group_of(3, dict.fromkeys(topics, 1))

    found = assign("sticky", group, topics).owners

    assert set(Counter(found.values()).values()) == {2}


def test_members_that_want_different_topics_are_balanced_as_far_as_possible() -> None:
    """Only b can have y, so a gets all of x but the one that balances the two."""
    group = [EvaluatedMember("a", {"x": 1}), EvaluatedMember("b", {"x": 1, "y": 1})]

    found = assign("sticky", group, {"x": [0, 1, 2, 3], "y": [0, 1]}).owners

    assert Counter(found.values()) == {"a-0": 3, "b-0": 3}


def test_a_chain_of_threads_passes_load_along() -> None:
    """c has too many and shares no topic with a: b gives two partitions to a, and takes two of c."""
    group = [
        EvaluatedMember("a", {"x": 1}),
        EvaluatedMember("b", {"x": 1, "y": 1}),
        EvaluatedMember("c", {"y": 1}),
    ]
    previous = {TopicPartition("x", n): "b-0" for n in range(2)} | {
        TopicPartition("y", n): "c-0" for n in range(4)
    }

    found = assign("sticky", group, {"x": [0, 1], "y": [0, 1, 2, 3]}, previous).owners

    assert Counter(found.values()) == {"a-0": 2, "b-0": 2, "c-0": 2}


def test_a_previous_owner_that_no_longer_wants_the_topic_counts_as_none() -> None:
    """Neither a member that left nor one with another subscription keeps anything."""
    previous = {
        TopicPartition("t", 0): "gone-0",
        TopicPartition("t", 1): "b-0",
        TopicPartition("t", 2): "a-7",
    }
    group = [EvaluatedMember("a", {"t": 1}), EvaluatedMember("b", {"u": 1})]

    found = assign("sticky", group, {"t": [0, 1, 2]}, previous).owners

    assert set(found.values()) == {"a-0"}


def test_a_large_group_with_unequal_subscriptions_is_planned_within_a_fraction_of_a_lease() -> None:
    """Past bug: 5 s of CPU on the member's thread, more than its lease; the plans are as good as before."""
    rng = random.Random(1)
    names = [f"t{number}" for number in range(20)]
    group = [
        EvaluatedMember(
            f"g_m{number:03}", dict.fromkeys(names if number % 3 == 0 else rng.sample(names, 10), 1)
        )
        for number in range(200)
    ]
    topics = {name: range(500) for name in names}
    more = [*group, EvaluatedMember("g_new1", dict.fromkeys(names, 1)), EvaluatedMember("g_new2", {"t0": 1})]
    begun_s = time.thread_time()

    first = assign("sticky", group, topics).owners
    one_left = assign("sticky", group[:-1], topics, first).owners
    two_joined = assign("sticky", more, topics, first).owners
    took_s = time.thread_time() - begun_s

    assert len(first) == 10_000
    assert sorted(Counter(two_joined.values()).values()) == [49] * 100 + [50] * 102
    assert [sum(first[tp] != plan[tp] for tp in first) for plan in (one_left, two_joined)] == [50, 98]
    assert took_s < 1.5
