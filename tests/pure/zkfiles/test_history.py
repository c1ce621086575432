"""Which files a tree is made of, and what is said of how good it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds import zkfiles_writer as writer
from tests.worlds.server_history import START_MS, STEP_MS, ServerHistory
from tests.worlds.zkfiles_tables import digest_verdict, is_right
from zkgroup.errors import NotFoundError
from zkgroup.zkfiles import replay
from zkgroup.zkfiles.history import History, diff_trees
from zkgroup.zkfiles.records import Hole, TreeDigest
from zkgroup.zkfiles.tree import Tree

QUOTAS = "/zookeeper/"


def counted(records: int = 20, **more: bool) -> ServerHistory:
    """A znode set again and again, its data the zxid."""
    world = ServerHistory(**more)
    world.create("/n", b"1")
    for zxid in range(2, records + 1):
        world.set("/n", str(zxid).encode())
    return world


def value(tree: Tree) -> bytes | None:
    znode = tree.znode("/n")
    return None if znode is None else znode.data


@pytest.mark.parametrize("zxid", [0, 1, 9, 10, 11, 19, 20])
def test_any_zxid(tmp_path: Path, zxid: int) -> None:
    """The tree is that of the zxid asked for, from the nearest snapshot at or before it."""
    world = counted()
    world.log(tmp_path, 1, 12)
    world.log(tmp_path, 13)
    world.snapshot(tmp_path, 10)
    tree, account = History(tmp_path).tree_at(zxid=zxid)
    assert value(tree) == (str(zxid).encode() if zxid else None)
    assert (account.zxid, account.is_exact, account.holes) == (zxid, True, ())
    assert account.time_ms == (START_MS + (zxid - 1) * STEP_MS if zxid else None)
    assert account.snapshot_zxid == (10 if zxid >= 10 else 0)
    assert account.applied == account.digests_checked == zxid - account.snapshot_zxid


def test_a_window_that_is_not_over_sends_to_an_older_snapshot(tmp_path: Path) -> None:
    """Inside it the snapshot has some of what came later, which no replay takes back."""
    world = counted()
    world.log(tmp_path, 1)
    world.snapshot(tmp_path, 5)
    world.snapshot(tmp_path, 10, until=14)
    history = History(tmp_path)
    within, behind = history.tree_at(zxid=13), history.tree_at(zxid=14)
    assert (value(within.tree), within.account.snapshot_zxid, within.account.is_exact) == (b"13", 5, True)
    assert "was being written until 0xe" in within.account.skipped[0]
    assert (value(behind.tree), behind.account.snapshot_zxid, behind.account.is_exact) == (b"14", 10, True)


def test_a_snapshot_can_contain_one_transaction_more_than_its_name(tmp_path: Path) -> None:
    """A server changes the tree before it counts the transaction: what its end tells is one too early."""
    world = counted()
    world.log(tmp_path, 1)
    world.snapshot(tmp_path, 5)
    world.snapshot(tmp_path, 10, until=14, told=13)
    history = History(tmp_path)
    within, behind = history.tree_at(zxid=13), history.tree_at(zxid=14)
    assert (value(within.tree), within.account.snapshot_zxid) == (b"13", 5)
    assert (value(behind.tree), behind.account.snapshot_zxid, behind.account.is_exact) == (b"14", 10, True)
    assert (digest_verdict(history.verify()), is_right(history.verify())) == ("clean", True)


def test_a_window_that_nothing_is_older_than_is_said(tmp_path: Path) -> None:
    """The tree is given all the same, for nothing better is there, but not as proved."""
    world = counted()
    world.log(tmp_path, 8)
    path = world.snapshot(tmp_path, 10, until=14)
    account = History(tmp_path).tree_at(zxid=12).account
    assert (account.is_whole, account.is_exact) == (False, False)
    assert account.detail == f"{path} was still being written, so it has some of what came later"


def test_before_3_6_the_next_snapshot_says_when_one_had_ended(tmp_path: Path) -> None:
    """A server writes one at a time. Of the newest nobody knows, so the one before it is taken."""
    world = counted(digests=False)
    world.log(tmp_path, 3)
    world.snapshot(tmp_path, 5, until=7, tells=False)
    newest = world.snapshot(tmp_path, 10, until=14, tells=False)
    history = History(tmp_path)
    exact, too_early = history.tree_at(zxid=20), history.tree_at(zxid=8)
    assert (value(exact.tree), exact.account.snapshot_zxid, exact.account.is_exact) == (b"20", 5, True)
    assert exact.account.skipped == (f"{newest} does not say at which zxid it was complete",)
    assert (too_early.account.is_whole, too_early.account.is_exact) == (False, False)


def test_the_newest_change_inside_stands_in_where_nothing_else_is_there(tmp_path: Path) -> None:
    """One old snapshot is what many folders have: a lower bound of its window is better than no answer."""
    world = counted(digests=False)
    world.log(tmp_path, 8)
    path = world.snapshot(tmp_path, 10, until=14, tells=False)
    candidate = replay.candidates(History(tmp_path).ensemble)[0]
    assert (replay.load(candidate).exact_from, replay.load(candidate).is_sure) == (14, False)
    tree, account = History(tmp_path).tree_at(zxid=16)
    assert value(tree) == b"16"
    assert (account.is_sure, account.is_whole, account.is_exact) == (False, True, False)
    assert account.detail == f"{path} does not say at which zxid it was complete"


@pytest.mark.parametrize("cut", [1, 14, 40])
def test_a_snapshot_that_is_cut_off_is_passed_over(tmp_path: Path, cut: int) -> None:
    """A copy of one under way has the name of a whole one; its seals are not there."""
    world = counted()
    world.log(tmp_path, 1)
    world.snapshot(tmp_path, 5)
    path = world.snapshot(tmp_path, 10)
    path.write_bytes(path.read_bytes()[:-cut])
    account = History(tmp_path).tree_at(zxid=12).account
    assert (account.snapshot_zxid, account.is_exact) == (5, True)
    assert str(path) in account.skipped[0]


def test_what_is_missing_on_the_way_is_said(tmp_path: Path) -> None:
    """Behind a hole the tree lacks changes; it is exact before, and again from a snapshot behind it."""
    world = counted()
    world.log(tmp_path, 1, 4)
    world.log(tmp_path, 8)
    world.snapshot(tmp_path, 15)
    history = History(tmp_path)
    within, behind = history.tree_at(zxid=5), history.tree_at(zxid=9)
    assert (within.account.zxid, within.account.holes) == (4, (Hole(5, 5),))
    assert (behind.account.zxid, behind.account.holes) == (9, (Hole(5, 7),))
    assert behind.account.detail.startswith("zxids 0x5 to 0x7 are missing")
    assert not within.account.is_exact
    assert not behind.account.is_exact
    assert history.tree_at(zxid=4).account.is_exact
    assert history.tree_at(zxid=16).account.is_exact


def test_a_digest_that_differs_is_said(tmp_path: Path) -> None:
    """The server's own sum is the one witness against this replay, and everything behind it is in doubt."""
    world = counted()
    world.transactions[9] = world.transactions[9]._replace(digest=TreeDigest(2, 1))
    world.log(tmp_path)
    history = History(tmp_path)
    assert history.tree_at(zxid=9).account.is_exact
    account = history.tree_at(zxid=12).account
    assert (account.first_bad_zxid, account.is_exact, account.digests_checked) == (10, False, 12)
    assert account.detail == "the tree's digest is another than the servers' from 0xa on"


