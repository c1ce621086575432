"""Seeded schedules of controllers and brokers: S11-S17 throughout, L6 and L7 once the faults have ended.

The first ones; thousands more are in `tests/long/simulation`. A failure prints its seed;
`ClusterSimulation(seed).run()` does it again.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.pure.simulation.batches import FIRST
from tests.pure.simulation.drawn import hold_for_clusters
from tests.simulation.cluster import ClusterSimulation


def test_drawn_schedules_of_clusters_hold() -> None:
    """S11-S17 throughout, L6 and L7 after the faults, and every acknowledged record."""
    figures = hold_for_clusters(range(FIRST))

    wanted = ("elections", "fenced writes", "leader changes", "moves begun", "foreign writes", "fault stall")
    assert all(figures[each] for each in wanted), figures


def test_same_seed_is_the_same_schedule() -> None:
    """The same seed gives the same schedule."""

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
    """The cluster starts, has leaders, and acknowledges every record."""
    figures: Counter[str] = ClusterSimulation(seed, steps=0).run().figures

    assert figures["elections"] == 1
    assert figures["acknowledged records"] > 0


@pytest.mark.parametrize(
    "seed",
    [
        55103,  # a deletion waits for a reassignment, and that for an offline replica of a live broker
        1009716,  # a write that an ACL refused is tried again only after a backoff
    ],
)
def test_schedules_that_were_once_judged_wrongly_hold(seed: int) -> None:
    """Past bug of the simulation's own checks, not of the controller."""
    assert ClusterSimulation(seed).run().converged_ms is not None
