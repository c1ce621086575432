"""Tree snapshots on Spark give what one process gives, however they came. Tasks run here, without Spark."""

from __future__ import annotations

import json
import os
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.bucket_findings import lists_of
from tests.worlds.cut_histories import (
    cuts_of,
    history_of,
    write_fuzzy,
    write_mixture,
    write_series,
    write_tree,
)
from tests.worlds.history_files import PlayedSpark
from zkgroup.audit.findings.engine import ALL_RULES, audit
from zkgroup.audit.incidents.attribution import numbered
from zkgroup.audit.incidents.incident import findings_document
from zkgroup.audit.inputs.manifest import Folder, OutputFolder
from zkgroup.audit.inputs.opening import open_source
from zkgroup.audit.inputs.source import PointInTime
from zkgroup.audit.spark import series
from zkgroup.audit.spark.job import run
from zkgroup.errors import ConfigError, DamagedFileError, MixedEnsembleError, NotFoundError
from zkgroup.zkfiles.history import History

SEEDS = range(int(os.environ.get("ZKGROUP_SPARK_SERIES", "4")))


def _plain(*places: Path, chroot: str = "", **asked: Any) -> Any:
    found = audit(open_source([*places], chroot), ALL_RULES, **asked)
    return lists_of(findings_document(found, numbered(found)))


def _ran(output: Path, *inputs: object, **asked: Any) -> Any:
    run(PlayedSpark(), [f"x={each}" for each in inputs], str(output), **asked)
    return lists_of(json.loads((output / "findings.json").read_text()))


