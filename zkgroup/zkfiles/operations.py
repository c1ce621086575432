"""One entry of a transaction log as a Transaction.

Sources: zookeeper.jute (TxnHeader and the bodies), SerializeUtils.deserializeTxn and TxnDigest of ZooKeeper
3.4 to 3.9. A body has no length of its own and no version: what is left behind it shows which sections the
server wrote, for each can be switched off.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

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
from zkgroup.zkfiles.records import (
    CREATES,
    DELETES,
    SETS,
    Operation,
    Transaction,
    TransactionType,
    TreeDigest,
)

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

_Field = tuple[str, Callable[[bytes, int, int], tuple[Any, int]]]
_PATH: Final[_Field] = "path", text_at
_DATA: Final[_Field] = "data", buffer_at
_ACL: Final[_Field] = "acl", acl_at
_VERSION: Final[_Field] = "version", int_at
_EPHEMERAL: Final[_Field] = "is_ephemeral", flag_at
_PARENT_CVERSION: Final[_Field] = "parent_cversion", int_at
_CONTAINER: Final = (_PATH, _DATA, _ACL, _PARENT_CVERSION)
_BODIES: Final[dict[int, tuple[_Field, ...]]] = {
    **dict.fromkeys(CREATES, (_PATH, _DATA, _ACL, _EPHEMERAL, _PARENT_CVERSION)),
    TransactionType.CREATE_CONTAINER: _CONTAINER,
    TransactionType.CREATE_TTL: (*_CONTAINER, ("ttl_ms", long_at)),
    **dict.fromkeys(DELETES, (_PATH,)),
    **dict.fromkeys(SETS, (_PATH, _DATA, _VERSION)),
    TransactionType.SET_ACL: (_PATH, _ACL, _VERSION),
    TransactionType.CHECK: (_PATH, _VERSION),
    TransactionType.ERROR: (("error", int_at),),
}
"""The fields of Operation that a type has, in their order, and what reads them."""


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
    if kind in _BODIES:
        operation, at = _operation(kind, raw, at, end)
        operations = (operation,)
    elif kind == _MULTI:
        operations, at = _multi(raw, at, end)
    elif kind == TransactionType.CLOSE_SESSION:
        closed_paths, at = _closed_paths(raw, at, end)
    elif kind == TransactionType.CREATE_SESSION:
        timeout_ms, at = int_at(raw, at, end)
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


def _operation(kind: int, raw: bytes, at: int, end: int) -> tuple[Operation, int]:
    values = {}
    for field in _BODIES[kind]:
        if at == end and field is _PARENT_CVERSION and _EPHEMERAL[0] in values:
            break  # a record from before 3.4 (CreateTxnV0), which has no digest either
        name, read = field
        values[name], at = read(raw, at, end)
    return Operation(kind, **values), at


def _closed_paths(raw: bytes, at: int, end: int) -> tuple[tuple[str, ...] | None, int]:
    """None before 3.6 and with closeSessionTxn.enabled=false.

    Twelve bytes that begin with 2 are a digest: a list of two paths does not fit them.
    """
    left = end - at
    if not left or (left == DIGEST.size and int_at(raw, at, end)[0] == DIGEST_VERSION):
        return None, at
    count, at = count_at(raw, at, end, INT.size)
    paths = []
    for _ in range(count or 0):
        path, at = text_at(raw, at, end)
        paths.append(path)
    return tuple(paths), at


def _multi(raw: bytes, at: int, end: int) -> tuple[tuple[Operation, ...], int]:
    count, at = count_at(raw, at, end, _SMALLEST_TXN)
    operations = []
    for _ in range(count or 0):
        kind, size_at = int_at(raw, at, end)
        size, start = int_at(raw, size_at, end)
        if not 0 <= size <= end - start:
            raise JuteError(size_at, f"a length of at most {end - start}", str(size))
        at = start + size
        if kind not in _BODIES:
            operations.append(Operation(kind))
            continue
        operation, stop = _operation(kind, raw, start, at)
        if stop != at:
            if kind != TransactionType.ERROR:
                raise JuteError(stop, "the end of the operation", f"{at - stop} bytes more")
            # A leader that applies a refused multi before its own log has it names the operations before the
            # one that failed errors, and leaves their bodies (DataTree.processTxn, Txn.setType).
            operation = Operation(kind, error=OVERWRITTEN)
        operations.append(operation)
    return tuple(operations), at
