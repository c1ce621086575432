"""A report of buckets is the one of all rows at once, whatever its limits are."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow.parquet import read_table

from tests.worlds.audit_folders import INCIDENTS
from tests.worlds.audit_folders import folder as folder_of
from tests.worlds.audit_log import AuditLog
from tests.worlds.bounded_findings import TIGHT as TIGHT_ROWS
from tests.worlds.bounded_findings import rows_of as random_log
from tests.worlds.made_reports import GROUP, busy
from tests.worlds.screened_findings import rows_of_events
from zkgroup.audit.findings.engine import Found
from zkgroup.audit.incidents.attribution import numbered
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.opening import open_source
from zkgroup.audit.inputs.source import Rows
from zkgroup.audit.report import sections
from zkgroup.audit.report.keeping import ReportLimits
from zkgroup.audit.report.sections import ColumnsDrawing
from zkgroup.audit.report.writing import drafts

HISTORIES = int(os.environ.get("ZKGROUP_REPORTED_HISTORIES", "3"))
TIGHT = replace(ReportLimits(), partitions=3, spans=9, points=12, marks=4, rebalances=2, changes=5)
MANY = replace(ReportLimits(), partitions=40, spans=200, points=300)


class Taken:
    """The rows of all tables, in order."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {}

    def add(self, name: str, table: Any) -> None:
        self.rows.setdefault(name, []).extend(table.to_pylist())


def in_buckets(*args: Any) -> ColumnsDrawing:
    """In parts of some forty rows, and four buckets."""
    return ColumnsDrawing(*args, TIGHT_ROWS)


KINDS: dict[str, Callable[..., ColumnsDrawing]] = {
    "columns": ColumnsDrawing,
    "buckets": in_buckets,
}


def check_equal(rows: Rows, group: str | None = None, limits: ReportLimits | None = None) -> None:
    """Data and tables of all rows at once, and of one bucket after the other."""
    found = []
    for kind in KINDS.values():
        taken = Taken()
        with closing(kind(rows, group, limits or ReportLimits(), taken.add)) as drawing:
            nothing = Found([], [], drawing.audited.facts)
            drawing.finish()
        found.append((drawing.data(nothing, numbered(nothing), ["made"]), taken.rows))
    (at_once, tables), (in_turn, tables_in_turn) = found
    for section, fields in at_once.items():
        assert in_turn[section] == fields, section
    for name, of_table in tables.items():
        assert tables_in_turn[name] == of_table, name
    assert "sessions" in tables


def rows_of(events: Sequence[Event]) -> Rows:
    seen = open_source([folder_of(INCIDENTS)]).rows().seen
    return rows_of_events(lambda: events, seen)


@pytest.mark.parametrize("limits", [ReportLimits(), TIGHT], ids=["wide", "tight"])
@pytest.mark.parametrize("group", [None, "idle"])
def test_a_recorded_history_has_the_same_report(group: str | None, limits: ReportLimits) -> None:
    """The files of a server with many faults, whole and of one group."""
    check_equal(open_source([folder_of(INCIDENTS)]).rows(), group, limits)


@pytest.mark.parametrize("limits", [ReportLimits(), TIGHT], ids=["wide", "tight"])
def test_random_logs_have_the_same_report(limits: ReportLimits, tmp_path: Path) -> None:
    """As servers write them: what was refused has no path, so all of it is in one bucket."""
    for seed in range(HISTORIES):
        check_equal(random_log(tmp_path, seed), limits=limits)


def test_many_commits_are_thinned_alike() -> None:
    """Curves with falls and timelines with short spans, brought together with the same grain."""
    check_equal(rows_of(list(busy(60, 12).events())), GROUP, MANY)


def test_more_subtrees_than_are_counted_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those that come first are."""
    monkeypatch.setattr(sections, "AREAS_MAX", 2)
    for seed in range(3):
        check_equal(random_log(tmp_path, seed))


@pytest.mark.parametrize("kind", KINDS)
def test_a_partition_beyond_all_numbers_is_written(kind: str, tmp_path: Path) -> None:
    """Any client can make such a path; Parquet has the last number of its column."""
    log = AuditLog()
    log.open(1)
    log.claim("g", ("t", 10**12), "m-0", 1)
    log.commit("g", ("t", 10**12), 5, 1)

    with drafts(tmp_path) as rows:
        with closing(KINDS[kind](rows_of(list(log.events())), None, ReportLimits(), rows.add)) as drawing:
            drawing.finish()
        rows.finish()

    for table in ("owners", "offsets"):
        assert read_table(tmp_path / f"{table}.parquet")["partition"].to_pylist() == [2**31 - 1]
