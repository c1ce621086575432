"""The logs of an ensemble's servers as rows within a chroot, and arrays for the checks of all records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zkgroup.audit.inputs import events, rows
from zkgroup.audit.inputs.rows import Columns, ColumnsBuilder, Flags, Numbers, Transactions
from zkgroup.audit.inputs.source import Progress
from zkgroup.zkfiles.agreement import Piece, holes_in, pieces
from zkgroup.zkfiles.arrow import LOG, Batch, LeftOutWrites, select
from zkgroup.zkfiles.columns import Wanted
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.records import Ephemerals, Hole, TransactionType


class LoggedRange(NamedTuple):
    """A part of the logs of an ensemble's servers, with the chroot of the clients."""

    history: History
    after_zxid: int
    to_zxid: int | None
    chroot: str
    progress: Progress
    holes: dict[Hole, None]
    """The holes that reading finds are added to it."""

    def parts(self, rows_per_part: int, left_out: LeftOutWrites | None = None) -> Iterator[Columns]:
        """Yields the operations, in parts of so many rows; rows that are left out count.

        Deletes of ephemerals that no record names are not among them: see `Ends`.
        """
        wanted = Wanted(select(LOG, rows.OPERATION_COLUMNS), left_out=left_out)
        builder, transactions, count, in_part = ColumnsBuilder(), [_NO_TRANSACTIONS], 0, 0
        first, last, end = 0, self.after_zxid, self._about_end
        for piece in pieces(self.history.ensemble, self.after_zxid + 1, self.to_zxid):
            left = estimated(count, last - first, end - first) if first else None
            self.progress("reading operations", count, left)
            batches = list(piece.batches(wanted))
            if not len(piece.zxids):
                continue
            holes = holes_in(last, piece.zxids)
            self.holes.update(dict.fromkeys(holes))
            first, last = first or int(piece.zxids[0]), int(piece.zxids[-1])
            if holes and wanted.left_out is not None:
                # The missing records may be the only other trace of a group, so no more rows are left out.
                wanted = wanted._replace(left_out=None)
                batches = list(piece.batches(wanted))
            if left_out is not None:
                batches = self._with_transactions(piece, batches, wanted, transactions)
            read = sum(batch.rows if batch.records is None else batch.records.rows for batch in batches)
            count, in_part = count + read, in_part + read
            for batch in batches:
                columns = {name: batch.arrays[name] for name in rows.OPERATION_COLUMNS if name != "time"}
                builder.add_operations(columns, numbers_of_column(batch, "time"))
            if in_part >= rows_per_part:
                yield self._part(builder, transactions if left_out is not None else [])
                builder, transactions, in_part = ColumnsBuilder(), [_NO_TRANSACTIONS], 0
        yield self._part(builder, transactions if left_out is not None else [])

    @property
    def _about_end(self) -> int:
        """About the last zxid, for estimates: the exact one would take another pass over the newest logs."""
        if self.to_zxid is None:
            return max(server.about_last_zxid() for server in self.history.ensemble.servers)
        return min(self.history.last_zxid, self.to_zxid or self.history.last_zxid)

    def _with_transactions(
        self, piece: Piece, batches: list[Batch], wanted: Wanted, transactions: list[Transactions]
    ) -> list[Batch]:
        """The rows of a piece, all if those that stay do not show its transactions, which are appended."""
        known = [transactions_in(batch, self.chroot) for batch in batches]
        if None in known:
            batches = list(piece.batches(wanted._replace(left_out=None)))
            known = [transactions_in(batch, self.chroot) for batch in batches]
        transactions += filter(None, known)
        return batches

    def _part(self, builder: ColumnsBuilder, transactions: Sequence[Transactions]) -> Columns:
        part = rows.inside(builder.columns(), self.chroot)
        if not transactions:
            return part
        return replace(part, transactions=Transactions(*map(np.concatenate, zip(*transactions, strict=True))))


