"""The configurations: the recipe as it is, and each rule left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from tests.programs.model.controller.tree import Result, explore
from tests.programs.model.history.recipes import Configuration, Model


class Expected(NamedTuple):
    """A configuration and its expected answer."""

    configuration: Configuration
    verdict: str = "holds"
    """`holds`, `violated` or `stuck`; `stuck`: something that was noted is never written."""
    violation: str | None = None
    is_short: bool = True
    """Explored in every run of the tests; the others with `ZKGROUP_MODEL=all`."""


AS_WRITTEN: Final[Mapping[str, Expected]] = {
    "joins-and-ends": Expected(Configuration(join=3, die=2)),
    "topic": Expected(Configuration(join=2, die=1, topic=2)),
    "lost": Expected(Configuration(join=3, die=1, lost=2)),
    "sessions": Expected(Configuration(join=3, expire=2)),
    "three": Expected(Configuration(members=3, join=3, die=1)),
    "three-and-lost": Expected(Configuration(members=3, join=3, die=1, lost=1), is_short=False),
    "three-sessions": Expected(Configuration(members=3, join=3, expire=1), is_short=False),
}
"""The recipe; every one holds."""

LOST = "a row is lost"
TWICE = "an event is there twice"
WRONG = "the rows do not lead to the members"


def _without(rule: str, violation: str | None, **fields: int) -> Expected:
    configuration = Configuration(without=(rule,), **fields)
    return Expected(configuration, "stuck" if violation is None else "violated", violation)


BROKEN: Final[Mapping[str, Expected]] = {
    "no-version": _without("version", LOST, join=3, die=0, expire=1),
    "refused-for-ever": _without("read again", None, join=3, expire=1),
    "changes-not-kept": _without("keep the changes", None, join=2, die=1),
    "changes-repeated": _without("drop what is there", TWICE, members=3, join=3, die=1),
    "own-changes-only": _without("difference at first", TWICE, join=3, die=1),
    "names-only": _without("czxid", WRONG, join=3, die=1),
    "lost-is-applied": _without("unknown outcome", None, join=2, lost=1),
    "generation-only": _without("zxid", None, join=2, die=1, topic=1),
}
"""Each rule left out: the search finds what it prevents."""

CONFIGURATIONS: Final[Mapping[str, Expected]] = {**AS_WRITTEN, **BROKEN}


def answer(expected: Expected, limit_s: float = 600) -> Result:
    """Explores a configuration; where something wrong is expected, up to the first of it."""
    return explore(
        Model(expected.configuration),
        max_states=5_000_000,
        max_seconds=limit_s,
        stop=expected.violation is not None,
    )
