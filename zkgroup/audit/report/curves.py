"""Offset curves with few points, and the marks on them that count."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.report import tables
from zkgroup.audit.report.keeping import Kept, Limits, Names, hex_zxid, number
from zkgroup.audit.texts import count_text, duration_text, session_text
from zkgroup.audit.views.offsets import OffsetRow, OffsetRows
from zkgroup.znodes.paths import PathKind

Row = tuple[str, str, int]
"""Group, topic, partition."""

_FINEST: Final = 2048
_COARSEST: Final = 2**63
_PINNED_MAX: Final = 200
"""Points beside falls that are kept whatever happens, of one curve."""
_WEIGHTS: Final = {"rewind": 5, "foreign": 4, "unowned": 3, "reset": 2, "deletion": 1}


class Mark(NamedTuple):
    """Something to see on a curve."""

    row: Row
    kind: str
    """`rewind`; `foreign`: a commit by a session while another one owned the partition; `unowned`: while
    nobody did; `reset` or `deletion`."""
    write: OffsetRow


class _Point(NamedTuple):
    ms: int
    offset: int
    is_pinned: bool


class _Curve:
    def __init__(self) -> None:
        self.points: list[_Point] = []
        self.writes = 0
        self.pinned = 0

    def add(self, ms: int, offset: int, grain_ms: int, *, falls: bool) -> int:
        """Gives how many points more there are."""
        self.writes += 1
        falls = falls and self.pinned < _PINNED_MAX
        last = self.points[-1] if self.points else None
        if falls and last is not None:
            self.points[-1] = last._replace(is_pinned=True)
            self.pinned += 1
        point = _Point(ms, offset, falls)
        if last is not None and not falls and _together(last, point, grain_ms):
            self.points[-1] = point
            return 0
        self.points.append(point)
        return 1

    def thin(self, grain_ms: int, *, pins: bool) -> None:
        kept: list[_Point] = []
        for point in self.points:
            point = point if pins else point._replace(is_pinned=False)
            if kept and not point.is_pinned and _together(kept[-1], point, grain_ms):
                kept[-1] = point
            else:
                kept.append(point)
        self.points = kept


class Curves:
    """Takes the rows of owners and offsets; of each interval of time a curve keeps the last value."""

    def __init__(self, facts: Facts, limits: Limits, rows: tables.Rows) -> None:
        self._facts, self._limits, self._rows = facts, limits, rows
        self._length_ms = max(facts.end_ms - facts.start_ms, 1)
        self._writes: dict[str, dict[Row, OffsetRows]] = {}
        self._curves: dict[Row, _Curve] = {}
        self._known = 0
        self._total = 0
        self._others: set[Row] = set()
        self._grain_ms = 0
        self._marks: Kept[Mark] = Kept(limits.marks, lambda mark: _WEIGHTS[mark.kind])

    def see(self, event: Event, place: PathKind) -> None:
        row = (place.name, place.topic, place.partition)
        of_group = self._writes.setdefault(place.name, {})
        rows = of_group.get(row)
        if rows is None:
            if self._known >= self._limits.partitions:
                self._others.add(row)
                return
            members = next(iter(of_group.values())).members if of_group else None
            self._known += 1
            rows = of_group[row] = OffsetRows(self._facts, place.name, members)
        write = rows.see(event, place.kind)
        if write is not None:
            self._add(row, write)

    def _add(self, row: Row, write: OffsetRow) -> None:
        self._rows.add("offsets", tables.offset(row, write))
        for kind in _kinds(write):
            self._marks.add(Mark(row, kind, write))
        curve = self._curves.setdefault(row, _Curve())
        if write.offset is None or write.offset < 0:
            return
        falls = write.previous is not None and write.offset < write.previous
        self._total += curve.add(write.time_ms, write.offset, self._grain_ms, falls=falls)
        if self._total > self._limits.points + len(self._curves):
            self._thin()

    def _thin(self) -> None:
        """With the grain there is, and then coarser ones, until half of the room is free."""
        self._grain_ms = self._grain_ms or max(self._length_ms // _FINEST, 1)
        while True:
            pins = self._grain_ms < self._length_ms // 16
            for curve in self._curves.values():
                curve.thin(self._grain_ms, pins=pins)
            self._total = sum(len(curve.points) for curve in self._curves.values())
            if self._total <= self._limits.points // 2 + len(self._curves) or self._grain_ms > _COARSEST:
                return
            self._grain_ms *= 2

    def data(self, names: Names) -> dict[str, Any]:
        """As the page reads it."""
        notes = []
        if self._others:
            notes.append(f"{count_text(len(self._others), 'partition')} more did not fit and have no curve.")
        if self._grain_ms:
            notes.append(
                f"Curves have the last offset of each {duration_text(self._grain_ms)}, and both sides of"
                " falls: there were too many commits to draw."
            )
        if self._marks.left_out:
            notes.append(f"{count_text(self._marks.left_out, 'mark')} of least weight were left out.")
        return {
            "notes": notes,
            "rows": [
                [
                    names.of(group),
                    names.of(topic),
                    partition,
                    curve.writes,
                    [[point.ms, number(point.offset)] for point in curve.points],
                ]
                for (group, topic, partition), curve in sorted(self._curves.items())
            ],
            "marks": [_mark(mark, names) for mark in self._marks.items()],
        }


def _kinds(write: OffsetRow) -> list[str]:
    if write.kind in ("reset", "deletion"):
        return [write.kind]
    found = ["rewind"] if write.is_rewind else []
    if write.kind == "commit" and write.owned is False:
        found.append("unowned" if write.owner is None else "foreign")
    return found


def _mark(mark: Mark, names: Names) -> list[Any]:
    write = mark.write
    return [
        *(names.of(mark.row[0]), names.of(mark.row[1]), mark.row[2], mark.kind),
        *(write.time_ms, hex_zxid(write.zxid), number(write.previous), number(write.offset)),
        names.of(session_text(write.session)) if write.session else -1,
        names.of(", ".join(write.members)) if write.members else -1,
        names.of(write.owner),
    ]


def _together(one: _Point, other: _Point, grain_ms: int) -> bool:
    return not one.is_pinned and grain_ms > 0 and one.ms // grain_ms == other.ms // grain_ms
