"""Bulk reads that are no picture of one moment: things happen between any two of their paths."""

from __future__ import annotations

import pytest

from zkgroup.testing import Simulation

SEEDS = 20


@pytest.mark.timeout(300)
@pytest.mark.parametrize("bulk_paths", [1, 2])
def test_schedules_hold_where_bulk_reads_are_cut(bulk_paths: int) -> None:
    """Recipes 3: a 3.4 server is read path by path, a big group packet by packet; nothing rests on more."""
    for seed in range(SEEDS):
        simulation = Simulation(seed)
        simulation.world.server.bulk_paths = bulk_paths
        simulation.run()
