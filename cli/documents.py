"""The JSON documents of groups, offsets, topics, status and znodes: one declaration of each output field.

A field is declared in the class whose `Shape` stands here: one of `zkgroup.groups` or `zkgroup.admin`, or a
dataclass of this module. `zkgroup_cli.schemas` publishes the derived JSON Schemas. Keys are never missing,
unknown is null, times are ISO-8601 UTC with milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from zkgroup.admin.cluster.brokers import Brokers
from zkgroup.admin.coordinator_status import CoordinatorStatus
from zkgroup.admin.files import SavedOffset
from zkgroup.admin.finding import DoctorFinding
from zkgroup.admin.offsets.planning import AffectedMember, OffsetChange
from zkgroup.admin.offsets.standing import OffsetStanding
from zkgroup.admin.persistent import PersistentZnode
from zkgroup.admin.reassign.throttles import Throttled
from zkgroup.admin.status import CLEAR_THROTTLE, Status
from zkgroup.admin.topics.creation import LeadersSeen
from zkgroup.admin.topics.deletion import DeletionSeen, TopicDeletionPlan
from zkgroup.admin.topics.listing import (
    MissingBroker,
    PendingDeletion,
    TopicDescription,
    TopicPartitionDescription,
    TopicSummary,
)
from zkgroup.admin.undo_records import UndoRecord
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
from zkgroup.model import Znode

from .schema import (
    BOOLEAN,
    BROKERS,
    COUNT,
    INTEGER,
    STRING,
    Document,
    Entries,
    Json,
    JsonKey,
    Shape,
    given,
    list_of,
    nullable,
    word,
)
from .znode_documents import ZNODE

GROUP_SUMMARY = Shape(GroupSummary)
MEMBER = Shape(MemberDescription)
GROUP_PARTITION = Shape(PartitionDescription)
GROUP = Document(
    "group",
    Shape(
        GroupDescription,
        *("group", "state", "assignor", "generation", "members", "partitions", "problems"),
        *("protocol", "protocol_state", "group_generation"),
    ),
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
    JsonKey("after", nullable(COUNT), lambda change: change.after if change.after >= 0 else None),
    "changed=changes",
)
AFFECTED_MEMBER = Shape(AffectedMember, "member", "kind", "obeys", "partitions")
OFFSET_STANDING = Shape(OffsetStanding)
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
FINDING = Shape(DoctorFinding)
PERSISTENT_ZNODE = Shape(PersistentZnode)
MISSING_BROKER = Shape(MissingBroker, given("broker", INTEGER), "partitions", "out_of_sync_since_ms")
STATUS_BROKERS = Shape(
    Brokers,
    *(given("data", BROKERS), given("controller_only", BROKERS, "controllers_only"), "unreadable"),
)
THROTTLE_LEFT = Shape(
    Throttled,
    JsonKey("brokers", BROKERS, lambda left: list(left.brokers)),
    JsonKey("topics", list_of(STRING), lambda left: list(left.topics)),
    JsonKey("next", STRING, lambda _: CLEAR_THROTTLE),
)
COORDINATOR_STATUS = Shape(CoordinatorStatus)
UNDO = Shape(
    UndoRecord,
    *("undo=undo_id", "time_ms", "command", "zookeeper"),
    JsonKey("undoable", BOOLEAN, lambda record: record.no_undo is None),
    "detail=summary",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """`group list`."""

    groups: Sequence[GroupSummary]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroups:
    """`group describe` of several groups: each is a whole document of its own."""

    groups: Sequence[GroupDescription]


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
    members: Sequence[AffectedMember]
    standing: Sequence[OffsetStanding] | None
    """Of each written offset; None without a wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetChangesList:
    """The same for several groups: each is a whole document of its own."""

    groups: Sequence[tuple[AsOf, OffsetChanges]]


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
class RestorationDocument:
    """`undo` of a deletion: the znodes that are created again."""

    undone: str
    executed: bool
    znodes: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FixDocument:
    """`doctor --fix`: the persistent znodes that are removed."""

    executed: bool
    undo: str | None
    znodes: Sequence[PersistentZnode]


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
class PartitionWithoutLeader:
    """A partition without a leader when a wait ended, and why."""

    partition: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreationDocument:
    """`topic create`; the last two are null where it was not waited for leaders."""

    topic: str
    created: bool
    undo: str | None
    partitions: Sequence[NewPartition]
    configs: Mapping[str, str] | None
    converged: bool | None
    leaderless: Sequence[PartitionWithoutLeader] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeletionDocument:
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

    findings: Sequence[DoctorFinding]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusDocument:
    """`status`."""

    status: Status
    zookeeper: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Undos:
    """`undo list`."""

    undos: Sequence[UndoRecord]


class TimeAlone(NamedTuple):
    """The moment of a document that is of no snapshot."""

    time_ms: int
    zxid: int | None = None


