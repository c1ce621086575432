"""The transactions of a history as columns: how often a session wrote, and when, without their operations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zkgroup.audit.inputs.batch_values import OP_CODES, codes_of, numbers_of_column
from zkgroup.audit.inputs.codes import CREATE_SESSION
from zkgroup.audit.inputs.rows import Columns, Flags, Numbers, first_places
from zkgroup.zkfiles.arrow import array_of
from zkgroup.zkfiles.batches import Batch
from zkgroup.zkfiles.records import TransactionType


class Transactions(NamedTuple):
    """A place for each transaction, by zxid; what stood before the history is none."""

    zxid: Numbers
    session: Numbers
    time_ms: Numbers
    opens: Flags
    """True if it opens its session."""


class TransactionsBuilder:
    """Takes the transactions of logs in order."""

    def __init__(self) -> None:
        self._parts: list[Transactions] = []

    def add(self, transactions: Transactions) -> None:
        """The next ones."""
        self._parts.append(transactions)

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


def told_of(batch: Batch, chroot: str) -> Transactions | None:
    """The transactions of a batch that wrote within a chroot or have no path.

    None where rows are left out, and those that stay do not tell this, or lack what facts are made of: the
    last of these transactions, the latest, and the first of each session.
    """
    records, zxid = batch.records, numbers_of_column(batch, "zxid")
    is_inside = _are_inside(batch, chroot)
    if records is None:
        ops = codes_of(batch, "op", OP_CODES)
        rows = np.flatnonzero(is_inside & (ops >= 0))
        rows = rows[np.append([True], zxid[rows][1:] != zxid[rows][:-1])[: len(rows)]]
        session, time_ms = (numbers_of_column(batch, name)[rows] for name in ("session", "time"))
        return Transactions(zxid[rows], session, time_ms, ops[rows] == CREATE_SESSION)
    zxids, session, time_ms = (
        np.array(column, np.int64) for column in (records.zxid, records.session, records.time_ms)
    )
    opens = np.asarray(records.type) == TransactionType.CREATE_SESSION
    if not chroot:
        return Transactions(zxids, session, time_ms, opens)
    # Of a type that no version knows there is a row, but no record.
    is_known = np.isin(zxid, zxids)
    has_row, has_row_inside = np.zeros((2, len(zxids)), np.bool_)
    has_row[np.searchsorted(zxids, zxid[is_known])] = True
    has_row_inside[np.searchsorted(zxids, zxid[is_known & is_inside])] = True
    # What has no row was left out, and only what is within the chroot is.
    wrote = has_row_inside | ~has_row
    is_multi = np.asarray(records.type) == TransactionType.MULTI
    if (~wrote & is_multi).any():
        return None
    is_whole, inside = has_row & ~is_multi, np.flatnonzero(wrote)
    if len(inside):
        is_whole[_told_by(session, time_ms)] = True
    if len(inside) and not is_whole[inside[_told_by(session[inside], time_ms[inside])]].all():
        return None
    return Transactions(zxids[inside], session[inside], time_ms[inside], opens[inside])


def _are_inside(batch: Batch, chroot: str) -> Flags:
    """Returns whether each row has a path within a chroot, or none."""
    if not chroot:
        return np.ones(batch.rows, np.bool_)
    column = next(each for each in batch.columns if each.name == "path")
    paths = array_of(batch, column).fill_null("")
    below = pc.or_(pc.starts_with(paths, f"{chroot}/"), pc.is_in(paths, pa.array(["", chroot])))
    flags: Flags = below.to_numpy(zero_copy_only=False)
    return flags


def _told_by(session: Numbers, time_ms: Numbers) -> Numbers:
    """The places of the last record, the latest, and the first of each session."""
    return np.concatenate((first_places(session), [len(session) - 1, int(np.argmax(time_ms))]))
