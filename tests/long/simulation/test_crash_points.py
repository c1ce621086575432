"""A crash of the controller at points that `tests/pure/simulation` skips, and pairs of crashes.

`ZKGROUP_CRASH_POINTS=all` has every point.
"""

from __future__ import annotations

from itertools import islice

import pytest

from tests.pure.controller.test_plans import carried_on
from tests.pure.simulation.cluster_actions import ACTIONS
from tests.pure.simulation.crashing import crash_at, crash_twice, others, pairs, points_of
from tests.pure.simulation.test_left_replicas import ALONE, KAFKA, ClusterSetup, deleted
from tests.pure.simulation.test_takeover_scenarios import recovered

PAIRS = 2
"""Of each action."""


@pytest.mark.parametrize("name", ACTIONS)
def test_a_crash_at_more_points(name: str) -> None:
    """S11-S17, L6, L7, and every acknowledged record, during any operation."""
    points = points_of(name)

    crash_at(name, points, others(len(points), name))


@pytest.mark.parametrize("name", ACTIONS)
def test_two_crashes_in_a_row(name: str) -> None:
    """The next controller crashes too, while it takes over or continues."""
    crash_twice(name, list(islice(pairs(name, points_of(name)), PAIRS)))


def test_a_successor_finishes_the_recovery() -> None:
    """The next controller finds from the records alone which states zkgroup did not write (recipes 13)."""
    recovered(lambda points: others(points, "recovery"))


@pytest.mark.parametrize("setup", [ALONE, KAFKA], ids=["zkgroup", "in Kafka"])
def test_what_a_move_has_left_behind_never_meets_the_next_topic(setup: ClusterSetup) -> None:
    """The controller crashes at any point of the deletion: the next one knows it from the records alone."""
    deleted(setup, lambda points: others(points, "deletion"))


def test_a_plan_is_carried_on_whichever_controller_is_active() -> None:
    """The controller is killed at every point; no phase is submitted twice or left out (recipes 17)."""
    carried_on(lambda points: others(points, "plan"))
