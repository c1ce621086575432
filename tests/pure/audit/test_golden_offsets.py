"""Offsets and sessions in what real Kafka and real servers left behind, to the zxid."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.worlds.golden_data import FOLDER
from tests.worlds.plain_findings import find
from tests.worlds.record_by_record import sessions_of
from tests.worlds.screened_findings import events_in
from zkgroup.audit.answers.partitions import offsets_of
from zkgroup.audit.events import Event
from zkgroup.audit.facts import facts_of
from zkgroup.audit.findings import (
    offsets,
    rebalances,
    sessions,
)
from zkgroup.audit.points_in_time import PointInTime
from zkgroup.audit.rules import Finding, Rule
from zkgroup.audit.sources import open_source
from zkgroup.model import TopicPartition

REWOUND = [(0x8E, 0), (0x8F, 1), (0x90, 2), (0x91, 3)]
"""Zxid and partition: owners taken over, offsets moved to 1000, and the JVM member sets them back to 21."""
ADOPTED = [(0xDA, 0), (0xDD, 1), (0xE0, 2), (0xE3, 3)]
"""Owners of the same text in a foreign session: the member commits for claims that are not its own."""
UNOWNED = [(0x95, 0), (0x96, 1), (0x97, 2), (0x98, 3), (0xE5, 0), (0xE6, 1), (0xE7, 2), (0xE8, 3)]
"""The foreign owners are gone, and nobody owns."""


def events(name: str, from_zxid: int = 0) -> Iterator[Event]:
    """The rows of a recorded session, from a zxid on with the tree before it as seeds."""
    source = open_source([FOLDER / "kafka-0.8.2.2" / name / "version-2"])
    start = PointInTime(zxid=from_zxid) if from_zxid else None
    return events_in(source.rows(start))


def found(rule: Rule, name: str = "zookeeper-3.4.6-incidents", from_zxid: int = 0) -> list[Finding]:
    return find([rule], lambda: events(name, from_zxid))


def places(findings: list[Finding], severity: str) -> list[tuple[int | None, int | None]]:
    return [(each.from_zxid, each.partition) for each in findings if each.severity == severity]


@pytest.mark.parametrize("from_zxid", [0, 0x60, 0x8E], ids=hex)
def test_the_rewind_of_the_zombie_is_found_wherever_the_history_begins(from_zxid: int) -> None:
    """From the first record, and on top of a tree: 1000 back to 21, four times, and nothing else."""
    findings = found(offsets.OFFSET_REGRESSION, from_zxid=from_zxid)

    assert places(findings, "error") == REWOUND
    assert len(findings) == 4
    assert all(each.detail.startswith("1000 -> 21 by member g_a ") for each in findings)


@pytest.mark.parametrize("from_zxid", [0, 0x60, 0x8E], ids=hex)
def test_commits_under_foreign_owners_are_zombies(from_zxid: int) -> None:
    """And warnings are those of nobody's partitions."""
    findings = found(offsets.ZOMBIE_COMMIT, from_zxid=from_zxid)

    assert places(findings, "error") == REWOUND + ADOPTED
    assert places(findings, "warning") == UNOWNED


def test_jvm_members_of_a_peaceful_session_commit_late_three_times_at_most() -> None:
    """While a group of three forms: just after their own release, before the next claim."""
    assert places(found(offsets.ZOMBIE_COMMIT, "zookeeper-3.4.6"), "warning") == [
        (0x1C1, 1),
        (0x1C6, 1),
        (0x1C9, 0),
    ]
    assert found(offsets.ZOMBIE_COMMIT, "zookeeper-3.9.4") == []
    assert found(offsets.OFFSET_REGRESSION, "zookeeper-3.4.6") == []


def test_only_partitions_without_news_are_handed_over_uncommitted() -> None:
    """Nothing was produced meanwhile, or the member never commits: told, and no more than told."""
    findings = found(offsets.NO_COMMIT_AT_HANDOVER, "zookeeper-3.4.6")

    assert {(each.group, each.severity) for each in findings} == {("gw", "info"), ("gesc", "info")}


def test_the_pause_past_the_session_is_an_expiry() -> None:
    """The only member that expired; the others closed."""
    expired = [
        (each.group, each.from_zxid)
        for each in found(sessions.SESSION_END)
        if each.group is not None and " expired " in each.detail
    ]

    assert expired == [("pause", 0x108)]


def test_a_crash_is_handed_over_within_a_second_of_the_expiry() -> None:
    """g4 b was killed at rest with two partitions, in 3.4.6; g b in 3.9.4, whose records list what goes."""
    of_346 = [each for each in found(rebalances.HANDOVER_TIME, "zookeeper-3.4.6") if "expired" in each.detail]
    of_394 = found(rebalances.HANDOVER_TIME, "zookeeper-3.9.4")

    assert [(each.group, each.from_zxid, each.to_zxid) for each in of_346] == [("g4", 0x1F3, 0x1FF)]
    assert [(each.group, each.from_zxid, each.to_zxid) for each in of_394] == [("g", 0xCA, 0xD5)]


def test_the_view_of_offsets_lists_all_writes_of_a_partition() -> None:
    """First commits, the foreigner, the rewind, and a commit that nobody owned."""
    rows = list(events("zookeeper-3.4.6-incidents"))

    told = offsets_of(rows, facts_of(rows), "g", TopicPartition("t", 0))

    assert [(row.zxid, row.offset, row.owned, row.owner, row.is_rewind) for row in told] == [
        (0x3E, 0, True, "g_a-0", False),
        (0x48, 20, True, "g_a-0", False),
        (0x84, 1000, True, "g_other-0", False),
        (0x8E, 21, False, "g_other-0", True),
        (0x95, 22, False, None, False),
    ]
    assert [row.members for row in told] == [("g_a",), ("g_a",), (), ("g_a",), ("g_a",)]
    assert {row.kind for row in told} == {"commit"}


def test_the_view_of_sessions_has_a_row_for_each() -> None:
    """Brokers, members and strangers; all that were opened in the log."""
    rows = list(events("zookeeper-3.4.6-incidents"))
    opened = {row.session: row for row in rows if row.op == "createSession"}

    told = sessions_of(rows, facts_of(rows))

    assert [row.session for row in told] == list(opened)
    paused = next(row for row in told if row.to_zxid == 0x108)
    assert (paused.ended, paused.timeout_ms, paused.members) == ("expired", 3_000, (("pause", "pause_e"),))
    assert (paused.ephemerals, paused.created) == (5, 5)
    first = told[0]
    assert (first.brokers, first.was_controller, first.ended) == (("1",), True, "expired")
