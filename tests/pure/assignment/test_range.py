"""Range: Kafka's default."""

from __future__ import annotations

import random

import pytest

from zkgroup.assignment import STRATEGIES, assign, kafka_assignors, utf16_key
from zkgroup.assignment.kafka_assignors import java_sorted
from zkgroup.errors import ConfigError
from zkgroup.model import EvaluatedMember, TopicPartition

Shares = dict[str, dict[str, list[int]]]


def members(**threads: dict[str, int]) -> list[EvaluatedMember]:
    return [EvaluatedMember(member, topics) for member, topics in threads.items()]


def shares(strategy: str, group: list[EvaluatedMember], partitions: dict[str, list[int]]) -> Shares:
    """Topic to thread to its partitions, of the whole group."""
    found: Shares = {}
    for tp, thread in sorted(assign(strategy, group, partitions).owners.items()):
        found.setdefault(tp.topic, {}).setdefault(thread, []).append(tp.partition)
    return found


@pytest.mark.parametrize(
    ("group", "partitions", "expected"),
    [
        pytest.param(
            members(c1={"t": 2}, c2={"t": 2}),
            {"t": [0, 1, 2, 3, 4]},
            {"t": {"c1-0": [0, 1], "c1-1": [2], "c2-0": [3], "c2-1": [4]}},
            id="uneven, the JVM's own doc case",
        ),
        pytest.param(
            members(c1={"t": 1}, c2={"t": 1}, c3={"t": 1}),
            {"t": list(range(10))},
            {"t": {"c1-0": [0, 1, 2, 3], "c2-0": [4, 5, 6], "c3-0": [7, 8, 9]}},
            id="uneven",
        ),
        pytest.param(
            members(c1={"t": 2}, c2={"t": 2}, c3={"t": 1}),
            {"t": [0, 1, 2]},
            {"t": {"c1-0": [0], "c1-1": [1], "c2-0": [2]}},
            id="more threads than partitions",
        ),
        pytest.param(
            members(g_a={"t": 12}),
            {"t": list(range(14))},
            {
                "t": {
                    "g_a-0": [0, 1],
                    "g_a-1": [2, 3],
                    "g_a-10": [4],
                    "g_a-11": [5],
                    "g_a-2": [6],
                    "g_a-3": [7],
                    "g_a-4": [8],
                    "g_a-5": [9],
                    "g_a-6": [10],
                    "g_a-7": [11],
                    "g_a-8": [12],
                    "g_a-9": [13],
                }
            },
            id="string order",
        ),
        pytest.param(
            members(c1={"t": 1}, c2={"t": 1}),
            {"t": [7, 0, 4, 1, 2]},
            {"t": {"c1-0": [0, 1, 2], "c2-0": [4, 7]}},
            id="gaps",
        ),
        pytest.param(
            members(g_c1={"t": 1}, g_c2={"t": 1}, g_c10={"t": 1}),
            {"t": [0, 1, 2]},
            {"t": {"g_c1-0": [0], "g_c10-0": [1], "g_c2-0": [2]}},
            id="prefix names",
        ),
        pytest.param(
            members(c1={"t1": 1, "t2": 1, "t3": 1}, c2={"t1": 1, "t2": 1, "t3": 1}),
            {"t1": [0], "t2": [0], "t3": [0]},
            {"t1": {"c1-0": [0]}, "t2": {"c1-0": [0]}, "t3": {"c1-0": [0]}},
            id="several topics, skew",
        ),
        pytest.param(
            members(c1={"A": 2}, c2={"A": 1, "B": 3}, c3={"B": 1}),
            {"A": [0, 1, 2, 3], "B": [0, 1, 2, 3, 4]},
            {
                "A": {"c1-0": [0, 1], "c1-1": [2], "c2-0": [3]},
                "B": {"c2-0": [0, 1], "c2-1": [2], "c2-2": [3], "c3-0": [4]},
            },
            id="heterogeneous",
        ),
        pytest.param(members(c1={"t": 1}), {}, {}, id="topic absent"),
        pytest.param(members(c1={"t": 1}), {"t": []}, {}, id="topic without partitions"),
        pytest.param([], {"t": [0]}, {}, id="nobody"),
    ],
)
def test_the_table_of_the_specification(
    group: list[EvaluatedMember], partitions: dict[str, list[int]], expected: Shares
) -> None:
    """Every case that was tried against a JVM member comes out the same."""
    assert shares("range", group, partitions) == expected


