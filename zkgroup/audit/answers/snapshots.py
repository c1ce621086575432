"""Owners, offsets and sessions of logs and tree snapshots; what a log tells better is taken from there.

Those of logs come from the parts of a history in columns.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby, zip_longest
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from zkgroup.audit.answers import partitions
from zkgroup.audit.answers.partitions import GroupPartition, OffsetRow, OwnerLife, offset_of, thread_of
from zkgroup.audit.inputs import events, rows
from zkgroup.audit.inputs.facts import Facts, SessionLife, facts_of
from zkgroup.audit.inputs.logs import Ends
from zkgroup.audit.inputs.snapshots import Series
from zkgroup.audit.inputs.source import PointInTime, Rows, Source, is_within
from zkgroup.errors import NotFoundError
from zkgroup.model import TopicPartition
from zkgroup.zkfiles.records import StoredZnode, lifetime_of
from zkgroup.zkfiles.snapshots import TreeSnapshot
from zkgroup.znodes.paths import path_kind

_Part = tuple[Facts, *tuple[Any, ...]]
"""What the log or a series answers, behind its facts."""


SeenLife = tuple[StoredZnode, TreeSnapshot, TreeSnapshot | None]
"""One existence of a znode: its first known state, the last snapshot with it, and the first one behind that
without it."""


def lives_in(of_paths: Iterable[Iterable[events.Seen]], series: Series) -> Iterator[SeenLife]:
    """The existences of znodes, those of one in order; each has a czxid of its own."""
    for of_path in of_paths:
        of_czxid = groupby(of_path, lambda seen: seen.state and seen.state.stat.czxid)
        found = [list(runs) for _, runs in of_czxid]
        for runs, behind in zip_longest(found, found[1:]):
            if (state := runs[0].state) is not None:
                end = series.snapshots[behind[0].first] if behind else None
                yield state, series.snapshots[runs[-1].last], end


def facts_of_series(series: Series) -> Facts:
    """The ends of a series, its topics, and who was registered in it."""
    first, last = series.snapshots[0], series.snapshots[-1]
    states = [seen.state for seen in chain.from_iterable(series.facts.values()) if seen.state is not None]
    facts = facts_of(
        events.Event(stat.mzxid, events.SINGLE, stat.mtime, stat.ephemeral_owner, 0, "create", path, data)
        for path, data, _, stat in sorted(states, key=lambda state: (state.stat.mzxid, state.path))
    )
    facts = replace(facts, start_zxid=first.zxid, start_ms=first.time_ms, has_log=False, sessions={})
    return replace(facts, end_zxid=last.end_zxid, end_ms=last.time_ms)


def groups_in(series: Series) -> set[str]:
    """The names of the groups that any snapshot has."""
    return {place.name for place in map(path_kind, series.paths) if events.is_of_groups(place)}


def partitions_in(series: Series, group: str | None) -> dict[GroupPartition, events.States]:
    """The states of owners and offsets of a group, or of all, by partition."""
    keyed = series.keyed(events.BY_GROUP_PARTITION, lambda key: group in (None, key[0]))
    return {GroupPartition(of, TopicPartition(topic, int(n))): states for (of, topic, n), states in keyed}


def parts_of(source: Source) -> Sequence[Series | None]:
    """The log of a source as None, unless there is none, and its series."""
    return source.series if source.series and source.history is None else (None, *source.series)


def _parts(
    series: Sequence[Series | None], part: Callable[[Series | None], _Part]
) -> tuple[Facts, list[_Part]]:
    """The facts of all, and the parts: of the log, which is None, and of each series.

    Raises NotFoundError where none has what is asked for.
    """
    found, missing = list[_Part](), list[NotFoundError]()
    for each in series:
        try:
            found.append(part(each))
        except NotFoundError as error:
            missing.append(error)
    if not found:
        raise missing[0]
    last = max((facts for facts, *_ in found), key=lambda each: each.end_zxid)
    return replace(found[0][0], end_zxid=last.end_zxid, end_ms=last.end_ms), found


def _joined(parts: Sequence[tuple[Facts, Mapping[Any, Any]]], ended: str) -> dict[Any, Any]:
    """The rows of all parts, by key. Open is what the last part shows so, not what the log ended with."""
    found: dict[Any, Any] = {}
    _, last = max(parts, key=lambda part: part[0].end_zxid)
    for _, part in parts:
        for key, row in part.items():
            known, now = found.setdefault(key, row), last.get(key)
            if getattr(known, ended) == "open" and (now is None or getattr(now, ended) != "open"):
                to = (None, None) if now is None else (now.to_zxid, now.to_ms)
                found[key] = known._replace(to_zxid=to[0], to_ms=to[1], **{ended: None})
    return found


class OfPartitions(NamedTuple):
    """What owners or offsets are asked of; None for all."""

    group: str | None = None
    partition: TopicPartition | None = None
    start: PointInTime | None = None
    end: PointInTime | None = None

    def within(self, source: Source, until: PointInTime | None) -> tuple[Facts, list[_Part]]:
        """Events of the log up to a moment, and states of each series, by partition, with their facts."""
        group, partition = self.group, self.partition

        def part(series: Series | None) -> _Part:
            found: Mapping[GroupPartition, Any]
            if series is None:
                facts, found = partition_rows(source.rows(self.start, until), group)
                of: Any = facts
            else:
                events.require_group(group, groups_in(series))
                facts, of = facts_of_series(series), series.in_order
                found = partitions_in(of, group)
            if partition is not None:
                partitions.require_partition(partition, found, facts)
                found = {at: rows for at, rows in found.items() if at.topic_partition == partition}
            return facts, of, found

        return _parts(parts_of(source), part)


def owners_in(source: Source, asked: OfPartitions) -> tuple[Facts, list[tuple[GroupPartition, OwnerLife]]]:
    """The ownerships within a range, and the facts of what was read. Raises NotFoundError."""
    zxids, known = source.zxids(asked.start, asked.end), []
    facts, parts = asked.within(source, None)
    for part, of, found in parts:
        lives_of = partitions.owners_of if part is of else _owners_of
        lives = {(at, life.from_zxid): life for at in found for life in lives_of(found[at], of)}
        known.append((part, lives))
    in_order = ((at, life) for (at, _), life in sorted(_joined(known, "ended_by").items(), key=itemgetter(0)))
    return facts, [each for each in in_order if is_within(each[1].from_zxid, each[1].to_zxid, zxids)]


def _owners_of(states: events.States, series: Series) -> Iterator[OwnerLife]:
    for of_path in (runs for path, runs in states.items() if path_kind(path).kind == "owner"):
        for state, last, end in lives_in([of_path], series):
            owner, stat = state.stat.ephemeral_owner, state.stat
            is_of_session = lifetime_of(owner) == "session"
            to = (None, None) if end is None else (end.end_zxid, end.time_ms)
            life = OwnerLife(thread_of(state), owner if is_of_session else 0, stat.czxid, stat.ctime, *to)
            is_open = end is None and series.ends and last is series.snapshots[-1]
            yield life._replace(ended_by="open" if is_open else None, is_ephemeral=is_of_session)


def offsets_in(source: Source, asked: OfPartitions) -> tuple[Facts, list[tuple[GroupPartition, OffsetRow]]]:
    """The writes of offsets within a range, and the facts of what was read. Raises NotFoundError."""
    zxids, found, shown = source.zxids(asked.start, asked.end), [], set[GroupPartition]()
    facts, parts = asked.within(source, asked.end)
    for part, of, states in sorted(parts, key=lambda each: each[0].start_zxid):
        is_log, rows_of = part is of, partitions.offsets_of if part is of else offsets_seen
        rows = [(at, row) for at, some in states.items() for row in rows_of(some, of, at.group)]
        rows = [each for each in rows if is_log or is_within(each[1].zxid, each[1].zxid, zxids)]
        # The log has what it covers, and what stood at the beginning of a later part an earlier one shows.
        rows_there = (each for each in rows if is_log or not source.covers(each[1].zxid))
        found += [(at, row) for at, row in rows_there if row.kind != "snapshot" or at not in shown]
        shown |= {at for at, _ in rows}
    return facts, sorted(found, key=lambda each: each[1].zxid)


def offsets_seen(states: events.States, series: Series, group: str = "") -> Iterator[OffsetRow]:
    """What changed in the offset of a partition from one snapshot to the next that tells of it.

    A marker of the same transaction proves a reset.
    """
    runs = [each for path, seen in states.items() if path_kind(path).kind == "offset" for each in seen]
    before: events.Seen | None = None
    value: int | None = None
    for now in runs:
        old, new, at = before and before.state, now.state, series.snapshots[now.first]
        previous, value = value, None if new is None else offset_of(new.path, new.data)
        if new is not None:
            stat, same = new.stat, old if old is not None and old.stat.czxid == new.stat.czxid else None
            if same is None or stat.mzxid != same.stat.mzxid:
                previous = previous if same else None
                falls = value is not None and previous is not None and value < previous >= 0
                kind: partitions.OffsetKind = "write" if before else "snapshot"
                if before and stat.mzxid in series.operator_acts.get(group, ()):
                    kind = "reset"
                writes = stat.version - (same.stat.version if same else -1) if before else None
                known = stat.mzxid, stat.mtime, 0, (), kind, value, previous, None, None, falls, writes
                yield OffsetRow(*known, series.snapshots[now.last])
        elif old is not None:
            yield OffsetRow(
                *(at.end_zxid, at.time_ms, 0, ()), "deletion", None, previous, None, None, False, None
            )
        before = now


def sessions_in(
    parts: Sequence[Series | None], logged: Callable[[], _Part]
) -> tuple[Facts, list[partitions.SessionRow], set[str]]:
    """The facts, every session, and the names of all groups; `logged` gives those of the log."""

    def part(series: Series | None) -> _Part:
        if series is None:
            return logged()
        facts = facts_of_series(series)
        return facts, _sessions(series, facts), groups_in(series)

    facts, found = _parts(parts, part)
    rows = _joined([(of, {row.session: row for row in rows}) for of, rows, _ in found], "ended")
    return facts, partitions.by_beginning(rows.values()), {group for *_, groups in found for group in groups}


def _sessions(series: Series, facts: Facts) -> Iterator[partitions.SessionRow]:
    """The sessions that servers' snapshots list: from the first list with it to the first one without it."""
    lists = [each for each in series.snapshots if each.sessions is not None]
    moments = [(None, None), *((each.zxid, each.time_ms) for each in lists[1:]), (None, None)]
    numbers: dict[int, list[int]] = {}
    for number, snapshot in enumerate(lists):
        for session in snapshot.sessions or ():
            numbers.setdefault(session, []).append(number)
    for session, within in numbers.items():
        moment, end = moments[within[0]], moments[within[-1] + 1]
        life = SessionLife(session, series.timeouts.get(session), *moment, *end)
        count = series.ephemerals(lists[within[-1]].number).get(session, 0)
        row = partitions.session_row(life, facts, writes=0, last_ms=None, created=0, ephemerals=count)
        is_open = end[0] is None and series.ends and lists[-1] is series.snapshots[-1]
        yield row._replace(ended="open" if is_open else None, writes=None, created=None)


