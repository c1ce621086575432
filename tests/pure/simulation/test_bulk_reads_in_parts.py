"""Bulk reads that are no picture of one moment: things happen between any two of their paths."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation import Simulation
from tests.simulation.group.setup import draw

SEEDS = 4
STEPS = 600


@pytest.mark.parametrize("bulk_paths", [1, 2])
def test_schedules_hold_where_bulk_reads_are_cut(bulk_paths: int) -> None:
    """A 3.4 server is read path by path, a big group packet by packet; nothing rests on more (recipes 3)."""
    for seed in range(SEEDS):
        Simulation(seed, setup=replace(draw(seed, STEPS), bulk_paths=bulk_paths)).run()


def test_schedules_are_drawn_with_whole_and_with_cut_reads() -> None:
    """So the many seeds meet both, and the server of each reads as drawn."""
    drawn = {draw(seed, STEPS).bulk_paths for seed in range(50)}

    assert drawn == {None, 1, 2, 5}
    assert all(
        Simulation(seed, steps=0).world.server.bulk_paths == draw(seed, 0).bulk_paths for seed in range(10)
    )
