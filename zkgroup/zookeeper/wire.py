"""ZooKeeper's requests and replies as bytes (zookeeper.jute, ZooKeeper 3.9). Pure.

Encoders return the body of a request; decoders read the body of a reply in the received bytes, without
copying it first and without a Python object per field.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum

from zkgroup.model.requests import (
    AclChange,
    AclEntry,
    Check,
    Code,
    Create,
    Delete,
    MultiDone,
    MultiRefused,
    NotSent,
    Operation,
    Outcome,
    Refused,
    SetData,
    Unanswered,
    Znode,
    ZnodeAcl,
    ZnodeStat,
)
from zkgroup.zookeeper.settings import Acl


class Op(IntEnum):
    """Operation numbers (ZooDefs.OpCode)."""

    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    MULTI_READ = 22
    CLOSE_SESSION = -11


class EventType(IntEnum):
    """Kinds of watch event (Watcher.Event.EventType)."""

    CREATED = 1
    DELETED = 2
    DATA_CHANGED = 3
    CHILDREN_CHANGED = 4


WATCH_XID = -1
"""The xid of a watch event, which is no reply to a request."""
PING_XID = -2

FRAME_OVERHEAD = 8
"""Bytes of xid and operation number, which the server counts as part of a request."""

_INT = struct.Struct("!i")
_FRAME = struct.Struct("!iii")  # length, xid, operation number
_OP_HEADER = struct.Struct("!iBi")  # type, done, err
_OP_AND_PATH = struct.Struct("!iBii")  # the same and the length of what follows
_STAT = struct.Struct("!qqqqiiiqiiq")
_END = _OP_HEADER.pack(-1, 1, -1)
READ_OVERHEAD = FRAME_OVERHEAD + len(_END) + 14
"""Bytes that one path takes in a multiRead, besides the path."""
_ERROR = -1
_NULL = _INT.pack(-1)

_pack_int = _INT.pack
_pack_op = _OP_AND_PATH.pack
_new = tuple.__new__


class ChrootPaths:
    """Converts paths relative to the chroot into absolute paths and back."""

    __slots__ = ("_raw", "chroot")

    def __init__(self, chroot: str) -> None:
        self.chroot = chroot
        self._raw = chroot.encode()

    def absolute(self, path: str) -> str:
        """The absolute path. Raises `ValueError` for an invalid path."""
        if not path.startswith("/"):
            raise ValueError(f"a znode path starts with '/': {path!r}")
        if not self.chroot:
            return path
        return self.chroot if path == "/" else self.chroot + path

    def raw(self, path: str) -> bytes:
        return self.absolute(path).encode()

    def raws(self, paths: Sequence[str]) -> list[bytes]:
        """The absolute paths as bytes, for many at a third of the cost."""
        if "" in paths or not all([path[0] == "/" for path in paths]):  # noqa: C419  twice as fast
            bad = next(path for path in paths if not path.startswith("/"))
            raise ValueError(f"a znode path starts with '/': {bad!r}")
        if not self.chroot:
            return [path.encode() for path in paths]
        root, chroot = self._raw, self.chroot
        return [(chroot + path).encode() if path != "/" else root for path in paths]

    def relative(self, path: str) -> str:
        return (path[len(self.chroot) :] or "/") if self.chroot else path


def pack_acl(acl: Iterable[Acl]) -> bytes:
    """A vector of ACL records."""
    return pack_entries([entry.entry for entry in acl])


def pack_entries(acl: Sequence[AclEntry]) -> bytes:
    """The same of entries with bits."""
    parts = [_pack_int(len(acl))]
    for entry in acl:
        scheme, identity = entry.scheme.encode(), entry.id.encode()
        parts += (_pack_int(entry.perms), _pack_int(len(scheme)), scheme, _pack_int(len(identity)), identity)
    return b"".join(parts)


def frame(xid: int, op: Op, body: bytes) -> bytes:
    """A whole request."""
    return _FRAME.pack(len(body) + FRAME_OVERHEAD, xid, op) + body


def encode_path(raw: bytes) -> bytes:
    """Body of sync and getACL."""
    return _pack_int(len(raw)) + raw


def encode_read(raw: bytes, watch: bool) -> bytes:
    """Body of exists, getData, getChildren and getChildren2."""
    return b"%b%b%b" % (_pack_int(len(raw)), raw, b"\1" if watch else b"\0")


def encode_set_acl(raw: bytes, change: AclChange) -> bytes:
    """Body of a setACL."""
    return b"".join((_pack_int(len(raw)), raw, pack_entries(change.acl), _pack_int(change.version)))


def encode_create(raw: bytes, data: bytes | None, acl: bytes, flags: int) -> bytes:
    """Body of a create."""
    size = _NULL if data is None else _pack_int(len(data))
    return b"".join((_pack_int(len(raw)), raw, size, data or b"", acl, _pack_int(flags)))


def decode_stat(buffer: bytes, offset: int) -> ZnodeStat:
    """Reply to an exists."""
    return _new(ZnodeStat, _STAT.unpack_from(buffer, offset))


def decode_znode(path: str, buffer: bytes, offset: int) -> Znode:
    """Reply to a getData."""
    size = _INT.unpack_from(buffer, offset)[0]
    offset += 4
    data = None
    if size >= 0:
        data = buffer[offset : offset + size]
        offset += size
    return _new(Znode, (path, data, _new(ZnodeStat, _STAT.unpack_from(buffer, offset))))


def decode_acl(buffer: bytes, offset: int) -> ZnodeAcl:
    """Reply to a getACL."""
    count = _INT.unpack_from(buffer, offset)[0]
    offset += 4
    entries = []
    for _ in range(count):
        perms = _INT.unpack_from(buffer, offset)[0]
        (scheme, identity), offset = _names(buffer, offset + 4, 2)
        entries.append(AclEntry(perms, scheme, identity))
    return ZnodeAcl(tuple(entries), decode_stat(buffer, offset))


def decode_names(buffer: bytes, offset: int) -> tuple[tuple[str, ...], int]:
    """Reply to a getChildren, and where it ends: in one to getChildren2 the Stat follows."""
    count = _INT.unpack_from(buffer, offset)[0]
    return _names(buffer, offset + 4, count)


def _names(buffer: bytes, offset: int, count: int) -> tuple[tuple[str, ...], int]:
    names = []
    size_at = _INT.unpack_from
    for _ in range(count):
        start = offset + 4
        offset = start + size_at(buffer, offset)[0]
        names.append(buffer[start:offset].decode())
    return tuple(names), offset


def decode_event(buffer: bytes, offset: int) -> tuple[int, str]:
    """Kind and path of a watch event (WatcherEvent: type, state, path)."""
    kind = _INT.unpack_from(buffer, offset)[0]
    size = _INT.unpack_from(buffer, offset + 8)[0]
    return kind, buffer[offset + 12 : offset + 12 + size].decode()


def encode_multi(
    operations: Sequence[Operation], paths: ChrootPaths, acl_at: Callable[[str], bytes]
) -> bytes:
    """Body of a multi. Linear; about a microsecond an operation. `acl_at`: the ACL of a new znode."""
    parts: list[bytes] = []
    raws = paths.raws([operation.path for operation in operations])
    for operation, raw in zip(operations, raws, strict=True):
        kind = type(operation)
        if kind is SetData:
            data = operation.data  # type: ignore[union-attr]
            size = _pack_int(len(data)) if data is not None else _NULL
            version = _pack_int(operation.version)  # type: ignore[union-attr]
            parts += (_pack_op(5, 0, -1, len(raw)), raw, size, data or b"", version)
        elif kind is Check or kind is Delete:
            head = _pack_op(13 if kind is Check else 2, 0, -1, len(raw))
            parts += (head, raw, _pack_int(operation.version))  # type: ignore[union-attr]
        else:
            parts.append(_encode_create(operation, raw, acl_at(operation.path)))  # type: ignore[arg-type]
    parts.append(_END)
    return b"".join(parts)


def _encode_create(operation: Create, raw: bytes, acl: bytes) -> bytes:
    flags = (1 if operation.ephemeral else 0) | (2 if operation.sequential else 0)
    return _OP_HEADER.pack(1, 0, -1) + encode_create(raw, operation.data, acl, flags)


def decode_multi(
    buffer: bytes, offset: int, operations: Sequence[Operation], paths: ChrootPaths, zxid: int
) -> MultiDone | MultiRefused:
    """Reads a MultiResponse; `zxid` is that of its reply header, which is the transaction's."""
    kind, _done, _err, _size = _OP_AND_PATH.unpack_from(buffer, offset)
    if kind == _ERROR:
        return _refusal(buffer, offset, len(operations))
    stats: list[ZnodeStat | None] = []
    created: list[str] = []
    for operation in operations:
        offset += 9
        kind = type(operation)
        if kind is SetData:
            stats.append(_new(ZnodeStat, _STAT.unpack_from(buffer, offset)))
            offset += 68
            continue
        stats.append(None)
        if kind is Create:
            size = _INT.unpack_from(buffer, offset)[0]
            offset += 4 + size
            created.append(paths.relative(buffer[offset - size : offset].decode()))
    return MultiDone(tuple(stats), zxid, tuple(created))


