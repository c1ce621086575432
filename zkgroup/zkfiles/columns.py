"""Logs as columns, batch by batch: the table `arrow.LOG`. Snapshots have `znode_columns`.

The compiled kernel fills the columns where it is installed. Where it is not, and for chunks with records
that it does not decode, they are made from the transactions that `jute` decodes; the values are the
same. Needs numpy and pyarrow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from zkgroup.zkfiles import arrow, jute
from zkgroup.zkfiles.jute import JuteError, LogChunk
from zkgroup.zkfiles.logs import LogReader
from zkgroup.zkfiles.records import CREATES, Operation, Transaction, TransactionType

ROWS_PER_BATCH: Final = 16_384
PIECE_BYTES: Final = 1 << 20
"""The bytes of a log that are read at a time: a batch has the records of one piece at most."""
_OF_SESSIONS: Final = frozenset((TransactionType.CREATE_SESSION, TransactionType.CLOSE_SESSION))


class Wanted(NamedTuple):
    """The rows and columns that are wanted."""

    columns: tuple[arrow.Column, ...]
    file: str = ""
    from_zxid: int = -(1 << 63)
    to_zxid: int = (1 << 63) - 1
    path_prefix: str | None = None
    rows: int = ROWS_PER_BATCH
    """The rows of a batch: it ends with the transaction that reaches so many."""
    left_out: arrow.LeftOutWrites | None = None


class Taken(NamedTuple):
    """A batch of records of a chunk."""

    until: int
    """The number in the chunk of the first record that was not taken."""
    batch: arrow.Batch | None
    is_past: bool = False
    """True if that record lies behind the wanted zxids."""
    error: JuteError | None = None
    """The reason why that record cannot be read."""


def log_columns(
    path: Path,
    *,
    columns: Iterable[str] | None = None,
    from_zxid: int | None = None,
    to_zxid: int | None = None,
    path_prefix: str | None = None,
    start_offset: int | None = None,
    end_offset: int | None = None,
    rows_per_batch: int = ROWS_PER_BATCH,
    resync: bool = False,
) -> Iterator[arrow.Batch]:
    """The operations of a transaction log, in the order of the file.

    `columns` are names of arrow.LOG, by default all. Rows are those of transactions `from_zxid` to
    `to_zxid`, both included, whose path begins with `path_prefix`, taken as text: what lies below /a begins
    with /a/. Reading ends at the first transaction behind `to_zxid`.
    `start_offset` and `end_offset` select records by where they start, as `logs.splits_of` gives them.

    A batch has at least one row and never a part of a transaction: it ends with the one that reaches
    `rows_per_batch`, or with what was read of the file at a time. One such piece is in memory, and one batch.

    Every checksum is compared. Damage is reported as by `logs.LogReader`, after the rows before it: raises
    DamagedFileError, without `resync`, and NotZooKeeperFileError; ValueError for unknown columns.
    """
    wanted = Wanted(
        arrow.select(arrow.LOG, columns),
        os.fspath(path),
        path_prefix=path_prefix,
        rows=max(rows_per_batch, 1),
    )
    if from_zxid is not None:
        wanted = wanted._replace(from_zxid=from_zxid)
    if to_zxid is not None:
        wanted = wanted._replace(to_zxid=to_zxid)
    reader = LogReader(
        path, from_offset=start_offset, to_offset=end_offset, resync=resync, piece_bytes=PIECE_BYTES
    )
    return _batches(reader, wanted)


def _batches(reader: LogReader, wanted: Wanted) -> Iterator[arrow.Batch]:
    with closing(reader.chunks()) as chunks:
        for chunk in chunks:
            if (yield from batches_of(chunk, wanted, reader.unreadable)):
                return


def batches_of(
    chunk: LogChunk, wanted: Wanted, unreadable: Callable[[LogChunk, int, JuteError], None]
) -> Generator[arrow.Batch, None, bool]:
    """Yields the records of a chunk as batches; returns whether one lies behind the wanted zxids.

    `unreadable` gets the number and error of each record that no server writes, and that is skipped.
    """
    first, by_kernel = 0, jute.kernel() is not None
    while first < len(chunk.starts):
        taken = take_by_kernel(chunk, first, wanted) if by_kernel else take_plainly(chunk, first, wanted)
        if taken is None:
            by_kernel = False
            continue
        if taken.batch is not None:
            yield taken.batch
        if taken.is_past:
            return True
        first = taken.until
        if taken.error is not None:
            unreadable(chunk, first, taken.error)
            first += 1
    return False


def take_plainly(chunk: LogChunk, first: int, wanted: Wanted) -> Taken:
    """The next batch of records of a chunk, from the number `first` on; no row is left out."""
    transactions: list[Transaction] = []
    rows = 0
    for until in range(first, len(chunk.starts)):
        if rows >= wanted.rows:
            return Taken(until, batch_of(transactions, wanted))
        start, end = int(chunk.starts[until]), int(chunk.ends[until])
        (zxid,) = jute.ZXID.unpack_from(chunk.data, start + jute.ZXID_AT)
        if zxid > wanted.to_zxid:
            return Taken(until, batch_of(transactions, wanted), is_past=True)
        if zxid < wanted.from_zxid:
            continue
        try:
            transaction = jute.transaction_of(chunk.data, start + jute.FRAME.size, end, chunk.base + start)
        except JuteError as error:
            return Taken(until, batch_of(transactions, wanted), error=error)
        transactions.append(transaction)
        rows += len(transaction.operations)
        if transaction.type in _OF_SESSIONS:
            rows += 1 + len(transaction.closed_paths or ())
    return Taken(len(chunk.starts), batch_of(transactions, wanted))


class _Row(NamedTuple):
    of: Transaction
    operation: Operation
    sub: int
    is_applied: bool


def batch_of(transactions: Iterable[Transaction], wanted: Wanted) -> arrow.Batch | None:
    """A batch of transactions that were read already; None where no row of them is wanted."""
    prefix = wanted.path_prefix
    rows = [
        row
        for each in transactions
        if wanted.from_zxid <= each.zxid <= wanted.to_zxid
        for row in _rows_of(each)
        if prefix is None or (row.operation.path is not None and row.operation.path.startswith(prefix))
    ]
    if not rows:
        return None
    arrays = {
        column.name: arrow.same(wanted.file, column.type, len(rows))
        if column.name == "file"
        else arrow.of_values(list(map(_value(column.name), rows)), column.type)
        for column in wanted.columns
    }
    return arrow.Batch(wanted.columns, arrays)


def _rows_of(each: Transaction) -> Iterator[_Row]:
    kind, is_applied = each.type, each.is_applied
    if kind == TransactionType.MULTI:
        for sub, operation in enumerate(each.operations):
            yield _Row(each, operation, sub, is_applied)
        return
    yield _Row(each, each.operations[0] if each.operations else Operation(kind), -1, is_applied)
    for sub, path in enumerate(each.closed_paths or ()):
        yield _Row(each, Operation(kind, path), sub, True)


def parent_of(path: str | None) -> str | None:
    """The path of the parent; None for the root and for rows without a path."""
    if path is None or len(path) < 2:
        return None
    end = path.rfind("/")
    return path[:end] or "/" if end >= 0 else None


def _op(row: _Row) -> str | None:
    kind = row.operation.type
    is_listed = kind == TransactionType.CLOSE_SESSION and row.operation.path is not None
    return "delete" if is_listed else arrow.OP_NAMES.get(kind)


def _lifetime(row: _Row) -> str | None:
    kind = row.operation.type
    if kind == TransactionType.CREATE_CONTAINER:
        return "container"
    if kind == TransactionType.CREATE_TTL:
        return "ttl"
    return "session" if kind in CREATES and row.operation.is_ephemeral else None


def _digest(row: _Row) -> int | None:
    digest = row.of.digest
    return None if digest is None else (digest.value + (1 << 63)) % (1 << 64) - (1 << 63)


_DERIVED: Final[Mapping[str, Callable[[_Row], object]]] = {
    "epoch": lambda row: row.of.zxid >> 32,
    "sub": lambda row: row.sub,
    "time": lambda row: row.of.time_ms,
    "op": _op,
    "parent": lambda row: parent_of(row.operation.path),
    "ephemeral": _lifetime,
    "applied": lambda row: row.is_applied,
    "digest": _digest,
}
"""The columns that are no field of an operation or of its transaction."""


def _value(name: str) -> Callable[[_Row], object]:
    of = "operation" if name in Operation._fields else "of"
    return _DERIVED.get(name) or attrgetter(f"{of}.{name}")


_OPS: Final = (None, "check", "closeSession", "create", "createSession", "delete", "error", "set", "setACL")
_LIFETIMES: Final = (None, "session", "container", "ttl")
_PIECES: Final = ("path", "parent", "data")
_FILLED: Final[Mapping[str, type]] = {
    **dict.fromkeys(("zxid", "session", "time", "offset", "digest", "ttl_ms"), np.int64),
    **dict.fromkeys(("epoch", "sub", "cxid", "type", "op", "ephemeral", "acl"), np.int32),
    **dict.fromkeys(("version", "error", "timeout_ms", "parent_cversion", *_PIECES), np.int32),
    "applied": np.bool_,
}
"""The columns in the kernel's order; a slice has two numbers for each row."""
_NULLABLE: Final = ("digest", "ttl_ms", "version", "error", "timeout_ms", "parent_cversion", *_PIECES)
_OF_RECORDS: Final = (np.int64, np.int64, np.int64, np.int32)


