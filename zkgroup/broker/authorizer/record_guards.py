"""Guards of records, metadata and control requests (kafka/server/KafkaApis.scala@2.8.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Container, Mapping, Sequence
from dataclasses import replace
from typing import Final

from zkgroup.broker.authorizer.authorizer import Rights
from zkgroup.broker.authorizer.guards import MESSAGES, Handle, RequestGuard, by_topic, on_cluster, on_topics
from zkgroup.broker.replicas.replica import no_fetch
from zkgroup.broker.server.fetch_requests import follower_of, refused
from zkgroup.broker.server.handlers import Answer, given
from zkgroup.broker.server.metadata_cache import INTERNAL_TOPICS
from zkgroup.broker.server.metadata_requests import is_of_all, names_by_id
from zkgroup.model.error_codes import ErrorCode
from zkgroup.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from zkgroup.wire import control, metadata, records
from zkgroup.wire.messages import Request

_TOPIC: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_CLUSTER: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_TOPICS_AT_ONCE: Final = 1000
"""Topics of an answer about all that are filtered in one turn of the event loop."""


def _fetch(rights: Rights, request: records.FetchRequest, handle: Handle) -> Awaitable[Answer]:
    """A consumer needs Read on each topic, a follower ClusterAction; each request is checked.

    A follower has a session, and so names only what has changed. It is told that there is no such session:
    then it names all its partitions, each of which gets error 29.
    """
    if follower_of(request) is None:
        return by_topic(AclOperation.READ, _unfetched, rights, request, handle)
    if rights.may_on_cluster(AclOperation.CLUSTER_ACTION):
        return handle(request)
    if request.session_epoch > records.INITIAL_SESSION_EPOCH:
        return given(records.FetchResponse((), error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    return given(refused(request, _TOPIC))


def _unfetched(topic: records.FetchTopic) -> records.FetchedTopic:
    return records.FetchedTopic(
        topic.topic, tuple(no_fetch(each.partition, _TOPIC) for each in topic.partitions)
    )


def _produce(rights: Rights, request: records.ProduceRequest, handle: Handle) -> Awaitable[Answer]:
    """Needs Write on each topic. At acks=0 a refusal closes the connection, as in Kafka."""
    if request.transactional_id is not None:
        return handle(request)  # which refuses every partition
    if request.acks:
        return by_topic(AclOperation.WRITE, _unproduced, rights, request, handle)
    names = [one.topic for one in request.topics]
    answer = by_topic(AclOperation.WRITE, _unproduced, rights, request, handle)
    is_whole = rights.may_on_all(AclOperation.WRITE, ResourceType.TOPIC, names)
    return answer if is_whole else _then_closed(answer)


async def _then_closed(answer: Awaitable[Answer]) -> Answer:
    await answer
    return None


def _unproduced(topic: records.ProducedTopic) -> records.ProduceTopicResult:
    none = records.NO_OFFSET
    return records.ProduceTopicResult(
        topic.topic, tuple(records.ProduceResult(each.partition, _TOPIC, none) for each in topic.partitions)
    )


def _unlisted(topic: records.ListOffsetsTopic) -> records.ListedTopic:
    return records.ListedTopic(
        topic.topic, tuple(records.ListedPartition(each.partition, _TOPIC) for each in topic.partitions)
    )


def _undeleted(topic: records.DeletedTopicRecords) -> records.DeleteRecordsTopicResult:
    none = records.NO_OFFSET
    return records.DeleteRecordsTopicResult(
        topic.topic,
        tuple(records.DeleteRecordsResult(each.partition, none, _TOPIC) for each in topic.partitions),
    )


def _epoch_ends(
    rights: Rights, request: records.OffsetForLeaderEpochRequest, handle: Handle
) -> Awaitable[Answer]:
    """Followers need ClusterAction, consumers (KIP-320) Describe on each topic."""
    if rights.may_on_cluster(AclOperation.CLUSTER_ACTION, is_logged=False):
        return handle(request)
    return _epoch_ends_of_topics(rights, request, handle)


def _no_ends(topic: records.EpochTopic) -> records.EpochTopicResult:
    return records.EpochTopicResult(
        topic.topic, tuple(records.EpochEndResult(_TOPIC, each.partition) for each in topic.partitions)
    )


_epoch_ends_of_topics: Final = on_topics(AclOperation.DESCRIBE, _no_ends)


def _init_producer_id(
    rights: Rights, request: records.InitProducerIdRequest, handle: Handle
) -> Awaitable[Answer]:
    """An idempotent producer needs IdempotentWrite on the cluster, or Write on any topic (KIP-679)."""
    if request.transactional_id is not None:
        may = rights.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    else:
        may = rights.may_on_cluster(AclOperation.IDEMPOTENT_WRITE, is_logged=False) or rights.may_on_any(
            AclOperation.WRITE, ResourceType.TOPIC
        )
        error = _CLUSTER
    return handle(request) if may else given(records.InitProducerIdResponse(error))


def _find_coordinator(
    rights: Rights, request: metadata.FindCoordinatorRequest, handle: Handle
) -> Awaitable[Answer]:
    """Needs Describe on the group or on the transactional id."""
    if request.key_type == metadata.GROUP_KEY:
        resource_type, error = ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED
    elif request.key_type == metadata.TRANSACTION_KEY:
        resource_type = ResourceType.TRANSACTIONAL_ID
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    else:
        return handle(request)
    if rights.may(AclOperation.DESCRIBE, resource_type, request.key):
        return handle(request)
    return given(metadata.FindCoordinatorResponse(error, -1, "", -1, error_message=MESSAGES[error]))


def _metadata(rights: Rights, request: metadata.MetadataRequest, handle: Handle) -> Awaitable[Answer]:
    """Needs Describe on each topic; an answer about all topics leaves out those without it."""
    asks_for_more = (
        not request.topics
        or request.include_topic_authorized_operations
        or request.include_cluster_authorized_operations
    )
    names = [one.topic or "" for one in request.topics or ()]
    if asks_for_more or not rights.may_on_all(AclOperation.DESCRIBE, ResourceType.TOPIC, names):
        return _metadata_in_part(rights, request, handle)
    creates = rights.creates_topics and request.allow_auto_topic_creation
    return _created(rights, request, handle) if creates else handle(request)


async def _metadata_in_part(rights: Rights, request: metadata.MetadataRequest, handle: Handle) -> Answer:
    if is_of_all(request, rights.context.version):
        response = await handle(request)
        if not isinstance(response, metadata.MetadataResponse):
            return response
        response = replace(response, topics=await _describable(rights, response.topics))
        return _with_operations(rights, request, response)
    if any(map(names_by_id, request.topics or ())):
        return await handle(request)  # which refuses every topic
    names = dict.fromkeys(request.names)
    allowed = rights.allowed(AclOperation.DESCRIBE, ResourceType.TOPIC, names)
    response = await _created(rights, _of(request, allowed), handle)
    if not isinstance(response, metadata.MetadataResponse):
        return response
    if not allowed:
        response = replace(response, topics=())  # in version 0 no topic stands for all
    response = _with_operations(rights, request, response)
    others = tuple(_undescribed(name) for name in names if name not in allowed)
    return replace(response, topics=(*response.topics, *others))


def _of(request: metadata.MetadataRequest, names: Container[str | None]) -> metadata.MetadataRequest:
    return replace(request, topics=tuple(one for one in request.topics or () if one.topic in names))


def _undescribed(topic: str) -> metadata.TopicMetadata:
    """It does not tell whether the topic exists."""
    return metadata.TopicMetadata(_TOPIC, topic, ())


async def _describable(
    rights: Rights, topics: Sequence[metadata.TopicMetadata]
) -> tuple[metadata.TopicMetadata, ...]:
    """Filters topics, so many in each turn of the event loop."""
    found: list[metadata.TopicMetadata] = []
    for at in range(0, len(topics), _TOPICS_AT_ONCE):
        some = topics[at : at + _TOPICS_AT_ONCE]
        names = (one.topic for one in some)
        allowed = rights.allowed(AclOperation.DESCRIBE, ResourceType.TOPIC, names, is_logged=False)
        found += (one for one in some if one.topic in allowed)
        await asyncio.sleep(0)
    return tuple(found)


async def _created(rights: Rights, request: metadata.MetadataRequest, handle: Handle) -> Answer:
    """The handler's answer. To create a topic, Create is needed on it or on the cluster."""
    creates = rights.creates_topics and request.allow_auto_topic_creation
    if not creates or rights.may_on_cluster(AclOperation.CREATE, is_logged=False):
        return await handle(request)
    response = await handle(replace(request, allow_auto_topic_creation=False))
    if not isinstance(response, metadata.MetadataResponse):
        return response
    missing = {one.topic for one in response.topics if one.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    allowed = rights.allowed(AclOperation.CREATE, ResourceType.TOPIC, missing)
    made = await handle(_of(request, allowed)) if allowed else response
    if not isinstance(made, metadata.MetadataResponse):
        return made
    rows = {one.topic: one for one in (*response.topics, *made.topics)}
    for name in missing - allowed:
        rows[name] = replace(_undescribed(name), is_internal=name in INTERNAL_TOPICS)
    return replace(response, topics=tuple(rows.values()))


def _with_operations(
    rights: Rights, request: metadata.MetadataRequest, response: metadata.MetadataResponse
) -> metadata.MetadataResponse:
    """Those that were asked for (KIP-430), not for refused topics."""
    if request.include_topic_authorized_operations:
        topics = tuple(
            one
            if one.error == _TOPIC
            else replace(one, authorized_operations=rights.operations(ResourceType.TOPIC, one.topic))
            for one in response.topics
        )
        response = replace(response, topics=topics)
    if request.include_cluster_authorized_operations:
        response = replace(response, authorized_operations=_cluster_operations(rights))
    return response


def _cluster_operations(rights: Rights) -> int:
    if not rights.may_on_cluster(AclOperation.DESCRIBE):
        return 0
    return rights.operations(ResourceType.CLUSTER, CLUSTER_NAME)


async def _describe_cluster(
    rights: Rights, request: metadata.DescribeClusterRequest, handle: Handle
) -> Answer:
    """Everybody may ask; the authorized operations are those of the client."""
    response = await handle(request)
    if request.include_cluster_authorized_operations and isinstance(
        response, metadata.DescribeClusterResponse
    ):
        return replace(response, authorized_operations=_cluster_operations(rights))
    return response


def _not_led(request: control.LeaderAndIsrRequest) -> control.LeaderAndIsrResponse:
    errors = (control.PartitionError(*one.topic_partition, _CLUSTER) for one in request.partitions)
    return control.LeaderAndIsrResponse(_CLUSTER, tuple(errors))


def _not_stopped(request: control.StopReplicaRequest) -> control.StopReplicaResponse:
    errors = (control.PartitionError(*one, _CLUSTER) for one in request.partitions)
    return control.StopReplicaResponse(_CLUSTER, tuple(errors))


_ACTION: Final = AclOperation.CLUSTER_ACTION

RECORD_GUARDS: Final[Mapping[type[Request], RequestGuard]] = {
    records.ProduceRequest: _produce,
    records.FetchRequest: _fetch,
    records.ListOffsetsRequest: on_topics(AclOperation.DESCRIBE, _unlisted),
    records.DeleteRecordsRequest: on_topics(AclOperation.DELETE, _undeleted),
    records.OffsetForLeaderEpochRequest: _epoch_ends,
    records.InitProducerIdRequest: _init_producer_id,
    metadata.FindCoordinatorRequest: _find_coordinator,
    metadata.MetadataRequest: _metadata,
    metadata.DescribeClusterRequest: _describe_cluster,
    control.LeaderAndIsrRequest: on_cluster(_ACTION, _not_led),
    control.StopReplicaRequest: on_cluster(_ACTION, _not_stopped),
    control.UpdateMetadataRequest: on_cluster(_ACTION, lambda _: control.UpdateMetadataResponse(_CLUSTER)),
    control.ControlledShutdownRequest: on_cluster(
        _ACTION, lambda _: control.ControlledShutdownResponse(_CLUSTER)
    ),
}
