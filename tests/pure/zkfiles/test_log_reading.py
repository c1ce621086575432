"""Every kind of record and every dialect of a transaction log is read as it was written, byte by byte."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest

from tests.worlds import zkfiles_writer as writer
from tests.worlds.zkfiles_tables import values_of
from zkgroup.errors import DamagedFileError, NotZooKeeperFileError
from zkgroup.zkfiles.columns import log_columns
from zkgroup.zkfiles.jute import RecordsEnd
from zkgroup.zkfiles.logs import LogReader, inspect_log
from zkgroup.zkfiles.records import AclEntry, Operation, Transaction, TransactionType, TreeDigest

T = TransactionType
OPEN = writer.OPEN_ACL
TWO = (AclEntry(31, "digest", "grüße:x="), AclEntry(1, "ip", "10.0.0.0/8"))
DIGEST = TreeDigest(2, 2**64 - 3)
KINDS = {
    "create": (T.CREATE, Operation(T.CREATE, "/a", b"x", OPEN, parent_cversion=7)),
    "ephemeral": (T.CREATE, Operation(T.CREATE, "/a", b"x", TWO, is_ephemeral=True, parent_cversion=1)),
    "empty data": (T.CREATE2, Operation(T.CREATE2, "/a", b"", OPEN, parent_cversion=-1)),
    "null data": (T.CREATE, Operation(T.CREATE, "/a", None, (), parent_cversion=0)),
    "null acl": (T.CREATE, Operation(T.CREATE, "/a", None, None, parent_cversion=0)),
    "beyond ascii": (T.CREATE, Operation(T.CREATE, "/zürich/日本/\x7f", b"\xff\0", OPEN, parent_cversion=2)),
    "container": (T.CREATE_CONTAINER, Operation(T.CREATE_CONTAINER, "/c", b"", OPEN, parent_cversion=3)),
    "ttl": (T.CREATE_TTL, Operation(T.CREATE_TTL, "/t", b"1", OPEN, parent_cversion=3, ttl_ms=86_400_000)),
    "delete": (T.DELETE, Operation(T.DELETE, "/a")),
    "delete container": (T.DELETE_CONTAINER, Operation(T.DELETE_CONTAINER, "/c")),
    "set": (T.SET_DATA, Operation(T.SET_DATA, "/a", b"y", version=4)),
    "set of null": (T.SET_DATA, Operation(T.SET_DATA, "/", None, version=0)),
    "reconfig": (T.RECONFIG, Operation(T.RECONFIG, "/zookeeper/config", b"server.1=h:1:2", version=-1)),
    "set acl": (T.SET_ACL, Operation(T.SET_ACL, "/a", acl=TWO, version=2)),
    "error": (T.ERROR, Operation(T.ERROR, error=-110)),
}
FAILED = (
    Operation(T.CHECK, "/a", version=3),
    Operation(T.CREATE, "/b", b"", OPEN, parent_cversion=9),
    Operation(T.ERROR, error=-110),
    Operation(T.ERROR, error=-2),
)


def transaction(kind: int, *operations: Operation, zxid: int = 5, **fields: object) -> Transaction:
    """One of a session, at 1,000 ms."""
    return Transaction(zxid, -(2**60), 17, 1000, kind, operations)._replace(**fields)  # type: ignore[arg-type]


def read(path: Path) -> list[Transaction]:
    """What is read, without where it stood."""
    return [each._replace(offset=0) for each in LogReader(path)]


@pytest.mark.parametrize("digest", [None, DIGEST], ids=["no digest", "digest"])
@pytest.mark.parametrize("name", KINDS)
def test_each_kind_with_and_without_a_digest(name: str, digest: TreeDigest | None, tmp_path: Path) -> None:
    """A failed request has no digest even where the others have."""
    kind, operation = KINDS[name]
    written = transaction(kind, operation, digest=None if kind == T.ERROR else digest)
    assert read(writer.write_log(tmp_path, [written])) == [written]


@pytest.mark.parametrize("digest", [None, DIGEST], ids=["no digest", "digest"])
@pytest.mark.parametrize(
    "operations",
    [(), FAILED, tuple(operation for _, operation in KINDS.values())],
    ids=["empty", "failed", "every kind"],
)
def test_multis(operations: tuple[Operation, ...], digest: TreeDigest | None, tmp_path: Path) -> None:
    """Of a failed one the operations before the one that failed are there, and its code; none was applied."""
    written = transaction(T.MULTI, *operations, digest=digest)
    (found,) = read(writer.write_log(tmp_path, [written]))
    assert found == written
    assert found.is_applied == all(each.type != T.ERROR for each in operations)


def test_a_leaders_refused_multi_whose_first_operations_were_overwritten(tmp_path: Path) -> None:
    """So a real leader of 3.9.4 wrote it: it applied the multi, which names them errors, then logged it."""
    change = Operation(T.SET_DATA, "/held", b"multi", version=1)
    written = transaction(T.MULTI, change, Operation(T.ERROR, error=-110), digest=DIGEST)
    raw = writer.entry(written)
    kind = T.SET_DATA.to_bytes(4, "big")
    assert raw.count(kind + len(writer.body(change)).to_bytes(4, "big")) == 1
    relabelled = raw.replace(
        kind + len(writer.body(change)).to_bytes(4, "big"),
        (-1).to_bytes(4, "big", signed=True) + len(writer.body(change)).to_bytes(4, "big"),
    )
    path = tmp_path / "log.5"
    path.write_bytes(writer.LOG_HEADER + writer.record(relabelled))
    (found,) = read(path)
    errors = (Operation(T.ERROR, error=0), Operation(T.ERROR, error=-110))
    assert (found.operations, found.digest, found.is_applied) == (errors, DIGEST, False)
    assert [list(values_of(batch, "error")) for batch in log_columns(path)] == [[0, -110]]


@pytest.mark.parametrize("digest", [None, DIGEST], ids=["no digest", "digest"])
@pytest.mark.parametrize("paths", [None, (), ("/abc",), ("/a", "/ü")], ids=["none", "0", "1", "2"])
def test_closed_sessions(paths: tuple[str, ...] | None, digest: TreeDigest | None, tmp_path: Path) -> None:
    """A list is told from its absence by length alone; `/abc` makes one as long as a digest."""
    written = transaction(T.CLOSE_SESSION, closed_paths=paths, digest=digest)
    assert read(writer.write_log(tmp_path, [written])) == [written]


def test_a_create_from_before_3_4_has_no_version_of_its_parent(tmp_path: Path) -> None:
    """CreateTxnV0 ends behind `ephemeral`; its number is None then, not 0."""
    written = transaction(T.CREATE, Operation(T.CREATE, "/old", b"1", OPEN, is_ephemeral=True))
    assert read(writer.write_log(tmp_path, [written])) == [written]


@pytest.mark.parametrize("operations", [(), (Operation(99),)], ids=["alone", "in a multi"])
def test_a_type_that_no_server_writes_yet_is_kept_by_its_number(
    operations: tuple[Operation, ...], tmp_path: Path
) -> None:
    """A later release's records do not stop the reading of the others."""
    kind = T.MULTI if operations else 99
    path = writer.write_log(tmp_path, [transaction(kind, *operations), transaction(*KINDS["delete"], zxid=6)])
    first, second = read(path)
    assert (first.operations, second.zxid) == ((Operation(99),), 6)


