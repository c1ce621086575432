"""DescribeLogDirs and AlterReplicaLogDirs (KIP-113): the folders of a broker, and the replicas in them.

Source: the schemas of these messages @2.8.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from zkgroup.wire.messages import Api, Request, Response
from zkgroup.wire.schema import Boolean, Int16, Int32, Int64, String


@dataclass(frozen=True, slots=True)
class LogDirTopic:
    """Partitions of a topic."""

    topic: String
    partitions: tuple[Int32, ...]


@dataclass(frozen=True, slots=True)
class ReplicaInLogDir:
    """A replica."""

    partition: Int32
    size: Int64
    """Bytes of its segments."""
    lag: Int64
    """Number of records between the high watermark and its log end."""
    is_future: Boolean = False
    """True if it is to replace the replica in another folder."""


@dataclass(frozen=True, slots=True)
class TopicInLogDir:
    """The replicas of one topic."""

    topic: String
    partitions: tuple[ReplicaInLogDir, ...]


@dataclass(frozen=True, slots=True)
class LogDir:
    """One folder."""

    error: Int16
    path: String
    topics: tuple[TopicInLogDir, ...]


@dataclass(frozen=True, slots=True)
class DescribeLogDirsResponse(Response):
    """The folders of a broker."""

    VERSIONS: ClassVar[range] = range(3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_ms: Int32 = field(default=0, kw_only=True)
    log_dirs: tuple[LogDir, ...]


@dataclass(frozen=True, slots=True)
class DescribeLogDirsRequest(Request):
    """Asks for the folders of a broker."""

    API: ClassVar[Api] = Api.DESCRIBE_LOG_DIRS
    RESPONSE: ClassVar[type[Response]] = DescribeLogDirsResponse
    VERSIONS: ClassVar[range] = range(3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    topics: tuple[LogDirTopic, ...] | None = None
    """None for all."""


@dataclass(frozen=True, slots=True)
class AlteredLogDir:
    """The replicas that are to be in a folder."""

    path: String
    topics: tuple[LogDirTopic, ...]


@dataclass(frozen=True, slots=True)
class AlteredReplica:
    """The result for one replica."""

    partition: Int32
    error: Int16


@dataclass(frozen=True, slots=True)
class AlteredReplicaTopic:
    """The results for the replicas of one topic."""

    topic: String
    partitions: tuple[AlteredReplica, ...]


@dataclass(frozen=True, slots=True)
class AlterReplicaLogDirsResponse(Response):
    """The result for each replica."""

    VERSIONS: ClassVar[range] = range(3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_ms: Int32 = field(default=0, kw_only=True)
    topics: tuple[AlteredReplicaTopic, ...]


@dataclass(frozen=True, slots=True)
class AlterReplicaLogDirsRequest(Request):
    """Moves replicas to other folders of their broker."""

    API: ClassVar[Api] = Api.ALTER_REPLICA_LOG_DIRS
    RESPONSE: ClassVar[type[Response]] = AlterReplicaLogDirsResponse
    VERSIONS: ClassVar[range] = range(3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    log_dirs: tuple[AlteredLogDir, ...]
