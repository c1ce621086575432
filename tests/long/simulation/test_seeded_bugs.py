"""The simulation finds every planted bug of a member's machine, by a named invariant."""

from __future__ import annotations

import re

import pytest

from tests.long.simulation.bugs import BUGS, Bug
from tests.simulation import Simulation, SimulationError
from tests.simulation.group.setup import GroupSetup

SEEDS = 150


def failure(bug: Bug) -> str | None:
    """The first line of the failure, or None."""
    if not isinstance(bug.where, GroupSetup):
        try:
            bug.where()
        except AssertionError as error:
            return str(error)
        return None
    for seed in range(bug.seed, bug.seed + SEEDS):
        try:
            Simulation(seed, setup=bug.where).run()
        except SimulationError as error:
            return str(error).splitlines()[0]
    return None


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_bug_is_caught_by_a_named_invariant(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the rule the machine fails, and the failure names the invariant."""
    bug.put_in(monkeypatch)
    found = failure(bug)

    assert found is not None
    assert re.search(bug.caught_by, found)
