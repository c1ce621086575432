"""Requests of groups as events of the coordinator, and its results as responses of a version.

The coordinator knows no versions: what differs between them is done here.
Source: kafka/server/KafkaApis.scala@2.8.2 (handleJoinGroupRequest and the others of groups).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeVar

from zkgroup.broker.groups.store_events import OffsetsRead
from zkgroup.broker.server.handlers import RequestContext
from zkgroup.coordinator import events
from zkgroup.coordinator.effects import (
    CommitOffsetsResult,
    DescribedGroupResult,
    HeartbeatResult,
    JoinGroupResult,
    LeaveGroupResult,
    ListGroupsResult,
    MemberSummary,
    SyncGroupResult,
)
from zkgroup.coordinator.records import OffsetAndMetadata
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode
from zkgroup.wire.groups import (
    NO_RETENTION,
    NO_TIMER,
    CommitPartitionResult,
    CommitTopicResult,
    DescribedGroup,
    DescribedMember,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinedMember,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeftMember,
    ListedGroup,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SlotUse,
    StoredOffset,
    StoredTopic,
    SyncGroupRequest,
    SyncGroupResponse,
)
from zkgroup.wire.messages import EncodedResponse
from zkgroup.wire.metadata import NO_OPERATIONS

GROUP_OPERATIONS: Final = sum(1 << code for code in (3, 6, 8))
"""Read, delete and describe, as bits: every operation on a group, because there are no ACLs."""
NO_OFFSET: Final = OffsetAndMetadata(offset=-1)
NO_TIME: Final = -1
"""Commit time of OffsetCommit 1: the broker's."""
PARTITIONS_REMEMBERED: Final = 16
"""Most partitions of an answer that is remembered."""
ANSWERS_REMEMBERED: Final = 4096
"""Encoded answers that are kept, of a kibibyte or two at most."""

T = TypeVar("T")


def join_event(number: int, context: RequestContext, request: JoinGroupRequest) -> events.JoinGroup:
    """JoinGroup 0 to 7. In version 0 the session timeout is the rebalance timeout too."""
    version = context.version
    return events.JoinGroup(
        request_id=number,
        group_id=request.group,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        requires_member_id=version >= 4,
        client_id=context.client_id or "",
        client_host=f"/{context.peer.host}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.session_timeout_ms if version == 0 else request.rebalance_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple((each.name, each.metadata) for each in request.protocols),
    )


def join_response(version: int, result: JoinGroupResult) -> JoinGroupResponse:
    """Without a protocol it is null from version 7 on, and empty before."""
    return JoinGroupResponse(
        error=result.error,
        generation=result.generation,
        protocol_type=result.protocol_type,
        protocol=result.protocol if version >= 7 else result.protocol or "",
        leader=result.leader,
        member_id=result.member_id,
        members=tuple(
            JoinedMember(
                member_id=each.member_id, group_instance_id=each.group_instance_id, metadata=each.metadata
            )
            for each in result.members
        ),
    )


def sync_event(number: int, context: RequestContext, request: SyncGroupRequest) -> events.SyncGroup:
    """SyncGroup 0 to 5; of two assignments for one member the last one counts."""
    return events.SyncGroup(
        request_id=number,
        group_id=request.group,
        generation=request.generation,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        requires_protocol=context.version >= 5,
        protocol_type=request.protocol_type,
        protocol=request.protocol,
        assignments={each.member_id: each.assignment for each in request.assignments},
    )


def sync_response(result: SyncGroupResult) -> SyncGroupResponse:
    """Fields that a version does not have are left out in writing."""
    return SyncGroupResponse(
        error=result.error,
        protocol_type=result.protocol_type,
        protocol=result.protocol,
        assignment=result.assignment,
    )


def heartbeat_event(number: int, request: HeartbeatRequest) -> events.Heartbeat:
    """Heartbeat 0 to 4."""
    return events.Heartbeat(
        request_id=number,
        group_id=request.group,
        generation=request.generation,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
    )


def heartbeat_response(result: HeartbeatResult) -> HeartbeatResponse:
    """The response of every version."""
    return HeartbeatResponse(error=result.error)


