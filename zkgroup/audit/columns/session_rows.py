"""What each session did, counted in columns: `views.sessions` without an object a row."""

from __future__ import annotations

import numpy as np

from zkgroup.audit.columns.codes import CREATE, CREATE_SESSION, DELETE, OF_SESSION
from zkgroup.audit.columns.rows import Columns, Flags, Numbers
from zkgroup.audit.columns.selection import Selection
from zkgroup.audit.columns.tables import Tables
from zkgroup.audit.facts import Facts
from zkgroup.audit.views.sessions import SessionCounts, SessionRow, session_rows


def sessions_in(columns: Columns, facts: Facts, tables: Tables | None = None) -> list[SessionRow]:
    """Every session of a history, as `sessions_of` gives them.

    Args:
        tables: those of the columns, where they are known already.
    """
    s = (tables or Tables(columns, facts)).sessions
    rows = s.selection
    makes = (s.op == CREATE) & s.applied & (columns.ephemeral[rows.rows] == OF_SESSION)
    created = s.counts(makes & ~s.is_end)
    lost = s.counts((s.op == DELETE) & s.is_end)
    own = rows.where(~s.is_end & ~s.seed)
    writes = _transactions(columns, own)
    last = s.last_of(~s.is_end & ~s.seed)
    counts = {
        int(key[0]): SessionCounts(
            writes=int(writes[code]),
            last_ms=int(s.time_ms[last[code]]) if last[code] >= 0 else None,
            created=int(created[code]),
            lost=int(lost[code]),
        )
        for code, key in enumerate(rows.keys)
    }
    return session_rows(counts, _living(columns), facts)


def _transactions(columns: Columns, own: Selection) -> Numbers:
    """By session: how many transactions its rows are of, createSession left out."""
    by_key = own.by_key()
    zxids = columns.zxid[by_key.rows]
    is_new: Flags = np.ones(len(zxids), np.bool_)
    is_new[1:] = (zxids[1:] != zxids[:-1]) | (by_key.codes[1:] != by_key.codes[:-1])
    is_new &= columns.op[by_key.rows] != CREATE_SESSION
    found: Numbers = np.bincount(by_key.codes[is_new], minlength=len(own.keys))
    return found


def _living(columns: Columns) -> dict[int, int]:
    """By session: how many of its ephemerals there are at the end."""
    is_made = (columns.op == CREATE) & (columns.ephemeral == OF_SESSION)
    rows = np.flatnonzero(columns.applied & (is_made | (columns.op == DELETE)))
    # The last of these rows of each path.
    last = rows[::-1][np.unique(columns.path[rows][::-1], return_index=True)[1]]
    sessions, counts = np.unique(columns.session[last[is_made[last]]], return_counts=True)
    return dict(zip(sessions.tolist(), counts.tolist(), strict=True))