class ZnodeChild(NamedTuple):
    """A row of `znode ls`."""

    name: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ZnodeList:
    """`znode ls`."""

    path: str
    children: Sequence[ZnodeChild]


@dataclass(frozen=True, slots=True, kw_only=True)
class Znodes:
    """`znode tree`."""

    path: str
    znodes: Sequence[Znode]


PARTITION_WITHOUT_LEADER = Shape(PartitionWithoutLeader)
NEW_PARTITION = Shape(NewPartition, "partition", given("replicas", BROKERS))
GROUPS = Document("groups", Shape(Groups))
DESCRIBED_GROUPS = Document(
    "groups",
    Shape(
        DescribedGroups,
        JsonKey(
            "groups", list_of(GROUP.schema), lambda all_: [GROUP.json(one.as_of, one) for one in all_.groups]
        ),
    ),
)
OFFSETS = Document("offsets", Shape(Offsets))
OFFSET_CHANGES = Document("offset_changes", Shape(OffsetChanges))
OFFSET_CHANGES_LIST = Document(
    "offset_changes_list",
    Shape(
        OffsetChangesList,
        JsonKey(
            "groups",
            list_of(OFFSET_CHANGES.schema),
            lambda all_: [OFFSET_CHANGES.json(as_of, one) for as_of, one in all_.groups],
        ),
    ),
)
NUDGE = Document("nudge", Shape(Nudge))
GROUP_DELETION = Document("group_deletion", Shape(GroupDeletion))
OFFSET_EXPORT = Document("offset_export", Shape(OffsetExport))
CHROOT = Document("chroot", Shape(Chroot))
RESTORATION = Document("restoration", Shape(RestorationDocument))
TOPICS = Document("topics", Shape(Topics))
TOPIC_LIST = Document("topic_list", Shape(TopicList))
TOPIC_CREATION = Document("topic_creation", Shape(TopicCreationDocument))
TOPIC_DELETION = Document(
    "topic_deletion",
    Shape(
        TopicDeletionDocument,
        *("topic", "executed", "undo", given("controller", nullable(INTEGER)), "znodes"),
        *(given("without_brokers", BROKERS), "converged", "detail"),
    ),
)
FINDINGS = Document("doctor", Shape(Findings))
FIX = Document("doctor_fix", Shape(FixDocument))
STATUS = Document(
    "status",
    Shape(
        StatusDocument,
        *("zookeeper", "status.session_timeout_ms", "status.brokers"),
        given("controller", nullable(INTEGER), "status.controller"),
        given("controller_epoch", nullable(INTEGER), "status.controller_epoch"),
        given("controller_kind", nullable(word("zkgroup", "kafka")), "status.health.kind"),
        *("controller_hung=status.health.hung", "status.health.last_processed_zxid"),
        Entries("status.unreadable", "path", "detail"),
        Entries("status.health.refetching", "broker", "partitions"),
        Entries("status.health.restart", "broker", "why"),
        Entries("status.health.waiting", "what", "why"),
        "status.health.left_off",
        JsonKey("topics", COUNT, lambda one: len(one.status.topics)),
        JsonKey("partitions", COUNT, lambda one: sum(topic.partitions or 0 for topic in one.status.topics)),
        *("offline_partitions=status.offline", "under_replicated_partitions=status.under_replicated"),
        *("reassigning=status.moving", "status.plans", "status.missing", "status.persistent"),
        JsonKey(
            "throttle_left",
            nullable(THROTTLE_LEFT.schema),
            lambda one: THROTTLE_LEFT.json(one.status.throttle_left) if one.status.throttle_left else None,
        ),
        JsonKey(
            "coordinator",
            nullable(COORDINATOR_STATUS.schema),
            lambda one: COORDINATOR_STATUS.json(one.status.coordinator) if one.status.coordinator else None,
        ),
        "status.groups",
    ),
)
UNDO_LIST = Document("undo_list", Shape(Undos), Shape(TimeAlone, "zxid", "time_ms"))

ZNODE_DOCUMENT = Document("znode", ZNODE)
ZNODE_CHILD = Shape(ZnodeChild)
ZNODE_LIST = Document("znode_list", Shape(ZnodeList))
ZNODES = Document("znodes", Shape(Znodes))


def leaderless(seen: LeadersSeen | None) -> tuple[bool | None, Sequence[PartitionWithoutLeader] | None]:
    """How a wait for leaders ended: `converged` and `leaderless`; both None without a wait."""
    if seen is None:
        return None, None
    rows = [
        PartitionWithoutLeader(partition=tp.partition, detail=why)
        for tp, why in sorted(seen.leaderless.items())
    ]
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
    made = TopicCreationDocument(
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
    made = TopicDeletionDocument(
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


def threads_text(threads: Mapping[str, int]) -> str:
    """`orders, clicks×2`."""
    return ", ".join(f"{topic}×{count}" if count != 1 else topic for topic, count in sorted(threads.items()))
