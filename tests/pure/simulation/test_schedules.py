"""Seeded schedules of the production machine: safe at every step, converged at the end.

CI runs 2,000 (and some in each of the model's groups); `ZKGROUP_SIMULATION_SCHEDULES=20000` runs that many.
A failure prints its seed; `Simulation(seed, steps=...).run()` does it again.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.pure.simulation.batches import BATCH, batches, name_of, require_that_faults_bit
from tests.pure.simulation.setups import SETUPS
from zkgroup.testing import Simulation

SCHEDULES = int(os.environ.get("ZKGROUP_SIMULATION_SCHEDULES", "2000"))
LEAST = {
    "deliveries": 1500,
    "commits accepted": 600,
    "ownership changes": 300,
    "fenced writes refused": 25,
    "refused stale commits": 3,
    "sessions expired": 80,
    "lease.expired": 5,
    "reset.obeyed": 5,
    "foreign_write": 5,
    "commit.info": 5,
    "claim.info": 1,
    "release.ok": 25,
}
"""In a hundred schedules."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seeds", batches(SCHEDULES), ids=name_of)
def test_drawn_schedules_hold_and_the_faults_bite(seeds: range) -> None:
    """Item 54, recipes 12: S1-S10, S22 throughout, L1-L5 after the faults; and the faults did bite."""
    figures: Counter[str] = Counter()
    for seed in seeds:
        figures.update(Simulation(seed).run().figures)

    require_that_faults_bit(figures, seeds, LEAST)


@pytest.mark.parametrize("schedules", [1, 50, 99, 249, 250, 499, 2000, 20_001])
def test_every_number_of_schedules_is_run(schedules: int) -> None:
    """Each seed once, whatever `ZKGROUP_SIMULATION_SCHEDULES` says, and no batch smaller than it must be."""
    found = batches(schedules)

    assert [seed for seeds in found for seed in seeds] == list(range(schedules))
    assert all(min(schedules, BATCH) <= len(seeds) < 2 * BATCH for seeds in found)


@pytest.mark.parametrize("name", SETUPS)
def test_group_of_the_model_holds(name: str) -> None:
    """Recipes 12: what the exhaustive model promises of a group holds for the real machine in that group."""
    for seed in range(12):
        Simulation(seed, setup=SETUPS[name]).run()


def test_lost_replies_of_claims_lead_to_adoptions() -> None:
    """Recipes 5: where replies get lost often, claims are found standing, and it is still one token each."""
    reports = [Simulation(seed, setup=SETUPS["lost-claims"]).run() for seed in range(30)]

    assert sum(report.figures["claims adopted"] for report in reports) >= 5


def test_same_seed_is_the_same_schedule() -> None:
    """A failure can be replayed: everything follows from the seed."""

    def transcript(seed: int) -> list[str]:
        simulation = Simulation(seed, steps=300)
        simulation.run()
        return [record.line() for record in simulation.world.recording.records]

    assert transcript(7) == transcript(7)
    assert transcript(7) != transcript(8)
