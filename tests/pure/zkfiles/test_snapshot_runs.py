"""Whatever a snapshot holds, columns and Arrow have what its objects do, and tell the same damage."""

from __future__ import annotations

import gzip
import random
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.programs.benchmarks.zookeeper_files import write_snapshot
from tests.pure.zkfiles.test_arrow_columns import equal_to_lists
from tests.worlds import zkfiles_writer as writer
from tests.worlds.zkfiles_tables import BY_DIGEST, Row, outcome, rows_of, snapshot_rows, values_of
from zkgroup.zkfiles.arrow import SNAPSHOT, Batch
from zkgroup.zkfiles.records import StoredStat, StoredZnode
from zkgroup.zkfiles.snapshots import open_snapshot
from zkgroup.zkfiles.znode_columns import snapshot_columns

SETTINGS = settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
LOOKS_LIKE_A_ZNODE = struct.pack(">i", 2) + b"/a" + struct.pack(">i", -1) + bytes(68)
OWNERS = (0, 0, -(2**63), -(2**56), -(2**56) + 5000, -(2**56) + 2**40, -1, 5, 0x1000_0001_0000_0001)
ROOT = StoredZnode("/", b"", None, StoredStat(*[0] * 9))

INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.one_of(st.integers(-(2**63), 2**63 - 1), st.just(0x2F), st.just(0x1_0000_022F_6100))
MOMENT = st.integers(-(2**50), 2**50)
PLAIN_NAMES = st.sampled_from(["a", "bc", "topic-1", "B"])
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=4)
DATA = st.one_of(
    st.none(),
    st.binary(max_size=20),
    st.sampled_from([LOOKS_LIKE_A_ZNODE, LOOKS_LIKE_A_ZNODE * 3, b"\0\0\0\3/ab", b"\0\0\0\1/"]),
)
STATS = st.builds(
    StoredStat, LONG, LONG, MOMENT, MOMENT, INT, INT, INT, st.one_of(st.sampled_from(OWNERS), LONG), LONG
)
ACLS = {1: BY_DIGEST, 2: (), 7: writer.OPEN_ACL}
ACL_NUMBERS = st.sampled_from([-1, -1, 1, 2, 7, 8])


