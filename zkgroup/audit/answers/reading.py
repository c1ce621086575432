"""Sessions and the rows of partitions, from the parts of a history in columns."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

import numpy as np

from zkgroup.audit.answers.partitions import GroupPartition
from zkgroup.audit.answers.sessions import SessionRow, by_beginning, session_row
from zkgroup.audit.inputs import rows
from zkgroup.audit.inputs.events import CLOSE_SESSION, CREATE, DELETE, OF_SESSION, Event, require_group
from zkgroup.audit.inputs.facts import Facts, SessionLife
from zkgroup.audit.inputs.logs import Ends
from zkgroup.audit.inputs.source import Rows
from zkgroup.model import TopicPartition
from zkgroup.znodes.paths import path_kind

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
        closes = np.unique(columns.zxid[columns.op == CLOSE_SESSION])
        has_session, is_end = columns.session != 0, np.isin(columns.zxid, closes)
        makes = (columns.op == CREATE) & columns.applied & (columns.ephemeral == OF_SESSION) & has_session
        self._created.update(_counted(columns.session[makes]))
        self._created_at.update(_counted_at(columns, makes & is_end))
        self._lost_at.update(_counted_at(columns, (columns.op == DELETE) & has_session & is_end))
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

    def rows(self, facts: Facts) -> list[SessionRow]:
        """Every session of the history, by its beginning."""
        living = self._ephemerals.living
        return by_beginning(
            self._row(life, facts, living.get(session, 0)) for session, life in facts.sessions.items()
        )

    def _row(self, life: SessionLife, facts: Facts, living: int) -> SessionRow:
        session, end = life.session, life.to_zxid
        at = session, -1 if end is None else end
        writes, last = self._writes[session], self._last.get(session)
        for zxid, (time_ms, is_write) in self._ends.get(session, {}).items():
            if zxid != end:
                writes += is_write
                last = max(last or (zxid, time_ms), (zxid, time_ms))
        return session_row(
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
) -> tuple[Facts, list[SessionRow], set[str]]:
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
) -> tuple[Facts, Mapping[GroupPartition, list[Event]]]:
    """The facts, and the rows of owners and offsets of a group, or of all, each partition's in order.

    Memory: these rows, and a part of the others. Raises NotFoundError where there never was such a group.
    """
    known: list[rows.Columns] = []
    found: dict[GroupPartition, list[Event]] = {}
    names = set[str]()
    for part in history.parts(rows_per_part, None if group is None else (group,)):
        known.append(rows.compact(part.take(rows.fact_rows(part))))
        groups, codes = rows.groups_of_paths(part.paths)
        names.update(groups)
        is_asked = np.array([*(group in (None, name) for name in groups), False])[codes]
        of_path: dict[str, list[Event]] = {}
        for place in np.flatnonzero(is_asked).tolist():
            kind, of, topic, number, _ = path_kind(part.paths[place])
            is_asked[place] = kind in ("owner", "offset")
            if is_asked[place]:
                at = GroupPartition(of, TopicPartition(topic, number))
                of_path[part.paths[place]] = found.setdefault(at, [])
        for event in part.events(np.flatnonzero(is_asked[part.path])):
            of_path[event.path].append(event)
    require_group(group, names)
    of_partitions = {at: some for at, some in sorted(found.items()) if some}
    return history.ended(rows.facts_in(rows.joined(known))), of_partitions
