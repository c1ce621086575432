"""Folders of which a snapshot shows more than the logs: every answer says what it was not made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds.screened_findings import events_in
from tests.worlds.server_history import ServerHistory
from zkgroup.audit.inputs.opening import Folders
from zkgroup.audit.inputs.source import PointInTime
from zkgroup.errors import NotFoundError
from zkgroup.zkfiles.history import History, diff_trees

RECORDS, LOGGED = 20, 8
SNAPSHOTS = (0, 5, 16)
LATE = PointInTime(time_ms=2**42)


def _world() -> ServerHistory:
    world = ServerHistory()
    for number in range(RECORDS):
        world.create(f"/n{number}")
    return world


def _at(zxid: int) -> PointInTime:
    return PointInTime(zxid=zxid)


@pytest.fixture(params=[0, LOGGED], ids=["snapshots alone", "the log ends before"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Folders:
    """Snapshots, of which the last one is later than all records."""
    world = _world()
    for zxid in SNAPSHOTS:
        world.snapshot(tmp_path, zxid)
    if request.param:
        world.log(tmp_path, 0, request.param)
    return Folders(History(tmp_path))


@pytest.fixture
def logged(tmp_path: Path) -> Folders:
    """The same with a log that ends before the last snapshot, which was being written until 18."""
    world = _world()
    world.snapshot(tmp_path, 0)
    world.snapshot(tmp_path, 16, until=18)
    world.log(tmp_path, 0, LOGGED)
    return Folders(History(tmp_path))


@pytest.mark.parametrize(("start", "end"), [(5, 16), (16, 5)])
def test_a_difference_is_that_of_the_trees_where_no_log_leads_on(
    source: Folders, start: int, end: int
) -> None:
    """Both ends are known, so it is exact, and nothing is damaged."""
    world = _world()

    found = source.diff(_at(start), _at(end))

    assert list(found.changes) == list(diff_trees(world.at(start), world.at(end)))
    assert (len(found.changes), found.is_exact, source.damages()) == (12, True, [])
    assert [note for note in source.notes() if "both were compared" in note]


def test_a_moment_that_no_file_has_is_never_exact(source: Folders) -> None:
    """Nor a difference that ends there; what is missing up to it is named."""
    last = source.history.ensemble.last_record or 5

    seen = source.tree(_at(14))
    found = source.diff(_at(5), _at(14))

    assert (seen.zxid, seen.is_exact, seen.is_damaged) == (last, False, True)
    assert seen.detail == f"zxids {last + 1:#x} to 0xe are missing"
    assert (len(found.changes), found.is_exact) == (last - 5 + (last > 5), False)
    assert source.damages() == [seen.detail]
    assert source.tree(_at(16)).is_exact


@pytest.mark.parametrize("start", [5, 17])
def test_a_difference_that_ends_behind_the_files_is_not_exact(source: Folders, start: int) -> None:
    """What came later is in no file, also where none was found; a tree has its own zxid."""
    found = source.diff(_at(start), _at(20))

    assert (len(found.changes), found.is_exact, source.damages()) == (12 if start == 5 else 0, False, [])


def test_a_time_behind_the_last_record_is_not_exact(logged: Folders) -> None:
    """What the snapshot shows may have been before it."""
    seen = logged.tree(LATE)
    found = logged.diff(_at(2), LATE)
    logged.rows(end=LATE)

    assert (seen.zxid, seen.is_exact, seen.detail) == (LOGGED, False, "zxids 0x9 to 0x10 are missing")
    assert not found.is_exact
    assert logged.damages() == ["zxids 0x9 to 0x10 are missing"]


@pytest.mark.parametrize(
    ("start", "end", "missing"),
    [
        (None, None, "zxids 0x9 to 0x10 are missing"),
        (2, 12, "zxids 0x9 to 0xc are missing"),
        (11, None, "zxids 0xb to 0x10 are missing"),
        (2, 7, None),
    ],
)
def test_rows_name_what_is_in_no_log(
    logged: Folders, start: int | None, end: int | None, missing: str | None
) -> None:
    """As every question about a range asks for them, also where it is read as columns."""
    logged.rows(*(None if zxid is None else _at(zxid) for zxid in (start, end)))

    assert logged.damages() == ([] if missing is None else [missing])


def test_a_range_behind_the_last_record_stands_on_the_last_tree(logged: Folders) -> None:
    """Not on the one before the range, which nothing leads on from."""
    assert logged.rows(_at(11)).seen.zxid == 16
    assert logged.rows(_at(11), _at(12)).seen.zxid == LOGGED


def test_the_last_tree_is_the_newest_snapshot_though_it_was_being_written(logged: Folders) -> None:
    """An older one is exact, and no log leads on from it."""
    seen = logged.tree()

    assert (seen.zxid, seen.is_exact, seen.is_damaged) == (16, False, False)
    assert "still being written" in seen.detail


def test_a_folder_of_which_nothing_can_be_read_has_no_tree(tmp_path: Path) -> None:
    """The first log's name alone does not make the tree of an empty server."""
    (tmp_path / "log.100000001").write_bytes(b"\0\0\0\x24\x02garbage")
    (tmp_path / "snapshot.100000000").write_bytes(b"\0\0\0\x0a\x05garbage")
    source = Folders(History(tmp_path))

    for at in (None, _at(0), _at(1 << 32)):
        with pytest.raises(NotFoundError, match="nothing is known"):
            source.tree(at)
    assert not source.rows().seen.is_exact
    assert [text for text in source.damages() if "log.100000001, byte 0" in text]


