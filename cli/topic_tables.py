"""Topics as text for a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from zkgroup.admin.configs import ConfigPlan, shown
from zkgroup.admin.topics.alteration import AlterationPlan
from zkgroup.admin.topics.listing import (
    PendingDeletion,
    TopicDescription,
    TopicPartitionDescription,
    TopicSummary,
)
from zkgroup.model import TopicPartition

from .render import Cell, Output, TableColumn
from .units import counted, iso_time

if TYPE_CHECKING:
    from zkgroup.clients.log_ends import LogEnd, LogEnds


class _ReplicaRow(NamedTuple):
    """A replica, and its log end."""

    partition: TopicPartitionDescription
    broker: int
    end: LogEnd


def _role(row: _ReplicaRow) -> Cell | str:
    if row.broker == row.partition.leader:
        return "leader"
    is_in_sync = row.partition.isr is None or row.broker in row.partition.isr
    return "in sync" if is_in_sync else Cell("out of sync", "warn")


_TOPIC_COLUMNS: list[TableColumn[TopicSummary]] = [
    TableColumn("TOPIC", lambda row: row.topic, shorten="middle", least=12),
    TableColumn("PARTITIONS", lambda row: row.partitions, right=True),
    TableColumn("REPLICAS", lambda row: row.replication_factor, right=True),
    TableColumn("NOTE", lambda row: _note(row)),
]
_PARTITION_COLUMNS: list[TableColumn[TopicPartitionDescription]] = [
    TableColumn("PARTITION", lambda row: row.partition, right=True),
    TableColumn("LEADER", lambda row: Cell("none", "bad") if row.leader == -1 else row.leader, right=True),
    TableColumn("REPLICAS", lambda row: _brokers(row.replicas), shorten="end"),
    TableColumn("ISR", lambda row: _isr(row), shorten="end"),
    TableColumn("LEADER EPOCH", lambda row: row.leader_epoch, right=True, rank=1),
    TableColumn("CONTROLLER EPOCH", lambda row: row.controller_epoch, right=True, rank=2),
]
_MOVING_COLUMNS: list[TableColumn[TopicPartitionDescription]] = [
    TableColumn("ADDING", lambda row: _brokers(row.adding)),
    TableColumn("REMOVING", lambda row: _brokers(row.removing)),
]
_REPLICA_COLUMNS: list[TableColumn[_ReplicaRow]] = [
    TableColumn("PARTITION", lambda row: row.partition.partition, right=True),
    TableColumn("BROKER", lambda row: row.broker, right=True),
    TableColumn("ROLE", _role, rank=1),
    TableColumn("LEO", lambda row: row.end.log_end_offset, right=True),
    TableColumn("HW", lambda row: row.end.high_watermark, right=True),
    TableColumn("NOTE", lambda row: row.end.reason, shorten="end", rank=2),
]
_ADDED_COLUMNS: list[TableColumn[tuple[int, Sequence[int]]]] = [
    TableColumn("PARTITION", lambda row: row[0], right=True),
    TableColumn("REPLICAS", lambda row: _brokers(row[1]), shorten="end"),
]
_SETTING_COLUMNS: list[TableColumn[tuple[str, str | None, str | None]]] = [
    TableColumn("SETTING", lambda row: row[0], shorten="middle"),
    TableColumn("BEFORE", lambda row: row[1], shorten="end"),
    TableColumn("AFTER", lambda row: row[2], shorten="end"),
]


def topics(out: Output, rows: Sequence[TopicSummary]) -> None:
    """One row a topic."""
    out.table(_TOPIC_COLUMNS, rows)


def described(
    out: Output,
    rows: Sequence[TopicDescription],
    ends: LogEnds | None = None,
    *,
    by_zkgroup: bool = False,
) -> None:
    """A headline and the partitions of each topic; with `ends`, the log end of each replica.

    `by_zkgroup`: brokers of zkgroup host topics, which do not compact them.
    """
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
        if by_zkgroup and (note := topic.without_compaction) is not None:
            out.line(out.paint(note, "warn"))
        moving = any(row.adding or row.removing for row in topic.partitions)
        out.table([*_PARTITION_COLUMNS, *(_MOVING_COLUMNS if moving else [])], topic.partitions)
        if ends is not None:
            out.line()
            _replicas(out, topic, ends)


def _deletion(pending: PendingDeletion) -> str:
    message = f"being deleted, asked at {iso_time(pending.asked_ms)}"
    if pending.without_brokers:
        message += f", without broker {_brokers(pending.without_brokers)}"
    return message if pending.detail is None else f"{message}; {pending.detail}"


def _replicas(out: Output, topic: TopicDescription, ends: LogEnds) -> None:
    rows = [
        _ReplicaRow(row, broker, ends[TopicPartition(topic.topic, row.partition), broker])
        for row in topic.partitions
        for broker in row.replicas
    ]
    out.table(_REPLICA_COLUMNS, rows)


def alteration(out: Output, plan: AlterationPlan, *, executed: bool = False) -> None:
    """The partitions and settings that a topic gets."""
    was, then = len(plan.before.partitions), len(plan.after.partitions)
    changes = plan.config.changes if plan.config else ()
    if not plan.added and not changes:
        out.line(f"topic {plan.topic} has all of this already: nothing to do")
        return
    if plan.added:
        name = out.paint(plan.topic, "bold")
        if was < then:
            verb = "has grown" if executed else "would grow"
            out.line(f"topic {name} {verb} from {was} to {counted(then, 'partition')}")
        if plan.gets_brokers:
            out.line(f"topic {name} {'has' if executed else 'would get'} its first brokers")
        out.table(_ADDED_COLUMNS, sorted(plan.added.items()))
    if plan.config and changes:
        setting_changes(out, plan.config)


def setting_changes(out: Output, plan: ConfigPlan) -> None:
    """Settings before and after."""
    old, new = shown(plan.before.overrides), shown(plan.after.overrides)
    out.table(_SETTING_COLUMNS, [(name, old.get(name), new.get(name)) for name, _, _ in plan.changes])


def _isr(row: TopicPartitionDescription) -> Cell | None:
    if row.isr is None:
        return None
    return Cell(_brokers(row.isr), "warn" if len(row.isr) < len(row.replicas) else None)


def _brokers(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _note(row: TopicSummary) -> Cell:
    if row.partitions is None:
        return Cell("unreadable", "bad")
    notes = [*(["internal"] if row.internal else []), *(["being deleted"] if row.marked_for_deletion else [])]
    return Cell(", ".join(notes), "warn" if row.marked_for_deletion else "dim")
