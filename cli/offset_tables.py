"""Offsets as text for a person."""

from __future__ import annotations

from collections.abc import Sequence

from zkgroup.admin.offsets.planning import OffsetChange, OffsetPlan
from zkgroup.groups.descriptions import OffsetDescription

from .render import Cell, Column, Output
from .units import age, counted


def offsets(out: Output, rows: Sequence[OffsetDescription], now_ms: int) -> None:
    """One row a partition."""
    with_ends = any(row.log_end_offset is not None for row in rows)
    ends = [Column(header="END", right=True), Column(header="LAG", right=True)] if with_ends else []
    columns = [
        Column(header="TOPIC", shorten="middle", least=8),
        Column(header="PARTITION", right=True),
        Column(header="OFFSET", right=True),
        *ends,
        Column(header="COMMITTED", right=True, rank=1),
        Column(header="VERSION", right=True, rank=2),
        Column(header="OWNER", shorten="middle", least=20, rank=3),
    ]
    out.table(
        columns,
        [
            [
                row.topic_partition.topic,
                row.topic_partition.partition,
                row.offset,
                *([row.log_end_offset, row.lag] if with_ends else []),
                age(row.committed_at_ms, now_ms),
                row.version,
                row.owner,
            ]
            for row in rows
        ],
    )


def plan(out: Output, plans: Sequence[OffsetPlan], *, executed: bool) -> None:
    """Offsets before and after, and how many change."""
    columns = [
        Column(header="GROUP", shorten="middle", least=8, rank=1),
        Column(header="TOPIC", shorten="middle", least=8),
        Column(header="PARTITION", right=True),
        Column(header="BEFORE", right=True),
        Column(header="AFTER", right=True),
        Column(header="CHANGE", right=True),
    ]
    rows = [
        [
            one.group,
            change.topic_partition.topic,
            change.topic_partition.partition,
            change.before,
            change.after if change.after >= 0 else None,
            _difference(change),
        ]
        for one in plans
        for change in one.changes
    ]
    out.table(columns, rows)
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