def _files(seed: int, folder: Path) -> list[Path]:
    """Exports and servers' snapshots; some are of one zxid, and some of a window."""
    world, draw = history_of(seed), random.Random(seed)
    cuts = cuts_of(seed, world, most=14)
    folder.mkdir()
    for zxid in draw.sample(cuts, len(cuts) // 2):
        write_fuzzy(folder, world, zxid, draw)
    return sorted(write_series(folder, world, cuts, draw).iterdir())


@pytest.fixture(params=SEEDS)
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def test_a_series_gives_what_one_process_gives_however_it_came(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All at once, in several tasks; or a few in each run, in any order, and gone before the next one.

    Some are damaged, also those behind which tasks begin; rows are brought together now and then.
    """
    draw = random.Random(seed)
    monkeypatch.setattr(series, "_AT_ONCE", draw.choice((1, 2, 3, 32)))
    monkeypatch.setattr(series, "_MOST_FILES", draw.choice((1, 9, 64)))
    monkeypatch.setattr(series, "_ROWS_AT_ONCE", draw.choice((1, 1 << 20)))
    files = _files(seed, tmp_path / "all")
    for path in draw.sample(files[2:], len(files[2:]) // 3):
        path.write_bytes(path.read_bytes()[:-20])
    expected = _plain(tmp_path / "all")
    if draw.random() < 0.5:
        draw.shuffle(files)
    came = tmp_path / "came"
    came.mkdir()

    assert _ran(tmp_path / "once", tmp_path / "all") == expected
    found = None
    while files:
        for _ in range(min(draw.randrange(1, 4), len(files))):
            shutil.copy(files.pop(), came)
        with suppress(DamagedFileError):  # before any that can be read
            found = _ran(tmp_path / "out", came)
            for path in came.iterdir() if draw.random() < 0.5 else ():
                path.unlink()

    assert found == expected == _ran(tmp_path / "out", came) == _plain(tmp_path / "out")
    plain, stored = (open_source([tmp_path / name]).series[0] for name in ("all", "out"))
    for number in range(len(plain.snapshots)):
        assert sorted(plain.tree(number)) == sorted(stored.tree(number))


def test_what_is_kept_gives_what_a_run_over_it_gives(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is older than `keep_ms` is left out, its rows are deleted, and it is not read again."""
    monkeypatch.setattr(series, "_AT_ONCE", 2)
    output = tmp_path / "out"
    _files(seed, tmp_path / "all")
    snapshots = open_source([tmp_path / "all"]).series[0].snapshots
    since = snapshots[len(snapshots) // 2]
    keep_ms = snapshots[-1].time_ms - since.time_ms
    before = _ran(output, tmp_path / "all")
    kept = tmp_path / "kept"
    kept.mkdir()
    for each in snapshots[since.number :]:
        shutil.copy(each.path, kept)

    found = _ran(output, tmp_path / "all", keep_ms=keep_ms)

    assert found == _plain(kept)
    assert before == _plain(tmp_path / "all")
    (left,) = (path.name for path in (output / "znodes").iterdir())
    assert int(left.removeprefix("batch=")) == OutputFolder(Folder(str(output))).number
    for each in snapshots[: since.number]:
        Path(each.path).write_bytes(b"")  # were they opened, they would be damaged
    batches = OutputFolder(Folder(str(output))).ensembles["x"].series
    assert _ran(output, tmp_path / "all") == found
    assert OutputFolder(Folder(str(output))).ensembles["x"].series == batches


def test_what_was_gone_before_what_is_kept_is_not_known_any_more(tmp_path: Path) -> None:
    """Not by a name, and no row tells of it: members with names of their own would be rows for ever."""
    world = history_of(2)
    gone = ("/consumers/old", "/consumers/old/ids", "/consumers/old/ids/a")
    for path in gone:
        world.create(path, None)
    write_tree(tmp_path / "all" / "0.gz", world.at(world.zxid))
    for path in reversed(gone):
        world.delete(path)
    for number in (1, 2):
        write_tree(tmp_path / "all" / f"{number}.gz", world.at(world.create(f"/x{number}", None)))
    _ran(tmp_path / "out", tmp_path / "all")
    first, _ = open_source([tmp_path / "all"]).series[0].snapshots[1:]
    keep_ms = world.ms - first.time_ms

    _ran(tmp_path / "out", tmp_path / "all", keep_ms=keep_ms)

    (tmp_path / "all" / "0.gz").unlink()
    paths = [sorted(open_source([tmp_path / name]).series[0].paths) for name in ("out", "all")]
    assert paths[0] == paths[1]
    for name in ("out", "all"):
        with pytest.raises(NotFoundError, match="there was no such group"):
            _plain(tmp_path / name, group="old")


def test_a_file_that_is_written_anew_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands there after the job is another snapshot than the one that was converted."""
    world = history_of(2)
    first, last = world.zxid - 20, world.zxid
    path = write_tree(tmp_path / "all" / "latest.gz", world.at(first))
    later = write_tree(tmp_path / "latest.gz", world.at(last))
    in_tasks = series.in_tasks

    def overtaken(*asked: Any) -> Any:
        made = in_tasks(*asked)
        shutil.copy2(later, path)
        return made

    monkeypatch.setattr(series, "in_tasks", overtaken)
    _ran(tmp_path / "out", tmp_path / "all")
    monkeypatch.undo()

    _ran(tmp_path / "out", tmp_path / "all")

    found = open_source([tmp_path / "out"]).series[0].snapshots
    assert [each.zxid for each in found] == [first, last]


def test_what_was_converted_is_not_opened_again(tmp_path: Path) -> None:
    """While it has the same name, size and time; else its content says that it is known."""
    for path in _files(5, tmp_path / "all"):
        shutil.copy2(path, tmp_path / f"again-{path.name}")
    expected = _ran(tmp_path / "out", tmp_path / "all")
    number = OutputFolder(Folder(str(tmp_path / "out"))).number
    for path in (tmp_path / "all").iterdir():
        stat = path.stat()
        path.write_bytes(bytes(stat.st_size))
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    (audited,) = run(PlayedSpark(), [f"x={tmp_path}/a*"], str(tmp_path / "out"))

    assert audited.damages == ()
    assert lists_of(json.loads((tmp_path / "out" / "findings.json").read_text())) == expected
    assert OutputFolder(Folder(str(tmp_path / "out"))).number == number


def test_a_job_that_was_killed_goes_on(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At whatever file it was killed, the next one finds the same."""
    monkeypatch.setattr(series, "_AT_ONCE", 2)
    files, draw = _files(seed, tmp_path / "all"), random.Random(seed)
    expected, write = _plain(tmp_path / "all"), Folder.write
    came = tmp_path / "came"
    came.mkdir()

    class Killed(BaseException):
        pass

    def killing(folder: Folder, name: str, content: bytes) -> None:
        if draw.random() < 0.1:
            raise Killed
        write(folder, name, content)

    monkeypatch.setattr(Folder, "write", killing)
    found = None
    while files or found is None:
        for _ in range(min(draw.randrange(1, 4), len(files))):
            shutil.copy(files.pop(0), came)
        try:
            found = _ran(tmp_path / "out", came)
        except Killed:
            found = None

    assert found == expected


def test_a_damaged_snapshot_is_named_and_the_others_are_answered(tmp_path: Path) -> None:
    """In each run while it is there, and by the output."""
    files = _files(3, tmp_path / "all")
    files[1].write_bytes(files[1].read_bytes()[:-20])
    expected = _plain(tmp_path / "all")

    for _ in range(2):
        (audited,) = run(PlayedSpark(), [f"x={tmp_path}/a*"], str(tmp_path / "out"))
        assert [text.split(": ")[0] for text in audited.damages] == [str(files[1])]
        assert open_source([tmp_path / "out"]).damages() == [*audited.damages]
        assert lists_of(json.loads((tmp_path / "out" / "findings.json").read_text())) == expected


def test_a_damaged_copy_changes_no_output(tmp_path: Path) -> None:
    """It is of a zxid that another file has too, so nothing is to be converted, whatever it says."""
    world = history_of(2)
    path = write_tree(tmp_path / "all" / "1.gz", world.at(world.zxid))
    (tmp_path / "all" / "2.gz").write_bytes(path.read_bytes()[:-20])
    found = _ran(tmp_path / "out", tmp_path / "all")
    number = OutputFolder(Folder(str(tmp_path / "out"))).number

    assert _ran(tmp_path / "out", tmp_path / "all") == found
    assert OutputFolder(Folder(str(tmp_path / "out"))).number == number


def test_the_output_is_an_input_of_the_next_job(tmp_path: Path) -> None:
    """The files are not needed for it; a chroot that it was not converted for is refused."""
    _files(4, tmp_path / "all")
    expected = _ran(tmp_path / "out", tmp_path / "all")
    shutil.rmtree(tmp_path / "all")

    assert _ran(tmp_path / "again", tmp_path / "out") == expected
    with pytest.raises(ConfigError, match="expected the chroot / of its ensemble x, found /other"):
        _ran(tmp_path / "out", tmp_path / "all", chroot="/other")
    with pytest.raises(ConfigError, match="expected each ensemble once, found x in several inputs"):
        _ran(tmp_path / "new", tmp_path / "out", tmp_path / "out")


@pytest.mark.parametrize("chroot", ["/consumers", "/none"])
def test_a_chroot_is_that_of_all_snapshots(tmp_path: Path, chroot: str) -> None:
    """Also one in which there is nothing; the output answers for it alone."""
    _files(6, tmp_path / "all")
    expected = _plain(tmp_path / "all", chroot=chroot)

    assert _ran(tmp_path / "out", tmp_path / "all", chroot=chroot) == expected
    assert _plain(tmp_path / "out", chroot=chroot) == expected
    with pytest.raises(ConfigError, match=f"expected the chroot {chroot} of its ensemble x, found /other"):
        _plain(tmp_path / "out", chroot="/other")


@pytest.mark.parametrize("at_once", [1, 32])
def test_two_ensembles_are_refused_before_anything_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Whether one task reads both or two, and whether the first one was converted by this job."""
    monkeypatch.setattr(series, "_AT_ONCE", at_once)
    _files(6, tmp_path / "one")
    other = history_of(77)
    for place, inputs in (("new", ()), ("known", (tmp_path / "one",))):
        if inputs:
            _ran(tmp_path / place, *inputs)
        both = shutil.copytree(tmp_path / "one", tmp_path / f"both-{place}")
        write_series(both, other, [other.zxid], random.Random(1))
        number = OutputFolder(Folder(str(tmp_path / place))).number

        with pytest.raises(MixedEnsembleError, match="are not of one ensemble"):
            _ran(tmp_path / place, both)

        assert OutputFolder(Folder(str(tmp_path / place))).number == number


def test_logs_and_snapshots_give_what_one_process_gives(seed: int, tmp_path: Path) -> None:
    """All of it, for a group, and for parts; at once, or a few files in each run, and without the others."""
    of_server, others = write_mixture(seed, tmp_path / "all")
    draw, whole = random.Random(seed), [tmp_path / "all" / name for name in ("server", "series")]
    zxids = sorted(draw.choices(range(1, 140), k=2))
    start, end = (PointInTime(zxid) for zxid in zxids)
    for asked in ({}, {"group": "g"}, {"start": start}, {"end": end}, {"start": start, "end": end}):
        with suppress(NotFoundError):
            expected = _plain(*whole, **asked)
            assert (asked, _ran(tmp_path / "once", *whole, **asked)) == (asked, expected)
    expected, came = _plain(*whole), [tmp_path / "came" / name for name in ("server", "series")]
    for each in came:
        each.mkdir(parents=True)
    found, others = None, draw.sample(others, len(others))
    while of_server or others:
        for _ in range(draw.randrange(1, 4)):
            files = draw.choice([each for each in (of_server, others) if each] or [[]])
            if files:
                path = files.pop(0)
                shutil.copy2(path, came[path.parent.name == "series"])
        with suppress(DamagedFileError):
            found = _ran(tmp_path / "out", *came)
            for path in came[1].iterdir() if draw.random() < 0.5 else ():
                path.unlink()

    assert found == expected


def test_logs_are_kept_as_long_as_snapshots(seed: int, tmp_path: Path) -> None:
    """What is older than `keep_ms` is left out, with its files; the rest is as of a part of that time."""
    of_server, others = write_mixture(seed, tmp_path / "all")
    both, output = [tmp_path / "all" / name for name in ("server", "series")], tmp_path / "out"
    server, later = both[0], of_server[2]
    records = [*History(server).transactions()]
    since = random.Random(seed).choice(records[1:])
    came = tmp_path / "came"
    shutil.copytree(server, came)
    (came / later.name).unlink()
    kept = [each for each in open_source(both).whole.snapshots if each.time_ms >= since.time_ms]
    newest_ms = max(each.time_ms for each in (*kept, *records))
    (tmp_path / "kept").mkdir()
    for path in others:
        shutil.copy2(path, tmp_path / "kept") if path in {each.path for each in kept} else None
    _ran(output, came)
    shutil.copy2(later, came)
    expected = _plain(server, tmp_path / "kept", start=PointInTime(since.zxid))

    assert _ran(output, came, both[1], keep_ms=newest_ms - since.time_ms) == expected
    assert _ran(output, came, both[1]) == expected
    files = OutputFolder(Folder(str(output))).files("operations", "x")
    assert len({each.log for each in files}) == 1 + (since.zxid < int(later.suffix[1:], 16))
    assert len(files) == len([*(output / "operations").rglob("*.parquet")])