def _refusal(buffer: bytes, offset: int, count: int) -> MultiRefused:
    """The refusal in a MultiResponse: zeros (rolled back) come before it, RuntimeInconsistency after it."""
    first_odd = 0
    for index in range(count):
        number = _INT.unpack_from(buffer, offset + 9)[0]
        offset += 13
        if number not in (OK, RUNTIME_INCONSISTENCY):
            return MultiRefused(index, code_of(number))
        if number == RUNTIME_INCONSISTENCY:
            first_odd = first_odd or index
    return MultiRefused(first_odd, Code.OTHER)


def encode_reads(
    op: Op, paths: Sequence[bytes], *, max_paths: int, max_bytes: int
) -> Iterator[tuple[int, int, bytes]]:
    """Bodies of one or more multiReads as (first index, end index, body), each within both limits.

    A single path beyond `max_bytes` still gets a packet.
    """
    heads = {size: _pack_op(op, 0, -1, size) for size in {len(raw) for raw in paths}}
    start = 0
    while start < len(paths):
        stop = _packet_end(paths, start, max_paths, max_bytes)
        parts = [b"%b%b\0" % (heads[len(raw)], raw) for raw in paths[start:stop]]
        parts.append(_END)
        yield start, stop, b"".join(parts)
        start = stop


