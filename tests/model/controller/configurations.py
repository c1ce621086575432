"""What is explored: the recipe as it is, as it was, what no recipe can exclude, and rules left out."""

from __future__ import annotations

from typing import NamedTuple

from tests.model.controller.election import Model
from tests.model.controller.election_surroundings import Configuration
from tests.model.controller.tree import Result, explore


class Expected(NamedTuple):
    """A configuration and its answer."""

    configuration: Configuration
    verdict: str = "holds"
    """`holds`, `violated` or `stuck`; "holds" includes that nobody gets stuck."""
    is_short: bool = True
    """Explored in every run of the tests; the others with `ZKGROUP_MODEL=all`."""


def _of(verdict: str = "holds", *, is_short: bool = True, **fields: object) -> Expected:
    return Expected(Configuration(**fields), verdict, is_short)  # type: ignore[arg-type]


AS_WRITTEN = {
    "ours-alone": _of(real=False),
    "ours": _of(expiries=0, deletions=2),
    "ours-expiry": _of(is_short=False, restarts=1),
    "grace": _of(check="overlap", expiries=0, deletions=2),
    "recovery": _of(check="recovered", expiries=0, pauses=1),
    "recovery-expiry": _of(check="recovered", is_short=False, pauses=1),
}

BEFORE = {
    "late-bump": _of("stuck", variant="recipe", is_short=False),
    "first-winner-dies": _of(
        "violated", variant="recipe", check="recovered", pauses=1, r_lives=True, is_short=False
    ),
}
"""The recipe without the epoch watch, the look at the epoch's version and the history."""

BROKEN = {
    "epoch-only": _of("violated", variant="epoch-only"),
    "no-check": _of("violated", variant="no-check"),
    "version-0": _of("violated", variant="version-0"),
    "no-grace": _of("violated", variant="no-grace", check="overlap", expiries=0),
}
"""Each rule left out once."""

OUTSIDE = {
    "pause-over-the-grace": _of("violated", check="overlap", expiries=0, pauses=1),
    "batch-in-a-new-session": _of("violated", check="overlap", deletions=0),
    "restarted-broker": _of("violated", check="recovered", deletions=0, restarts=1),
    "creates-states": _of("violated", check="all", deletions=0),
}
"""What no recipe of ours excludes: it is repaired, or told to the operator (recipes 13)."""

CONFIGURATIONS = {**AS_WRITTEN, **BEFORE, **BROKEN, **OUTSIDE}


def answer(expected: Expected, limit_s: float) -> Result:
    """What the walk finds; where something wrong is expected it ends with the first such step."""
    stops = expected.verdict == "violated"
    return explore(Model(expected.configuration), max_seconds=limit_s, stop=stops)
