"""One entry of a transaction log as a Transaction.

Sources: zookeeper.jute (TxnHeader and the bodies), SerializeUtils.deserializeTxn and TxnDigest of ZooKeeper
3.4 to 3.9. A body has no length of its own and no version: what is left behind it shows which sections the
server wrote, for each can be switched off.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from zkgroup.zkfiles.jute import (
    INT,
    JuteError,
    acl_at,
    buffer_at,
    count_at,
    flag_at,
    int_at,
    long_at,
    text_at,
)
from zkgroup.zkfiles.records import Operation, Transaction, TransactionType, TreeDigest

HEADER: Final = struct.Struct(">qiqqi")
"""TxnHeader: session, cxid, zxid, milliseconds, type."""
DIGEST: Final = struct.Struct(">iQ")
"""TxnDigest: version, value."""
DIGEST_VERSION: Final = 2
"""Of every release but the first builds of 3.6; a server skips others too."""
OVERWRITTEN: Final = 0
"""The error of an operation that was right, in a multi of which another one failed (KeeperException's Ok)."""
_SMALLEST_TXN: Final = 8

_HEADER: Final = HEADER.unpack_from
_DIGEST: Final = DIGEST.unpack_from
_MULTI: Final = int(TransactionType.MULTI)

Body = Callable[[int, bytes, int, int], tuple[Operation, int]]
"""Reads an operation of a type at a place before an end; gives the place behind it too."""


def transaction_of(raw: bytes, start: int, end: int, offset: int = 0) -> Transaction:
    """The transaction whose entry is `raw[start:end]`; `offset` is where its record starts in the file.

    Of a type that no server up to 3.9 writes there is the header, and one operation of that type with nothing
    in it. Raises JuteError, with an offset within `raw`.
    """
    if end - start < HEADER.size:
        raise JuteError(start, f"at least {HEADER.size} bytes of a transaction", str(end - start))
    session, cxid, zxid, time_ms, kind = _HEADER(raw, start)
    at = start + HEADER.size
    operations: tuple[Operation, ...] = ()
    timeout_ms = closed_paths = None
    body = _BODIES.get(kind)
    if body is not None:
        operation, at = body(kind, raw, at, end)
        operations = (operation,)
    elif kind == _MULTI:
        operations, at = _multi(raw, at, end)
    elif kind == TransactionType.CLOSE_SESSION:
        closed_paths, at = _closed_paths(raw, at, end)
    elif kind == TransactionType.CREATE_SESSION:
        timeout_ms, at = int_at(raw, at, end), at + 4
    else:
        return Transaction(zxid, session, cxid, time_ms, kind, (Operation(kind),), offset=offset)
    digest = None
    if at != end:
        if end - at != DIGEST.size:
            raise JuteError(at, f"the end or a digest of {DIGEST.size} bytes", f"{end - at} bytes")
        digest = TreeDigest._make(_DIGEST(raw, at))
    return Transaction(
        zxid, session, cxid, time_ms, kind, operations, timeout_ms, closed_paths, digest, offset
    )


def _closed_paths(raw: bytes, at: int, end: int) -> tuple[tuple[str, ...] | None, int]:
    """None before 3.6 and with closeSessionTxn.enabled=false.

    Twelve bytes that begin with 2 are a digest: a list of two paths does not fit them.
    """
    left = end - at
    if not left or (left == DIGEST.size and int_at(raw, at, end) == DIGEST_VERSION):
        return None, at
    count = count_at(raw, at, end, INT.size) or 0
    at += INT.size
    paths = []
    for _ in range(count):
        path, at = text_at(raw, at, end)
        paths.append(path)
    return tuple(paths), at


def _multi(raw: bytes, at: int, end: int) -> tuple[tuple[Operation, ...], int]:
    count = count_at(raw, at, end, _SMALLEST_TXN) or 0
    at += INT.size
    operations = []
    for _ in range(count):
        kind, size = int_at(raw, at, end), int_at(raw, at + 4, end)
        start = at + 8
        if size < 0 or size > end - start:
            raise JuteError(at + 4, f"a length of at most {end - start}", str(size))
        at = start + size
        body = _BODIES.get(kind)
        if body is None:
            operations.append(Operation(kind))
            continue
        operation, stop = body(kind, raw, start, at)
        if stop != at:
            if kind != TransactionType.ERROR:
                raise JuteError(stop, "the end of the operation", f"{at - stop} bytes more")
            # A leader that applies a refused multi before its own log has it names the operations before the
            # one that failed errors, and leaves their bodies (DataTree.processTxn, Txn.setType).
            operation = Operation(kind, error=OVERWRITTEN)
        operations.append(operation)
    return tuple(operations), at


def _create(kind: int, raw: bytes, at: int, end: int) -> tuple[Operation, int]:
    path, at = text_at(raw, at, end)
    data, at = buffer_at(raw, at, end)
    acl, at = acl_at(raw, at, end)
    is_ephemeral = flag_at(raw, at, end)
    at += 1
    if at == end:  # a record from before 3.4 (CreateTxnV0), which has no digest either
        return Operation(kind, path, data, acl, None, is_ephemeral), at
    return Operation(kind, path, data, acl, None, is_ephemeral, int_at(raw, at, end)), at + 4


def _create_container(kind: int, raw: bytes, at: int, end: int) -> tuple[Operation, int]:
    path, at = text_at(raw, at, end)
    data, at = buffer_at(raw, at, end)
    acl, at = acl_at(raw, at, end)
    return Operation(kind, path, data, acl, parent_cversion=int_at(raw, at, end)), at + 4


def _create_ttl(kind: int, raw: bytes, at: int, end: int) -> tuple[Operation, int]:
    operation, at = _create_container(kind, raw, at, end)
    return operation._replace(ttl_ms=long_at(raw, at, end)), at + 8


def _delete(kind: int, raw: bytes, at: int, end: int) -> tuple[Operation, int]:
    path, at = text_at(raw, at, end)
    return Operation(kind, path), at


def _set(kind: int, raw: bytes, at: int, end: int) -> tuple[Operation, int]:
    path, at = text_at(raw, at, end)
    data, at = buffer_at(raw, at, end)
    return Operation(kind, path, data, None, int_at(raw, at, end)), at + 4


def _set_acl(kind: int, raw: bytes, at: int, end: int) -> tuple[Operation, int]:
    path, at = text_at(raw, at, end)
    acl, at = acl_at(raw, at, end)
    return Operation(kind, path, None, acl, int_at(raw, at, end)), at + 4


def _check(kind: int, raw: bytes, at: int, end: int) -> tuple[Operation, int]:
    path, at = text_at(raw, at, end)
    return Operation(kind, path, None, None, int_at(raw, at, end)), at + 4


def _error(kind: int, raw: bytes, at: int, end: int) -> tuple[Operation, int]:
    return Operation(kind, error=int_at(raw, at, end)), at + 4


_BODIES: Final[dict[int, Body]] = {
    TransactionType.CREATE: _create,
    TransactionType.CREATE2: _create,
    TransactionType.CREATE_CONTAINER: _create_container,
    TransactionType.CREATE_TTL: _create_ttl,
    TransactionType.DELETE: _delete,
    TransactionType.DELETE_CONTAINER: _delete,
    TransactionType.SET_DATA: _set,
    TransactionType.RECONFIG: _set,
    TransactionType.SET_ACL: _set_acl,
    TransactionType.CHECK: _check,
    TransactionType.ERROR: _error,
}
