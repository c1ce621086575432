"""Reads ZooKeeper's serialisation from bytes that may be anything: its few types, and an entry of a log.

Everything is big endian, nothing aligned, nothing tagged; buffers, texts and vectors have an int in front, -1
for null. Every length is compared with the rest before it is used. The functions `..._at` return a value
with the place behind it, which takes half the time of an object that moves. They raise JuteError.

The body of a transaction has no length of its own and no version: the rest behind it shows the sections that
the server wrote, since each can be switched off. Sources: BinaryInputArchive.java, zookeeper.jute (TxnHeader
and the bodies), SerializeUtils.deserializeTxn and TxnDigest of ZooKeeper 3.4 to 3.9.

How records stand in a log: Util.readTxnBytes.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple
from zlib import adler32

from zkgroup.zkfiles import records
from zkgroup.zkfiles.files import MAX_LOADED_BYTES, MAX_RECORD_BYTES

INT: Final = struct.Struct(">i")
LONG: Final = struct.Struct(">q")
_INT: Final = INT.unpack_from
_LONG: Final = LONG.unpack_from

OPEN_ACL: Final[records.Acl] = (records.AclEntry(31, "world", "anyone"),)
"""The ACL that allows everything to everybody; snapshots name it -1 and have it in no table."""
OPEN_ACL_BYTES: Final = b"\0\0\0\x01" + b"\0\0\0\x1f" + b"\0\0\0\x05world" + b"\0\0\0\x06anyone"
"""The bytes of OPEN_ACL as a list of one entry."""
_SMALLEST_ACL: Final = 12
"""The bytes of an entry whose scheme and id are empty."""


class JuteError(ValueError):
    """The error for bytes that cannot be right; `offset` is within the buffer that was given."""

    def __init__(self, offset: int, expected: str, found: str) -> None:
        super().__init__(f"byte {offset}: expected {expected}, found {found}")
        self.offset = offset
        self.expected = expected
        self.found = found


def int_at(raw: bytes, at: int, end: int) -> tuple[int, int]:
    """Four bytes, signed."""
    if end - at < 4:
        raise JuteError(at, "4 bytes", str(end - at))
    return _INT(raw, at)[0], at + 4


def long_at(raw: bytes, at: int, end: int) -> tuple[int, int]:
    """Eight bytes, signed."""
    if end - at < 8:
        raise JuteError(at, "8 bytes", str(end - at))
    return _LONG(raw, at)[0], at + 8


def flag_at(raw: bytes, at: int, end: int) -> tuple[bool, int]:
    """One byte, 0 or 1."""
    if at >= end:
        raise JuteError(at, "a byte", "the end")
    value = raw[at]
    if value > 1:
        raise JuteError(at, "0 or 1", str(value))
    return value == 1, at + 1


def buffer_at(raw: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    """Bytes, or None for null."""
    start = at + 4
    if start > end:
        raise JuteError(at, "4 bytes", str(end - at))
    (size,) = _INT(raw, at)
    if 0 <= size <= end - start:
        stop = start + size
        return raw[start:stop], stop
    if size == -1:
        return None, start
    raise JuteError(at, f"a length of at most {end - start}", str(size))


def text_at(raw: bytes, at: int, end: int) -> tuple[str, int]:
    """A text that is not null."""
    data, stop = buffer_at(raw, at, end)
    if data is None:
        raise JuteError(at, "a text", "null")
    return text_of(data, at), stop


def acl_at(raw: bytes, at: int, end: int) -> tuple[records.Acl | None, int]:
    """A list of ACL entries, or None for null."""
    stop = at + len(OPEN_ACL_BYTES)
    if stop <= end and raw.startswith(OPEN_ACL_BYTES, at):
        return OPEN_ACL, stop
    count, at = count_at(raw, at, end, _SMALLEST_ACL)
    if count is None:
        return None, at
    entries = []
    for _ in range(count):
        perms, at = int_at(raw, at, end)
        scheme, at = text_at(raw, at, end)
        id_, at = text_at(raw, at, end)
        entries.append(records.AclEntry(perms, scheme, id_))
    return tuple(entries), at


def count_at(raw: bytes, at: int, end: int, smallest: int) -> tuple[int | None, int]:
    """The number of items of at least `smallest` bytes that follow; None for null."""
    count, start = int_at(raw, at, end)
    if count == -1:
        return None, start
    most = (end - start) // smallest
    if not 0 <= count <= most:
        raise JuteError(at, f"at most {most} items", str(count))
    return count, start


def text_of(raw: bytes, at: int = 0) -> str:
    """The text of UTF-8 bytes that stand at an offset.

    ZooKeeper writes characters outside the basic plane as two surrogates of three bytes each
    (BinaryOutputArchive.stringToByteBuffer); they are put together. Raises JuteError.
    """
    try:
        return raw.decode()
    except UnicodeDecodeError:
        pass
    try:
        halves = raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise JuteError(at + INT.size + error.start, "UTF-8", repr(raw[error.start : error.end])) from error
    return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


HEADER: Final = struct.Struct(">qiqqi")
"""TxnHeader: session, cxid, zxid, milliseconds, type."""
DIGEST: Final = struct.Struct(">iQ")
"""TxnDigest: version, value."""
DIGEST_VERSION: Final = 2
"""The version of every release but the first builds of 3.6; a server skips others, too."""
OVERWRITTEN: Final = 0
"""The error of an operation that was right, in a multi of which another one failed (KeeperException's Ok)."""
_SMALLEST_TXN: Final = 8

_HEADER: Final = HEADER.unpack_from
_DIGEST: Final = DIGEST.unpack_from
_MULTI: Final = int(records.TransactionType.MULTI)

_Field = tuple[str, Callable[[bytes, int, int], tuple[Any, int]]]
_PATH: Final[_Field] = "path", text_at
_DATA: Final[_Field] = "data", buffer_at
_ACL: Final[_Field] = "acl", acl_at
_VERSION: Final[_Field] = "version", int_at
_EPHEMERAL: Final[_Field] = "is_ephemeral", flag_at
_PARENT_CVERSION: Final[_Field] = "parent_cversion", int_at
_CONTAINER: Final = (_PATH, _DATA, _ACL, _PARENT_CVERSION)
_BODIES: Final[dict[int, tuple[_Field, ...]]] = {
    **dict.fromkeys(records.CREATES, (_PATH, _DATA, _ACL, _EPHEMERAL, _PARENT_CVERSION)),
    records.TransactionType.CREATE_CONTAINER: _CONTAINER,
    records.TransactionType.CREATE_TTL: (*_CONTAINER, ("ttl_ms", long_at)),
    **dict.fromkeys(records.DELETES, (_PATH,)),
    **dict.fromkeys(records.SETS, (_PATH, _DATA, _VERSION)),
    records.TransactionType.SET_ACL: (_PATH, _ACL, _VERSION),
    records.TransactionType.CHECK: (_PATH, _VERSION),
    records.TransactionType.ERROR: (("error", int_at),),
}
"""The fields of Operation that a type has, in their order, each with its reader."""


def transaction_of(raw: bytes, start: int, end: int, offset: int = 0) -> records.Transaction:
    """The transaction whose entry is `raw[start:end]`; `offset` is where its record starts in the file.

    For a type that no server up to 3.9 writes, it has the header, and one operation of that type alone.
    Raises JuteError with an offset within `raw`.
    """
    if end - start < HEADER.size:
        raise JuteError(start, f"at least {HEADER.size} bytes of a transaction", str(end - start))
    session, cxid, zxid, time_ms, kind = _HEADER(raw, start)
    at = start + HEADER.size
    operations: tuple[records.Operation, ...] = ()
    timeout_ms = closed_paths = None
    if kind in _BODIES:
        operation, at = _operation(kind, raw, at, end)
        operations = (operation,)
    elif kind == _MULTI:
        operations, at = _multi(raw, at, end)
    elif kind == records.TransactionType.CLOSE_SESSION:
        closed_paths, at = _closed_paths(raw, at, end)
    elif kind == records.TransactionType.CREATE_SESSION:
        timeout_ms, at = int_at(raw, at, end)
    else:
        return records.Transaction(
            zxid, session, cxid, time_ms, kind, (records.Operation(kind),), offset=offset
        )
    digest = None
    if at != end:
        if end - at != DIGEST.size:
            raise JuteError(at, f"the end or a digest of {DIGEST.size} bytes", f"{end - at} bytes")
        digest = records.TreeDigest._make(_DIGEST(raw, at))
    return records.Transaction(
        zxid, session, cxid, time_ms, kind, operations, timeout_ms, closed_paths, digest, offset
    )


def _operation(kind: int, raw: bytes, at: int, end: int) -> tuple[records.Operation, int]:
    values = {}
    for field in _BODIES[kind]:
        if at == end and field is _PARENT_CVERSION and _EPHEMERAL[0] in values:
            break  # in a record from before 3.4 (CreateTxnV0), which has no digest either
        name, read = field
        values[name], at = read(raw, at, end)
    return records.Operation(kind, **values), at


def _closed_paths(raw: bytes, at: int, end: int) -> tuple[tuple[str, ...] | None, int]:
    """The paths in the record of a session's end; None before 3.6 and with closeSessionTxn.enabled=false.

    Twelve bytes that begin with 2 are a digest, for a list of two paths does not fit into them.
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


def _multi(raw: bytes, at: int, end: int) -> tuple[tuple[records.Operation, ...], int]:
    count, at = count_at(raw, at, end, _SMALLEST_TXN)
    operations = []
    for _ in range(count or 0):
        kind, size_at = int_at(raw, at, end)
        size, start = int_at(raw, size_at, end)
        if not 0 <= size <= end - start:
            raise JuteError(size_at, f"a length of at most {end - start}", str(size))
        at = start + size
        if kind not in _BODIES:
            operations.append(records.Operation(kind))
            continue
        operation, stop = _operation(kind, raw, start, at)
        if stop != at:
            if kind != records.TransactionType.ERROR:
                raise JuteError(stop, "the end of the operation", f"{at - stop} bytes more")
            # A leader that applies a refused multi before its own log has it gives the operations before the
            # failed one the type of an error, and leaves their bodies (DataTree.processTxn, Txn.setType).
            operation = records.Operation(kind, error=OVERWRITTEN)
        operations.append(operation)
    return tuple(operations), at


FRAME: Final = struct.Struct(">qi")
"""The Adler-32 of the entry, and its length."""
END_MARK: Final = 0x42
"""The byte `B` behind every entry."""

_KERNEL_VERSION: Final = 3
_SMALLEST: Final = FRAME.size + HEADER.size + 1
ZXID: Final = struct.Struct(">q")
ZXID_AND_TIME: Final = struct.Struct(">qq")
ZXID_AT: Final = FRAME.size + 12
"""The place of the zxid from the start of a record."""


class Oversized(NamedTuple):
    """A record of a log, or a znode of a snapshot, above MAX_LOADED_BYTES."""

    zxid: int
    """The zxid of the record, or the last one that set the znode's data."""
    time_ms: int
    size: int
    """The bytes of the record, or of the znode's data or path."""

    @property
    def text(self) -> str:
        """The text about its size and the servers that load it."""
        return (
            f"{self.zxid:#x} has {self.size:,} bytes: a server loads it only if `jute.maxbuffer` and"
            f" `zookeeper.jute.maxbuffer.extrasize` together are as large (default {MAX_LOADED_BYTES:,})"
        )


class LogChunk(NamedTuple):
    """Whole records that stand in one piece of a log; checksums and end marks hold."""

    data: bytes
    base: int
    """The place of `data[0]` in the plain file."""
    starts: Sequence[int]
    """The places of the records' checksums in `data`; an entry starts FRAME.size further."""
    ends: Sequence[int]
    """The places in `data` where the records' entries end."""

    def zxid(self, number: int) -> int:
        (zxid,) = ZXID.unpack_from(self.data, self.starts[number] + ZXID_AT)
        return int(zxid)

    def oversized(self) -> Iterator[Oversized]:
        """The records that are too large; few chunks are as large as one."""
        if len(self.data) <= MAX_LOADED_BYTES:
            return
        for start, end in zip(self.starts, self.ends, strict=True):
            size = end - start - FRAME.size
            if size > MAX_LOADED_BYTES:
                zxid, time_ms = ZXID_AND_TIME.unpack_from(self.data, start + ZXID_AT)
                yield Oversized(zxid, time_ms, size)


def kernel() -> Any:
    """The compiled kernel; None where it was not built, is from other sources, or is switched off."""
    if os.environ.get("ZKGROUP_KERNEL") == "off":
        return None
    try:
        from zkgroup.zkfiles import kernel as compiled
    except ImportError:
        return None
    return compiled if getattr(compiled, "VERSION", 1) == _KERNEL_VERSION else None


def find(data: bytes, at: int) -> tuple[Sequence[int], Sequence[int], int]:
    """The whole records from a place of a buffer on: their starts, and the ends of their entries.

    The last number is that of bytes from the next one on that would show if there is another; 0 for none.
    """
    compiled = kernel()
    if compiled is None:
        return whole_records(data, at)
    most = max(len(data) - at, 0) // _SMALLEST + 1
    starts, ends = (memoryview(bytearray(ZXID.size * most)).cast("q") for _ in range(2))
    count, needed = compiled.find(data, at, starts, ends)
    return starts[:count], ends[:count], needed


def whole_records(data: bytes, at: int) -> tuple[list[int], list[int], int]:
    """`find` in plain Python, length by length."""
    size = len(data)
    starts: list[int] = []
    ends: list[int] = []
    while size - at >= FRAME.size:
        checksum, length = FRAME.unpack_from(data, at)
        if not HEADER.size <= length <= MAX_RECORD_BYTES:
            return starts, ends, 0
        end = at + FRAME.size + length
        if end >= size:
            return starts, ends, FRAME.size + length + 1
        if data[end] != END_MARK or adler32(data[at + FRAME.size : end]) != checksum:
            return starts, ends, 0
        starts.append(at)
        ends.append(end)
        at = end + 1
    return starts, ends, FRAME.size


class RecordsEnd(NamedTuple):
    """The end of the records of a log."""

    offset: int
    """The place behind the last whole record."""
    is_torn: bool
    """True if a part of one more record follows: it is being written, or a crash cut it off."""


class Damage(NamedTuple):
    """A piece of a log without reliable records."""

    offset: int
    resumed_at: int | None
    """The place of the next whole record; None where there is none."""
    expected: str
    found: str