_At = tuple[int, int]


class SessionsBuilder:
    """Takes the parts of a history in order, with the ends of all ephemerals. Memory: the sessions.

    The transaction that ended a session is known only at the end, so candidates are counted apart.
    """

    def __init__(self) -> None:
        self._ephemerals = Ends()
        self._created: Counter[int] = Counter()
        self._created_at: Counter[_At] = Counter()
        self._lost_at: Counter[_At] = Counter()
        self._writes: Counter[int] = Counter()
        self._last: dict[int, _At] = {}
        """The zxid and time of the last transaction of each session that ended no session."""
        self._ends: defaultdict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
        """The transactions that may have ended each session, with their time, and 1 for a write or 0."""

    def add(self, columns: rows.Columns) -> None:
        """Adds one part; the seeds are the first one."""
        self._ephemerals.added(columns)
        closes = np.unique(columns.zxid[columns.op == events.CLOSE_SESSION])
        has_session, is_end = columns.session != 0, np.isin(columns.zxid, closes)
        makes = (
            (columns.op == events.CREATE)
            & columns.applied
            & (columns.ephemeral == events.OF_SESSION)
            & has_session
        )
        self._created.update(_counted(columns.session[makes]))
        self._created_at.update(_counted_at(columns, makes & is_end))
        self._lost_at.update(_counted_at(columns, (columns.op == events.DELETE) & has_session & is_end))
        all_ = rows.transactions_of(columns)
        is_end = np.isin(all_.zxid, closes)
        self._writes.update(_counted(all_.session[~is_end & ~all_.opens]))
        places = np.flatnonzero(~is_end)
        places = places[rows.last_places(all_.session[places])]
        lists = (each[places].tolist() for each in (all_.session, all_.zxid, all_.time_ms))
        for session, zxid, time_ms in zip(*lists, strict=True):
            self._last[session] = zxid, time_ms
        for place in np.flatnonzero(is_end).tolist():
            of_session = self._ends[int(all_.session[place])]
            of_session[int(all_.zxid[place])] = int(all_.time_ms[place]), int(not all_.opens[place])

    def rows(self, facts: Facts) -> list[partitions.SessionRow]:
        """Every session of the history, by its beginning."""
        living = self._ephemerals.living
        return partitions.by_beginning(
            self._row(life, facts, living.get(session, 0)) for session, life in facts.sessions.items()
        )

    def _row(self, life: SessionLife, facts: Facts, living: int) -> partitions.SessionRow:
        session, end = life.session, life.to_zxid
        at = session, -1 if end is None else end
        writes, last = self._writes[session], self._last.get(session)
        for zxid, (time_ms, is_write) in self._ends.get(session, {}).items():
            if zxid != end:
                writes += is_write
                last = max(last or (zxid, time_ms), (zxid, time_ms))
        return partitions.session_row(
            life,
            facts,
            writes=writes,
            last_ms=last and last[1],
            created=self._created[session] - self._created_at[at],
            ephemerals=living if end is None else self._lost_at[at],
        )


