"""Topics as text for a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zkgroup.admin.configs import ConfigPlan, shown
from zkgroup.admin.topics.alteration import AlterationPlan
from zkgroup.admin.topics.listing import (
    PendingDeletion,
    TopicDescription,
    TopicPartitionDescription,
    TopicSummary,
)
from zkgroup.model import TopicPartition

from .render import Cell, Column, Output
from .units import counted, iso_time

if TYPE_CHECKING:
    from zkgroup.lines.log_ends import LogEnds

END_COLUMNS = (
    Column(header="ROLE", rank=1),
    Column(header="LEO", right=True),
    Column(header="HW", right=True),
    Column(header="NOTE", shorten="end", rank=2),
)
"""How far a replica is."""


def topics(out: Output, rows: Sequence[TopicSummary]) -> None:
    """One row a topic."""
    columns = [
        Column(header="TOPIC", shorten="middle", least=12),
        Column(header="PARTITIONS", right=True),
        Column(header="REPLICAS", right=True),
        Column(header="NOTE"),
    ]
    out.table(columns, [[row.topic, row.partitions, row.replication_factor, _note(row)] for row in rows])


def described(out: Output, rows: Sequence[TopicDescription], ends: LogEnds | None = None) -> None:
    """A headline and the partitions of each topic; with `ends`, how far each replica is."""
    for number, topic in enumerate(rows):
        if number:
            out.line()
        overrides = ", ".join(f"{name}={value}" for name, value in sorted((topic.configs or {}).items()))
        parts = [out.paint(topic.topic, "bold"), counted(len(topic.partitions), "partition"), overrides]
        out.line("  ".join(part for part in parts if part))
        if topic.deletion is not None:
            out.line(out.paint(_deletion(topic.deletion), "warn"))
        if topic.unhosted:
            out.line(out.paint("unhosted: made without brokers, for sharing its partitions", "dim"))
        moving = any(row.adding or row.removing for row in topic.partitions)
        columns = [
            Column(header="PARTITION", right=True),
            Column(header="LEADER", right=True),
            Column(header="REPLICAS", shorten="end"),
            Column(header="ISR", shorten="end"),
            Column(header="LEADER EPOCH", right=True, rank=1),
            Column(header="CONTROLLER EPOCH", right=True, rank=2),
            *([Column(header="ADDING"), Column(header="REMOVING")] if moving else []),
        ]
        out.table(columns, [_row(row, moving) for row in topic.partitions])
        if ends is not None:
            out.line()
            _replicas(out, topic, ends)


def _deletion(pending: PendingDeletion) -> str:
    message = f"being deleted, asked at {iso_time(pending.asked_ms)}"
    if pending.without_brokers:
        message += f", without broker {_brokers(pending.without_brokers)}"
    return message if pending.detail is None else f"{message}; {pending.detail}"


def _replicas(out: Output, topic: TopicDescription, ends: LogEnds) -> None:
    rows: list[list[Cell | str | int | None]] = []
    for row in topic.partitions:
        tp = TopicPartition(topic.topic, row.partition)
        for broker in row.replicas:
            end = ends[tp, broker]
            synced = row.isr is None or broker in row.isr
            role = "leader" if broker == row.leader else "in sync" if synced else Cell("out of sync", "warn")
            rows.append([row.partition, broker, role, end.log_end_offset, end.high_watermark, end.reason])
    out.table(
        [Column(header="PARTITION", right=True), Column(header="BROKER", right=True), *END_COLUMNS], rows
    )


def alteration(out: Output, plan: AlterationPlan, *, executed: bool = False) -> None:
    """What a topic gets and loses."""
    was, then = len(plan.before.partitions), len(plan.after.partitions)
    changes = plan.config.changes if plan.config else ()
    if not plan.added and not changes:
        out.line(f"topic {plan.topic} is so already: nothing to do")
        return
    if plan.added:
        name = out.paint(plan.topic, "bold")
        if was < then:
            verb = "has grown" if executed else "would grow"
            out.line(f"topic {name} {verb} from {was} to {counted(then, 'partition')}")
        if plan.gets_brokers:
            out.line(f"topic {name} {'has' if executed else 'would get'} its first brokers")
        columns = [Column(header="PARTITION", right=True), Column(header="REPLICAS", shorten="end")]
        out.table(columns, [[number, _brokers(lists)] for number, lists in sorted(plan.added.items())])
    if plan.config and changes:
        setting_changes(out, plan.config)


def setting_changes(out: Output, plan: ConfigPlan) -> None:
    """Settings before and after."""
    columns = [
        Column(header="SETTING", shorten="middle"),
        Column(header="BEFORE", shorten="end"),
        Column(header="AFTER", shorten="end"),
    ]
    old, new = shown(plan.before.overrides), shown(plan.after.overrides)
    out.table(columns, [[name, old.get(name), new.get(name)] for name, _, _ in plan.changes])


def _row(row: TopicPartitionDescription, moving: bool) -> list[Cell | str | int | None]:
    short = row.isr is not None and len(row.isr) < len(row.replicas)
    cells: list[Cell | str | int | None] = [
        row.partition,
        Cell("none", "bad") if row.leader == -1 else row.leader,
        _brokers(row.replicas),
        None if row.isr is None else Cell(_brokers(row.isr), "warn" if short else None),
        row.leader_epoch,
        row.controller_epoch,
    ]
    return [*cells, _brokers(row.adding), _brokers(row.removing)] if moving else cells


def _brokers(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _note(row: TopicSummary) -> Cell:
    if row.partitions is None:
        return Cell("unreadable", "bad")
    notes = [*(["internal"] if row.internal else []), *(["being deleted"] if row.marked_for_deletion else [])]
    return Cell(", ".join(notes), "warn" if row.marked_for_deletion else "dim")
