"""Every write of an offset in columns, the curves and marks of them, and their table in order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from zkgroup.audit.answers.partitions import Members, OffsetKind, OffsetRow
from zkgroup.audit.findings.tables import ScreenTables, begins
from zkgroup.audit.inputs.buckets import TemporaryTables
from zkgroup.audit.inputs.events import DELETE, SET
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.rows import Flags, Numbers
from zkgroup.audit.inputs.texts import count_text, duration_text, session_text
from zkgroup.audit.report.keeping import Kept, Names, ReportLimits, hex_zxid, number
from zkgroup.audit.report.tables import OFFSETS, Partition
from zkgroup.zkfiles.arrow import moments, schema

SIZE: Final = 50_000
"""Rows that are given at a time."""
_SEEDS: Final = "seeds"
_PATH, _ZXID, _SUB = "_path", "_zxid", "_sub"
_ORDER: Final = (_ZXID, _SUB, _PATH)


class OrderedTable:
    """Takes the rows of some partitions at a time. Memory: those of one part of the history.

    Rows of a history that is in memory come at once, and are given at once. Others are kept as temporary
    Parquet, for each part of the history apart.
    """

    def __init__(self, give: Callable[[Any], object], ends: Sequence[int], *, at_once: bool) -> None:
        """
        Args:
            give: gets pyarrow.Tables.
            ends: the last zxid of each part of the history.
            at_once: all rows come at once, so none are kept.
        """
        self._give, self._ends = give, np.array(ends, np.int64)
        self._tables = None if at_once else TemporaryTables()

    def add(
        self,
        make: Callable[[Numbers], Any],
        zxid: Numbers,
        sub: Numbers,
        is_seed: Flags,
        paths: Callable[[Numbers], Sequence[str]],
    ) -> None:
        """Rows in order. `make` gives some of them, by their numbers, as a pyarrow.Table.

        What stood before the history is in the order of zxids and paths.
        """
        numbers = np.arange(len(zxid))
        if self._tables is None:
            for begin in range(0, len(numbers), SIZE):
                self._give(make(numbers[begin : begin + SIZE]))
            return
        seeds = numbers[is_seed]
        if len(seeds):
            order = {_ZXID: zxid[seeds], _SUB: sub[seeds], _PATH: pa.array(paths(seeds), pa.string())}
            self._keep(_SEEDS, make(seeds), order)
        logged = numbers[~is_seed]
        parts = np.searchsorted(self._ends, zxid[logged])
        for part in np.unique(parts).tolist():
            some = logged[parts == part]
            self._keep(str(part), make(some), {_ZXID: zxid[some], _SUB: sub[some]})

    def finish(self) -> None:
        """Gives what was kept, the rows of each part of the history in order."""
        if self._tables is None:
            return
        for name in (_SEEDS, *map(str, range(len(self._ends) + 1))):
            pieces = self._tables.read(name)
            if pieces:
                keys = [_ZXID, _PATH if name == _SEEDS else _SUB]
                table = pa.concat_tables(pieces).sort_by([(key, "ascending") for key in keys])
                self._give(table.drop_columns([key for key in _ORDER if key in table.column_names]))

    def close(self) -> None:
        """Gives back what was kept."""
        if self._tables is not None:
            self._tables.close()

    def _keep(self, name: str, table: Any, order: dict[str, Any]) -> None:
        assert self._tables is not None
        for key, values in order.items():
            table = table.append_column(key, values if isinstance(values, pa.Array) else pa.array(values))
        self._tables.add(name, table)


_FINEST: Final = 2048
_COARSEST: Final = 2**63
PINNED_MAX: Final = 200
"""Falls of one curve of which both sides are kept."""
_WEIGHTS: Final = {"rewind": 5, "foreign": 4, "unowned": 3, "reset": 2, "deletion": 1}


class Mark(NamedTuple):
    """A write that is marked on a curve."""

    row: Partition
    kind: str
    """`rewind`; `foreign`: a commit by a session while another one owned the partition; `unowned`: while
    no session did; `reset` or `deletion`."""
    write: OffsetRow
    sub: int
    """Its place in the transaction."""


class Point(NamedTuple):
    """An offset and when it was written."""

    ms: int
    offset: int


class DrawnOffsets(NamedTuple):
    """Holds what the page shows of all offsets."""

    curves: list[tuple[Partition, int, list[Point]]]
    """Of each partition by row: how many commits there were, and the points that are drawn."""
    marks: Kept[Mark]
    grain_ms: int
    """Says how far curves are thinned; 0 for not at all."""
    refused: int
    """Partitions that there was no room for."""

    def data(self, names: Names) -> dict[str, Any]:
        """As the page reads it."""
        notes = []
        if self.refused:
            notes.append(f"{count_text(self.refused, 'partition')} more did not fit and have no curve.")
        if self.grain_ms:
            notes.append(
                f"Curves have the last offset of each {duration_text(self.grain_ms)}, and both sides of"
                " falls: there were too many commits to draw."
            )
        if self.marks.left_out:
            notes.append(f"{count_text(self.marks.left_out, 'mark')} of least weight were left out.")
        return {
            "notes": notes,
            "rows": [
                [names.of(group), names.of(topic), partition, writes, *_curve(points, names.start_ms)]
                for (group, topic, partition), writes, points in self.curves
            ],
            "marks": [_mark(mark, names) for mark in self.marks.items()],
        }


def _curve(points: Sequence[Point], start_ms: int) -> tuple[list[int], list[Any]]:
    """The times of points and their offsets, as differences; all offsets as texts where one is large."""
    since = [ms - before for before, ms in pairwise([start_ms, *(point.ms for point in points)])]
    offsets = [number(point.offset) for point in points]
    if any(isinstance(offset, str) for offset in offsets):
        return since, list(map(str, offsets))
    return since, [after - before for before, after in pairwise([0, *(point.offset for point in points)])]


def _no_marks(limits: ReportLimits) -> Kept[Mark]:
    """Room for the weightiest marks."""
    return Kept(limits.marks, lambda mark: _WEIGHTS[mark.kind])


def kinds_of_marks(write: OffsetRow) -> list[str]:
    """The marks of a write on its curve; most writes have none."""
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


_KINDS: Final[tuple[OffsetKind, ...]] = ("commit", "claim", "reset", "deletion", "snapshot")
_CODES: Final = {kind: code for code, kind in enumerate(_KINDS)}
_LARGEST: Final = 2**63 - 1
_LAST_PARTITION: Final = 2**31 - 1
"""That a column holds; a path may name any."""


class OffsetColumns:
    """Writes partition by partition, each partition's in order: an array for each field of `OffsetRow`."""

    def __init__(self, tables: ScreenTables, shown: Collection[Partition]) -> None:
        """`shown` are the partitions that there is room for."""
        self._tables = tables
        p = self._partitions = tables.partitions
        self.row_of_key: list[Partition] = [(key[0], key[1], int(key[2])) for key in p.selection.keys]
        is_kept: Flags = np.array([row in shown for row in self.row_of_key], np.bool_)
        deletions = ~p.is_owner & (p.op == DELETE)
        self.places: Numbers = np.flatnonzero((p.is_write | deletions) & is_kept[p.selection.codes])
        """Of the writes, in the table of partitions."""
        self.codes: Numbers = p.selection.codes[self.places]
        """The partition of each write, by its place in `row_of_key`."""
        self.rows: Numbers = p.selection.rows[self.places]
        """The row of each write in the history."""
        self.zxid, self.session = p.zxid[self.places], p.session[self.places]
        self.time_ms = tables.set_ms(self.rows)
        self._offsets()
        self._holders()

    def _offsets(self) -> None:
        p, places = self._partitions, self.places
        is_deletion = p.op[places] == DELETE
        self.offset: Numbers = p.value[places]
        self.has_offset: Flags = p.has_value[places]
        self.previous: Numbers = p.value[p.value_before[places]]
        self.has_previous: Flags = (p.value_before[places] >= 0) & ((p.op[places] == SET) | is_deletion)
        self.is_rewind: Flags = p.falls[places]
        self.kind: Numbers = np.full(len(places), _CODES["commit"], np.int8)
        self.kind[self._is_by_operator()] = _CODES["reset"]
        self.kind[p.is_claim[places]] = _CODES["claim"]
        self.kind[p.seed[places]] = _CODES["snapshot"]
        self.kind[is_deletion] = _CODES["deletion"]

    def _is_by_operator(self) -> Flags:
        found: Flags = np.zeros(len(self.places), np.bool_)
        for group, zxids in self._tables.facts.operator_acts.items():
            of_group = np.array([row[0] == group for row in self.row_of_key], np.bool_)
            found |= of_group[self.codes] & np.isin(self.zxid, np.array(sorted(zxids), np.int64))
        return found

    def _holders(self) -> None:
        """Whether each writer owned the partition, and which thread the owner znode named."""
        p, places = self._partitions, self.places
        self.owned: Flags = p.by_holder[places]
        self.owned_known: Flags = (p.holder_known[places] & ~p.seed[places]) | (p.op[places] == DELETE)
        claims, self.owner = np.unique(p.holder[places], return_inverse=True)
        rows = p.selection.rows[claims[claims >= 0]]
        texts = [_text(data) for data in self._tables.columns.data.take(pa.array(rows)).to_pylist()]
        self.owners: list[str | None] = [None, *texts] if (claims < 0).any() else list(texts)
        """By the codes of `owner`."""

    def write_at(self, place: int, members: Mapping[str, Members]) -> OffsetRow:
        """One write as an object."""
        return OffsetRow(
            int(self.zxid[place]),
            int(self.time_ms[place]),
            int(self.session[place]),
            members[self.row_of_key[self.codes[place]][0]][int(self.session[place])],
            _KINDS[self.kind[place]],
            int(self.offset[place]) if self.has_offset[place] else None,
            int(self.previous[place]) if self.has_previous[place] else None,
            bool(self.owned[place]) if self.owned_known[place] else None,
            self.owners[self.owner[place]],
            bool(self.is_rewind[place]),
        )

    def marks(self, limits: ReportLimits) -> Kept[Mark]:
        """The weightiest marks, in the order of the history."""
        marks = _no_marks(limits)
        is_commit = self.kind == _CODES["commit"]
        is_marked = self.is_rewind | (is_commit & self.owned_known & ~self.owned)
        is_marked |= (self.kind == _CODES["reset"]) | (self.kind == _CODES["deletion"])
        places = np.flatnonzero(is_marked)
        members, subs = self.members(), self._tables.columns.sub
        for place in places[np.argsort(self.rows[places])].tolist():
            write = self.write_at(place, members)
            for kind in kinds_of_marks(write):
                marks.add(Mark(self.row_of_key[self.codes[place]], kind, write, int(subs[self.rows[place]])))
        return marks

    def members(self) -> dict[str, Members]:
        """Of each group what its sessions were."""
        return {group: Members(self._tables.facts, group) for group in {row[0] for row in self.row_of_key}}

    def points(self) -> Points:
        """The writes that are points of curves."""
        places = np.flatnonzero(self.has_offset & (self.offset >= 0))
        codes = self.codes[places]
        is_first, start = begins(codes)
        falls = self.is_rewind[places]
        count = np.cumsum(falls)
        falls &= count - (count - falls)[start] <= PINNED_MAX
        has_next: Flags = ~np.append(is_first[1:], True)[: len(codes)]
        return Points(
            codes,
            self.time_ms[places],
            self.offset[places],
            has_next,
            falls | (np.append(falls[1:], False)[: len(codes)] & has_next),
        )

    def add_to(self, table: OrderedTable) -> None:
        """Adds the rows of `tables.OFFSETS`."""
        columns, order = self._tables.columns, np.argsort(self.rows)
        sessions, session = np.unique(self.session, return_inverse=True)
        names = [session_text(number) if number else None for number in sessions.tolist()]
        groups = list(dict.fromkeys(row[0] for row in self.row_of_key))
        numbers = {group: number for number, group in enumerate(groups)}
        group = np.array([numbers[row[0]] for row in self.row_of_key], np.int64)[self.codes]
        different, pair = np.unique(group * len(sessions) + session, return_inverse=True)
        pairs = [divmod(each, len(sessions)) for each in different.tolist()]
        members = self.members()
        texts = [", ".join(members[groups[of_group]][int(sessions[of])]) for of_group, of in pairs]
        topics = pa.array([row[1] for row in self.row_of_key], pa.string())
        partitions = np.array([min(row[2], _LAST_PARTITION) for row in self.row_of_key], np.int64)

        def arrays(places: Numbers) -> Any:
            some = order[places]
            codes = self.codes[some]
            found = pa.table(
                {
                    "group": _coded(groups, group[some]),
                    "topic": topics.take(pa.array(codes)),
                    "partition": pa.array(partitions[codes]),
                    "zxid": pa.array(self.zxid[some]),
                    "time": moments(pa.array(self.time_ms[some])),
                    "session": _coded(names, session[some]),
                    "members": _coded(texts, pair[some]),
                    "kind": _coded(_KINDS, self.kind[some]),
                    "offset": _nullable(self.offset, self.has_offset, some),
                    "previous": _nullable(self.previous, self.has_previous, some),
                    "owned": _nullable(self.owned, self.owned_known, some),
                    "owner": _coded(self.owners, self.owner[some]),
                    "rewind": pa.array(self.is_rewind[some]),
                }
            )
            return found.cast(schema(OFFSETS))

        def paths(places: Numbers) -> list[str]:
            return [columns.paths[code] for code in columns.path[self.rows[order[places]]].tolist()]

        rows = self.rows[order]
        table.add(arrays, columns.zxid[rows], columns.sub[rows], columns.seed[rows], paths)


