"""Rows that a question about one group does without are left out early, and the answers are the same."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.programs.benchmarks.group_days import write_logs
from tests.worlds.golden_data import FOLDER
from tests.worlds.record_by_record import groups_of, rows_by_partition, sessions_of
from tests.worlds.screened_findings import events_in, whole_columns
from tests.worlds.server_history import ServerHistory
from tests.worlds.zkfiles_tables import counted_reads
from zkgroup.audit.answers.snapshots import partition_rows, session_views
from zkgroup.audit.inputs.facts import facts_of
from zkgroup.audit.inputs.opening import open_source
from zkgroup.audit.inputs.rows import joined, transactions_of
from zkgroup.audit.inputs.source import Rows
from zkgroup.zkfiles.records import Operation, TransactionType

SMALL = 30
"""Rows of a part."""
GROUPS = ("g", "gg", "offsets", "owners")
"""Also such that a path has `/offsets/` in front of the group's own offsets, or names that begin alike."""


def assert_same_answers(rows: Rows, groups: Iterable[str]) -> None:
    """Owners, offsets and sessions are those of all rows."""
    everything = events_in(rows)
    facts = facts_of(everything)
    for group in groups:
        found, some = partition_rows(rows, group, SMALL)
        assert found == facts
        assert some == {
            where: mine for where, mine in rows_by_partition(everything).items() if where.group == group
        }
    found, sessions, names = session_views(rows, SMALL)
    assert found == facts
    assert sessions == sessions_of(everything, facts)
    assert names == groups_of(everything)


@pytest.mark.parametrize("folder", sorted(FOLDER.rglob("version-2")), ids=lambda path: path.parts[-2])
def test_answers_about_recorded_groups_are_those_of_all_rows(folder: Path) -> None:
    """Whole, and from the middle of the history."""
    source = open_source([folder])
    rows = source.rows()
    assert_same_answers(rows, sorted(groups_of(events_in(rows))))


def test_rows_of_other_groups_are_left_out(tmp_path: Path) -> None:
    """Nine tenths of a healthy day."""
    rows = open_source([write_logs(tmp_path / "day", 8_000, 2, groups=4)]).rows()
    all_rows = whole_columns(rows)

    columns = joined(list(rows.parts(1_000, ("group-1",))))
    offsets = sum("/offsets/" in path for path in columns.paths)
    assert offsets < sum("/offsets/" in path for path in all_rows.paths) / 2
    parts = list(rows.parts(1_000, ()))
    assert len(parts) > 2
    assert sum(map(len, parts)) < len(columns) < len(all_rows)
    assert sum(len(transactions_of(part).zxid) for part in parts) == (~all_rows.seed).sum()
    assert_same_answers(rows, ["group-0", "group-1"])


def test_columns_of_all_logs_are_made_by_reading_each_once(tmp_path: Path) -> None:
    """The end of the newest one shows that there is something, and what is left to read."""
    folder = write_logs(tmp_path / "day", 20_000, 2, groups=1)
    with counted_reads() as read:
        rows = open_source([folder]).rows()
        assert whole_columns(rows) is not None
    newest = max(folder.iterdir(), key=lambda path: path.name)
    assert read[newest.name] < newest.stat().st_size * 3 / 2


def of_odd_groups() -> ServerHistory:
    """Groups with odd names that write each other's offsets, by single requests and in multis.

    Sessions that are first seen at a write that is left out, and one that ends at such a time.
    """
    world = ServerHistory()
    world.create("/consumers", b"")
    for group in GROUPS:
        root = f"/consumers/{group}"
        for path in ("", "/offsets", "/offsets/offsets", "/owners", "/owners/offsets", "/resets", "/ids"):
            world.create(root + path, b"", session=1)
        world.open(10)
        for partition in range(2):
            world.create(f"{root}/offsets/offsets/{partition}", b"0", session=2)
            world.create(f"{root}/owners/offsets/{partition}", b"m-0", session=10, ephemeral=True)
        world.create(f"{root}/resets/offsets", b"", session=2)
        world.close(10)
    for step in range(6):
        for number, group in enumerate(GROUPS):
            path = f"/consumers/{group}/offsets/offsets/{step % 2}"
            world.set(path, b"%d" % step, session=20 + number)
            world.multi(
                world.change(path, b"%d" % (step + 1)),
                world.change(f"/consumers/{group}/resets/offsets", b"x"),
                session=30 + number,
            )
    world.set("/consumers/g/resets/offsets", b"y", session=40)
    world.fail(session=50)
    refused = (Operation(TransactionType.ERROR, error=-2), Operation(TransactionType.ERROR, error=-101))
    world.multi(*refused, session=51)
    world.delete("/consumers/gg/offsets/offsets/1", session=60)
    world.clock_steps(5000)
    world.set("/consumers/gg/offsets/offsets/0", b"99", session=61)
    world.clock_steps(-9000)
    return world


@pytest.mark.parametrize("begins_in_a_snapshot", [False, True])
def test_groups_with_odd_names_have_the_answers_of_all_rows(
    tmp_path: Path, begins_in_a_snapshot: bool
) -> None:
    """A group called `offsets`, a topic of that name, and a name that begins like another."""
    world = of_odd_groups()
    world.set("/consumers/owners/offsets/offsets/0", b"1", session=62)
    if begins_in_a_snapshot:
        middle = world.transactions[len(world.transactions) // 2].zxid
        world.snapshot(tmp_path, middle)
    world.log(tmp_path)
    assert_same_answers(open_source([tmp_path]).rows(), GROUPS)
