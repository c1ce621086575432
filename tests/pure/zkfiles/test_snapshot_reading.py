"""Snapshots of every dialect are read; those that are cut off, damaged or hostile are refused in time."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.worlds import zkfiles_writer as writer
from zkgroup.errors import DamagedFileError, NotZooKeeperFileError
from zkgroup.zkfiles.files import MAX_RECORD_BYTES
from zkgroup.zkfiles.records import AclEntry, StoredStat, StoredZnode, TreeDigest
from zkgroup.zkfiles.snapshots import SnapshotEnd, inspect_snapshot, open_snapshot

ROOT_STAT = StoredStat(0, 0, 0, 0, 0, 2, 0, 0, 16)
STAT = StoredStat(3, 4, 1000, 2000, 5, 6, 7, 0, 16)
TTL = StoredStat(9, 9, 1, 1, 0, 0, 0, -(2**56) + 86_400_000, 9)
CONTAINER = STAT._replace(ephemeral_owner=-(2**63))
ACLS = {1: writer.OPEN_ACL, 5: (AclEntry(1, "digest", "ü:x"), AclEntry(31, "ip", "::1")), 6: ()}
SESSIONS = {2**56 + 3: 6000, -(2**60): 30_000}
ZNODES = [
    StoredZnode("/", b"", writer.OPEN_ACL, ROOT_STAT),
    StoredZnode("/a", None, ACLS[5], STAT._replace(ephemeral_owner=2**56 + 3)),
    StoredZnode("/a/b", b"\0\0\0\x01/", (), CONTAINER),
    StoredZnode("/zürich", b"x" * 300, ACLS[1], TTL),
]
IDS = {"/a": 5, "/a/b": 6, "/zürich": 1}
DIGEST = TreeDigest(2, 2**64 - 1)


def snapshot(**sections: object) -> bytes:
    """The znodes above with their sessions and ACLs."""
    return writer.snapshot(ZNODES, sessions=SESSIONS, acls=ACLS, acl_ids=IDS, **sections)  # type: ignore[arg-type]


DIALECTS = {
    "3.4, 3.5": (snapshot(), SnapshotEnd()),
    "3.6 to 3.8": (snapshot(digest=(18, DIGEST)), SnapshotEnd(18, DIGEST)),
    "first builds of 3.6": (
        snapshot(digest=(18, TreeDigest(1, 0xFEDCBA9876543210))),
        SnapshotEnd(18, TreeDigest(1, 0xFEDCBA9876543210)),
    ),
    "first builds, short digest": (
        snapshot(digest=(18, TreeDigest(1, 5)), last_zxid=19),
        SnapshotEnd(18, TreeDigest(1, 5), 19),
    ),
    "3.9": (snapshot(digest=(18, DIGEST), last_zxid=19), SnapshotEnd(18, DIGEST, 19)),
    "3.9, digests off": (snapshot(last_zxid=19), SnapshotEnd(last_zxid=19)),
}
WHOLE = DIALECTS["3.9"][0]
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".snappy": lambda plain: writer.snappy_stream(plain, 100),
}


@pytest.mark.parametrize("suffix", PACKED)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_plain_and_packed(dialect: str, suffix: str, tmp_path: Path) -> None:
    """Sessions, ACLs, znodes and the sections behind them; as often as one likes, in any order."""
    raw, end = DIALECTS[dialect]
    path = tmp_path / f"snapshot.10{suffix}"
    path.write_bytes(PACKED[suffix](raw))
    reader = open_snapshot(path)
    assert reader.zxid == 0x10
    assert reader.sessions == SESSIONS
    assert reader.acls == {-1: writer.OPEN_ACL, **ACLS}
    assert list(reader.znodes()) == ZNODES
    assert list(reader.znodes()) == ZNODES
    assert reader.end == end
    assert open_snapshot(path).end == end
    health = inspect_snapshot(path)
    assert (health.is_healthy, health.records, health.first_zxid) == (True, 4, 0x10)
    assert health.good_until_zxid == 0x10
    assert health.last_zxid == (open_snapshot(path).end_zxid or 16)


@pytest.mark.parametrize(
    ("began", "end", "expected"),
    [
        (16, SnapshotEnd(), None),
        (16, SnapshotEnd(18, DIGEST), 18),
        (16, SnapshotEnd(18, DIGEST, 19), 19),
        (16, SnapshotEnd(last_zxid=19), 19),
        (2 << 32, SnapshotEnd(1 << 32 | 5, DIGEST), 2 << 32),
        (2 << 32, SnapshotEnd(0, DIGEST), None),
        (2 << 32, SnapshotEnd(0, DIGEST, 2 << 32), 2 << 32),
        (0, SnapshotEnd(0, DIGEST), 0),
        (0, SnapshotEnd(last_zxid=0), 0),
        (None, SnapshotEnd(0, DIGEST), None),
        (None, SnapshotEnd(18, DIGEST), 18),
    ],
)
def test_a_digest_of_no_transaction_does_not_say_when_the_dump_ended(
    began: int | None, end: SnapshotEnd, expected: int | None
) -> None:
    """Else a leader that has applied nothing yet would be said to have dumped an empty tree, at zxid 0."""
    assert end.window_end(began) == expected


def test_exact_is_a_snapshot_during_which_nothing_was_written(tmp_path: Path) -> None:
    """It ends where it began; of one that does not say, nobody knows."""
    path = tmp_path / "snapshot.10"
    for raw, is_exact, words in (
        (snapshot(digest=(16, DIGEST)), True, ""),
        (snapshot(digest=(16, DIGEST), last_zxid=17), False, "from 0x10 to 0x11"),
        (snapshot(), False, "does not say at which zxid it was complete"),
    ):
        path.write_bytes(raw)
        health = inspect_snapshot(path)
        assert (health.is_exact, words in health.detail) == (is_exact, True)
        assert bool(health.detail) == bool(words)


def test_an_acl_that_the_table_lacks_is_reported_and_reading_continues(tmp_path: Path) -> None:
    """ZOOKEEPER-4689: a server's own defect after a dump under load."""
    path = tmp_path / "snapshot.10"
    path.write_bytes(writer.snapshot(ZNODES, acls=ACLS, acl_ids={"/a": 77}))
    assert [each.acl for each in open_snapshot(path).znodes()][1] is None
    health = inspect_snapshot(path)
    assert health.is_healthy
    assert "1 znodes whose ACL" in health.detail


