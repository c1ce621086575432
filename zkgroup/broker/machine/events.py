"""The events of a broker's machine beside those of every machine: its port, partitions and followers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zkgroup.broker.replicas.replica_view import Follower
from zkgroup.model import TopicPartition
from zkgroup.runtime.events import SharedEvent
from zkgroup.wire.control import PartitionStateInfo


@dataclass(frozen=True, slots=True)
class Serving:
    """Requests are answered: the broker may register."""

    host: str
    """As others reach it."""
    port: int
    folder: str | None = None
    """What the lines are kept in, where that outlives the process and only one process can use it."""


@dataclass(frozen=True, slots=True)
class BecameLeader:
    """The host leads a partition by this decision of the controller."""

    state: PartitionStateInfo


@dataclass(frozen=True, slots=True)
class ReplicasChanged:
    """The host goes on leading a partition, with the replicas that this decision names."""

    state: PartitionStateInfo


@dataclass(frozen=True, slots=True)
class StoppedLeading:
    """The host leads a partition no more, or could not."""

    topic_partition: TopicPartition


@dataclass(frozen=True, slots=True)
class FollowerFetched:
    """A follower has asked for lines and was answered."""

    topic_partition: TopicPartition
    follower: int
    offset: int
    """The first that it wanted."""
    log_end_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class FollowersRead:
    """The answer to `ReadFollowers`: of each partition that the host leads, its epoch and followers."""

    partitions: tuple[TopicPartition, ...]
    """All that were asked for."""
    followers: Mapping[TopicPartition, tuple[int, Mapping[int, Follower]]]


@dataclass(frozen=True, slots=True)
class MaximalIsrsSet:
    """The host has taken in what `SetMaximalIsrs` named."""

    batch: int
    behind: frozenset[TopicPartition] = frozenset()
    """Partitions of which a joining replica lacks lines below the high watermark."""


@dataclass(frozen=True, slots=True)
class FetchesPaused:
    """`PauseFetches` is carried out."""

    partitions: frozenset[TopicPartition]
    """That are held and were not before."""


@dataclass(frozen=True, slots=True)
class TopicsFollowed:
    """A controller has had partitions of these topics followed, in the present registration."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class FindController:
    """Where is the controller? Answered by `ControllerFound`."""


BrokerEvent = (
    Serving
    | BecameLeader
    | ReplicasChanged
    | StoppedLeading
    | FollowerFetched
    | FollowersRead
    | MaximalIsrsSet
    | FetchesPaused
    | TopicsFollowed
    | FindController
)
Event = BrokerEvent | SharedEvent
