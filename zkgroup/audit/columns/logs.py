"""The logs of one server as columns, where nothing about them needs a closer look.

What does is read as objects, by `Ensemble.transactions`: a damage, records that a log before had, zxids that
are missing, several servers. So nothing is decided here that is not decided there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zkgroup.audit.columns.batch_values import (
    LIFETIME_CODES,
    OP_CODES,
    codes_of,
    followed,
    numbers_of_column,
    plain_batches,
)
from zkgroup.audit.columns.codes import CLOSE_SESSION, CREATE, DELETE, OF_SESSION
from zkgroup.audit.columns.parts import Parts
from zkgroup.audit.columns.record_facts import RecordFactsBuilder
from zkgroup.audit.columns.rows import Columns, ColumnsBuilder, Numbers, columns_of
from zkgroup.audit.columns.stored import joined
from zkgroup.audit.columns.transactions import TransactionsBuilder
from zkgroup.audit.events import Event
from zkgroup.audit.progress import Progress
from zkgroup.zkfiles.arrow import array_of
from zkgroup.zkfiles.batches import Batch, Coded
from zkgroup.zkfiles.column_replay import NotPlainError
from zkgroup.zkfiles.ephemerals import Ephemerals
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.log_lists import LeftOutWrites

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


def parts_of_logs(
    history: History,
    after_zxid: int,
    to_zxid: int | None,
    before: Iterable[Event],
    progress: Progress,
    rows_per_part: int,
    left_out: LeftOutWrites | None = None,
    transactions: TransactionsBuilder | None = None,
) -> Parts:
    """What `reading.events_of` gives of the transactions from one zxid to another, and of what stood before.

    Without rows that are left out: `transactions` gets what is told of all records then. That the logs need
    a closer look may show in any part.
    """
    logged = log_parts(history, after_zxid, to_zxid, progress, rows_per_part, left_out, transactions)
    return Parts(columns_of(before), logged)


def log_parts(
    history: History,
    after_zxid: int,
    to_zxid: int | None,
    progress: Progress,
    rows_per_part: int,
    left_out: LeftOutWrites | None = None,
    transactions: TransactionsBuilder | None = None,
) -> Iterator[Columns]:
    """The operations of a server alone, from the first zxid behind one to another, in parts.

    A part has so many rows, with those that are left out.
    The ephemerals that went with a session without a record are not among them. Raises NotPlainError.
    """
    if len(history.ensemble.servers) != 1:
        raise NotPlainError("several servers")
    server = history.ensemble.servers[0]
    logs = server.files.logs
    # What the checks of all records need costs little here, and another reading there.
    is_all = logs and after_zxid < logs[0].zxid and to_zxid is None
    facts = RecordFactsBuilder() if is_all and left_out is None else None
    wanted = _WANTED if facts is None else (*_WANTED, "digest")
    builder = ColumnsBuilder()
    rows, in_part, last = 0, 0, after_zxid
    # For the time left alone: the exact last zxid would cost reading the newest log once more.
    last_zxid = history.last_zxid if to_zxid is not None else server.about_last_zxid()
    first, end = 0, min(last_zxid, to_zxid or last_zxid)
    for batch in plain_batches(server, after_zxid + 1, to_zxid, wanted, left_out):
        progress("reading operations", rows, estimated(rows, last - first, end - first) if first else None)
        records = batch.records
        read = batch.rows if records is None else records.rows
        rows, in_part = rows + read, in_part + read
        zxids = numbers_of_column(batch, "zxid") if records is None else np.asarray(records.zxid, np.int64)
        first = first or int(zxids[0])
        subs = numbers_of_column(batch, "sub") if records is None else np.zeros(len(zxids), np.int64)
        if facts is not None:
            facts.add(batch, last, zxids, subs)
        last = followed(last, zxids, subs)
        if records is not None and transactions is not None:
            transactions.add(records)
        _add(builder, batch)
        if in_part >= rows_per_part:
            yield builder.columns()
            builder, in_part = ColumnsBuilder(), 0
    if facts is not None:
        facts.note(history)
    yield builder.columns()


def estimated(rows: int, done: int, total: int) -> int | None:
    """How many rows there are in all, by how many zxids are done; None where an election is between them."""
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
    """Whether each ephemeral is deleted by a row at the end of its session, or before; False: perhaps.

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
    session, named = int(columns.session[close]), last - close
    for sub, path in enumerate(ephemerals.ended(session), named):
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
