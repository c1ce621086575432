"""The exhaustive walk over the recipes: they hold, and each rule is needed.

A short selection by default; all configurations with `ZKGROUP_MODEL=all` (minutes).
"""

from __future__ import annotations

import os

import pytest

from tests.programs.model.configurations import AS_WRITTEN, BROKEN, CONFIGURATIONS, OUTSIDE
from tests.programs.model.exploration import explore
from tests.programs.model.values import RULES

WALKS_ALL = os.environ.get("ZKGROUP_MODEL") == "all"
SHORT = {
    "foreign-writes",
    "reassert",
    "reset",
    "reset-then-stranger",
    "shared-client-lost",
    "group-deletion",
    "two-by-two-steal",
    "lagging-steal",
    "jvm-loses",
    "jvm-and-two",
}
"""Configurations that hold and are walked in seconds; those that do not hold are all short."""


def _chosen(names: dict[str, object]) -> list[str]:
    return [name for name in names if WALKS_ALL or name in SHORT]


@pytest.mark.parametrize("name", _chosen(AS_WRITTEN))
def test_recipes_hold(name: str) -> None:
    """Safe at every accepted write, no member stuck, and no cycle that avoids the goal (recipes 12)."""
    found = explore(CONFIGURATIONS[name])

    assert (found.verdict, found.violation) == ("holds", None)


WITNESSES = {
    "marker-by-equality": "recipes 6: a foreign write over a reset hides it",
    "adopt-owner-first": "recipes 5: a successor's fence is adopted",
    "retry-unregistered": "recipes 10: a member without registration retries for ever",
    "deaf": "recipes 9: a client's new session is used by a member that believes in the old one",
    "obey-without-owner": "recipes 6: a fence is taken from an offset without reading the owner",
    "session-from-client": "recipes 2: claims in a session that has no registration",
}
"""The rules that were found by this model."""


@pytest.mark.parametrize("name", [*BROKEN, *OUTSIDE])
def test_recipe_without_a_rule_is_found_out(name: str) -> None:
    """recipes 2, recipes 5, recipes 6, recipes 9, recipes 10: each rule that the
    walk needs is left out once, and the walk finds the violation that it prevents.
    """
    found = explore(CONFIGURATIONS[name])

    assert found.verdict == "violated", WITNESSES.get(name)
    assert found.trace


def test_every_rule_is_left_out_somewhere() -> None:
    """A rule whose absence causes no violation is not needed, or not modelled."""
    left_out = {rule for cfg in CONFIGURATIONS.values() for rule in cfg.without}

    assert set(RULES) - left_out == {"life check"}  # needs the deletion of offsets, which is not promised
    assert WITNESSES.keys() <= BROKEN.keys()


def test_walk_that_is_cut_short_says_so() -> None:
    """A walk that a limit ends has no verdict."""
    found = explore(CONFIGURATIONS["foreign-writes"], limit_states=2000)

    assert found.verdict == "unfinished"
