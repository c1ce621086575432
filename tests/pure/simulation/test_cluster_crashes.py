"""A crash of the controller at every numbered point of every action, and pairs of crashes.

R45: once or twice in a row, it still ends as asked. The points are counted in a run without a crash.
"""

from __future__ import annotations

import random

import pytest

from tests.pure.simulation.cluster_actions import ACTIONS
from zkgroup.testing.cluster_simulation.crashes import play

PAIRS = 12
"""Of each action, drawn; the second point is counted in what the next controller does."""


WITHOUT_WRITES = {"brokers-return"}
"""What is to be done is in ZooKeeper already, and has only to be told."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ACTIONS)
def test_a_crash_at_every_point(name: str) -> None:
    """R45, controller item 39: S11-S17, L6, L7, and every acknowledged line, whatever was going on."""
    action = ACTIONS[name]
    points = play(action).passed
    crashed = [play(action, [at]).crashed for at in range(len(points))]

    assert crashed == [[point] for point in points]
    assert {point.split()[-1] for point in points} >= {"sent", "handled", "answered"}
    assert ("transaction applied" in points) is (name not in WITHOUT_WRITES)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ACTIONS)
def test_two_crashes_in_a_row(name: str) -> None:
    """R45: the next controller dies too, while it takes over or goes on."""
    action = ACTIONS[name]
    chance = random.Random(name)
    points = len(play(action).passed)
    for _ in range(PAIRS):
        pair = chance.randrange(points), chance.randrange(40)
        assert play(action, pair).crashed
