"""The logs of an ensemble's servers as columns, within a chroot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zkgroup.audit.inputs.batch_values import (
    LIFETIME_CODES,
    OP_CODES,
    codes_of,
    numbers_of_column,
)
from zkgroup.audit.inputs.codes import CLOSE_SESSION, CREATE, DELETE, OF_SESSION
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.parts import inside
from zkgroup.audit.inputs.progress import Progress
from zkgroup.audit.inputs.record_facts import RecordFactsBuilder
from zkgroup.audit.inputs.rows import Columns, ColumnsBuilder, Numbers
from zkgroup.audit.inputs.stored import joined
from zkgroup.audit.inputs.transactions import TransactionsBuilder, told_of
from zkgroup.zkfiles.agreement import Piece, holes_in, pieces
from zkgroup.zkfiles.arrow import array_of
from zkgroup.zkfiles.batches import Batch, Coded
from zkgroup.zkfiles.columns import ROWS_PER_BATCH
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.lifetimes import Ephemerals
from zkgroup.zkfiles.log_lists import ALL_ZXIDS, LeftOutWrites, Wanted
from zkgroup.zkfiles.schemas import LOG, select
from zkgroup.zkfiles.zxids import Hole

_WANTED: Final = (
    "zxid",
    "sub",
    "session",
    "cxid",
    "time",
    "op",
    "path",
    "data",
    "version",
    "ephemeral",
    "timeout_ms",
    "error",
    "acl",
    "applied",
)


class LoggedRange(NamedTuple):
    """Holds what is read of the logs of an ensemble's servers, and as whom."""

    history: History
    after_zxid: int
    to_zxid: int | None
    chroot: str
    progress: Progress
    holes: dict[Hole, None]
    """Gets what is missing."""


class LoggedParts:
    """The operations of the servers, from the first zxid behind one to another, in parts of so many rows.

    Rows that are left out count. The ephemerals that went with a session without a record are not among them.
    `transactions` gets what is told of all records where rows are left out.
    """

    def __init__(
        self,
        of: LoggedRange,
        rows_per_part: int,
        left_out: LeftOutWrites | None = None,
        transactions: TransactionsBuilder | None = None,
    ) -> None:
        self.has_paths = False
        """True if a row is within the chroot."""
        self._of = of
        self._rows_per_part = rows_per_part
        self._left_out = left_out
        self._transactions = transactions
        ensemble = of.history.ensemble
        firsts = [server.first_logged for server in ensemble.servers if server.first_logged is not None]
        # What the checks of all records need costs little here, and another reading there.
        is_all = of.to_zxid is None and of.after_zxid < min(firsts, default=0)
        self._facts = RecordFactsBuilder() if is_all and left_out is None else None
        columns = _WANTED if self._facts is None else (*_WANTED, "digest")
        self._wanted = Wanted(select(LOG, columns), "", *ALL_ZXIDS, None, ROWS_PER_BATCH, left_out)

    def __iter__(self) -> Iterator[Columns]:
        of, ensemble = self._of, self._of.history.ensemble
        # For the time left alone: the exact last zxid would cost reading the newest logs once more.
        of_logs = max(server.about_last_zxid() for server in ensemble.servers)
        last_zxid = of.history.last_zxid if of.to_zxid is not None else of_logs
        first, end = 0, min(last_zxid, of.to_zxid or last_zxid)
        builder, rows, in_part, last = ColumnsBuilder(), 0, 0, of.after_zxid
        for piece in pieces(ensemble, of.after_zxid + 1, of.to_zxid):
            left = estimated(rows, last - first, end - first) if first else None
            of.progress("reading operations", rows, left)
            batches = list(piece.batches(self._wanted))
            if not len(piece.zxids):
                continue
            holes = holes_in(last, piece.zxids)
            of.holes.update(dict.fromkeys(holes))
            first, last = first or int(piece.zxids[0]), int(piece.zxids[-1])
            batches = self._told(piece, batches, is_whole=not holes)
            if self._facts is not None:
                self._facts.add(piece, batches)
            read = sum(batch.rows if batch.records is None else batch.records.rows for batch in batches)
            rows, in_part = rows + read, in_part + read
            for batch in batches:
                _add(builder, batch)
            if in_part >= self._rows_per_part:
                yield self._inside(builder)
                builder, in_part = ColumnsBuilder(), 0
        if self._facts is not None:
            self._facts.note(of.history)
        yield self._inside(builder)

    def _inside(self, builder: ColumnsBuilder) -> Columns:
        """The rows within the chroot."""
        columns = inside(builder.columns(), self._of.chroot)
        self.has_paths = self.has_paths or any(columns.paths)
        return columns

    def _told(self, piece: Piece, batches: list[Batch], *, is_whole: bool) -> list[Batch]:
        """The rows of a piece, all where those that stay do not tell what is asked; and its transactions.

        Behind a hole none are left out: what is missing may be the only other trace of a group.
        """
        if self._left_out is None:
            return batches
        told = [told_of(batch, self._of.chroot) for batch in batches]
        if not is_whole or any(each is None for each in told):
            all_ = self._wanted._replace(left_out=None)
            self._wanted = self._wanted if is_whole else all_
            batches = list(piece.batches(all_))
            told = [told_of(batch, self._of.chroot) for batch in batches]
        if self._transactions is not None:
            for each in told:
                assert each is not None
                self._transactions.add(each)
        return batches


