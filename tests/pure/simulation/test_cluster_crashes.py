"""A crash of the controller at many points of every action: it still ends as asked.

Other points, and two crashes in a row, are in `tests/long/simulation`.
"""

from __future__ import annotations

import pytest

from tests.pure.simulation.cluster_actions import ACTIONS
from tests.pure.simulation.crashing import crash_at, each_thirtieth, points_of


@pytest.mark.parametrize("name", ACTIONS)
def test_a_crash_at_every_thirtieth_point(name: str) -> None:
    """S11-S17, L6, L7, and every acknowledged record, at every point of every action."""
    points = points_of(name)

    crash_at(name, points, each_thirtieth(len(points), name))