def test_a_multi_inside_a_multi_is_not_opened(tmp_path: Path) -> None:
    """No server writes one, and nobody can have the reader call itself without end."""
    path = writer.write_log(tmp_path, [transaction(T.MULTI, Operation(T.MULTI))])
    (found,) = read(path)
    assert found.operations == (Operation(T.MULTI),)


def test_characters_beyond_16_bits_are_put_together(tmp_path: Path) -> None:
    """BinaryOutputArchive writes them as two surrogates of three bytes; a path has none, an ACL's id may."""
    odd = (AclEntry(31, "sasl", "\U0001f600@realm"),)
    path = writer.write_log(
        tmp_path, [transaction(T.SET_ACL, Operation(T.SET_ACL, "/a", acl=odd, version=1))]
    )
    assert b"\xed\xa0\xbd\xed\xb8\x80@realm" in path.read_bytes()
    (found,) = read(path)
    assert found.operations[0].acl == odd


@pytest.mark.parametrize("padding", [0, 1, 11, 12, 13, 4096, 70_000, 600_000])
def test_zeros_behind_the_records_are_the_end(padding: int, tmp_path: Path) -> None:
    """However many there are, none at all included, and wherever a piece of the file ends."""
    written = [transaction(T.DELETE, Operation(T.DELETE, "/a"), zxid=zxid) for zxid in range(1, 4)]
    path = writer.write_log(tmp_path, written, padding)
    reader = LogReader(path)
    assert [each.zxid for each in reader] == [1, 2, 3]
    assert reader.end == RecordsEnd(path.stat().st_size - padding, is_torn=False)
    health = inspect_log(path)
    assert (health.is_healthy, health.is_exact, health.detail) == (True, True, "")
    assert (health.first_zxid, health.last_zxid, health.good_until_zxid, health.records) == (1, 3, 3, 3)


@pytest.mark.parametrize("front", [b"", b"Z", b"ZKLG", writer.LOG_HEADER[:15], bytes(5), bytes(4096)])
def test_a_log_whose_server_was_stopped_before_the_first_record(front: bytes, tmp_path: Path) -> None:
    """No bytes, zeros, or a part of the header: no records, and no error."""
    path = tmp_path / "log.1"
    path.write_bytes(front)
    assert read(path) == []
    health = inspect_log(path)
    assert (health.is_healthy, health.records, health.first_zxid) == (True, 0, None)
    assert health.detail


