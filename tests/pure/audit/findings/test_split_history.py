"""One zxid with different records on two servers."""

from __future__ import annotations

from pathlib import Path

from tests.worlds.audit_folders import calm, look, places
from tests.worlds.server_history import ServerHistory
from zkgroup.audit.findings.files import digest_mismatch, split_history
from zkgroup.zkfiles.records import TreeDigest


def branch(data: bytes, *, digests: bool = True) -> ServerHistory:
    """Servers that agree up to a point, and two records later again."""
    world = ServerHistory(digests=digests)
    world.open(1)
    world.create("/a", b"1")
    world.set("/a", data)
    world.set("/a", data)
    world.set("/a", b"same")
    return world


def test_records_that_differ_are_an_error(tmp_path: Path) -> None:
    """Also before 3.6; records in a row are told together."""
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for folder, data in zip(folders, (b"x", b"y", b"x"), strict=True):
        branch(data, digests=False).log(folder)

    (found,) = look(split_history, *folders)

    assert (found.severity, found.from_zxid, found.to_zxid) == ("error", 3, 4)
    assert found.detail == (
        f"2 records are not the same on all servers: {folders[0]}, {folders[2]} against {folders[1]}"
    )


def test_servers_that_have_the_same_are_not(tmp_path: Path) -> None:
    """Nor is one that has less."""
    world = calm()
    world.log(tmp_path / "one")
    world.log(tmp_path / "two", to_zxid=4)

    assert look(split_history, tmp_path / "one", tmp_path / "two") == []


def test_digests_alone_that_differ_are_a_digest_mismatch(tmp_path: Path) -> None:
    """The same records, and memory that is not the same."""
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for folder in folders:
        world = calm()
        if folder.name == "two":
            world.transactions[3] = world.transactions[3]._replace(digest=TreeDigest(2, 7))
        world.log(folder)

    assert look(split_history, *folders) == []
    found = look(digest_mismatch, *folders)
    assert places(found) == [("error", 4, 4)]
    assert found[0].detail.startswith("1 digest is not the same on all servers: ")
