"""The JSON documents of groups, offsets, topics, status and znodes: one declaration of each output field.

A field is declared in the class whose `Shape` stands here: one of `zkgroup.groups` or `zkgroup.admin`, or a
dataclass of this module. `zkgroup_cli.schemas` publishes the derived JSON Schemas. Keys are never missing,
unknown is null, times are ISO-8601 UTC with milliseconds.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zkgroup.admin.cluster.status import CLEAR_THROTTLE, Finding, Status
from zkgroup.admin.files import SavedOffset
from zkgroup.admin.offsets.planning import OffsetChange
from zkgroup.admin.topics.creation import LeadersSeen
from zkgroup.admin.topics.deletion import DeletionSeen, TopicDeletionPlan
from zkgroup.admin.topics.listing import (
    PendingDeletion,
    TopicDescription,
    TopicPartitionDescription,
    TopicSummary,
)
from zkgroup.groups.descriptions import (
    GroupDescription,
    GroupSummary,
    MemberDescription,
    OffsetDescription,
    PartitionDescription,
    Preview,
    PreviewRow,
    Problem,
    Verification,
)
from zkgroup.groups.ensemble import AsOf
from zkgroup.model import TopicPartition, Znode, ZnodeStat
from zkgroup.model.requests import STAT_NAMES

from .schema import BROKERS, COUNT, INTEGER, Document, Field, Json, Shape, given, nullable
from .units import iso_time

if TYPE_CHECKING:
    from zkgroup.lines.log_ends import LogEnd, LogEnds

GROUP_SUMMARY = Shape(GroupSummary)
MEMBER = Shape(MemberDescription)
GROUP_PARTITION = Shape(PartitionDescription)
GROUP = Document(
    "group", Shape(GroupDescription, "group", "state", "assignor", "generation", "members", "partitions")
)
PROBLEM = Shape(Problem)
VERIFICATION = Document("verify", Shape(Verification, "group", "converged", "problems"))
PREVIEW_ROW = Shape(PreviewRow)
PREVIEW = Document("preview", Shape(Preview, "group", "assignor", "partitions", "moves"))
OFFSET = Shape(OffsetDescription)
SAVED_OFFSET = Shape(SavedOffset)
OFFSET_CHANGE = Shape(
    OffsetChange,
    "topic_partition",
    "before",
    Field("after", nullable(COUNT), lambda change: change.after if change.after >= 0 else None),
    "changed=changes",
)
TOPIC_SUMMARY = Shape(TopicSummary)
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
)
PENDING_DELETION = Shape(PendingDeletion, "asked_at=asked_ms", "detail", given("without_brokers", BROKERS))
TOPIC = Shape(TopicDescription, "topic", "partitions", "configs", "deletion", "unhosted")
FINDING = Shape(Finding)


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """`group list`."""

    groups: Sequence[GroupSummary]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """`offsets show`."""

    group: str
    offsets: Sequence[OffsetDescription]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetChanges:
    """`offsets set`, `reset`, `import` and `undo`, for one group; shown or done."""

    group: str
    executed: bool
    undo: str | None
    changes: Sequence[OffsetChange]


@dataclass(frozen=True, slots=True, kw_only=True)
class Nudge:
    """`group nudge`."""

    group: str
    executed: bool
    members: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeletion:
    """`group delete`."""

    group: str
    executed: bool
    undo: str | None
    members: Sequence[str]
    offsets: int
    znodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetExport:
    """`offsets export`."""

    offsets: Sequence[SavedOffset]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chroot:
    """`zookeeper create-chroot`."""

    chroot: str
    executed: bool
    znodes: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """`undo` of a deletion: the znodes that are created again."""

    undone: str
    executed: bool
    znodes: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """`topic describe`."""

    topics: Sequence[TopicDescription]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicList:
    """`topic list`."""

    topics: Sequence[TopicSummary]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartition:
    """A partition that is created, with its replica list."""

    partition: int
    replicas: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaderless:
    """A partition without a leader when a wait ended, and why."""

    partition: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreation:
    """`topic create`; the last two are null where it was not waited for leaders."""

    topic: str
    created: bool
    undo: str | None
    partitions: Sequence[NewPartition]
    configs: Mapping[str, str] | None
    converged: bool | None
    leaderless: Sequence[Leaderless] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeletion:
    """`topic delete`, executed where there is an undo; the last two are null where it was not waited for."""

    topic: str
    executed: bool
    undo: str | None
    controller: int | None
    znodes: int
    without_brokers: Sequence[int]
    converged: bool | None
    detail: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """`doctor`."""

    findings: Sequence[Finding]


LEADERLESS = Shape(Leaderless)
NEW_PARTITION = Shape(NewPartition, "partition", given("replicas", BROKERS))
GROUPS = Document("groups", Shape(Groups))
OFFSETS = Document("offsets", Shape(Offsets))
OFFSET_CHANGES = Document("offset_changes", Shape(OffsetChanges))
NUDGE = Document("nudge", Shape(Nudge))
GROUP_DELETION = Document("group_deletion", Shape(GroupDeletion))
OFFSET_EXPORT = Document("offset_export", Shape(OffsetExport))
CHROOT = Document("chroot", Shape(Chroot))
RESTORATION = Document("restoration", Shape(Restoration))
TOPICS = Document("topics", Shape(Topics))
TOPIC_LIST = Document("topic_list", Shape(TopicList))
TOPIC_CREATION = Document("topic_creation", Shape(TopicCreation))
TOPIC_DELETION = Document(
    "topic_deletion",
    Shape(
        TopicDeletion,
        *("topic", "executed", "undo", given("controller", nullable(INTEGER)), "znodes"),
        *(given("without_brokers", BROKERS), "converged", "detail"),
    ),
)
FINDINGS = Document("doctor", Shape(Findings))


def document(name: str, as_of: AsOf, **fields: Any) -> Json:
    """A whole document: schema and moment, then the fields in the order given."""
    return {"schema": f"zkgroup.{name}/1", "as_of": moment(as_of), **fields}


def moment(as_of: AsOf) -> Json:
    """How old the snapshot is."""
    return {"zxid": as_of.zxid, "time": iso_time(as_of.time_ms)}


def described_groups(described: Sequence[GroupDescription]) -> Json:
    """Several groups described at once: each a whole document of its own."""
    return document("groups", described[-1].as_of, groups=[GROUP.json(one.as_of, one) for one in described])


def topic_replicas(as_of: AsOf, described: Iterable[TopicDescription], ends: LogEnds) -> Json:
    """`topic describe --replicas`: with `logs`, how far each replica is."""
    rows = []
    for topic in described:
        row = TOPIC.json(topic)
        for partition, document_of_it in zip(topic.partitions, row["partitions"], strict=True):
            document_of_it["logs"] = _logs(topic.topic, partition, ends)
        rows.append(row)
    return document("topic_replicas", as_of, topics=rows)


def leaderless(seen: LeadersSeen | None) -> tuple[bool | None, Sequence[Leaderless] | None]:
    """How a wait for leaders ended: `converged` and `leaderless`; both None without a wait."""
    if seen is None:
        return None, None
    rows = [Leaderless(partition=tp.partition, detail=why) for tp, why in sorted(seen.leaderless.items())]
    return not rows, rows


def topic_creation(
    as_of: AsOf,
    topic: TopicDescription,
    *,
    created: bool,
    undo: str | None = None,
    seen: LeadersSeen | None = None,
) -> Json:
    """`topic create`; `seen` where it was waited for leaders."""
    converged, without = leaderless(seen)
    made = TopicCreation(
        topic=topic.topic,
        created=created,
        undo=undo,
        partitions=[NewPartition(partition=row.partition, replicas=row.replicas) for row in topic.partitions],
        configs=topic.configs,
        converged=converged,
        leaderless=without,
    )
    return TOPIC_CREATION.json(seen.as_of if seen else as_of, made)


def topic_deletion(plan: TopicDeletionPlan, *, undo: str | None, seen: DeletionSeen | None = None) -> Json:
    """`topic delete`, executed where there is an undo; `seen` where it was waited for the end."""
    made = TopicDeletion(
        topic=plan.topic,
        executed=undo is not None,
        undo=undo,
        controller=plan.controller,
        znodes=len(plan.znodes),
        without_brokers=plan.without,
        converged=seen.gone if seen else None,
        detail=seen.detail if seen else None,
    )
    return TOPIC_DELETION.json(seen.as_of if seen else plan.as_of, made)


def status(found: Status, zookeeper: str) -> Json:
    """`status`."""
    brokers = {
        "data": list(found.brokers.data),
        "controller_only": list(found.brokers.controllers_only),
        "unreadable": list(found.brokers.unreadable),
    }
    return document(
        "status",
        found.as_of,
        zookeeper=zookeeper,
        session_timeout_ms=found.session_timeout_ms,
        brokers=brokers,
        controller=found.controller,
        controller_epoch=found.controller_epoch,
        controller_kind=found.health.kind,
        controller_hung=found.health.hung,
        last_processed_zxid=found.health.last_processed_zxid,
        unreadable=[{"path": path, "detail": text} for path, text in found.unreadable.items()],
        refetching=[
            {"broker": broker, "partitions": list(names)} for broker, names in found.health.refetching.items()
        ],
        restart=[{"broker": broker, "why": why} for broker, why in found.health.restart.items()],
        waiting=[{"what": what, "why": why} for what, why in found.health.waiting.items()],
        left_off=found.health.left_off,
        topics=len(found.topics),
        partitions=sum(topic.partitions or 0 for topic in found.topics),
        offline_partitions=found.offline,
        under_replicated_partitions=found.under_replicated,
        reassigning=found.moving,
        plans=list(found.plans),
        throttle_left=_throttle_left(found),
        groups=[GROUP_SUMMARY.json(row) for row in found.groups],
    )


def _throttle_left(found: Status) -> Json | None:
    if not found.throttle_left:
        return None
    left = found.throttle_left
    return {"brokers": list(left.brokers), "topics": list(left.topics), "next": CLEAR_THROTTLE}


def znode(one: Znode) -> Json:
    """A znode: `data` where it is text, else `data_base64`; both null where the server stores null."""
    text, encoded = None, None
    if one.data is not None:
        try:
            text = one.data.decode("utf-8")
        except UnicodeDecodeError:
            encoded = base64.b64encode(one.data).decode("ascii")
    return {"path": one.path, "data": text, "data_base64": encoded, "stat": stat(one.stat)}


def stat(values: ZnodeStat) -> Json:
    """A Stat with ZooKeeper's own names."""
    return dict(zip(STAT_NAMES, values, strict=True))


def _logs(topic: str, row: TopicPartitionDescription, ends: LogEnds) -> list[Json]:
    tp = TopicPartition(topic, row.partition)
    return [{"broker": broker, **log_end(ends[tp, broker])} for broker in row.replicas]


def log_end(end: LogEnd) -> Json:
    """How far a replica is."""
    return {
        "log_end_offset": end.log_end_offset,
        "high_watermark": end.high_watermark,
        "reason": end.reason,
    }


def threads_text(threads: Mapping[str, int]) -> str:
    """`orders, clicks×2`."""
    return ", ".join(f"{topic}×{count}" if count != 1 else topic for topic, count in sorted(threads.items()))
