"""Every write of an offset in columns, with the curves and marks made from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from zkgroup.audit.answers.partitions import OffsetKind, OffsetRow
from zkgroup.audit.findings.tables import ScreenTables, begins
from zkgroup.audit.inputs.events import DELETE, SET
from zkgroup.audit.inputs.facts import Facts, members_of
from zkgroup.audit.inputs.rows import Flags, Numbers
from zkgroup.audit.report.keeping import Names, ReportLimits, Thinned, number
from zkgroup.audit.report.tables import Partition, coded, keys_of, partition_columns, session_column, texts_of
from zkgroup.model.text import counted, duration_text, hex_zxid
from zkgroup.zkfiles.arrow import moments

_SIZE: Final = 50_000
_FINEST: Final = 2048
"""The first grain is the history divided by this."""
_PINNED_MAX: Final = 200
"""The number of falls of one curve whose two sides are kept."""
_MARKS: Final = ("rewind", "foreign", "unowned", "reset", "deletion")
"""The marks, the heaviest first. `foreign`: a commit while another session owned the partition; `unowned`:
a commit while no session did."""
_DELETION: Final = _MARKS.index("deletion")
_KINDS: Final[tuple[OffsetKind, ...]] = ("commit", "claim", "reset", "deletion", "snapshot")
_CODES: Final = {kind: code for code, kind in enumerate(_KINDS)}
_POINT: Final = np.dtype(
    [*((name, np.int64) for name in ("row", "ms", "offset")), ("is_pinned", np.bool_), ("until_ms", np.int64)]
)
"""A point of a curve; `is_pinned` is True beside a fall, `until_ms` its last snapshot, or 0 in a log."""
_Mark = tuple[int, tuple[int, int], int, int, dict[str, Any]]
"""A mark on a curve: place in _MARKS, zxid and place in it, partition, time, and columns of the write."""


class OffsetColumns:
    """The writes in order, partition by partition: OFFSETS as columns, columns of few texts as codes."""

    def __init__(self, tables: ScreenTables, numbers: Mapping[Partition, int]) -> None:
        """`numbers` has the partitions that have a row in the report."""
        columns = tables.columns
        p = self._partitions = tables.partitions
        self._facts, (self._keys, number_of_key) = tables.facts, keys_of(p, numbers)
        is_written = p.is_write | (~p.is_owner & (p.op == DELETE))
        places = self._places = np.flatnonzero(is_written & (number_of_key[p.selection.codes] >= 0))
        rows, self._codes = p.selection.rows[places], p.selection.codes[places]
        self.row = number_of_key[self._codes]
        """The number of the partition of each write."""
        self.order: Numbers = np.argsort(rows)
        """The places of the writes as the history has them."""
        self._ms, self._session = tables.set_ms(rows), p.session[places]
        self._groups = list(dict.fromkeys(row[0] for row in self._keys))
        codes = {name: code for code, name in enumerate(self._groups)}
        self._group = np.array([codes[row[0]] for row in self._keys], np.int64)[self._codes]
        is_deletion = p.op[places] == DELETE
        self._kind = self._kinds(is_deletion)
        self._is_known = (p.holder_known[places] & ~p.seed[places]) | is_deletion
        has_previous = (p.value_before[places] >= 0) & ((p.op[places] == SET) | is_deletion)
        paths = pa.array(columns.paths, pa.string())
        self.table = pa.table(
            {
                **partition_columns(self._keys, self._codes),
                "zxid": pa.array(p.zxid[places]),
                "time": moments(pa.array(self._ms)),
                "session": session_column(self._session),
                "members": self._members(),
                "kind": coded(_KINDS, self._kind),
                "offset": pa.array(p.value[places], mask=~p.has_value[places]),
                "previous": pa.array(p.value[p.value_before[places]], mask=~has_previous),
                "owned": pa.array(p.by_holder[places], mask=~self._is_known),
                "owner": self._owners(columns.data),
                "rewind": pa.array(p.falls[places]),
                "_zxid": pa.array(p.zxid[places]),
                "_path": paths.take(pa.array(columns.path[rows], mask=~columns.seed[rows])),
                "_sub": pa.array(columns.sub[rows]),
            }
        )
        """The columns of OFFSETS, then those of ORDER."""

    def _kinds(self, is_deletion: Flags) -> Numbers:
        p, places = self._partitions, self._places
        kind: Numbers = np.full(len(places), _CODES["commit"], np.int8)
        for code, name in enumerate(self._groups):
            acts = np.array(sorted(self._facts.operator_acts.get(name, ())), np.int64)
            if len(acts):
                kind[(self._group == code) & np.isin(p.zxid[places], acts)] = _CODES["reset"]
        kind[p.is_claim[places]] = _CODES["claim"]
        kind[p.seed[places]] = _CODES["snapshot"]
        kind[is_deletion] = _CODES["deletion"]
        return kind

    def _members(self) -> Any:
        sessions, session = np.unique(self._session, return_inverse=True)
        different, pair = np.unique(self._group * len(sessions) + session, return_inverse=True)
        texts = []
        for group, place in (divmod(each, len(sessions)) for each in different.tolist()):
            known = members_of(self._facts, int(sessions[place]), self._groups[group])
            texts.append(", ".join(member for _, member in known))
        return coded(texts, pair)

    def _owners(self, data: pa.Array) -> Any:
        claims, owner = np.unique(self._partitions.holder[self._places], return_inverse=True)
        texts = texts_of(data, self._partitions.selection.rows[claims])
        return coded([None if claim < 0 else text for claim, text in zip(claims, texts, strict=True)], owner)

    def marks(self, most: int) -> tuple[int, list[_Mark]]:
        """The number of marks, and the heaviest of them."""
        p, places = self._partitions, self._places
        is_reset = self._kind == _CODES["reset"]
        is_strange = (self._kind == _CODES["commit"]) & self._is_known & ~p.by_holder[places]
        is_owned = p.holder[places] >= 0
        masks = (
            *(p.falls[places] & ~is_reset, is_strange & is_owned, is_strange & ~is_owned),
            *(is_reset, self._kind == _CODES["deletion"]),
        )
        by_kind = [self.order[mask[self.order]] for mask in masks]
        marked = np.concatenate(by_kind)
        heaviest = marked[:most]
        kinds = np.repeat(np.arange(len(masks)), list(map(len, by_kind)))[:most]
        partitions = [self._keys[code][2] for code in self._codes[heaviest].tolist()]
        writes = self.table.drop_columns(["time"]).take(pa.array(heaviest)).to_pylist()
        times = self._ms[heaviest].tolist()
        return len(marked), [
            (kind, (write["zxid"], write["_sub"]), partition, ms, write)
            for kind, partition, ms, write in zip(kinds.tolist(), partitions, times, writes, strict=True)
        ]

    def points(self) -> Numbers:
        """The points of the curves."""
        p = self._partitions
        chosen = np.flatnonzero(p.has_value[self._places] & (p.value[self._places] >= 0))
        places = self._places[chosen]
        points = np.zeros(len(chosen), _POINT)
        points["row"], points["ms"], points["offset"] = self.row[chosen], self._ms[chosen], p.value[places]
        is_first, start = begins(points["row"])
        falls = p.falls[places]
        count = np.cumsum(falls)
        falls &= count - (count - falls)[start] <= _PINNED_MAX
        points["is_pinned"] = falls | np.append(falls[1:] & ~is_first[1:], False)[: len(chosen)]
        return points


class AllOffsets:
    """The offsets of all partitions, added for some at a time. All curves are thinned together."""

    def __init__(self, used: Sequence[Partition], facts: Facts, limits: ReportLimits) -> None:
        self._used, self._limits, self._end_ms = used, limits, facts.end_ms
        self._numbers = {row: number for number, row in enumerate(used[: limits.partitions])}
        self._commits: dict[int, int] = {}
        """The number of writes of each partition that has any, by the number of the partition."""
        self._points = Thinned(limits.points, facts, _FINEST, _thinned)
        self._marks: list[_Mark] = []
        self._marked = 0

    def add(self, tables: ScreenTables) -> Iterator[Any]:
        """Adds the offsets of these tables; returns their rows of OFFSETS with ORDER, in that order."""
        offsets = OffsetColumns(tables, self._numbers)
        points = offsets.points()
        counts = np.bincount(points["row"], minlength=len(self._numbers)).tolist()
        self._commits |= {row: counts[row] for row in np.unique(offsets.row).tolist()}
        self._points.add(points)
        marked, marks = offsets.marks(self._limits.marks)
        self._mark(marked, marks)
        table, order = offsets.table, offsets.order
        return (table.take(pa.array(order[at : at + _SIZE])) for at in range(0, len(order), _SIZE))

    def _mark(self, marked: int, marks: list[_Mark]) -> None:
        self._marked += marked
        self._marks = sorted(self._marks + marks, key=itemgetter(0, 1))[: self._limits.marks]

    def add_seen(self, at: Partition, rows: Iterable[OffsetRow], times: Sequence[int]) -> None:
        """Adds what snapshots show of a partition; `times` are those of `proved_times`."""
        number, points, marks = self._numbers.get(at, -1), [], []
        for row in rows if number >= 0 else ():
            if row.offset is not None and row.offset >= 0 and row.seen is not None:
                until_ms = max(times[row.seen.number], row.time_ms)
                points.append((number, row.time_ms, row.offset, row.is_rewind, until_ms))
                self._commits[number] = self._commits.get(number, 0) + (row.writes or 0)
            if row.is_rewind or row.kind == "deletion":
                write = {**row._asdict(), "group": at[0], "topic": at[1], "session": None, "members": None}
                marks.append((0 if row.is_rewind else _DELETION, (row.zxid, 0), at[2], row.time_ms, write))
        self._points.add(np.array(points, _POINT))
        self._mark(len(marks), marks)

    def data(self, names: Names) -> dict[str, Any]:
        """The data as the page reads it."""
        notes = []
        refused, left_out = len(self._used) - len(self._numbers), self._marked - len(self._marks)
        if refused:
            notes.append(f"{counted(refused, 'partition')} more did not fit and have no curve.")
        if self._points.grain_ms:
            notes.append(
                f"Curves have the last offset of each {duration_text(self._points.grain_ms)}, and both sides"
                " of falls: there were too many commits to draw."
            )
        if left_out:
            notes.append(f"{counted(left_out, 'mark')} of least weight were left out.")
        points = self._points.by_row()
        rows = [
            [
                *(names.of(row[0]), names.of(row[1]), row[2], self._commits[place]),
                *_curve(points[place], names, self._end_ms),
            ]
            for row, place in sorted(self._numbers.items())
            if place in self._commits
        ]
        marks = [
            [
                *(names.of(write["group"]), names.of(write["topic"]), partition, _MARKS[kind]),
                *(ms, hex_zxid(write["zxid"]), number(write["previous"]), number(write["offset"])),
                *(names.of(write["session"]), names.of(write["members"] or None), names.of(write["owner"])),
            ]
            for kind, _, partition, ms, write in sorted(self._marks, key=itemgetter(1, 0))
        ]
        return {"notes": notes, "rows": rows, "marks": marks}


def _thinned(points: Numbers, grain_ms: int, facts: Facts) -> Numbers:
    """The last of the points of a curve that follow each other within one grain, and both sides of falls."""
    grains = (points["ms"] - facts.start_ms) // grain_ms
    is_left_out = np.append((points["row"][1:] == points["row"][:-1]) & (grains[1:] == grains[:-1]), False)
    is_left_out = is_left_out[: len(points)]
    if grain_ms < max((facts.end_ms - facts.start_ms) // 16, 1):  # beyond, few other points would stay
        is_left_out &= ~points["is_pinned"]
    kept: Numbers = points[~is_left_out]
    return kept


def _curve(points: Sequence[tuple[Any, ...]], names: Names, end_ms: int) -> tuple[list[Any], ...]:
    """The times and offsets of points as differences; the offsets are texts where one is large.

    Then, where snapshots show some, how long each is proved to have stood; None for up to the next, in a log
    that ends at `end_ms`.
    """
    stood = []
    if any(point[4] for point in points):  # what both have is as that which knows more has it
        in_order = sorted(points, key=lambda point: (point[1], point[4] or end_ms))
        points = [*{point[1:3]: point for point in in_order}.values()]
        stood = [[until - ms if until else None for _, ms, _, _, until in points]]
    times, values = [point[1] for point in points], [point[2] for point in points]
    since = [ms - before for before, ms in pairwise([names.start_ms, *times])]
    offsets = list(map(number, values))
    if any(isinstance(offset, str) for offset in offsets):
        return since, list(map(str, offsets)), *stood
    return since, [after - before for before, after in pairwise([0, *values])], *stood
