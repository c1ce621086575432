"""Writes snapshots and logs byte by byte as ZooKeeper's sources specify, also those that no server writes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from zlib import adler32

from zkgroup.zkfiles.records import (
    Acl,
    AclEntry,
    Operation,
    StoredZnode,
    Transaction,
    TransactionType,
    TreeDigest,
)

LOG_HEADER = b"ZKLG" + struct.pack(">iq", 2, 0)
SNAPSHOT_HEADER = b"ZKSN" + struct.pack(">iq", 2, -1)
OPEN_ACL: Acl = (AclEntry(31, "world", "anyone"),)


def buffer(value: bytes | None) -> bytes:
    """A jute buffer."""
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value


def text(value: str) -> bytes:
    """A jute ustring, as BinaryOutputArchive writes it: a character beyond 16 bits as two surrogates."""
    raw = b"".join(
        character.encode()
        if ord(character) < 0x10000
        else b"".join(
            chr(half).encode("utf-8", "surrogatepass")
            for half in struct.unpack(">HH", character.encode("utf-16-be"))
        )
        for character in value
    )
    return buffer(raw)


def acl_list(acl: Acl | None) -> bytes:
    """A vector of ACL."""
    if acl is None:
        return struct.pack(">i", -1)
    return struct.pack(">i", len(acl)) + b"".join(
        struct.pack(">i", each.perms) + text(each.scheme) + text(each.id) for each in acl
    )


def body(operation: Operation) -> bytes:
    """An operation; a create without `parent_cversion` is in the format before 3.4."""
    kind, path = operation.type, text(operation.path or "")
    if kind in (TransactionType.CREATE, TransactionType.CREATE2):
        front = path + buffer(operation.data) + acl_list(operation.acl)
        version = b"" if operation.parent_cversion is None else struct.pack(">i", operation.parent_cversion)
        return front + struct.pack(">?", operation.is_ephemeral) + version
    if kind in (TransactionType.CREATE_CONTAINER, TransactionType.CREATE_TTL):
        ttl = b"" if operation.ttl_ms is None else struct.pack(">q", operation.ttl_ms)
        version = struct.pack(">i", operation.parent_cversion)
        return path + buffer(operation.data) + acl_list(operation.acl) + version + ttl
    if kind in (TransactionType.SET_DATA, TransactionType.RECONFIG):
        return path + buffer(operation.data) + struct.pack(">i", operation.version)
    if kind == TransactionType.SET_ACL:
        return path + acl_list(operation.acl) + struct.pack(">i", operation.version)
    if kind == TransactionType.CHECK:
        return path + struct.pack(">i", operation.version)
    if kind == TransactionType.ERROR:
        return struct.pack(">i", operation.error)
    if kind in (TransactionType.DELETE, TransactionType.DELETE_CONTAINER):
        return path
    return b""


def entry(transaction: Transaction) -> bytes:
    """TxnHeader, body, digest."""
    head = struct.pack(
        ">qiqqi",
        transaction.session,
        transaction.cxid,
        transaction.zxid,
        transaction.time_ms,
        transaction.type,
    )
    if transaction.type == TransactionType.MULTI:
        inner = [(each.type, body(each)) for each in transaction.operations]
        head += struct.pack(">i", len(inner)) + b"".join(
            struct.pack(">i", kind) + buffer(raw) for kind, raw in inner
        )
    elif transaction.type == TransactionType.CREATE_SESSION:
        head += struct.pack(">i", transaction.timeout_ms)
    elif transaction.type == TransactionType.CLOSE_SESSION:
        if transaction.closed_paths is not None:
            paths = transaction.closed_paths
            head += struct.pack(">i", len(paths)) + b"".join(text(path) for path in paths)
    else:
        head += b"".join(body(each) for each in transaction.operations)
    return head if transaction.digest is None else head + struct.pack(">iQ", *transaction.digest)


def record(raw: bytes) -> bytes:
    """An entry with its checksum, length and end mark."""
    return struct.pack(">qi", adler32(raw), len(raw)) + raw + b"B"


def log(transactions: Iterable[Transaction], padding: int = 0) -> bytes:
    """A whole log, with this many zeros behind its records."""
    return LOG_HEADER + b"".join(record(entry(each)) for each in transactions) + bytes(padding)


def write_log(folder: Path, transactions: Sequence[Transaction], padding: int = 0) -> Path:
    """Writes the log under the name that a server would give it."""
    first = transactions[0].zxid if transactions else 0
    path = folder / f"log.{first:x}"
    path.write_bytes(log(transactions, padding))
    return path


def snapshot(
    znodes: Iterable[StoredZnode],
    *,
    sessions: Mapping[int, int] | None = None,
    acls: Mapping[int, Acl] | None = None,
    acl_ids: Mapping[str, int] | None = None,
    digest: tuple[int, TreeDigest] | None = None,
    last_zxid: int | None = None,
) -> bytes:
    """A whole snapshot. `acl_ids` by path, -1 otherwise; `digest` with the zxid of its computation."""
    raw = SNAPSHOT_HEADER + struct.pack(">i", len(sessions or {}))
    raw += b"".join(struct.pack(">qi", *each) for each in (sessions or {}).items())
    raw += struct.pack(">i", len(acls or {}))
    raw += b"".join(struct.pack(">q", number) + acl_list(acl) for number, acl in (acls or {}).items())
    raw += b"".join(
        text("" if each.path == "/" else each.path)
        + buffer(each.data)
        + struct.pack(">qqqqqiiiqq", (acl_ids or {}).get(each.path, -1), *each.stat)
        for each in znodes
    )
    raw = sealed(raw + text("/"))
    if digest is not None:
        zxid, (version, value) = digest
        front = struct.pack(">qi", zxid, version)
        raw = sealed(raw + front + (text(f"{value:x}") if version < 2 else struct.pack(">Q", value)))
    return raw if last_zxid is None else sealed(raw + struct.pack(">q", last_zxid))


def sealed(raw: bytes) -> bytes:
    """The bytes with the checksum of all of them behind."""
    return raw + struct.pack(">q", adler32(raw)) + text("/")


def snappy_stream(plain: bytes, block_bytes: int = 32 * 1024) -> bytes:
    """The JVM library's snappy stream, in blocks of literals alone."""
    blocks = [plain[at : at + block_bytes] for at in range(0, len(plain), block_bytes)]
    packed = [snappy_literals(block) for block in blocks]
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + b"".join(buffer(block) for block in packed)


def snappy_literals(plain: bytes) -> bytes:
    """A raw snappy block that repeats nothing."""
    raw = varint(len(plain))
    for at in range(0, len(plain), 1 << 16):
        piece = plain[at : at + (1 << 16)]
        raw += bytes([61 << 2]) + struct.pack("<H", len(piece) - 1) + piece
    return raw


def varint(value: int) -> bytes:
    """A varint: seven bits in each byte, the lowest first."""
    raw = b""
    while value > 0x7F:
        raw += bytes([value & 0x7F | 0x80])
        value >>= 7
    return raw + bytes([value])
