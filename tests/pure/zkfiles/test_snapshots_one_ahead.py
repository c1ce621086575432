"""Snapshots that hold one transaction more than they tell, where no znode shows it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.worlds import zkfiles_writer as writer
from tests.worlds.server_history import ServerHistory
from tests.worlds.zkfiles_tables import digest_verdict, is_right
from zkgroup.zkfiles import replay
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.records import Hole

READ = (writer.AclEntry(1, "world", "anyone"),)
TOLD = 6
Dump = Callable[[ServerHistory, Path, int], Path]


def ahead_by_a_delete(world: ServerHistory, folder: Path, began: int) -> Path:
    """`/p` was written before 7 deleted `/p/x`, whose turn came after."""
    return world.snapshot(folder, began, until=TOLD, without="/p/x")


def ahead_by_an_acl(world: ServerHistory, folder: Path, began: int) -> Path:
    """7 changed the ACL of `/p`, of which a znode keeps a count and no zxid."""
    return world.snapshot(folder, began, until=TOLD + 1, told=TOLD)


def deleting() -> ServerHistory:
    """A delete at 7, behind sets."""
    return busy(lambda world: world.delete("/p/x"))


def busy(seventh: Callable[[ServerHistory], int]) -> ServerHistory:
    """Ten records."""
    world = ServerHistory()
    world.create("/p")
    world.create("/p/x")
    world.create("/n", b"3")
    for zxid in range(4, 7):
        world.set("/n", str(zxid).encode())
    assert seventh(world) == TOLD + 1
    for zxid in range(8, 11):
        world.set("/n", str(zxid).encode())
    return world


AHEAD = [
    pytest.param(deleting(), ahead_by_a_delete, id="delete"),
    pytest.param(busy(lambda world: world.set_acl("/p", READ)), ahead_by_an_acl, id="acl"),
]
BEGAN = pytest.mark.parametrize("began", [4, TOLD])
"""With a window, and where it began at the very zxid that it tells, so that nothing is replayed up to it."""


@BEGAN
@pytest.mark.parametrize(("world", "dump"), AHEAD)
def test_it_is_exact_from_the_next_transaction_on(
    tmp_path: Path, world: ServerHistory, dump: Dump, began: int
) -> None:
    """The tree of the told zxid cannot be had from it and is not called exact; every later one can."""
    world.log(tmp_path, 3)
    path = dump(world, tmp_path, began)
    history = History(tmp_path)
    assert replay.load(replay.candidates(history.ensemble)[0]).exact_from == TOLD
    account = history.tree_at(zxid=TOLD).account
    assert (account.is_exact, account.is_whole, account.first_bad_zxid) == (False, False, None)
    assert account.detail == (
        f"the tree's digest is not the one that {path} ends with: it has one transaction more, or is wrong"
    )
    for zxid in range(TOLD + 1, 11):
        tree, account = history.tree_at(zxid=zxid)
        assert (account.is_exact, account.digests_checked) == (True, zxid - TOLD)
        assert tree.first_difference(world.at(zxid), except_below="/zookeeper/") is None


@BEGAN
@pytest.mark.parametrize(("world", "dump"), AHEAD)
def test_the_folder_is_clean(tmp_path: Path, world: ServerHistory, dump: Dump, began: int) -> None:
    """A healthy server's files: the next record's digest proves the snapshot, and nothing is accused."""
    world.log(tmp_path, 3)
    dump(world, tmp_path, began)
    found = History(tmp_path).verify()
    assert (digest_verdict(found), is_right(found)) == ("clean", True)
    assert [(each.zxid, each.agrees, each.detail) for each in found.snapshots] == [(began, True, "")]
    assert (found.records, found.unchecked, found.digests_checked) == (8, TOLD - 2, 4)


@BEGAN
def test_the_beginning_is_where_it_is_exact(tmp_path: Path, began: int) -> None:
    """Facts are gathered from there: a znode that is deleted next must not be missing before."""
    world = deleting()
    world.log(tmp_path, 3)
    ahead_by_a_delete(world, tmp_path, began)
    tree, account = History(tmp_path).beginning()
    assert (account.zxid, account.is_exact, account.digests_checked) == (TOLD + 1, True, 1)
    assert tree.first_difference(world.at(TOLD + 1), except_below="/zookeeper/") is None


@BEGAN
@pytest.mark.parametrize("fails", [False, True])
def test_a_wrong_snapshot_is_found_by_the_next_digest(tmp_path: Path, began: int, fails: bool) -> None:
    """It lacks a znode that nobody deleted. A failed request writes no digest, so it tells nothing."""
    world = busy(lambda world: world.fail() if fails else world.set("/n", b"7"))
    first_bad = TOLD + 2 if fails else TOLD + 1
    world.log(tmp_path, 3)
    path = ahead_by_a_delete(world, tmp_path, began)
    history = History(tmp_path)
    found = history.verify()
    assert (digest_verdict(found), found.first_bad_zxid, is_right(found)) == ("mismatch", first_bad, False)
    assert [each[:4] for each in found.snapshots] == [
        (path, began, False, "its digest is not that of the tree replayed")
    ]
    assert [history.tree_at(zxid=zxid).account.is_exact for zxid in range(TOLD, 11)] == [False] * 5
    assert history.tree_at().account.first_bad_zxid == first_bad
    assert history.beginning().account.first_bad_zxid == first_bad


@BEGAN
@pytest.mark.parametrize("goes_on", [False, True])
def test_where_nothing_follows_it_is_not_called_right(tmp_path: Path, began: int, goes_on: bool) -> None:
    """At the end of the files, and before a hole, nothing tells one that is ahead from a wrong one."""
    world = deleting()
    world.log(tmp_path, 3, TOLD)
    if goes_on:
        world.log(tmp_path, TOLD + 2)
    path = ahead_by_a_delete(world, tmp_path, began)
    history = History(tmp_path)
    found = history.verify()
    assert (found.first_bad_zxid, is_right(found)) == (None, False)
    assert found.holes == ([Hole(TOLD + 1, TOLD + 1)] if goes_on else [])
    ((checked, zxid, agrees, detail, _),) = found.snapshots
    assert (checked, zxid, agrees) == (path, began, False)
    assert "no record behind it tells whether it holds one transaction more" in detail
    account = history.tree_at(zxid=TOLD).account
    assert (account.is_exact, account.is_in_doubt, account.first_bad_zxid) == (False, True, None)


def test_a_snapshot_alone_whose_digest_is_another(tmp_path: Path) -> None:
    """There is no record at all to compare with: what it ends with is compared, and the tree not exact."""
    ahead_by_a_delete(deleting(), tmp_path, TOLD)
    history = History(tmp_path)
    assert not history.tree_at().account.is_exact
    assert [each.agrees for each in history.verify().snapshots] == [False]


def test_behind_the_whole_log_it_is_compared_as_ever(tmp_path: Path) -> None:
    """The tree is replayed from the first record on, and has the digest that the snapshot ends with."""
    world = deleting()
    world.log(tmp_path)
    ahead_by_a_delete(world, tmp_path, 4)
    found = History(tmp_path).verify()
    assert (digest_verdict(found), is_right(found), found.unchecked) == ("clean", True, 0)
    assert [each.agrees for each in found.snapshots] == [True]
