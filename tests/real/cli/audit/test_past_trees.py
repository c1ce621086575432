"""`zkgroup audit tree` and `diff`: what was, from the files of real servers."""

from __future__ import annotations

import base64
import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.real.cli.audit.golden import V346, V394, copy, damaged_copy
from tests.worlds.server_history import ServerHistory
from tests.worlds.shell import Shell


def _recorded(folder: Path) -> dict[str, dict[str, Any]]:
    """The tree that a server on these files served."""
    lines = (folder / "tree.jsonl").read_text(encoding="utf-8").splitlines()
    return {record["path"]: record for record in map(json.loads, lines)}


@pytest.mark.parametrize("folder", [V346, V394], ids=lambda folder: folder.name)
def test_the_last_tree_is_the_one_that_the_server_serves(lone_shell: Shell, folder: Path) -> None:
    """All eleven numbers and the data of every znode."""
    document = lone_shell.json("audit", "tree", "--input", str(folder))

    recorded = _recorded(folder)
    found = {one["path"]: one for one in document["znodes"] if not one["path"].startswith("/zookeeper")}
    assert set(found) == set(recorded)
    for path, one in found.items():
        data = recorded[path].get("data64") or recorded[path]["data"]
        assert data in (one["data"], one["data_base64"]), path
        if path != "/":  # the recorder had a session of its own
            assert one["stat"] == recorded[path]["stat"], path
    assert document["exact"] is True


@pytest.mark.parametrize("moment", ["256", "0x100", "0X100"])
def test_a_moment_is_a_zxid_in_decimal_or_hex(lone_shell: Shell, moment: str) -> None:
    """The same tree; as_of is that transaction."""
    document = lone_shell.json("audit", "tree", "--input", str(V394), "--at", moment, "/consumers")

    assert document["as_of"]["zxid"] == 256
    assert document["as_of"]["time"] == "2026-11-20T23:30:00.628Z"
    assert [one["path"] for one in document["znodes"]][:3] == [
        "/consumers",
        "/consumers/g",
        "/consumers/g/ids",
    ]


def test_a_moment_is_a_time_with_any_zone(lone_shell: Shell) -> None:
    """Without one it is UTC: the last transaction at or before it."""
    words = ("audit", "tree", "--input", str(V394), "/consumers", "--at")
    exact = lone_shell.json(*words, "0x100")["as_of"]["time"]

    documents = [
        lone_shell.json(*words, text)
        for text in (exact, exact.removesuffix("Z"), exact.replace("T23", "T22").replace("Z", "-01:00"))
    ]

    assert {document["as_of"]["time"] for document in documents} == {exact}
    assert documents[0] == documents[1] == documents[2]


@pytest.mark.parametrize("moment", ["soon", "-1", "0x", "99999999999999999999", "2026-13-01", "10:00"])
def test_a_moment_that_is_none_is_a_usage_error(lone_shell: Shell, moment: str) -> None:
    """It shows both forms."""
    ran = lone_shell.run("audit", "tree", "--input", str(V394), f"--at={moment}")

    assert (ran.code, ran.out) == (2, "")
    assert "zxid" in ran.err


def test_a_path_that_was_not_there_is_exit_5(lone_shell: Shell) -> None:
    """With what was there."""
    ran = lone_shell.run("audit", "tree", "--input", str(V394), "--at", "0x100", "/consumers/none/ids")

    assert (ran.code, ran.out) == (5, "")
    assert "/consumers was there and held g" in ran.err


def test_before_the_files_begin_is_exit_5(lone_shell: Shell, tmp_path: Path) -> None:
    """By zxid and by time."""
    folder = tmp_path / "version-2"
    folder.mkdir()
    for name in ("snapshot.114.gz", "log.116.gz"):
        shutil.copy(V394 / "version-2" / name, folder)

    for moment in ("5", "2020-01-01T00:00:00Z"):
        ran = lone_shell.run("audit", "tree", "--input", str(tmp_path), "--at", moment)
        assert (ran.code, ran.out) == (5, ""), ran


def test_behind_the_end_of_the_files_it_is_the_last_tree_with_a_note(lone_shell: Shell) -> None:
    """What was asked for may be in files that were not copied."""
    ran = lone_shell.run("audit", "tree", "--input", str(V394), "--at", "0xffff", "/brokers/ids")
    last = lone_shell.run("audit", "tree", "--input", str(V394), "/brokers/ids")

    assert (ran.code, ran.out) == (0, last.out)
    assert "note: the files end at 0x" in ran.err
    assert ", before 0xffff" in ran.err
    assert "the files end" not in last.err


