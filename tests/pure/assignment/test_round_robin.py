"""Round robin: the order of Java's string hash."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from zkgroup.assignment import assign, java_hash, round_robin_ties
from zkgroup.errors import AssignmentError
from zkgroup.model import EvaluatedMember, TopicPartition


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[topic1,0]", -315570884),
        ("[topic1,10]", -1192763153),
        ("[page-views,3]", 768774027),
        ("[Aa,0]", -1626752098),
        ("[BB,0]", -1626752098),
        ("", 0),
        ("\U0001f600", 1772899),
    ],
)
def test_the_java_hash(text: str, value: int) -> None:
    """Signed 32 bits over UTF-16 units, as String.hashCode."""
    assert java_hash(text) == value


def test_one_topic_is_dealt_in_hash_order() -> None:
    """`topic1` with 12 partitions is assigned as 10, 11, 0 to 9."""
    group = [EvaluatedMember(f"c{letter}", {"topic1": 1}) for letter in "abcdefghijkl"]

    owners = assign("roundrobin", group, {"topic1": list(range(12))}).owners

    by_thread = {thread: tp.partition for tp, thread in owners.items()}
    assert [by_thread[f"c{letter}-0"] for letter in "abcdefghijkl"] == [10, 11, *range(10)]


def test_two_topics_are_dealt_in_one_pass() -> None:
    """There is no new start per topic; a JVM member claimed the same."""
    group = [
        EvaluatedMember("c1", {"orders": 2, "page-views": 2}),
        EvaluatedMember("c2", {"orders": 1, "page-views": 1}),
    ]

    owners = assign("roundrobin", group, {"orders": [0, 1], "page-views": [0, 1, 2, 3]}).owners

    assert {str(tp): thread for tp, thread in owners.items()} == {
        "orders-0": "c1-0",
        "orders-1": "c1-1",
        "page-views-0": "c2-0",
        "page-views-1": "c1-0",
        "page-views-2": "c1-1",
        "page-views-3": "c2-0",
    }


@pytest.mark.parametrize(
    "group",
    [
        [EvaluatedMember("c1", {"a": 1, "b": 1}), EvaluatedMember("c2", {"a": 1})],
        [EvaluatedMember("c1", {"a": 1, "b": 2})],
    ],
    ids=["topics differ", "thread counts differ"],
)
def test_unequal_subscriptions_beside_a_jvm_member_are_refused(group: list[EvaluatedMember]) -> None:
    """A JVM member would fail its rebalance; here it is an error before any znode is touched."""
    jvm = EvaluatedMember("c3", {"a": 1, "b": 1}, negotiates=False)
    with pytest.raises(AssignmentError, match=r"topics 'a' and 'b' to differ in c\d-\d"):
        assign("roundrobin", [*group, jvm], {"a": [0], "b": [0]})


def test_a_topic_that_does_not_exist_counts_for_the_precondition() -> None:
    """Subscriptions are compared, not existing topics."""
    group = [EvaluatedMember("c1", {"a": 1, "missing": 1}), EvaluatedMember("c2", {"a": 1}, negotiates=False)]

    with pytest.raises(AssignmentError):
        assign("roundrobin", group, {"a": [0]})


def test_unequal_subscriptions_are_assigned_as_kip_49_says() -> None:
    """Its example; then topics in its order (fewest threads, most partitions, name), the emptiest first."""
    two = [EvaluatedMember("c0", {"t0": 1}), EvaluatedMember("c1", {"t0": 1, "t1": 1})]
    three = [
        EvaluatedMember("c0", {"t0": 1, "t1": 1, "t2": 1}),
        EvaluatedMember("c1", {"t1": 1, "t2": 1}),
        EvaluatedMember("c2", {"t2": 1}),
    ]
    each = {topic: range(3) for topic in ("t0", "t1", "t2")}

    assert _shares(assign("roundrobin", two, {"t0": range(3), "t1": range(3)}).owners) == {
        "c0": ["t0-0", "t0-1", "t0-2"],
        "c1": ["t1-0", "t1-1", "t1-2"],
    }
    assert _shares(assign("roundrobin", three, each).owners) == {
        "c0": ["t0-0", "t0-1", "t0-2"],
        "c1": ["t1-0", "t1-1", "t1-2"],
        "c2": ["t2-0", "t2-1", "t2-2"],
    }


def _shares(owners: Mapping[TopicPartition, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for tp, thread in sorted(owners.items()):
        found.setdefault(thread.rpartition("-")[0], []).append(str(tp))
    return found


def test_a_group_that_wants_nothing_is_no_error() -> None:
    """Kafka 0.9 accepts it and 0.8.2.2 fails; an error would help no one."""
    assert assign("roundrobin", [EvaluatedMember("c1", {})], {"a": [0]}).owners == {}


def test_a_tie_of_hashes_is_detected_and_broken_by_name() -> None:
    """Java's hash of `Aa` and `BB` is equal; the assignment reports it."""
    group = [EvaluatedMember("c1", {"Aa": 1, "BB": 1}), EvaluatedMember("c2", {"Aa": 1, "BB": 1})]

    found = assign("roundrobin", group, {"BB": [0], "Aa": [0]})

    assert found.owners == {TopicPartition("Aa", 0): "c1-0", TopicPartition("BB", 0): "c2-0"}
    assert len(found.notes) == 1
    assert "Aa-0, BB-0" in found.notes[0]
    assert round_robin_ties({"BB": [0], "Aa": [0], "x": [0]}) == (
        (TopicPartition("Aa", 0), TopicPartition("BB", 0)),
    )


def test_no_tie_no_note() -> None:
    """Usual names have different hashes."""
    group = [EvaluatedMember("c1", {"orders": 1})]

    assert assign("roundrobin", group, {"orders": list(range(100))}).notes == ()