def test_znodes_and_lists_larger_than_a_piece_of_the_file(tmp_path: Path) -> None:
    """They are put together from as many pieces as it takes."""
    acls = {1: tuple(AclEntry(1, "ip", f"10.0.0.{number}") for number in range(30_000))}
    znodes = [
        StoredZnode(f"/{size}", bytes([size % 251]) * size, acls[1], STAT)
        for size in (0, 1, 262_144, 262_000, 1_500_000, 3)
    ]
    path = tmp_path / "snapshot.10"
    path.write_bytes(writer.snapshot(znodes, acls=acls, acl_ids={each.path: 1 for each in znodes}))
    assert list(open_snapshot(path).znodes()) == znodes


@pytest.mark.parametrize("dialect", DIALECTS)
def test_cut_off_at_every_byte(dialect: str, tmp_path: Path) -> None:
    """A copy of one that was being written. A shorter dialect may end where a longer one goes on."""
    raw, _ = DIALECTS[dialect]
    shorter = {len(DIALECTS["3.4, 3.5"][0])}
    if dialect == "3.9":
        shorter.add(len(DIALECTS["3.6 to 3.8"][0]))
    if dialect == "first builds, short digest":
        shorter.add(len(snapshot(digest=(18, TreeDigest(1, 5)))))
    path = tmp_path / "snapshot.10"
    for cut in sorted({*range(0, len(raw) - 120, 11), *range(len(raw) - 120, len(raw))} - shorter):
        path.write_bytes(raw[:cut])
        with pytest.raises(DamagedFileError) as caught:
            list(open_snapshot(path).znodes())
        assert caught.value.offset <= cut
        health = inspect_snapshot(path)
        assert (health.is_healthy, health.good_until_zxid) == (False, None), cut
        assert health.detail


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_flipped_bit_is_damage(dialect: str, tmp_path: Path) -> None:
    """In the header's first numbers it is none of ZooKeeper's any more; all bytes are under a seal."""
    raw, _ = DIALECTS[dialect]
    path = tmp_path / "snapshot.10"
    for bit in range(0, 8 * len(raw), 43):
        damaged = bytearray(raw)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises((DamagedFileError, NotZooKeeperFileError)) as caught:
            list(open_snapshot(path).znodes())
        assert isinstance(caught.value, NotZooKeeperFileError) == (bit // 8 < 8), bit
        assert not inspect_snapshot(path).is_healthy


def test_more_behind_the_end_is_damage(tmp_path: Path) -> None:
    """Whatever it is: no section is that long."""
    path = tmp_path / "snapshot.10"
    for raw, _ in DIALECTS.values():
        for more in (b"\0", bytes(13), bytes(5000)):
            path.write_bytes(raw + more)
            with pytest.raises(DamagedFileError):
                list(open_snapshot(path).znodes())


FRONT = writer.SNAPSHOT_HEADER


@pytest.mark.parametrize(
    "front",
    [
        FRONT,
        FRONT + struct.pack(">i", 0),
        FRONT + struct.pack(">iiq", 0, 1, 1),
        FRONT + struct.pack(">iiqii", 0, 1, 1, 1, 31),
        FRONT + struct.pack(">ii", 0, 0),
        FRONT + struct.pack(">ii", 0, 0) + writer.text("/a"),
    ],
    ids=["sessions", "acls", "acl", "scheme", "path", "data"],
)
@pytest.mark.parametrize("suffix", PACKED)
def test_hostile_lengths(front: bytes, suffix: str, tmp_path: Path) -> None:
    """Null is allowed for data and for a list of ACLs. Nothing is made before its bytes are there."""
    path = tmp_path / f"snapshot.10{suffix}"
    for number in (-1, -(2**31), 2**31 - 1, MAX_RECORD_BYTES, 1000):
        path.write_bytes(PACKED[suffix](front + struct.pack(">i", number) + bytes(500)))
        _refused_in_little_memory(path, len(front) + 504)


def _refused_in_little_memory(path: Path, most: int) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DamagedFileError) as caught:
            list(open_snapshot(path).znodes())
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert caught.value.offset <= most