def test_the_tree_for_people(lone_shell: Shell) -> None:
    """Drawn, with ephemerals; below it how good it is."""
    ran = lone_shell.run("audit", "tree", "--input", str(V394), "--at", "0x100", "/consumers/g/ids")

    assert ran.code == 0
    assert ran.lines[0] == "/consumers/g/ids"
    assert "ephemeral 0x100002539810008" in ran.lines[1]
    assert ran.err == "the tree at 0x100: exact\n"


def test_with_a_chroot_paths_are_those_of_clients(lone_shell: Shell) -> None:
    """What is outside is not there; `/` is the chroot itself."""
    words = ("--input", str(V394), "--chroot", "/consumers/g/", "--at", "0x100")
    whole = lone_shell.json("audit", "tree", *words)
    below = lone_shell.json("audit", "tree", *words, "/ids")
    diff = lone_shell.json("audit", "diff", *words[:4], "0x0", "0x100", "/ids")

    assert [one["path"] for one in whole["znodes"]][:2] == ["/", "/ids"]
    assert below["znodes"][0]["path"] == "/ids"
    assert {change["path"] for change in diff["changes"]} == {one["path"] for one in below["znodes"]}
    assert lone_shell.run("audit", "tree", *words, "/brokers").code == 5
    assert lone_shell.run("audit", "tree", "--input", str(V394), "--chroot", "g").code == 2
    misspelt = ("--input", str(V394), "--chroot", "/consumer")
    for asked in (("findings", *misspelt), ("diff", *misspelt, "0x0", "0x100")):
        ran = lone_shell.run("audit", *asked)
        assert (ran.code, "at or below the chroot /consumer\n" in ran.err) == (0, True)
    ran = lone_shell.run("audit", "tree", *misspelt, "--at", "0x100")
    assert (ran.code, "/consumer: there was no such chroot at 0x100\n" in ran.err) == (5, True)


def test_a_damaged_log_on_the_way_is_exit_3(lone_shell: Shell, tmp_path: Path) -> None:
    """What is known is shown, with what is missing."""
    folder = damaged_copy(tmp_path)

    ran = lone_shell.run("audit", "tree", "--input", str(tmp_path), "--at", "0x113", "--format", "json")

    assert ran.code == 3
    assert ran.document["exact"] is False
    assert "damaged: " in ran.err
    assert str(folder / "log.68") in ran.err
    assert "missing" in ran.err


def test_folders_of_two_ensembles_are_refused(lone_shell: Shell) -> None:
    """Named both; exit 2."""
    ran = lone_shell.run("audit", "tree", "--input", str(V394), "--input", str(V346))

    assert (ran.code, ran.out) == (2, "")
    assert str(V394) in ran.err
    assert str(V346) in ran.err
    assert "bug" not in ran.err