def test_a_log_with_a_header_alone(tmp_path: Path) -> None:
    """It is healthy, and said to have no record."""
    path = tmp_path / "log.1"
    path.write_bytes(writer.log([], padding=64))
    assert inspect_log(path).detail == "no record"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"PK\x03\x04 not a log", "which starts with"),
        (writer.snapshot([]), "which starts with"),
        (b"ZKLG" + struct.pack(">iq", 3, 0), "format version 2"),
        (b"text", "which starts with"),
    ],
)
def test_other_files_are_refused(raw: bytes, expected: str, tmp_path: Path) -> None:
    """By reading with an error that names the file; by inspection as damage where its name is a log's."""
    path = tmp_path / "log.1"
    path.write_bytes(raw)
    with pytest.raises(NotZooKeeperFileError, match=expected) as caught:
        list(LogReader(path))
    assert str(path) in str(caught.value)
    health = inspect_log(path)
    assert (health.is_healthy, health.good_until_zxid) == (False, None)
    assert health.detail.startswith("byte 0: ")
    other = path.rename(tmp_path / "other.bin")
    with pytest.raises(NotZooKeeperFileError):
        inspect_log(other)


def test_reading_a_part(tmp_path: Path) -> None:
    """Parts by offsets; what starts at the end is not in it."""
    written = [transaction(T.DELETE, Operation(T.DELETE, f"/{zxid}"), zxid=zxid) for zxid in range(1, 9)]
    path = writer.write_log(tmp_path, written, 100)
    packed = tmp_path / "packed.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    offsets = [each.offset for each in LogReader(path)]
    for file in (path, packed):
        part = LogReader(file, from_offset=offsets[2], to_offset=offsets[5])
        assert [each.zxid for each in part] == [3, 4, 5]
        assert [each.zxid for each in LogReader(file, from_offset=offsets[-1])] == [8]
        assert list(LogReader(file, from_offset=offsets[1], to_offset=offsets[1])) == []


def test_records_larger_than_a_piece_of_the_file(tmp_path: Path) -> None:
    """They are put together from as many pieces as it takes."""
    sizes = (1, 300_000, 5, 1_500_000, 262_144, 7)
    written = [
        transaction(T.SET_DATA, Operation(T.SET_DATA, "/a", bytes([zxid]) * size, version=1), zxid=zxid)
        for zxid, size in enumerate(sizes, 1)
    ]
    assert read(writer.write_log(tmp_path, written, 10)) == written


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (struct.pack(">i", 9), "a length of at most"),
        (struct.pack(">i", -2), "a length of at most"),
        (struct.pack(">i", -1), "a text"),
        (writer.buffer(b"\xff"), "UTF-8"),
        (writer.text("/a") + b"123", "a digest"),
        (b"1", "4 bytes"),
    ],
)
def test_a_body_that_no_server_writes_is_damage_though_its_checksum_holds(
    raw: bytes, expected: str, tmp_path: Path
) -> None:
    """What stands behind it is read when that is asked for."""
    odd = writer.record(struct.pack(">qiqqi", 1, 1, 2, 1, T.DELETE) + raw)
    good = [transaction(T.DELETE, Operation(T.DELETE, "/a"), zxid=zxid) for zxid in (1, 3)]
    first, last = (writer.record(writer.entry(each)) for each in good)
    path = tmp_path / "log.1"
    path.write_bytes(writer.LOG_HEADER + first + odd + last)
    with pytest.raises(DamagedFileError, match=expected) as caught:
        list(LogReader(path))
    start = len(writer.LOG_HEADER) + len(first)
    assert start <= caught.value.offset < start + len(odd)
    assert [each.zxid for each in LogReader(path, resync=True)] == [1, 3]
    health = inspect_log(path)
    assert (health.is_healthy, health.good_until_zxid, health.last_zxid) == (False, 1, 3)
    assert health.detail.startswith(f"byte {start}: ")


@pytest.mark.parametrize("count", [-2, 2**31 - 1, 1000])
def test_vectors_longer_than_the_record_are_refused_before_they_are_made(count: int, tmp_path: Path) -> None:
    """Their count is compared with the bytes that are left."""
    for kind, front in ((T.MULTI, b""), (T.SET_ACL, writer.text("/a")), (T.CLOSE_SESSION, b"")):
        raw = struct.pack(">qiqqi", 1, 1, 2, 1, kind) + front + struct.pack(">i", count) + bytes(20)
        path = tmp_path / "log.2"
        path.write_bytes(writer.LOG_HEADER + writer.record(raw))
        with pytest.raises(DamagedFileError, match="items"):
            list(LogReader(path))


def test_a_wrong_name_or_order_of_records_is_reported(tmp_path: Path) -> None:
    """Neither is damage, for the records are whole, but somebody should know."""
    written = [transaction(T.DELETE, Operation(T.DELETE, "/a"), zxid=zxid) for zxid in (5, 7, 6)]
    path = writer.write_log(tmp_path, written).rename(tmp_path / "log.4")
    health = inspect_log(path)
    assert health.is_healthy
    assert "0x6 behind 0x7" in health.detail
    assert "the name says 0x4" in health.detail
