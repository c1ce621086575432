"""Seeded schedules of coordinated groups: S23-S33 throughout, L8 once the faults have ended.

The first ones; thousands more are in `tests/long/simulation`. A failure prints its seed, and the call that
does it again.
"""

from __future__ import annotations

from tests.pure.simulation.drawn import hold_for_coordinators
from zkgroup.testing.simulation.coordinator import CoordinatorSimulation

FIRST_OF_COORDINATORS = 45
"""Schedules that this file runs; `tests/long/simulation` goes on from here."""


def test_drawn_schedules_of_coordinated_groups_hold() -> None:
    """S23-S33 throughout, L8 after the faults; and both kinds of members were there."""
    figures = hold_for_coordinators(range(FIRST_OF_COORDINATORS))

    wanted = ("generations", "commits of members", "commits of ZooKeeper members", "groups loaded")
    assert min(figures[each] for each in wanted) >= 5, figures


def test_same_seed_is_the_same_schedule() -> None:
    """The same seed gives the same schedule."""

    def transcript(seed: int) -> list[str]:
        simulation = CoordinatorSimulation(seed, steps=60)
        simulation.begin()
        for _ in range(60):
            simulation.step()
        return [str(entry) for entry in simulation.world.server.log]

    assert transcript(7) == transcript(7)
    assert transcript(7) != transcript(8)
