"""What a replay of everything finds wrong, and where it says that it cannot know."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.worlds import zkfiles_writer as writer
from tests.worlds.golden_data import FOLDER
from tests.worlds.server_history import ServerHistory
from tests.worlds.zkfiles_tables import digest_verdict, is_right, needs_kernel
from zkgroup.errors import NotFoundError
from zkgroup.zkfiles import replay, servers
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.records import Hole, Operation, Transaction, TransactionType, TreeDigest
from zkgroup.zkfiles.verification import HistoryVerification

READ = (writer.AclEntry(1, "world", "anyone"),)


def busy(*, digests: bool = True, lists: bool = True) -> ServerHistory:
    """Twelve records of every kind."""
    world = ServerHistory(digests=digests, lists=lists)
    world.open(7)
    world.create("/a", b"1")
    world.create("/a/e", session=7, ephemeral=True)
    world.set("/a", b"2")
    world.set_acl("/a", READ)
    world.fail()
    world.multi(world.creation("/b"), world.change("/a", b"3"), world.creation("/c", number=2))
    world.multi(world.change("/b", b"x"), Operation(TransactionType.ERROR, error=-101))
    world.delete("/b")
    world.close(7)
    world.set("/c", b"4")
    world.delete("/c")
    return world


def changed(world: ServerHistory, zxid: int, **fields: object) -> None:
    """Another operation in place of the only one of a record."""
    place = zxid - 1
    record = world.transactions[place]
    operation = record.operations[0]._replace(**fields)  # type: ignore[arg-type]
    world.transactions[place] = record._replace(operations=(operation, *record.operations[1:]))


def test_a_right_history_is_clean(tmp_path: Path) -> None:
    """Of every kind of record; the error alone has no digest, and the snapshot's window hides nothing."""
    world = busy()
    world.log(tmp_path)
    world.snapshot(tmp_path, 4, until=6)
    found = History(tmp_path).verify()
    assert (digest_verdict(found), is_right(found)) == ("clean", True)
    assert (found.records, found.digests_checked, found.unchecked) == (12, 11, 0)
    assert [(each.zxid, each.agrees) for each in found.snapshots] == [(4, True)]


def test_the_first_record_with_another_digest_is_named(tmp_path: Path) -> None:
    """Once wrong a tree stays wrong, so what is said of later records would be noise."""
    world = busy()
    world.transactions[3] = world.transactions[3]._replace(digest=TreeDigest(2, 5))
    changed(world, 9, path="/c")
    world.log(tmp_path)
    found = History(tmp_path).verify()
    assert (digest_verdict(found), found.first_bad_zxid, is_right(found)) == ("mismatch", 4, False)
    assert [each.zxid for each in found.doubts] == [4]


@pytest.mark.parametrize("lists", [True, False])
def test_without_digests_it_is_not_applicable_never_clean(tmp_path: Path, lists: bool) -> None:
    """Before 3.6 the servers prove nothing, and a green verdict would be an invention."""
    world = busy(digests=False, lists=lists)
    world.log(tmp_path)
    world.snapshot(tmp_path, 4, until=6, tells=False)
    world.snapshot(tmp_path, 9, until=10, tells=False)
    found = History(tmp_path).verify()
    assert (digest_verdict(found), found.digests_checked, is_right(found)) == ("not_applicable", 0, True)
    assert [(each.zxid, each.agrees) for each in found.snapshots] == [(4, True), (9, True)]


def _lose(world: ServerHistory, zxid: int) -> None:
    """A record that did not take place where the others stand: an error in its stead keeps the count."""
    record = world.transactions[zxid - 1]
    world.transactions[zxid - 1] = Transaction(
        zxid, record.session, record.cxid, record.time_ms, -1, (Operation(-1, error=-101),)
    )


