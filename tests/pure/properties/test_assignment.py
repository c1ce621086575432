"""Properties of all strategies over random groups, and sticky against an exhaustive search."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from zkgroup.assignment import assign, assignment_diff
from zkgroup.assignment.kafka_assignors import threads_by_topic
from zkgroup.assignment.strategies import result_digest
from zkgroup.model import EvaluatedMember, TopicPartition

TOPICS = ("a", "b", "c\ue000", "c\U0001f600", "\uff5e", "\U00010000")
"""Java puts what is beyond U+FFFF before U+E000 to U+FFFF, Python behind it."""
NAMES = st.lists(
    st.text("ab-1\xe9\ud7ff\ue000\uff5e\U00010000\U0001f600", min_size=1, max_size=4), max_size=6, unique=True
)
PARTITIONS = st.dictionaries(st.sampled_from(TOPICS), st.lists(st.integers(0, 20), max_size=12, unique=True))


def units(text: str) -> list[int]:
    """The UTF-16 units of a text, by which Java compares and hashes it, computed as the standard says."""
    found: list[int] = []
    for code in map(ord, text):
        if code < 0x10000:
            found.append(code)
        else:
            found += [0xD800 + (code - 0x10000 >> 10), 0xDC00 + (code - 0x10000 & 0x3FF)]
    return found


def java_hash_of(text: str) -> int:
    """`String.hashCode`, by its definition."""
    value = sum(unit * pow(31, power, 2**32) for power, unit in enumerate(reversed(units(text)))) % 2**32
    return value - 2**32 if value >= 2**31 else value


@st.composite
def groups(draw: st.DrawFn) -> list[EvaluatedMember]:
    threads = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 3))
    return [EvaluatedMember(f"g_{name}", draw(threads)) for name in draw(NAMES)]


@st.composite
def equal_groups(draw: st.DrawFn) -> list[EvaluatedMember]:
    threads = draw(st.integers(1, 3))
    topics = draw(st.sets(st.sampled_from(TOPICS), min_size=1))
    return [EvaluatedMember(f"g_{name}", dict.fromkeys(sorted(topics), threads)) for name in draw(NAMES)]


def wanted(group: list[EvaluatedMember], partitions: Mapping[str, list[int]]) -> set[TopicPartition]:
    topics = {topic for member in group for topic in member.threads}
    return {TopicPartition(topic, n) for topic in topics for n in partitions.get(topic, [])}


def assert_legal(
    group: list[EvaluatedMember], partitions: Mapping[str, list[int]], owners: Mapping[TopicPartition, str]
) -> None:
    """Checks that every partition has an owner, and that every owner subscribes to the topic."""
    assert owners.keys() == wanted(group, partitions)
    threads = threads_by_topic(group)
    assert all(thread in threads[tp.topic] for tp, thread in owners.items())


@given(groups(), PARTITIONS)
def test_range_covers_every_partition_once_in_contiguous_blocks(
    group: list[EvaluatedMember], partitions: dict[str, list[int]]
) -> None:
    """Loads of a topic differ by at most 1 and do not rise along the threads."""
    owners = assign("range", group, partitions).owners

    assert_legal(group, partitions, owners)
    for topic, threads in threads_by_topic(group).items():
        dealt = [owners[TopicPartition(topic, n)] for n in sorted(partitions.get(topic, []))]
        loads = [dealt.count(thread) for thread in threads]
        assert loads == sorted(loads, reverse=True)
        assert loads[0] - loads[-1] <= 1
        assert [thread for thread, _ in itertools.groupby(dealt)] == threads[: sum(map(bool, loads))]


@given(groups(), PARTITIONS)
def test_range_is_in_java_order_whatever_the_names(
    group: list[EvaluatedMember], partitions: dict[str, list[int]]
) -> None:
    """Whole thread ids by their UTF-16 units; the first thread has the first partitions."""
    owners = assign("range", group, partitions).owners

    for topic, numbers in partitions.items():
        threads = {f"{m.member}-{n}" for m in group for n in range(m.threads.get(topic, 0))}
        expected = sorted(threads, key=units)[: len(numbers)]
        dealt = [owners[TopicPartition(topic, n)] for n in sorted(numbers)] if threads else []
        assert [thread for thread, _ in itertools.groupby(dealt)] == (expected if dealt else [])


@given(equal_groups(), PARTITIONS)
def test_round_robin_is_in_java_order_whatever_the_names(
    group: list[EvaluatedMember], partitions: dict[str, list[int]]
) -> None:
    """Partitions by the hash of `[topic,number]`, dealt to threads in UTF-16 order."""
    owners = assign("roundrobin", group, partitions).owners

    topics = {topic for member in group for topic in member.threads}
    threads = sorted(
        {f"{m.member}-{n}" for m in group for c in m.threads.values() for n in range(c)}, key=units
    )
    order = sorted(
        (java_hash_of(f"[{topic},{n}]"), topic, n) for topic in topics for n in partitions.get(topic, [])
    )
    assert owners == {
        TopicPartition(topic, n): thread
        for (_, topic, n), thread in zip(order, itertools.cycle(threads), strict=False)
    }


@given(equal_groups(), PARTITIONS)
def test_round_robin_covers_every_partition_once_and_evenly(
    group: list[EvaluatedMember], partitions: dict[str, list[int]]
) -> None:
    """Over all topics together the loads differ by at most 1."""
    owners = assign("roundrobin", group, partitions).owners

    assert_legal(group, partitions, owners)
    threads = {thread for threads in threads_by_topic(group).values() for thread in threads}
    loads = [Counter(owners.values())[thread] for thread in sorted(threads)] or [0]
    assert max(loads) - min(loads) <= 1


@given(equal_groups(), equal_groups(), PARTITIONS)
def test_sticky_is_even_and_moves_no_more_than_it_must(
    before: list[EvaluatedMember], after: list[EvaluatedMember], partitions: dict[str, list[int]]
) -> None:
    """Loads are within 1 of even; a partition moves only to a thread that would otherwise have too few."""
    past = assign("sticky", before, partitions).owners
    owners = assign("sticky", after, partitions, past).owners

    assert_legal(after, partitions, owners)
    threads = {thread for threads in threads_by_topic(after).values() for thread in threads}
    loads = [Counter(owners.values())[thread] for thread in sorted(threads)] or [0]
    assert max(loads) - min(loads) <= 1
    assert assign("sticky", after, partitions, owners).owners == owners


@given(groups(), PARTITIONS, st.randoms(use_true_random=False))
def test_the_order_of_the_input_changes_nothing(
    group: list[EvaluatedMember], partitions: dict[str, list[int]], chance: object
) -> None:
    """The order in which a member read its input does not change the assignment."""
    shuffle = chance.shuffle  # type: ignore[attr-defined]
    past = assign("range", group[::2], partitions).owners
    for strategy in ("range", "sticky"):
        first = assign(strategy, group, partitions, past).owners
        mixed = list(group)
        shuffle(mixed)
        mixed = [EvaluatedMember(m.member, dict(reversed(m.threads.items()))) for m in mixed]
        turned = {topic: partitions[topic][::-1] for topic in reversed(partitions)}
        second = assign(strategy, mixed, turned, dict(reversed(past.items()))).owners
        assert second == first
        assert result_digest(second) == result_digest(first)


@st.composite
def tiny(draw: st.DrawFn) -> tuple[list[EvaluatedMember], dict[str, list[int]], dict[TopicPartition, str]]:
    """Groups of at most 4 threads and 5 partitions, with any former assignment."""
    topics = ("a", "b")
    group = [
        EvaluatedMember(name, dict.fromkeys(sorted(draw(st.sets(st.sampled_from(topics)))), 1))
        for name in "wxyz"
    ][: draw(st.integers(1, 4))]
    partitions = {"a": list(range(draw(st.integers(0, 3)))), "b": list(range(draw(st.integers(0, 2))))}
    everything = [TopicPartition(topic, n) for topic in topics for n in partitions[topic]]
    past = {
        tp: owner for tp in everything if (owner := draw(st.sampled_from(["", "w-0", "x-0", "y-0", "z-0"])))
    }
    return group, partitions, past


@settings(max_examples=100)
@given(tiny())
def test_sticky_equals_an_exhaustive_search(
    case: tuple[list[EvaluatedMember], dict[str, list[int]], dict[TopicPartition, str]],
) -> None:
    """No assignment is more even, and no equally even one takes fewer partitions from their owner."""
    group, partitions, past = case
    owners = assign("sticky", group, partitions, past).owners
    assert_legal(group, partitions, owners)

    everything = sorted(wanted(group, partitions))
    threads = threads_by_topic(group)
    choices = itertools.product(*(threads[tp.topic] for tp in everything))
    best = min(cost(dict(zip(everything, choice, strict=True)), past) for choice in choices)
    assert cost(dict(owners), past) == best


def cost(owners: dict[TopicPartition, str], past: Mapping[TopicPartition, str]) -> tuple[int, int]:
    """The cost of an assignment: unevenness first, then moves."""
    return sum(load**2 for load in Counter(owners.values()).values()), len(
        assignment_diff(past, owners).moved
    )
