"""The strategy that a group uses, by the registrations and owners of its members."""

from __future__ import annotations

import pytest

from zkgroup.assignment import STRATEGIES, Strategy, agreed_strategy, assign
from zkgroup.assignment.strategies import inferred_strategy
from zkgroup.errors import ConfigError
from zkgroup.model import Assignment, EvaluatedMember, TopicPartition
from zkgroup.settings import ASSIGNMENT_STRATEGIES, GroupSettings

EQUAL = [EvaluatedMember(name, {"t": 1, "u": 1}) for name in ("g_a", "g_b")]
UNEQUAL = [EvaluatedMember("g_a", {"t": 1}), EvaluatedMember("g_b", {"t": 1, "u": 1})]
PARTITIONS = {"t": (0, 1, 2, 3), "u": (0, 1, 2)}


@pytest.mark.parametrize(
    ("published", "agreed"),
    [
        ([], None),
        ([None, ""], None),
        (["range", None], "range"),
        (["roundrobin", None], "roundrobin"),
        (["sticky", "sticky"], "sticky"),
        (["sticky", None], "range"),
        (["sticky", "roundrobin"], "range"),
    ],
)
def test_members_agree_on_a_strategy_or_fall_back(published: list[str | None], agreed: str | None) -> None:
    """Sticky needs every member (recipes 4)."""
    assert agreed_strategy(published) == agreed


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_owners_that_one_strategy_explains_identify_it(strategy: str) -> None:
    """Owners dealt out by range, or by round robin, are known as such where only that one explains them."""
    owners = assign(strategy, EQUAL, PARTITIONS).owners

    assert inferred_strategy(EQUAL, PARTITIONS, owners) == strategy


def test_owners_that_nothing_explains_are_taken_for_kafkas_default() -> None:
    """No owners at all, some only, and members to whom round-robin cannot deal."""
    for owners in ({}, {TopicPartition("t", 0): "g_b-0"}):
        assert inferred_strategy(EQUAL, PARTITIONS, owners) == "range"
        assert inferred_strategy(UNEQUAL, PARTITIONS, owners) == "range"


@pytest.mark.parametrize(
    ("own", "published", "used"),
    [
        ("range", ["roundrobin", None], "range"),
        ("roundrobin", ["range"], "roundrobin"),
        ("sticky", ["sticky"], "sticky"),
        ("sticky", ["sticky", None], "range"),
        ("sticky", ["sticky", "range"], "range"),
        ("sticky", [], "sticky"),
    ],
)
def test_a_member_uses_its_own_strategy_unless_it_needs_the_others(
    own: str, published: list[str | None], used: str
) -> None:
    """As in Kafka; a strategy that starts from the previous assignment needs every member (recipes 4)."""
    assert agreed_strategy(published, own) == used


def test_a_strategy_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """`assign`, the agreement and the inference of JVM groups take a new strategy from the table."""

    def first_takes_all(members: object, partitions: object) -> Assignment:
        return Assignment({TopicPartition("t", 0): "g_a-0"}, ())

    row = Strategy(first_takes_all, needs_previous=False, known_to_jvm=True)
    monkeypatch.setitem(STRATEGIES, "first", row)  # type: ignore[arg-type]

    assert assign("first", EQUAL, PARTITIONS).owners == {TopicPartition("t", 0): "g_a-0"}
    assert agreed_strategy(["first", None]) == "first"
    assert inferred_strategy(EQUAL, PARTITIONS, {TopicPartition("t", 0): "g_a-0"}) == "first"


def test_settings_take_the_keys_of_the_table() -> None:
    """Each key is a value of the setting, and no other text is."""
    assert tuple(STRATEGIES) == ASSIGNMENT_STRATEGIES
    for name in STRATEGIES:
        assert GroupSettings(partition_assignment_strategy=name).partition_assignment_strategy == name
    with pytest.raises(ConfigError, match="partition_assignment_strategy"):
        GroupSettings(partition_assignment_strategy="first")
