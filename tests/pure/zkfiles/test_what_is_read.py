"""A tree out of many files costs what is on its way, not what lies in the folder."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.pure.zkfiles.test_snapshot_reading import DIALECTS, PACKED
from tests.worlds import zkfiles_writer as writer
from tests.worlds.server_history import START_MS, STEP_MS, ServerHistory
from tests.worlds.zkfiles_tables import counted_reads, is_right
from zkgroup.zkfiles.files import PIECE_BYTES
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.snapshots import SnapshotEnd, likely_end, open_snapshot

RECORDS, DATA_BYTES = 100, 8_000
"""Of one log: three pieces of a file, as the readers take them."""
LOGS = 6
A_GLIMPSE = 128
"""Bytes at the end of a snapshot, at most."""


@pytest.fixture(scope="module")
def world() -> ServerHistory:
    """One znode that is set again and again."""
    made = ServerHistory()
    made.create("/n", bytes(DATA_BYTES))
    for number in range(LOGS * RECORDS - 1):
        made.set("/n", number.to_bytes(4, "big") * (DATA_BYTES // 4))
    return made


@pytest.fixture
def folder(world: ServerHistory, tmp_path: Path) -> Path:
    """A log of every hundred records, and a snapshot before each but the first."""
    for start in range(1, LOGS * RECORDS, RECORDS):
        world.log(tmp_path, start, start + RECORDS - 1)
        if start > 1:
            world.snapshot(tmp_path, start - 1)
    return tmp_path


def test_the_nearest_snapshot_and_its_log_up_to_the_zxid(folder: Path) -> None:
    """Of six logs one, and of that nothing behind the piece in which the zxid is."""
    with counted_reads() as read:
        account = History(folder).tree_at(zxid=310).account
    assert (account.zxid, account.applied, account.is_exact) == (310, 10, True)
    assert set(read) == {"snapshot.12c", "log.12d"}
    assert read["snapshot.12c"] <= (folder / "snapshot.12c").stat().st_size + A_GLIMPSE
    assert read["log.12d"] <= PIECE_BYTES < (folder / "log.12d").stat().st_size


def test_a_snapshot_that_is_asked_for_reads_the_time_of_its_last_record(folder: Path) -> None:
    """Of no other log anything."""
    with counted_reads() as read:
        account = History(folder).tree_at(zxid=400).account
    assert (account.snapshot_zxid, account.applied, account.is_exact) == (400, 0, True)
    assert set(read) == {"snapshot.190", "log.12d"}


@pytest.mark.parametrize("tells", [True, False])
def test_a_snapshot_that_would_not_do_is_not_read(tells: bool, world: ServerHistory, folder: Path) -> None:
    """Its last bytes say that its window is not over, or that it does not say: an older one is exact."""
    path = world.snapshot(folder, 550, until=570, tells=tells)
    with counted_reads() as read:
        account = History(folder).tree_at(zxid=560).account
    assert (account.snapshot_zxid, account.is_exact, len(account.skipped)) == (500, True, 1)
    assert str(path) in account.skipped[0]
    assert read["snapshot.1f4"] > DATA_BYTES
    assert 0 < read[path.name] <= A_GLIMPSE


def test_a_packed_snapshot_that_would_not_do_is_read(world: ServerHistory, folder: Path) -> None:
    """Nothing can be said of its end before it is unpacked; the answer is the same."""
    path = world.snapshot(folder, 550, until=570)
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    with counted_reads() as read:
        account = History(folder).tree_at(zxid=560).account
    assert (account.snapshot_zxid, account.is_exact) == (500, True)
    assert read[f"{path.name}.gz"] > DATA_BYTES


def test_a_time_takes_the_front_of_later_logs_and_one_whole_log(folder: Path) -> None:
    """The first records tell which log it is; those before it are not opened."""
    with counted_reads() as read:
        assert History(folder).zxid_at(START_MS + 349 * STEP_MS) == 350
    assert set(read) == {"log.12d", "log.191", "log.1f5"}
    assert read["log.191"] + read["log.1f5"] <= 2 * 16_384
    assert read["log.12d"] >= (folder / "log.12d").stat().st_size


def test_every_question_leaves_the_folder_as_it_was(folder: Path) -> None:
    """Files that are evidence: nothing is written beside them, renamed, or brought up to date."""

    def looked_at() -> dict[str, tuple[int, ...]]:
        found = {each.name: each.stat() for each in folder.iterdir()}
        return {
            name: (each.st_ino, each.st_size, each.st_mtime_ns, each.st_ctime_ns)
            for name, each in found.items()
        }

    before = looked_at()
    history = History(folder)
    assert history.tree_at(time_ms=START_MS + 349 * STEP_MS).account.zxid == 350
    assert [each.path for each in history.compared(349, 350).changes] == ["/n"]
    assert history.beginning().account.zxid == 0
    assert is_right(history.verify())
    assert looked_at() == before


def test_servers_that_have_the_same_are_compared_where_they_begin(
    world: ServerHistory, tmp_path: Path
) -> None:
    """Whether folders are of one ensemble is told by the first record that both have, not by their last."""
    for name in ("a", "b"):
        for start in range(1, LOGS * RECORDS, RECORDS):
            world.log(tmp_path / name, start, start + RECORDS - 1)
        world.snapshot(tmp_path / name, 200)
        world.snapshot(tmp_path / name, 500)
    with counted_reads() as read:
        account = History(tmp_path / "a", tmp_path / "b").tree_at(zxid=210).account
    assert (account.zxid, account.is_exact, account.is_certain) == (210, True, True)
    assert set(read) == {"snapshot.c8", "log.1", "log.c9"}
    assert max(read["log.1"], read["log.c9"]) <= 2 * PIECE_BYTES


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_end_alone_says_what_the_whole_file_does(dialect: str, tmp_path: Path) -> None:
    """In every dialect, but for digests in hex, which have no certain length; packed files say nothing."""
    raw, end = DIALECTS[dialect]
    for suffix, pack in PACKED.items():
        path = tmp_path / f"snapshot.10{suffix}"
        path.write_bytes(pack(raw))
        found = likely_end(path)
        if suffix or "first builds" in dialect:
            assert found is None
        else:
            assert found == end._replace(digest=None)


@pytest.mark.parametrize("zxid", [0x12F, 0x1_0000_012F])
def test_a_last_zxid_that_resembles_the_end_of_the_znodes(zxid: int, tmp_path: Path) -> None:
    """Its bytes are those of the mark behind the znodes; 3.9 with digests off, and with them."""
    path = tmp_path / "snapshot.10"
    for digest in (None, (zxid, writer.TreeDigest(2, 7))):
        path.write_bytes(writer.snapshot([], digest=digest, last_zxid=zxid))
        assert likely_end(path) == SnapshotEnd(digest and zxid, None, zxid)
        assert open_snapshot(path).end == SnapshotEnd(*(digest or (None, None)), zxid)


def test_an_end_that_is_none_says_nothing(tmp_path: Path) -> None:
    """Cut off anywhere, too short, or zeros."""
    path = tmp_path / "snapshot.10"
    raw = DIALECTS["3.9"][0]
    wholes = {len(DIALECTS[dialect][0]) for dialect in ("3.4, 3.5", "3.6 to 3.8", "3.9")}
    for end in range(len(raw) - 120, len(raw) + 1):
        path.write_bytes(raw[:end])
        assert (likely_end(path) is not None) == (end in wholes)
    for short in (b"", b"/", bytes(300), raw[-13:]):
        path.write_bytes(short)
        assert likely_end(path) is None


def test_the_last_zxid_for_the_time_left_is_read_from_the_end(folder: Path) -> None:
    """Of the newest log some records at its end, also in front of room that a server keeps for later."""
    server = History(folder).ensemble.servers[0]
    log = folder / "log.1f5"
    with counted_reads() as read:
        assert server.about_last_zxid() == LOGS * RECORDS
    assert set(read) == {"log.1f5"}
    assert read["log.1f5"] <= PIECE_BYTES < log.stat().st_size

    with log.open("ab") as file:
        file.write(bytes(1000))
    assert server.about_last_zxid() == LOGS * RECORDS
    log.write_bytes(bytes(log.stat().st_size))
    assert server.about_last_zxid() == 0
    assert not server.damages
