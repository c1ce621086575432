"""Crashes of a controller at the numbered points of an action, counted in a run without a crash."""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Iterator, Sequence

from tests.pure.simulation.cluster_actions import ACTIONS
from tests.simulation.cluster.simulation import play

STRIDE = 30
"""The tests of this folder use each thirtieth point; `tests/long/simulation` uses others."""
EVERY_POINT = os.environ.get("ZKGROUP_CRASH_POINTS") == "all"
WITHOUT_WRITES = {"brokers-return"}
"""Actions whose request is in ZooKeeper already: only requests to brokers follow."""


@functools.cache
def points_of(name: str) -> Sequence[str]:
    """Every point of an action, in order; the run must reach the action's end."""
    points = play(ACTIONS[name]).passed
    assert {point.split()[-1] for point in points} >= {"sent", "handled", "answered"}
    assert ("transaction applied" in points) is (name not in WITHOUT_WRITES)
    return points


def each_thirtieth(points: int, name: str) -> range:
    """Numbers of the points of these tests; actions have a common beginning, so each starts at another
    point."""
    return range(sum(name.encode()) % min(STRIDE, points), points, STRIDE)


def others(points: int, name: str) -> list[int]:
    """A twelfth of the numbers that `each_thirtieth` leaves out; with ZKGROUP_CRASH_POINTS=all every one."""
    left = [at for at in range(points) if at not in each_thirtieth(points, name)]
    return left if EVERY_POINT else left[::12]


def crash_at(name: str, points: Sequence[str], chosen: Sequence[int]) -> None:
    """S11-S17, L6, L7, and every acknowledged record, after crashes at these points."""
    crashed = [play(ACTIONS[name], [at]).crashed for at in chosen]

    assert crashed == [[points[at]] for at in chosen]


def pairs(name: str, points: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Endless pairs of crashes, drawn; the second point is counted in the run of the next controller."""
    chance = random.Random(name)
    while True:
        yield chance.randrange(len(points)), chance.randrange(40)


def crash_twice(name: str, chosen: Sequence[tuple[int, int]]) -> None:
    """The next controller dies too, during its failover or later."""
    for pair in chosen:
        assert play(ACTIONS[name], pair).crashed
