"""`zkgroup audit inspect` on folders of real servers, whole and damaged."""

from __future__ import annotations

import csv
import gzip
import json
import os
from pathlib import Path

import pytest

from tests.real.cli.audit.golden import INCIDENTS, V346, V394, copy, damaged_copy
from tests.worlds.server_history import ServerHistory
from tests.worlds.shell import Shell
from zkgroup.zkfiles.exports import ExportHeader, write_export


@pytest.mark.parametrize("folder", [V346, V394, INCIDENTS], ids=lambda folder: folder.name)
def test_folders_of_real_servers_are_healthy(lone_shell: Shell, folder: Path) -> None:
    """Snapshots and logs by zxid, by the version-2 or the folder above it; no ensemble is asked."""
    document = lone_shell.json("audit", "inspect", str(folder))

    files = document["files"]
    assert {file["healthy"] for file in files} == {True}
    assert [file["path"] for file in files] == [
        file["path"] for file in lone_shell.json("audit", "inspect", str(folder / "version-2"))["files"]
    ]
    assert {Path(file["path"]) for file in files} == set((folder / "version-2").iterdir())
    assert document["as_of"] == {"zxid": max(file["last_zxid"] for file in files), "time": None}


def test_the_report_of_a_log_and_of_snapshots(lone_shell: Shell) -> None:
    """A log has its first and last zxid; a snapshot from before 3.6 does not say where it ended."""
    log, snapshot = V346 / "version-2" / "log.102.gz", V346 / "version-2" / "snapshot.100.gz"
    newer = V394 / "version-2" / "snapshot.114.gz"

    files = lone_shell.json("audit", "inspect", str(log), str(snapshot), "--input", str(newer))["files"]

    assert files[0] == {
        "path": str(log),
        "kind": "log",
        "first_zxid": 0x102,
        "last_zxid": 0x1F1,
        "records": 240,
        "healthy": True,
        "good_until_zxid": 0x1F1,
        "exact": True,
        "detail": None,
        "oversized": [],
    }
    assert [(file["kind"], file["first_zxid"], file["exact"]) for file in files[1:]] == [
        ("snapshot", 0x100, False),
        ("snapshot", 0x114, False),
    ]


def test_every_format(lone_shell: Shell) -> None:
    """One row a file; zxids in hex for people."""
    words = ("audit", "inspect", str(V394))
    table = lone_shell.run(*words)
    rows = list(csv.DictReader(lone_shell.run(*words, "--format", "csv").lines))
    lines = [json.loads(line) for line in lone_shell.run(*words, "--format", "ndjson").lines]

    assert (table.code, table.err) == (0, "")
    assert [len(table.lines) - 1, len(rows)] == [len(lines)] * 2
    assert "0x114" in table.out
    assert [row["path"] for row in rows] == [line["path"] for line in lines]


def test_a_half_copied_log_is_good_up_to_its_last_record(lone_shell: Shell, tmp_path: Path) -> None:
    """No damage: a copy of a file that is being written ends so."""
    whole = gzip.decompress((V394 / "version-2" / "log.1.gz").read_bytes()).rstrip(b"\0")
    (tmp_path / "log.1").write_bytes(whole[:-5])

    (file,) = lone_shell.json("audit", "inspect", str(tmp_path))["files"]

    assert (file["healthy"], file["exact"]) == (True, False)
    assert file["good_until_zxid"] == file["last_zxid"] > 0
    assert "not whole" in file["detail"]


