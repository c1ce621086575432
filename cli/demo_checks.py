"""The checks at the end of a demo, for programs and for a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .output import Output
from .tables import Cell, Column

if TYPE_CHECKING:
    from zkgroup.demo.checks import Check


def check_documents(checks: Sequence[Check]) -> list[dict[str, Any]]:
    """One object a check."""
    return [{"statement": one.statement, "holds": one.holds, "evidence": one.evidence} for one in checks]


def check_table(out: Output, checks: Sequence[Check]) -> None:
    """A row for each; those that do not hold once more, in full."""
    out.table(
        [Column(header="proved"), Column(header=""), Column(header="evidence", shorten="end", least=20)],
        [(_mark(one.holds), one.statement, one.evidence) for one in checks],
    )
    for one in checks:
        if not one.holds:
            out.line()
            out.line(out.paint(f"NOT PROVED: {one.statement}", "bad"))
            out.line(one.evidence)


def _mark(holds: bool) -> Cell:
    return Cell("yes", "good") if holds else Cell("NO", "bad")
