"""`--input` with tree snapshots over time: how they are found, what is left out, and what is refused."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from tests.real.cli.audit.golden import V394
from tests.worlds.cut_histories import cuts_of, history_of, write_series, write_tree
from tests.worlds.server_history import ServerHistory
from tests.worlds.shell import Shell
from zkgroup.zkfiles.exports import ExportReader, write_export
from zkgroup.zkfiles.history import History

CLUSTER = b'{"version":"1","id":"%s"}'
COMMANDS = (
    *(["tree"], ["diff", "40", "90"], ["owners", "--group", "g"], ["offsets", "--group", "g"]),
    *(["sessions"], ["summary"], ["findings"]),
)


@pytest.fixture
def world() -> ServerHistory:
    return history_of(7)


def _exports(world: ServerHistory, folder: Path, *zxids: int, chroot: str = "") -> list[Path]:
    return [write_tree(folder / f"hour-{zxid}.gz", world.at(zxid), chroot=chroot) for zxid in zxids]


def test_names_and_order_do_not_matter(lone_shell: Shell, world: ServerHistory, tmp_path: Path) -> None:
    """Files, a folder of them, several behind one `--input` and each behind its own."""
    files = [str(path) for path in _exports(world, tmp_path / "exports", 90, 40, 60)]
    (tmp_path / "exports" / "README").write_text("nightly")
    (tmp_path / "link").symlink_to(tmp_path / "exports")
    words = ("audit", "offsets", "--group", "g", "--format", "json")

    of_folder = lone_shell.run(*words, "--input", str(tmp_path / "exports"))

    assert of_folder.code == 0
    assert "neither snapshots nor exports, so ignored: README" in of_folder.err
    assert of_folder.document["as_of"]["zxid"] == 90
    for inputs in (
        ["--input", *files],
        [word for file in files for word in ("--input", file)],
        ["--input", *files * 2],
        ["--input", str(tmp_path / "link")],
    ):
        assert lone_shell.json(*words, *inputs) == of_folder.document
    assert sum(row["writes"] or 0 for row in of_folder.document["offsets"]) > 0


def test_a_moment_has_the_last_snapshot_before_it(
    lone_shell: Shell, world: ServerHistory, tmp_path: Path
) -> None:
    """Exact at its own zxid; else the file is named. Before the first one nothing is known."""
    first, last = _exports(world, tmp_path, 40, 90)
    words = ("audit", "tree", "--input", str(tmp_path), "--format", "json")

    at, between = lone_shell.run(*words, "--at", "90"), lone_shell.run(*words, "--at", "89")
    before = lone_shell.run(*words, "--at", "39")

    assert (at.code, at.document["exact"], at.document["as_of"]["zxid"]) == (0, True, 90)
    assert (between.code, between.document["exact"], between.document["as_of"]["zxid"]) == (0, False, 40)
    assert f"{first} is the last snapshot until then" in between.err
    assert (before.code, before.out) == (5, "")
    assert str(first) in before.err
    time = at.document["as_of"]["time"]
    assert lone_shell.json(*words, "--at", time)["as_of"]["zxid"] == 90
    assert str(last) not in between.err
    made = lone_shell.json("audit", "export", *words[2:4], "--at", "89", f"{tmp_path / 'made'}/")
    assert (made["exact"], made["zxid_before"]) == (True, 40)


def test_the_offsets_of_yesterday_are_those_of_its_last_snapshot(
    lone_shell: Shell, world: ServerHistory, tmp_path: Path
) -> None:
    """Out of a folder, and out of all of its files as a shell gives them for `*`, with the group behind."""
    files = _exports(world, tmp_path / "exports", 40, 60, 90)
    words = ("offsets", "export", "--at", "89", "--input")
    true = {
        path: znode.data.decode()
        for path in world.at(60).paths("/consumers/g/offsets")
        if (znode := world.at(60).stored(path)) is not None and znode.data
    }

    of_folder = lone_shell.run(*words, str(tmp_path / "exports"), "g")
    of_files = lone_shell.run(*words, *map(str, files), "g")
    files[0].write_bytes(files[0].read_bytes()[:-30])
    partly = lone_shell.run(*words, str(tmp_path / "exports"), "g")

    assert (of_folder.code, of_files) == (0, of_folder)
    assert dict(line.rsplit(":", 1) for line in of_folder.lines) == true
    assert f"{files[1]} is the last snapshot until then" in of_folder.err
    assert (partly.code, partly.out) == (3, of_folder.out)


def test_a_damaged_file_is_named_and_the_rest_is_answered(
    lone_shell: Shell, world: ServerHistory, tmp_path: Path
) -> None:
    """One that ends early, one with a wrong byte, a server's snapshot, an empty one. Exit code 3 always."""
    _exports(world, tmp_path, 40, 90)
    cut, flipped = _exports(world, tmp_path, 50, 60)
    cut.write_bytes(cut.read_bytes()[:-30])
    data = bytearray(flipped.read_bytes())
    data[len(data) // 2] ^= 1
    flipped.write_bytes(data)
    snapshot = world.snapshot(tmp_path, 70)
    snapshot.write_bytes(snapshot.read_bytes()[:-9])
    (tmp_path / "empty.gz").touch()
    damaged = {str(path) for path in (cut, flipped, snapshot, tmp_path / "empty.gz")}

    for words in COMMANDS:
        ran = lone_shell.run("audit", *words, "--input", str(tmp_path), "--format", "json")
        assert ran.code == 3, ran
        assert {each["path"] for each in ran.document["skipped"]} - {None} == damaged
        assert all(f"damaged: {path}: " in ran.err for path in damaged)
    assert lone_shell.run("audit", "inspect", str(tmp_path)).code == 3
    alone = lone_shell.run("audit", "tree", "--input", str(cut))
    assert (alone.code, alone.out) == (3, "")
    assert str(cut) in alone.err


def test_snapshots_of_one_zxid_count_once(lone_shell: Shell, world: ServerHistory, tmp_path: Path) -> None:
    """As the better of them is: one that is whole, and it has the sessions of a server's."""
    _exports(world, tmp_path, 40)
    world.snapshot(tmp_path, 90)
    tree = world.at(90)
    path = write_tree(tmp_path / "less.gz", tree)
    reader = ExportReader(path)
    znodes = [each for each in reader.exported() if not each.path.startswith("/consumers/h")]
    header = reader.header
    write_export(path, replace(header, unreadable=("/consumers/h",)), znodes, overwrite=True)
    words = ("audit", "tree", "/consumers/h/offsets", "--input", str(tmp_path), "--format", "json")

    ran = lone_shell.run(*words)

    assert (ran.code, ran.document["exact"]) == (0, True)
    assert "1 snapshot of a zxid that another one has, too" in ran.err
    sessions = lone_shell.json("audit", "sessions", "--input", str(tmp_path))["sessions"]
    assert len(sessions) == len(tree.sessions)


@pytest.mark.parametrize("kind", ["ids", "restored", "copied", "clock", "servers"])
def test_two_ensembles_are_refused_with_both_names(lone_shell: Shell, tmp_path: Path, kind: str) -> None:
    """Another cluster id; zxids that began anew, also from a copy; and a later export with a lower zxid."""
    one, other = ServerHistory(digests=False), ServerHistory(digests=False)
    other.clock_steps(0 if kind in ("ids", "copied") else 86_400_000)
    for number, each in enumerate((one, other)):
        each.create("/cluster", None)
        each.create("/a", b"1")
        if kind == "ids":
            each.create("/cluster/id", CLUSTER % (b"%022d" % number))
        if kind == "copied":
            each.create(f"/b{number}")
        for _ in range(4):
            each.set("/a", b"%d" % number)
    if kind == "clock":
        other = ServerHistory(1 << 32, digests=False)
        one.clock_steps(86_400_000)
        one.create("/late")
        other.create("/other")
    first = write_tree(tmp_path / "one.gz", one.at(one.zxid))
    second = write_tree(tmp_path / "other.gz", other.at(other.zxid))
    if kind == "servers":
        one, other = ServerHistory(digests=False), ServerHistory(1 << 32 | 1, digests=False)
        one.clock_steps(86_400_000)
        one.create("/one")
        other.create("/other")
        first, second = one.snapshot(tmp_path, one.zxid), other.snapshot(tmp_path, other.zxid)

    for words in COMMANDS:
        ran = lone_shell.run("audit", *words, "--input", str(first), str(second))
        assert (ran.code, ran.out) == (2, ""), ran
        assert str(first) in ran.err
        assert str(second) in ran.err
        assert "not of one ensemble" in ran.err


def test_a_chroot_is_of_the_whole_ensemble(lone_shell: Shell, tmp_path: Path) -> None:
    """An export below it fits, one of the whole tree is cut; another one is refused."""
    world = ServerHistory(digests=False)
    for path in ("/kafka", "/kafka/a", "/kafka2", "/other"):
        world.create(path, b"x")
    whole = _exports(world, tmp_path, 3)[0]
    world.snapshot(tmp_path / "server", 4)
    inner = ServerHistory(5, digests=False)
    inner.tree = world.at(4)
    below = [znode for znode in ExportReader(whole).exported() if f"{znode.path}/".startswith("/kafka/")]
    made = tmp_path / "below.gz"
    header = ExportReader(whole).header
    header = replace(header, chroot="/kafka", zxid_before=5, zxid_after=5)
    write_export(made, header, [each._replace(path=each.path[6:] or "/") for each in below])
    words = ("audit", "tree", "--format", "json")
    inputs = ("--input", str(whole), str(tmp_path / "server"), str(made))

    found = [lone_shell.json(*words, *inputs, "--chroot", "/kafka", "--at", str(zxid)) for zxid in (3, 4, 5)]
    mixed, wrong = lone_shell.run(*words, *inputs), lone_shell.run(*words, *inputs, "--chroot", "/kafka2")

    assert [[znode["path"] for znode in each["znodes"]] for each in found] == [["/", "/a"]] * 3
    assert (mixed.code, wrong.code) == (2, 2)
    assert "name the chroot with --chroot /kafka" in mixed.err
    assert str(made) in wrong.err
    alone = lone_shell.json(*words, "--input", str(made))
    assert [znode["path"] for znode in alone["znodes"]] == ["/", "/a"]


def test_a_fuzzy_snapshot_is_not_exact(lone_shell: Shell, world: ServerHistory, tmp_path: Path) -> None:
    """It is of the end of its window at the earliest."""
    world.snapshot(tmp_path, 40, until=44, told=44)
    world.snapshot(tmp_path, 90)
    words = ("audit", "tree", "--input", str(tmp_path), "--format", "json")

    fuzzy, before = lone_shell.run(*words, "--at", "44"), lone_shell.run(*words, "--at", "43")

    assert (fuzzy.document["exact"], fuzzy.document["as_of"]["zxid"]) == (False, 44)
    assert "it was taken while writes went on, from 0x28 to 0x2c" in fuzzy.err
    assert before.code == 5
    assert lone_shell.json("audit", "diff", "--input", str(tmp_path), "44", "90")["exact"] is False


def test_what_is_not_known_at_both_ends_is_no_difference(
    lone_shell: Shell, world: ServerHistory, tmp_path: Path
) -> None:
    """A path that changed while the export was read is in no difference, whatever it is later."""
    changed = "/consumers/g/offsets/t"
    later = world.at(99)
    write_tree(tmp_path / "one.gz", world.at(60), changed=(changed,), until=later)
    write_tree(tmp_path / "two.gz", later)

    found = lone_shell.json("audit", "diff", "--input", str(tmp_path), "60", "99")

    assert found["exact"] is False
    paths = {each["path"] for each in found["changes"]}
    assert paths
    assert changed not in paths
    assert found["unknown"] == [changed]
    told = lone_shell.run("audit", "diff", "--input", str(tmp_path), "60", "99", "/consumers")
    assert (told.code, f"not known at both ends: 1 path: {changed}" in told.err) == (0, True)


def test_what_is_not_known_is_not_said_to_be_missing(
    lone_shell: Shell, world: ServerHistory, tmp_path: Path
) -> None:
    """A znode that went while the tree was read; its offset is not exported, and exports keep the path."""
    group = "/consumers/lost/offsets/t"
    for path in ("/consumers/lost", "/consumers/lost/offsets", group, f"{group}/0", f"{group}/1"):
        world.create(path, b"7")
    before = world.zxid
    world.delete(f"{group}/1")
    changed = [f"{group}/1"]
    first = write_tree(tmp_path / "one.gz", world.at(before), changed=changed, until=world.at(world.zxid))
    world.create("/later")
    write_tree(tmp_path / "two.gz", world.at(world.zxid))
    inputs = ("--input", str(tmp_path))

    tree = lone_shell.run("audit", "tree", *inputs, "--at", str(before), f"{group}/1")
    diff = lone_shell.run("audit", "diff", *inputs, str(before), str(world.zxid), f"{group}/1")
    offsets = lone_shell.run("offsets", "export", *inputs, "--at", str(before), "lost")

    for ran in (tree, diff):
        assert (ran.code, ran.out) == (5, "")
        assert f"{group}/1: not known in {first}: {group}/1 changed while this tree was exported" in ran.err
    assert (offsets.code, offsets.lines) == (4, [f"{group}/0:7"])
    assert f"not exported: {group}/1: changed while this tree was exported" in offsets.err
    made = lone_shell.json("audit", "export", *inputs, "--at", str(before), f"{tmp_path / 'again'}/")
    assert (made["exact"], made["changed"]) == (False, changed)


def test_a_difference_from_a_damaged_tree_is_exit_3(
    lone_shell: Shell, world: ServerHistory, tmp_path: Path
) -> None:
    """As that tree alone is: records are missing between the logs and a later snapshot."""
    world.log(tmp_path, 0, 60)
    world.snapshot(tmp_path, 90)
    inputs = ("--input", str(tmp_path))

    assert lone_shell.run("audit", "tree", *inputs, "--at", "70").code == 3
    assert lone_shell.run("audit", "diff", *inputs, "70", "90").code == 3
    assert lone_shell.run("audit", "diff", *inputs, "60", "90").code == 0


def test_what_logs_cover_they_answer(lone_shell: Shell, tmp_path: Path) -> None:
    """Exports of a server's past beside its folder change no answer; a later one adds what it knows."""
    exports = tmp_path / "exports"
    for zxid in ("0x60", "0x100"):
        lone_shell.json("audit", "export", "--input", str(V394), "--at", zxid, f"{exports}/")
    inputs = ("--input", str(V394), str(exports))

    for words in (
        ["owners", "--group", "g"],
        ["offsets"],
        ["sessions"],
        ["tree", "--at", "0x101"],
        ["summary"],
    ):
        alone = lone_shell.run("audit", *words, *inputs[:2], "--format", "json")
        both = lone_shell.run("audit", *words, *inputs, "--format", "json")
        assert (both.code, both.document) == (alone.code, alone.document)

    last = lone_shell.json("audit", "tree", *inputs[:2])["as_of"]["zxid"]
    tree = History(V394).tree_at().tree
    tree.zxid = last + 5
    write_tree(exports / "later.gz", tree)
    assert lone_shell.json("audit", "tree", *inputs)["as_of"]["zxid"] == last + 5
    between = lone_shell.json("audit", "tree", *inputs, "--at", str(last + 4))
    assert (between["as_of"]["zxid"], between["exact"]) == (last, True)
    assert lone_shell.json("audit", "diff", *inputs, str(last), str(last + 5))["changes"] == []
    sessions = [lone_shell.json("audit", "sessions", *each)["sessions"] for each in (inputs[:2], inputs)]
    assert ["open" in {row["ended"] for row in rows} for rows in sessions] == [True, False]


def test_a_folder_of_exports_is_inspected(lone_shell: Shell, world: ServerHistory, tmp_path: Path) -> None:
    """By zxid, beside a server's files; what is neither is named."""
    _exports(world, tmp_path, 90, 40)
    write_series(tmp_path, world, cuts_of(7, world), random.Random(3))
    (tmp_path / "notes.txt").write_text("nightly")

    ran = lone_shell.run("audit", "inspect", str(tmp_path), "--format", "json")
    found = ran.document["files"]

    assert "neither snapshots nor exports, so ignored: notes.txt" in ran.err
    assert {each["kind"] for each in found} == {"export", "snapshot"}
    for kind in ("export", "snapshot"):
        zxids = [each["first_zxid"] for each in found if each["kind"] == kind]
        assert zxids == sorted(zxids)