def take_by_kernel(chunk: LogChunk, first: int, wanted: Wanted) -> Taken | None:
    """The batch of `take_plainly`, without rows that are left out; None for odd records."""
    compiled = jute.kernel()
    assert compiled is not None
    starts, ends = np.ascontiguousarray(chunk.starts, np.int64), np.ascontiguousarray(chunk.ends, np.int64)
    low, high, left_out = wanted.from_zxid, wanted.to_zxid, wanted.left_out
    measured = compiled.measure(chunk.data, starts, ends, first, len(starts), low, high, wanted.rows)
    if measured is None:
        return None
    until, rows, is_past, *whole = measured
    names = {column.name for column in wanted.columns}
    values: dict[str, Any] = {
        name: np.empty(2 * rows if name in _PIECES else rows, type_)
        for name, type_ in _FILLED.items()
        if name in names
    }
    present: dict[str, Any] = {name: np.empty(rows, np.bool_) for name in _NULLABLE if name in names}
    of_records: list[Any] = [None if left_out is None else np.empty(rows, type_) for type_ in _OF_RECORDS]
    filled = compiled.fill(
        *(chunk.data, starts, ends, first, until, low, high, rows),
        None if wanted.path_prefix is None else wanted.path_prefix.encode(),
        None if left_out is None else (*left_out, *whole),
        (*map(values.get, _FILLED), *map(present.get, _NULLABLE), *of_records),
    )
    if filled is None:
        return None
    count, records, acls = filled
    if not count:
        return Taken(until, None, bool(is_past))
    arrays = {
        column.name: arrow.same(wanted.file, column.type, count)
        if column.name == "file"
        else _filled(chunk, column, values[column.name], present.get(column.name), count, acls)
        for column in wanted.columns
    }
    of_all = None if left_out is None else arrow.Records(rows, *(each[:records] for each in of_records))
    return Taken(until, arrow.Batch(wanted.columns, arrays, of_all, is_plain=True), bool(is_past))


def _filled(chunk: LogChunk, column: arrow.Column, values: Any, present: Any, count: int, acls: bytes) -> Any:
    """The first rows of a column. `acls` has the places of the ACLs with the codes from 2 on."""
    is_there = None if present is None or present[:count].all() else present[:count]
    if column.name in _PIECES:
        return arrow.slices(chunk.data, values[: 2 * count], column.type, is_there)
    values = values[:count]
    if column.name == "op":
        return arrow.coded(values, _OPS, column.type)
    if column.name == "ephemeral":
        return arrow.coded(values, _LIFETIMES, column.type)
    if column.name == "acl":
        bounds = np.frombuffer(acls, np.int32).reshape(-1, 2).tolist()
        known = [jute.acl_at(chunk.data, start, end)[0] for start, end in bounds]
        return arrow.coded(values, [None, jute.OPEN_ACL, *known], column.type)
    return arrow.numbers(values + chunk.base if column.name == "offset" else values, column.type, is_there)
