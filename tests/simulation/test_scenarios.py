"""The interleavings that the recipes rest on, those marked [M] among them, on the production machine."""

from __future__ import annotations

import pytest

from tests.simulation.scenarios import SCENARIOS, Scenario


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_interleaving_that_the_model_found_is_survived(scenario: Scenario) -> None:
    """Recipes 4 [M], recipes 5 [M], recipes 6 [M], recipes 9 [M], recipes 10 [M]: each one says which."""
    scenario()
