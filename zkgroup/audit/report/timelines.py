"""Rows of intervals as timelines draw them: owners of partitions, controllers, registrations of brokers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from zkgroup.audit.facts import Facts
from zkgroup.audit.report.keeping import NOBODY, Names, ReportLimits, hex_zxid
from zkgroup.audit.texts import count_text, duration_text, session_text

Row = TypeVar("Row", bound=Hashable)

_FINEST: Final = 4096
"""The first grain is this part of the history."""
_COARSEST: Final = 2**63
"""No time is longer."""


class Span(NamedTuple):
    """An interval in which something was so."""

    from_ms: int
    to_ms: int | None
    """None while it lasts."""
    name: str
    """Who, or what was so."""
    session: int
    """0 for none."""
    from_zxid: int
    to_zxid: int | None
    ended: str
    """How it ended."""
    together: int = 1
    """How many spans were brought together here; above 1 the name is that of the last one."""


class Timeline(Generic[Row]):
    """Takes spans in, each row's in order; holds at most so many.

    Beyond, spans of one row that follow each other within one grain of time become one, with their number.
    The grain is the shortest, doubled again and again, with which all fit; so it does not matter in which
    order rows are taken in.
    """

    def __init__(self, spans: int, rows: int, start_ms: int, length_ms: int) -> None:
        self._spans_max, self._rows_max = spans, rows
        self._start_ms, self._length_ms = start_ms, max(length_ms, 1)
        self._rows: dict[Row, list[Span]] = {}
        self._total = 0
        self._refused: set[Row] = set()
        """Rows that there was no room for."""
        self.grain_ms = 0
        """0 where all spans stand as they are."""

    def add(self, row: Row, span: Span) -> None:
        spans = self._rows.get(row)
        if spans is None:
            if len(self._rows) >= self._rows_max:
                self.refuse(row)
                return
            spans = self._rows[row] = []
        self._total += self._append(spans, span)
        if self._total > self._spans_max and self.grain_ms <= _COARSEST:
            self._coarsen()

    def refuse(self, row: Row) -> None:
        """Counts a row that there is no room for."""
        self._refused.add(row)

    def rows(self) -> list[tuple[Row, list[Span]]]:
        """By row."""
        return sorted(self._rows.items(), key=lambda item: item[0])  # type: ignore[arg-type,return-value]

    def notes(self, one: str) -> list[str]:
        """What the limits left out; `one` is what a row is."""
        texts = []
        if self._refused:
            texts.append(f"{count_text(len(self._refused), one)} more did not fit and are not drawn.")
        if self.grain_ms:
            texts.append(
                f"Spans that follow each other within {duration_text(self.grain_ms)} are drawn as one, with"
                " their number: there were too many."
            )
        return texts

    def _append(self, spans: list[Span], span: Span) -> int:
        """How many spans there are more."""
        grain = self._grain(span)
        if grain is None or not spans or spans[-1].to_ms is None or self._grain(spans[-1]) != grain:
            spans.append(span)
            return 1
        last = spans[-1]
        spans[-1] = span._replace(
            from_ms=last.from_ms, from_zxid=last.from_zxid, together=last.together + span.together
        )
        return 0

    def _grain(self, span: Span) -> int | None:
        """The number of the grain of time that a span lies in; None where it lies in no single one."""
        if not self.grain_ms:
            return None
        first = (span.from_ms - self._start_ms) // self.grain_ms
        last = first if span.to_ms is None else (span.to_ms - self._start_ms) // self.grain_ms
        return first if first == last else None

    def _coarsen(self) -> None:
        """Doubles the grain until all spans fit."""
        while self._total > self._spans_max and self.grain_ms <= _COARSEST:
            self.grain_ms = 2 * self.grain_ms or max(self._length_ms // _FINEST, 1)
            self._total = 0
            for row, spans in self._rows.items():
                self._rows[row] = merged = list[Span]()
                for span in spans:
                    self._total += self._append(merged, span)


def timeline_of(facts: Facts, limits: ReportLimits) -> Timeline[Any]:
    """An empty timeline of a history."""
    return Timeline(limits.spans, limits.partitions, facts.start_ms, facts.end_ms - facts.start_ms)


def columns(spans: list[Span], names: Names) -> list[list[Any]]:
    """The spans as the page reads them."""
    return [
        [
            span.from_ms,
            span.to_ms,
            names.of(span.name),
            names.of(session_text(span.session)) if span.session else NOBODY,
            hex_zxid(span.from_zxid),
            hex_zxid(span.to_zxid),
            names.of(span.ended),
            span.together,
        ]
        for span in spans
    ]
