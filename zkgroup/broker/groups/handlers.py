"""The handlers of the group requests, and their rows in the table of served APIs.

Deviations from Kafka 2.8.2, besides those of the coordinator (docs/adr/0036):

* The empty group id has no znode. Commits of it are refused with 24 for each partition; it has no offsets.
* OffsetCommit 0 and OffsetFetch 0 share their offsets with the later versions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from zkgroup.broker.groups import translation
from zkgroup.broker.groups.service import GroupCoordinatorService
from zkgroup.broker.groups.store_events import (
    LegacyOffsetsRead,
    LegacyOffsetsWritten,
    OffsetsRead,
    ReadLegacyOffsets,
    WriteLegacyOffsets,
)
from zkgroup.broker.groups.stored_coordinator import DROPPED, OffsetsRemoved
from zkgroup.broker.server.handlers import Answer, RequestContext, ServedApi
from zkgroup.broker.server.later import Later, given
from zkgroup.coordinator import events
from zkgroup.coordinator.effects import (
    DescribedGroupResult,
    FetchOffsetsResult,
    JoinGroupResult,
    LeaveGroupResult,
    ListGroupsResult,
    RemoveGroupResult,
    RemoveOffsetsResult,
    SyncGroupResult,
)
from zkgroup.coordinator.events import WriteOutcome
from zkgroup.coordinator.group_ids import is_valid_group_id, is_znode_name
from zkgroup.coordinator.records import OffsetAndMetadata
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode
from zkgroup.model.ports import Clock
from zkgroup.wire.groups import (
    DeletedGroup,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

LEGACY_COMMIT_ERRORS: Final = {
    WriteOutcome.STORED: ErrorCode.NONE,
    WriteOutcome.SLOT_FULL: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}
"""The errors of OffsetCommit 0 by outcome; -1 for others."""
NOTHING: Final = (translation.NO_OFFSET, ErrorCode.NONE)
"""What OffsetFetch answers for a partition without an offset, but for version 0."""


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

    async def join_group(
        self, context: RequestContext, request: JoinGroupRequest
    ) -> JoinGroupResponse | None:
        """None, which closes the connection, for a join that a later one of the member has replaced."""
        service = self._service
        result = await service.ask(translation.join_event(service.new_id(), context, request))
        if result is DROPPED:
            return None
        assert isinstance(result, JoinGroupResult)
        return translation.join_response(context.version, result)

    async def sync_group(self, context: RequestContext, request: SyncGroupRequest) -> SyncGroupResponse:
        service = self._service
        result = await service.ask(translation.sync_event(service.new_id(), context, request))
        assert isinstance(result, SyncGroupResult)
        return translation.sync_response(result)

    def heartbeat(self, context: RequestContext, request: HeartbeatRequest) -> Later[HeartbeatResponse]:
        service = self._service
        event = translation.heartbeat_event(service.new_id(), request)
        return service.answer(event, translation.heartbeat_response)

    async def leave_group(self, context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
        service = self._service
        result = await service.ask(translation.leave_event(service.new_id(), context, request))
        assert isinstance(result, LeaveGroupResult)
        return translation.leave_response(context.version, result)

    def offset_commit(self, context: RequestContext, request: OffsetCommitRequest) -> Awaitable[Answer]:
        version = context.header.version
        offsets = translation.committed_offsets(request, self._clock.wall_ms())
        is_known = self._is_known
        unknown = frozenset([tp for tp in offsets if not is_known(tp)])
        if len(unknown) == len(offsets):  # as Kafka: the coordinator is not asked
            return given(translation.commit_response(_refused(offsets, unknown, ErrorCode.NONE)))
        if version == 0:
            return self._commit_legacy(request.group, offsets, unknown)
        if not request.group:
            errors = _refused(offsets, unknown, ErrorCode.INVALID_GROUP_ID)
            return given(translation.commit_response(errors))
        service = self._service
        event = translation.commit_event(service.new_id(), request, offsets, unknown)
        return service.answer(event, partial(translation.commit_answer, version))

    async def _commit_legacy(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        unknown: frozenset[TopicPartition],
    ) -> OffsetCommitResponse:
        """OffsetCommit 0: Kafka's znodes of offsets, without a coordinator; metadata are not stored."""
        if not group:
            return translation.commit_response(_refused(offsets, unknown, ErrorCode.UNKNOWN))
        if not is_valid_group_id(group):
            return translation.commit_response(_refused(offsets, unknown, ErrorCode.INVALID_GROUP_ID))
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
        return translation.commit_response({tp: errors[tp] for tp in offsets})

    async def offset_fetch(self, context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
        if context.version == 0:
            return await self._fetch_legacy(request)
        partitions = translation.requested_partitions(request)
        if not request.group:
            return translation.fetch_response(dict.fromkeys(partitions or (), NOTHING))
        service = self._service
        result = await service.ask(translation.fetch_event(service.new_id(), request))
        assert isinstance(result, FetchOffsetsResult | OffsetsRead)
        if result.error is not ErrorCode.NONE:
            return translation.fetch_refusal(context.version, request, result.error)
        assert isinstance(result, OffsetsRead)
        return translation.fetch_response(translation.fetched_offsets(partitions, result))

    async def _fetch_legacy(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        """OffsetFetch 0, as in Kafka 0.8.2.2: 3 without an offset, -1 for one that cannot be read."""
        partitions = translation.requested_partitions(request) or ()
        known = tuple(tp for tp in partitions if self._is_known(tp))
        none = (translation.NO_OFFSET, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        found: dict[TopicPartition, tuple[OffsetAndMetadata, int]] = dict.fromkeys(partitions, none)
        if not request.group:
            found.update(dict.fromkeys(known, (translation.NO_OFFSET, ErrorCode.UNKNOWN)))
        elif not is_znode_name(request.group):
            found.update(dict.fromkeys(known, (translation.NO_OFFSET, ErrorCode.INVALID_GROUP_ID)))
        elif known:
            service = self._service
            result = await service.ask(ReadLegacyOffsets(service.new_id(), request.group, known))
            assert isinstance(result, LegacyOffsetsRead)
            if result.error is not ErrorCode.NONE:
                found.update(dict.fromkeys(known, (translation.NO_OFFSET, result.error)))
            for tp, offset in result.offsets.items():
                found[tp] = OffsetAndMetadata(offset=offset), ErrorCode.NONE
            found.update(dict.fromkeys(result.unreadable, (translation.NO_OFFSET, ErrorCode.UNKNOWN)))
        return translation.fetch_response(found)

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
        return OffsetDeleteResponse(error=ErrorCode.NONE, topics=translation.commit_results(errors))

    async def describe_groups(
        self, context: RequestContext, request: DescribeGroupsRequest
    ) -> DescribeGroupsResponse:
        service, found = self._service, []
        timers_at_ms = self._clock.now_ms() if request.include_timers else None
        for group in request.groups:
            result = await service.ask(events.DescribeGroup(request_id=service.new_id(), group_id=group))
            assert isinstance(result, DescribedGroupResult)
            found.append(
                translation.described_group(
                    result,
                    with_operations=request.include_authorized_operations,
                    timers_at_ms=timers_at_ms,
                )
            )
        return DescribeGroupsResponse(groups=tuple(found))

    async def list_groups(self, context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
        service = self._service
        result = await service.ask(
            events.ListGroups(request_id=service.new_id(), states=frozenset(request.states))
        )
        assert isinstance(result, ListGroupsResult)
        return translation.list_response(result, service.slot_use() if request.include_slots else ())

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
