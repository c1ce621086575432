"""Replays that do not give the tree that the servers had."""

from __future__ import annotations

from pathlib import Path

from tests.worlds.audit_folders import calm, look, places
from tests.worlds.server_history import ServerHistory
from zkgroup.audit.findings.files import digest_mismatch
from zkgroup.zkfiles.records import TreeDigest


def old() -> ServerHistory:
    """A history of a server before 3.6."""
    world = ServerHistory(digests=False, lists=False)
    world.open(1)
    world.create("/a")
    world.create("/a/x")
    world.set("/a", b"1")
    world.set("/a", b"2")
    return world


def test_the_first_bad_digest_is_an_error(tmp_path: Path) -> None:
    """A tree that is wrong stays wrong: what follows is not told again."""
    world = calm()
    for at in (2, 3):
        world.transactions[at] = world.transactions[at]._replace(digest=TreeDigest(2, 7))
    world.log(tmp_path)

    found = look(digest_mismatch, tmp_path)

    assert places(found) == [("error", 3, 3)]
    assert found[0].detail == "the digest of the whole tree is another than the server's"


def test_without_digests_it_is_never_clean(tmp_path: Path) -> None:
    """What stands in their place is told."""
    world = old()
    world.snapshot(tmp_path, 3, tells=False)
    world.snapshot(tmp_path, 5, tells=False)
    world.log(tmp_path)

    (found,) = look(digest_mismatch, tmp_path)

    assert (found.severity, found.from_zxid) == ("info", None)
    assert found.detail.startswith(
        "not_applicable: the servers wrote no digests; compared instead were what 5"
    )


def test_without_digests_a_version_that_does_not_follow_is_an_error(tmp_path: Path) -> None:
    """Before 3.6 versions stand in: a write that gets version 7 after 1 is an error with its path."""
    world = old()
    wrong = world.transactions[4].operations[0]._replace(version=7)
    world.transactions[4] = world.transactions[4]._replace(operations=(wrong,))
    world.log(tmp_path)

    found = look(digest_mismatch, tmp_path)[0]

    assert (found.severity, found.from_zxid, found.detail) == (
        "error",
        5,
        "the data of /a gets version 7 after 1",
    )


def test_without_digests_a_snapshot_that_is_not_the_tree_is_an_error(tmp_path: Path) -> None:
    """Before 3.6 a snapshot with data that the log never wrote is an error with its file and path."""
    world = old()
    other = old()
    other.set("/a/x", b"never logged")
    other.snapshot(tmp_path, 3, until=6, tells=False)
    world.snapshot(tmp_path, 5, tells=False)
    world.log(tmp_path)

    errors = [each for each in look(digest_mismatch, tmp_path) if each.severity == "error"]

    assert [(each.from_zxid, each.detail) for each in errors] == [(3, "snapshot.3: /a/x is not as replayed")]


def test_digests_that_begin_midway_are_said_to(tmp_path: Path) -> None:
    """A folder that was upgraded."""
    world = calm()
    for at in range(3):
        world.transactions[at] = world.transactions[at]._replace(digest=None)
    world.log(tmp_path)

    (found,) = look(digest_mismatch, tmp_path)

    assert found.severity == "info"
    assert found.detail.startswith(
        "not_applicable to all: digests begin at 0x4; compared instead were what 3"
    )


def test_a_snapshot_that_cannot_be_read_is_a_warning(tmp_path: Path) -> None:
    """It may have been copied while the server wrote it."""
    world = calm()
    path = world.snapshot(tmp_path, 4)
    path.write_bytes(path.read_bytes()[:-3])
    world.log(tmp_path)

    found = look(digest_mismatch, tmp_path)

    assert places(found) == [("warning", 4, 4)]
    assert found[0].detail.startswith("snapshot.4: ")
