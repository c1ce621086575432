"""Thousands of drawn schedules, after the first ones, which are in `tests/pure/simulation`.

`ZKGROUP_SIMULATION_SCHEDULES=20000` and `ZKGROUP_CLUSTER_SCHEDULES=100000` say how many in all.
A failure prints its seed; `Simulation(seed).run()`, or `ClusterSimulation(seed).run()`, does it again.
"""

from __future__ import annotations

import os

import pytest

from tests.pure.simulation.batches import FIRST, batches, name_of
from tests.pure.simulation.drawn import hold_for_clusters, hold_for_members

pytestmark = pytest.mark.timeout(600)

OF_MEMBERS = int(os.environ.get("ZKGROUP_SIMULATION_SCHEDULES", "2000"))
OF_CLUSTERS = int(os.environ.get("ZKGROUP_CLUSTER_SCHEDULES", "2000"))


@pytest.mark.parametrize("seeds", batches(OF_MEMBERS, FIRST), ids=name_of)
def test_schedules_of_members_hold_and_the_faults_bite(seeds: range) -> None:
    """Item 54, recipes 12: S1-S10, S22 throughout, L1-L5 after the faults; and the faults did bite."""
    hold_for_members(seeds)


@pytest.mark.parametrize("seeds", batches(OF_CLUSTERS, FIRST), ids=name_of)
def test_schedules_of_clusters_hold_and_the_faults_bite(seeds: range) -> None:
    """S11-S17 throughout, L6 and L7 after the faults, and every acknowledged line."""
    hold_for_clusters(seeds)
