"""The handlers of the group requests: events of the coordinator, and its results as responses of a version.

The coordinator knows no versions: what differs between them is done here.
Source: kafka/server/KafkaApis.scala@2.8.2 (handleJoinGroupRequest and the others of groups).

Deviations from Kafka 2.8.2, besides those of the coordinator (docs/adr/0036):

* The empty group id has no znode. Commits of it are refused with 24 for each partition; it has no offsets.
* OffsetCommit 0 and OffsetFetch 0 share their offsets with the later versions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Final

from zkgroup.broker.groups.service import GroupCoordinatorService
from zkgroup.broker.groups.store_events import (
    LegacyOffsetsRead,
    LegacyOffsetsWritten,
    OffsetsRead,
    ReadLegacyOffsets,
    WriteLegacyOffsets,
)
from zkgroup.broker.groups.stored_coordinator import DROPPED, DroppedRequest, OffsetsRemoved
from zkgroup.broker.server.handlers import Answer, Later, RequestContext, ServedApi, given
from zkgroup.coordinator import events
from zkgroup.coordinator.effects import (
    CommitOffsetsResult,
    FetchOffsetsResult,
    RemoveGroupResult,
    RemoveOffsetsResult,
)
from zkgroup.coordinator.events import WriteOutcome
from zkgroup.coordinator.group_ids import is_valid_group_id, is_znode_name
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode
from zkgroup.model.ports import Clock
from zkgroup.wire.groups import (
    NO_RETENTION,
    CommitPartitionResult,
    CommitTopicResult,
    DeletedGroup,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    StoredOffset,
    StoredTopic,
    SyncGroupRequest,
    SyncGroupResponse,
)
from zkgroup.wire.messages import EncodedResponse, by_topic
from zkgroup.znodes.coordinated_groups import OffsetAndMetadata

LEGACY_COMMIT_ERRORS: Final = {
    WriteOutcome.STORED: ErrorCode.NONE,
    WriteOutcome.SLOT_FULL: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}
"""The errors of OffsetCommit 0 by outcome; -1 for others."""
NO_OFFSET: Final = OffsetAndMetadata(offset=-1)
NO_TIME: Final = -1
"""Commit time of OffsetCommit 1: the broker's."""
PARTITIONS_REMEMBERED: Final = 16
"""Most partitions of an answer that is remembered."""
ANSWERS_REMEMBERED: Final = 4096
"""Encoded answers that are kept, of a kibibyte or two at most."""
NOTHING: Final = (NO_OFFSET, ErrorCode.NONE)
"""The answer to OffsetFetch for a partition without an offset, but for version 0."""


