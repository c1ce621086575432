"""What the sections of a report free before they need memory of their own."""

from __future__ import annotations

import pytest

from tests.worlds.audit_log import AuditLog
from zkgroup.audit.keys import BY_MEMBERSHIP
from zkgroup.audit.report.keeping import ReportLimits
from zkgroup.audit.report.tables import Nowhere

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")


def test_rows_and_selections_of_rules_are_freed() -> None:
    """They are the most of the memory of a long history; drawn is the same after as before."""
    from zkgroup.audit.columns.rows import columns_of
    from zkgroup.audit.report.in_columns import drawn_in
    from zkgroup.audit.screening import AuditedColumns

    log = AuditLog()
    log.topic("t", 1)
    log.come("g", "g_a", 0xA)
    log.claim("g", ("t", 0), "g_a-0", 0xA)
    log.commit("g", ("t", 0), 5, 0xA)
    audited = AuditedColumns(columns_of(log.events()), log.facts())
    before = audited.by_key(BY_MEMBERSHIP)

    first = drawn_in(audited, ReportLimits(), Nowhere())

    assert audited.by_key(BY_MEMBERSHIP) is not before
    assert {"sessions", "groups"} & set(vars(audited.tables)) == set()
    assert drawn_in(audited, ReportLimits(), Nowhere()).sessions == first.sessions != []
