"""`zkgroup audit export` into a folder: once, as cron runs it, and again and again with `--every`."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.real.cli.audit.golden import V394
from tests.waiting import eventually
from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell
from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.zkfiles.exports import export_name, named_export

OLD = (export_name(3, 1_577_836_800_000), f".{export_name(5, 1_577_836_800_000)}.0a_b1c2d.tmp")
FOREIGN = ("tree.gz", "export-3.gz")


@pytest.fixture
def exports(tmp_path: Path) -> Path:
    """A folder with an old export, what was left of another, and files of other names."""
    folder = tmp_path / "exports"
    folder.mkdir()
    for name in (*OLD, *FOREIGN):
        (folder / name).write_text("")
    return folder


def test_cron_fills_a_folder(shell: Shell, groups: ServerGroups, tmp_path: Path) -> None:
    """It is made where it is not there; names sort by zxid, and each file is an export."""
    groups.parents("g")
    folder = tmp_path / "exports"

    made = [shell.json("audit", "export", f"{folder}/") for _ in range(2)]

    names = sorted(path.name for path in folder.iterdir())
    assert [str(folder / name) for name in names] == [one["file"] for one in made]
    assert [one.zxid for name in names if (one := named_export(name))] == [one["zxid_before"] for one in made]
    assert [(one["written"], one["removed"], one["exact"]) for one in made] == [(True, [], True)] * 2
    for one in made:
        assert shell.json("audit", "tree", "--input", one["file"], "/consumers/g")["znodes"]


def test_the_same_zxid_is_written_once(lone_shell: Shell, tmp_path: Path) -> None:
    """For cron nothing has gone wrong: exit 0, and the file that is there is named."""
    words = ("audit", "export", f"{tmp_path}/exports/", "--input", str(V394))

    first, again = lone_shell.json(*words), lone_shell.json(*words)

    assert (first["written"], again) == (True, {**first, "written": False})
    assert [path.name for path in (tmp_path / "exports").iterdir()] == [Path(first["file"]).name]
    assert lone_shell.run(*words).out.endswith("as before: nothing was written\n")


def test_a_tree_of_a_folder_goes_into_another(lone_shell: Shell, tmp_path: Path) -> None:
    """The folder to write to may be behind the one that is read; what is half-written there is no export."""
    folder, copies = tmp_path / "exports", tmp_path / "copies"
    words = ("audit", "export", "--input", str(V394), f"{folder}/")
    made = [lone_shell.json(*words, "--at", str(zxid)) for zxid in (0x68, 0x90)]
    half = folder / f".{Path(made[0]['file']).name}.a1b2c3d4.tmp"
    half.write_bytes(Path(made[0]["file"]).read_bytes()[:-9])

    copied = lone_shell.json("audit", "export", "--input", str(folder), f"{copies}/")
    again = lone_shell.json("audit", "export", "--input", str(folder), str(copies))
    inside = lone_shell.run("audit", "export", "--input", str(folder), "--", str(folder))

    assert (Path(copied["file"]).name, copied["exact"]) == (Path(made[1]["file"]).name, True)
    assert again == {**copied, "written": False}
    assert (inside.code, "among the files that are read" in inside.err) == (2, True)
    assert lone_shell.run("audit", "tree", "--input", str(folder)).code == 0


def test_what_is_older_goes_with_keep(shell: Shell, groups: ServerGroups, exports: Path) -> None:
    """Of the files that the command has named; nothing else, and no link."""
    (exports / export_name(4, 1_577_836_800_000)).symlink_to(exports / "tree.gz")

    made = shell.json("audit", "export", "--keep", "30d", str(exports))

    assert sorted(made["removed"]) == sorted(OLD)
    left = {path.name for path in exports.iterdir()}
    assert left == {*FOREIGN, Path(made["file"]).name, export_name(4, 1_577_836_800_000)}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_exports_until_a_signal(
    shell: Shell, groups: ServerGroups, exports: Path, number: signal.Signals
) -> None:
    """An event for each file, and exit code 0; no half-written file is left."""
    words = ("audit", "export", "--every", "1s", "--keep", "1d", str(exports))

    with shell.start(*words) as serving:
        found = [serving.until_event("exported") for _ in range(2)]
        code = serving.stop(number)

    assert (code, serving.errors) == (0, "stopped\n")
    assert sorted(found[0]["removed"]) == sorted(OLD)
    names = {Path(one["file"]).name for one in serving.events}
    assert {path.name for path in exports.iterdir()} == {*FOREIGN, *names}
    assert found[0]["zxid_before"] < found[1]["zxid_before"]


def test_an_ensemble_that_is_away_costs_a_line(
    shell: Shell, zk_chaos_server: ChaosZooKeeper, tmp_path: Path
) -> None:
    """Each try is one line that names the next; once the ensemble is back, files come again."""
    words = ("audit", "export", "--every", "1s", str(tmp_path / "exports"), "--connect-timeout", "1s")

    with shell.start(*words, "-z", zk_chaos_server.address) as serving:
        before = serving.until_event("exported")
        zk_chaos_server.cut(refuse=True)
        eventually(lambda: "the next try is at" in serving.errors)
        zk_chaos_server.heal()
        after = serving.until(lambda event: event["zxid_before"] > before["zxid_before"])
        code = serving.stop()

    assert code == 0
    assert "no connection to ZooKeeper" in serving.errors
    assert all("the next try is at" in line for line in serving.errors.splitlines()[:-1])
    written = [Path(one["file"]).name for one in serving.events]
    assert sorted(path.name for path in (tmp_path / "exports").iterdir()) == written
    assert Path(after["file"]).name in written


def test_a_signal_ends_a_try_that_waits(lone_shell: Shell, tmp_path: Path) -> None:
    """Also while nobody answers: exit code 0, and no word about the try."""
    words = ("audit", "export", "--every", "1h", str(tmp_path / "exports"), "--connect-timeout", "10m")

    with lone_shell.start(*words, "-z", "127.0.0.1:1") as serving:
        eventually((tmp_path / "exports").is_dir)
        code = serving.stop()

    assert (code, serving.errors, serving.events) == (0, "stopped\n", [])


def test_options_that_do_not_fit_are_refused(lone_shell: Shell, exports: Path, tmp_path: Path) -> None:
    """Exit 2 before anything is asked, and the message says what is expected."""
    files = ("--input", str(V394))
    refused: dict[tuple[Any, ...], str] = {
        ("--every", "1", str(exports)): "has no unit",
        ("--every", "10ms", str(exports)): "at least 1000ms",
        ("--every", "soon", str(exports)): "is no duration",
        ("--every", "40d", str(exports)): "at most 24d",
        ("--every", "1h", "--keep", "30m", str(exports)): "--keep is shorter than --every",
        ("--every", "1h", "--format", "csv", str(exports)): "--format table or ndjson",
        ("--every", "1h", *files, str(exports)): "for a live ensemble",
        ("--keep", "1d", *files, str(exports)): "for a live ensemble",
        ("--every", "1h", "--at", "5", str(exports)): "has no past",
        ("--keep", "1d", str(tmp_path / "tree.gz")): "end OUTPUT with a slash",
        ("--overwrite", str(exports)): "a name of its own",
        (f"{tmp_path}/no/where/",): "No such file",
        ("--every", "1h", str(exports / "tree.gz")): "expected a folder",
    }

    for words, text in refused.items():
        live = () if "--input" in words else ("-z", "127.0.0.1:1")
        ran = lone_shell.run("audit", "export", *words, *live)
        assert ran.code == 2, (words, ran)
        assert text in " ".join(ran.err.split()), words
    assert {path.name for path in exports.iterdir()} == {*OLD, *FOREIGN}