def test_the_last_one_by_default_and_nothing_beyond_it(tmp_path: Path) -> None:
    """A zxid that was not reached yet has the tree of the last one, and the account says which that is."""
    counted().log(tmp_path)
    history = History(tmp_path)
    assert history.tree_at().account.zxid == history.last_zxid == 20
    account = history.tree_at(zxid=99).account
    assert (account.zxid, account.is_exact) == (20, True)


def test_a_torn_last_write_is_not_there_yet(tmp_path: Path) -> None:
    """The copy of a living server's log ends anywhere: that is neither a record nor damage."""
    path = counted().log(tmp_path)
    path.write_bytes(path.read_bytes()[:-5])
    history = History(tmp_path)
    assert history.last_zxid == 19
    assert history.tree_at().account.is_exact


def test_damage_in_a_log_is_a_hole(tmp_path: Path) -> None:
    """Reading goes on behind it, so the zxids that are gone are known, and the tree is not called exact."""
    world = counted()
    path = world.log(tmp_path)
    raw = bytearray(path.read_bytes())
    front = len(writer.log(world.transactions[:9]))
    raw[front + 50] ^= 0xFF
    path.write_bytes(bytes(raw))
    history = History(tmp_path)
    account = history.tree_at().account
    assert account.holes == (Hole(10, 10),)
    assert value(history.tree_at(zxid=9).tree) == b"9"
    found = history.verify()
    assert [(each.path, each.offset) for each in found.damages] == [(path, front)]
    assert (found.holes, is_right(found)) == ([Hole(10, 10)], False)


