"""Requests to any broker, and their responses: ApiVersions, Metadata, FindCoordinator, DescribeCluster.

Sources: ApiVersions, Metadata, FindCoordinator and DescribeCluster in
clients/src/main/resources/common/message/*.json@2.8.2; version 0 of Metadata and of FindCoordinator (then
ConsumerMetadata) also kafka/api/TopicMetadataRequest.scala, ConsumerMetadataRequest.scala @0.8.2.2.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Final

from zkgroup.wire.control import BrokerEndPoint
from zkgroup.wire.messages import Api, Request, Response, encode
from zkgroup.wire.primitives import uvarint
from zkgroup.wire.schema import (
    NO_UUID,
    Boolean,
    ErrorText,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableFrom,
    NullableString,
    String,
    Tag,
    Uuid,
    Versions,
)

PIECE: Final = 1000
"""Partitions of a large answer that are made in one go: some milliseconds."""
NO_OPERATIONS: Final = -(2**31)
"""Authorized operations where they were not asked for."""
GROUP_KEY: Final = 0
"""Kind of key of FindCoordinator: a group id."""
TRANSACTION_KEY: Final = 1
"""Kind of key of FindCoordinator: a transactional id."""


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """One partition as clients see it."""

    error: Int16
    """5: no live leader; 9: some of the replicas or of the ISR are not live and are left out."""
    partition: Int32
    leader: Int32
    """Broker id; -1 for none."""
    leader_epoch: Annotated[Int32, Versions(7)] = field(default=-1, kw_only=True)
    replicas: tuple[Int32, ...]
    isr: tuple[Int32, ...]
    offline: Annotated[tuple[Int32, ...], Versions(5)] = field(default=(), kw_only=True)
    """Replicas that are not live."""


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """One topic as clients see it."""

    error: Int16
    """3: unknown; 5: being created; 17: no legal name."""
    topic: String
    topic_id: Annotated[Uuid, Versions(10)] = field(default=NO_UUID, kw_only=True)
    is_internal: Annotated[Boolean, Versions(1)] = field(default=False, kw_only=True)
    partitions: tuple[PartitionMetadata, ...]
    authorized_operations: Annotated[Int32, Versions(8)] = field(default=NO_OPERATIONS, kw_only=True)
    """A bit for each; the smallest number where they were not asked for."""


@dataclass(frozen=True, slots=True)
class MetadataResponse(Response):
    """Live brokers, and the topics asked for."""

    VERSIONS: ClassVar[range] = range(12)
    FLEXIBLE_FROM: ClassVar[int | None] = 9

    throttle_ms: Annotated[Int32, Versions(3)] = field(default=0, kw_only=True)
    brokers: tuple[BrokerEndPoint, ...]
    cluster_id: Annotated[NullableString, Versions(2)] = field(default=None, kw_only=True)
    controller_id: Annotated[Int32, Versions(1)] = field(default=-1, kw_only=True)
    """Broker to which requests that change the cluster go; -1 for unknown."""
    topics: tuple[TopicMetadata, ...]
    authorized_operations: Annotated[Int32, Versions(8, 10)] = field(default=NO_OPERATIONS, kw_only=True)
    """On the cluster."""


def body_in_pieces(response: MetadataResponse, version: int = 0) -> Iterator[bytes]:
    """Encodes it as `messages.encode`, a bounded part at a time: a hundred thousand partitions take long.

    Joined, the parts are the body; each has some `PIECE` partitions, but no less than one topic. Raises
    UnencodableError.
    """
    flexible = response.is_flexible(version)
    count = len(response.topics)
    written = uvarint(count + 1) if flexible else _COUNT.pack(count)
    head = encode(replace(response, topics=()), version)
    tail = len(head) - (4 if 8 <= version <= 10 else 0) - flexible
    """Start of the part behind the topics, in a body without any."""
    parts = [head[: tail - (1 if flexible else _COUNT.size)], written]
    partitions = 0
    for topic in response.topics:
        parts.append(encode(topic, version, flexible=flexible))
        partitions += max(1, len(topic.partitions))
        if partitions >= PIECE:
            yield b"".join(parts)
            parts.clear()
            partitions = 0
    yield b"".join((*parts, head[tail:]))


_COUNT: Final = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class RequestedTopic:
    """A topic that is asked for."""

    topic_id: Annotated[Uuid, Versions(10)] = field(default=NO_UUID, kw_only=True)
    topic: Annotated[NullableString, NullableFrom(10)]
    """Null where the id is given instead."""


@dataclass(frozen=True, slots=True)
class MetadataRequest(Request):
    """Asks for topics."""

    API: ClassVar[Api] = Api.METADATA
    RESPONSE: ClassVar[type[Response]] = MetadataResponse
    VERSIONS: ClassVar[range] = range(12)
    FLEXIBLE_FROM: ClassVar[int | None] = 9

    topics: Annotated[tuple[RequestedTopic, ...] | None, NullableFrom(1)]
    """Null: all of them. In version 0 that is an empty array, which later asks for none."""
    allow_auto_topic_creation: Annotated[Boolean, Versions(4)] = field(default=True, kw_only=True)
    """Before version 4 that is always so."""
    include_cluster_authorized_operations: Annotated[Boolean, Versions(8, 10)] = field(
        default=False, kw_only=True
    )
    include_topic_authorized_operations: Annotated[Boolean, Versions(8)] = field(default=False, kw_only=True)

    @classmethod
    def of(cls, *topics: str) -> MetadataRequest:
        """A request for topics by their names; without any, in version 0, for all."""
        return cls(tuple(map(RequestedTopic, topics)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the topics asked for."""
        return tuple(one.topic for one in self.topics or () if one.topic is not None)


