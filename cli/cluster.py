"""Brokers, topics and settings: the JSON documents and the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from zkgroup.admin.change import ChangeResult
from zkgroup.admin.cluster.brokers import BrokerSummary
from zkgroup.admin.configs import ConfigPlan, shown
from zkgroup.admin.topics.alteration import AlterationPlan
from zkgroup.admin.topics.creation import LeadersSeen
from zkgroup.admin.topics.deletion import DeletionSeen, TopicDeletionPlan
from zkgroup.admin.topics.listing import (
    PendingDeletion,
    TopicDescription,
    TopicPartitionDescription,
    TopicSummary,
)
from zkgroup.model import TopicPartition
from zkgroup.model.text import counted, iso_time

from .render import Cell, Output
from .schema import (
    BOOLEAN,
    BROKERS,
    COUNT,
    INTEGER,
    STRING,
    Document,
    Json,
    JsonKey,
    KeyColumn,
    NamedKeys,
    Shape,
    given,
    list_of,
    nullable,
    rows_of,
    word,
)

if TYPE_CHECKING:
    from zkgroup.clients.log_ends import LogEnd, LogEnds


class NewPartition(NamedTuple):
    """A partition that is created, with its replica list."""

    partition: int
    replicas: Sequence[int]


class PartitionWithoutLeader(NamedTuple):
    """A partition without a leader when a wait ended, and why."""

    partition: int
    detail: str


class SettingChange(NamedTuple):
    """A setting before and after; null where it is not set."""

    name: str
    before: str | None
    after: str | None


class _ReplicaRow(NamedTuple):
    """A replica, and its log end."""

    partition: TopicPartitionDescription
    broker: int
    end: LogEnd


def broker_note(row: BrokerSummary) -> str:
    """The roles of a broker that its kind does not say."""
    notes = ["controller"] if row.controller else []
    return ", ".join([*notes, "hosts nothing"] if row.role == "controller" else notes)


BROKER = Shape(
    BrokerSummary,
    *("broker", "host", given("port", INTEGER), "registered_at_ms", "version", "epoch"),
    *(given("kind", word("zkgroup", "kafka")), given("role", word("data", "controller")), "controller"),
    columns=(
        *("broker", KeyColumn("host", shorten="middle"), "port"),
        KeyColumn("registered_at", "REGISTERED", rank=2),
        *(KeyColumn("version", rank=3), KeyColumn("kind", rank=1), KeyColumn("note", cell=broker_note)),
    ),
)


def _moves(rows: Sequence[TopicPartitionDescription]) -> bool:
    return any(row.adding or row.removing for row in rows)


def _note(row: TopicSummary) -> Cell:
    if row.partitions is None:
        return Cell("unreadable", "bad")
    notes = [*(["internal"] if row.internal else []), *(["being deleted"] if row.marked_for_deletion else [])]
    return Cell(", ".join(notes), "warn" if row.marked_for_deletion else "dim")


def _isr(row: TopicPartitionDescription) -> Cell | None:
    if row.isr is None:
        return None
    return Cell(_brokers(row.isr), "warn" if len(row.isr) < len(row.replicas) else None)


def _role(row: _ReplicaRow) -> Cell | str:
    if row.broker == row.partition.leader:
        return "leader"
    is_in_sync = row.partition.isr is None or row.broker in row.partition.isr
    return "in sync" if is_in_sync else Cell("out of sync", "warn")


TOPIC_SUMMARY = Shape(
    TopicSummary,
    columns=(
        KeyColumn("topic", shorten="middle", least=12),
        "partitions",
        KeyColumn("replication_factor", "REPLICAS"),
        KeyColumn("note", cell=_note),
    ),
)
TOPIC_LIST = Document("topic_list", NamedKeys(topics=Sequence[TopicSummary]), rows="topics")
TOPIC_PARTITION = Shape(
    TopicPartitionDescription,
    "partition",
    given("replicas", BROKERS),
    given("leader", nullable(INTEGER)),
    given("leader_epoch", nullable(INTEGER)),
    given("isr", nullable(BROKERS)),
    given("controller_epoch", nullable(INTEGER)),
    given("adding", BROKERS),
    given("removing", BROKERS),
    columns=(
        "partition",
        KeyColumn("leader", cell=lambda row: Cell("none", "bad") if row.leader == -1 else row.leader),
        KeyColumn("replicas", shorten="end"),
        KeyColumn("isr", cell=_isr, shorten="end"),
        KeyColumn("leader_epoch", rank=1),
        KeyColumn("controller_epoch", rank=2),
        KeyColumn("adding", when=_moves),
        KeyColumn("removing", when=_moves),
    ),
)
PENDING_DELETION = Shape(PendingDeletion, "asked_at=asked_ms", "detail", given("without_brokers", BROKERS))
TOPIC = Shape(TopicDescription, "topic", "partitions", "configs", "deletion", "unhosted")
TOPICS = Document("topics", NamedKeys(topics=Sequence[TopicDescription]), rows="topics")
_REPLICA = Shape(
    _ReplicaRow,
    JsonKey("partition", COUNT, attrgetter("partition.partition")),
    JsonKey("broker", COUNT, attrgetter("broker")),
    JsonKey("leo", COUNT, attrgetter("end.log_end_offset")),
    JsonKey("hw", COUNT, attrgetter("end.high_watermark")),
    JsonKey("note", STRING, attrgetter("end.reason")),
    columns=(
        *("partition", "broker", KeyColumn("role", cell=_role, rank=1)),
        *("leo", "hw", KeyColumn("note", shorten="end", rank=2)),
    ),
)
NEW_PARTITION = Shape(
    NewPartition,
    *("partition", given("replicas", BROKERS)),
    columns=("partition", KeyColumn("replicas", shorten="end")),
)
PARTITION_WITHOUT_LEADER = Shape(PartitionWithoutLeader)
SETTING_CHANGE = Shape(
    SettingChange,
    columns=(
        KeyColumn("name", "SETTING", shorten="middle"),
        KeyColumn("before", shorten="end"),
        KeyColumn("after", shorten="end"),
    ),
)


class TopicOutcome(NamedTuple):
    """The topic of `topic create`, whether it was created, and what the last read found after a wait."""

    topic: str
    assignment: Mapping[int, Sequence[int]]
    configs: Mapping[str, str] | None
    created: bool
    undo: str | None
    outcome: LeadersSeen | None


def _leaderless(value: TopicOutcome | Altered) -> list[Json] | None:
    seen = value.outcome
    if seen is None:
        return None
    rows = (PartitionWithoutLeader(tp.partition, why) for tp, why in sorted(seen.leaderless.items()))
    return [PARTITION_WITHOUT_LEADER.json(one) for one in rows]


# Both are null where it was not waited for leaders.
_LEADERS = (
    JsonKey("converged", nullable(BOOLEAN), lambda value: value.outcome and not value.outcome.leaderless),
    JsonKey("leaderless", nullable(list_of(PARTITION_WITHOUT_LEADER.schema)), _leaderless),
)
TOPIC_CREATION = Document(
    "topic_creation",
    Shape(
        TopicOutcome,
        *("topic", "created", "undo"),
        rows_of("partitions", NEW_PARTITION, lambda one: _new_partitions(one.assignment)),
        *("configs", *_LEADERS),
    ),
)
Altered = ChangeResult[AlterationPlan, None, LeadersSeen]
TOPIC_ALTERATION = Document(
    "topic_alteration",
    Shape(
        Altered,
        *("plan.topic", "executed", "undo=undo_id"),
        JsonKey("partitions_before", COUNT, lambda one: len(one.plan.before.partitions)),
        JsonKey("partitions_after", COUNT, lambda one: len(one.plan.after.partitions)),
        rows_of("added", NEW_PARTITION, lambda one: _new_partitions(one.plan.added)),
        rows_of(
            "configs", SETTING_CHANGE, lambda one: setting_changes(one.plan.config) if one.plan.config else ()
        ),
        *_LEADERS,
    ),
)
TOPIC_DELETION = Document(
    "topic_deletion",
    Shape(
        ChangeResult[TopicDeletionPlan, None, DeletionSeen],
        *(
            "plan.topic",
            "executed",
            "undo=undo_id",
            given("controller", nullable(INTEGER), "plan.controller"),
        ),
        JsonKey("znodes", COUNT, lambda one: len(one.plan.znodes)),
        given("without_brokers", BROKERS, "plan.without"),
        *("converged=outcome.gone", "outcome.detail"),
    ),
)


def _new_partitions(assignment: Mapping[int, Sequence[int]]) -> list[NewPartition]:
    return [NewPartition(number, replicas) for number, replicas in sorted(assignment.items())]


def setting_changes(plan: ConfigPlan) -> list[SettingChange]:
    """Settings before and after."""
    old, new = shown(plan.before.overrides), shown(plan.after.overrides)
    return [SettingChange(name, old.get(name), new.get(name)) for name, _, _ in plan.changes]


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
        TOPIC_PARTITION.table(out, topic.partitions)
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
    _REPLICA.table(out, rows)


def alteration(out: Output, result: Altered) -> None:
    """The partitions and settings that a topic gets."""
    plan, executed = result.plan, result.executed
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
        NEW_PARTITION.table(out, _new_partitions(plan.added))
    if plan.config and changes:
        SETTING_CHANGE.table(out, setting_changes(plan.config))


def _brokers(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
