"""The recipe of the records of commits, searched exhaustively: it holds, and each rule is needed."""

from __future__ import annotations

import os

import pytest

from tests.programs.model.commit_records.configurations import AS_WRITTEN, BROKEN, answer
from tests.programs.model.commit_records.recipes import RULES

WALKS_ALL = os.environ.get("ZKGROUP_MODEL") == "all"


@pytest.mark.parametrize("name", [name for name, each in AS_WRITTEN.items() if WALKS_ALL or each.is_short])
def test_the_records_hold(name: str) -> None:
    """Recipes 27: what is told of the writer is right, and something is where all keep records."""
    found = answer(AS_WRITTEN[name], 880)

    assert (found.verdict, found.violations, found.stuck) == ("holds", {}, None)


@pytest.mark.parametrize("name", BROKEN)
def test_a_rule_of_the_records_that_is_left_out_is_missed(name: str) -> None:
    """Recipes 27: the search finds what the rule prevents."""
    expected = BROKEN[name]
    found = answer(expected, 880)

    assert found.verdict == expected.verdict
    assert set(found.violations) == ({expected.violation} if expected.violation else set())


def test_every_rule_of_the_records_is_left_out_somewhere() -> None:
    """A rule whose absence harms nothing is not needed, or not modelled."""
    assert {rule for each in BROKEN.values() for rule in each.configuration.without} == set(RULES)
