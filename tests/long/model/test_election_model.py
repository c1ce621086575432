"""The recipes of the election, searched exhaustively: the properties, and that each rule is needed."""

from __future__ import annotations

import os

import pytest

from tests.programs.model.controller.configurations import ELECTIONS, answer

NAMES = [
    name
    for name, expected in ELECTIONS.items()
    if expected.is_short or os.environ.get("ZKGROUP_MODEL") == "all"
]


@pytest.mark.parametrize("name", NAMES)
def test_answer_is_the_expected_one(name: str) -> None:
    """Every interleaving within the bounds, and from each state a way back to one ruler (recipes 13)."""
    expected = ELECTIONS[name]
    found = answer(expected, 580)

    assert found.verdict == expected.verdict, (found.violations, found.stuck)
