"""Offsets as text for a person."""

from __future__ import annotations

from collections.abc import Sequence

from zkgroup.admin.offsets.planning import OffsetChange, OffsetPlan
from zkgroup.groups.descriptions import OffsetDescription

from .render import Cell, Output, TableColumn
from .units import age, counted


def offsets(out: Output, rows: Sequence[OffsetDescription], now_ms: int) -> None:
    """One row a partition."""
    ends: list[TableColumn[OffsetDescription]] = [
        TableColumn("END", lambda row: row.log_end_offset, right=True),
        TableColumn("LAG", lambda row: row.lag, right=True),
    ]
    columns: list[TableColumn[OffsetDescription]] = [
        TableColumn("TOPIC", lambda row: row.topic_partition.topic, shorten="middle", least=8),
        TableColumn("PARTITION", lambda row: row.topic_partition.partition, right=True),
        TableColumn("OFFSET", lambda row: row.offset, right=True),
        *(ends if any(row.log_end_offset is not None for row in rows) else []),
        TableColumn("COMMITTED", lambda row: age(row.committed_at_ms, now_ms), right=True, rank=1),
        TableColumn("VERSION", lambda row: row.version, right=True, rank=2),
        TableColumn("OWNER", lambda row: row.owner, shorten="middle", least=20, rank=3),
    ]
    out.table(columns, rows)


GroupChange = tuple[str, OffsetChange]
"""A change, and the group whose offset it is."""

_CHANGE_COLUMNS: list[TableColumn[GroupChange]] = [
    TableColumn("GROUP", lambda row: row[0], shorten="middle", least=8, rank=1),
    TableColumn("TOPIC", lambda row: row[1].topic_partition.topic, shorten="middle", least=8),
    TableColumn("PARTITION", lambda row: row[1].topic_partition.partition, right=True),
    TableColumn("BEFORE", lambda row: row[1].before, right=True),
    TableColumn("AFTER", lambda row: row[1].after if row[1].after >= 0 else None, right=True),
    TableColumn("CHANGE", lambda row: _difference(row[1]), right=True),
]


def plan(out: Output, plans: Sequence[OffsetPlan], *, executed: bool) -> None:
    """Offsets before and after, and how many change."""
    out.table(_CHANGE_COLUMNS, [(one.group, change) for one in plans for change in one.changes])
    effective = sum(len(one.effective) for one in plans)
    same = sum(len(one.changes) for one in plans) - effective
    verb = "changed" if executed else "would change"
    out.line()
    out.line(f"{counted(effective, 'offset')} {verb}" + (f", {same} as they are" if same else ""))


def _difference(change: OffsetChange) -> Cell:
    """`-` where nothing is written, `new`, `gone`, or by how much the offset changes."""
    before, after = change.before, change.after
    if not change.changes or after == before:
        return Cell("-", "dim")
    if after >= 0 and before is not None:
        return Cell(f"{after - before:+d}", "warn" if after < before else None)
    return Cell("new" if after >= 0 or change.version is None else "gone", "warn")
