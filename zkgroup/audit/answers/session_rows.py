"""Says what each session did, counted in columns."""

from __future__ import annotations

from collections import Counter

import numpy as np

from zkgroup.audit.answers.sessions import SessionCounts, SessionRow, session_rows
from zkgroup.audit.inputs.events import CLOSE_SESSION, CREATE, DELETE, OF_SESSION
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.logs import Ends
from zkgroup.audit.inputs.rows import (
    ROWS_PER_PART,
    Columns,
    Flags,
    Numbers,
    compact,
    fact_rows,
    facts_in,
    groups_of_paths,
    joined,
    last_places,
    transactions_of,
)
from zkgroup.audit.inputs.source import Rows

_At = tuple[int, int]
"""A session and a zxid."""


class SessionsBuilder:
    """Takes the parts of a history in order, with the ends of all ephemerals. Memory: the sessions.

    Which transaction ended a session is known at the end, so those that may have are counted apart.
    """

    def __init__(self) -> None:
        self._ephemerals = Ends()
        self._created: Counter[int] = Counter()
        self._created_at: Counter[_At] = Counter()
        self._lost_at: Counter[_At] = Counter()
        self._writes: Counter[int] = Counter()
        self._last: dict[int, _At] = {}
        """Of each session zxid and time of its last transaction that ended none."""
        self._ends: dict[_At, tuple[int, int]] = {}
        """Of each transaction that may have ended its session: its time, and 1 for a write or 0."""

    def add(self, columns: Columns) -> None:
        """One part; what stood before is the first one."""
        self._ephemerals.added(columns)
        closes = np.unique(columns.zxid[columns.op == CLOSE_SESSION])
        has_session, is_end = columns.session != 0, np.isin(columns.zxid, closes)
        makes = (columns.op == CREATE) & columns.applied & (columns.ephemeral == OF_SESSION) & has_session
        self._created.update(_counted(columns.session[makes]))
        self._created_at.update(_counted_at(columns, makes & is_end))
        self._lost_at.update(_counted_at(columns, (columns.op == DELETE) & has_session & is_end))
        all_ = transactions_of(columns)
        is_end = np.isin(all_.zxid, closes)
        self._writes.update(_counted(all_.session[~is_end & ~all_.opens]))
        places = np.flatnonzero(~is_end)
        places = places[last_places(all_.session[places])]
        lists = (each[places].tolist() for each in (all_.session, all_.zxid, all_.time_ms))
        for session, zxid, time_ms in zip(*lists, strict=True):
            self._last[session] = zxid, time_ms
        for place in np.flatnonzero(is_end).tolist():
            at = int(all_.session[place]), int(all_.zxid[place])
            self._ends[at] = int(all_.time_ms[place]), int(not all_.opens[place])

    def rows(self, facts: Facts) -> list[SessionRow]:
        """Every session of a history."""
        known = {*self._created, *self._writes, *self._last, *(session for session, _ in self._ends)}
        ends = {session: life.to_zxid for session, life in facts.sessions.items()}
        counts = {session: self._counts(session, ends.get(session)) for session in known}
        last = dict(self._last)
        for (session, zxid), (time_ms, writes) in self._ends.items():
            if zxid != ends.get(session):
                counts[session].writes += writes
                last[session] = max(last.get(session, (-1, 0)), (zxid, time_ms))
        for session, (_, time_ms) in last.items():
            counts[session].last_ms = time_ms
        return session_rows(counts, self._ephemerals.living, facts)

    def _counts(self, session: int, end: int | None) -> SessionCounts:
        at = session, -1 if end is None else end
        return SessionCounts(
            writes=self._writes[session],
            created=self._created[session] - self._created_at[at],
            lost=self._lost_at[at],
        )


def _counted(values: Numbers) -> dict[int, int]:
    different, counts = np.unique(values, return_counts=True)
    return dict(zip(different.tolist(), counts.tolist(), strict=True))


def _counted_at(columns: Columns, mask: Flags) -> Counter[_At]:
    return Counter(zip(columns.session[mask].tolist(), columns.zxid[mask].tolist(), strict=True))


def session_views(rows: Rows, rows_per_part: int = ROWS_PER_PART) -> tuple[Facts, list[SessionRow], set[str]]:
    """The facts, every session, and the names of all groups. Memory: the sessions, and a part of the rows."""
    builder, groups = SessionsBuilder(), set[str]()
    known: list[Columns] = []
    for part in rows.parts(rows_per_part, ()):
        builder.add(part)
        known.append(compact(part.take(fact_rows(part))))
        groups |= set(groups_of_paths(part.paths)[0])
    facts = rows.ended(facts_in(joined(known)))
    return facts, builder.rows(facts), groups
