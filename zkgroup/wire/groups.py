"""Requests to a group coordinator, and their responses.

Sources: the messages of these names in clients/src/main/resources/common/message/*.json@2.8.2. Below version
7 the name of the protocol in a JoinGroup response with an error is an empty text, from then on null.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from zkgroup.model.error_codes import ErrorCode
from zkgroup.wire.messages import Api, Request, Response
from zkgroup.wire.metadata import NO_OPERATIONS
from zkgroup.wire.schema import (
    Boolean,
    Bytes,
    Int16,
    Int32,
    Int64,
    NullableFrom,
    NullableString,
    String,
    Tag,
    Versions,
)

NO_GENERATION: Final = -1
NO_MEMBER: Final = ""
NO_RETENTION: Final = -1
"""Retention of OffsetCommit: the broker's."""
NO_TIMER: Final = -1
"""Milliseconds of a timer that is not set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinProtocol:
    """An assignment strategy that a member knows, and its subscription for it."""

    name: String
    metadata: Bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """A member of the group, as its leader sees it."""

    member_id: String
    group_instance_id: Annotated[NullableString, Versions(5)] = None
    metadata: Bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupResponse(Response):
    """The generation that a member is in."""

    VERSIONS: ClassVar[range] = range(8)
    FLEXIBLE_FROM: ClassVar[int | None] = 6

    throttle_ms: Annotated[Int32, Versions(2)] = 0
    error: Int16 = ErrorCode.NONE
    generation: Int32 = NO_GENERATION
    protocol_type: Annotated[NullableString, Versions(7)] = None
    protocol: Annotated[NullableString, NullableFrom(7)] = None
    leader: String = NO_MEMBER
    """Member id."""
    member_id: String
    members: tuple[JoinedMember, ...] = ()
    """Empty for all but the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupRequest(Request):
    """Joins a group, or joins it again."""

    API: ClassVar[Api] = Api.JOIN_GROUP
    RESPONSE: ClassVar[type[Response]] = JoinGroupResponse
    VERSIONS: ClassVar[range] = range(8)
    FLEXIBLE_FROM: ClassVar[int | None] = 6

    group: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Annotated[Int32, Versions(1)] = -1
    """In version 0 the session timeout."""
    member_id: String
    """Empty for one that has none yet."""
    group_instance_id: Annotated[NullableString, Versions(5)] = None
    protocol_type: String
    protocols: tuple[JoinProtocol, ...]
    """The preferred one first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAssignment:
    """The leader's assignment for one member."""

    member_id: String
    assignment: Bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupResponse(Response):
    """The assignment of a member."""

    VERSIONS: ClassVar[range] = range(6)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    throttle_ms: Annotated[Int32, Versions(1)] = 0
    error: Int16 = ErrorCode.NONE
    protocol_type: Annotated[NullableString, Versions(5)] = None
    protocol: Annotated[NullableString, Versions(5)] = None
    assignment: Bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupRequest(Request):
    """Asks for the assignment; the leader brings all of them."""

    API: ClassVar[Api] = Api.SYNC_GROUP
    RESPONSE: ClassVar[type[Response]] = SyncGroupResponse
    VERSIONS: ClassVar[range] = range(6)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    group: String
    generation: Int32
    member_id: String
    group_instance_id: Annotated[NullableString, Versions(3)] = None
    protocol_type: Annotated[NullableString, Versions(5)] = None
    protocol: Annotated[NullableString, Versions(5)] = None
    assignments: tuple[MemberAssignment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResponse(Response):
    """The answer to a heartbeat: an error if the member is no longer in the group."""

    VERSIONS: ClassVar[range] = range(5)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    throttle_ms: Annotated[Int32, Versions(1)] = 0
    error: Int16
    """27: it is to join again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest(Request):
    """A member lives."""

    API: ClassVar[Api] = Api.HEARTBEAT
    RESPONSE: ClassVar[type[Response]] = HeartbeatResponse
    VERSIONS: ClassVar[range] = range(5)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    group: String
    generation: Int32
    member_id: String
    group_instance_id: Annotated[NullableString, Versions(3)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingMember:
    """A member that leaves."""

    member_id: String
    """Empty where the instance id says which."""
    group_instance_id: NullableString = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftMember:
    """The result for one leaving member."""

    member_id: String
    group_instance_id: NullableString = None
    error: Int16


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupResponse(Response):
    """The result for each leaving member."""

    VERSIONS: ClassVar[range] = range(5)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    throttle_ms: Annotated[Int32, Versions(1)] = 0
    error: Int16
    members: Annotated[tuple[LeftMember, ...], Versions(3)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupRequest(Request):
    """Members leave their group."""

    API: ClassVar[Api] = Api.LEAVE_GROUP
    RESPONSE: ClassVar[type[Response]] = LeaveGroupResponse
    VERSIONS: ClassVar[range] = range(5)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    group: String
    member_id: Annotated[String, Versions(0, 2)] = NO_MEMBER
    members: Annotated[tuple[LeavingMember, ...], Versions(3)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetToCommit:
    """An offset to be stored for one partition."""

    partition: Int32
    offset: Int64
    leader_epoch: Annotated[Int32, Versions(6)] = -1
    """Of the last record before the offset; -1 for unknown."""
    timestamp_ms: Annotated[Int64, Versions(1, 1)] = -1
    metadata: NullableString


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicToCommit:
    """Offsets to be stored for partitions of a topic."""

    topic: String
    partitions: tuple[OffsetToCommit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPartitionResult:
    """The result for the offset of one partition."""

    partition: Int32
    error: Int16


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitTopicResult:
    """The results for offsets of a topic."""

    topic: String
    partitions: tuple[CommitPartitionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponse(Response):
    """The result for each offset of a commit."""

    VERSIONS: ClassVar[range] = range(9)
    FLEXIBLE_FROM: ClassVar[int | None] = 8

    throttle_ms: Annotated[Int32, Versions(3)] = 0
    topics: tuple[CommitTopicResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest(Request):
    """Stores offsets of a group. Version 0 goes to ZooKeeper."""

    API: ClassVar[Api] = Api.OFFSET_COMMIT
    RESPONSE: ClassVar[type[Response]] = OffsetCommitResponse
    VERSIONS: ClassVar[range] = range(9)
    FLEXIBLE_FROM: ClassVar[int | None] = 8

    group: String
    generation: Annotated[Int32, Versions(1)] = NO_GENERATION
    """-1 for one that commits without being a member."""
    member_id: Annotated[String, Versions(1)] = NO_MEMBER
    group_instance_id: Annotated[NullableString, Versions(7)] = None
    retention_ms: Annotated[Int64, Versions(2, 4)] = NO_RETENTION
    topics: tuple[TopicToCommit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchTopic:
    """Partitions whose offsets are asked for."""

    topic: String
    partitions: tuple[Int32, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOffset:
    """The offset stored for one partition."""

    partition: Int32
    offset: Int64
    """-1 for none."""
    leader_epoch: Annotated[Int32, Versions(5)] = -1
    metadata: NullableString
    error: Int16


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTopic:
    """Offsets stored for partitions of a topic."""

    topic: String
    partitions: tuple[StoredOffset, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse(Response):
    """Offsets of a group."""

    VERSIONS: ClassVar[range] = range(8)
    FLEXIBLE_FROM: ClassVar[int | None] = 6

    throttle_ms: Annotated[Int32, Versions(3)] = 0
    topics: tuple[StoredTopic, ...]
    error: Annotated[Int16, Versions(2)] = 0
    """Of the request as a whole; before version 2 each partition has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequest(Request):
    """Asks for offsets of a group. Version 0 reads ZooKeeper."""

    API: ClassVar[Api] = Api.OFFSET_FETCH
    RESPONSE: ClassVar[type[Response]] = OffsetFetchResponse
    VERSIONS: ClassVar[range] = range(8)
    FLEXIBLE_FROM: ClassVar[int | None] = 6

    group: String
    topics: Annotated[tuple[OffsetFetchTopic, ...] | None, NullableFrom(2)]
    """Null: all that are stored."""
    require_stable: Annotated[Boolean, Versions(7)] = False
    """Answer 88 where a transaction may still commit offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    """A member of a group, as tools see it."""

    member_id: String
    group_instance_id: Annotated[NullableString, Versions(4)] = None
    client_id: String
    client_host: String
    """`/` and its address."""
    metadata: Bytes
    assignment: Bytes
    session_expires_in_ms: Annotated[Int64, Tag(10_000), Versions(5)] = NO_TIMER
    """zkgroup's own: when the member is removed unless it sends a heartbeat; -1 while a request is parked."""
    has_joined: Annotated[Boolean, Tag(10_001), Versions(5)] = False
    """zkgroup's own: whether its JoinGroup waits for the end of the join phase."""
    is_awaiting_sync: Annotated[Boolean, Tag(10_002), Versions(5)] = False
    """zkgroup's own: whether it has not synced in this generation."""
    session_timeout_ms: Annotated[Int32, Tag(10_003), Versions(5)] = NO_TIMER
    """zkgroup's own: its session timeout."""
    rebalance_timeout_ms: Annotated[Int32, Tag(10_004), Versions(5)] = NO_TIMER
    """zkgroup's own: how long a rebalance waits for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """A group, as tools see it."""

    error: Int16 = ErrorCode.NONE
    group: String
    state: String
    """Dead, Empty, PreparingRebalance, CompletingRebalance or Stable; Dead for an unknown group."""
    protocol_type: String = ""
    protocol: String = ""
    members: tuple[DescribedMember, ...] = ()
    authorized_operations: Annotated[Int32, Versions(3)] = NO_OPERATIONS
    phase: Annotated[String, Tag(10_000), Versions(5)] = ""
    """zkgroup's own, as the next ones: what the group waits for, a `GroupPhase` of the coordinator. Empty:
    the broker does not report it, and the next ones neither."""
    generation: Annotated[Int32, Tag(10_001), Versions(5)] = NO_GENERATION
    leader: Annotated[String, Tag(10_002), Versions(5)] = NO_MEMBER
    """Member id."""
    pending_members: Annotated[Int32, Tag(10_003), Versions(5)] = 0
    """Member ids that were given out and have not joined."""
    phase_ends_in_ms: Annotated[Int64, Tag(10_004), Versions(5)] = NO_TIMER
    """End of the initial delay, or of the wait for members that have not joined or synced; -1 for never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsResponse(Response):
    """Groups."""

    VERSIONS: ClassVar[range] = range(6)
    FLEXIBLE_FROM: ClassVar[int | None] = 5

    throttle_ms: Annotated[Int32, Versions(1)] = 0
    groups: tuple[DescribedGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsRequest(Request):
    """Asks for groups with their members."""

    API: ClassVar[Api] = Api.DESCRIBE_GROUPS
    RESPONSE: ClassVar[type[Response]] = DescribeGroupsResponse
    VERSIONS: ClassVar[range] = range(6)
    FLEXIBLE_FROM: ClassVar[int | None] = 5

    groups: tuple[String, ...]
    include_authorized_operations: Annotated[Boolean, Versions(3)] = False
    include_timers: Annotated[Boolean, Tag(10_000), Versions(5)] = False
    """zkgroup's own: the response is to have the fields that are zkgroup's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group that the broker coordinates."""

    group: String
    protocol_type: String
    state: Annotated[String, Versions(4)] = ""
    """See `DescribedGroup`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotUse:
    """The usage of ZooKeeper by the groups of a slot, and its bounds. zkgroup's own."""

    slot: Int32
    groups: Int32
    groups_max: Int32
    offsets: Int32
    offsets_max: Int32
    metadata_bytes: Int64
    """Of these offsets together."""
    metadata_bytes_max: Int64


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsResponse(Response):
    """Groups that the broker coordinates."""

    VERSIONS: ClassVar[range] = range(5)
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    throttle_ms: Annotated[Int32, Versions(1)] = 0
    error: Int16
    groups: tuple[ListedGroup, ...] = ()
    slots: Annotated[tuple[SlotUse, ...], Tag(10_000), Versions(3)] = ()
    """The slots that the broker has loaded, where the request asks for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsRequest(Request):
    """Asks for the groups that the broker coordinates."""

    API: ClassVar[Api] = Api.LIST_GROUPS
    RESPONSE: ClassVar[type[Response]] = ListGroupsResponse
    VERSIONS: ClassVar[range] = range(5)
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    states: Annotated[tuple[String, ...], Versions(4)] = ()
    """Empty: those in any state."""
    include_slots: Annotated[Boolean, Tag(10_000), Versions(3)] = False
    """zkgroup's own: whether the response has the use of slots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedGroup:
    """The result for one group."""

    group: String
    error: Int16


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsResponse(Response):
    """The result for each group."""

    VERSIONS: ClassVar[range] = range(3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_ms: Int32 = 0
    groups: tuple[DeletedGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsRequest(Request):
    """Deletes groups that have no members."""

    API: ClassVar[Api] = Api.DELETE_GROUPS
    RESPONSE: ClassVar[type[Response]] = DeleteGroupsResponse
    VERSIONS: ClassVar[range] = range(3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    groups: tuple[String, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeletePartition:
    """A partition whose offset is to be deleted."""

    partition: Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteTopic:
    """Partitions of a topic whose offsets are to be deleted."""

    topic: String
    partitions: tuple[OffsetDeletePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteResponse(Response):
    """The result for each offset."""

    VERSIONS: ClassVar[range] = range(1)

    error: Int16
    throttle_ms: Int32 = 0
    topics: tuple[CommitTopicResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteRequest(Request):
    """Deletes offsets of a group (KIP-496)."""

    API: ClassVar[Api] = Api.OFFSET_DELETE
    RESPONSE: ClassVar[type[Response]] = OffsetDeleteResponse
    VERSIONS: ClassVar[range] = range(1)

    group: String
    topics: tuple[OffsetDeleteTopic, ...]