def estimated(read: int, done: int, total: int) -> int | None:
    """The estimated number of all rows, from the zxids that are done; None with an election between them."""
    return read * total // done if read and 0 < done <= total < 1 << 32 else None


def numbers_of_column(batch: Batch, name: str) -> Numbers:
    """A column without nulls as a numpy array, with times in milliseconds."""
    values: Numbers = batch.arrays[name].to_numpy()
    return values.astype(np.int64, copy=False)


_NONE: Final = np.zeros(0, np.int64)
_NO_TRANSACTIONS: Final = Transactions(_NONE, _NONE, _NONE, _NONE.astype(np.bool_))


def transactions_in(batch: Batch, chroot: str) -> Transactions | None:
    """The transactions of a batch that wrote within a chroot or have no path, as arrays.

    None where rows were left out, and those that stay do not show this, or lack one that facts need: the
    last of these transactions, the latest, and the first of each session.
    """
    records, zxid = batch.records, numbers_of_column(batch, "zxid")
    is_inside = _are_inside(batch, chroot)
    if records is None:
        ops = rows.codes_of(batch.arrays["op"], rows.OP_CODES)
        places = np.flatnonzero(is_inside & (ops >= 0))
        places = places[np.append([True], zxid[places][1:] != zxid[places][:-1])[: len(places)]]
        session, time_ms = (numbers_of_column(batch, name)[places] for name in ("session", "time"))
        return Transactions(zxid[places], session, time_ms, ops[places] == events.CREATE_SESSION)
    zxids, session, time_ms = (
        np.array(column, np.int64) for column in (records.zxid, records.session, records.time_ms)
    )
    opens = np.asarray(records.type) == TransactionType.CREATE_SESSION
    if not chroot:
        return Transactions(zxids, session, time_ms, opens)
    # An operation of a type that no version knows has a row, but no record.
    is_known = np.isin(zxid, zxids)
    has_row, has_row_inside = np.zeros((2, len(zxids)), np.bool_)
    has_row[np.searchsorted(zxids, zxid[is_known])] = True
    has_row_inside[np.searchsorted(zxids, zxid[is_known & is_inside])] = True
    # Records without a row were left out, and only rows within the chroot are.
    wrote = has_row_inside | ~has_row
    is_multi = np.asarray(records.type) == TransactionType.MULTI
    if (~wrote & is_multi).any():
        return None
    is_whole, within = has_row & ~is_multi, np.flatnonzero(wrote)
    if len(within):
        is_whole[_needed_places(session, time_ms)] = True
    if len(within) and not is_whole[within[_needed_places(session[within], time_ms[within])]].all():
        return None
    return Transactions(zxids[within], session[within], time_ms[within], opens[within])


def _are_inside(batch: Batch, chroot: str) -> Flags:
    if not chroot:
        return np.ones(batch.rows, np.bool_)
    paths = batch.arrays["path"].fill_null("")
    below = pc.or_(pc.starts_with(paths, f"{chroot}/"), pc.is_in(paths, pa.array(["", chroot])))
    return np.asarray(below)


def _needed_places(session: Numbers, time_ms: Numbers) -> Numbers:
    """The places of the last record, the latest one, and the first one of each session."""
    return np.concatenate((rows.first_places(session), [len(session) - 1, int(np.argmax(time_ms))]))


class RecordFacts(NamedTuple):
    """Arrays with a place for each record, by zxid, for the checks of all records."""

    zxid: Numbers
    time_ms: Numbers
    has_digest: Flags
    is_error: Flags
    """True for a single request that was refused."""


def record_facts(history: History) -> RecordFacts | None:
    """The arrays of all records; None without a record."""
    wanted = Wanted(select(LOG, ("zxid", "sub", "time", "op", "digest")))
    parts = [
        part for piece in pieces(history.ensemble) for part in _facts_of(piece, list(piece.batches(wanted)))
    ]
    return RecordFacts(*map(np.concatenate, zip(*parts, strict=True))) if parts else None