def test_nothing_is_known_of_what_was_before_the_files(tmp_path: Path) -> None:
    """Purged history is an error that says so, never an empty tree."""
    world = counted()
    world.log(tmp_path, 8)
    world.snapshot(tmp_path, 10)
    with pytest.raises(NotFoundError, match="nothing is known of zxid 0x9: the files begin later"):
        History(tmp_path).tree_at(zxid=9)
    with pytest.raises(NotFoundError, match=r"no log goes back to [12]\d{3}-\d\d-\d\dT[\d:.]{12}Z"):
        History(tmp_path).tree_at(time_ms=START_MS)


@pytest.mark.parametrize("late_ms", [0, 1, STEP_MS - 1])
def test_a_time_is_that_of_the_last_transaction_until_then(tmp_path: Path, late_ms: int) -> None:
    """Between two records the tree is that of the earlier one, across the boundary of two logs too."""
    world = counted()
    world.log(tmp_path, 1, 9)
    world.log(tmp_path, 10)
    history = History(tmp_path)
    for zxid in (1, 9, 10, 20):
        assert history.zxid_at(START_MS + (zxid - 1) * STEP_MS + late_ms) == zxid
    tree, account = history.tree_at(time_ms=START_MS + 5 * STEP_MS + late_ms)
    assert (value(tree), account.zxid, account.time_ms) == (b"6", 6, START_MS + 5 * STEP_MS)
    with pytest.raises(NotFoundError):
        history.zxid_at(START_MS - 1)


def test_a_clock_that_stepped_back(tmp_path: Path) -> None:
    """The last one stamped at or before: what is asked for is a state, and that is the later one."""
    world = counted(3)
    world.clock_steps(-2 * STEP_MS)
    world.set("/n", b"4")
    world.log(tmp_path)
    assert History(tmp_path).zxid_at(START_MS + STEP_MS) == 4


def test_the_beginning_is_the_earliest_that_is_exact(tmp_path: Path) -> None:
    """From here on every record is right: facts are gathered from here, not from the snapshot's name."""
    world = counted()
    world.log(tmp_path, 8)
    world.snapshot(tmp_path, 10, until=14)
    history = History(tmp_path)
    tree, account = history.beginning()
    assert (account.zxid, account.is_exact, value(tree)) == (14, True, b"14")
    for transaction in history.transactions(account.zxid + 1):
        tree.apply(transaction)
    assert tree.first_difference(world.tree, except_below=QUOTAS) is None
    (tmp_path / "whole").mkdir()
    world.log(tmp_path / "whole")
    assert History(tmp_path / "whole").beginning().account.zxid == 0


def changes(history: History, start: int, end: int, below: str = "/") -> list[tuple[str, str]]:
    found = history.compared(start, end, below).changes
    return [(each.path, each.change) for each in found if not each.is_of_children_only]


def test_differences_between_zxids(tmp_path: Path) -> None:
    """One replay finds what comparing two whole trees does."""
    world = ServerHistory()
    world.create("/kept", b"1")
    world.create("/gone")
    world.create("/short")
    world.delete("/short")
    world.set("/kept", b"2")
    world.create("/new")
    world.create("/new/below")
    world.delete("/gone")
    world.log(tmp_path)
    history = History(tmp_path)
    expected = [("/gone", "removed"), ("/kept", "changed"), ("/new", "added"), ("/new/below", "added")]
    assert changes(history, 2, 8) == expected
    trees = history.tree_at(zxid=2).tree, history.tree_at(zxid=8).tree
    assert history.compared(2, 8).changes == list(diff_trees(*trees))
    assert changes(history, 8, 8) == []
    assert changes(history, 2, 8, below="/new") == expected[2:]
    kept = next(each for each in history.compared(2, 8).changes if each.path == "/kept")
    assert kept.fields == ("data", "mzxid", "mtime", "version")
    assert kept.before is not None
    assert kept.after is not None
    assert (kept.before.znode.data, kept.after.znode.data) == (b"1", b"2")
    root = next(each for each in history.compared(2, 8).changes if each.path == "/")
    assert root.is_of_children_only


def test_a_difference_over_a_hole_is_that_of_two_snapshots(tmp_path: Path) -> None:
    """The records between are not all there, but both ends are known."""
    world = counted()
    world.log(tmp_path, 1, 4)
    world.log(tmp_path, 12)
    world.snapshot(tmp_path, 3)
    world.snapshot(tmp_path, 14)
    found = [each for each in History(tmp_path).compared(4, 16).changes if each.path == "/n"]
    assert [(each.change, each.before and each.before.znode.data) for each in found] == [("changed", b"4")]
    assert found[0].after is not None
    assert found[0].after.znode.data == b"16"