def snapshots() -> st.SearchStrategy[bytes]:
    """With the root or not; all plain, so that numpy takes them, or with any text in the paths."""

    def of(names: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
        paths = st.lists(names, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
        znodes = st.lists(st.builds(StoredZnode, paths, DATA, st.none(), STATS), max_size=25)
        return st.builds(written, st.booleans(), znodes, st.lists(ACL_NUMBERS, min_size=25, max_size=25))

    return st.one_of(of(PLAIN_NAMES), of(PLAIN_NAMES), of(st.one_of(PLAIN_NAMES, NAMES)))


def written(has_root: bool, znodes: list[StoredZnode], numbers: list[int]) -> bytes:
    acl_ids = {znode.path: number for znode, number in zip(znodes, numbers, strict=False)}
    return writer.snapshot(
        [ROOT, *znodes] if has_root else znodes,
        sessions={5: 6000},
        acls=ACLS,
        acl_ids=acl_ids,
        digest=(9, writer.TreeDigest(2, 77)),
        last_zxid=11,
    )


def kinds() -> bytes:
    """A znode of every kind, all with plain paths, one of which stands right below the root."""
    znodes = [
        StoredZnode(f"/a/b{number}", None if number == 3 else LOOKS_LIKE_A_ZNODE[:number], None, stat)
        for number, stat in enumerate(StoredStat(1, 2, 3, 4, 5, 6, 7, owner, 8) for owner in OWNERS)
    ]
    return written(True, [StoredZnode("/a", b"x", None, ROOT.stat), *znodes], [-1, 1, 2, 7, 8])


def expected_of(path: Path, end: int | None = 11) -> tuple[list[Row], str]:
    """By the plain objects."""
    reader = open_snapshot(path)
    znodes, error = outcome(reader.znodes)
    return list(snapshot_rows(znodes, path, reader.zxid, end)), error


def found_of(path: Path, **choice: Any) -> tuple[list[Batch], str]:
    return outcome(lambda: snapshot_columns(path, **choice))


@given(snapshots(), st.sampled_from([None, "/", "/a", "/bc/"]), st.sampled_from(["plain", "gz", "snappy"]))
@SETTINGS
def test_columns_are_what_the_objects_say(
    tmp_path: Path, raw: bytes, prefix: str | None, packing: str
) -> None:
    """All columns, and a choice of rows, however the file is packed."""
    path = tmp_path / "snapshot.5"
    pack: dict[str, Callable[[bytes], bytes]] = {
        "plain": bytes,
        "gz": gzip.compress,
        "snappy": lambda plain: writer.snappy_stream(plain, 100),
    }
    path.write_bytes(pack[packing](raw))
    expected, error = expected_of(path)
    assert error == ""
    chosen = [row for row in expected if prefix is None or row["path"].startswith(prefix)]
    batches, error = found_of(path)
    assert (rows_of(batches), error) == (expected, "")
    assert equal_to_lists(batches, SNAPSHOT) == len(expected)
    batches, error = found_of(path, path_prefix=prefix, rows_per_batch=3)
    assert (rows_of(batches), error) == (chosen, "")
    assert all(batch.rows <= 3 for batch in batches)


def test_all_but_the_root_goes_through_numpy(tmp_path: Path) -> None:
    """Also where a path is not ASCII; one with surrogates is alone."""
    path = tmp_path / "snapshot.5"
    path.write_bytes(kinds())
    batches, _ = found_of(path)
    assert [batch.rows for batch in batches] == [1, 1 + len(OWNERS)]
    assert set(values_of(batches[1], "kind")) == {"persistent", "session", "container", "ttl"}
    names = ("/a", "/é", "/\U0001f600", "/b")
    path.write_bytes(written(True, [StoredZnode(name, b"", None, ROOT.stat) for name in names], []))
    batches, _ = found_of(path)
    assert rows_of(batches) == expected_of(path)[0]
    assert [batch.rows for batch in batches] == [1, 2, 1, 1]


@pytest.mark.parametrize(("offset", "flip"), [(0, 0x01), (2, 0x80), (5, 0xFF)])
def test_damage_is_reported_with_the_same_text(offset: int, flip: int, tmp_path: Path) -> None:
    """At every second byte: by all ways, after the same rows."""
    path = tmp_path / "snapshot.5"
    whole = kinds()
    start = whole.index(b"\0\0\0\0" + b"\0\0\0\0" + struct.pack(">q", -1), 16)
    messages = set()
    for at in range(start + offset, len(whole) - 100, 6):
        damaged = bytearray(whole)
        damaged[at] ^= flip
        path.write_bytes(damaged)
        expected = expected_of(path)
        messages.add(expected[1])
        batches, error = found_of(path)
        assert (rows_of(batches), error) == expected, at
    assert "" not in messages
    assert len(messages) > 50


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several pieces."""
    return write_snapshot(tmp_path_factory.mktemp("large") / "snapshot.100000001", 20_000)


def test_many_pieces(large: Path) -> None:
    """Each znode once, also those that two pieces share."""
    batches, error = found_of(large)
    assert error == ""
    assert len(batches) >= 3
    assert rows_of(batches) == expected_of(large, end=open_snapshot(large).end_zxid)[0]


def test_memory_does_not_grow_with_the_file(large: Path, tmp_path: Path) -> None:
    """Six times the znodes take no more than a few."""
    larger = write_snapshot(tmp_path / "snapshot.100000001", 120_000)
    _peak(large)  # what is imported counts for neither
    assert _peak(larger) < 1.5 * _peak(large)
    assert _peak(larger) < larger.stat().st_size / 2


def _peak(path: Path) -> int:
    """Bytes that reading takes at most when no batch is kept."""
    tracemalloc.start()
    try:
        assert sum(batch.rows for batch in snapshot_columns(path)) >= 20_000
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("packing", ["gz", "snappy"])
def test_a_packed_file_that_is_damaged(packing: str, large: Path, tmp_path: Path) -> None:
    """What could be unpacked before the damage is given."""
    plain = large.read_bytes()
    packed = gzip.compress(plain, 1) if packing == "gz" else writer.snappy_stream(plain)
    path = tmp_path / large.name
    at = random.Random(1).randrange(len(packed) // 2, len(packed))
    path.write_bytes(packed[:at] + bytes(20) + packed[at + 20 :])
    batches, error = found_of(path, columns=["path", "data"])
    expected, same_error = expected_of(path)
    found = [(row["path"], row["data"]) for row in rows_of(batches)]
    assert (found, error) == ([(row["path"], row["data"]) for row in expected], same_error)
    assert error
    assert len(found) > 5_000


def test_a_path_that_is_no_text_comes_after_the_rows_before_it(tmp_path: Path) -> None:
    """Though they are of one batch; and among rows that are not wanted it is not looked at."""
    znodes = [StoredZnode(f"/a{number}", b"", None, ROOT.stat) for number in range(9)]
    path = tmp_path / "snapshot.5"
    path.write_bytes(written(True, znodes, []).replace(b"/a7", b"/\xff7"))
    batches, error = found_of(path)
    assert [row["path"] for row in rows_of(batches)] == ["/", *(f"/a{number}" for number in range(7))]
    assert "expected a path in UTF-8" in error
    assert (len(rows_of(batches)), error) == (8, expected_of(path)[1])
    batches, error = found_of(path, path_prefix="/a")
    assert len(rows_of(batches)) == 8
    assert "expected the checksum" in error


def test_giants_go_the_plain_way(tmp_path: Path) -> None:
    """A path beyond 65,535 bytes, and data of more than a piece."""
    shape = [("/a", 1), ("/" + "b" * 70_000, 0), ("/c", 3 << 20), ("/d", 2), ("/e", 0)]
    znodes = [StoredZnode(name, b"/" * size, None, ROOT.stat) for name, size in shape]
    path = tmp_path / "snapshot.5"
    path.write_bytes(written(True, znodes, []))
    batches, error = found_of(path)
    assert (rows_of(batches), error) == expected_of(path)
