"""Screens leave out no row that a finding needs: on random histories, recorded ones, and a healthy day."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.benchmarks.group_days import write_logs
from tests.worlds.audit_folders import INCIDENTS
from tests.worlds.audit_folders import folder as folder_of
from tests.worlds.golden_data import FOLDER
from tests.worlds.random_histories import histories, history_of
from tests.worlds.record_by_record import checks_of, exact_rows, groups_of, sessions_of
from tests.worlds.screened_findings import assert_same, bounds_for, events_in
from zkgroup.audit.answers.partitions import rows_by_partition
from zkgroup.audit.columns.rows import columns_of
from zkgroup.audit.engine import bounds_of
from zkgroup.audit.facts import facts_of
from zkgroup.audit.findings import RULES
from zkgroup.audit.record_checks import record_checks_of
from zkgroup.audit.screening import find_screened, partition_rows, session_views
from zkgroup.audit.sources import open_source
from zkgroup.zkfiles.history import History

SCREENED = sorted(rule.name for rule in RULES if rule.screen is not None)


@pytest.mark.parametrize("first", range(0, 24, 6))
def test_screened_findings_are_those_of_all_rows(first: int) -> None:
    """On random histories, every second with random bounds."""
    for seed, events in histories(first, 6):
        assert_same(events, bounds_for(seed), f"history {seed}")


def test_an_offset_that_was_set_before_its_znode_was_made_is_not_left_out() -> None:
    """Of damaged snapshots. The screen took the later time, the rule that of the data."""
    assert_same(history_of(10_048), bounds_for(10_048), "history 10048")


def test_every_screened_finding_is_found_in_some_history() -> None:
    """A comparison of nothing with nothing would show nothing."""
    seen = set[str]()
    for seed in range(1, 40, 2):
        events = history_of(seed)
        found = find_screened(RULES, columns_of(events), facts_of(events), bounds_for(seed))
        seen |= {finding.finding for finding in found}

    assert set(SCREENED) - seen == set()


@pytest.mark.parametrize("folder", sorted(FOLDER.rglob("version-2")), ids=lambda path: path.parts[-2])
def test_recorded_histories_have_the_same_findings(folder: Path) -> None:
    """The rows that logs give as columns are those that they give as objects."""
    events = exact_rows(open_source([folder]))

    assert events_in(open_source([folder]).rows()) == events
    assert_same(events, bounds_of(RULES, {}), str(folder))


def test_a_healthy_day_makes_few_objects(tmp_path: Path) -> None:
    """Of healthy groups most rows are commits, and no rule needs to see them."""
    source = open_source([write_logs(tmp_path / "day", 20_000, 2, groups=2)])
    events = exact_rows(source)
    assert events_in(source.rows()) == events
    assert_same(events, bounds_of(RULES, {}), "a healthy day")


@pytest.mark.parametrize("folder", sorted(FOLDER.rglob("version-2")), ids=lambda path: path.parts[-2])
def test_record_checks_in_columns_are_those_of_all_records(folder: Path) -> None:
    """Elections, steps of the clock, holes and digests of recorded folders."""
    assert vars(record_checks_of(History(folder))) == vars(checks_of(History(folder)))


@pytest.mark.parametrize("group", ["idle", None])
def test_views_of_partitions_are_those_of_all_rows(group: str | None) -> None:
    """The rows of one group, or of all, and the names of the others, which a message lists."""
    rows = open_source([folder_of(INCIDENTS)]).rows()

    facts, some = partition_rows(rows, group)

    assert facts == facts_of(events_in(rows))
    assert rows_by_partition(some, group) == rows_by_partition(events_in(rows), group)
    assert groups_of(some) == groups_of(events_in(rows))
    assert len(some) < len(events_in(rows))


def test_sessions_from_columns_are_those_of_all_rows() -> None:
    """With the facts, and the names of all groups."""
    rows = open_source([folder_of(INCIDENTS)]).rows()

    facts, sessions, groups = session_views(rows)

    assert facts == facts_of(events_in(rows))
    assert sessions == sessions_of(events_in(rows), facts)
    assert groups == groups_of(events_in(rows))
