"""The interleavings that the recipes rest on, those marked [M] among them, on the production machine."""

from __future__ import annotations

import pytest

from tests.pure.simulation.scenarios import SCENARIOS, Scenario


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_interleaving_that_the_model_found_is_survived(scenario: Scenario) -> None:
    """Each one says which part of the recipes it shows."""
    scenario()