@pytest.mark.parametrize(
    ("path", "words"), [(b"a", "path"), (b"\xff", "path"), (b"\0", "path"), (b"/\xff", "a path in UTF-8")]
)
def test_paths_that_no_znode_has(path: bytes, words: str, tmp_path: Path) -> None:
    """A path is empty, for the root, or absolute, and text."""
    raw = FRONT + struct.pack(">ii", 0, 0) + writer.buffer(path) + writer.buffer(b"") + bytes(68)
    file = tmp_path / "snapshot.10"
    file.write_bytes(writer.sealed(raw + writer.text("/")))
    with pytest.raises(DamagedFileError, match=words) as caught:
        list(open_snapshot(file).znodes())
    assert caught.value.offset >= len(FRONT) + 8


@pytest.mark.parametrize("suffix", PACKED)
def test_zeros_are_no_znodes(suffix: str, tmp_path: Path) -> None:
    """A lost page, or a sparse file of any size, would be the root over and over."""
    raw = FRONT + struct.pack(">ii", 0, 0) + bytes(400_000)
    file = tmp_path / f"snapshot.10{suffix}"
    file.write_bytes(PACKED[suffix](raw))
    with pytest.raises(DamagedFileError, match="the root again") as caught:
        list(open_snapshot(file).znodes())
    assert caught.value.offset == len(FRONT) + 8 + 4 + 4 + 68


def test_memory_does_not_grow_with_the_znodes(tmp_path: Path) -> None:
    """One buffer of the file is in memory, and a znode."""
    znodes = [StoredZnode(f"/{number}", b"x" * 1000, writer.OPEN_ACL, STAT) for number in range(4000)]
    path = tmp_path / "snapshot.10.gz"
    path.write_bytes(gzip.compress(writer.snapshot(znodes)))
    tracemalloc.start()
    try:
        assert sum(1 for _ in open_snapshot(path).znodes()) == 4000
        assert tracemalloc.get_traced_memory()[1] < 3 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("raw", [b"", b"ZK", writer.SNAPSHOT_HEADER[:10]])
def test_one_that_has_just_begun_is_not_whole(raw: bytes, tmp_path: Path) -> None:
    """Its name says nothing: a server writes it in place."""
    path = tmp_path / "snapshot.10"
    path.write_bytes(raw)
    with pytest.raises(DamagedFileError, match="being written, or was cut off"):
        list(open_snapshot(path).znodes())


def test_other_files_are_refused(tmp_path: Path) -> None:
    """By reading with an error; by inspection as damage where the name is a snapshot's."""
    path = tmp_path / "snapshot.10"
    path.write_bytes(writer.log([]))
    with pytest.raises(NotZooKeeperFileError, match="starts with"):
        open_snapshot(path).sessions  # noqa: B018 - it reads
    assert not inspect_snapshot(path).is_healthy
    path.write_bytes(b"ZKSN" + struct.pack(">iq", 3, -1))
    with pytest.raises(NotZooKeeperFileError, match="format version 2"):
        list(open_snapshot(path).znodes())
    other = tmp_path / "other"
    other.write_bytes(b"something else")
    with pytest.raises(NotZooKeeperFileError, match=r"snapshot\.ZXID"):
        open_snapshot(other)
    with pytest.raises(NotZooKeeperFileError):
        inspect_snapshot(other)


def test_a_copy_under_another_name(tmp_path: Path) -> None:
    """It has no zxid of its own, so one is given; inspection can do without."""
    path = tmp_path / "copy"
    path.write_bytes(WHOLE)
    assert open_snapshot(path, zxid=16).zxid == 16
    health = inspect_snapshot(path)
    assert (health.is_healthy, health.first_zxid, health.last_zxid) == (True, None, 19)
    assert not health.is_exact
