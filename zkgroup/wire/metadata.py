"""What clients ask any broker: where partitions and coordinators are.

Version 0 of Metadata and of FindCoordinator, which is ConsumerMetadata at 0.8.2.2
(kafka/api/TopicMetadataRequest.scala, ConsumerMetadataRequest.scala and their responses at that tag).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from zkgroup.wire.control import Broker
from zkgroup.wire.messages import Api, Request, Response, encode
from zkgroup.wire.schema import Int16, Int32, String

PIECE: Final = 1000
"""Partitions of a large answer that are made in one go: some milliseconds."""
_COUNT: Final = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """One partition as clients see it."""

    error: Int16
    """5: no live leader; 9: some of the replicas or of the ISR are not live and are left out."""
    partition: Int32
    leader: Int32
    """Broker id; -1 for none."""
    replicas: tuple[Int32, ...]
    isr: tuple[Int32, ...]


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """One topic as clients see it."""

    error: Int16
    """3: unknown; 5: being created; 17: no legal name."""
    topic: String
    partitions: tuple[PartitionMetadata, ...]


@dataclass(frozen=True, slots=True)
class MetadataResponse(Response):
    """Live brokers, and the topics asked for."""

    brokers: tuple[Broker, ...]
    topics: tuple[TopicMetadata, ...]


def body_in_pieces(response: MetadataResponse) -> Iterator[bytes]:
    """What `messages.encode` makes of it, a bounded part at a time: a hundred thousand partitions take long.

    Joined, the parts are the body; each has some `PIECE` partitions, but no less than one topic. Raises
    UnencodableError.
    """
    head = encode(MetadataResponse(response.brokers, ()), 0)
    parts = [head[: -_COUNT.size], _COUNT.pack(len(response.topics))]
    partitions = 0
    for topic in response.topics:
        parts.append(encode(topic, 0))
        partitions += max(1, len(topic.partitions))
        if partitions >= PIECE:
            yield b"".join(parts)
            parts.clear()
            partitions = 0
    yield b"".join(parts)


@dataclass(frozen=True, slots=True)
class MetadataRequest(Request):
    """Asks for topics."""

    API: ClassVar[Api] = Api.METADATA
    RESPONSE: ClassVar[type[Response]] = MetadataResponse

    topics: tuple[String, ...]
    """None named: all of them."""


@dataclass(frozen=True, slots=True)
class FindCoordinatorResponse(Response):
    """The broker that keeps a group's offsets."""

    error: Int16
    """15: none at present."""
    broker: Int32
    """Its id; -1 for none."""
    host: String
    port: Int32


@dataclass(frozen=True, slots=True)
class FindCoordinatorRequest(Request):
    """Asks for the coordinator of a group."""

    API: ClassVar[Api] = Api.FIND_COORDINATOR
    RESPONSE: ClassVar[type[Response]] = FindCoordinatorResponse

    group: String
