"""Where the operations of multis and the paths of session closes lie, found one after the other.

Source: zookeeper.jute (MultiTxn, Txn, CloseSessionTxn) of ZooKeeper 3.4 to 3.9.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from zkgroup.zkfiles.operations import DIGEST, DIGEST_VERSION
from zkgroup.zkfiles.records import TransactionType

_INT = Struct(">i").unpack_from
_TWO_INTS = Struct(">ii").unpack_from
_CLOSE: Final = int(TransactionType.CLOSE_SESSION)


class OddError(Exception):
    """Nothing that is decoded in bulk."""


class Parts(NamedTuple):
    """Types of operations, where their bodies start, and where these end."""

    kinds: list[int]
    starts: list[int]
    ends: list[int]


def parts_of_multi(raw: bytes, at: int, end: int) -> Parts:
    """The operations of a multi whose body is `raw[at:]`, within `end`. Raises OddError."""
    (count,) = _INT(raw, at)
    if not 0 <= count <= end - at:
        raise OddError
    parts = Parts([], [], [])
    add_kind, add_start, add_end = (each.append for each in parts)
    at += 4
    for _ in range(count):
        if at + 8 > end:
            raise OddError
        kind, length = _TWO_INTS(raw, at)
        if length < 0:
            raise OddError
        at += 8
        add_kind(kind)
        add_start(at)
        at += length
        add_end(at)
    if at > end:
        raise OddError
    return parts


def parts_of_close(raw: bytes, at: int, end: int) -> Parts:
    """The close itself, then each path that it lists from 3.6 on. Raises OddError."""
    parts = Parts([_CLOSE], [at], [at])
    size = end - at
    if size == 0 or (size == DIGEST.size and _INT(raw, at)[0] == DIGEST_VERSION):
        return parts
    if size < 4:
        raise OddError
    (count,) = _INT(raw, at)
    if not 0 <= count <= size:
        raise OddError
    at += 4
    parts.starts[0] = parts.ends[0] = at
    for _ in range(count):
        if at + 4 > end:
            raise OddError
        start = at
        (length,) = _INT(raw, at)
        at += 4 + length
        if length < 0 or at > end:
            raise OddError
        parts.kinds.append(_CLOSE)
        parts.starts.append(start)
        parts.ends.append(at)
    return parts
