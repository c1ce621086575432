"""What a demo states at its end: each statement, whether it holds, and the figures that say so. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NAMED_MAX = 5
"""So many offenders are named in a message; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Check:
    """One statement, whether it holds, and the figures that say so."""

    statement: str
    holds: bool
    evidence: str


def named(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    rest = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {rest} more" if rest > 0 else "")
