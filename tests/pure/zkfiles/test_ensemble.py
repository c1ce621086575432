"""What the servers of one ensemble have together, and what of it is certain."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds import zkfiles_writer as writer
from tests.worlds.server_history import ServerHistory
from tests.worlds.zkfiles_tables import is_right
from zkgroup.errors import MixedEnsembleError, NotZooKeeperFileError
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.records import Hole, Operation, TransactionType, follows, hole_between

EPOCH = 1 << 32


def ensemble_world() -> ServerHistory:
    """Six records of epoch 1, and four of epoch 2."""
    world = ServerHistory(EPOCH | 1)
    world.create("/n")
    for number in range(5):
        world.set("/n", bytes([number]))
    world.new_epoch()
    for number in range(5, 9):
        world.set("/n", bytes([number]))
    return world


def zxids(history: History, **more: bool) -> list[int]:
    return [each.zxid for each in history.transactions(**more)]


def one(counter: int) -> int:
    return EPOCH | counter


def two(counter: int) -> int:
    return 2 * EPOCH | counter


def test_each_epoch_counts_from_1() -> None:
    """Else every election would look like a hole, or a hole at the front of an epoch like an election."""
    assert follows(2, 1)
    assert follows(two(1), one(9))
    assert not follows(two(2), one(9))
    assert hole_between(one(3), one(7)) == Hole(one(4), one(6))
    assert hole_between(one(3), two(3)) == Hole(two(1), two(2))
    assert hole_between(one(3), two(1)) is None
    assert hole_between(one(3), one(3)) is None


def test_a_hole_of_one_server_is_filled_from_another(tmp_path: Path) -> None:
    """A server that was given a snapshot lacks records that the others have."""
    world = ensemble_world()
    world.log(tmp_path / "a", 0, one(2))
    world.log(tmp_path / "a", two(2))
    world.log(tmp_path / "b", one(2), two(3))
    history = History(tmp_path / "a", tmp_path / "b", voters=3)
    assert zxids(history) == [each.zxid for each in world.transactions]
    assert is_right(history.verify())
    assert history.verify().digests_checked == 10
    assert not is_right(History(tmp_path / "a").verify())


def test_a_tail_that_the_ensemble_went_on_without_is_left_out(tmp_path: Path) -> None:
    """The deposed leader had proposed two records that nobody else got."""
    world = ensemble_world()
    for name in ("b", "c"):
        world.log(tmp_path / name)
    _two_lost_at_the_end_of_epoch_1().log(tmp_path / "a")
    history = History(*(tmp_path / name for name in "abc"))
    assert zxids(history) == [each.zxid for each in world.transactions]
    found = history.verify()
    assert found.rolled_back == {one(7): (tmp_path / "a",), one(8): (tmp_path / "a",)}
    assert (is_right(found), found.splits) == (True, {})


def _two_lost_at_the_end_of_epoch_1() -> ServerHistory:
    """The log of a leader that was deposed with two proposals that nobody else got."""
    deposed = ServerHistory(EPOCH | 1)
    deposed.create("/n")
    for number in range(5):
        deposed.set("/n", bytes([number]))
    deposed.set("/n", b"lost")
    deposed.set("/n", b"too")
    return deposed


def test_a_tail_in_the_log_of_a_leader_that_came_back_by_a_snapshot_is_left_out(tmp_path: Path) -> None:
    """With a snapshot nothing is cut off: the lost records stay, and those of the next epoch follow them."""
    world = ensemble_world()
    for name in ("b", "c"):
        world.log(tmp_path / name)
    world.snapshot(tmp_path / "a", two(2))
    came_back = [*_two_lost_at_the_end_of_epoch_1().transactions, *world.transactions[-2:]]
    writer.write_log(tmp_path / "a", came_back)
    history = History(*(tmp_path / name for name in "abc"))
    assert zxids(history) == [each.zxid for each in world.transactions]
    found = history.verify()
    assert found.rolled_back == {one(7): (tmp_path / "a",), one(8): (tmp_path / "a",)}
    assert (is_right(found), found.splits) == (True, {})
    assert history.tree_at(zxid=one(8)).tree.digest == history.tree_at(zxid=one(6)).tree.digest


def test_a_record_that_another_server_has_by_a_snapshot_counts(tmp_path: Path) -> None:
    """The end of epoch 1 is in one log; the server whose log lacks it was given a snapshot that has it."""
    world = ensemble_world()
    world.log(tmp_path / "a")
    world.log(tmp_path / "b", 0, one(4))
    world.snapshot(tmp_path / "b", one(6))
    world.log(tmp_path / "b", two(1))
    history = History(tmp_path / "a", tmp_path / "b", voters=3)
    assert zxids(history) == [each.zxid for each in world.transactions]
    assert history.verify().rolled_back == {}


def test_a_record_that_another_log_may_have_lost_to_damage_counts(tmp_path: Path) -> None:
    """Damage up to the end of an epoch does not show that its server went on without what it lost."""
    world = ensemble_world()
    world.log(tmp_path / "a")
    path = world.log(tmp_path / "b", 0, one(6))
    world.log(tmp_path / "b", two(1))
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)
    history = History(tmp_path / "a", tmp_path / "b", voters=3)
    assert one(6) not in [each.zxid for each in history.ensemble.servers[1].transactions()]
    assert zxids(history) == [each.zxid for each in world.transactions]


def test_what_most_voters_have_is_certain(tmp_path: Path) -> None:
    """What only the last leader has may be cut back at the next election; it is given, and told."""
    world = ensemble_world()
    world.log(tmp_path / "a")
    world.log(tmp_path / "b", 0, two(2))
    world.log(tmp_path / "c", 0, one(4))
    history = History(*(tmp_path / name for name in "abc"))
    assert history.ensemble.certain_until == two(2)
    assert zxids(history) == [each.zxid for each in world.transactions]
    assert zxids(history, certain_only=True)[-1] == two(2)
    assert is_right(history.verify())
    assert history.tree_at(zxid=two(2)).account.is_certain
    account = history.tree_at().account
    assert (account.is_certain, account.detail) == (False, "the last of it may never have been committed")


def test_one_server_of_several_is_sure_of_what_was_before_its_epoch_or_its_snapshot(tmp_path: Path) -> None:
    """Taking part in an epoch, and applying, both need what was committed; the tail behind proves nothing."""
    world = ensemble_world()
    world.log(tmp_path)
    assert zxids(History(tmp_path), certain_only=True)[-1] == one(6)
    world.snapshot(tmp_path, two(3))
    assert History(tmp_path).ensemble.certain_until == two(3)
    assert History(tmp_path, voters=1).ensemble.certain_until == two(4)


def test_a_server_alone_commits_what_it_writes(tmp_path: Path) -> None:
    """In epoch 0 nobody else is asked, so a laptop's folder has no uncertain tail."""
    world = ServerHistory()
    world.create("/n")
    world.set("/n", b"1")
    world.log(tmp_path)
    assert History(tmp_path).ensemble.certain_until == 2


