"""Seeded schedules of the production machine: safe at every step, converged at the end.

CI runs 2,000 (and some in each of the model's groups); `ZKGROUP_SIMULATION_SCHEDULES=20000` runs that many.
A failure prints its seed; `Simulation(seed, steps=...).run()` does it again.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.simulation.setups import SETUPS
from zkgroup.testing import Simulation

BATCH = 100
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
}
"""A batch in which less happened proves nothing (reliability.md 2.5)."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("batch", range(SCHEDULES // BATCH))
def test_drawn_schedules_hold_and_the_faults_bite(batch: int) -> None:
    """Item 54, recipes 12: S1-S4, S6-S10, S22 throughout, L1-L5 after the faults; and the faults did bite."""
    figures: Counter[str] = Counter()
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        figures.update(Simulation(seed).run().figures)

    assert {name: figures[name] for name in LEAST if figures[name] < LEAST[name]} == {}


@pytest.mark.parametrize("name", SETUPS)
def test_group_of_the_model_holds(name: str) -> None:
    """Recipes 12: what the exhaustive model promises of a group holds for the real machine in that group."""
    for seed in range(12):
        Simulation(seed, setup=SETUPS[name]).run()


def test_same_seed_is_the_same_schedule() -> None:
    """A failure can be replayed: everything follows from the seed."""

    def transcript(seed: int) -> list[str]:
        simulation = Simulation(seed, steps=300)
        simulation.run()
        return [record.line() for record in simulation.world.recording.records]

    assert transcript(7) == transcript(7)
    assert transcript(7) != transcript(8)
