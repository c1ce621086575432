"""What tree snapshots over time answer is what the whole log answers, wherever two of them prove it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.worlds.cut_histories import GROUPS, cuts_of, history_of, write_fuzzy, write_series, write_tree
from tests.worlds.screened_findings import events_in
from tests.worlds.server_history import ServerHistory, seen_znodes
from tests.worlds.zkfiles_writer import snapshot
from zkgroup.audit.answers.partitions import GroupPartition, OffsetRow, OwnerLife
from zkgroup.audit.answers.snapshots import OfPartitions, offsets_in, owners_in, sessions_in
from zkgroup.audit.findings.engine import ALL_RULES, audit
from zkgroup.audit.inputs.events import BY_SUBTREE
from zkgroup.audit.inputs.opening import open_source
from zkgroup.audit.inputs.source import PointInTime, Source
from zkgroup.errors import DamagedFileError, NotFoundError
from zkgroup.model import TopicPartition
from zkgroup.zkfiles.records import TreeDigest
from zkgroup.zkfiles.states import StatesReader
from zkgroup.zkfiles.tree import Tree

SEEDS: Final = range(12)


def _owners(source: Source, group: str) -> dict[tuple[TopicPartition, int], OwnerLife]:
    _, lives = owners_in(source, OfPartitions(group))
    return {(where.topic_partition, life.from_zxid): life for where, life in lives}


def _offsets(source: Source) -> dict[GroupPartition, list[OffsetRow]]:
    found: dict[GroupPartition, list[OffsetRow]] = {}
    for where, row in offsets_in(source, OfPartitions())[1]:
        found.setdefault(where, []).append(row)
    return found


@pytest.fixture(params=SEEDS)
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def _sources(seed: int, folder: Path) -> tuple[ServerHistory, list[int], Source, Source]:
    """A history, where it was cut, the series of that, and the whole log."""
    world = history_of(seed)
    cuts = cuts_of(seed, world)
    series = open_source([write_series(folder / "series", world, cuts, random.Random(seed))])
    world.log(folder / "log")
    return world, cuts, series, open_source([folder / "log"])


def test_the_answers_of_a_series_are_those_of_the_log(seed: int, tmp_path: Path) -> None:
    """Each tree; each ownership that a snapshot met, with the first snapshot behind its end; each offset."""
    world, cuts, series, log = _sources(seed, tmp_path)

    for zxid in cuts:
        seen = series.tree(PointInTime(zxid=zxid))
        assert (seen.is_exact, seen_znodes(seen.tree)) == (True, seen_znodes(world.at(zxid)))
    for group in GROUPS:
        found = {of: _outline(life) for of, life in _owners(series, group).items()}
        assert found == {
            of: _outline(cut)
            for of, life in _owners(log, group).items()
            if (cut := _cut(life, cuts)) is not None
        }
    assert {where: [_written(row) for row in rows] for where, rows in _offsets(series).items()} == {
        where: rows for where, of in _offsets(log).items() if (rows := [*_changes(of, cuts)])
    }


def test_a_reset_is_known_by_the_marker_of_its_transaction(tmp_path: Path) -> None:
    """The last write between two snapshots is the operator's then; another group's marker proves none."""
    world = history_of(1)
    for group in GROUPS:
        world.create(f"/consumers/{group}/resets", None)
        world.create(f"/consumers/{group}/offsets/t/7", b"5")
    world.snapshot(tmp_path, world.zxid)
    world.multi(
        world.change("/consumers/g/offsets/t/7", b"3"),
        world.creation("/consumers/g/resets/t-7", b'{"version":1,"offset":"3"}'),
    )
    world.set("/consumers/h/offsets/t/7", b"4")
    world.snapshot(tmp_path, world.zxid)

    rows = _offsets(open_source([tmp_path]))
    kinds = {of.group: some[-1].kind for of, some in rows.items() if of.topic_partition.partition == 7}
    assert kinds == {"g": "reset", "h": "write"}


def _outline(life: OwnerLife) -> tuple[object, ...]:
    session = life.session if life.is_ephemeral else 0
    return life.thread, session, life.from_ms, life.to_zxid, life.ended_by, life.is_ephemeral


def _cut(life: OwnerLife, cuts: Sequence[int]) -> OwnerLife | None:
    """An ownership as snapshots at these zxids see it; None where none of them does."""
    within = [
        zxid for zxid in cuts if life.from_zxid <= zxid and (life.to_zxid is None or zxid < life.to_zxid)
    ]
    if not within:
        return None
    behind = next((zxid for zxid in cuts if zxid > within[-1]), None)
    return life._replace(to_zxid=behind, ended_by="open" if behind is None else None)


def _written(row: OffsetRow) -> tuple[object, ...]:
    return row.kind, row.zxid, row.offset, row.previous, row.writes, row.is_rewind


def _changes(rows: Sequence[OffsetRow], cuts: Sequence[int]) -> Iterator[tuple[object, ...]]:
    """The rows of one offset that snapshots at these zxids show, out of those of its log."""
    before, since = None, -1
    for number, zxid in enumerate(cuts):
        met = [each for each in rows if since < each.zxid <= zxid]
        kinds = [each.kind for each in met]
        life = met[len(kinds) - kinds[::-1].index("deletion") :] if "deletion" in kinds else met
        now = life[-1] if life else (before if not met else None)
        if now is None:
            if before is not None:
                yield "deletion", zxid, None, before.offset, None, False
        elif not number:
            yield "snapshot", now.zxid, now.offset, None, None, False
        elif before is None or life is not met:
            yield "write", now.zxid, now.offset, None, len(life), False
        elif met:
            falls = (now.offset or 0) < (before.offset or 0)
            yield "write", now.zxid, now.offset, before.offset, len(met), falls
        before, since = now, zxid


def test_sessions_are_those_that_servers_list(seed: int, tmp_path: Path) -> None:
    """From the first list with a session to the first without it; `open` in the last one."""
    world = history_of(seed)
    cuts = cuts_of(seed, world)
    for zxid in cuts:
        world.snapshot(tmp_path, zxid)
    lists = [world.at(zxid).sessions for zxid in cuts]

    _, rows, groups = sessions_in(open_source([tmp_path]).series, pytest.fail)

    assert groups == set(GROUPS)
    for row in rows:
        within = [zxid for zxid, each in zip(cuts, lists, strict=True) if row.session in each]
        behind = next((zxid for zxid in cuts if zxid > within[-1]), None)
        assert row.from_zxid == (None if within[0] == cuts[0] else within[0])
        assert (row.to_zxid, row.ended) == (behind, "open" if behind is None else None)
        assert row.ephemerals == len(world.at(within[-1]).ephemerals(row.session))
    assert {row.session for row in rows} == {session for each in lists for session in each}


def test_a_session_is_open_only_in_the_list_of_the_last_snapshot(seed: int, tmp_path: Path) -> None:
    """An export that is later has no list, so nobody knows."""
    world = history_of(seed)
    world.snapshot(tmp_path, world.zxid)
    assert {row.ended for row in sessions_in(open_source([tmp_path]).series, pytest.fail)[1]} == {"open"}

    world.create("/later")
    write_tree(tmp_path / "later.gz", world.at(world.zxid))

    assert {row.ended for row in sessions_in(open_source([tmp_path]).series, pytest.fail)[1]} == {None}


def test_what_changed_while_it_was_read_proves_nothing(seed: int, tmp_path: Path) -> None:
    """Every run is true of the history at each of its snapshots, and no known path is left out."""
    world, draw = history_of(seed), random.Random(seed)
    cuts = cuts_of(seed, world)
    changes = []
    for number, zxid in enumerate(cuts):
        tree, later = world.at(zxid), world.at(zxid + draw.randrange(8))
        changed = sorted(_differing(tree, later))
        changes.append({*changed})
        write_tree(tmp_path / f"{number}.gz", tree, changed=changed, until=later)
    source = open_source([tmp_path])

    trees = [world.at(zxid) for zxid in cuts]
    (series,) = source.series
    known = 0
    for _, states in series.keyed(BY_SUBTREE):
        for path, runs in states.items():
            for run in runs:
                for number in range(run.first, run.last + 1):
                    stored = trees[number].stored(path)
                    assert (None if run.state is None else run.state.stat) == (
                        None if stored is None else stored.stat
                    )
                    assert path not in changes[number]
                    known += stored is not None
    assert known == sum(
        path not in changed for tree, changed in zip(trees, changes, strict=True) for path in tree.paths()
    )


def test_an_export_of_a_later_moment_makes_no_other_ensemble(tmp_path: Path) -> None:
    """A line of it comes back, after other snapshots in between had the znode as it was before."""
    world = ServerHistory()
    for path in ("/a", "/b"):
        world.create(path, b"1")
    zxids = [world.set(path, b"2") for path in ("/b", "/a", "/b")]
    write_tree(tmp_path / "1", world.at(zxids[0] - 1), changed=("/a", "/b"), until=world.at(zxids[1]))
    write_tree(tmp_path / "2", world.at(zxids[0]))
    world.snapshot(tmp_path, zxids[1])
    write_tree(tmp_path / "3", world.at(zxids[2]))

    series = open_source([tmp_path]).series[0]

    assert [each.end_zxid for each in series.snapshots] == [zxids[0] - 1, *zxids]


def _differing(one: Tree, other: Tree) -> Iterator[str]:
    for path in {*one.paths(), *other.paths()}:
        if one.stored(path) != other.stored(path):
            yield path


def test_logs_answer_what_they_cover(seed: int, tmp_path: Path) -> None:
    """A log of the middle, snapshots before and behind: the trees are those of the history, owners too."""
    world = history_of(seed)
    cuts = cuts_of(seed, world)
    first, last = cuts[0] + 3, max(cuts[-1] - 3, cuts[0] + 4)
    world.snapshot(tmp_path / "server", first - 1)
    world.log(tmp_path / "server", first, last)
    write_series(tmp_path / "series", world, cuts, random.Random(seed))
    world.log(tmp_path / "log")
    mixed, log = open_source([tmp_path / "server", tmp_path / "series"]), open_source([tmp_path / "log"])

    for zxid in {*cuts, first, (first + last) // 2, last}:
        seen = mixed.tree(PointInTime(zxid=zxid))
        assert seen_znodes(seen.tree) == seen_znodes(world.at(seen.zxid))
        assert seen.zxid == zxid or not first <= zxid <= last
    with pytest.raises(NotFoundError):
        mixed.tree(PointInTime(zxid=cuts[0] - 1))
    for group in GROUPS:
        whole, found = _owners(log, group), _owners(mixed, group)
        for of, life in found.items():
            true = whole[of]
            assert (life.thread, life.from_ms) == (true.thread, true.from_ms)
            if life.from_zxid <= last and (true.to_zxid is None or true.to_zxid > last):
                behind = next(
                    (zxid for zxid in cuts if zxid > last and zxid >= (true.to_zxid or zxid + 1)), None
                )
                assert (life.to_zxid, life.ended_by) == (behind, None if behind else "open")
            elif first <= (true.to_zxid or 0) <= last and life.is_ephemeral:
                assert (life.to_zxid, life.ended_by) == (true.to_zxid, true.ended_by)
        assert {of for of, life in whole.items() if first <= life.from_zxid <= last} <= {*found}
    # Each write counts once, whoever tells of it.
    for where, rows in _offsets(mixed).items():
        behind = [row for row in rows if row.zxid > last]
        if behind and all(row.kind == "write" for row in behind):
            life = [row for row in _offsets(log)[where] if last < row.zxid <= behind[-1].zxid]
            if all(row.kind == "commit" for row in life):
                assert sum(row.writes or 0 for row in behind) == len(life)


def test_an_old_snapshot_takes_nothing_from_logs(seed: int, tmp_path: Path) -> None:
    """Behind it records are missing, so the logs go on from the first snapshot within them, as without it."""
    world = history_of(seed)
    old = cuts_of(seed, world)[0]
    first, within = old + 3, old + 5
    for folder in (tmp_path / "alone", tmp_path / "both"):
        world.snapshot(folder, within)
        world.log(folder, first)
    world.snapshot(tmp_path / "both", old)
    alone, both = open_source([tmp_path / "alone"]), open_source([tmp_path / "both"])

    for start in (None, PointInTime(zxid=first), PointInTime(zxid=within + 2)):
        one, other = alone.rows(start), both.rows(start)
        assert (one.seen.zxid, one.seen.is_exact) == (other.seen.zxid, other.seen.is_exact)
        assert events_in(one) == events_in(other)
    assert both.damages() == []
    assert any("behind a hole, so they are read from" in note for note in both.notes())
    shown = {row.zxid for rows in _offsets(both).values() for row in rows}
    assert {row.zxid for rows in _offsets(alone).values() for row in rows if row.kind != "snapshot"} <= shown

    world.snapshot(tmp_path / "between", old)
    world.log(tmp_path / "between", first, first + 3)
    world.snapshot(tmp_path / "between", first + 6)
    assert any(not event.seed for event in events_in(open_source([tmp_path / "between"]).rows()))


def test_snapshots_behind_the_last_record_count(seed: int, tmp_path: Path) -> None:
    """Those that a server keeps beside its logs, and those that lie elsewhere."""
    world = history_of(seed)
    cuts = cuts_of(seed, world)
    last = cuts[0] + 2
    world.log(tmp_path / "server", 0, last)
    world.log(tmp_path / "logs", 0, last)
    later = [each for each in cuts if each > last] or [world.zxid]
    for zxid in later:
        world.snapshot(tmp_path / "server", zxid)
        world.snapshot(tmp_path / "others", zxid)
    beside, apart = open_source([tmp_path / "server"]), open_source([tmp_path / "logs", tmp_path / "others"])

    for source in (beside, apart):
        assert seen_znodes(source.tree().tree) == seen_znodes(world.at(later[-1]))
        assert [[one.end_zxid for one in each.snapshots] for each in source.series] == [[last, *later]]
    assert {at: [*map(_written, rows)] for at, rows in _offsets(beside).items()} == {
        at: [*map(_written, rows)] for at, rows in _offsets(apart).items()
    }


def test_fuzzy_snapshots_tell_nothing_false(seed: int, tmp_path: Path) -> None:
    """Also where their windows overlap: ends are ends, and writes were written."""
    world, draw = history_of(seed), random.Random(seed)
    for zxid in cuts_of(seed, world):
        write_fuzzy(tmp_path, world, zxid, draw)
    world.log(tmp_path / "log")
    series, log = open_source([tmp_path]), open_source([tmp_path / "log"])

    for group in GROUPS:
        whole = _owners(log, group)
        for of, life in _owners(series, group).items():
            end = whole[of].to_zxid
            assert life.to_zxid is None or (end is not None and end <= life.to_zxid)
    written = {(where, row.zxid): row.offset for where, rows in _offsets(log).items() for row in rows}
    for where, rows in _offsets(series).items():
        for row in (row for row in rows if row.kind != "deletion"):
            assert written[where, row.zxid] == row.offset
            assert row.kind == "snapshot" or (row.writes or 0) > 0


@pytest.mark.parametrize(
    ("path", "lost"),
    [
        ("/x", ""),
        ("/brokers/topics", "offset_of_missing_partition"),
        ("/consumers/h/ids/h_a", "dead_group orphan_owner"),
        ("/consumers/g/owners/t/0", "never_owned skew"),
        ("/consumers/g/ids/g_b", "skew"),
    ],
)
def test_one_tree_proves_nothing_of_a_path_that_it_does_not_know(
    path: str, lost: str, tmp_path: Path
) -> None:
    """That nothing is there is no fault where the path changed while the tree was read."""
    world = ServerHistory()
    for session in (1, 2):
        world.open(session)
    for parent in ("/brokers", "/consumers", "/consumers/g", "/consumers/h"):
        world.create(parent)
    for group in ("/consumers/g", "/consumers/h"):
        for name in ("ids", "owners", "owners/t", "offsets", "offsets/u"):
            world.create(f"{group}/{name}")
    world.create("/brokers/topics")
    world.create("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1]}}')
    registration = b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}'
    world.create("/consumers/g/ids/g_a", registration, ephemeral=True)
    world.create("/consumers/h/owners/t/0", b"h_a-0", session=2, ephemeral=True)
    world.create("/consumers/h/offsets/u/0", b"5")
    world.create("/later")
    export = write_tree(tmp_path / "1", world.at(world.zxid), changed=(path,))
    bounds = {"dead_group.idle_ms": -1, "skew.grace_ms": -1}

    found = {one.finding for one in audit(open_source([export]), ALL_RULES, bounds).findings}

    asked = {"dead_group", "never_owned", "offset_of_missing_partition", "orphan_owner", "skew"}
    assert found & asked == asked - {*lost.split()}


def test_an_empty_file_alone_is_named(tmp_path: Path) -> None:
    """As an export is that was not written; logs beside it answer, though nothing else is a snapshot."""
    world, path = history_of(1), tmp_path / "series" / "1.zkexport"
    path.parent.mkdir()
    path.touch()
    world.log(tmp_path / "log")

    with pytest.raises(DamagedFileError, match=f"{path}.*found an empty one"):
        open_source([path.parent])
    both, log = open_source([tmp_path / "log", path.parent]), open_source([tmp_path / "log"])

    assert [each.path for each in both.skipped] == [str(path)]
    assert [text.split(": ")[0] for text in both.damages()] == [str(path)]
    assert both.tree().tree.paths() == log.tree().tree.paths()
    assert audit(both, ALL_RULES).findings == audit(log, ALL_RULES).findings


def test_a_long_window_hides_no_snapshot_behind_it(tmp_path: Path) -> None:
    """One server's snapshot took longer than another's that began later and is within the range."""
    world = history_of(1)
    world.create("/consumers/g/offsets/t/7", b"5")
    write_tree(tmp_path / "1.gz", world.at(world.zxid))
    world.set("/consumers/g/offsets/t/7", b"3")
    began = world.zxid
    for number in range(9):
        world.create(f"/x{number}", None)
    for since, until in ((began, began + 9), (began + 1, began + 2)):
        tree = world.at(until)
        znodes = [znode for path in tree.paths() if (znode := tree.stored(path)) is not None]
        content = snapshot(znodes, sessions={}, digest=(until, TreeDigest(2, tree.digest)))
        (tmp_path / f"snapshot.{since:x}").write_bytes(content)

    found = audit(open_source([tmp_path]), ALL_RULES, end=PointInTime(zxid=began + 5)).findings

    assert [one.to_zxid for one in found if one.finding == "offset_regression"] == [began + 2]


def test_a_file_that_is_replaced_while_it_is_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its place in the series was that of its zxid before; the others are answered in their order."""
    world = history_of(1)
    first, *zxids = (world.zxid - back for back in (30, 20, 10, 0))
    path = write_tree(tmp_path / "latest.gz", world.at(first))
    for zxid in zxids[:2]:
        write_tree(tmp_path / f"{zxid}.gz", world.at(zxid))
    later, read = write_tree(tmp_path / "later" / "latest.gz", world.at(zxids[2])), StatesReader.read_export

    def overtaken(reader: StatesReader, asked: Path) -> Any:
        shutil.copy(later, path)
        return read(reader, asked)

    monkeypatch.setattr(StatesReader, "read_export", overtaken)
    source = open_source([tmp_path])

    assert [each.zxid for each in source.series[0].snapshots] == zxids[:2]
    assert [each.path for each in source.skipped] == [str(path)]