def test_a_record_before_a_certain_one_of_its_epoch_is_certain(tmp_path: Path) -> None:
    """One server has it; the other got a snapshot that stands for it."""
    world = ensemble_world()
    world.log(tmp_path / "a", 0, two(2))
    world.log(tmp_path / "b", two(4))
    world.snapshot(tmp_path / "b", two(3))
    history = History(tmp_path / "a", tmp_path / "b")
    assert zxids(history)[-3:] == [two(1), two(2), two(4)]
    found = history.verify()
    assert (found.rolled_back, found.holes) == ({}, [Hole(two(3), two(3))])


def test_split_history_is_reported_and_most_servers_decide(tmp_path: Path) -> None:
    """Two records with one zxid: a server was set back by hand, or an ensemble was split in two."""
    world = ensemble_world()
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        records = list(world.transactions)
        if name == "a":
            operation = records[4].operations[0]._replace(data=b"other")
            records[4] = records[4]._replace(operations=(operation,))
        writer.write_log(tmp_path / name, records)
    history = History(*(tmp_path / name for name in "abc"))
    taken = next(each for each in history.transactions() if each.zxid == one(5))
    assert taken.operations[0].data == b"\x03"
    found = history.verify()
    assert found.splits == {one(5): ((tmp_path / "b", tmp_path / "c"), (tmp_path / "a",))}
    assert (is_right(found), found.mismatches) == (False, 0)


def test_a_server_that_writes_no_digests_agrees(tmp_path: Path) -> None:
    """The setting is each server's own, so a record without one is not another record."""
    world = ensemble_world()
    world.log(tmp_path / "a")
    (tmp_path / "b").mkdir()
    writer.write_log(tmp_path / "b", [each._replace(digest=None) for each in world.transactions])
    assert History(tmp_path / "a", tmp_path / "b").verify().splits == {}


