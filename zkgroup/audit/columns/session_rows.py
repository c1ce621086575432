"""What each session did, counted in columns: `views.sessions` without an object a row."""

from __future__ import annotations

import numpy as np

from zkgroup.audit.columns.codes import CREATE, DELETE, OF_SESSION
from zkgroup.audit.columns.rows import Columns
from zkgroup.audit.columns.tables import ScreenTables
from zkgroup.audit.columns.transactions import Transactions, transactions_of
from zkgroup.audit.facts import Facts
from zkgroup.audit.views.sessions import SessionCounts, SessionRow, session_rows


def sessions_in(
    columns: Columns,
    facts: Facts,
    tables: ScreenTables | None = None,
    transactions: Transactions | None = None,
) -> list[SessionRow]:
    """Every session of a history, as `sessions_of` gives them.

    Args:
        tables: those of the columns, where they are known already.
        transactions: all of them, where the columns lack sets.
    """
    s = (tables or ScreenTables(columns, facts)).sessions
    makes = (s.op == CREATE) & s.applied & (columns.ephemeral[s.selection.rows] == OF_SESSION)
    created = s.counts(makes & ~s.is_end)
    lost = s.counts((s.op == DELETE) & s.is_end)
    counts = _writes(facts, transactions_of(columns) if transactions is None else transactions)
    for code, key in enumerate(s.selection.keys):
        of_session = counts.setdefault(int(key[0]), SessionCounts())
        of_session.created, of_session.lost = int(created[code]), int(lost[code])
    return session_rows(counts, _living(columns), facts)


def _writes(facts: Facts, transactions: Transactions) -> dict[int, SessionCounts]:
    """By session: how many transactions it has, createSession and the end left out, and the last time."""
    sessions, codes = np.unique(transactions.session, return_inverse=True)
    lives = [facts.sessions.get(session) for session in sessions.tolist()]
    ends = np.array([-1 if life is None or life.to_zxid is None else life.to_zxid for life in lives])
    own = np.flatnonzero(transactions.zxid != ends[codes]) if len(codes) else codes
    writes = np.bincount(codes[own[~transactions.opens[own]]], minlength=len(sessions))
    last = np.full(len(sessions), -1)
    last[codes[own]] = own
    return {
        session: SessionCounts(
            writes=int(writes[code]),
            last_ms=int(transactions.time_ms[last[code]]) if last[code] >= 0 else None,
        )
        for code, session in enumerate(sessions.tolist())
    }


def _living(columns: Columns) -> dict[int, int]:
    """By session: how many of its ephemerals there are at the end."""
    is_made = (columns.op == CREATE) & (columns.ephemeral == OF_SESSION)
    rows = np.flatnonzero(columns.applied & (is_made | (columns.op == DELETE)))
    # The last of these rows of each path.
    last = rows[::-1][np.unique(columns.path[rows][::-1], return_index=True)[1]]
    sessions, counts = np.unique(columns.session[last[is_made[last]]], return_counts=True)
    return dict(zip(sessions.tolist(), counts.tolist(), strict=True))
