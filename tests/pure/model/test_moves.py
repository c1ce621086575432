"""Moves under control, by the small ones of their model's configurations; `tests/long/model` has all."""

from __future__ import annotations

import pytest

from tests.programs.model.moves import CONFIGURATIONS, explore


@pytest.mark.parametrize(
    "name", ["cuts", "no-watch", "cut-unnoticed", "no-bound", "claims-wait", "ready-outlives"]
)
def test_small_configurations_are_as_expected(name: str) -> None:
    """Recipes 4 and 27: the recipe holds, and the search misses each of these rules."""
    assert explore(CONFIGURATIONS[name]).verdict == CONFIGURATIONS[name].verdict