def test_operations_that_a_leader_overwrote_are_taken_from_another_server(tmp_path: Path) -> None:
    """In a refused multi a leader's own log can have errors where the others have what was asked for."""
    world = ensemble_world()
    failed, right = (Operation(TransactionType.ERROR, error=each) for each in (-110, 0))
    world.multi(world.change("/n", b"never"), failed)
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        records = list(world.transactions)
        if name == "a":
            records[-1] = records[-1]._replace(operations=(right, failed))
        writer.write_log(tmp_path / name, records)
    history = History(*(tmp_path / name for name in "abc"))
    assert list(history.transactions())[-1].operations[0].data == b"never"
    assert is_right(history.verify())


def test_folders_of_two_ensembles_are_an_error(tmp_path: Path) -> None:
    """Joined, they would be a history that never was; the error names both folders and the zxid."""
    ensemble_world().log(tmp_path / "a")
    other = ServerHistory(EPOCH | 1)
    other.create("/other")
    other.log(tmp_path / "b")
    history = History(tmp_path / "a", tmp_path / "b")
    for act in (history.verify, history.tree_at, lambda: list(history.transactions())):
        with pytest.raises(
            MixedEnsembleError, match=f"the first transaction that both have, {one(1):#x}, differs"
        ) as error:
            act()
        assert str(tmp_path / "a") in str(error.value)
        assert str(tmp_path / "b") in str(error.value)


@pytest.mark.parametrize("is_same", [False, True], ids=["two ensembles", "one"])
def test_logs_of_two_ensembles_in_one_folder_are_an_error(tmp_path: Path, is_same: bool) -> None:
    """A server writes a zxid once: logs that overlap have the same record, or are not of one server."""
    first, other = ServerHistory(), ServerHistory()
    for number in range(8):
        first.create(f"/{number}")
        other.create(f"/other-{number}")
    first.log(tmp_path, to_zxid=5)
    (first if is_same else other).log(tmp_path, from_zxid=3)
    history = History(tmp_path)

    for act in (history.tree_at, history.verify, lambda: list(history.transactions())):
        if is_same:
            act()
            continue
        with pytest.raises(
            MixedEnsembleError, match=r"log.1 and .*log.3 are not .* 0x3, differs; copy the files"
        ):
            act()


def test_folders_that_share_no_record_are_joined(tmp_path: Path) -> None:
    """Archives of one ensemble's days: nothing in them contradicts that they are."""
    world = ensemble_world()
    world.log(tmp_path / "a", 0, one(6))
    world.log(tmp_path / "b", two(1))
    assert is_right(History(tmp_path / "a", tmp_path / "b").verify())


def test_records_that_a_log_repeats_are_left_out_and_noted(tmp_path: Path) -> None:
    """Applying a stretch twice is harmless in a tree, but an audit would count its writes twice."""
    world = ensemble_world()
    world.log(tmp_path, 0, one(5))
    path = world.log(tmp_path, one(4))
    history = History(tmp_path)
    assert zxids(history) == [each.zxid for each in world.transactions]
    assert history.ensemble.servers[0].overlaps == {path: one(4)}


def test_a_log_that_is_none_is_damage_and_one_that_cannot_be_opened_an_error(tmp_path: Path) -> None:
    """The one says something of the history; the other, here one that was purged meanwhile, of the reader."""
    world = ensemble_world()
    world.log(tmp_path, 0, one(5))
    path = tmp_path / f"log.{one(6):x}"
    path.write_bytes(b"no log at all" * 10)
    found = History(tmp_path).verify()
    assert [(each.path, each.offset) for each in found.damages] == [(path, 0)]
    assert (found.records, is_right(found)) == (5, False)
    history = History(tmp_path)
    path.unlink()
    with pytest.raises(NotZooKeeperFileError, match=path.name):
        history.verify()


def test_a_range_is_read_from_inside_of_a_log(tmp_path: Path) -> None:
    """Both ends belong to it, across epochs, at the last record and beyond it."""
    world = ensemble_world()
    world.log(tmp_path)
    history = History(tmp_path)
    assert [each.zxid for each in history.transactions(one(3), two(2))] == [
        one(3),
        one(4),
        one(5),
        one(6),
        two(1),
        two(2),
    ]
    assert list(history.transactions(two(5))) == []
    assert [each.zxid for each in history.transactions(two(4))] == [two(4)]