@pytest.mark.parametrize("command", [["tree"], ["diff", "1", "2"], ["findings"], ["sessions"]])
def test_what_is_no_folder_of_zookeeper_is_refused(
    lone_shell: Shell, tmp_path: Path, command: list[str]
) -> None:
    """With the path, never a traceback. Exit 5 for nothing; 2 for an empty folder and a file."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("hello")
    for name, code in (("none", 5), ("empty", 2), ("file", 2)):
        ran = lone_shell.run("audit", *command, "--input", str(tmp_path / name))
        assert (ran.code, ran.out) == (code, ""), ran
        assert str(tmp_path / name) in ran.err
        assert name != "file" or "expected an export, or a folder, found a file" in ran.err
        assert "bug" not in ran.err


def test_files_and_a_living_ensemble_exclude_each_other(lone_shell: Shell) -> None:
    """Of options; an address in the environment does not count."""
    both = lone_shell.run("audit", "tree", "--input", str(V394), "-z", "127.0.0.1:1")
    lone_shell.environment["ZKGROUP_ZOOKEEPER"] = "127.0.0.1:1"
    quiet = lone_shell.run("audit", "tree", "--input", str(V394), "/brokers/ids")
    chroot = lone_shell.run("audit", "tree", "--chroot", "/a")

    assert (both.code, quiet.code, chroot.code) == (2, 0, 2)
    assert "exclude each other" in both.err


def test_what_one_server_lacks_another_has(lone_shell: Shell, tmp_path: Path) -> None:
    """The same tree as from the whole folder; one of them alone says what is missing."""
    for server, names in {"one": ("log.1.gz", "log.116.gz"), "two": ("log.68.gz", "snapshot.66.gz")}.items():
        (tmp_path / server / "version-2").mkdir(parents=True)
        for name in names:
            shutil.copy(V394 / "version-2" / name, tmp_path / server / "version-2")
    one, two = str(tmp_path / "one"), str(tmp_path / "two")

    both = lone_shell.json("audit", "tree", "--input", one, "--input", two)
    alone = lone_shell.run("audit", "tree", "--input", one, "--format", "json")
    events = lone_shell.json("audit", "sessions", one, two)

    whole = lone_shell.json("audit", "tree", "--input", str(V394))
    assert (both["znodes"], both["exact"]) == (whole["znodes"], True)
    assert (alone.code, alone.document["exact"]) == (3, False)
    assert "0x68 to 0x115 are missing" in alone.err
    assert events == lone_shell.json("audit", "sessions", str(V394))


def test_several_folders_may_follow_one_option(lone_shell: Shell, tmp_path: Path) -> None:
    """A path of a znode behind them is none of them, even where there is such a folder."""
    shutil.copytree(V394, tmp_path / "again")
    given = ("--input", str(V394), str(tmp_path / "again"))

    for words in (
        ["tree", *given, "/brokers/ids"],
        ["tree", *given, "--at", "0x163", "/brokers/ids"],
        ["tree", "/brokers/ids", *given],
        ["tree", f"--input={V394}", str(tmp_path / "again"), "/brokers/ids"],
    ):
        assert len(lone_shell.json("audit", *words)["znodes"]) == 3, words
    assert lone_shell.json("audit", "tree", *given, "/")["path"] == "/"
    assert lone_shell.run("audit", "tree", *given[:2], "--", given[2]).code == 5
    assert lone_shell.json("audit", "diff", *given, "0x90", "0x91", "/tmp")["changes"] == []
    assert lone_shell.json("audit", "sessions", *given) == lone_shell.json("audit", "sessions", str(V394))


@pytest.mark.parametrize("command", [["tree"], ["inspect"], ["findings"]])
def test_a_folder_that_may_not_be_read_is_refused(
    lone_shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    """The user of the tests may read everything, so the refusal is made up."""

    def forbidden(path: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("zkgroup.zkfiles.files.os.scandir", forbidden)

    ran = lone_shell.run("audit", *command, "--input", str(tmp_path))

    assert (ran.code, ran.out) == (2, "")
    assert f"{tmp_path}: expected an export, or a folder to read, found Permission denied" in ran.err


def test_tables_fit_the_terminal(lone_shell: Shell) -> None:
    """No line is longer than the width asked for."""
    for words in (
        ["inspect"],
        ["findings"],
        ["sessions"],
        ["owners", "--group", "g", "--partition", "orders:0"],
        ["offsets", "--group", "g"],
        ["diff", "0x90", "0x110"],
    ):
        for width in (80, 160):
            ran = lone_shell.run("audit", *words, "--input", str(V394), env={"COLUMNS": str(width)})
            assert ran.code == 0
            assert max(map(len, ran.lines)) <= width, words
            assert words[0] != "diff" or not any("…" in line.split()[0] for line in ran.lines)


def test_without_any_input_both_ways_are_named(lone_shell: Shell) -> None:
    """Folders or an ensemble."""
    ran = lone_shell.run("audit", "tree")

    assert ran.code == 2
    assert "--input" in ran.err
    assert "-z HOST:PORT" in ran.err.replace("\n", " ")


def test_a_diff_is_what_the_two_trees_differ_in(lone_shell: Shell) -> None:
    """Both ways, and by time."""
    words = ("audit", "diff", "--input", str(V394))
    trees = [
        {
            one["path"]: one
            for one in lone_shell.json("audit", "tree", "--input", str(V394), "--at", at)["znodes"]
        }
        for at in ("0x90", "0x110")
    ]

    document = lone_shell.json(*words, "0x90", "0x110")
    back = lone_shell.json(*words, "0x110", "0x90")

    expected = {path for path in {*trees[0], *trees[1]} if trees[0].get(path) != trees[1].get(path)}
    assert {change["path"] for change in document["changes"]} == expected
    for change in document["changes"]:
        assert (change["before"], change["after"]) == tuple(tree.get(change["path"]) for tree in trees)
        kinds = {(False, True): "added", (True, False): "removed", (True, True): "changed"}
        assert change["change"] == kinds[change["before"] is not None, change["after"] is not None]
    assert (document["from_zxid"], document["to_zxid"], document["exact"]) == (0x90, 0x110, True)
    assert document["as_of"]["zxid"] == back["as_of"]["zxid"] == 0x110
    assert [(c["path"], c["before"], c["after"]) for c in back["changes"]] == [
        (c["path"], c["after"], c["before"]) for c in document["changes"]
    ]
    names = {name for change in document["changes"] for name in change["fields"]}
    assert {"numChildren", "pzxid", "data"} <= names


def test_a_diff_over_what_is_missing_is_exit_3(lone_shell: Shell, tmp_path: Path) -> None:
    """It says what it is, and that it is not all."""
    folder = copy(V394, tmp_path)
    for name in ("log.68.gz", "snapshot.114.gz"):
        (folder / name).unlink()

    ran = lone_shell.run("audit", "diff", "--input", str(tmp_path), "0x60", "0x120", "--format", "json")

    assert (ran.code, ran.document["exact"]) == (3, False)
    assert "damaged: zxids 0x68 to 0x115 are missing" in ran.err


def test_a_diff_of_snapshots_alone(lone_shell: Shell, tmp_path: Path) -> None:
    """Two of them are compared; nothing is said of a time in which there is one."""
    world = ServerHistory()
    for number in range(6):
        world.create(f"/n{number}")
    for zxid in (2, 5):
        world.snapshot(tmp_path, zxid)
    words = ("audit", "diff", "--input", str(tmp_path))
    json = ("--format", "json")

    whole, later = lone_shell.run(*words, "2", "5", *json), lone_shell.run(*words, "2", "6", *json)
    part = lone_shell.run(*words, "2", "4", *json)

    assert (whole.code, whole.document["exact"], len(whole.document["changes"])) == (0, True, 4)
    assert (later.code, later.document["exact"], len(later.document["changes"])) == (0, False, 4)
    assert (part.code, part.out) == (5, "")
    assert f"{tmp_path / 'snapshot.2'} is the last snapshot until both moments" in part.err


def test_a_diff_for_people_and_tables(lone_shell: Shell) -> None:
    """A znode of which only children were created or deleted is not in the table."""
    words = ("audit", "diff", "--input", str(V394), "0x100", "0x110")
    table = lone_shell.run(*words)
    rows = list(csv.DictReader(lone_shell.run(*words, "--format", "csv").lines))

    assert [line.split()[0] for line in table.lines[1:]] == [
        *("/kinds", "/kinds/container/x", "/kinds/ttl", "/kinds/ttlseq0000000002")
    ]
    assert "4 paths differ from 0x100 to 0x110, and 1 more in its children alone" in table.err
    assert len(rows) == 5


def test_a_diff_needs_a_past(lone_shell: Shell) -> None:
    """A live ensemble has no past, and a moment behind the files is their end."""
    live = lone_shell.run("audit", "diff", "1", "2", "-z", "127.0.0.1:1")
    beyond = lone_shell.run("audit", "diff", "--input", str(V394), "0x150", "0x999")

    assert (live.code, beyond.code) == (2, 0)
    assert "--input" in live.err
    assert "as far as the files show" in beyond.err
    assert "the files end at 0x163" in beyond.err


@pytest.mark.parametrize(
    "words", [("tree",), ("diff", "1", "2"), ("export", "out.gz")], ids=lambda words: words[0]
)
def test_parquet_has_no_trees(lone_shell: Shell, tmp_path: Path, words: tuple[str, ...]) -> None:
    """Nobody is sent for the name of an ensemble, which would not help."""
    (tmp_path / "manifest").mkdir()
    (tmp_path / "manifest" / "0000000001.json").write_text('{"version": 4, "number": 1, "ensembles": {}}')

    ended = lone_shell.run("audit", *words, "--input", str(tmp_path))

    assert (ended.code, "operations and no trees: name the folders of servers" in ended.err) == (2, True)


def test_binary_data_comes_in_base64(lone_shell: Shell) -> None:
    """As `znode get` has it."""
    document = lone_shell.json("audit", "tree", "--input", str(V346), "/other")

    encoded = [one["data_base64"] for one in document["znodes"] if one["data_base64"] is not None]
    assert encoded
    with pytest.raises(UnicodeDecodeError):
        base64.b64decode(encoded[0]).decode()


def test_interrupting_is_exit_130(lone_shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A word, no traceback."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("zkgroup.zkfiles.history.History.tree_at", interrupted)

    ran = lone_shell.run("audit", "tree", "--input", str(V394))

    assert (ran.code, ran.out, ran.err.strip()) == (130, "", "interrupted")