@pytest.mark.parametrize(
    ("spoil", "zxid", "detail"),
    [
        (lambda world: changed(world, 4, version=9), 4, "the data of /a gets version 9 after 0"),
        (lambda world: changed(world, 5, version=9), 5, "the ACL of /a gets version 9 after 0"),
        (lambda world: changed(world, 4, path="/no"), 4, "the data of /no is set and it is not there"),
        (lambda world: changed(world, 9, path="/no"), 9, "/no is deleted and is not there"),
        (lambda world: changed(world, 3, path="/no/e"), 3, "/no/e is created and its parent is not there"),
        (lambda world: changed(world, 3, parent_cversion=4), 3, "as number 4 below /a, which counted 0"),
        (lambda world: changed(world, 7, path="/a"), 7, "/a is created and is there already"),
        (lambda world: _lose(world, 4), 7, "the data of /a gets version 2 after 0"),
        (lambda world: _lose(world, 2), 3, "its parent is not there"),
    ],
)
def test_without_digests_records_are_held_against_the_tree(
    tmp_path: Path, spoil: Callable[[ServerHistory], None], zxid: int, detail: str
) -> None:
    """Versions and counts in a record are of the leader's tree: a lost or changed one shows there."""
    world = busy(digests=False)
    spoil(world)
    world.log(tmp_path)
    found = History(tmp_path).verify()
    assert (found.first_bad_zxid, is_right(found)) == (zxid, False)
    assert detail in found.doubts[0].detail
    assert digest_verdict(found) == "not_applicable"


@pytest.mark.parametrize("tells", [True, False])
def test_a_snapshot_that_is_not_the_tree_replayed_is_named(tmp_path: Path, tells: bool) -> None:
    """A server with another tree than its own log is diverged; the log itself stays clean."""
    world, other = busy(digests=tells), busy(digests=tells)
    world.log(tmp_path)
    changed(other, 4, data=b"other")
    path = other.snapshot(tmp_path, 5, tells=tells)
    world.snapshot(tmp_path, 6, tells=tells)
    found = History(tmp_path).verify()
    check, following = found.snapshots
    assert following.agrees is True
    assert (check.path, check.zxid, check.agrees, is_right(found)) == (path, 5, False, False)
    assert check.detail == (
        "its digest is not that of the tree replayed" if tells else "/a is not as replayed"
    )
    assert found.first_bad_zxid is None


def test_a_snapshot_with_a_broken_seal_is_named(tmp_path: Path) -> None:
    """It counts against the folder, but not against the history, which the logs tell."""
    world = busy()
    world.log(tmp_path)
    path = world.snapshot(tmp_path, 5)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(bytes(raw))
    found = History(tmp_path).verify()
    assert [each.agrees for each in found.snapshots] == [False]
    assert (digest_verdict(found), is_right(found)) == ("clean", False)


def test_behind_a_hole_it_continues_from_the_next_snapshot(tmp_path: Path) -> None:
    """What lies behind is proved again; only the records up to that snapshot are not compared."""
    world = busy()
    world.log(tmp_path, 1, 3)
    world.log(tmp_path, 6)
    world.snapshot(tmp_path, 2)
    world.snapshot(tmp_path, 4)
    world.snapshot(tmp_path, 8)
    found = History(tmp_path).verify()
    assert found.holes == [Hole(4, 5)]
    assert (digest_verdict(found), is_right(found)) == ("clean", False)
    assert (found.records, found.unchecked) == (10, 3)
    assert [(each.zxid, each.agrees) for each in found.snapshots] == [(2, True), (4, None), (8, True)]


def test_a_snapshot_stands_in_for_what_is_missing_before_it(tmp_path: Path) -> None:
    """It begins right behind the hole, so every record that is there is compared."""
    world = busy()
    world.log(tmp_path, 1, 3)
    world.log(tmp_path, 6)
    world.snapshot(tmp_path, 5)
    found = History(tmp_path).verify()
    assert (found.holes, found.unchecked, found.digests_checked) == ([Hole(4, 5)], 0, 9)


