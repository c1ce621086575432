"""A crash of the controller at the points that `tests/pure/simulation` passes over, and more pairs."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.pure.simulation.cluster_actions import ACTIONS
from tests.pure.simulation.crashing import STRIDE, crash_at, crash_twice, offset, pairs, points_of
from tests.pure.simulation.test_cluster_crashes import PAIRS

MORE_PAIRS = 9


@pytest.mark.parametrize("name", ACTIONS)
def test_a_crash_at_every_other_point(name: str) -> None:
    """Controller item 39: S11-S17, L6, L7, and every acknowledged line, whatever was going on."""
    points = points_of(name)
    passed = range(offset(name), len(points), STRIDE)

    crash_at(name, points, [at for at in range(len(points)) if at not in passed])


@pytest.mark.parametrize("name", ACTIONS)
def test_two_more_crashes_in_a_row(name: str) -> None:
    """The next controller dies too, while it takes over or goes on."""
    crash_twice(name, list(islice(pairs(name, points_of(name)), PAIRS, PAIRS + MORE_PAIRS)))
