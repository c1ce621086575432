"""What a group coordinator gives, in order: answers, writes and reads of ZooKeeper, log events.

An answer that needs a write is not given with it: the coordinator keeps the request parked, and gives the
answer when `events.GroupWritten` has brought the outcome. Writes of one slot are sent in this order on one
connection, without waiting for each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zkgroup.coordinator.group import GroupPhase
from zkgroup.coordinator.records import GroupRecord, OffsetAndMetadata
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode
from zkgroup.model.quick_init import quick_init
from zkgroup.runtime.events import LogEvent

NO_GENERATION = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinResultMember:
    """A member as the leader sees it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupResult:
    """The generation that a member is in, or why it is in none."""

    error: ErrorCode = ErrorCode.NONE
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    """Member id."""
    member_id: str
    members: tuple[JoinResultMember, ...] = ()
    """Empty for all but the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupResult:
    """What is assigned to a member."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@quick_init
@dataclass(frozen=True, slots=True)
class HeartbeatResult:
    """Whether the member is in the group; REBALANCE_IN_PROGRESS: it is to join again."""

    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveMemberResult:
    """The result for one member that leaves."""

    member_id: str
    group_instance_id: str | None
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class LeaveGroupResult:
    """The results for the members that leave. Before version 3 a client gets the first error of all."""

    error: ErrorCode
    members: tuple[LeaveMemberResult, ...] = ()


@quick_init
@dataclass(frozen=True, slots=True)
class CommitOffsetsResult:
    """Whether the offset of each partition was stored."""

    errors: Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class FetchOffsetsResult:
    """Why no offset is read. Before version 2 each partition has the error."""

    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSummary:
    """A member, as tools see it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes = b""
    assignment: bytes = b""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    """How long a rebalance waits for it."""
    session_expires_ms: int | None = None
    """None while one of its requests is parked, and for no other member."""
    has_joined: bool
    """Whether its join is parked."""
    is_awaiting_sync: bool
    """Whether it has not synced in this generation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroupResult:
    """A group, as tools see it; an unknown group is Dead."""

    error: ErrorCode = ErrorCode.NONE
    group_id: str
    state: str
    phase: GroupPhase = GroupPhase.DEAD
    generation: int = 0
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    members: tuple[MemberSummary, ...] = ()
    pending_members: int = 0
    join_expires_ms: int | None = None
    """When the initial delay ends, or the members that have not joined are removed."""
    sync_expires_ms: int | None = None
    """When members that have not synced are removed."""


@dataclass(frozen=True, slots=True)
class GroupOverview:
    """A group in a list."""

    group_id: str
    protocol_type: str
    state: str


@dataclass(frozen=True, slots=True)
class ListGroupsResult:
    """The groups that are loaded; COORDINATOR_LOAD_IN_PROGRESS while more are."""

    error: ErrorCode
    groups: tuple[GroupOverview, ...] = ()


@dataclass(frozen=True, slots=True)
class RemoveGroupResult:
    """Whether a group was deleted."""

    error: ErrorCode


@dataclass(frozen=True, slots=True)
class RemoveOffsetsResult:
    """Why no offset is deleted."""

    error: ErrorCode


GroupResult = (
    JoinGroupResult
    | SyncGroupResult
    | HeartbeatResult
    | LeaveGroupResult
    | CommitOffsetsResult
    | FetchOffsetsResult
    | DescribedGroupResult
    | ListGroupsResult
    | RemoveGroupResult
    | RemoveOffsetsResult
)


@quick_init
@dataclass(frozen=True, slots=True)
class Reply:
    """The one answer of a request."""

    request_id: int
    result: GroupResult


@dataclass(frozen=True, slots=True)
class DropRequest:
    """No answer follows: a later join of the same member has replaced the request. Close its connection."""

    request_id: int


@dataclass(frozen=True, slots=True)
class WriteGroup:
    """Store the group; report `GroupWritten`.

    A group without members loses the marker in the same transaction.
    """

    write_id: int
    record: GroupRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveGenerations:
    """Store that generations up to a number may be given; report `GroupWritten`.

    `marks`: in the same transaction set the marker that the group's members are the coordinator's; refuse
    where ZooKeeper consumers are members.
    """

    write_id: int
    group_id: str
    generation: int
    """Of the group, unchanged."""
    reserved_generation: int
    marks: bool


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOffsets:
    """Store offsets; report `OffsetsWritten`.

    `refuse_zookeeper_members`: the client is no member of the group; refuse where ZooKeeper consumers are.
    """

    write_id: int
    group_id: str
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    refuse_zookeeper_members: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOffsets:
    """Read offsets, and answer the request with them."""

    request_id: int
    group_id: str
    partitions: tuple[TopicPartition, ...] | None
    """None: all that are stored."""
    unstable: frozenset[TopicPartition]
    """Those to be answered with UNSTABLE_OFFSET_COMMIT: a commit is being written."""


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Delete the group and its offsets; report `GroupWritten`."""

    write_id: int
    group_id: str
    keeps_offsets: bool = False
    """Refuse where the group has an offset: the retention has found none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsets:
    """Delete offsets, and answer the request with the outcomes (`outcomes.DELETE_OFFSET_ERRORS`)."""

    request_id: int
    group_id: str
    partitions: tuple[TopicPartition, ...]
    subscribed: tuple[TopicPartition, ...]
    """Those to be answered with GROUP_SUBSCRIBED_TO_TOPIC: their offsets stay."""


Effect = (
    Reply
    | DropRequest
    | WriteGroup
    | ReserveGenerations
    | WriteOffsets
    | ReadOffsets
    | DeleteGroup
    | DeleteOffsets
    | LogEvent
)
