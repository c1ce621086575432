"""Which strategy a group uses, by what its members say and own."""

from __future__ import annotations

import pytest

from zkgroup.assignment import assign
from zkgroup.assignment.strategies import agreed_strategy, inferred_strategy
from zkgroup.model import EvaluatedMember, TopicPartition

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
    """Sticky needs everybody (recipes 4)."""
    assert agreed_strategy(published) == agreed


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_owners_that_one_strategy_alone_explains_tell_it(strategy: str) -> None:
    """Owners dealt out by range, or by round robin, are known as such where only that one explains them."""
    owners = assign(strategy, EQUAL, PARTITIONS).owners

    assert inferred_strategy(EQUAL, PARTITIONS, owners) == strategy


def test_owners_that_nothing_explains_are_taken_for_kafkas_default() -> None:
    """No owners at all, some only, and members to whom round-robin cannot deal."""
    for owners in ({}, {TopicPartition("t", 0): "g_b-0"}):
        assert inferred_strategy(EQUAL, PARTITIONS, owners) == "range"
        assert inferred_strategy(UNEQUAL, PARTITIONS, owners) == "range"
