"""Seeded schedules of the production machine: safe at every step, converged at the end.

The first ones, and some in each of the model's groups; thousands more are in `tests/long/simulation`.
A failure prints its seed; `Simulation(seed, steps=...).run()` does it again.
"""

from __future__ import annotations

import pytest

from tests.pure.audit.simulated import AUDITED
from tests.pure.simulation.batches import BATCH, FIRST, batches
from tests.pure.simulation.drawn import hold_for_members
from tests.pure.simulation.setups import SEEDS_OF_A_GROUP, SETUPS
from tests.simulation import Simulation


def test_drawn_schedules_hold() -> None:
    """S1-S10, S22 throughout, L1-L5 after the faults (recipes 12)."""
    figures = hold_for_members(range(FIRST + 5))  # a refused write of a fenced member is rare

    wanted = ("deliveries", "commits accepted", "fenced writes refused", "sessions expired", "release.ok")
    assert all(figures[each] for each in wanted), figures


@pytest.mark.parametrize("schedules", [1, 50, 99, 249, 250, 499, 2000, 20_001])
def test_every_number_of_schedules_is_run(schedules: int) -> None:
    """Batches have each seed once, and the least size."""
    for first in (0, 1, 250):
        found = batches(schedules, first)
        wanted = range(first, schedules)

        assert [seed for seeds in found for seed in seeds] == list(wanted)
        assert all(min(len(wanted), BATCH) <= len(seeds) < 2 * BATCH for seeds in found)


@pytest.mark.parametrize("name", sorted(SETUPS.keys() - AUDITED))
def test_group_of_the_model_holds(name: str) -> None:
    """Recipes 12: the invariants of the exhaustive model hold for the production machine in the same
    group. The same schedules of the other groups run in `tests/pure/audit/test_simulated_groups.py`."""
    for seed in range(SEEDS_OF_A_GROUP):
        Simulation(seed, setup=SETUPS[name]).run()


def test_lost_replies_of_claims_lead_to_adoptions() -> None:
    """With many lost responses, claims are recognised by reading back, with one token each (recipes 5)."""
    reports = [Simulation(seed, setup=SETUPS["lost-claims"]).run() for seed in range(13)]

    assert sum(report.figures["claims adopted"] for report in reports) >= 5


def test_same_seed_is_the_same_schedule() -> None:
    """The same seed gives the same schedule."""

    def transcript(seed: int) -> list[str]:
        simulation = Simulation(seed, steps=300)
        simulation.run()
        return [record.line() for record in simulation.world.recording.records]

    assert transcript(7) == transcript(7)
    assert transcript(7) != transcript(8)
