"""Rows of intervals as timelines draw them, and those of the brokers' side.

Owners of partitions, controllers, registrations of brokers, replicas in sync.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, Generic, NamedTuple, TypeVar

from zkgroup.audit.findings.cluster import (
    PartitionView,
    ViewStretch,
    brokers_text,
    controller_name,
    decoded,
    ending_text,
    epoch_at,
)
from zkgroup.audit.inputs.facts import Facts, Life
from zkgroup.audit.inputs.texts import count_text, duration_text, session_text
from zkgroup.audit.report.keeping import NOBODY, Names, ReportLimits, hex_zxid
from zkgroup.znodes.brokers import NO_LEADER, BrokerRegistration
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration

Row = TypeVar("Row", bound=tuple[str | int, ...])

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
    """Names who, or what was so."""
    session: int
    """0 for none."""
    from_zxid: int
    to_zxid: int | None
    ended: str
    """Says how it ended."""
    together: int = 1
    """Says how many spans were brought together here; above 1 the name is that of the last one."""


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
        return sorted(self._rows.items(), key=lambda item: item[0])

    def notes(self, one: str) -> list[str]:
        """Returns what the limits left out; `one` is what a row is."""
        texts = []
        if self._refused:
            texts.append(f"{count_text(len(self._refused), one)} more did not fit and are not drawn.")
        if self.grain_ms:
            texts.append(
                f"Spans that follow each other within {duration_text(self.grain_ms)} are drawn as one, with"
                " their number: there were too many."
            )
        return texts

    def data(self, one: str, names: Names) -> dict[str, Any]:
        """As the page reads it; rows are tuples of names and numbers."""
        rows = [
            [*(names.of(part) if isinstance(part, str) else part for part in row), _fields(spans, names)]
            for row, spans in self.rows()
        ]
        return {"notes": self.notes(one), "rows": rows}

    def _append(self, spans: list[Span], span: Span) -> int:
        """Returns how many spans there are more."""
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


def _fields(spans: list[Span], names: Names) -> list[list[Any]]:
    """The spans as the page reads them."""
    return [
        [
            span.from_ms - names.start_ms,
            None if span.to_ms is None else span.to_ms - span.from_ms,
            names.of(span.name),
            names.of(session_text(span.session)) if span.session else NOBODY,
            *names.zxids(span.from_zxid, span.to_zxid),
            names.of(span.ended),
            *([span.together] if span.together > 1 else ()),
        ]
        for span in spans
    ]


def controllers(facts: Facts, names: Names, limits: ReportLimits) -> dict[str, Any]:
    """Returns who was controller, and every write of the epoch."""
    timeline: Timeline[tuple[str]] = timeline_of(facts, limits)
    for life in facts.controllers:
        value = decoded(ControllerRegistration.decode, life.path, life.data)
        row = "cannot be read" if value is None else f"broker {value.broker}"
        until = facts.end_zxid if life.to_zxid is None else life.to_zxid - 1
        epoch = epoch_at(facts, until)
        name = controller_name(life) if epoch is None else f"{controller_name(life)}, epoch {epoch}"
        timeline.add((row,), _span(life, name, facts))
    epochs = []
    for change in facts.controller_epochs[-limits.marks :]:
        value_ = decoded(ControllerEpoch.decode, ControllerEpoch.path(), change.data)
        session = names.of(session_text(change.session)) if change.session else NOBODY
        text = "deleted" if change.data is None else "cannot be read" if value_ is None else str(value_.epoch)
        epochs.append([change.time_ms, hex_zxid(change.zxid), names.of(text), session])
    more = len(facts.controller_epochs) - len(epochs)
    notes = timeline.notes("controller")
    if more:
        notes.append(f"The first {more} writes of the epoch are left out.")
    return {**timeline.data("controller", names), "notes": notes, "epochs": epochs}


def brokers(facts: Facts, names: Names, limits: ReportLimits) -> dict[str, Any]:
    """Returns when each broker was registered, and how each registration ended."""
    timeline: Timeline[tuple[int, str]] = timeline_of(facts, limits)
    for broker, lives in facts.brokers.items():
        key = (int(broker) if broker.isdecimal() and len(broker) < 20 else 2**63, f"broker {broker}")
        for life in lives:
            timeline.add(key, _span(life, _address(life), facts))
    rows = [[names.of(row[1]), _fields(spans, names)] for row, spans in timeline.rows()]
    return {"notes": timeline.notes("broker"), "rows": rows}


def replica_faults(
    topic: str, partitions: Iterable[tuple[int, Sequence[ViewStretch]]]
) -> Iterator[tuple[tuple[str, int], Span]]:
    """Yields when a partition of a topic had no leader, or too few replicas in sync.

    A change of what is wrong begins another span.
    """
    for partition, stretches in partitions:
        for text, run in groupby(stretches, key=lambda stretch: _fault(stretch.view)):
            if text is not None:
                of_text = list(run)
                since, to = of_text[0].since, of_text[-1].to
                ends = (None, None) if to is None else (to.zxid, to.time_ms)
                span = Span(
                    since.time_ms, ends[1], text, since.session, since.zxid, ends[0], "over" if to else "open"
                )
                yield (topic, partition), span


def replication(
    faults: Iterable[tuple[tuple[str, int], Span]], facts: Facts, limits: ReportLimits
) -> Timeline[tuple[str, int]]:
    """The faults of all partitions; there is room for those that began first."""
    timeline: Timeline[tuple[str, int]] = timeline_of(facts, limits)
    for row, span in sorted(faults, key=lambda fault: (fault[1].from_zxid, fault[0])):
        timeline.add(row, span)
    return timeline


def _fault(view: PartitionView) -> str | None:
    if view.state is None or view.is_deleting:
        return None
    if view.state.leader == NO_LEADER:
        return f"no leader; in sync {brokers_text(view.state.isr)}"
    missing = [broker for broker in view.replicas or () if broker not in view.state.isr]
    if not missing:
        return None
    return f"not in sync {brokers_text(missing)}; leader {view.state.leader}"


def _span(life: Life, name: str, facts: Facts) -> Span:
    ended = "open" if life.to_zxid is None else ending_text(facts, life)
    return Span(life.from_ms, life.to_ms, name, life.session, life.from_zxid, life.to_zxid, ended)


def _address(life: Life) -> str:
    value = decoded(BrokerRegistration.decode, life.path, life.data)
    return "cannot be read" if value is None else f"{value.host}:{value.port}"