def _facts_of(piece: Piece, batches: Sequence[Batch]) -> list[RecordFacts]:
    """The arrays of one piece, of which no row is left out."""
    parts = [_facts_of_batch(batch) for batch in batches]
    if sum(len(each.zxid) for each in parts) == len(piece.zxids):
        return parts
    # A multi without operations has no row.
    missing = np.setdiff1d(piece.zxids, np.concatenate([_NONE, *(each.zxid for each in parts)]))
    found = [
        (each.zxid, each.time_ms, each.digest is not None, each.type == TransactionType.ERROR)
        for each in piece.transactions(missing)
    ]
    parts.append(RecordFacts(*map(np.array, zip(*found, strict=True))))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.argsort(columns[0])
    return [RecordFacts(*(column[order] for column in columns))]


def _facts_of_batch(batch: Batch) -> RecordFacts:
    zxids, subs = numbers_of_column(batch, "zxid"), numbers_of_column(batch, "sub")
    begins = np.append([True], zxids[1:] != zxids[:-1])
    present = batch.arrays["digest"].is_valid().to_numpy(zero_copy_only=False)
    is_error = (rows.codes_of(batch.arrays["op"], rows.OP_CODES) == events.ERROR) & (subs < 0)
    time_ms = numbers_of_column(batch, "time")
    return RecordFacts(*(column[begins] for column in (zxids, time_ms, present, is_error)))


class Ends:
    """The ephemerals of a history that is read part by part, and the deletes of those that no record names.

    Before 3.6 the record of a session's end names none. The seeds are the first part. Memory: the ephemerals.
    """

    def __init__(self) -> None:
        self._ephemerals = Ephemerals()

    @property
    def living(self) -> dict[int, int]:
        """The number of ephemerals of each session behind the last part."""
        return Counter(self._ephemerals.sessions.values())

    def added(self, part: Columns) -> Columns:
        """The next part, of whole transactions, with deletes of ephemerals that no record names.

        These come behind the last row of the close.
        """
        op, paths, ephemerals = part.op, part.paths, self._ephemerals
        makes = (op == events.CREATE) & (part.ephemeral == events.OF_SESSION)
        changes = np.flatnonzero(part.applied & (makes | (op == events.DELETE)))
        closes = np.flatnonzero(op == events.CLOSE_SESSION)
        last = np.searchsorted(part.zxid, part.zxid[closes], "right") - 1
        numbers, places = np.concatenate((changes, closes)), np.concatenate((changes, last))
        order = np.argsort(places, kind="stable")
        numbers, behind, ends = numbers[order], list[int](), list[events.Event]()
        columns = (numbers, places[order], op[numbers], part.path[numbers], part.session[numbers])
        for row, place, kind, path, session in zip(*(each.tolist() for each in columns), strict=True):
            if kind == events.CREATE:
                ephemerals.created(paths[path], session)
            elif kind == events.DELETE:
                ephemerals.deleted(paths[path])
            else:
                zxid, time_ms, cxid = (int(each[row]) for each in (part.zxid, part.time_ms, part.cxid))
                for sub, gone in enumerate(ephemerals.ended(session), int(part.sub[place]) + 1):
                    behind.append(place)
                    ends.append(
                        events.Event(zxid, sub, time_ms, session, cxid, "delete", gone, synthetic=True)
                    )
        if not ends:
            return part
        builder = ColumnsBuilder()
        builder.add_columns(part)
        builder.add_events(ends)
        whole = np.concatenate((np.arange(len(part), dtype=np.float64), np.array(behind) + 0.5))
        added = builder.columns().take(np.argsort(whole, kind="stable"))
        return replace(added, transactions=part.transactions)


def with_ends(logged: Iterable[Columns], before: Columns) -> Columns:
    """The seeds and the parts of a log as one table, with the deletes of ephemerals that no record names."""
    return rows.joined(list(map(Ends().added, chain([before], logged))))
