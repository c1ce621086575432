"""The configurations: the recipe as it is, and each rule left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from tests.programs.model.commit_records.recipes import Configuration, Model
from tests.programs.model.controller.tree import Result, explore


class Expected(NamedTuple):
    """A configuration and its expected answer."""

    configuration: Configuration
    verdict: str = "holds"
    violation: str | None = None
    is_short: bool = True
    """Explored in every run of the tests; the others with `ZKGROUP_MODEL=all`."""


AS_WRITTEN: Final[Mapping[str, Expected]] = {
    "members": Expected(Configuration(claim=3, commit=3, die=2, reset=1)),
    "with-plain": Expected(Configuration(members=("a", "plain"), claim=3, commit=3, die=1, reset=1)),
    "with-jvm": Expected(Configuration(members=("a", "jvm"), claim=3, commit=3, die=1, reset=1)),
    "strays": Expected(Configuration(members=("a", "jvm"), claim=3, commit=3, die=1, stray=2)),
    "all": Expected(
        Configuration(members=("a", "b", "plain", "jvm"), claim=2, commit=2, die=1, reset=1, stray=1),
        is_short=False,
    ),
}
"""The recipe; every one holds."""

UNKNOWN = "nothing tells the writer"
WRONG = "another writer is told by record"


def _without(rule: str, violation: str, **fields: int) -> Expected:
    return Expected(Configuration(without=(rule,), **fields), "violated", violation)


BROKEN: Final[Mapping[str, Expected]] = {
    "record-after-the-commit": _without("same transaction", WRONG, die=1),
    "release-without-record": _without("releases too", UNKNOWN),
    "claim-with-record": _without("commits only", WRONG),
    "reset-without-marker": _without("marker", UNKNOWN, reset=1),
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
