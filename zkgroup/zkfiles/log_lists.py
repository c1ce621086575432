"""Records of a transaction log as columns in plain lists.

Sources: FileTxnLog.java, SerializeUtils.java and zookeeper.jute of ZooKeeper 3.4 to 3.9.

What servers write in bulk is decoded here; an entry of any other kind goes to `operations`, which knows them
all. At the end of the records, and at damage, the reading stops: `logs` tells one from the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress, islice
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any, NamedTuple

from zkgroup.zkfiles.batches import Batch, Same
from zkgroup.zkfiles.frames import FRAME, LogChunk
from zkgroup.zkfiles.jute import OPEN_ACL, OPEN_ACL_BYTES, JuteError
from zkgroup.zkfiles.log_parts import OddError, parts_of_close, parts_of_multi
from zkgroup.zkfiles.operations import DIGEST, HEADER, transaction_of
from zkgroup.zkfiles.records import (
    CREATES,
    Acl,
    AclEntry,
    Operation,
    Transaction,
    TransactionType,
    TreeDigest,
)
from zkgroup.zkfiles.schemas import OP_NAMES, Column

BEFORE_BODY = FRAME.size + HEADER.size
"""Bytes of a record before what its type decides."""
_INT = Struct(">i").unpack_from
_LONG = Struct(">q").unpack_from
_INT_AND_LONG = Struct(">iq").unpack_from
_BYTE_AND_INT = Struct(">Bi").unpack_from

_HEAD = ("zxid", "sub", "session", "cxid", "time", "offset", "digest", "applied")
_BODY = (
    "type", "path", "data", "version", "ephemeral", "ttl_ms", "timeout_ms", "error", "parent_cversion", "acl",
)  # fmt: skip
Head = tuple[int, int, int, int, int, int, int | None, bool]
Body = tuple[
    int, str | None, bytes | None, int | None, str | None, int | None, int | None, int | None, int | None,
    Acl | None,
]  # fmt: skip


class Wanted(NamedTuple):
    """Which rows and columns of which file."""

    columns: tuple[Column, ...]
    file: str
    from_zxid: int
    to_zxid: int
    path_prefix: str | None
    rows: int
    """A batch ends with the transaction that reaches so many."""


class Taken(NamedTuple):
    """What was made of records of a chunk."""

    until: int
    """The first record that was not taken, counted in the chunk."""
    batch: Batch | None
    is_past: bool = False
    """Whether that record lies behind the zxids that are wanted."""
    error: JuteError | None = None
    """Why that record cannot be read."""


def take(chunk: LogChunk, first: int, wanted: Wanted) -> Taken:
    """Records of a chunk from the one numbered `first` on, as many as make a batch."""
    heads: list[Head] = []
    bodies: list[Body] = []
    raw, base = chunk.data, chunk.base
    low, high, limit = wanted.from_zxid, wanted.to_zxid, wanted.rows
    unpack, add_head, add_body, simple = HEADER.unpack_from, heads.append, bodies.append, _SIMPLE.get
    until = first
    for start, end in zip(islice(chunk.starts, first, None), islice(chunk.ends, first, None), strict=True):
        if len(heads) >= limit:
            break
        session, cxid, zxid, time, kind = unpack(raw, start + FRAME.size)
        if zxid > high:
            return Taken(until, _batch(heads, bodies, wanted), is_past=True)
        if zxid >= low:
            try:
                decode = simple(kind)
                if decode is not None:
                    body, at = decode(raw, start + BEFORE_BODY, kind)
                    add_head((zxid, -1, session, cxid, time, base + start, _digest(raw, at, end), kind != -1))
                    add_body(body)
                else:
                    parts, at = _MANY[kind](raw, start + BEFORE_BODY, end)
                    heads += _heads(
                        (zxid, session, cxid, time, base + start, _digest(raw, at, end)), kind, parts
                    )
                    bodies += parts
            except (OddError, StructError, UnicodeDecodeError, KeyError):
                try:
                    transaction = transaction_of(raw, start + FRAME.size, end, base + start)
                except JuteError as error:
                    return Taken(until, _batch(heads, bodies, wanted), error=error)
                parts = _bodies_of(transaction)
                heads += _heads(_common(transaction), kind, parts)
                bodies += parts
        until += 1
    return Taken(until, _batch(heads, bodies, wanted))


def batch_of(transactions: Iterable[Transaction], wanted: Wanted) -> Batch | None:
    """Transactions that were read already, in one batch; None where no row of them is wanted."""
    heads: list[Head] = []
    bodies: list[Body] = []
    for transaction in transactions:
        if wanted.from_zxid <= transaction.zxid <= wanted.to_zxid:
            parts = _bodies_of(transaction)
            heads += _heads(_common(transaction), transaction.type, parts)
            bodies += parts
    return _batch(heads, bodies, wanted)


Common = tuple[int, int, int, int, int, int | None]
"""Of all rows of a transaction: zxid, session, cxid, time, offset, digest."""


def _heads(common: Common, kind: int, bodies: list[Body]) -> list[Head]:
    zxid, session, cxid, time, offset, digest = common
    first = 0 if kind == TransactionType.MULTI else -1
    applied = all(body[0] != TransactionType.ERROR for body in bodies)
    return [
        (zxid, sub, session, cxid, time, offset, digest, applied) for sub in range(first, first + len(bodies))
    ]


def _common(transaction: Transaction) -> Common:
    return (
        transaction.zxid,
        transaction.session,
        transaction.cxid,
        transaction.time_ms,
        transaction.offset,
        _signed(transaction.digest),
    )


def _bodies_of(transaction: Transaction) -> list[Body]:
    kind = transaction.type
    if kind in (TransactionType.CREATE_SESSION, TransactionType.CLOSE_SESSION):
        bodies = [_body(kind, timeout_ms=transaction.timeout_ms)]
        return bodies + [_body(kind, path) for path in transaction.closed_paths or ()]
    return [_body_of(operation) for operation in transaction.operations]


def _signed(digest: TreeDigest | None) -> int | None:
    if digest is None:
        return None
    return digest.value - (1 << 64) if digest.value >> 63 else digest.value


def _body_of(operation: Operation) -> Body:
    return (
        operation.type,
        operation.path,
        operation.data,
        operation.version,
        _lifetime(operation.type, operation.is_ephemeral),
        operation.ttl_ms,
        None,
        operation.error,
        operation.parent_cversion,
        operation.acl,
    )


def _lifetime(kind: int, is_ephemeral: bool) -> str | None:
    if kind == TransactionType.CREATE_CONTAINER:
        return "container"
    if kind == TransactionType.CREATE_TTL:
        return "ttl"
    return "session" if is_ephemeral and kind in CREATES else None


def _batch(heads: list[Head], bodies: list[Body], wanted: Wanted) -> Batch | None:
    if wanted.path_prefix is not None:
        fits = [body[1] is not None and body[1].startswith(wanted.path_prefix) for body in bodies]
        heads, bodies = list(compress(heads, fits)), list(compress(bodies, fits))
    if not heads:
        return None
    raw: dict[str, Sequence[Any]] = dict(zip(_HEAD, zip(*heads, strict=True), strict=True))
    raw.update(zip(_BODY, zip(*bodies, strict=True), strict=True))
    lists = {column.name: _list(column.name, raw, wanted.file) for column in wanted.columns}
    return Batch(wanted.columns, len(heads), lists)


def _list(name: str, raw: dict[str, Sequence[Any]], file: str) -> list[Any] | Same:
    if name == "epoch":
        return [zxid >> 32 for zxid in raw["zxid"]]
    if name == "op":
        return [
            OP_NAMES.get(kind) if path is None or kind != TransactionType.CLOSE_SESSION else "delete"
            for kind, path in zip(raw["type"], raw["path"], strict=True)
        ]
    if name == "parent":
        return [parent_of(path) for path in raw["path"]]
    if name == "file":
        return Same(file)
    return list(raw[name])


def parent_of(path: str | None) -> str | None:
    """The path above; None for the root and for what has none."""
    if path is None or len(path) < 2:
        return None
    end = path.rfind("/")
    return path[:end] or "/" if end >= 0 else None


def _body(
    kind: int, path: str | None = None, timeout_ms: int | None = None, error: int | None = None
) -> Body:
    return (kind, path, None, None, None, None, timeout_ms, error, None, None)


def _digest(raw: bytes, at: int, end: int) -> int | None:
    if at == end:
        return None
    if end - at != DIGEST.size:
        raise OddError
    return int(_LONG(raw, at + 4)[0])


def _path(raw: bytes, at: int) -> tuple[str, int]:
    (length,) = _INT(raw, at)
    if length < 0:
        raise OddError
    at += 4
    return raw[at : at + length].decode(), at + length


def _buffer(raw: bytes, at: int) -> tuple[bytes | None, int]:
    (length,) = _INT(raw, at)
    at += 4
    if length < 0:
        if length != -1:
            raise OddError
        return None, at
    return raw[at : at + length], at + length


def acl_at(raw: bytes, at: int) -> tuple[Acl, int]:
    """The ACL at a place, and where it ends. Raises OddError, struct.error and UnicodeDecodeError."""
    if raw.startswith(OPEN_ACL_BYTES, at):
        return OPEN_ACL, at + len(OPEN_ACL_BYTES)
    (count,) = _INT(raw, at)
    at += 4
    if not 0 <= count <= len(raw):
        raise OddError
    entries = []
    for _ in range(count):
        (perms,) = _INT(raw, at)
        scheme, at = _path(raw, at + 4)
        id_, at = _path(raw, at)
        entries.append(AclEntry(perms, scheme, id_))
    return tuple(entries), at


def _create(raw: bytes, at: int, kind: int) -> tuple[Body, int]:
    path, at = _path(raw, at)
    data, at = _buffer(raw, at)
    acl, at = acl_at(raw, at)
    flag, cversion = _BYTE_AND_INT(raw, at)
    if flag > 1:
        raise OddError
    return (
        kind, path, data, None, "session" if flag else None, None, None, None, cversion, acl,
    ), at + 5  # fmt: skip


def _create_container(raw: bytes, at: int, kind: int) -> tuple[Body, int]:
    path, at = _path(raw, at)
    data, at = _buffer(raw, at)
    acl, at = acl_at(raw, at)
    (cversion,) = _INT(raw, at)
    return (kind, path, data, None, "container", None, None, None, cversion, acl), at + 4


def _create_ttl(raw: bytes, at: int, kind: int) -> tuple[Body, int]:
    path, at = _path(raw, at)
    data, at = _buffer(raw, at)
    acl, at = acl_at(raw, at)
    cversion, ttl_ms = _INT_AND_LONG(raw, at)
    return (kind, path, data, None, "ttl", ttl_ms, None, None, cversion, acl), at + 12


def _delete(raw: bytes, at: int, kind: int) -> tuple[Body, int]:
    path, at = _path(raw, at)
    return _body(kind, path), at


def _set(raw: bytes, at: int, kind: int) -> tuple[Body, int]:
    (length,) = _INT(raw, at)
    at += 4
    if length < 0:
        raise OddError
    path = raw[at : at + length].decode()
    data, at = _buffer(raw, at + length)
    return (kind, path, data, _INT(raw, at)[0], None, None, None, None, None, None), at + 4


def _set_acl(raw: bytes, at: int, kind: int) -> tuple[Body, int]:
    path, at = _path(raw, at)
    acl, at = acl_at(raw, at)
    return (kind, path, None, _INT(raw, at)[0], None, None, None, None, None, acl), at + 4


def _check(raw: bytes, at: int, kind: int) -> tuple[Body, int]:
    path, at = _path(raw, at)
    return (kind, path, None, _INT(raw, at)[0], None, None, None, None, None, None), at + 4


def _error(raw: bytes, at: int, kind: int) -> tuple[Body, int]:
    return _body(kind, error=_INT(raw, at)[0]), at + 4


def _create_session(raw: bytes, at: int, kind: int) -> tuple[Body, int]:
    return _body(kind, timeout_ms=_INT(raw, at)[0]), at + 4


_SIMPLE: dict[int, Callable[[bytes, int, int], tuple[Body, int]]] = {
    TransactionType.CREATE_SESSION: _create_session,
    TransactionType.ERROR: _error,
    TransactionType.CREATE: _create,
    TransactionType.DELETE: _delete,
    TransactionType.SET_DATA: _set,
    TransactionType.SET_ACL: _set_acl,
    TransactionType.CHECK: _check,
    TransactionType.CREATE2: _create,
    TransactionType.RECONFIG: _set,
    TransactionType.CREATE_CONTAINER: _create_container,
    TransactionType.DELETE_CONTAINER: _delete,
    TransactionType.CREATE_TTL: _create_ttl,
}


def _multi(raw: bytes, at: int, end: int) -> tuple[list[Body], int]:
    parts = parts_of_multi(raw, at, end)
    bodies = []
    at += 4
    for kind, start, at in zip(*parts, strict=True):
        body, rest = _SIMPLE[kind](raw, start, kind)
        if rest != at:
            raise OddError
        bodies.append(body)
    return bodies, at


def _close_session(raw: bytes, at: int, end: int) -> tuple[list[Body], int]:
    parts = parts_of_close(raw, at, end)
    paths = [_path(raw, start)[0] for start in parts.starts[1:]]
    kind = parts.kinds[0]
    return [_body(kind), *(_body(kind, path) for path in paths)], parts.ends[-1]


_MANY: dict[int, Callable[[bytes, int, int], tuple[list[Body], int]]] = {
    TransactionType.MULTI: _multi,
    TransactionType.CLOSE_SESSION: _close_session,
}
