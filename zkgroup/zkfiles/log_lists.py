"""Records of a transaction log as columns in plain lists, made of the transactions that `operations` decodes.

It decodes nothing itself. At the end of the records, and at damage, the reading stops: `logs` tells one from
the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress, groupby, islice, repeat
from operator import and_, attrgetter, itemgetter
from typing import Any, Final, NamedTuple

from zkgroup.zkfiles.batches import Batch, Records, Same
from zkgroup.zkfiles.frames import FRAME, ZXID, ZXID_AT, LogChunk
from zkgroup.zkfiles.jute import JuteError
from zkgroup.zkfiles.operations import transaction_of
from zkgroup.zkfiles.records import CREATES, Operation, Transaction, TransactionType, TreeDigest
from zkgroup.zkfiles.schemas import OP_NAMES, Column

_MULTI: Final = int(TransactionType.MULTI)
_ERROR: Final = int(TransactionType.ERROR)
_TIME: Final = attrgetter("time_ms")
_TYPE: Final = itemgetter(Operation._fields.index("type"))
_OF_SESSIONS: Final = frozenset((TransactionType.CREATE_SESSION, TransactionType.CLOSE_SESSION))
_PLAIN_WRITES: Final = frozenset((TransactionType.SET_DATA, TransactionType.CREATE, TransactionType.CREATE2))
_MOST_SESSIONS: Final = 1024
"""That of left_out.h."""


ALL_ZXIDS: Final = -(1 << 63), (1 << 63) - 1


class LeftOutWrites(NamedTuple):
    """Writes that get no rows: sets, and creates of znodes that last, by path, where they were applied.

    Of a batch all rows stay of the last record, of the latest one, and of the first one of each session; and
    of all records of sessions that are found behind the first 1,024. So whatever is left out, the rows tell
    where the batch begins and ends and which sessions wrote in it; `Batch.records` tells the rest.
    """

    front: str
    """Paths begin with it; one name follows,"""
    behind: str
    """and then this, from a slash on."""
    but: str | None = None
    """Paths that begin with it stay."""

    def has(self, operation: Operation) -> bool:
        """Returns whether an operation that was applied is one of these writes."""
        path = operation.path
        if path is None or operation.type not in _PLAIN_WRITES or operation.is_ephemeral:
            return False
        place = path.find("/", len(self.front)) if path.startswith(self.front) else -1
        is_one = place >= 0 and path.startswith(self.behind, place)
        return is_one and not (self.but is not None and path.startswith(self.but))


class Wanted(NamedTuple):
    """Says which rows and columns of which file."""

    columns: tuple[Column, ...]
    file: str
    from_zxid: int
    to_zxid: int
    path_prefix: str | None
    rows: int
    """A batch ends with the transaction that reaches so many."""
    left_out: LeftOutWrites | None = None


class Taken(NamedTuple):
    """Holds what was made of records of a chunk."""

    until: int
    """The first record that was not taken, counted in the chunk."""
    batch: Batch | None
    is_past: bool = False
    """True if that record lies behind the zxids that are wanted."""
    error: JuteError | None = None
    """Says why that record cannot be read."""


def take(chunk: LogChunk, first: int, wanted: Wanted) -> Taken:
    """Records of a chunk from the one numbered `first` on, as many as make a batch."""
    transactions: list[Transaction] = []
    data, base = chunk.data, chunk.base
    until, rows = first, 0
    error = None
    is_past = False
    for start, end in zip(islice(chunk.starts, first, None), islice(chunk.ends, first, None), strict=True):
        if rows >= wanted.rows:
            break
        (zxid,) = ZXID.unpack_from(data, start + ZXID_AT)
        is_past = zxid > wanted.to_zxid
        if is_past:
            break
        if zxid >= wanted.from_zxid:
            try:
                transaction = transaction_of(data, start + FRAME.size, end, base + start)
            except JuteError as problem:
                error = problem
                break
            transactions.append(transaction)
            rows += len(transaction.operations)
            if transaction.type in _OF_SESSIONS:
                rows += 1 + len(transaction.closed_paths or ())
        until += 1
    return Taken(until, batch_of(transactions, wanted), is_past, error)


def batch_of(transactions: Iterable[Transaction], wanted: Wanted) -> Batch | None:
    """Transactions that were read already, in one batch; None where no row of them is wanted."""
    heads: list[Transaction] = []
    bodies: list[Operation] = []
    subs: list[int] = []
    applied: list[bool] = []
    low, high, prefix = wanted.from_zxid, wanted.to_zxid, wanted.path_prefix
    for each in transactions:
        if not low <= each.zxid <= high:
            continue
        kind, operations = each.type, each.operations
        if kind == _MULTI:
            count = len(operations)
            heads += repeat(each, count)
            bodies += operations
            subs += range(count)
            applied += repeat(_ERROR not in map(_TYPE, operations), count)
            continue
        heads.append(each)
        bodies.append(operations[0] if operations else Operation(kind))
        subs.append(-1)
        applied.append(kind != _ERROR)
        if each.closed_paths:
            count = len(each.closed_paths)
            heads += repeat(each, count)
            bodies += [Operation(kind, path) for path in each.closed_paths]
            subs += range(count)
            applied += repeat(True, count)
    records, fits = None, None
    if wanted.left_out is not None:
        records, fits = _without(wanted.left_out, heads, bodies, applied)
    if prefix is not None:
        below = [body.path is not None and body.path.startswith(prefix) for body in bodies]
        fits = below if fits is None else list(map(and_, fits, below))
    if fits is not None:
        heads, bodies = list(compress(heads, fits)), list(compress(bodies, fits))
        subs, applied = list(compress(subs, fits)), list(compress(applied, fits))
    if not heads:
        return None
    raw: dict[str, Sequence[Any]] = dict(zip(Transaction._fields, zip(*heads, strict=True), strict=True))
    raw.update(zip(Operation._fields, zip(*bodies, strict=True), strict=True))
    raw.update(time=raw["time_ms"], sub=subs, applied=applied)
    lists = {column.name: _list(column.name, raw, wanted.file) for column in wanted.columns}
    return Batch(wanted.columns, len(heads), lists, records)


def _without(
    left_out: LeftOutWrites,
    heads: Sequence[Transaction],
    bodies: Sequence[Operation],
    applied: Sequence[bool],
) -> tuple[Records, list[bool]]:
    """Returns what is told of the records of some rows, and which of the rows stay."""
    of_known = (head for head, body in zip(heads, bodies, strict=True) if body.type in OP_NAMES)
    records = [next(same) for _, same in groupby(of_known, key=id)]
    whole = {id(each) for each in (*records[-1:], *sorted(records, key=_TIME, reverse=True)[:1])}
    sessions: set[int] = set()
    for each in records:
        if each.session not in sessions:
            whole.add(id(each))
            if len(sessions) < _MOST_SESSIONS:
                sessions.add(each.session)
    fits = [
        id(head) in whole or not (was_applied and left_out.has(body))
        for head, body, was_applied in zip(heads, bodies, applied, strict=True)
    ]
    columns = [[getattr(each, name) for each in records] for name in Records._fields[1:]]
    return Records(len(heads), *columns), fits


def _signed(digest: TreeDigest | None) -> int | None:
    if digest is None:
        return None
    return digest.value - (1 << 64) if digest.value >> 63 else digest.value


def _list(name: str, raw: Mapping[str, Sequence[Any]], file: str) -> list[Any] | Same:
    if name == "epoch":
        return [zxid >> 32 for zxid in raw["zxid"]]
    if name == "op":
        return _ops(raw["type"], raw["path"])
    if name == "parent":
        return [parent_of(path) for path in raw["path"]]
    if name == "ephemeral":
        return [
            _LIFETIMES.get(kind, "session" if flag and kind in CREATES else None)
            for kind, flag in zip(raw["type"], raw["is_ephemeral"], strict=True)
        ]
    if name == "digest":
        return [_signed(digest) for digest in raw["digest"]]
    return Same(file) if name == "file" else list(raw[name])


def _ops(types: Sequence[int], paths: Sequence[str | None]) -> list[str | None]:
    if TransactionType.CLOSE_SESSION not in types:
        return list(map(OP_NAMES.get, types))
    return [
        OP_NAMES.get(kind) if path is None or kind != TransactionType.CLOSE_SESSION else "delete"
        for kind, path in zip(types, paths, strict=True)
    ]


_LIFETIMES: Final[Mapping[int, str | None]] = {
    TransactionType.CREATE_CONTAINER: "container",
    TransactionType.CREATE_TTL: "ttl",
}


def parent_of(path: str | None) -> str | None:
    """The path above; None for the root and for what has none."""
    if path is None or len(path) < 2:
        return None
    end = path.rfind("/")
    return path[:end] or "/" if end >= 0 else None