def estimated(rows: int, done: int, total: int) -> int | None:
    """Returns how many rows there are in all, by how many zxids are done; None where an election is between
    them."""
    return rows * total // done if rows and 0 < done <= total < 1 << 32 else None


def _add(builder: ColumnsBuilder, batch: Batch) -> None:
    """Operations of later servers, which no version knows, are left out."""
    types = {column.name: column for column in batch.columns}
    ops = codes_of(batch, "op", OP_CODES)
    creates = ops == CREATE
    version = array_of(batch, types["version"]).cast(pa.int64())
    part: dict[str, Any] = {
        "zxid": numbers_of_column(batch, "zxid"),
        "sub": numbers_of_column(batch, "sub"),
        "time_ms": numbers_of_column(batch, "time"),
        "session": numbers_of_column(batch, "session"),
        "cxid": numbers_of_column(batch, "cxid"),
        "op": ops,
        "path": array_of(batch, types["path"]).fill_null(""),
        "data": array_of(batch, types["data"]),
        "version": pc.if_else(pa.array(creates), pa.scalar(0, pa.int64()), version),
        "ephemeral": codes_of(batch, "ephemeral", LIFETIME_CODES),
        "timeout_ms": array_of(batch, types["timeout_ms"]).cast(pa.int64()),
        "error": array_of(batch, types["error"]).cast(pa.int64()),
        "applied": array_of(batch, types["applied"]).to_numpy(zero_copy_only=False),
        "seed": np.zeros(batch.rows, np.bool_),
        "synthetic": np.zeros(batch.rows, np.bool_),
        "acl": _acl_codes(builder, batch),
        "mtime_ms": pa.nulls(batch.rows, pa.int64()),
    }
    if (ops < 0).any():
        known = np.flatnonzero(ops >= 0)
        part = {
            name: column[known] if isinstance(column, np.ndarray) else column.take(pa.array(known))
            for name, column in part.items()
        }
    builder.add(part)


def _acl_codes(builder: ColumnsBuilder, batch: Batch) -> Numbers:
    packed = batch.packed("acl")
    if isinstance(packed, Coded):
        known: Numbers = builder.acl_codes(packed.values)[packed.codes]
        return known
    return builder.acl_codes(batch["acl"])


