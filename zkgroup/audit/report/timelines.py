"""Rows of spans, as a timeline draws them: who owned a partition, who was controller, when a broker lived."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from zkgroup.audit.report.keeping import hex_zxid
from zkgroup.audit.texts import count_text, duration_text

Row = TypeVar("Row", bound=Hashable)

_FINEST: Final = 4096
"""Spans shorter than this part of the history come together first."""
_COARSEST: Final = 2**63
"""No time is longer."""


class Span(NamedTuple):
    """A time in which something was so. Names are numbers of `Names`."""

    from_ms: int
    to_ms: int | None
    """None while it lasts."""
    name: int
    """Who, or what was so."""
    session: int
    from_zxid: int
    to_zxid: int | None
    ended: int
    """How it ended."""
    together: int = 1
    """How many spans were brought together here; above 1 the name is that of the last one."""


class Timeline(Generic[Row]):
    """Takes spans in, each row's in order; holds at most so many.

    Beyond, spans of one row that lie closely together become one, with their number: the finest detail of a
    history too long to be drawn. The grain doubles until everything fits.
    """

    def __init__(self, spans: int, rows: int, length_ms: int) -> None:
        self._limit = spans
        self._rows_max = rows
        self._length_ms = max(length_ms, 1)
        self._rows: dict[Row, list[Span]] = {}
        self._total = 0
        self._others: set[Row] = set()
        """Rows that there was no room for."""
        self.grain_ms = 0
        """Spans that lie within so long a time may have become one."""

    def add(self, row: Row, span: Span) -> None:
        spans = self._rows.get(row)
        if spans is None:
            if len(self._rows) >= self._rows_max:
                self.refuse(row)
                return
            spans = self._rows[row] = []
        spans.append(span)
        self._total += 1
        if self._total > self._limit + len(self._rows):
            self._coarsen()

    def refuse(self, row: Row) -> None:
        """Counts a row that there is no room for."""
        self._others.add(row)

    def rows(self) -> list[tuple[Row, list[Span]]]:
        """By row."""
        return sorted(self._rows.items(), key=lambda item: item[0])  # type: ignore[arg-type,return-value]

    def notes(self, one: str) -> list[str]:
        """What the limits left out; `one` is what a row is."""
        told = []
        if self._others:
            told.append(f"{count_text(len(self._others), one)} more did not fit and are not drawn.")
        if self.grain_ms:
            told.append(
                f"Spans that lie within {duration_text(self.grain_ms)} of each other are drawn as one, with"
                " their number: there were too many."
            )
        return told

    def _coarsen(self) -> None:
        """With the grain there is, and then coarser ones, until half of the room is free."""
        self.grain_ms = self.grain_ms or max(self._length_ms // _FINEST, 1)
        while True:
            self._rows = {row: _merged(spans, self.grain_ms) for row, spans in self._rows.items()}
            self._total = sum(map(len, self._rows.values()))
            if self._total <= self._limit // 2 + len(self._rows) or self.grain_ms > _COARSEST:
                return
            self.grain_ms *= 2


def columns(spans: list[Span]) -> list[list[Any]]:
    """The spans as the page reads them."""
    return [
        [
            span.from_ms,
            span.to_ms,
            span.name,
            span.session,
            hex_zxid(span.from_zxid),
            hex_zxid(span.to_zxid),
            span.ended,
            span.together,
        ]
        for span in spans
    ]


def _merged(spans: list[Span], grain_ms: int) -> list[Span]:
    found: list[Span] = []
    for span in spans:
        last = found[-1] if found else None
        until = span.from_ms if span.to_ms is None else span.to_ms
        if last is not None and last.to_ms is not None and until - last.from_ms < grain_ms:
            found[-1] = span._replace(
                from_ms=last.from_ms, from_zxid=last.from_zxid, together=last.together + span.together
            )
        else:
            found.append(span)
    return found
