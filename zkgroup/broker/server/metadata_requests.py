"""ApiVersions, Metadata, DescribeCluster and FindCoordinator: the served APIs, brokers, places of partitions.

Source: the handlers of these requests in kafka/server/KafkaApis.scala@2.8.2.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from zkgroup.broker.server.handlers import RequestContext
from zkgroup.broker.server.metadata_cache import TRANSACTIONS_TOPIC, MetadataCache
from zkgroup.wire.messages import Api, ErrorCode, Request
from zkgroup.wire.metadata import (
    GROUP_KEY,
    TRANSACTION_KEY,
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
    RequestedTopic,
    TopicMetadata,
)
from zkgroup.wire.schema import NO_UUID
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC

MetadataSource = Callable[[Sequence[str] | None], Awaitable[MetadataCache | None]]
"""Returns a cache with the present metadata of these topics, or of all; None if it cannot know them now."""

CreateTopic = Callable[[RequestContext, str], Awaitable[ErrorCode]]
"""Creates a topic for the client that asks for it; returns the error for the client."""

CLUSTER_OPERATIONS: Final = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))
"""Every operation on a cluster, as bits: all are allowed, because there are no ACLs."""
TOPIC_OPERATIONS: Final = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
"""Every operation on a topic."""


def cached(cache: MetadataCache) -> MetadataSource:
    """The source of a broker whose controller updates this cache; it knows nothing before the first update.

    Kafka's broker names no broker then. At such an answer librdkafka forgets all brokers that it knew, and
    connects to none any more.
    """

    async def read(topics: Sequence[str] | None) -> MetadataCache | None:
        return None if cache.controller_id is None else cache

    return read


class MetadataHandlers:
    """The handlers of Metadata and DescribeCluster. Used on one event loop."""

    def __init__(
        self,
        source: MetadataSource,
        cluster_id: Callable[[], str | None] = lambda: None,
        create_topic: CreateTopic | None = None,
    ) -> None:
        """
        Args:
            cluster_id: returns the cluster id; None if it is not known.
            create_topic: creates a topic, and returns the error for the client, as a rule 5; None: topics
                are not created for clients that ask for them (`auto.create.topics.enable`).
        """
        self._source = source
        self._cluster_id = cluster_id
        self._create_topic = create_topic

    async def metadata(self, context: RequestContext, request: MetadataRequest) -> MetadataResponse | None:
        """The metadata of the requested topics, or of all; None if it is not known now.

        It yields to the event loop between batches of partitions.
        """
        version = context.version
        if request.topics is not None and any(names_by_id(one) for one in request.topics):
            return _no_topic_ids(request.topics)
        topics = None if is_of_all(request, version) else request.names
        cache = await self._source(topics)
        if cache is None:
            return None
        for _ in cache.prepare(topics, version, context.listener):
            await asyncio.sleep(0)
        response = cache.metadata(topics, version, context.listener)
        if topics is not None and request.allow_auto_topic_creation and self._create_topic is not None:
            create = partial(self._create_topic, context)
            response = replace(response, topics=await _created(response.topics, create))
        return response if version == 0 else self._of_cluster(request, response)

    def _of_cluster(self, request: MetadataRequest, response: MetadataResponse) -> MetadataResponse:
        """The response with the cluster id, and with the authorized operations that were asked for."""
        response = replace(response, cluster_id=self._cluster_id())
        if request.include_topic_authorized_operations:
            topics = tuple(
                replace(topic, authorized_operations=TOPIC_OPERATIONS) for topic in response.topics
            )
            response = replace(response, topics=topics)
        if request.include_cluster_authorized_operations:
            response = replace(response, authorized_operations=CLUSTER_OPERATIONS)
        return response

    async def describe_cluster(
        self, context: RequestContext, request: DescribeClusterRequest
    ) -> DescribeClusterResponse | None:
        """The live brokers; None if they are not known now."""
        cache = await self._source(())
        if cache is None:
            return None
        response = DescribeClusterResponse(
            ErrorCode.NONE,
            self._cluster_id() or "",
            cache.named_controller(context.listener),
            tuple(
                ClusterBroker(one.broker, one.host, one.port)
                for one in cache.nodes(context.listener).values()
            ),
        )
        if request.include_cluster_authorized_operations:
            response = replace(response, authorized_operations=CLUSTER_OPERATIONS)
        return response


def is_of_all(request: MetadataRequest, version: int) -> bool:
    """Returns whether all topics are requested: by null, in version 0 by an empty array."""
    return request.topics is None or (version == 0 and not request.topics)


def names_by_id(topic: RequestedTopic) -> bool:
    """Returns whether a request has the id of a topic, which is refused."""
    return topic.topic is None or topic.topic_id != NO_UUID


def _no_topic_ids(topics: Iterable[RequestedTopic]) -> MetadataResponse:
    """Refuses a request in version 10 or 11 for topics by their ids, as Kafka 2.8 does: topics have none."""
    return MetadataResponse(
        (),
        tuple(
            TopicMetadata(ErrorCode.INVALID_REQUEST, one.topic or "", (), topic_id=one.topic_id)
            for one in topics
        ),
    )


async def _created(
    topics: Sequence[TopicMetadata], create: Callable[[str], Awaitable[ErrorCode]]
) -> tuple[TopicMetadata, ...]:
    """Has the unknown topics created, with the error of each: as a rule 5, at which clients ask again."""
    unknown = [
        topic.topic
        for topic in topics
        if topic.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and topic.topic != TRANSACTIONS_TOPIC
    ]
    errors = dict(zip(unknown, await asyncio.gather(*map(create, unknown)), strict=True))
    return tuple(replace(topic, error=errors.get(topic.topic, topic.error)) for topic in topics)


_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api_versions(
    version: int, request: ApiVersionsRequest, served: Mapping[int, type[Request]]
) -> ApiVersionsResponse:
    """The answer to ApiVersions: the versions of each API, or error 42 for an invalid name of the client."""
    names = (request.client_software_name, request.client_software_version)
    if version >= 3 and not all(map(_SOFTWARE.fullmatch, names)):
        return ApiVersionsResponse(ErrorCode.INVALID_REQUEST, ())
    return ApiVersionsResponse(
        ErrorCode.NONE,
        tuple(ApiVersion(key, kind.VERSIONS[0], kind.VERSIONS[-1]) for key, kind in served.items()),
    )


UNSUPPORTED_VERSION: Final = ApiVersionsResponse(
    ErrorCode.UNSUPPORTED_VERSION,
    (ApiVersion(Api.API_VERSIONS, ApiVersionsRequest.VERSIONS[0], ApiVersionsRequest.VERSIONS[-1]),),
)
"""The answer to a version of ApiVersions that is not served (KIP-511), to be sent in version 0."""
SlotSource = Callable[[], Awaitable[int | None]]
"""Returns the number of slots; None if no broker has written it yet, or it cannot be read now."""

_MESSAGES: Final = {
    ErrorCode.NONE: "NONE",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
}
"""Kafka's own words."""