def with_ends(logged: Sequence[Columns], before: Columns) -> Columns:
    """Parts of a log behind what stood before, and the ephemerals that no record of a session's end names.

    Before 3.6 none is named. They come behind the close of their session, as `reading.events_of` gives them.
    """
    whole, seeds = joined([before, *logged] if len(before) else logged), len(before)
    places, ends = _unnamed_ends(whole.behind(seeds), before)
    if not ends:
        return whole
    builder = ColumnsBuilder()
    builder.add_columns(whole)
    builder.add_events(ends)
    order = np.concatenate((np.arange(len(whole), dtype=np.float64), seeds + np.array(places) + 0.5))
    return builder.columns().take(np.argsort(order, kind="stable"))


def all_ends_are_named(columns: Columns, before: Columns) -> bool:
    """Returns whether each ephemeral is deleted by a row at the end of its session, or before; False:
    perhaps.

    An ephemeral that is made anew without a delete, and those that stood before, are not looked at.
    """
    if (before.ephemeral == OF_SESSION).any():
        return False
    closes = np.flatnonzero(columns.op == CLOSE_SESSION)
    if not len(closes):
        return True
    is_made = columns.applied & (columns.op == CREATE)
    rows = np.flatnonzero(is_made | (columns.applied & (columns.op == DELETE)))
    rows = rows[np.argsort(columns.path[rows], kind="stable")]
    is_last = np.append(columns.path[rows][1:] != columns.path[rows][:-1], True)[: len(rows)]
    makes = np.flatnonzero(is_made[rows] & (columns.ephemeral[rows] == OF_SESSION))
    following = np.where(is_last[makes], -1, rows[np.minimum(makes + 1, len(rows) - 1)])
    is_deleted = (following >= 0) & (columns.op[following] == DELETE)
    sessions, first = np.unique(columns.session[closes], return_index=True)
    owners = columns.session[rows[makes]]
    place = np.minimum(np.searchsorted(sessions, owners), len(sessions) - 1)
    is_closed = sessions[place] == owners
    end = columns.zxid[closes[first[place]]]
    is_named = is_deleted & (columns.zxid[following] <= end)
    return bool((is_named | ~is_closed).all())


def _unnamed_ends(columns: Columns, before: Columns) -> tuple[list[int], list[Event]]:
    """Deletes that no record names, each with the number of the row that it comes behind."""
    if all_ends_are_named(columns, before):
        return [], []
    ephemerals = Ephemerals()
    for row in np.flatnonzero(before.ephemeral == OF_SESSION).tolist():
        ephemerals.created(before.paths[before.path[row]], int(before.session[row]))
    is_made = (columns.op == CREATE) & (columns.ephemeral == OF_SESSION)
    matters = np.flatnonzero(
        (columns.applied & (is_made | (columns.op == DELETE))) | (columns.op == CLOSE_SESSION)
    )
    places: list[int] = []
    ends: list[Event] = []
    paths, ops = columns.paths, columns.op[matters].tolist()
    of_rows = zip(
        matters.tolist(), ops, columns.path[matters].tolist(), columns.session[matters].tolist(), strict=True
    )
    closing: tuple[int, int] | None = None
    for row, op, path, session in of_rows:
        if closing is not None and columns.zxid[row] != columns.zxid[closing[0]]:
            _end(columns, ephemerals, closing, places, ends)
            closing = None
        if op == CLOSE_SESSION:
            closing = row, row
        elif op == CREATE:
            ephemerals.created(paths[path], session)
        else:
            ephemerals.deleted(paths[path])
            if closing is not None:
                closing = closing[0], row
    if closing is not None:
        _end(columns, ephemerals, closing, places, ends)
    return places, ends


def _end(
    columns: Columns, ephemerals: Ephemerals, closing: tuple[int, int], places: list[int], ends: list[Event]
) -> None:
    """What is left of a session behind the last row of its close."""
    close, last = closing
    session = int(columns.session[close])
    for sub, path in enumerate(ephemerals.ended(session), int(columns.sub[last]) + 1):
        places.append(last)
        ends.append(
            Event(
                int(columns.zxid[close]),
                sub,
                int(columns.time_ms[close]),
                session,
                int(columns.cxid[close]),
                "delete",
                path,
                synthetic=True,
            )
        )