def test_thread_ids_sort_as_whole_strings() -> None:
    """Twelve threads of one member sort 0, 1, 10, 11, 2 to 9."""
    order = java_sorted(f"g_a-{n}" for n in range(12))

    assert [thread.removeprefix("g_a-") for thread in order] == [
        "0",
        "1",
        "10",
        "11",
        *map(str, range(2, 10)),
    ]


def test_members_whose_names_extend_one_another_interleave() -> None:
    """`g_c` with 3 threads and `g_c-1` with 2 sort by the whole text."""
    found = shares("range", members(**{"g_c": {"t": 3}, "g_c-1": {"t": 2}}), {"t": [0, 1, 2, 3, 4]})

    assert found == {"t": {"g_c-0": [0], "g_c-1": [1], "g_c-1-0": [2], "g_c-1-1": [3], "g_c-2": [4]}}


def test_ids_beyond_ascii_sort_by_utf_16_units() -> None:
    """U+FF5E comes after U+1F600, whose first unit is a surrogate."""
    assert java_sorted(["\uff5e", "\U0001f600", "a"]) == ["a", "\U0001f600", "\uff5e"]
    assert sorted(["\U0001f600", "\uff5e"]) == ["\uff5e", "\U0001f600"]
    assert utf16_key("\U0001f600") < utf16_key("\uff5e")


def test_a_member_without_topics_changes_no_other_members_share() -> None:
    """An empty subscription takes no part in the arithmetic."""
    group = members(c1={"t": 1}, c2={"t": 1})
    partitions = {"t": list(range(5))}

    for strategy in ("range", "roundrobin", "sticky"):
        assert shares(strategy, [*group, EvaluatedMember("c0", {})], partitions) == shares(
            strategy, group, partitions
        )


def test_the_order_of_the_input_has_no_effect() -> None:
    """Members, topics and partitions may come in any order, as they do from ZooKeeper."""
    chance = random.Random(5)
    group = [EvaluatedMember(f"g_c{n}", {"b": 1 + n % 3, "a": 1}) for n in range(11)]
    partitions = {"a": list(range(17)), "b": list(range(23))}
    for strategy in ("range", "sticky"):
        first = assign(strategy, group, partitions).owners
        for _ in range(5):
            shuffled = {
                topic: chance.sample(partitions[topic], len(partitions[topic])) for topic in ("b", "a")
            }
            assert assign(strategy, chance.sample(group, len(group)), shuffled).owners == first


@pytest.mark.parametrize("name", ["Range", "RANGE", "round_robin", "rangee", ""])
def test_unknown_strategies_are_refused(name: str) -> None:
    """Kafka 0.8 would silently use range."""
    with pytest.raises(ConfigError, match=", ".join(STRATEGIES)):
        assign(name, [], {})


def test_every_partition_is_a_topic_partition() -> None:
    """The keys are `TopicPartition`s, so that callers can find them."""
    assert TopicPartition("t", 0) in assign("range", members(c1={"t": 1}), {"t": [0]}).owners


@pytest.mark.timeout(60)
def test_two_billion_threads_are_survived() -> None:
    """A registration may ask for that many; the first ones in Java's order take one partition each."""
    group = members(c1={"t": 2**31 - 1}, c2={"t": 1})
    expected = {"t": {"c1-0": [0], "c1-1": [1], "c1-10": [2], "c1-100": [3]}}
    assert shares("range", group, {"t": [0, 1, 2, 3]}) == expected


@pytest.mark.parametrize("count", [1, 9, 10, 11, 20, 100, 101, 1009])
def test_very_many_threads_are_counted_in_the_order_of_their_ids(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remaining threads are the first ones of a full sort."""
    everything = sorted(f"c1-{n}" for n in range(count))
    for most in (1, 7, 50):
        monkeypatch.setattr(kafka_assignors, "THREADS_COUNTED", most)
        assert kafka_assignors.threads_by_topic(members(c1={"t": count}))["t"][:most] == everything[:most]
