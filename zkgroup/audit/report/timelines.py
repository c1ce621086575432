"""What timelines draw: rows of intervals, and the curves and marks of all writes of offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar

import numpy as np
import pyarrow as pa

from zkgroup.audit.answers.partitions import OffsetKind, OffsetRow
from zkgroup.audit.answers.snapshots import lives_in
from zkgroup.audit.findings import cluster
from zkgroup.audit.findings.cluster import ChangeStamp, PartitionView, ViewStretch
from zkgroup.audit.findings.tables import ScreenTables, begins
from zkgroup.audit.inputs.events import CREATE, DELETE, SET, Seen
from zkgroup.audit.inputs.facts import Facts, Life, decoded, members_of
from zkgroup.audit.inputs.rows import Flags, Numbers
from zkgroup.audit.inputs.snapshots import Series
from zkgroup.audit.report.keeping import LARGEST, Names, ReportLimits, Thinned, number
from zkgroup.audit.report.tables import Partition, coded, keys_of, partition_columns, session_column, texts_of
from zkgroup.model.text import counted, duration_text, hex_zxid
from zkgroup.zkfiles.arrow import moments
from zkgroup.znodes.brokers import NO_LEADER, BrokerRegistration
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration

Row = TypeVar("Row", bound=tuple[str | int, ...])

_FINEST: Final = 4096
"""The first grain is the history divided by this."""

SPAN: Final = np.dtype(
    [
        *((name, np.int64) for name in ("row", "from_zxid", "to_zxid", "from_ms", "to_ms", "session")),
        *(("together", np.int64), ("is_open", np.bool_), ("name", np.object_), ("ended", np.object_)),
    ]
)
"""An interval: `name` is its owner, controller, broker or fault; `session` is 0 for none; `ended`
is the kind of its end. Where several are drawn `together`, the name is that of the last one."""
Span = tuple[Any, ...]
"""The fields of a SPAN but for its row."""


class Timeline(Generic[Row]):
    """The spans of a limited number of rows, as the page draws them.

    If there are too many spans, those of a row that follow each other within one grain become one, with their
    number.
    """

    def __init__(self, rows: Sequence[Row], facts: Facts, limits: ReportLimits) -> None:
        self.numbers = {row: number for number, row in enumerate(rows[: limits.partitions])}
        """The number of each row that is drawn."""
        self._refused, self._end_zxid = len(rows) - len(self.numbers), facts.end_zxid
        self._spans = Thinned(limits.spans, facts, _FINEST, _brought_together)
        self.add = self._spans.add

    def draw(self, spans: Iterable[tuple[Row, Span]]) -> None:
        """Adds spans with their rows, those of a row in order."""
        drawn = [(self.numbers[row], *span) for row, span in spans if row in self.numbers]
        self.add(np.array(sorted(drawn, key=itemgetter(0)), SPAN))

    def data(self, one: str, names: Names) -> dict[str, Any]:
        """The data as the page reads it; `one` is the noun for a row."""
        notes = []
        if self._refused:
            notes.append(f"{counted(self._refused, one)} more did not fit and are not drawn.")
        if self._spans.grain_ms:
            notes.append(
                f"Spans that follow each other within {duration_text(self._spans.grain_ms)} are drawn as one,"
                " with their number: there were too many."
            )
        spans = self._spans.by_row()
        rows = [
            [
                *(names.of(part) if isinstance(part, str) else part for part in row),
                [_fields(span, names) for span in self._each_once(spans[number])],
            ]
            for row, number in sorted(self.numbers.items())
            if number in spans
        ]
        return {"notes": notes, "rows": rows}

    def _each_once(self, spans: Sequence[tuple[Any, ...]]) -> Iterable[tuple[Any, ...]]:
        """In their order; of what both the log and snapshots have, as that which knows more has it."""
        end_zxid = self._end_zxid
        in_order = sorted(spans, key=lambda span: (span[1], end_zxid if span[7] else span[2]))
        return {span[1]: span for span in in_order}.values()


def timeline_of(spans: Sequence[tuple[Row, Span]], facts: Facts, limits: ReportLimits) -> Timeline[Row]:
    """The timeline of these spans, those of a row in order; the first rows are drawn."""
    timeline = Timeline(list(dict.fromkeys(row for row, _ in spans)), facts, limits)
    timeline.draw(spans)
    return timeline


def _brought_together(spans: Numbers, grain_ms: int, facts: Facts) -> Numbers:
    first, last = ((spans[end] - facts.start_ms) // grain_ms for end in ("from_ms", "to_ms"))
    is_open, is_within = spans["is_open"], spans["is_open"] | (first == last)
    joins = (spans["row"][1:] == spans["row"][:-1]) & (first[1:] == first[:-1])
    joins &= is_within[1:] & is_within[:-1] & ~is_open[:-1]
    is_first = np.append([True], ~joins)[: len(spans)]
    is_last = np.append(~joins, True)[: len(spans)]
    together: Numbers = spans[is_last]
    for name in ("from_ms", "from_zxid"):
        together[name] = spans[name][is_first]
    together["together"] = np.diff(np.cumsum(spans["together"])[is_last], prepend=0)
    return together


def _fields(span: tuple[Any, ...], names: Names) -> list[Any]:
    _, from_zxid, to_zxid, from_ms, to_ms, session, together, is_open, name, ended = span
    return [
        from_ms - names.start_ms,
        None if is_open else to_ms - from_ms,
        names.of(name),
        names.session(session),
        *names.zxids(from_zxid, None if is_open else to_zxid),
        names.of(ended),
        *([together] if together > 1 else ()),
    ]


def ownerships(tables: ScreenTables, numbers: Mapping[Partition, int]) -> tuple[Numbers, Any]:
    """The ownerships of these partitions, as SPAN and as OWNERS with ORDER.

    The rows of OWNERS are in the order in which ownerships ended; those that did not end come last.
    """
    p, columns = tables.partitions, tables.columns
    keys, number_of_key = keys_of(p, numbers)
    claim, end = p.ownerships()
    is_drawn: Flags = number_of_key[p.selection.codes[claim]] >= 0
    claim, end = claim[is_drawn], end[is_drawn]
    codes, last = p.selection.codes[claim], p.selection.rows[end]
    spans = np.zeros(len(claim), SPAN)
    spans["row"], spans["session"], spans["together"] = number_of_key[codes], p.session[claim], 1
    spans["from_ms"], spans["from_zxid"] = p.time_ms[claim], p.zxid[claim]
    spans["to_ms"], spans["to_zxid"], spans["is_open"] = p.time_ms[end], p.zxid[end], end < 0
    spans["name"] = texts_of(columns.data, p.selection.rows[claim])
    lives = [tables.facts.sessions.get(session) for session in p.session[claim].tolist()]
    ends = np.array([-1 if life is None or life.to_zxid is None else life.to_zxid for life in lives])
    is_deletion = p.op[end] != CREATE  # where a claim follows a claim, the log has a hole
    is_by_other = is_deletion & (p.session[end] != p.session[claim])
    is_asked_for = is_deletion & ~columns.synthetic[last] & (ends != p.zxid[end])
    how = ["open", "deleted_by_other", "release"]
    spans["ended"] = np.select([end < 0, is_by_other, is_asked_for], how, "session_end")
    order = np.argsort(np.where(end < 0, len(columns) + spans["row"], last))
    ended, is_open = spans[order], end[order] < 0
    return spans, pa.table(
        {
            **partition_columns(keys, codes[order]),
            "owner": pa.array(ended["name"], pa.string()),
            "session": session_column(ended["session"]),
            "from_zxid": pa.array(ended["from_zxid"]),
            "to_zxid": pa.array(ended["to_zxid"], mask=is_open),
            "from": moments(pa.array(ended["from_ms"])),
            "to": moments(pa.array(ended["to_ms"], mask=is_open)),
            "ended_by": pa.array(ended["ended"], pa.string()),
            "_zxid": pa.array(np.where(is_open, LARGEST, ended["to_zxid"])),
            "_path": pa.nulls(len(ended), pa.string()),
            "_sub": pa.array(np.where(is_open, ended["row"], columns.sub[last[order]])),
        }
    )


def proved_times(series: Series) -> list[int]:
    """By snapshot a time at which all stood that it has: a fuzzy one has some as they were when it began."""
    times = []
    for each in series.snapshots:
        zxids, stamps = np.split(series.table.stats[series.trees[each.number], :4], 2, axis=1)
        times.append(each.time_ms if each.is_exact else int(stamps[zxids <= each.zxid].max(initial=0)))
    return times


def seen_lives(series: Series, times: Sequence[int], *of_paths: Iterable[Seen]) -> Iterator[Life]:
    """The existences of znodes, each up to the last snapshot with it; `times` are those of `proved_times`."""
    for (path, data, _, stat), last, _ in lives_in(of_paths, series):
        to = max(last.zxid, stat.czxid), max(times[last.number], stat.ctime)
        yield Life(path, stat.ephemeral_owner, data, stat.czxid, stat.ctime, *to)


def controllers(facts: Facts, names: Names, limits: ReportLimits) -> dict[str, Any]:
    """The times of each controller, and every write of the epoch."""
    spans = []
    for life in facts.controllers:
        value = decoded(ControllerRegistration.decode, life.path, life.data)
        row = "cannot be read" if value is None else f"broker {value.broker}"
        until = facts.end_zxid if life.to_zxid is None else life.to_zxid - 1
        epoch = cluster.epoch_at(facts, until)
        name = cluster.controller_name(life)
        if epoch is not None:
            name = f"{name}, epoch {epoch}"
        spans.append(((row,), span_of(life, name, facts)))
    epochs = []
    for change in facts.controller_epochs[-limits.marks :]:
        value_ = decoded(ControllerEpoch.decode, ControllerEpoch.path(), change.data)
        session = names.session(change.session)
        text = "deleted" if change.data is None else "cannot be read" if value_ is None else str(value_.epoch)
        epochs.append([change.time_ms, hex_zxid(change.zxid), names.of(text), session])
    data = timeline_of(spans, facts, limits).data("controller", names)
    more = len(facts.controller_epochs) - len(epochs)
    if more:
        data["notes"].append(f"The first {more} writes of the epoch are left out.")
    return {**data, "epochs": epochs}


def brokers(facts: Facts, names: Names, limits: ReportLimits) -> dict[str, Any]:
    """The registrations of each broker, and the kind of their ends."""
    spans = []
    for broker, lives in facts.brokers.items():
        key = (int(broker) if broker.isdecimal() and len(broker) < 20 else 2**63, f"broker {broker}")
        for life in lives:
            value = decoded(BrokerRegistration.decode, life.path, life.data)
            address = "cannot be read" if value is None else f"{value.host}:{value.port}"
            spans.append((key, span_of(life, address, facts)))
    data = timeline_of(spans, facts, limits).data("broker", names)
    return {**data, "rows": [row[1:] for row in data["rows"]]}


def replica_faults(
    topic: str, partitions: Iterable[tuple[int, Sequence[ViewStretch]]]
) -> Iterator[tuple[tuple[str, int], Span]]:
    """The times in which a partition of a topic had no leader, or too few replicas in sync.

    Another fault begins another span.
    """
    for partition, stretches in partitions:
        for text, run in groupby(stretches, key=lambda stretch: _fault(stretch.view)):
            if text is not None:
                of_text = list(run)
                yield (topic, partition), _span(of_text[0].since, of_text[-1].to, text, "over")


def _fault(view: PartitionView) -> str | None:
    if view.state is None or view.is_deleting:
        return None
    if view.state.leader == NO_LEADER:
        return f"no leader; in sync {cluster.brokers_text(view.state.isr)}"
    missing = [broker for broker in view.replicas or () if broker not in view.state.isr]
    if not missing:
        return None
    return f"not in sync {cluster.brokers_text(missing)}; leader {view.state.leader}"


def span_of(life: Life, name: str, facts: Facts) -> Span:
    """The span of a life; what no transaction ended is up to the last snapshot with it."""
    is_seen = life.to_zxid is not None and life.ended_by is None
    ended = "seen" if is_seen else cluster.ending_text(facts, life)
    return _span(cluster.begin_of(life), cluster.end_of(life), name, ended)


def _span(since: ChangeStamp, to: ChangeStamp | None, name: str, ended: str) -> Span:
    until, how = (since, "open") if to is None else (to, ended)
    return since.zxid, until.zxid, since.time_ms, until.time_ms, since.session, 1, to is None, name, how


_SIZE: Final = 50_000
_FINEST_CURVE: Final = 2048
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
        self._points = Thinned(limits.points, facts, _FINEST_CURVE, _thinned)
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
