"""Says what each session did, counted in columns."""

from __future__ import annotations

from collections import Counter

import numpy as np

from zkgroup.audit.answers.sessions import SessionCounts, SessionRow, session_rows
from zkgroup.audit.inputs.codes import CLOSE_SESSION, CREATE, DELETE, OF_SESSION
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.rows import Columns, Flags, Numbers
from zkgroup.audit.inputs.transactions import Transactions, transactions_of

_At = tuple[int, int]
"""A session and a zxid."""


class SessionsBuilder:
    """Takes the parts of a history in order, with the ends of all ephemerals. Memory: the sessions.

    Which transaction ended a session is known at the end, so those that may have are counted apart.
    """

    def __init__(self) -> None:
        self._created: Counter[int] = Counter()
        self._created_at: Counter[_At] = Counter()
        self._lost_at: Counter[_At] = Counter()
        self._writes: Counter[int] = Counter()
        self._last: dict[int, _At] = {}
        """Of each session zxid and time of its last transaction that ended none."""
        self._ends: dict[_At, tuple[int, int]] = {}
        """Of each transaction that may have ended its session: its time, and 1 for a write or 0."""

    def add(self, columns: Columns, transactions: Transactions | None = None) -> None:
        """One part. `transactions` are all of it, where the columns lack some."""
        closes = np.unique(columns.zxid[columns.op == CLOSE_SESSION])
        has_session, is_end = columns.session != 0, np.isin(columns.zxid, closes)
        makes = (columns.op == CREATE) & columns.applied & (columns.ephemeral == OF_SESSION) & has_session
        self._created.update(_counted(columns.session[makes]))
        self._created_at.update(_counted_at(columns, makes & is_end))
        self._lost_at.update(_counted_at(columns, (columns.op == DELETE) & has_session & is_end))
        self._add_transactions(transactions_of(columns) if transactions is None else transactions, closes)

    def _add_transactions(self, all_: Transactions, closes: Numbers) -> None:
        is_end = np.isin(all_.zxid, closes)
        self._writes.update(_counted(all_.session[~is_end & ~all_.opens]))
        places = np.flatnonzero(~is_end)
        sessions, last = np.unique(all_.session[places][::-1], return_index=True)
        last_places = places[::-1][last] if len(sessions) else places
        lists = (each[last_places].tolist() for each in (all_.session, all_.zxid, all_.time_ms))
        for session, zxid, time_ms in zip(*lists, strict=True):
            self._last[session] = zxid, time_ms
        for place in np.flatnonzero(is_end).tolist():
            at = int(all_.session[place]), int(all_.zxid[place])
            self._ends[at] = int(all_.time_ms[place]), int(not all_.opens[place])

    def rows(self, facts: Facts, living: Columns) -> list[SessionRow]:
        """Every session of a history.

        Args:
            living: a create of each ephemeral that there is at the end.
        """
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
        return session_rows(counts, _counted(living.session), facts)

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