def leave_event(number: int, context: RequestContext, request: LeaveGroupRequest) -> events.LeaveGroup:
    """LeaveGroup 0 to 5; before version 3 exactly one member leaves."""
    if context.version < 3:
        members: tuple[events.LeavingIdentity, ...] = (events.LeavingIdentity(member_id=request.member_id),)
    else:
        members = tuple(
            events.LeavingIdentity(member_id=each.member_id, group_instance_id=each.group_instance_id)
            for each in request.members
        )
    return events.LeaveGroup(request_id=number, group_id=request.group, members=members)


def leave_response(version: int, result: LeaveGroupResult) -> LeaveGroupResponse:
    """Before version 3 the error is the first one of all."""
    if version < 3:
        errors = (result.error, *(each.error for each in result.members))
        return LeaveGroupResponse(error=next(filter(None, errors), ErrorCode.NONE))
    return LeaveGroupResponse(
        error=result.error,
        members=tuple(
            LeftMember(member_id=each.member_id, group_instance_id=each.group_instance_id, error=each.error)
            for each in result.members
        ),
    )


def committed_offsets(request: OffsetCommitRequest, wall_ms: int) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets of OffsetCommit 1 to 8; of two for one partition the last one.

    Version 1 may have the time of the commit, versions 2 to 4 a retention. A commit without metadata has
    empty ones.
    """
    has_retention = request.retention_ms != NO_RETENTION
    return {
        TopicPartition(topic.topic, each.partition): OffsetAndMetadata(
            each.offset,
            each.leader_epoch,
            each.metadata or "",
            wall_ms if each.timestamp_ms == NO_TIME else each.timestamp_ms,
            wall_ms + request.retention_ms if has_retention else None,
        )
        for topic in request.topics
        for each in topic.partitions
    }


def commit_event(
    number: int,
    request: OffsetCommitRequest,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    unknown: frozenset[TopicPartition],
) -> events.CommitOffsets:
    """OffsetCommit 1 to 8, with its offsets and those of them that the broker does not know."""
    return events.CommitOffsets(
        request_id=number,
        group_id=request.group,
        generation=request.generation,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        offsets=offsets,
        unknown_partitions=unknown,
    )


def commit_response(errors: Mapping[TopicPartition, int]) -> OffsetCommitResponse:
    """The error of each partition."""
    return OffsetCommitResponse(topics=commit_results(errors))


def commit_answer(version: int, result: CommitOffsetsResult) -> OffsetCommitResponse | EncodedResponse:
    """The error of each partition; where few partitions have none, what was encoded before.

    A consumer commits the same partitions again and again, nearly always without an error.
    """
    errors = result.errors
    if len(errors) > PARTITIONS_REMEMBERED or any(errors.values()):
        return commit_response(errors)
    return _encoded_commit_response(version, tuple(errors))


@lru_cache(ANSWERS_REMEMBERED)
def _encoded_commit_response(version: int, stored: tuple[TopicPartition, ...]) -> EncodedResponse:
    return EncodedResponse(commit_response(dict.fromkeys(stored, ErrorCode.NONE)), version)


def commit_results(errors: Mapping[TopicPartition, int]) -> tuple[CommitTopicResult, ...]:
    """The error of each partition, by topic."""
    topics: dict[str, list[CommitPartitionResult]] = {}
    for tp, error in errors.items():
        result = CommitPartitionResult(partition=tp.partition, error=error)
        topics.setdefault(tp.topic, []).append(result)
    return tuple([CommitTopicResult(topic=topic, partitions=tuple(found)) for topic, found in topics.items()])


def requested_partitions(request: OffsetFetchRequest) -> tuple[TopicPartition, ...] | None:
    """The partitions of an OffsetFetch, each once; None: all that have an offset."""
    if request.topics is None:
        return None
    named = (TopicPartition(topic.topic, each) for topic in request.topics for each in topic.partitions)
    return tuple(dict.fromkeys(named))


def fetch_event(number: int, request: OffsetFetchRequest) -> events.FetchOffsets:
    """OffsetFetch 1 to 7."""
    return events.FetchOffsets(
        request_id=number,
        group_id=request.group,
        partitions=requested_partitions(request),
        require_stable=request.require_stable,
    )


def fetched_offsets(
    partitions: Iterable[TopicPartition] | None, read: OffsetsRead
) -> dict[TopicPartition, tuple[OffsetAndMetadata, int]]:
    """The offset of each partition, -1 for none, with its error."""
    named = dict.fromkeys((*read.offsets, *read.partition_errors)) if partitions is None else partitions
    errors = read.partition_errors
    return {
        each: (NO_OFFSET if each in errors else read.offsets.get(each, NO_OFFSET), errors.get(each, 0))
        for each in named
    }


def fetch_response(
    found: Mapping[TopicPartition, tuple[OffsetAndMetadata, int]], error: int = ErrorCode.NONE
) -> OffsetFetchResponse:
    """Offset and error of each partition, by topic."""
    return OffsetFetchResponse(
        error=error,
        topics=tuple(
            StoredTopic(
                topic=topic,
                partitions=tuple(
                    StoredOffset(
                        partition=partition,
                        offset=offset.offset,
                        leader_epoch=offset.leader_epoch,
                        metadata=offset.metadata,
                        error=of_partition,
                    )
                    for partition, (offset, of_partition) in offsets
                ),
            )
            for topic, offsets in _by_topic(found.items())
        ),
    )


def fetch_refusal(version: int, request: OffsetFetchRequest, error: int) -> OffsetFetchResponse:
    """An OffsetFetch that is refused: before version 2 each partition has the error."""
    if version >= 2:
        return fetch_response({}, error)
    return fetch_response(dict.fromkeys(requested_partitions(request) or (), (NO_OFFSET, error)))


def _by_topic(values: Iterable[tuple[TopicPartition, T]]) -> list[tuple[str, list[tuple[int, T]]]]:
    found: dict[str, list[tuple[int, T]]] = {}
    for tp, value in values:
        found.setdefault(tp.topic, []).append((tp.partition, value))
    return list(found.items())


def described_group(
    result: DescribedGroupResult, *, with_operations: bool, timers_at_ms: int | None
) -> DescribedGroup:
    """One group of DescribeGroups; a group with an error has no operations.

    `timers_at_ms`: the time, where the client asks for phase and timers; else None.
    """
    is_found = result.error is ErrorCode.NONE
    group = DescribedGroup(
        error=result.error,
        group=result.group_id,
        state=result.state,
        protocol_type=result.protocol_type,
        protocol=result.protocol,
        members=tuple(_described_member(each, timers_at_ms) for each in result.members),
        authorized_operations=GROUP_OPERATIONS if with_operations and is_found else NO_OPERATIONS,
    )
    if timers_at_ms is None or not is_found:
        return group
    ends_ms = result.sync_expires_ms if result.join_expires_ms is None else result.join_expires_ms
    return replace(
        group,
        phase=result.phase.value,
        generation=result.generation,
        leader=result.leader,
        pending_members=result.pending_members,
        phase_ends_in_ms=_left_ms(ends_ms, timers_at_ms),
    )


def _described_member(member: MemberSummary, timers_at_ms: int | None) -> DescribedMember:
    described = DescribedMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        metadata=member.metadata,
        assignment=member.assignment,
    )
    if timers_at_ms is None:
        return described
    is_parked = member.has_joined
    return replace(
        described,
        session_expires_in_ms=NO_TIMER if is_parked else _left_ms(member.session_expires_ms, timers_at_ms),
        has_joined=member.has_joined,
        is_awaiting_sync=member.is_awaiting_sync,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
    )


def _left_ms(at_ms: int | None, now_ms: int) -> int:
    return NO_TIMER if at_ms is None else max(0, at_ms - now_ms)


def list_response(result: ListGroupsResult, slots: Iterable[SlotUse] = ()) -> ListGroupsResponse:
    """The groups of the broker; states are left out before version 4."""
    return ListGroupsResponse(
        error=result.error,
        groups=tuple(
            ListedGroup(group=each.group_id, protocol_type=each.protocol_type, state=each.state)
            for each in result.groups
        ),
        slots=tuple(slots),
    )
