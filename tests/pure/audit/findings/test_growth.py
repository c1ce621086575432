"""What came and went between two snapshots."""

from __future__ import annotations

from pathlib import Path

from tests.worlds.audit_folders import look
from tests.worlds.server_history import ServerHistory
from zkgroup.audit.findings.files import growth


def grown() -> tuple[ServerHistory, int, int]:
    """A history with two zxids at which snapshots may be taken."""
    world = ServerHistory()
    for path in ("/a", "/a/x", "/a/y", "/b", "/c"):
        world.create(path, b"12")
    before = world.zxid
    world.create("/a/z", b"345")
    world.delete("/a/x")
    world.set("/a/y", b"6789")
    world.delete("/c")
    after = world.create("/d", b"1")
    return world, before, after


def test_each_subtree_that_changed_is_reported(tmp_path: Path) -> None:
    """What changed between two snapshots is a row for each subtree: znodes that came and went, and bytes."""
    world, before, after = grown()
    world.snapshot(tmp_path, before)
    world.snapshot(tmp_path, after)
    world.log(tmp_path)

    found = look(growth, tmp_path)

    assert {(each.severity, each.from_zxid, each.to_zxid) for each in found} == {("info", before, after)}
    assert [each.detail for each in found] == [
        "/a: 1 added, 1 removed, 1 changed; 3 znodes, 6 bytes of data -> 3, 9 bytes",
        "/c: 0 added, 1 removed, 0 changed; 1 znode, 2 bytes of data -> 0, 0 bytes",
        "/d: 1 added, 0 removed, 0 changed; 0 znodes, 0 bytes of data -> 1, 1 byte",
    ]


def test_deeper_subtrees_are_separate_rows(tmp_path: Path) -> None:
    """With `depth=2` the children of `/a` have rows of their own."""
    world, before, after = grown()
    world.snapshot(tmp_path, before)
    world.snapshot(tmp_path, after)

    found = look(growth, tmp_path, depth=2)

    assert [each.detail.partition(":")[0] for each in found] == ["/a/x", "/a/y", "/a/z", "/c", "/d"]


def test_a_znode_that_was_made_anew_is_changed(tmp_path: Path) -> None:
    """A znode that was deleted and made again with the same data counts as changed."""
    world, before, _ = grown()
    world.delete("/b")
    again = world.create("/b", b"12")
    world.snapshot(tmp_path, before)
    world.snapshot(tmp_path, again)

    assert "/b: 0 added, 0 removed, 1 changed; 1 znode, 2 bytes of data -> 1, 2 bytes" in [
        each.detail for each in look(growth, tmp_path)
    ]


def test_each_step_is_reported_and_snapshots_of_several_servers_are_one_row(tmp_path: Path) -> None:
    """Each snapshot is compared with the next by zxid; two of one zxid on two servers count once."""
    world, before, after = grown()
    world.snapshot(tmp_path / "one", before)
    world.snapshot(tmp_path / "one", after)
    world.snapshot(tmp_path / "two", after)
    world.snapshot(tmp_path / "two", 2)

    steps = [(each.from_zxid, each.to_zxid) for each in look(growth, tmp_path / "one", tmp_path / "two")]

    assert sorted(set(steps)) == [(2, before), (before, after)]


def test_one_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    """A torn snapshot is left out; those that can be read are compared."""
    world, before, after = grown()
    torn = world.snapshot(tmp_path, 3)
    torn.write_bytes(torn.read_bytes()[:-10])
    world.snapshot(tmp_path, before)
    world.snapshot(tmp_path, after)

    assert {(each.from_zxid, each.to_zxid) for each in look(growth, tmp_path)} == {(before, after)}


def test_a_single_snapshot_did_not_grow(tmp_path: Path) -> None:
    """One snapshot has nothing to be compared with, so there is no row."""
    world, before, _ = grown()
    world.snapshot(tmp_path, before)

    assert look(growth, tmp_path) == []
