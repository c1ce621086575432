"""A controller crashed at the numbered points of an action, which are counted in a run without a crash."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from tests.pure.simulation.cluster_actions import ACTIONS
from zkgroup.testing.simulation.cluster.simulation import play

STRIDE = 5
"""The tests of this folder take each fifth point; `tests/long/simulation` takes the others."""
WITHOUT_WRITES = {"brokers-return"}
"""What is to be done is in ZooKeeper already, and has only to be told."""


def points_of(name: str) -> Sequence[str]:
    """Every point that an action passes, in order, and nothing is missing in what they are."""
    points = play(ACTIONS[name]).passed
    assert {point.split()[-1] for point in points} >= {"sent", "handled", "answered"}
    assert ("transaction applied" in points) is (name not in WITHOUT_WRITES)
    return points


def each_fifth(points: int, name: str) -> range:
    """Numbers of the points that these tests take; actions have much in common, so each begins elsewhere."""
    return range(sum(name.encode()) % STRIDE, points, STRIDE)


def others(points: int, name: str) -> list[int]:
    """The numbers that `each_fifth` passes over."""
    return [at for at in range(points) if at not in each_fifth(points, name)]


def crash_at(name: str, points: Sequence[str], chosen: Sequence[int]) -> None:
    """S11-S17, L6, L7, and every acknowledged line, whatever was going on at these points."""
    crashed = [play(ACTIONS[name], [at]).crashed for at in chosen]

    assert crashed == [[points[at]] for at in chosen]


def pairs(name: str, points: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Pairs of crashes without end, drawn; the second point is counted in what the next controller does."""
    chance = random.Random(name)
    while True:
        yield chance.randrange(len(points)), chance.randrange(40)


def crash_twice(name: str, chosen: Sequence[tuple[int, int]]) -> None:
    """The next controller dies too, while it takes over or goes on."""
    for pair in chosen:
        assert play(ACTIONS[name], pair).crashed
