"""A crash of the controller at many points of every action, and pairs of them; the rest is in `tests/long`.

Once or twice in a row, it still ends as asked.
"""

from __future__ import annotations

from itertools import islice

import pytest

from tests.pure.simulation.cluster_actions import ACTIONS
from tests.pure.simulation.crashing import crash_at, crash_twice, each_thirtieth, pairs, points_of

PAIRS = 1
"""Of each action."""


@pytest.mark.parametrize("name", ACTIONS)
def test_a_crash_at_every_thirtieth_point(name: str) -> None:
    """S11-S17, L6, L7, and every acknowledged record, at every point of every action."""
    points = points_of(name)

    crash_at(name, points, each_thirtieth(len(points), name))


@pytest.mark.parametrize("name", ACTIONS)
def test_two_crashes_in_a_row(name: str) -> None:
    """The next controller dies too, during its failover or later."""
    crash_twice(name, list(islice(pairs(name, points_of(name)), PAIRS)))
