"""The configurations: the recipes as they are, as they were, without a rule, and what no recipe excludes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.programs.model.controller import election, reassign
from tests.programs.model.controller.election_surroundings import Configuration
from tests.programs.model.controller.tree import Result, explore


class Moving(NamedTuple):
    """A model of reassignments with these faults."""

    variant: str
    """`repaired`: the text of recipes 17; `code`: the steps that the machine decides on; others are wrong."""
    faults: str
    """Replica lists in order, and how often what goes wrong; as `reassign.faults` reads them."""


class Expected(NamedTuple):
    """A configuration and its expected answer."""

    configuration: Configuration | Moving
    verdict: str = "holds"
    """`holds`, `violated` or `stuck`; "holds" includes that no one gets stuck."""
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
    "recovery-often": _of(check="recovered", expiries=0, deletions=3, pauses=1, our_writes=0, is_short=False),
}

BEFORE = {
    "late-bump": _of("stuck", variant="recipe", is_short=False),
    "first-winner-dies": _of(
        "violated", variant="recipe", check="recovered", pauses=1, r_lives=True, is_short=False
    ),
}
"""The recipe without the epoch watch, the check of the epoch's version and the history."""

BROKEN = {
    "epoch-only": _of("violated", variant="epoch-only"),
    "no-check": _of("violated", variant="no-check"),
    "version-0": _of("violated", variant="version-0"),
    "no-grace": _of("violated", variant="no-grace", check="overlap", expiries=0),
    "newest-record": _of(
        "violated",
        variant="newest-record",
        check="recovered",
        expiries=0,
        deletions=3,
        pauses=1,
        our_writes=0,
        is_short=False,
    ),
}
"""Each rule is left out once."""

OUTSIDE = {
    "pause-over-the-grace": _of("violated", check="overlap", expiries=0, pauses=1),
    "batch-in-a-new-session": _of("violated", check="overlap", deletions=0),
    "restarted-broker": _of("violated", check="recovered", deletions=0, restarts=1),
    "creates-states": _of("violated", check="all", deletions=0),
}
"""What no recipe of zkgroup excludes: it is repaired, or reported to the operator (recipes 13)."""

ELECTIONS = {**AS_WRITTEN, **BEFORE, **BROKEN, **OUTSIDE}

MOVES_SHORT = (
    "--moves 1/2 --crashes 1 --produces 1",
    "--moves 1/2/1 --breaks 1",
    "--moves 1/2/1 --crashes 1",
    "--moves 1/2/1 --lags 1 --produces 1",
)
MOVES_LONG = (
    "--moves 1/2 --expiries 2",
    "--moves 1/2 --expiries 1 --crashes 1",
    "--moves 1/2/1 --expiries 1",
    "--moves 1/2/1 --lost 1 --expiries 1",
    "--moves 1,2/2,3 --crashes 1",
    "--moves 1,2/2,3 --cancels 1",
    "--moves 1,2/2,3 --lags 1 --produces 1",
)
CANCELLED = ("--moves 1/2 --cancels 1", "--moves 1/2 --cancels 1 --crashes 1")
GROWING = ("--moves 1/1,2 --crashes 1", "--moves 1/1,2 --expiries 1 --produces 1", "--moves 1/2,1/2")
BEYOND_THE_TEXT = (*CANCELLED, *GROWING)
"""Where the steps of the recipe's text are stuck, and those of the code are not."""
MOVES_BROKEN = (
    ("recipe", "--moves 1/2/1 --breaks 1", "StopReplica(delete) executed by an ISR member"),
    ("recipe", "--moves 1,2/2,3 --lags 1", "S14 terminal record is not true"),
    ("shrink-blind", "--moves 1,2/2,3 --crashes 1", "S14 terminal record is not true"),
    ("delete-early", "--moves 1/2", "StopReplica(delete) executed by an ISR member"),
    ("two-writes", "--moves 1/2 --expiries 1", "S14 request lost or ended twice"),
    ("entry-first", "--moves 1/2", "S14 terminal record is not true"),
)
"""A variant without a rule, the faults, and the violation that follows."""


def _moves() -> Iterator[tuple[Moving, str, bool]]:
    """Each configuration with its expected answer, and whether it is short."""
    for variant in ("mended", "code"):
        for faults in (*MOVES_SHORT, *MOVES_LONG):
            yield Moving(variant, faults), "holds", faults in MOVES_SHORT
    for faults in BEYOND_THE_TEXT:
        yield Moving("mended", faults), "stuck", True
        yield Moving("code", faults), "holds", True
    for variant, faults, _ in MOVES_BROKEN:
        yield Moving(variant, faults), "violated", True
    yield Moving("no-bump", "--moves 1/2"), "stuck", True


def _name(moving: Moving) -> str:
    """The name as the command line takes it: `move-code-1/2-expiries-2`."""
    return "-".join(
        ["move", moving.variant, *moving.faults.replace("--moves ", "").replace("--", "").split()]
    )


MOVES = {_name(moving): Expected(moving, verdict, short) for moving, verdict, short in _moves()}
CONFIGURATIONS = {**ELECTIONS, **MOVES}


def answer(expected: Expected, limit_s: float) -> Result:
    """The answer of the walk; where a violation is expected it ends with the first one."""
    wanted, stops = expected.configuration, expected.verdict == "violated"
    if isinstance(wanted, Configuration):
        return explore(election.Model(wanted), max_seconds=limit_s, stop=stops)
    model = reassign.Model(*wanted)
    return explore(model, model.a.max_states, max_seconds=limit_s, stop=stops)
