"""What the sections of a report free before they need memory of their own."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.worlds.audit_log import AuditLog
from tests.worlds.screened_findings import rows_of_events
from zkgroup.audit.engine import bounds_of
from zkgroup.audit.findings import RULES
from zkgroup.audit.keys import BY_MEMBERSHIP
from zkgroup.audit.report.keeping import ReportLimits
from zkgroup.audit.report.tables import Nowhere
from zkgroup.audit.source import SeenTree
from zkgroup.zkfiles.tree import Tree


def test_rows_and_selections_of_rules_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the most of the memory of a long history; rows by key can be made again."""
    from zkgroup.audit.report import in_columns
    from zkgroup.audit.screening import AuditedColumns

    log = AuditLog()
    log.topic("t", 1)
    log.come("g", "g_a", 0xA)
    log.claim("g", ("t", 0), "g_a-0", 0xA)
    log.commit("g", ("t", 0), 5, 0xA)
    kept, seen = in_columns.OffsetColumns, []
    add = in_columns._ColumnSections.add

    def of_rules(self: in_columns._ColumnSections, audited: AuditedColumns) -> None:
        before = audited.by_key(BY_MEMBERSHIP)
        add(self, audited)
        seen.append(audited.by_key(BY_MEMBERSHIP) is before)

    def offsets(tables: in_columns.ScreenTables, *args: object) -> object:
        seen.append({"sessions", "groups"} & set(vars(tables)))
        return kept(tables, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(in_columns._ColumnSections, "add", of_rules)
    monkeypatch.setattr(in_columns, "OffsetColumns", offsets)
    rows = rows_of_events(log.events, SeenTree(Tree(digests=False), 0, None, True, False, ""))
    with closing(in_columns.ColumnsDrawing(rows, None, ReportLimits(), Nowhere())) as drawing:
        list(drawing.find(RULES, bounds_of(RULES, {})))
        assert drawing.drawn().sessions

    assert seen == [set(), False]