def _packet_end(paths: Sequence[bytes], start: int, max_paths: int, max_bytes: int) -> int:
    stop = min(start + max_paths, len(paths))
    room = max_bytes - FRAME_OVERHEAD - len(_END)
    while stop > start + 1 and sum(map(len, paths[start:stop])) + 14 * (stop - start) > room:
        stop = start + max(1, (stop - start) * 3 // 4)
    return stop


def decode_data(buffer: bytes, offset: int, paths: Sequence[str]) -> tuple[list[Znode | Code | None], int]:
    """The results of getData operations, in order, and where they end. Two unpacks and two tuples a znode."""
    found: list[Znode | Code | None] = []
    add, make, znode, znode_stat = found.append, _new, Znode, ZnodeStat
    head, stat = _OP_AND_PATH.unpack_from, _STAT.unpack_from
    for path in paths:
        kind, _done, _err, size = head(buffer, offset)
        offset += 13
        if kind == _ERROR:
            add(None if size == NO_NODE else code_of(size))
            continue
        data = None
        if size >= 0:
            start, offset = offset, offset + size
            data = buffer[start:offset]
        add(make(znode, (path, data, make(znode_stat, stat(buffer, offset)))))
        offset += 68
    return found, offset


def decode_children(
    buffer: bytes, offset: int, count: int
) -> tuple[list[tuple[str, ...] | Code | None], int]:
    """The results of getChildren operations, in order, and where they end."""
    found: list[tuple[str, ...] | Code | None] = []
    for _ in range(count):
        kind, _done, _err, names = _OP_AND_PATH.unpack_from(buffer, offset)
        offset += 13
        if kind == _ERROR:
            found.append(None if names == NO_NODE else code_of(names))
        else:
            children, offset = _names(buffer, offset, names)
            found.append(children)
    return found, offset


OK = 0
RUNTIME_INCONSISTENCY = -2
UNIMPLEMENTED = -6
NO_NODE = -101
NO_AUTH = -102
NODE_EXISTS = -110
AUTH_DEMANDED = -124
"""`SESSIONCLOSEDREQUIRESASLAUTH`: the server ends the session, as it takes authenticated clients only."""

_CODES = {
    -8: Code.BAD_ARGUMENTS,
    NO_NODE: Code.NO_NODE,
    NO_AUTH: Code.NO_AUTH,
    -103: Code.BAD_VERSION,
    -108: Code.NO_CHILDREN_FOR_EPHEMERALS,
    NODE_EXISTS: Code.NODE_EXISTS,
    -111: Code.NOT_EMPTY,
    -114: Code.INVALID_ACL,
    -119: Code.READ_ONLY,
    -125: Code.QUOTA_EXCEEDED,
}

_NOT_EXECUTED = {
    -112: "the session has expired",
    -118: "the session has moved to another connection",
    AUTH_DEMANDED: "the server requires authentication",
    -127: "the server is overloaded and did not execute the request",
}
"""Error numbers of requests that the server did not execute."""

_UNKNOWN = {
    -4: "the server lost a connection of its own",
    -7: "the server ran into a timeout",
    -122: "the server ran into a timeout",
}


def code_of(number: int) -> Code:
    """The `Code` of an error number; `Code.OTHER` for those that no caller distinguishes."""
    return _CODES.get(number, Code.OTHER)


def refusal(number: int, path: str) -> Outcome:
    """The outcome of a request whose reply has this error number in its header."""
    if number in _NOT_EXECUTED:
        return NotSent(_NOT_EXECUTED[number])
    if number in _UNKNOWN:
        return Unanswered(_UNKNOWN[number])
    return Refused(code_of(number), path)
