"""Several servers, and clients' own root, in columns as record by record; servers lack records, or differ."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.pure.audit.server_copies import CHROOT, below_chroot, write_copies
from tests.worlds.golden_data import FOLDER
from tests.worlds.history_files import consistent, records_of
from tests.worlds.random_histories import history_of
from tests.worlds.record_by_record import checks_of, exact_rows, groups_of, rows_by_partition, sessions_of
from tests.worlds.screened_findings import whole_columns
from tests.worlds.zkfiles_tables import needs_kernel
from zkgroup.audit.answers.snapshots import partition_rows, session_views
from zkgroup.audit.findings.files import record_checks_of
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.facts import facts_of
from zkgroup.audit.inputs.manifest import Converted, ConvertedLog
from zkgroup.audit.inputs.opening import open_source
from zkgroup.audit.inputs.source import Rows
from zkgroup.audit.spark.conversion import LogTask, batches_of
from zkgroup.errors import MixedEnsembleError, ZkGroupError
from zkgroup.zkfiles import replay, servers
from zkgroup.zkfiles.arrow import LOG, record_batch
from zkgroup.zkfiles.columns import Wanted, batch_of
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.records import Transaction

HISTORIES = int(os.environ.get("ZKGROUP_COPIED_HISTORIES", "8"))
RECORDED = sorted(FOLDER.rglob("version-2"))
SMALL = 30
"""Rows of a part."""


def copies(place: Path, seed: int) -> tuple[list[Path], str]:
    """Three servers of a random or recorded history, and the root of its clients."""
    draw = random.Random(seed)
    records: Sequence[Transaction]
    if seed % 3:
        records = list(records_of(event for event in consistent(history_of(seed)) if not event.seed))
    else:
        records = list(History(RECORDED[seed // 3 % len(RECORDED)]).transactions())[:3000]
    chroot = draw.choice(["", CHROOT])
    return write_copies(place, below_chroot(records) if chroot else records, draw), chroot


def plain(events: Iterable[Event], chroot: str) -> list[Event]:
    """Within a chroot deletes that no record names are counted among those within it."""
    return [each._replace(sub=0) if chroot and each.synthetic else each for each in events]


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_rows_and_answers_are_those_of_all_records(seed: int, tmp_path: Path) -> None:
    """With the same holes, damages, splits and notes."""
    folders, chroot = copies(tmp_path, seed)
    exact, quick = (open_source(folders, chroot=chroot) for _ in range(2))
    try:
        events = exact_rows(exact)
    except MixedEnsembleError as error:
        with pytest.raises(MixedEnsembleError, match=re.escape(str(error))):
            whole_columns(quick.rows())
        return
    columns = whole_columns(quick.rows())
    assert plain(columns.events(), chroot) == plain(events, chroot)
    assert sorted(quick.damages()) == sorted(exact.damages())
    assert sorted(quick.notes()) == sorted(exact.notes())
    assert exact.history is not None
    assert quick.history is not None
    assert quick.history.ensemble.splits == exact.history.ensemble.splits
    assert quick.history.ensemble.rolled_back == exact.history.ensemble.rolled_back
    assert_same_answers(open_source(folders, chroot=chroot).rows(), events, chroot)


def assert_same_answers(rows: Rows, events: Sequence[Event], chroot: str) -> None:
    """Of sessions, owners and offsets."""
    facts = facts_of(events)
    assert session_views(rows, SMALL)[:2] == (facts, sessions_of(events, facts))
    for group in sorted(groups_of(events))[:3]:
        found, some = partition_rows(rows, group, SMALL)
        assert found == facts
        exact = rows_by_partition(plain(events, chroot)).items()
        seen = {where: plain(mine, chroot) for where, mine in some.items()}
        assert seen == {where: mine for where, mine in exact if where.group == group}


@needs_kernel
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_trees_and_checks_are_those_of_all_records(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replay of everything, trees on the way and at the end, and the checks of all records."""
    folders, _ = copies(tmp_path, seed)
    try:
        zxids = [each.zxid for each in History(*folders).transactions()]
    except MixedEnsembleError:
        return
    monkeypatch.setattr(servers, "QUICK_BYTES", 0)
    assert record_checks_of(History(*folders)) == checks_of(History(*folders))
    asked = [None, *random.Random(seed).sample(zxids, min(3, len(zxids)))]
    quick = History(*folders).verify(), [tree_at(folders, zxid) for zxid in asked]
    monkeypatch.setattr(replay, "can_replay_columns", lambda: False)
    assert (History(*folders).verify(), [tree_at(folders, zxid) for zxid in asked]) == quick


def tree_at(folders: Sequence[Path], zxid: int | None) -> Any:
    """The account of a tree, its digest and its sessions; or why there is none."""
    try:
        past = History(*folders).tree_at(zxid=zxid)
    except ZkGroupError as error:
        return str(error)
    znodes = [past.tree.stored(path) for path in sorted(past.tree.paths())]
    return past.account, past.tree.digest, past.tree.sessions, znodes


def test_a_task_of_spark_reads_the_same_rows(tmp_path: Path) -> None:
    """Of all records from one zxid to another, with the places where the first server has them."""
    wanted = Wanted(LOG, "a, b", rows=0)
    for seed in range(0, HISTORIES, 4):
        folders, _ = copies(tmp_path / str(seed), seed)
        try:
            records = list(History(*folders).transactions())
        except MixedEnsembleError:
            continue
        middle = records[len(records) // 2].zxid
        log, servers = ConvertedLog(0, (), False, -1, 0, 0, ()), tuple(map(str, folders))
        for first, last in ((0, middle), (middle + 1, 2**63 - 1)):
            task = LogTask("e", servers, "", ("a", "b"), log, first, last, None, 1, Converted(0, 3))
            exact = batch_of(History(*folders).transactions(first, last), wanted)
            if exact is not None:
                table = pa.Table.from_batches(map(record_batch, batches_of(task)))
                assert table.to_pylist() == record_batch(exact).to_pylist()