def _counted(values: rows.Numbers) -> dict[int, int]:
    different, counts = np.unique(values, return_counts=True)
    return dict(zip(different.tolist(), counts.tolist(), strict=True))


def _counted_at(columns: rows.Columns, mask: rows.Flags) -> Counter[_At]:
    return Counter(zip(columns.session[mask].tolist(), columns.zxid[mask].tolist(), strict=True))


def session_views(
    history: Rows, rows_per_part: int = rows.ROWS_PER_PART
) -> tuple[Facts, list[partitions.SessionRow], set[str]]:
    """The facts, every session, and the names of all groups. Memory: the sessions, and a part of the rows."""
    builder, groups = SessionsBuilder(), set[str]()
    known: list[rows.Columns] = []
    for part in history.parts(rows_per_part, ()):
        builder.add(part)
        known.append(rows.compact(part.take(rows.fact_rows(part))))
        groups |= set(rows.groups_of_paths(part.paths)[0])
    facts = history.ended(rows.facts_in(rows.joined(known)))
    return facts, builder.rows(facts), groups


def partition_rows(
    history: Rows, group: str | None, rows_per_part: int = rows.ROWS_PER_PART
) -> tuple[Facts, Mapping[GroupPartition, list[events.Event]]]:
    """The facts, and the rows of owners and offsets of a group, or of all, each partition's in order.

    Memory: these rows, and a part of the others. Raises NotFoundError where there never was such a group.
    """
    known: list[rows.Columns] = []
    found: dict[GroupPartition, list[events.Event]] = {}
    names = set[str]()
    for part in history.parts(rows_per_part, None if group is None else (group,)):
        known.append(rows.compact(part.take(rows.fact_rows(part))))
        groups, codes = rows.groups_of_paths(part.paths)
        names.update(groups)
        is_asked = np.array([*(group in (None, name) for name in groups), False])[codes]
        of_path: dict[str, list[events.Event]] = {}
        for place in np.flatnonzero(is_asked).tolist():
            kind, of, topic, number, _ = path_kind(part.paths[place])
            is_asked[place] = kind in ("owner", "offset")
            if is_asked[place]:
                at = GroupPartition(of, TopicPartition(topic, number))
                of_path[part.paths[place]] = found.setdefault(at, [])
        for event in part.events(np.flatnonzero(is_asked[part.path])):
            of_path[event.path].append(event)
    events.require_group(group, names)
    of_partitions = {at: some for at, some in sorted(found.items()) if some}
    return history.ended(rows.facts_in(rows.joined(known))), of_partitions