def test_records_of_a_window_are_not_compared(tmp_path: Path) -> None:
    """There the tree has some of what comes: a digest that differs would say nothing."""
    world = busy()
    world.log(tmp_path, 3)
    world.snapshot(tmp_path, 4, until=7)
    found = History(tmp_path).verify()
    assert (found.unchecked, digest_verdict(found), is_right(found)) == (4, "clean", True)
    assert [(each.zxid, each.agrees) for each in found.snapshots] == [(4, True)]


def test_where_no_snapshot_says_when_it_ended_nothing_is_claimed(tmp_path: Path) -> None:
    """Old and alone: neither wrong nor clean, and each record is counted as unchecked."""
    world = busy(digests=False)
    world.log(tmp_path, 3)
    world.snapshot(tmp_path, 4, until=7, tells=False)
    found = History(tmp_path).verify()
    assert (found.unchecked, digest_verdict(found), is_right(found)) == (10, "not_applicable", True)
    assert "it does not say at which zxid it was complete" in found.snapshots[0].detail


def test_a_snapshot_beyond_the_logs_shows_what_they_lack(tmp_path: Path) -> None:
    """Its name is a zxid that was applied, so logs that end before it are missing a part."""
    world = busy()
    world.log(tmp_path, 1, 6)
    world.snapshot(tmp_path, 9)
    found = History(tmp_path).verify()
    assert (found.holes, is_right(found)) == ([Hole(7, 9)], False)


def test_a_folder_of_snapshots_alone(tmp_path: Path) -> None:
    """Nothing to replay is not a clean replay; the tree itself is there and exact."""
    world = busy()
    world.snapshot(tmp_path, 6)
    found = History(tmp_path).verify()
    assert (found.records, digest_verdict(found), found.holes) == (0, "not_applicable", [])
    tree, account = History(tmp_path).tree_at()
    assert (account.zxid, account.time_ms, account.is_exact) == (6, None, True)
    assert "/a/e" in tree
    with pytest.raises(NotFoundError):
        History(tmp_path).zxid_at(world.ms)


def both(folder: Path) -> tuple[HistoryVerification, HistoryVerification]:
    """What columns find, and what all records do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(servers, "QUICK_BYTES", 0)
        in_columns = History(folder).verify()
        patch.setattr(replay, "can_replay_columns", lambda: False)
        return in_columns, History(folder).verify()


@needs_kernel
@pytest.mark.parametrize("folder", sorted(FOLDER.rglob("version-2")), ids=lambda path: path.parts[-2])
def test_columns_find_what_all_records_do(folder: Path) -> None:
    """In what real servers left behind."""
    in_columns, exact = both(folder)
    assert in_columns == exact


@needs_kernel
@pytest.mark.parametrize("before_the_end", [0, 2])
def test_a_snapshot_without_a_digest_is_compared_with_the_tree_of_columns(
    tmp_path: Path, before_the_end: int
) -> None:
    """The znodes are those that the records left."""
    world = ServerHistory()
    world.create("/a")
    for number in range(9):
        world.set("/a", b"%d" % number)
    world.log(tmp_path)
    world.snapshot(tmp_path, world.zxid - before_the_end, tells=False)
    in_columns, exact = both(tmp_path)
    assert in_columns == exact
    assert [check.agrees for check in exact.snapshots] == [True]


@needs_kernel
def test_digests_of_another_version_are_not_compared(tmp_path: Path) -> None:
    """Columns do not say of which version a digest is."""
    world = ServerHistory()
    world.create("/a")
    for number in range(9):
        world.set("/a", b"%d" % number)
    world.transactions[3] = world.transactions[3]._replace(digest=TreeDigest(3, 5))
    world.log(tmp_path)
    in_columns, exact = both(tmp_path)
    assert in_columns == exact
    assert digest_verdict(exact) == "clean"
