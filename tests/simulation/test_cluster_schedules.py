"""Seeded schedules of controllers and brokers: S11-S17 throughout, L6 and L7 once the faults have ended.

CI runs 2,000; `ZKGROUP_CLUSTER_SCHEDULES=100000` runs that many. A failure prints its seed;
`ClusterSimulation(seed).run()` does it again.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from zkgroup.testing.cluster_simulation import ClusterSimulation

BATCH = 250
SCHEDULES = int(os.environ.get("ZKGROUP_CLUSTER_SCHEDULES", "2000"))


def batches(schedules: int) -> list[range]:
    """All seeds below this number, in batches of that size or somewhat more; fewer make one batch."""
    count = max(1, schedules // BATCH)
    return [range(i * schedules // count, (i + 1) * schedules // count) for i in range(count)]


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
    """Ours and Kafka's brokers: started, led, and every line acknowledged."""
    figures: Counter[str] = ClusterSimulation(seed, steps=0).run().figures

    assert figures["elections"] == 1
    assert figures["acknowledged lines"] > 0
