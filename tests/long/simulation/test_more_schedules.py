"""Hundreds of drawn schedules, or thousands, after the first ones, which are in `tests/pure/simulation`.

`ZKGROUP_SIMULATION_SCHEDULES=20000`, `ZKGROUP_CLUSTER_SCHEDULES=100000` and
`ZKGROUP_COORDINATOR_SCHEDULES=20000` say how many in all.
A failure prints its seed, and the call that does it again, as `Simulation(seed).run()`.
"""

from __future__ import annotations

import os

import pytest

from tests.pure.simulation.batches import FIRST, batches, name_of, require_that_faults_bit
from tests.pure.simulation.drawn import (
    OF_CLUSTERS,
    OF_COORDINATORS,
    OF_MEMBERS,
    hold_for_clusters,
    hold_for_coordinators,
    hold_for_members,
)
from tests.pure.simulation.setups import SEEDS_OF_A_GROUP, SETUPS
from tests.pure.simulation.test_coordinator_schedules import FIRST_OF_COORDINATORS
from tests.pure.simulation.test_followed_acls import run
from tests.simulation import Simulation

MEMBERS = int(os.environ.get("ZKGROUP_SIMULATION_SCHEDULES", "60"))
CLUSTERS = int(os.environ.get("ZKGROUP_CLUSTER_SCHEDULES", "60"))
COORDINATED = int(os.environ.get("ZKGROUP_COORDINATOR_SCHEDULES", "130"))


@pytest.mark.parametrize("seeds", batches(MEMBERS, FIRST), ids=name_of)
def test_schedules_of_members_hold_and_the_faults_bite(seeds: range) -> None:
    """S1-S10, S22 throughout, L1-L5 after the faults; and the faults took effect (recipes 12)."""
    require_that_faults_bit(hold_for_members(seeds), seeds, OF_MEMBERS)


@pytest.mark.parametrize("name", SETUPS)
def test_group_of_the_model_holds_for_more_seeds(name: str) -> None:
    """The invariants of the exhaustive model hold for the production machine in that group (recipes 12)."""
    for seed in range(SEEDS_OF_A_GROUP, 3):
        Simulation(seed, setup=SETUPS[name]).run()


@pytest.mark.parametrize("seeds", batches(CLUSTERS, FIRST), ids=name_of)
def test_schedules_of_clusters_hold_and_the_faults_bite(seeds: range) -> None:
    """S11-S17 throughout, L6 and L7 after the faults, and every acknowledged record."""
    require_that_faults_bit(hold_for_clusters(seeds), seeds, OF_CLUSTERS)


@pytest.mark.parametrize("seeds", batches(COORDINATED, FIRST_OF_COORDINATORS), ids=name_of)
def test_schedules_of_coordinated_groups_hold_and_the_faults_bite(seeds: range) -> None:
    """S23-S34 throughout, L8 after the faults; and the faults took effect."""
    require_that_faults_bit(hold_for_coordinators(seeds), seeds, OF_COORDINATORS)


def test_no_request_is_decided_but_by_the_acls_of_some_moment() -> None:
    """Of one since the last notification that was followed."""
    assert run(range(20, 80))["runs"] == 60