@dataclass(frozen=True, slots=True)
class FindCoordinatorResponse(Response):
    """The broker that keeps a group's offsets."""

    VERSIONS: ClassVar[range] = range(4)
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    throttle_ms: Annotated[Int32, Versions(1)] = field(default=0, kw_only=True)
    error: Int16
    """15: none at present."""
    error_message: Annotated[ErrorText, Versions(1)] = field(default=None, kw_only=True)
    broker: Int32
    """Its id; -1 for none."""
    host: String
    port: Int32


@dataclass(frozen=True, slots=True)
class FindCoordinatorRequest(Request):
    """Asks for the coordinator of a group or of a transactional id."""

    API: ClassVar[Api] = Api.FIND_COORDINATOR
    RESPONSE: ClassVar[type[Response]] = FindCoordinatorResponse
    VERSIONS: ClassVar[range] = range(4)
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    key: String
    """The group id, or what `key_type` says."""
    key_type: Annotated[Int8, Versions(1)] = GROUP_KEY


@dataclass(frozen=True, slots=True)
class ApiVersion:
    """Versions of one API that are served, both ends included."""

    api_key: Int16
    first: Int16
    last: Int16


@dataclass(frozen=True, slots=True)
class SupportedFeature:
    """Versions of a feature that the broker supports (KIP-584)."""

    name: String
    first: Int16
    last: Int16


@dataclass(frozen=True, slots=True)
class FinalizedFeature:
    """Versions of a feature that the cluster has agreed on (KIP-584)."""

    name: String
    last: Int16
    first: Int16


@dataclass(frozen=True, slots=True)
class ApiVersionsResponse(Response):
    """The APIs and versions that a broker serves.

    To a version that it does not serve it answers in version 0, with error 35 and ApiVersions alone
    (KIP-511). The header has version 0 before every version of it.
    """

    VERSIONS: ClassVar[range] = range(4)
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    error: Int16
    apis: tuple[ApiVersion, ...]
    throttle_ms: Annotated[Int32, Versions(1)] = 0
    supported_features: Annotated[tuple[SupportedFeature, ...], Tag(0), Versions(3)] = ()
    finalized_features_epoch: Annotated[Int64, Tag(1), Versions(3)] = -1
    finalized_features: Annotated[tuple[FinalizedFeature, ...], Tag(2), Versions(3)] = ()

    @classmethod
    def header_version(cls, version: int) -> int:
        """Always 0: the client cannot know the broker's versions yet."""
        return 0


@dataclass(frozen=True, slots=True)
class ApiVersionsRequest(Request):
    """Asks what a broker serves."""

    API: ClassVar[Api] = Api.API_VERSIONS
    RESPONSE: ClassVar[type[Response]] = ApiVersionsResponse
    VERSIONS: ClassVar[range] = range(4)
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    client_software_name: Annotated[String, Versions(3)] = ""
    client_software_version: Annotated[String, Versions(3)] = ""


@dataclass(frozen=True, slots=True)
class ClusterBroker:
    """A live broker."""

    broker: Int32
    """Its id."""
    host: String
    port: Int32
    rack: NullableString = None


@dataclass(frozen=True, slots=True)
class DescribeClusterResponse(Response):
    """Live brokers."""

    VERSIONS: ClassVar[range] = range(1)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_ms: Int32 = field(default=0, kw_only=True)
    error: Int16
    error_message: ErrorText = field(default=None, kw_only=True)
    cluster_id: String
    controller_id: Int32
    brokers: tuple[ClusterBroker, ...]
    authorized_operations: Int32 = field(default=NO_OPERATIONS, kw_only=True)


@dataclass(frozen=True, slots=True)
class DescribeClusterRequest(Request):
    """Asks for the live brokers."""

    API: ClassVar[Api] = Api.DESCRIBE_CLUSTER
    RESPONSE: ClassVar[type[Response]] = DescribeClusterResponse
    VERSIONS: ClassVar[range] = range(1)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    include_cluster_authorized_operations: Boolean = False
