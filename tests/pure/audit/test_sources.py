"""Where an audit looks: folders of real servers and exports of their trees say the same."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.worlds.audit_folders import HEALTHY, INCIDENTS, folder
from tests.worlds.golden_data import FOLDER
from tests.worlds.screened_findings import events_in
from tests.worlds.server_history import seen_znodes
from zkgroup.audit.inputs.opening import Folders, open_source
from zkgroup.audit.inputs.series_source import SeriesSource
from zkgroup.audit.inputs.source import PointInTime
from zkgroup.errors import ConfigError, NotFoundError, NotZooKeeperFileError
from zkgroup.zkfiles.exports import ExportHeader, exported, write_export
from zkgroup.zkfiles.history import History

V346 = FOLDER / "kafka-0.8.2.2" / "zookeeper-3.4.6"
V394 = FOLDER / "kafka-0.8.2.2" / "zookeeper-3.9.4"


def _export(folder: Path, to: Path, **header: object) -> Path:
    """The last tree of a folder as an export."""
    tree, account = History(folder).tree_at()
    fields = {
        "time_ms": 5,
        "source": "",
        "zxid_before": account.zxid,
        "zxid_after": account.zxid,
        **header,
    }
    znodes = [tree.stored(path) for path in tree.paths()]
    counts = Counter(path.rpartition("/")[0] or "/" for path in tree.paths() if path != "/")
    write_export(
        to,
        ExportHeader(**fields),  # type: ignore[arg-type]
        [exported(znode, counts[znode.path]) for znode in znodes if znode is not None],
    )
    return to


@pytest.mark.parametrize("folder", [V346, V394], ids=lambda folder: folder.name)
def test_an_export_is_the_tree_that_the_folder_has(folder: Path, tmp_path: Path) -> None:
    """Znode by znode, as clients see them; and both are what the server itself served."""
    past = open_source([folder]).tree()
    seen = open_source([_export(folder, tmp_path / "tree.gz")]).tree()

    assert seen_znodes(seen.tree) == seen_znodes(past.tree)
    assert (seen.zxid, seen.is_exact, seen.detail, seen.time_ms) == (past.zxid, True, "", 5)
    recorded = [json.loads(line) for line in (folder / "tree.jsonl").read_text().splitlines()]
    assert {record["path"] for record in recorded} == {
        path for path in seen.tree.paths() if not path.startswith("/zookeeper")
    }


def test_rows_go_on_from_the_tree_before_them() -> None:
    """Seeds, then the transactions of the stretch; the same as often as asked."""
    source = Folders(History(V394))
    whole = events_in(source.rows())
    rows = source.rows(PointInTime(zxid=0x100), PointInTime(zxid=0x110))

    events = events_in(rows)

    assert events == events_in(rows)
    assert {event.path for event in events if event.seed and event.path} == {
        path for path in source.tree(PointInTime(zxid=0xFF)).tree.paths() if path != "/"
    }
    assert [event for event in events if not event.seed] == [
        event for event in whole if not event.seed and 0x100 <= event.zxid <= 0x110
    ]
    assert (rows.seen.zxid, rows.to_zxid) == (0xFF, 0x110)


def test_a_time_is_the_transactions_around_it() -> None:
    """Both ends included; a time before the first record is the beginning of all."""
    source = Folders(History(V394))
    stamps = {each.zxid: each.time_ms for each in source.history.transactions()}
    start, end = stamps[0x80], stamps[0x90]

    rows = source.rows(PointInTime(time_ms=start), PointInTime(time_ms=end))

    zxids = {event.zxid for event in events_in(rows) if not event.seed}
    assert zxids == {zxid for zxid, time_ms in stamps.items() if start <= time_ms <= end}
    early = source.rows(PointInTime(time_ms=0), PointInTime(time_ms=end))
    assert min(event.zxid for event in events_in(early) if not event.seed) == 1
    with pytest.raises(NotFoundError):
        source.tree(PointInTime(time_ms=0))


def test_a_stretch_that_ends_before_it_starts_is_refused() -> None:
    """It would be empty, which nobody wants to know."""
    with pytest.raises(ConfigError, match="before its start"):
        Folders(History(V394)).rows(PointInTime(zxid=9), PointInTime(zxid=8))


def test_where_the_files_begin_later_the_rows_do_too(tmp_path: Path) -> None:
    """With the tree of the first snapshot that they lead on from; an earlier tree is not known."""
    folder = tmp_path / "version-2"
    folder.mkdir()
    for name in ("snapshot.66.gz", "log.68.gz", "snapshot.114.gz", "log.116.gz"):
        shutil.copy(V394 / "version-2" / name, folder)
    source = Folders(History(tmp_path))

    rows = source.rows(PointInTime(zxid=5))

    assert rows.seen.zxid == 0x115
    assert min(event.zxid for event in events_in(rows) if not event.seed) == 0x116
    with pytest.raises(NotFoundError, match="begin later"):
        source.tree(PointInTime(zxid=5))


@pytest.mark.parametrize(
    ("start", "end", "told"),
    [
        (None, PointInTime(zxid=0x163), ""),
        (None, PointInTime(zxid=0x164), "the files end at 0x163 (2"),
        (PointInTime(zxid=0x999), None, "the files end at 0x163 (2"),
        (None, PointInTime(time_ms=4_000_000_000_000), "the files end at 0x163 (2"),
        (PointInTime(zxid=0x68), None, ""),
        (PointInTime(zxid=0x66), None, "the logs begin at 0x68 (2"),
        (PointInTime(time_ms=5), None, "the logs begin at 0x68 (2"),
        (None, PointInTime(time_ms=5), "the logs begin at 0x68 (2"),
    ],
)
def test_a_range_beyond_the_files_is_noted(
    tmp_path: Path, start: PointInTime | None, end: PointInTime | None, told: str
) -> None:
    """With what they cover, whatever is asked: rows, the zxids of a range, a tree, a difference."""
    folder = tmp_path / "version-2"
    folder.mkdir()
    for name in ("snapshot.66.gz", "log.68.gz", "snapshot.114.gz", "log.116.gz"):
        shutil.copy(V394 / "version-2" / name, folder)

    def noted(ask: Callable[[Folders], object]) -> list[str]:
        source = Folders(History(tmp_path))
        with suppress(NotFoundError):
            ask(source)
        return [note for note in source.notes() if note.startswith(("the files end", "the logs begin"))]

    questions: list[Callable[[Folders], object]] = [
        lambda source: source.zxids(start, end),
        lambda source: source.rows(start, end),
    ]
    if start is None and end is not None:
        questions += [lambda source: source.tree(end), lambda source: source.diff(end, end)]
    for ask in questions:
        notes = noted(ask)
        assert len(notes) == bool(told)
        assert told in "".join(notes)


def _without(tmp_path: Path, *names: str) -> Folders:
    """A folder that lacks some files."""
    folder = Path(shutil.copytree(V394 / "version-2", tmp_path / "version-2"))
    for name in names:
        (folder / name).unlink()
    return Folders(History(tmp_path))


def test_missing_transactions_are_reported(tmp_path: Path) -> None:
    """Rows and differences go on behind it, and are not said to be exact."""
    source = _without(tmp_path, "log.68.gz", "snapshot.114.gz")
    assert source.damages() == []

    zxids = [event.zxid for event in events_in(source.rows()) if not event.seed]
    found = source.diff(PointInTime(zxid=0x60), PointInTime(zxid=0x120))

    assert {0x67, 0x116} <= set(zxids)
    assert source.damages() == ["zxids 0x68 to 0x115 are missing"]
    assert not found.is_exact


def test_a_damaged_snapshot_that_is_needed_is_reported(tmp_path: Path) -> None:
    """Rows go on without it, trees cannot; where another way leads to an exact tree it does not matter."""
    source = _without(tmp_path, "log.1.gz", "log.68.gz", "snapshot.0.gz", "snapshot.66.gz")
    snapshot = tmp_path / "version-2" / "snapshot.114.gz"
    whole = snapshot.read_bytes()
    snapshot.write_bytes(whole[:900])

    assert events_in(source.rows())
    assert [text.count(str(snapshot)) for text in source.damages()] == [1]
    with pytest.raises(NotFoundError, match=r"snapshot\.114\.gz, byte"):
        source.tree()

    for name in ("log.1.gz", "log.68.gz", "snapshot.0.gz"):
        shutil.copy(V394 / "version-2" / name, tmp_path / "version-2")
    mended = Folders(History(tmp_path))
    assert (mended.tree().is_exact, mended.notes(), mended.damages()) == (True, [], [])


def test_one_export_is_a_series_of_one(tmp_path: Path) -> None:
    """Its rows are seeds; a later moment has its tree, an earlier one is not known."""
    source = open_source([_export(V394, tmp_path / "tree.gz", changed=("/a",), zxid_after=999)])
    assert isinstance(source, SeriesSource)

    rows = source.rows()

    assert {event.seed for event in events_in(rows)} == {True}
    assert (rows.seen.is_exact, source.damages()) == (False, [])
    assert source.notes() == ["1 path changed while it was read, up to 0x3e7: /a"]
    assert source.tree(PointInTime(zxid=rows.seen.zxid)).zxid == rows.seen.zxid
    later = source.tree(PointInTime(zxid=rows.seen.zxid + 1))
    assert (later.zxid, later.is_exact) == (rows.seen.zxid, False)
    for moment in (PointInTime(zxid=1), PointInTime(time_ms=1)):
        with pytest.raises(NotFoundError, match="the first snapshot is of"):
            source.tree(moment)


def test_what_is_neither_is_refused(tmp_path: Path) -> None:
    """An empty folder, a file, nothing."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("hello")
    for name in ("empty", "file", "none"):
        with pytest.raises(NotZooKeeperFileError, match=name):
            open_source([tmp_path / name])


@pytest.mark.parametrize("name", [*HEALTHY, INCIDENTS])
def test_rows_of_real_servers_rise_and_make_the_tree_that_they_serve(name: str) -> None:
    """Replayed one by one, creations and deletions leave exactly the paths of the last tree."""
    events = events_in(open_source([folder(name)]).rows())
    paths: set[str] = set()
    for event in events:
        if event.applied and event.op == "create":
            assert event.path not in paths
            paths.add(event.path)
        elif event.applied and event.op == "delete":
            paths.remove(event.path)

    assert [(event.zxid, event.sub) for event in events] == sorted((each.zxid, each.sub) for each in events)
    served = {each for each in History(folder(name)).tree_at().tree.paths() if each != "/"}
    # Of the servers' own subtree a history that begins with nothing does not know the dialect.
    assert {each for each in paths ^ served if not each.startswith("/zookeeper/")} == set()