class GroupHandlers:
    """The handlers of one broker. Used on one event loop."""

    def __init__(
        self,
        service: GroupCoordinatorService,
        is_known: Callable[[TopicPartition], bool],
        clock: Clock,
        metadata_max: int,
    ) -> None:
        """
        Args:
            is_known: whether a partition exists, by the last UpdateMetadata.
            metadata_max: `offset.metadata.max.bytes`, for version 0 of OffsetCommit.
        """
        self._service = service
        self._is_known = is_known
        self._clock = clock
        self._metadata_max = metadata_max

    def rows(self) -> Iterator[ServedApi[Any]]:
        """The rows of the table of served APIs."""
        yield ServedApi(JoinGroupRequest, self.join_group)
        yield ServedApi(SyncGroupRequest, self.sync_group)
        yield ServedApi(HeartbeatRequest, self.heartbeat)
        yield ServedApi(LeaveGroupRequest, self.leave_group)
        yield ServedApi(OffsetCommitRequest, self.offset_commit)
        yield ServedApi(OffsetFetchRequest, self.offset_fetch)
        yield ServedApi(DescribeGroupsRequest, self.describe_groups)
        yield ServedApi(ListGroupsRequest, self.list_groups)
        yield ServedApi(DeleteGroupsRequest, self.delete_groups)
        yield ServedApi(OffsetDeleteRequest, self.offset_delete)

    def join_group(
        self, context: RequestContext, request: JoinGroupRequest
    ) -> Later[JoinGroupResponse | None]:
        """JoinGroup 0 to 7. In version 0 the session timeout is the rebalance timeout too."""
        version, session_ms = context.version, request.session_timeout_ms
        event = events.JoinGroup(
            request_id=self._service.new_id(),
            group_id=request.group,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            requires_member_id=version >= 4,
            client_id=context.client_id or "",
            client_host=f"/{context.peer.host}",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=session_ms if version == 0 else request.rebalance_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=tuple((each.name, each.metadata) for each in request.protocols),
        )
        return self._service.answer(event, partial(join_answer, version))

    def sync_group(self, context: RequestContext, request: SyncGroupRequest) -> Later[SyncGroupResponse]:
        """SyncGroup 0 to 5; of two assignments for one member the last one counts."""
        event = events.SyncGroup(
            request_id=self._service.new_id(),
            group_id=request.group,
            generation=request.generation,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            requires_protocol=context.version >= 5,
            protocol_type=request.protocol_type,
            protocol=request.protocol,
            assignments={each.member_id: each.assignment for each in request.assignments},
        )
        return self._service.ask(event)

    def heartbeat(self, context: RequestContext, request: HeartbeatRequest) -> Later[HeartbeatResponse]:
        event = events.Heartbeat(
            request_id=self._service.new_id(),
            group_id=request.group,
            generation=request.generation,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
        )
        return self._service.ask(event)

    def leave_group(self, context: RequestContext, request: LeaveGroupRequest) -> Later[LeaveGroupResponse]:
        """LeaveGroup 0 to 5; before version 3 exactly one member leaves."""
        version = context.version
        members = request.members if version >= 3 else (LeavingMember(member_id=request.member_id),)
        event = events.LeaveGroup(request_id=self._service.new_id(), group_id=request.group, members=members)
        return self._service.answer(event, partial(leave_response, version))

    def offset_commit(self, context: RequestContext, request: OffsetCommitRequest) -> Awaitable[Answer]:
        version = context.header.version
        offsets = committed_offsets(request, self._clock.wall_ms())
        is_known = self._is_known
        unknown = frozenset([tp for tp in offsets if not is_known(tp)])
        if len(unknown) == len(offsets):  # as Kafka: the coordinator is not asked
            return given(commit_response(_refused(offsets, unknown, ErrorCode.NONE)))
        if version == 0:
            return self._commit_legacy(request.group, offsets, unknown)
        if not request.group:
            errors = _refused(offsets, unknown, ErrorCode.INVALID_GROUP_ID)
            return given(commit_response(errors))
        event = events.CommitOffsets(
            request_id=self._service.new_id(),
            group_id=request.group,
            generation=request.generation,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            offsets=offsets,
            unknown_partitions=unknown,
        )
        return self._service.answer(event, partial(commit_answer, version))

    async def _commit_legacy(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        unknown: frozenset[TopicPartition],
    ) -> OffsetCommitResponse:
        """OffsetCommit 0: Kafka's znodes of offsets, without a coordinator; metadata are not stored."""
        if not group:
            return commit_response(_refused(offsets, unknown, ErrorCode.UNKNOWN))
        if not is_valid_group_id(group):
            return commit_response(_refused(offsets, unknown, ErrorCode.INVALID_GROUP_ID))
        errors: dict[TopicPartition, int] = {}
        for tp, offset in offsets.items():
            if tp in unknown:
                errors[tp] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif len(offset.metadata) > self._metadata_max:
                errors[tp] = ErrorCode.OFFSET_METADATA_TOO_LARGE
        allowed = {tp: offset.offset for tp, offset in offsets.items() if tp not in errors}
        if allowed:
            result = await self._service.ask(WriteLegacyOffsets(self._service.new_id(), group, allowed))
            assert isinstance(result, LegacyOffsetsWritten)
            for tp, outcome in result.outcomes.items():
                errors[tp] = LEGACY_COMMIT_ERRORS.get(outcome, ErrorCode.UNKNOWN)
        return commit_response({tp: errors[tp] for tp in offsets})

    async def offset_fetch(self, context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
        if context.version == 0:
            return await self._fetch_legacy(request)
        partitions = requested_partitions(request)
        if not request.group:
            return fetch_response(dict.fromkeys(partitions or (), NOTHING))
        event = events.FetchOffsets(
            request_id=self._service.new_id(),
            group_id=request.group,
            partitions=partitions,
            require_stable=request.require_stable,
        )
        result = await self._service.ask(event)
        assert isinstance(result, FetchOffsetsResult | OffsetsRead)
        if result.error is not ErrorCode.NONE:
            if context.version >= 2:
                return fetch_response({}, result.error)
            return fetch_response(dict.fromkeys(partitions or (), (NO_OFFSET, result.error)))
        assert isinstance(result, OffsetsRead)
        return fetch_response(fetched_offsets(partitions, result))

    async def _fetch_legacy(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        """OffsetFetch 0, as in Kafka 0.8.2.2: 3 without an offset, -1 for one that cannot be read."""
        partitions = requested_partitions(request) or ()
        known = tuple(tp for tp in partitions if self._is_known(tp))
        none = (NO_OFFSET, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        found: dict[TopicPartition, tuple[OffsetAndMetadata, int]] = dict.fromkeys(partitions, none)
        if not request.group:
            found.update(dict.fromkeys(known, (NO_OFFSET, ErrorCode.UNKNOWN)))
        elif not is_znode_name(request.group):
            found.update(dict.fromkeys(known, (NO_OFFSET, ErrorCode.INVALID_GROUP_ID)))
        elif known:
            service = self._service
            result = await service.ask(ReadLegacyOffsets(service.new_id(), request.group, known))
            assert isinstance(result, LegacyOffsetsRead)
            if result.error is not ErrorCode.NONE:
                found.update(dict.fromkeys(known, (NO_OFFSET, result.error)))
            for tp, offset in result.offsets.items():
                found[tp] = OffsetAndMetadata(offset=offset), ErrorCode.NONE
            found.update(dict.fromkeys(result.unreadable, (NO_OFFSET, ErrorCode.UNKNOWN)))
        return fetch_response(found)

    async def offset_delete(
        self, context: RequestContext, request: OffsetDeleteRequest
    ) -> OffsetDeleteResponse:
        service = self._service
        named = [
            TopicPartition(topic.topic, each.partition)
            for topic in request.topics
            for each in topic.partitions
        ]
        known = tuple(dict.fromkeys(tp for tp in named if self._is_known(tp)))
        event = events.RemoveOffsets(request_id=service.new_id(), group_id=request.group, partitions=known)
        result = await service.ask(event)
        if isinstance(result, RemoveOffsetsResult):
            return OffsetDeleteResponse(error=result.error)
        assert isinstance(result, OffsetsRemoved)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        errors = {tp: result.errors.get(tp, unknown) for tp in named}
        return OffsetDeleteResponse(error=ErrorCode.NONE, topics=commit_results(errors))

    async def describe_groups(
        self, context: RequestContext, request: DescribeGroupsRequest
    ) -> DescribeGroupsResponse:
        service, found = self._service, list[DescribedGroup]()
        for group in request.groups:
            event = events.DescribeGroup(
                request_id=service.new_id(),
                group_id=group,
                include_authorized_operations=request.include_authorized_operations,
                include_timers=request.include_timers,
            )
            result = await service.ask(event)
            assert isinstance(result, DescribedGroup)
            found.append(result)
        return DescribeGroupsResponse(groups=tuple(found))

    async def list_groups(self, context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
        service = self._service
        result = await service.ask(
            events.ListGroups(request_id=service.new_id(), states=frozenset(request.states))
        )
        assert isinstance(result, ListGroupsResponse)
        return replace(result, slots=tuple(service.slot_use())) if request.include_slots else result

    async def delete_groups(
        self, context: RequestContext, request: DeleteGroupsRequest
    ) -> DeleteGroupsResponse:
        """Groups are deleted at the same time; one that is named twice has one result."""
        groups = tuple(dict.fromkeys(request.groups))
        errors = await asyncio.gather(*map(self._delete, groups))
        return DeleteGroupsResponse(
            groups=tuple(
                DeletedGroup(group=group, error=error) for group, error in zip(groups, errors, strict=True)
            )
        )

    async def _delete(self, group: str) -> ErrorCode:
        service = self._service
        result = await service.ask(events.RemoveGroup(request_id=service.new_id(), group_id=group))
        assert isinstance(result, RemoveGroupResult)
        return result.error


def _refused(
    offsets: Mapping[TopicPartition, OffsetAndMetadata], unknown: frozenset[TopicPartition], error: ErrorCode
) -> dict[TopicPartition, int]:
    """The error for each partition; an unknown one has its own."""
    return {tp: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if tp in unknown else error for tp in offsets}


def join_answer(version: int, result: JoinGroupResponse | DroppedRequest) -> JoinGroupResponse | None:
    """None, which closes the connection, for a join that a later one of the member has replaced."""
    if result is DROPPED:
        return None
    assert isinstance(result, JoinGroupResponse)
    if version < 7 and result.protocol is None:
        return replace(result, protocol="")
    return result


def leave_response(version: int, response: LeaveGroupResponse) -> LeaveGroupResponse:
    """Before version 3 the error is the first one of all."""
    if version >= 3:
        return response
    errors = (response.error, *(each.error for each in response.members))
    return LeaveGroupResponse(error=next(filter(None, errors), ErrorCode.NONE))


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
    rows = ((tp, CommitPartitionResult(partition=tp.partition, error=error)) for tp, error in errors.items())
    return by_topic(rows, CommitTopicResult)


def requested_partitions(request: OffsetFetchRequest) -> tuple[TopicPartition, ...] | None:
    """The partitions of an OffsetFetch, each once; None: all that have an offset."""
    if request.topics is None:
        return None
    named = (TopicPartition(topic.topic, each) for topic in request.topics for each in topic.partitions)
    return tuple(dict.fromkeys(named))


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
    rows = (
        (
            tp,
            StoredOffset(
                partition=tp.partition,
                offset=offset.offset,
                leader_epoch=offset.leader_epoch,
                metadata=offset.metadata,
                error=of_partition,
            ),
        )
        for tp, (offset, of_partition) in found.items()
    )
    return OffsetFetchResponse(error=error, topics=by_topic(rows, StoredTopic))
