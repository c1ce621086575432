"""Zxids that no file has."""

from __future__ import annotations

from pathlib import Path

from tests.worlds.audit_folders import calm, look, places
from zkgroup.audit.findings.files import history_hole, split_history

EPOCH = 1 << 32


def test_a_gap_within_an_epoch_is_an_error(tmp_path: Path) -> None:
    """Three zxids that are in no file are one error, from the first of them to the last."""
    world = calm()
    last, last_ms = world.zxid, world.ms
    world.skip(3)
    world.create("/c")
    world.log(tmp_path)

    (found,) = look(history_hole, tmp_path)

    assert (found.severity, found.from_zxid, found.to_zxid) == ("error", last + 1, last + 3)
    assert (found.from_ms, found.to_ms) == (last_ms, world.ms)
    assert found.detail == "3 zxids are in no file, between two records"


def test_a_log_that_is_missing_is_one(tmp_path: Path) -> None:
    """Where a log file between two others is gone, the hole is what it held."""
    world = calm()
    for number in range(6):
        world.create(f"/c{number}")
    world.log(tmp_path, to_zxid=4)
    world.log(tmp_path, from_zxid=9)

    assert places(look(history_hole, tmp_path)) == [("error", 5, 8)]


def test_the_beginning_of_an_epoch_can_be_missing(tmp_path: Path) -> None:
    """An epoch whose first record is its second zxid lacks the first."""
    world = calm(EPOCH | 1)
    world.new_epoch()
    world.skip(1)
    world.create("/c")
    world.log(tmp_path)

    found = look(history_hole, tmp_path)

    assert places(found) == [("error", 2 * EPOCH | 1, 2 * EPOCH | 1)]
    assert found[0].detail == "1 zxid is in no file, between two records"


def test_a_record_that_is_damaged_is_missing(tmp_path: Path) -> None:
    """A record that its checksum disowns is a hole of one zxid."""
    world = calm()
    path = world.log(tmp_path)
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"/a", raw.index(b"/a") + 2)] ^= 1
    path.write_bytes(raw)

    assert places(look(history_hole, tmp_path)) == [("error", 3, 3)]


def test_what_a_deposed_leader_wrote_alone_is_none(tmp_path: Path) -> None:
    """The others went on in the next epoch."""
    world = calm(EPOCH | 1)
    world.log(tmp_path / "deposed")
    ahead = calm(EPOCH | 1)
    ahead.create("/only-here")
    ahead.log(tmp_path / "deposed")
    world.new_epoch()
    world.create("/c")
    for name in ("one", "two"):
        world.log(tmp_path / name)
    folders = [tmp_path / name for name in ("deposed", "one", "two")]

    assert look(history_hole, *folders) == []
    assert look(split_history, *folders) == []


def test_a_new_epoch_and_refused_requests_are_none(tmp_path: Path) -> None:
    """An election leaves no hole, and a refused request has a record with a zxid like any other."""
    world = calm(EPOCH | 1)
    world.fail()
    world.new_epoch()
    world.create("/c")
    world.log(tmp_path)

    assert look(history_hole, tmp_path) == []


def test_another_server_fills_it(tmp_path: Path) -> None:
    """Zxids that one server lacks and another has are a hole only as long as the other is not looked at."""
    world = calm()
    world.log(tmp_path / "one", to_zxid=2)
    world.log(tmp_path / "one", from_zxid=6)
    world.log(tmp_path / "two", from_zxid=3, to_zxid=6)

    assert places(look(history_hole, tmp_path / "one")) == [("error", 3, 5)]
    assert look(history_hole, tmp_path / "one", tmp_path / "two") == []


def test_between_a_snapshot_and_the_log_behind_it(tmp_path: Path) -> None:
    """Zxids after the snapshot and before the first record are a hole, which names the snapshot."""
    world = calm()
    world.snapshot(tmp_path, 2)
    world.log(tmp_path, from_zxid=5)

    found = look(history_hole, tmp_path)

    assert places(found) == [("error", 3, 4)]
    assert found[0].detail == "2 zxids are in no file, between snapshot.2 and the first record"


def test_a_snapshot_beyond_the_log(tmp_path: Path) -> None:
    """Zxids after the last record up to a later snapshot are a hole, which names the snapshot."""
    world = calm()
    world.log(tmp_path, to_zxid=4)
    world.snapshot(tmp_path, 6)

    found = look(history_hole, tmp_path)

    assert places(found) == [("error", 5, 6)]
    assert found[0].detail == "2 zxids are in no file, between the last record and snapshot.6"


def test_purged_logs_and_snapshots_of_a_new_leader_are_none(tmp_path: Path) -> None:
    """What is before the oldest snapshot may be gone; a leader writes a snapshot before its first record."""
    world = calm(EPOCH | 1)
    world.snapshot(tmp_path, EPOCH | 4)
    world.log(tmp_path, from_zxid=EPOCH | 3)
    (tmp_path / f"snapshot.{2 * EPOCH:x}").write_bytes(b"")

    assert look(history_hole, tmp_path) == []