def test_a_damaged_file_is_exit_3_with_the_last_good_transaction(lone_shell: Shell, tmp_path: Path) -> None:
    """A flipped bit in a log, a snapshot cut off, a packed file cut off; the others are still reported."""
    folder = damaged_copy(tmp_path)
    snapshot = gzip.decompress((folder / "snapshot.66.gz").read_bytes())
    (folder / "snapshot.66.gz").unlink()
    (folder / "snapshot.66").write_bytes(snapshot[:-1])
    packed = (folder / "log.116.gz").read_bytes()
    (folder / "log.116.gz").write_bytes(packed[: len(packed) // 2])

    ran = lone_shell.run("audit", "inspect", str(folder), "--format", "json")
    found = lone_shell.run("audit", "findings", str(folder), "--only", "digest_mismatch").out

    files = {Path(file["path"]).name: file for file in ran.document["files"]}
    assert (ran.code, ran.err) == (3, "3 files of 6 damaged\n")
    assert {name for name, file in files.items() if not file["healthy"]} == {
        *("log.68", "snapshot.66", "log.116.gz")
    }
    assert 0x68 <= files["log.68"]["good_until_zxid"] < files["log.68"]["last_zxid"]
    assert files["snapshot.66"]["good_until_zxid"] is None
    assert files["snapshot.66"]["last_zxid"] is None
    assert "snapshot.66: byte " in " ".join(found.split())
    assert "when    zxid 0x66\n" in found
    assert all(file["detail"] for file in files.values() if not file["healthy"])


def test_an_export_is_inspected_too(lone_shell: Shell, tmp_path: Path) -> None:
    """Whole and half-written."""
    path = tmp_path / "tree.gz"
    write_export(path, ExportHeader(time_ms=1, source="", zxid_before=7, zxid_after=9, changed=("/a",)), [])
    (whole,) = lone_shell.json("audit", "inspect", str(path))["files"]
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    path.write_bytes(gzip.compress(b"".join(lines[:-1])))
    (half,) = lone_shell.json("audit", "inspect", str(path), code=3)["files"]

    assert (whole["kind"], whole["healthy"], whole["exact"], whole["good_until_zxid"]) == (
        *("export", True, False, 7),
    )
    assert "1 paths changed" in whole["detail"]
    assert (half["healthy"], half["good_until_zxid"]) == (False, None)


def test_what_is_none_of_zookeepers_is_refused(lone_shell: Shell, tmp_path: Path) -> None:
    """With the path, never a traceback. Exit 5 for nothing; 2 for an empty folder, another file, no name."""
    other = tmp_path / "notes.txt"
    other.write_text("hello")
    (tmp_path / "empty").mkdir()
    for given in (tmp_path / "none", tmp_path / "empty", tmp_path, other):
        ran = lone_shell.run("audit", "inspect", str(given))
        assert (ran.code, ran.out) == (5 if given.name == "none" else 2, ""), given
        assert str(given) in ran.err
        assert "bug" not in ran.err
    assert lone_shell.run("audit", "inspect").code == 2


def test_others_among_several_are_left_out_with_a_note(lone_shell: Shell, tmp_path: Path) -> None:
    """`version-2/*` names files that are no data too. What was named and is not there is no such file."""
    folder = copy(V394, tmp_path)
    (folder / "acceptedEpoch").write_text("1")
    (tmp_path / "empty").mkdir()
    words = ("audit", "inspect", *(str(path) for path in sorted(folder.iterdir())))

    ran = lone_shell.run(*words)

    assert (ran.code, len(ran.lines)) == (0, 7)
    assert "acceptedEpoch" in ran.err
    assert lone_shell.run(*words, str(tmp_path / "none")).code == 5
    assert lone_shell.run(*words, str(tmp_path / "empty")).code == 2


def test_a_file_under_a_wrong_name_is_recognised_by_its_content(lone_shell: Shell, tmp_path: Path) -> None:
    """A renamed copy is inspected; one that is not what its name says is damaged."""
    snapshot = gzip.decompress((V394 / "version-2" / "snapshot.66.gz").read_bytes())
    (tmp_path / "copied").write_bytes(snapshot)
    (tmp_path / "log.66").write_bytes(snapshot)

    (renamed,) = lone_shell.json("audit", "inspect", str(tmp_path / "copied"))["files"]
    (wrong,) = lone_shell.json("audit", "inspect", str(tmp_path / "log.66"), code=3)["files"]

    assert (renamed["kind"], renamed["healthy"], renamed["first_zxid"]) == ("snapshot", True, None)
    assert (wrong["kind"], wrong["healthy"]) == ("log", False)


def test_a_compressed_copy_under_another_name_is_recognised_by_its_content(
    lone_shell: Shell, tmp_path: Path
) -> None:
    """As plain ones are; a packed file that is cut off at once is none."""
    packed = (V394 / "version-2" / "log.1.gz").read_bytes()
    (tmp_path / "moved").write_bytes(packed)
    (tmp_path / "torn").write_bytes(packed[:12])

    (file,) = lone_shell.json("audit", "inspect", str(tmp_path / "moved"))["files"]
    torn = lone_shell.run("audit", "inspect", str(tmp_path / "torn"))

    assert (file["kind"], file["healthy"], file["first_zxid"]) == ("log", True, 1)
    assert torn.code == 2
    assert "cut off" in torn.err


def test_pipes_and_links_are_not_opened(lone_shell: Shell, tmp_path: Path) -> None:
    """The pipe has no writer, so a reader would wait; what a link names lies elsewhere."""
    folder, elsewhere = copy(V394, tmp_path / "server"), tmp_path / "elsewhere"
    elsewhere.write_bytes(gzip.decompress((folder / "snapshot.66.gz").read_bytes()))
    os.mkfifo(folder / "notes")
    os.mkfifo(folder / "log.999")
    (folder / "linked").symlink_to(elsewhere)

    ran = lone_shell.run(
        "audit", "inspect", *(str(folder / name) for name in ("notes", "linked", "log.1.gz"))
    )
    pipe = lone_shell.json("audit", "inspect", str(folder / "log.999"), code=3)["files"]
    alone = lone_shell.run("audit", "inspect", str(folder / "linked"))
    listed = lone_shell.run("audit", "inspect", str(folder))

    assert (ran.code, len(ran.lines)) == (0, 2)
    assert f"{folder / 'notes'}: expected a snapshot or log to read, found no regular file" in ran.err
    assert f"{folder / 'linked'}: expected a snapshot or log to read, found a link" in ran.err
    assert pipe[0]["detail"] == "expected a snapshot or log to read, found no regular file"
    assert (alone.code, alone.out) == (2, "")
    assert (listed.code, len(listed.lines)) == (0, 7)
    assert "log.999 is no regular file" in listed.err


def test_a_pipe_or_a_link_is_no_input(lone_shell: Shell, tmp_path: Path) -> None:
    """Exit 2 at once, whatever reads it: a link to an export as one to a log."""
    export = tmp_path / "tree.gz"
    write_export(export, ExportHeader(time_ms=1, source="", zxid_before=7, zxid_after=7), [])
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "latest").symlink_to(export)
    words = ("audit", "findings", "--input")

    pipe = lone_shell.run(*words, str(tmp_path / "pipe"))
    link = lone_shell.run(*words, str(tmp_path / "latest"))

    assert lone_shell.run(*words, str(export)).code == 0
    assert (pipe.code, link.code) == (2, 2)
    assert "expected an export, or a folder, found no folder" in pipe.err
    assert "a link, which is not followed" in link.err


def test_a_folder_that_lacks_a_log_is_exit_3(lone_shell: Shell, tmp_path: Path) -> None:
    """Each file is good; the zxids tell that one is missing. Files named alone may be some of many."""
    folder = copy(INCIDENTS, tmp_path)
    (folder / "log.c6.gz").unlink()

    document = lone_shell.json("audit", "inspect", str(folder), code=3)
    ended = lone_shell.run("audit", "inspect", str(tmp_path))
    alone = lone_shell.run("audit", "inspect", *map(str, sorted(folder.glob("log.*"))))

    assert {file["healthy"] for file in document["files"]} == {True}
    assert document["missing"] == [{"from_zxid": 0xC6, "to_zxid": 0x1AD}]
    assert (ended.code, ended.err) == (3, "damaged: zxids 0xc6 to 0x1ad are missing\n")
    assert (alone.code, alone.err) == (0, "")


def test_a_table_names_files_below_their_common_folder_and_cuts_nothing(
    lone_shell: Shell, tmp_path: Path
) -> None:
    """At 80 columns the reason and the name of each file are there whole, also of several servers."""
    several = lone_shell.run("audit", "inspect", str(V394), str(V346), env={"COLUMNS": "80"})
    for name in ("snapshot.4", "log.5"):
        (tmp_path / name).write_bytes(b"PK not a log" if name == "log.5" else b"\xca\xfe" * 50)

    ended = lone_shell.run("audit", "inspect", str(tmp_path), env={"COLUMNS": "80"})

    assert [line.split()[0] for line in ended.lines if line[0] != " "][:3] == ["FILE", "snapshot.4", "log.5"]
    text = " ".join(ended.out.split())
    assert "starts with 'ZKSN', found 0xcafecafecafecafe" in text
    assert "starts with 'ZKLG', found 'PK not a'" in text
    assert "…" not in several.out
    assert sum(line.startswith("snapshot.") for line in several.lines) == len(
        [*V394.glob("version-2/snapshot.*"), *V346.glob("version-2/snapshot.*")]
    )


def test_a_transaction_that_no_server_loads_is_exit_3(lone_shell: Shell, tmp_path: Path) -> None:
    """The log is whole, and not good: it names the transaction, its size and the setting."""
    world = ServerHistory()
    world.create("/big", b"b" * 3_000_000)
    world.log(tmp_path)

    ran = lone_shell.run("audit", "inspect", str(tmp_path))
    (file,) = lone_shell.run("audit", "inspect", str(tmp_path), "--format", "json").document["files"]

    assert ran.code == 3
    assert "too large" in ran.out
    assert "jute.maxbuffer" in ran.err
    assert (file["healthy"], [one["zxid"] for one in file["oversized"]]) == (True, [1])
    assert f"{file['oversized'][0]['bytes']:,} bytes" in file["detail"]


def test_a_snapshot_behind_the_last_log_shows_what_is_missing(lone_shell: Shell, tmp_path: Path) -> None:
    """Of snapshots alone nothing is said: there may be no log at all."""
    world = ServerHistory()
    for number in range(6):
        world.create(f"/n{number}")
    world.snapshot(tmp_path, 6)

    alone = lone_shell.run("audit", "inspect", str(tmp_path), "--format", "json")
    world.log(tmp_path, to_zxid=3)
    ran = lone_shell.run("audit", "inspect", str(tmp_path), "--format", "json")

    assert (alone.code, alone.document["missing"]) == (0, [])
    assert (ran.code, ran.document["missing"]) == (3, [{"from_zxid": 4, "to_zxid": 6}])
