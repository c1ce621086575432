"""The effects of a group coordinator, in order: answers, writes and reads of ZooKeeper, log events.

An answer that needs a write is not given with it: the coordinator keeps the request parked, and gives the
answer when `events.GroupWritten` has brought the outcome. Writes of one slot are sent in this order on one
connection, without waiting for each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zkgroup.coordinator.records import GroupRecord
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode
from zkgroup.model.values import quick_init
from zkgroup.runtime.events import LogEvent
from zkgroup.wire.groups import (
    DescribedGroup,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    ListGroupsResponse,
    SyncGroupResponse,
)
from zkgroup.znodes.coordinated_groups import OffsetAndMetadata


@quick_init
@dataclass(frozen=True, slots=True)
class CommitOffsetsResult:
    """The error of each partition whose offset was to be stored."""

    errors: Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class FetchOffsetsResult:
    """The error for which no offset is read. Before version 2 each partition has the error."""

    error: ErrorCode


@dataclass(frozen=True, slots=True)
class RemoveGroupResult:
    """The result of a group's deletion."""

    error: ErrorCode


@dataclass(frozen=True, slots=True)
class RemoveOffsetsResult:
    """The error for which no offset is deleted."""

    error: ErrorCode


GroupResult = (
    JoinGroupResponse
    | SyncGroupResponse
    | HeartbeatResponse
    | LeaveGroupResponse
    | CommitOffsetsResult
    | FetchOffsetsResult
    | DescribedGroup
    | ListGroupsResponse
    | RemoveGroupResult
    | RemoveOffsetsResult
)
"""The result of a request: a response as it is sent, but for what a version of the request changes in it."""


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
    """Delete offsets, and answer the request with the outcomes (`events.DELETE_OFFSET_ERRORS`).

    Refused while ZooKeeper consumers are members of the group.
    """

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