class Points(NamedTuple):
    """Points of curves, curve by curve, an array for each field."""

    codes: Numbers
    """The partition of each, by its place in `OffsetColumns.row_of_key`."""
    ms: Numbers
    offset: Numbers
    has_next: Flags
    """True if the curve has a later point."""
    is_pinned: Flags
    """True if it is beside a fall."""

    def thinned(self, facts: Facts, grain_ms: int) -> Points:
        """The last of those of a curve that follow each other within one grain, and both sides of falls.

        Points that a shorter grain left give the same as all.
        """
        since = self.ms - facts.start_ms
        number = since // grain_ms if grain_ms < _LARGEST else np.where(since < 0, -1, 0)
        is_left_out = self.has_next & np.append(number[1:] == number[:-1], False)[: len(number)]
        if grain_ms < max(
            (facts.end_ms - facts.start_ms) // 16, 1
        ):  # else next to nothing else would be kept
            is_left_out &= ~self.is_pinned
        return Points(*(each[~is_left_out] for each in self))


class _Curves(NamedTuple):
    """The curves of some partitions."""

    rows: list[Partition]
    counts: list[int]
    """Commits of each row."""
    written: Numbers
    """The places of rows that were ever written."""


class AllOffsets:
    """Takes the offsets of some partitions at a time, and thins the points of all their curves together.

    The grain is the shortest, doubled again and again, with which all points fit.
    """

    def __init__(self, facts: Facts, limits: ReportLimits) -> None:
        self._limits, self._facts = limits, facts
        self._curves: list[_Curves] = []
        self._points: list[Points] = []
        self._marks: list[Kept[Mark]] = []
        self._grain_ms = 0

    def add(self, offsets: OffsetColumns) -> None:
        points = offsets.points()
        counts = np.bincount(points.codes, minlength=len(offsets.row_of_key)).tolist()
        written = np.unique(offsets.codes)
        self._curves.append(_Curves(offsets.row_of_key, counts, written))
        self._points.append(points.thinned(self._facts, self._grain_ms) if self._grain_ms else points)
        finest = max((self._facts.end_ms - self._facts.start_ms) // _FINEST, 1)
        while (
            self._grain_ms <= _COARSEST
            and sum(len(each.codes) for each in self._points) > self._limits.points
        ):
            self._grain_ms = 2 * self._grain_ms or finest
            self._points = [each.thinned(self._facts, self._grain_ms) for each in self._points]
        self._marks.append(offsets.marks(self._limits))

    def drawn(self, refused: int) -> DrawnOffsets:
        """Curves and marks; `refused` partitions had no room."""
        return DrawnOffsets(
            sorted(self._all_curves(), key=itemgetter(0)), self._all_marks(), self._grain_ms, refused
        )

    def _all_curves(self) -> Iterator[tuple[Partition, int, list[Point]]]:
        for curves, points in zip(self._curves, self._points, strict=True):
            drawn = list(map(Point, points.ms.tolist(), points.offset.tolist()))
            starts, ends = (
                np.searchsorted(points.codes, curves.written, side).tolist() for side in ("left", "right")
            )
            for code, start, end in zip(curves.written.tolist(), starts, ends, strict=True):
                yield curves.rows[code], curves.counts[code], drawn[start:end]

    def _all_marks(self) -> Kept[Mark]:
        marks = _no_marks(self._limits)
        found = chain.from_iterable(each.items() for each in self._marks)
        for one in sorted(found, key=lambda mark: (mark.write.zxid, mark.sub)):
            marks.add(one)
        marks.left_out += sum(each.left_out for each in self._marks)
        return marks


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")


def _coded(texts: Sequence[str | None], codes: Numbers) -> pa.Array:
    return pa.array(texts, pa.string()).take(pa.array(codes))


def _nullable(values: Numbers, is_known: Flags, some: Numbers) -> pa.Array:
    return pa.array(values[some], mask=~is_known[some])