class CoordinatorHandler:
    """The handler of FindCoordinator. Used on one event loop."""

    def __init__(
        self,
        source: MetadataSource,
        slots: SlotSource | None = None,
        create_offsets_topic: Callable[[], None] | None = None,
    ) -> None:
        """
        Args:
            slots: the number of slots; None: no coordinator is named.
            create_offsets_topic: begins to create the topic of the slots and returns at once; None: it is not
                created.
        """
        self._source = source
        self._slots = slots
        self._create_offsets_topic = create_offsets_topic

    async def find_coordinator(
        self, context: RequestContext, request: FindCoordinatorRequest
    ) -> FindCoordinatorResponse:
        """The coordinator of a group, whatever its id.

        The first such request of a cluster creates the topic, as in Kafka; until its partitions have leaders
        the answer is error 15, after which clients ask again.

        Transactions are not served: error 53, at which all clients fail at once; at 35 librdkafka asks again.
        """
        if context.version > 0 and request.key_type == TRANSACTION_KEY:
            message = "This broker does not support transactions."
            return FindCoordinatorResponse(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1, "", -1, error_message=message
            )
        if context.version > 0 and request.key_type != GROUP_KEY:
            message = f"Unknown kind of coordinator: {request.key_type}."
            return FindCoordinatorResponse(ErrorCode.INVALID_REQUEST, -1, "", -1, error_message=message)
        answer = await self._coordinator(request.key, context.listener)
        return replace(answer, error_message=_MESSAGES[ErrorCode(answer.error)])

    async def _coordinator(self, group: str, listener: str) -> FindCoordinatorResponse:
        cache = await self._source((OFFSETS_TOPIC,)) or MetadataCache()
        slots = None if self._slots is None else await self._slots()
        is_missing = slots is None or cache.leaders(OFFSETS_TOPIC) is None
        if is_missing and self._create_offsets_topic is not None:
            self._create_offsets_topic()
        return cache.coordinator(group, slots or 0, listener)
