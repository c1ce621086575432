"""Seeded schedules of controllers and brokers: S11-S17 throughout, L6 and L7 once the faults have ended.

CI runs 2,000; `ZKGROUP_CLUSTER_SCHEDULES=100000` runs that many. A failure prints its seed;
`ClusterSimulation(seed).run()` does it again.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.pure.simulation.batches import batches, name_of, require_that_faults_bit
from zkgroup.testing.cluster_simulation import ClusterSimulation

SCHEDULES = int(os.environ.get("ZKGROUP_CLUSTER_SCHEDULES", "2000"))
LEAST = {
    "elections": 120,
    "governed writes": 600,
    "fenced writes": 80,
    "foreign writes": 60,
    "isr writes": 60,
    "leader changes": 120,
    "moves begun": 30,
    "moves ended": 20,
    "topics deleted": 20,
    "acknowledged lines": 1000,
    "sessions expired": 100,
    "requests sent": 2000,
    "requests strays": 1,
    "requests cut unanswered": 1,
    "note takeover.grace": 40,
    "note first_terms.told": 2,
    "shutdowns granted": 5,
    "stranger write_request": 40,
    "stranger delete_request": 15,
    "stranger real_step": 3,
    "stranger break_znode": 40,
    "note znode.unreadable": 8,
    "note election.asked": 10,
    "note election.unclean": 1,
    "note plan.ended": 20,
    "operation configure": 40,
    "operation force_deletion": 10,
    "topics made again": 3,
    "note abandoned.deleted": 3,
}
"""In a hundred schedules."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seeds", batches(SCHEDULES), ids=name_of)
def test_drawn_schedules_of_clusters_hold_and_the_faults_bite(seeds: range) -> None:
    """R42-R48: S11-S17 throughout, L6 and L7 after the faults, and every acknowledged line."""
    figures: Counter[str] = Counter()
    for seed in seeds:
        figures.update(ClusterSimulation(seed).run().figures)

    require_that_faults_bit(figures, seeds, LEAST)


def test_same_seed_is_the_same_schedule() -> None:
    """R68: a failure can be replayed: everything follows from the seed."""

    def transcript(seed: int) -> list[str]:
        simulation = ClusterSimulation(seed, steps=100)
        simulation.begin()
        for _ in range(100):
            simulation.step()
        return [str(entry) for entry in simulation.world.server.log]

    assert transcript(7) == transcript(7)
    assert transcript(7) != transcript(8)


@pytest.mark.parametrize("seed", [0, 7])
def test_a_cluster_without_faults_holds(seed: int) -> None:
    """Started, led, and every line acknowledged."""
    figures: Counter[str] = ClusterSimulation(seed, steps=0).run().figures

    assert figures["elections"] == 1
    assert figures["acknowledged lines"] > 0
