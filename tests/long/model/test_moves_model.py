"""Moves under control: every configuration of their model gives the expected answer."""

from __future__ import annotations

from typing import get_args

import pytest

from tests.programs.model.moves import CONFIGURATIONS, Rule, explore


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_moves_are_under_control(name: str) -> None:
    """Recipes 4 and 27: never more moves than the limit, nothing given up before the new owner is ready or
    the bound has passed, and no partition without an owner for longer; each rule is needed."""
    assert explore(CONFIGURATIONS[name]).verdict == CONFIGURATIONS[name].verdict


def test_every_rule_of_moves_is_left_out_somewhere() -> None:
    """A rule whose absence harms nothing is not needed, or not modelled."""
    assert {cfg.without for cfg in CONFIGURATIONS.values()} == {None, *get_args(Rule)}
