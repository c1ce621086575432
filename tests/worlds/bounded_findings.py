"""Compares what is found in buckets on the disk with what is found in all rows in memory."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from tests.worlds.history_files import consistent, write_history
from tests.worlds.random_histories import history_of
from tests.worlds.record_by_record import groups_of, rows_by_partition, sessions_of
from tests.worlds.screened_findings import whole_columns
from zkgroup.audit.answers.snapshots import partition_rows, session_views
from zkgroup.audit.findings.buckets import AuditedRows, RowLimits
from zkgroup.audit.findings.engine import RULES
from zkgroup.audit.findings.rules import Bounds
from zkgroup.audit.findings.tables import ScreenTables
from zkgroup.audit.inputs.opening import open_source
from zkgroup.audit.inputs.rows import facts_in
from zkgroup.audit.inputs.source import Rows

TIGHT = RowLimits(most_rows=1, rows_per_part=40, buckets=3)
"""Short histories, too, are written in several parts."""


def rows_of(place: Path, seed: int) -> Rows:
    """The rows of a random history, out of the files of a server."""
    folder = place / f"version-2-{seed}"
    write_history(folder, list(consistent(history_of(seed))), random.Random(seed))
    return open_source([folder]).rows()


def assert_same(rows: Rows, bounds: Mapping[str, Bounds], what: str) -> Counter[str]:
    """Facts, sessions, rows of partitions and findings are the same; counts what was found."""
    columns = whole_columns(rows)
    facts = facts_in(columns)
    whole = Counter(ScreenTables(columns, facts).find(RULES, bounds))
    events = list(columns.events())
    assert session_views(rows, TIGHT.rows_per_part)[:2] == (facts, sessions_of(events, facts)), what
    for group in (None, *sorted(groups_of(events))[:2]):
        seen, some = partition_rows(rows, group, TIGHT.rows_per_part)
        exact = rows_by_partition(events).items()
        assert (seen, some) == (facts, {at: mine for at, mine in exact if group in (None, at.group)}), what
    with closing(AuditedRows(rows, None, TIGHT)) as bounded:
        assert (what, bounded.written > 0) == (what, (~columns.seed).sum() > TIGHT.most_rows)
        assert bounded.facts == facts, what
        found = Counter(bounded.find(RULES, bounds))
    assert (what, whole - found) == (what, Counter())
    assert (what, found - whole) == (what, Counter())
    return Counter(finding.finding for finding in found.elements())
