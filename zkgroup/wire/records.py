"""What Kafka's clients and brokers ask the leader of a partition: Produce, Fetch, ListOffsets, version 0.

zkgroup brokers have no Kafka records. These are read so that a broker that leads nothing, in the middle of a
cluster that has it in its metadata, can say so for each partition and the connection lives on.
Source: kafka/api/ProducerRequest.scala, FetchRequest.scala, OffsetRequest.scala and responses @0.8.2.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from zkgroup.wire.messages import Api, Request, Response
from zkgroup.wire.schema import Bytes, Int16, Int32, Int64, String


@dataclass(frozen=True, slots=True)
class ProducedPartition:
    """Records for one partition."""

    partition: Int32
    messages: Bytes
    """A message set, not looked into."""


@dataclass(frozen=True, slots=True)
class ProducedTopic:
    """Records for partitions of a topic."""

    topic: String
    partitions: tuple[ProducedPartition, ...]


@dataclass(frozen=True, slots=True)
class ProduceResult:
    """What became of the records for one partition."""

    partition: Int32
    error: Int16
    offset: Int64
    """Of the first; -1 where there is none."""


@dataclass(frozen=True, slots=True)
class ProduceTopicResult:
    """What became of the records for partitions of a topic."""

    topic: String
    partitions: tuple[ProduceResult, ...]


@dataclass(frozen=True, slots=True)
class ProduceResponse(Response):
    """What became of the records."""

    topics: tuple[ProduceTopicResult, ...]


@dataclass(frozen=True, slots=True)
class ProduceRequest(Request):
    """Appends records."""

    API: ClassVar[Api] = Api.PRODUCE
    RESPONSE: ClassVar[type[Response]] = ProduceResponse

    acks: Int16
    """0: no response is awaited, and none may be sent."""
    timeout_ms: Int32
    topics: tuple[ProducedTopic, ...]


@dataclass(frozen=True, slots=True)
class FetchPartition:
    """Where to read in one partition."""

    partition: Int32
    offset: Int64
    max_bytes: Int32


@dataclass(frozen=True, slots=True)
class FetchTopic:
    """Where to read in partitions of a topic."""

    topic: String
    partitions: tuple[FetchPartition, ...]


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """What was read from one partition."""

    partition: Int32
    error: Int16
    high_watermark: Int64
    """-1 with an error."""
    messages: Bytes


@dataclass(frozen=True, slots=True)
class FetchedTopic:
    """What was read from partitions of a topic."""

    topic: String
    partitions: tuple[FetchedPartition, ...]


@dataclass(frozen=True, slots=True)
class FetchResponse(Response):
    """What was read."""

    topics: tuple[FetchedTopic, ...]


@dataclass(frozen=True, slots=True)
class FetchRequest(Request):
    """Reads records, as a consumer or as a follower."""

    API: ClassVar[Api] = Api.FETCH
    RESPONSE: ClassVar[type[Response]] = FetchResponse

    replica_id: Int32
    """The follower; -1 for a consumer."""
    max_wait_ms: Int32
    min_bytes: Int32
    topics: tuple[FetchTopic, ...]


@dataclass(frozen=True, slots=True)
class ListOffsetsPartition:
    """Which offsets of one partition are asked for."""

    partition: Int32
    time_ms: Int64
    """Epoch milliseconds; -1 the end, -2 the start."""
    max_offsets: Int32


@dataclass(frozen=True, slots=True)
class ListOffsetsTopic:
    """Which offsets of partitions of a topic are asked for."""

    topic: String
    partitions: tuple[ListOffsetsPartition, ...]


@dataclass(frozen=True, slots=True)
class ListedPartition:
    """Offsets of one partition."""

    partition: Int32
    error: Int16
    offsets: tuple[Int64, ...]
    """The latest first."""


@dataclass(frozen=True, slots=True)
class ListedTopic:
    """Offsets of partitions of a topic."""

    topic: String
    partitions: tuple[ListedPartition, ...]


@dataclass(frozen=True, slots=True)
class ListOffsetsResponse(Response):
    """Offsets."""

    topics: tuple[ListedTopic, ...]


@dataclass(frozen=True, slots=True)
class ListOffsetsRequest(Request):
    """Asks for offsets by time."""

    API: ClassVar[Api] = Api.LIST_OFFSETS
    RESPONSE: ClassVar[type[Response]] = ListOffsetsResponse

    replica_id: Int32
    topics: tuple[ListOffsetsTopic, ...]
