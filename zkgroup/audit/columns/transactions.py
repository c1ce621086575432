"""The transactions of a history as columns: how often a session wrote, and when, without their operations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zkgroup.audit.columns.codes import CREATE_SESSION
from zkgroup.audit.columns.rows import Columns, Flags, Numbers
from zkgroup.zkfiles.batches import Records
from zkgroup.zkfiles.records import TransactionType


class Transactions(NamedTuple):
    """A place for each transaction, by zxid; what stood before the history is none."""

    zxid: Numbers
    session: Numbers
    time_ms: Numbers
    opens: Flags
    """Whether it opens its session."""


class TransactionsBuilder:
    """Takes the records of logs in order."""

    def __init__(self) -> None:
        self._parts: list[Transactions] = []

    def add(self, records: Records) -> None:
        """Those of one batch."""
        zxid, session, time_ms = (
            np.array(column, np.int64) for column in (records.zxid, records.session, records.time_ms)
        )
        opens = np.asarray(records.type) == TransactionType.CREATE_SESSION
        self._parts.append(Transactions(zxid, session, time_ms, opens))

    def taken(self) -> Transactions:
        """All since it was asked last."""
        parts, self._parts = self._parts, []
        if not parts:
            nothing = np.zeros(0, np.int64)
            return Transactions(nothing, nothing, nothing, nothing.astype(np.bool_))
        return Transactions(*map(np.concatenate, zip(*parts, strict=True)))


def transactions_of(columns: Columns) -> Transactions:
    """Those of all rows of a history."""
    logged = np.flatnonzero(~columns.seed)
    zxid, session = columns.zxid[logged], columns.session[logged]
    begins = np.ones(len(logged), np.bool_)
    begins[1:] = (zxid[1:] != zxid[:-1]) | (session[1:] != session[:-1])
    rows = logged[begins]
    return Transactions(
        columns.zxid[rows], columns.session[rows], columns.time_ms[rows], columns.op[rows] == CREATE_SESSION
    )
