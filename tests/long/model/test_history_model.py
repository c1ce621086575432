"""The recipe of the history, searched exhaustively: it holds, and each rule is needed."""

from __future__ import annotations

import os

import pytest

from tests.programs.model.history.configurations import AS_WRITTEN, BROKEN, answer
from tests.programs.model.history.recipes import RULES

WALKS_ALL = os.environ.get("ZKGROUP_MODEL") == "all"


@pytest.mark.parametrize("name", [name for name, each in AS_WRITTEN.items() if WALKS_ALL or each.is_short])
def test_the_history_holds(name: str) -> None:
    """Recipes 25: no row is lost, none is there twice, the rows lead to the members, and what the oldest
    member has noted is written in the end.
    """
    found = answer(AS_WRITTEN[name], 880)

    assert (found.verdict, found.violations, found.stuck) == ("holds", {}, None)


@pytest.mark.parametrize("name", BROKEN)
def test_a_rule_of_the_history_that_is_left_out_is_missed(name: str) -> None:
    """Recipes 25: the search finds what the rule prevents."""
    expected = BROKEN[name]
    found = answer(expected, 880)

    assert found.verdict == expected.verdict
    assert set(found.violations) == ({expected.violation} if expected.violation else set())


def test_every_rule_of_the_history_is_left_out_somewhere() -> None:
    """A rule whose absence harms nothing is not needed, or not modelled."""
    assert {rule for each in BROKEN.values() for rule in each.configuration.without} == set(RULES)
