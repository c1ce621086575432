"""Guards of groups and offsets (kafka/server/KafkaApis.scala@2.8.2)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from zkgroup.broker.authorizer.authorizer import Rights
from zkgroup.broker.authorizer.guards import Handle, RequestGuard, by_topic, split
from zkgroup.broker.server.handlers import Answer, given
from zkgroup.model.error_codes import ErrorCode
from zkgroup.security.acls import AclOperation, ResourceType
from zkgroup.wire import groups
from zkgroup.wire.messages import Request, Response

_TOPIC: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_GROUP: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_OPERATIONS_VERSION: Final = 3
"""The first version of DescribeGroups with the authorized operations."""
_ERROR_VERSION: Final = 2
"""The first version of OffsetFetch with an error of the whole."""


def on_group(
    operation: AclOperation, refused: Callable[[Rights, Any], Response], then: RequestGuard | None = None
) -> RequestGuard:
    """The guard of a request about one group; `then` is the guard behind it, for its topics.

    `refused` makes the answer without the right.
    """

    def guard(rights: Rights, request: Any, handle: Handle) -> Awaitable[Answer]:
        if not rights.may(operation, ResourceType.GROUP, request.group):
            return given(refused(rights, request))
        return handle(request) if then is None else then(rights, request, handle)

    return guard


def _topics_of_commit(
    rights: Rights, request: groups.OffsetCommitRequest, handle: Handle
) -> Awaitable[Answer]:
    """Needs Read on each topic."""
    return by_topic(AclOperation.READ, _topic_uncommitted, rights, request, handle)


def _uncommitted(error: int) -> Callable[[groups.TopicToCommit], groups.CommitTopicResult]:
    def row(topic: groups.TopicToCommit) -> groups.CommitTopicResult:
        partitions = (
            groups.CommitPartitionResult(partition=each.partition, error=error) for each in topic.partitions
        )
        return groups.CommitTopicResult(topic=topic.topic, partitions=tuple(partitions))

    return row


_topic_uncommitted: Final = _uncommitted(_TOPIC)


def _commit_refused(rights: Rights, request: groups.OffsetCommitRequest) -> Response:
    return groups.OffsetCommitResponse(topics=tuple(map(_uncommitted(_GROUP), request.topics)))


async def _topics_of_fetch(rights: Rights, request: groups.OffsetFetchRequest, handle: Handle) -> Answer:
    """Needs Describe on each topic; all offsets of the group are those of topics with it."""
    named = request.topics
    if named is None:
        response = await handle(request)
        if not isinstance(response, groups.OffsetFetchResponse):
            return response
        names = (one.topic for one in response.topics)
        allowed = rights.allowed(AclOperation.DESCRIBE, ResourceType.TOPIC, names)
        return replace(response, topics=tuple(one for one in response.topics if one.topic in allowed))
    allowed = rights.allowed(AclOperation.DESCRIBE, ResourceType.TOPIC, (one.topic for one in named))
    if all(one.topic in allowed for one in named):
        return await handle(request)
    response = await handle(replace(request, topics=tuple(one for one in named if one.topic in allowed)))
    if not isinstance(response, groups.OffsetFetchResponse) or response.error:
        return response
    error = _error_of_all(response) if rights.context.version == 1 else 0
    return replace(
        response,
        topics=(
            *response.topics,
            *(_unfetched(one, error or _TOPIC) for one in named if one.topic not in allowed),
        ),
    )


def _error_of_all(response: groups.OffsetFetchResponse) -> int:
    """The error of the group, which version 1 has in each row: those of refused topics have it too."""
    errors = {row.error for topic in response.topics for row in topic.partitions}
    return errors.pop() if len(errors) == 1 else 0


def _unfetched(topic: groups.OffsetFetchTopic, error: int) -> groups.StoredTopic:
    rows = (
        groups.StoredOffset(partition=one, offset=-1, metadata="", error=error) for one in topic.partitions
    )
    return groups.StoredTopic(topic=topic.topic, partitions=tuple(rows))


def _fetch_refused(rights: Rights, request: groups.OffsetFetchRequest) -> Response:
    if rights.context.version >= _ERROR_VERSION:
        return groups.OffsetFetchResponse(topics=(), error=_GROUP)
    return groups.OffsetFetchResponse(topics=tuple(_unfetched(one, _GROUP) for one in request.topics or ()))


async def _topics_of_deletion(rights: Rights, request: groups.OffsetDeleteRequest, handle: Handle) -> Answer:
    """Needs Read on each topic; an error of the group is alone."""
    response = await by_topic(AclOperation.READ, _topic_uncommitted, rights, request, handle)
    if isinstance(response, groups.OffsetDeleteResponse) and response.error:
        return replace(response, topics=())
    return response


async def _describe(rights: Rights, request: groups.DescribeGroupsRequest, handle: Handle) -> Answer:
    """Needs Describe on each group; the authorized operations are those of the client."""
    allowed = rights.allowed(AclOperation.DESCRIBE, ResourceType.GROUP, request.groups)

    def refused(group: str) -> groups.DescribedGroup:
        return groups.DescribedGroup(group=group, error=_GROUP, state="")

    response = await split(request, handle, "groups", lambda group: group in allowed, refused)
    is_asked = request.include_authorized_operations and rights.context.version >= _OPERATIONS_VERSION
    if not is_asked or not isinstance(response, groups.DescribeGroupsResponse):
        return response
    rows = (
        one
        if one.error
        else replace(one, authorized_operations=rights.operations(ResourceType.GROUP, one.group))
        for one in response.groups
    )
    return replace(response, groups=tuple(rows))


async def _list(rights: Rights, request: groups.ListGroupsRequest, handle: Handle) -> Answer:
    """All groups with Describe on the cluster, else those with Describe."""
    response = await handle(request)
    if not isinstance(response, groups.ListGroupsResponse):
        return response
    if rights.may_on_cluster(AclOperation.DESCRIBE):
        return response
    names = (one.group for one in response.groups)
    allowed = rights.allowed(AclOperation.DESCRIBE, ResourceType.GROUP, names, is_logged=False)
    return replace(response, groups=tuple(one for one in response.groups if one.group in allowed))


def _delete(rights: Rights, request: groups.DeleteGroupsRequest, handle: Handle) -> Awaitable[Answer]:
    """Needs Delete on each group."""
    allowed = rights.allowed(AclOperation.DELETE, ResourceType.GROUP, request.groups)

    def refused(group: str) -> groups.DeletedGroup:
        return groups.DeletedGroup(group=group, error=_GROUP)

    distinct = replace(request, groups=tuple(dict.fromkeys(request.groups)))
    return split(distinct, handle, "groups", lambda group: group in allowed, refused)


def _join_refused(rights: Rights, request: groups.JoinGroupRequest) -> Response:
    protocol = None if rights.context.version >= _TYPE_VERSION else ""
    return groups.JoinGroupResponse(error=_GROUP, member_id=groups.NO_MEMBER, protocol=protocol)


def _sync(rights: Rights, request: groups.SyncGroupRequest, handle: Handle) -> Awaitable[Answer]:
    """Needs Read on the group; a request that lacks the protocol is refused before."""
    is_complete = request.protocol_type is not None and request.protocol is not None
    if rights.context.version >= _NAMES_VERSION and not is_complete:
        return given(groups.SyncGroupResponse(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    return _sync_of_group(rights, request, handle)


_TYPE_VERSION: Final = 7
"""The first version of JoinGroup in which there may be no protocol."""
_NAMES_VERSION: Final = 5
"""The first version of SyncGroup with the protocol, which is then required."""
_READ: Final = AclOperation.READ
_sync_of_group: Final = on_group(_READ, lambda rights, request: groups.SyncGroupResponse(error=_GROUP))

GROUP_GUARDS: Final[Mapping[type[Request], RequestGuard]] = {
    groups.JoinGroupRequest: on_group(_READ, _join_refused),
    groups.SyncGroupRequest: _sync,
    groups.HeartbeatRequest: on_group(_READ, lambda rights, _: groups.HeartbeatResponse(error=_GROUP)),
    groups.LeaveGroupRequest: on_group(_READ, lambda rights, _: groups.LeaveGroupResponse(error=_GROUP)),
    groups.OffsetCommitRequest: on_group(_READ, _commit_refused, _topics_of_commit),
    groups.OffsetFetchRequest: on_group(AclOperation.DESCRIBE, _fetch_refused, _topics_of_fetch),
    groups.OffsetDeleteRequest: on_group(
        AclOperation.DELETE, lambda rights, _: groups.OffsetDeleteResponse(error=_GROUP), _topics_of_deletion
    ),
    groups.DescribeGroupsRequest: _describe,
    groups.ListGroupsRequest: _list,
    groups.DeleteGroupsRequest: _delete,
}
