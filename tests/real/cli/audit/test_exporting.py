"""`zkgroup audit export`: a live ensemble or a folder becomes a file that every audit command reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.real.cli.audit.golden import V394, copy, damaged_copy
from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell
from zkgroup.audit.inputs.one_tree import walk
from zkgroup.model.requests import Create
from zkgroup.testing import MemoryZooKeeper
from zkgroup.zkfiles.exports import ExportReader, write_export
from zkgroup.zookeeper import ClientSettings, Digest, Secret, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.settings import CREATOR_ALL_ACL


def test_a_living_tree_is_written_and_read_back(shell: Shell, groups: ServerGroups, tmp_path: Path) -> None:
    """Below the chroot of the address; its Stats and data are those that a client reads."""
    groups.parents("g")
    groups.zk.multi(Create("/consumers/g/ids/one", b"\x00\xff", ephemeral=True))
    address = str(shell.environment["ZKGROUP_ZOOKEEPER"])
    file = tmp_path / "tree.gz"

    document = shell.json("audit", "export", str(file))

    live = shell.json("znode", "tree", "/")["znodes"]
    assert shell.json("audit", "tree", "--input", str(file))["znodes"] == live
    assert (document["exact"], document["znodes"]) == (True, len(live))
    assert document["zxid_before"] == document["zxid_after"] == document["as_of"]["zxid"]
    header = ExportReader(file).header
    assert f"{header.source}{header.chroot}" == address
    assert {znode.acl for znode in ExportReader(file).exported()} == {((31, "world", "anyone"),)}


def test_questions_of_a_living_ensemble_are_those_of_its_export(
    shell: Shell, groups: ServerGroups, tmp_path: Path
) -> None:
    """What needs no log is answered, the rest is named."""
    groups.parents("g")
    file = str(tmp_path / "tree.gz")
    exported = shell.json("audit", "export", file)

    for words in (["tree", "/consumers"], ["findings"], ["sessions"], ["offsets", "--group", "g"]):
        live = shell.json("audit", *words)
        written = shell.json("audit", *words, "--input", file)
        assert at_no_moment(live) == at_no_moment(written)
        assert written["as_of"] == exported["as_of"], "all of it stood until it was read"
    assert shell.json("audit", "findings")["skipped"]
    for words in (["owners", "--group", "g"], ["offsets", "--group", "g", "--rewinds"], ["sessions"]):
        assert "no transactions were read" in shell.run("audit", *words).err, "silence would mean health"
    assert "not searched for: 38 findings (needs a log)" in shell.run("audit", "summary").err
    misspelt = shell.run("audit", "offsets", "--input", file, "--chroot", "/consumer")
    assert misspelt.code == 2
    assert "expected a snapshot below the chroot /consumer, found one of" in misspelt.err
    assert shell.run("audit", "findings", "--since", "1").code == 2
    assert shell.run("audit", "tree", "--at", "1").code == 5


def at_no_moment(answer: Any) -> Any:
    """An answer without the moment of its tree, from which on its findings are so."""
    if isinstance(answer, dict):
        moments = dict.fromkeys({"as_of", "from", "from_zxid"} & answer.keys())
        return {key: at_no_moment(value) for key, value in answer.items()} | moments
    return [at_no_moment(each) for each in answer] if isinstance(answer, list) else answer


def test_the_memory_server_is_written_too(tmp_path: Path) -> None:
    """The walk needs nothing but a store."""
    store = MemoryZooKeeper().client()
    with Blocking(store) as zk:
        zk.multi(Create("/a", None), Create("/a/b", b""))
        write_export(tmp_path / "tree.gz", *walk(zk))
        served = zk.read_many(["/a", "/a/b"])
    store.close()

    read = {znode.path: znode for znode in ExportReader(tmp_path / "tree.gz").exported()}

    assert set(read) == {"/", "/a", "/a/b", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"}
    for path, znode in served.items():
        assert znode is not None
        assert (read[path].data, read[path].stat) == (znode.data, znode.stat)


def test_what_may_not_be_read_is_named_and_exit_4(shell: Shell, zk_server: Any, tmp_path: Path) -> None:
    """The rest is written."""
    mine = ClientSettings(auth=Digest("me", Secret("canary")), acl=CREATOR_ALL_ACL)
    with ZooKeeperClient(zk_server.address, mine) as client, Blocking(client) as owner:
        owner.multi(Create("/private", b"data"))
        owner.multi(Create("/private/below", b"data"))
    file = tmp_path / "tree.gz"

    document = shell.json("audit", "export", str(file), code=4)

    assert (document["unreadable"], document["exact"]) == (["/private"], False)
    assert [znode.path for znode in ExportReader(file).exported()] == ["/"]
    assert "could not be read" in shell.run("audit", "tree", "--input", str(file)).err


def test_the_tree_of_a_folder_at_a_moment(lone_shell: Shell, tmp_path: Path) -> None:
    """The same as `audit tree` of it; with a chroot, what is below that."""
    whole, below = str(tmp_path / "whole.gz"), str(tmp_path / "below.gz")
    words = ("--input", str(V394), "--at", "0x100")

    made = lone_shell.json("audit", "export", whole, *words)
    lone_shell.json("audit", "export", below, *words, "--chroot", "/consumers")

    past = lone_shell.json("audit", "tree", *words)
    assert lone_shell.json("audit", "tree", "--input", whole) == past
    assert (made["exact"], made["zxid_before"]) == (True, 0x100)
    assert (
        lone_shell.json("audit", "tree", "--input", below)["znodes"]
        == lone_shell.json("audit", "tree", *words, "--chroot", "/consumers")["znodes"]
    )
    assert lone_shell.run("audit", "export", str(tmp_path / "no.gz"), *words, "--chroot", "/no").code == 5
    assert not (tmp_path / "no.gz").exists()


def test_what_is_there_is_not_written_over_by_accident(lone_shell: Shell, tmp_path: Path) -> None:
    """Exit 2 without --overwrite; a folder that is not there too."""
    file = tmp_path / "tree.gz"
    words = ("--input", str(V394))
    lone_shell.json("audit", "export", str(file), *words)

    again = lone_shell.run("audit", "export", str(file), *words)
    over = lone_shell.run("audit", "export", *words, str(file), "--overwrite")
    nowhere = lone_shell.run("audit", "export", str(tmp_path / "none" / "tree.gz"), *words)

    assert (again.code, over.code, nowhere.code) == (2, 0, 2)
    assert "--overwrite" in again.err
    assert over.out.startswith(f"wrote {file}: ")
    assert [path.name for path in tmp_path.iterdir()] == ["tree.gz"]


def test_nothing_is_written_into_what_is_read(lone_shell: Shell, tmp_path: Path) -> None:
    """Evidence stays as it is."""
    folder = copy(V394, tmp_path / "copied")
    before = sorted(path.name for path in folder.iterdir())

    for given in (folder, folder.parent):
        ran = lone_shell.run("audit", "export", str(folder / "tree.gz"), "--input", str(given))
        assert (ran.code, ran.out) == (2, "")
    assert lone_shell.run("audit", "export", str(folder.parent / "tree.gz"), "--input", str(folder)).code == 0
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_tree_that_is_not_proved_stays_so(lone_shell: Shell, tmp_path: Path) -> None:
    """A damaged log on the way is exit 3, and the export says what was missing."""
    damaged_copy(tmp_path)
    file = tmp_path / "tree.gz"

    made = lone_shell.json(*("audit", "export", str(file), "--input", str(tmp_path), "--at", "0x113"), code=3)

    again = lone_shell.run("audit", "tree", "--input", str(file))
    assert made["exact"] is False
    assert "missing" in again.err


def test_interrupted_it_leaves_nothing(
    lone_shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 130; no file, no temporary one."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("zkgroup.zkfiles.tree.Tree.stored", interrupted)

    ran = lone_shell.run("audit", "export", str(tmp_path / "tree.gz"), "--input", str(V394))

    assert (ran.code, list(tmp_path.glob("*.gz*"))) == (130, [])
    assert list(tmp_path.glob(".*tmp")) == []


def test_a_living_ensemble_has_no_past(lone_shell: Shell, tmp_path: Path) -> None:
    """Options that are for files only are refused before anything is asked."""
    for words in (["--at", "5"], ["--chroot", "/a"], ["--rounds", "0"]):
        ran = lone_shell.run("audit", "export", str(tmp_path / "tree.gz"), *words, "-z", "127.0.0.1:1")
        assert ran.code == 2, ran
