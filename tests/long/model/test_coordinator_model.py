"""The recipes of the group coordinator, searched exhaustively: they hold, and each rule is needed."""

from __future__ import annotations

import os

import pytest

from tests.programs.model.coordinator.configurations import (
    AS_WRITTEN,
    BROKEN,
    NOT_NEEDED,
    OUTSIDE,
    Expected,
    answer,
)
from tests.programs.model.coordinator.world import RULES


def _chosen(configurations: dict[str, Expected]) -> list[str]:
    walks_all = os.environ.get("ZKGROUP_MODEL") == "all"
    return [name for name, expected in configurations.items() if walks_all or expected.is_short]


@pytest.mark.parametrize("name", _chosen({**AS_WRITTEN}))
def test_the_recipes_hold(name: str) -> None:
    """Recipes 20-23: no generation twice, no commit of an old generation or a deposed coordinator, never both
    kinds of members, and no group that is stuck.
    """
    found = answer(AS_WRITTEN[name], 880)

    assert (found.verdict, found.violations, found.stuck) == ("holds", {}, None)


@pytest.mark.parametrize("name", _chosen({**BROKEN, **OUTSIDE}))
def test_a_rule_that_is_left_out_is_missed(name: str) -> None:
    """Recipes 20, recipes 21, recipes 22, recipes 23: the search finds what the rule
    prevents.
    """
    expected = {**BROKEN, **OUTSIDE}[name]
    found = answer(expected, 880)

    assert found.verdict == expected.verdict
    assert set(found.violations) == ({expected.violation} if expected.violation else set())


def test_every_rule_is_left_out_somewhere() -> None:
    """A rule whose absence harms nothing is not needed, or not modelled."""
    left_out = {rule for each in BROKEN.values() for rule in each.configuration.without}

    assert set(RULES) - left_out == NOT_NEEDED


def test_a_search_that_is_cut_short_says_so() -> None:
    """It has no verdict."""
    assert answer(AS_WRITTEN["two-moves"], 0.2).verdict == "unfinished"
