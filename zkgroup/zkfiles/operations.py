"""One entry of a transaction log as a Transaction.

Sources: zookeeper.jute (TxnHeader and the bodies), SerializeUtils.deserializeTxn and TxnDigest of ZooKeeper
3.4 to 3.9. A body has no length of its own and no version: what is left behind it tells which sections the
server wrote, for each can be switched off.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from zkgroup.zkfiles.jute import INT, Jute, JuteError
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

Body = Callable[[int, Jute], Operation]


def transaction_of(raw: bytes, start: int, end: int, offset: int = 0) -> Transaction:
    """The transaction whose entry is `raw[start:end]`; `offset` is where its record starts in the file.

    Of a type that no server up to 3.9 writes there is the header, and one operation of that type with nothing
    in it. Raises JuteError, with an offset within `raw`.
    """
    if end - start < HEADER.size:
        raise JuteError(start, f"at least {HEADER.size} bytes of a transaction", str(end - start))
    session, cxid, zxid, time_ms, kind = HEADER.unpack_from(raw, start)
    jute = Jute(raw, start + HEADER.size, end)
    operations: tuple[Operation, ...] = ()
    timeout_ms = closed_paths = None
    if kind in _BODIES:
        operations = (_BODIES[kind](kind, jute),)
    elif kind == TransactionType.MULTI:
        operations = _multi(jute)
    elif kind == TransactionType.CLOSE_SESSION:
        closed_paths = _closed_paths(jute)
    elif kind == TransactionType.CREATE_SESSION:
        timeout_ms = jute.number()
    else:
        return Transaction(zxid, session, cxid, time_ms, kind, (Operation(kind),), offset=offset)
    digest = _digest(jute)
    return Transaction(
        zxid, session, cxid, time_ms, kind, operations, timeout_ms, closed_paths, digest, offset
    )


def _digest(jute: Jute) -> TreeDigest | None:
    if not jute.left:
        return None
    if jute.left != DIGEST.size:
        raise JuteError(jute.at, f"the end or a digest of {DIGEST.size} bytes", f"{jute.left} bytes")
    return TreeDigest(*DIGEST.unpack_from(jute.raw, jute.at))


def _closed_paths(jute: Jute) -> tuple[str, ...] | None:
    """None before 3.6 and with closeSessionTxn.enabled=false.

    Twelve bytes that begin with 2 are a digest: a list of two paths does not fit them.
    """
    if not jute.left:
        return None
    if jute.left == DIGEST.size and INT.unpack_from(jute.raw, jute.at)[0] == DIGEST_VERSION:
        return None
    return jute.texts()


def _multi(jute: Jute) -> tuple[Operation, ...]:
    operations = []
    for _ in range(jute.count(_SMALLEST_TXN) or 0):
        kind, at, size = jute.number(), jute.at, jute.number()
        if size < 0 or size > jute.left:
            raise JuteError(at, f"a length of at most {jute.left}", str(size))
        inner = Jute(jute.raw, jute.at, jute.at + size)
        jute.at += size
        if kind not in _BODIES:
            operations.append(Operation(kind))
            continue
        operations.append(_BODIES[kind](kind, inner))
        if inner.left and kind == TransactionType.ERROR:
            # A leader that applies a refused multi before its own log has it names the operations before the
            # one that failed errors, and leaves their bodies (DataTree.processTxn, Txn.setType).
            operations[-1] = Operation(kind, error=OVERWRITTEN)
        elif inner.left:
            raise JuteError(inner.at, "the end of the operation", f"{inner.left} bytes more")
    return tuple(operations)


def _create(kind: int, jute: Jute) -> Operation:
    path, data, acl, is_ephemeral = jute.text(), jute.buffer(), jute.acl(), jute.flag()
    # Nothing behind it: a record from before 3.4 (CreateTxnV0), which has no digest either.
    parent_cversion = jute.number() if jute.left else None
    return Operation(kind, path, data, acl, is_ephemeral=is_ephemeral, parent_cversion=parent_cversion)


def _create_container(kind: int, jute: Jute) -> Operation:
    path, data, acl = jute.text(), jute.buffer(), jute.acl()
    return Operation(kind, path, data, acl, parent_cversion=jute.number())


def _create_ttl(kind: int, jute: Jute) -> Operation:
    path, data, acl, parent_cversion = jute.text(), jute.buffer(), jute.acl(), jute.number()
    return Operation(kind, path, data, acl, parent_cversion=parent_cversion, ttl_ms=jute.long())


def _delete(kind: int, jute: Jute) -> Operation:
    return Operation(kind, jute.text())


def _set(kind: int, jute: Jute) -> Operation:
    path, data = jute.text(), jute.buffer()
    return Operation(kind, path, data, version=jute.number())


def _set_acl(kind: int, jute: Jute) -> Operation:
    path, acl = jute.text(), jute.acl()
    return Operation(kind, path, acl=acl, version=jute.number())


def _check(kind: int, jute: Jute) -> Operation:
    path = jute.text()
    return Operation(kind, path, version=jute.number())


def _error(kind: int, jute: Jute) -> Operation:
    return Operation(kind, error=jute.number())


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
