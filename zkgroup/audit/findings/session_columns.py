"""The rows of sessions as columns, and what is known of each session."""

from __future__ import annotations

from typing import Final

import numpy as np

from zkgroup.audit.inputs.events import CLOSE_SESSION, CREATE, DELETE, ERROR, OF_SESSION
from zkgroup.audit.inputs.facts import Facts, SessionLife
from zkgroup.audit.inputs.rows import Columns, Flags, Numbers
from zkgroup.audit.inputs.selection import Selection

_NODE_EXISTS: Final = -110


class SessionTable:
    """Rows in order, each with the number of its session."""

    def __init__(self, columns: Columns, facts: Facts, rows: Selection) -> None:
        self.selection, self._facts = rows, facts
        self._columns = columns
        numbers, sessions = rows.rows, rows.codes
        self.lives: list[SessionLife | None] = [facts.sessions.get(int(key[0])) for key in rows.keys]
        self.op, self.seed = columns.op[numbers], columns.seed[numbers]
        self.applied, self.time_ms = columns.applied[numbers], columns.time_ms[numbers]
        ends = np.array([_end_of(life) for life in self.lives], np.int64)
        self.is_end: Flags = ends[sessions] == columns.zxid[numbers]
        """True if the row is of the transaction in which its session ended."""
        self.is_close: Flags = self.op == CLOSE_SESSION
        self.is_closed: Flags = rows.keys_with(self.is_close)
        """Of each session."""

    @property
    def is_contention(self) -> Flags:
        """True if a row is a request that failed because a znode was there."""
        errors: Numbers = self._columns.error.fill_null(0).to_numpy(zero_copy_only=False)
        contended: Flags = (self.op == ERROR) & (errors[self.selection.rows] == _NODE_EXISTS)
        return contended

    @property
    def is_of_ephemerals(self) -> Flags:
        """True if a row can make or delete an ephemeral, after the beginning."""
        makes = (self.op == CREATE) & (self._columns.ephemeral[self.selection.rows] == OF_SESSION)
        found: Flags = self.applied & ~self.seed & (makes | (self.op == DELETE))
        return found

    def counts(self, mask: Flags) -> Numbers:
        """Returns how many rows of each session are in a mask."""
        found: Numbers = np.bincount(self.selection.codes[mask], minlength=len(self.lives))
        return found

    def last_of(self, mask: Flags) -> Numbers:
        """The last place of each session that is in a mask; -1 for none."""
        last: Numbers = np.full(len(self.lives), -1)
        places = np.flatnonzero(mask)
        last[self.selection.codes[places]] = places
        return last

    def of_sessions(self, flags: Flags, mask: Flags | None = None) -> Selection:
        """The rows of some sessions, or those of them that are in a mask."""
        wanted = flags[self.selection.codes]
        return self.selection.where(wanted if mask is None else wanted & mask)

    def shorter_than(self, ms: float) -> Flags:
        """Of each session: whether its whole life is known and was shorter."""
        found: Flags = np.array(
            [
                life is not None
                and life.from_ms is not None
                and life.to_ms is not None
                and life.to_ms - life.from_ms < ms
                for life in self.lives
            ],
            np.bool_,
        )
        return found

    def silent_for(self, ms: float) -> Flags:
        """Of each session: whether it wrote nothing for longer, up to the end of the history."""
        last = self.last_of(~self.seed)
        since = np.where(last >= 0, self.time_ms[last], self._facts.start_ms)
        silent: Flags = self._facts.end_ms - since > ms
        return silent


def _end_of(life: SessionLife | None) -> int:
    return -1 if life is None or life.to_zxid is None else life.to_zxid
