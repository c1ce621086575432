"""The columns of a snapshot hold what its znodes do."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.pure.zkfiles.test_golden_files import SNAPSHOTS
from tests.worlds import zkfiles_writer as writer
from tests.worlds.zkfiles_tables import Row, outcome, rows_of, snapshot_rows, values_of
from zkgroup.zkfiles.arrow import SNAPSHOT
from zkgroup.zkfiles.records import AclEntry, StoredStat, StoredZnode
from zkgroup.zkfiles.snapshots import open_snapshot
from zkgroup.zkfiles.znode_columns import snapshot_columns

TTL = -(2**56) + 5000
OWNERS = {"/": 0, "/a": -(2**63), "/a/b": TTL, "/a/é": 0x1000_0001_0000_0001, "/a/b/c": -(2**60)}
BY_DIGEST = (AclEntry(31, "digest", "admin:x="),)


def expected(path: Path) -> list[Row]:
    reader = open_snapshot(path)
    znodes = list(reader.znodes())
    return list(snapshot_rows(znodes, path, reader.zxid, reader.end_zxid))


def znodes() -> list[StoredZnode]:
    return [
        StoredZnode(
            path, None if path == "/a" else b"x" * number, None, StoredStat(1, 2, 3, 4, 5, 6, 7, owner, 8)
        )
        for number, (path, owner) in enumerate(OWNERS.items())
    ]


def written(folder: Path, *, old: bool = False, version: int = 2) -> Path:
    """With an ACL from the table, and one that the table lacks."""
    path = folder / "snapshot.5"
    numbers = {"/a": 1, "/a/b": 2}
    digest = None if old else (9, writer.TreeDigest(version, 77))
    raw = writer.snapshot(
        znodes(), acls={1: BY_DIGEST}, acl_ids=numbers, digest=digest, last_zxid=None if old else 11
    )
    path.write_bytes(raw)
    return path


def test_snapshots_of_real_servers() -> None:
    """All columns of all znodes."""
    for path in SNAPSHOTS:
        assert rows_of(snapshot_columns(path)) == expected(path), path


@pytest.mark.parametrize(("old", "version", "end"), [(False, 2, 11), (False, 1, 11), (True, 0, None)])
@pytest.mark.parametrize("is_packed", [False, True])
def test_every_kind_of_znode(
    old: bool, version: int, end: int | None, is_packed: bool, tmp_path: Path
) -> None:
    """The end is told by each dialect, and is in each row."""
    path = written(tmp_path, old=old, version=version)
    if is_packed:
        path.write_bytes(gzip.compress(path.read_bytes()))
    found = rows_of(snapshot_columns(path))
    assert found == expected(path)
    assert [row["kind"] for row in found] == ["persistent", "container", "ttl", "session", "session"]
    assert [row["depth"] for row in found] == [0, 1, 2, 2, 3]
    assert [row["acl"] for row in found][1:3] == [BY_DIGEST, None]
    assert {row["end_zxid"] for row in found} == {end}
    assert tuple(found[0]) == tuple(column.name for column in SNAPSHOT)


@pytest.mark.parametrize("last_zxid", [None, 5])
@pytest.mark.parametrize("is_packed", [False, True])
def test_the_end_of_a_leader_that_has_applied_nothing(
    last_zxid: int | None, is_packed: bool, tmp_path: Path
) -> None:
    """Its digest is of zxid 0, which is not where the dump ended: 3.9 tells, before it nobody knows."""
    path = tmp_path / "snapshot.5"
    raw = writer.snapshot(znodes(), digest=(0, writer.TreeDigest(2, 0)), last_zxid=last_zxid)
    path.write_bytes(gzip.compress(raw) if is_packed else raw)
    assert {row["end_zxid"] for row in rows_of(snapshot_columns(path))} == {last_zxid}


def test_rows_and_columns_are_chosen(tmp_path: Path) -> None:
    """By a prefix of the path, and by name."""
    path = written(tmp_path)
    whole = rows_of(snapshot_columns(path))
    below = rows_of(snapshot_columns(path, path_prefix="/a/"))
    assert below == [row for row in whole if row["path"].startswith("/a/")]
    assert rows_of(snapshot_columns(path, path_prefix="/")) == whole
    batches = list(snapshot_columns(path, columns=["name", "acl"]))
    assert tuple(batches[0].arrays) == ("name", "acl")
    assert [name for batch in batches for name in values_of(batch, "name")] == ["", "a", "b", "é", "c"]
    with pytest.raises(ValueError, match="no column zxid"):
        snapshot_columns(path, columns=["zxid"])


def test_batches_are_bounded_by_rows(tmp_path: Path) -> None:
    """So memory is, whatever the file's size."""
    path = written(tmp_path)
    assert [batch.rows for batch in snapshot_columns(path, rows_per_batch=3)] == [1, 3, 1]


def test_a_snapshot_that_is_cut_off_at_each_byte(tmp_path: Path) -> None:
    """The znodes before, then the error of the plain reader, if that has one: not behind a seal."""
    path = written(tmp_path)
    raw = path.read_bytes()
    errors = []
    for end in range(len(raw) - 250, len(raw)):
        path.write_bytes(raw[:end])
        znodes_before, error = outcome(open_snapshot(path).znodes)
        batches, found = outcome(lambda: snapshot_columns(path))
        assert [row["path"] for row in rows_of(batches)] == [znode.path for znode in znodes_before]
        assert found == error
        errors.append(error)
    assert errors.count("") == 2
