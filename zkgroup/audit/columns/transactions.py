"""The transactions of a history as columns: how often a session wrote, and when, without their operations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zkgroup.audit.columns.batch_values import OP_CODES, codes_of, numbers_of_column
from zkgroup.audit.columns.codes import CREATE_SESSION
from zkgroup.audit.columns.rows import Columns, Flags, Numbers
from zkgroup.zkfiles.batches import Batch


class Transactions(NamedTuple):
    """A place for each transaction, by zxid; what stood before the history is none."""

    zxid: Numbers
    session: Numbers
    time_ms: Numbers
    opens: Flags
    """Whether it opens its session."""


class TransactionsBuilder:
    """Takes the batches of logs in order."""

    def __init__(self) -> None:
        self._parts: list[Transactions] = []

    def add(self, batch: Batch, zxids: Numbers) -> None:
        """One batch, which has no part of a transaction, with its zxids."""
        session, time_ms = (numbers_of_column(batch, name) for name in ("session", "time"))
        op = codes_of(batch, "op", OP_CODES)
        rows = [zxids, session, time_ms, op == CREATE_SESSION]
        if (op < 0).any():  # of later servers
            rows = [each[op >= 0] for each in rows]
        self._parts.append(_first_rows(*rows))

    def transactions(self) -> Transactions:
        if not self._parts:
            nothing = np.zeros(0, np.int64)
            return Transactions(nothing, nothing, nothing, nothing.astype(np.bool_))
        return Transactions(*map(np.concatenate, zip(*self._parts, strict=True)))


def transactions_of(columns: Columns) -> Transactions:
    """Those of all rows of a history."""
    logged = np.flatnonzero(~columns.seed)
    opens = columns.op == CREATE_SESSION
    return _first_rows(*(each[logged] for each in (columns.zxid, columns.session, columns.time_ms, opens)))


def _first_rows(zxid: Numbers, session: Numbers, time_ms: Numbers, opens: Flags) -> Transactions:
    """Of rows the first of each transaction."""
    begins = np.ones(len(zxid), np.bool_)
    begins[1:] = (zxid[1:] != zxid[:-1]) | (session[1:] != session[:-1])
    if begins.all():
        return Transactions(zxid, session, time_ms, opens)
    return Transactions(zxid[begins], session[begins], time_ms[begins], opens[begins])