def test_records_of_a_log_with_a_wrong_name_are_not_said_to_count(tmp_path: Path) -> None:
    """They are left out, as no log before has them; copies of records count once."""
    world, swapped, copied = _world(), tmp_path / "swapped", tmp_path / "copied"
    world.log(swapped, 1, 4).rename(tmp_path / "log.5")
    world.log(swapped, 5, 8).rename(swapped / "log.1")
    (tmp_path / "log.5").rename(swapped / "log.5")
    world.log(copied, 1, 6)
    world.log(copied, 3, 8)

    wrong, right = Folders(History(swapped)), Folders(History(copied))

    def zxids(source: Folders) -> list[int]:
        return [event.zxid for event in events_in(source.rows()) if not event.seed]

    assert zxids(wrong) == [5, 6, 7, 8]
    assert [text for text in wrong.damages() if "0x1, which no log before it has" in text]
    assert not [note for note in wrong.notes() if "earlier log" in note]
    assert zxids(right) == list(range(1, 9))
    assert right.damages() == []
    assert [note for note in right.notes() if "earlier log" in note]


def test_two_servers_that_disagree_have_no_majority(tmp_path: Path) -> None:
    """What is taken is named; behind it no tree or difference is exact. Of three servers two are most."""
    world, other = ServerHistory(1 << 32 | 1), ServerHistory(1 << 32 | 1)
    for history, data in ((world, b"one"), (other, b"other")):
        history.create("/a")
        history.create("/b", data)
    world.create("/c")
    for name, history in (("one", world), ("two", other), ("three", world)):
        history.log(tmp_path / name)

    pair = Folders(History(tmp_path / "one", tmp_path / "two"))
    seen = pair.tree()
    three = Folders(History(*(tmp_path / name for name in ("one", "two", "three"))))

    first, last = 1 << 32 | 1, seen.zxid
    assert (seen.is_exact, three.tree().is_exact) == (False, True)
    assert [each.diff(_at(first), _at(last)).is_exact for each in (pair, three)] == [False, True]
    assert "none is that of most" in seen.detail
    assert [note for note in pair.notes() if f"what {tmp_path / 'one'} has" in note]
    assert not [note for note in pair.notes() if "most of them" in note]
    assert [note for note in three.notes() if "most of them" in note]
