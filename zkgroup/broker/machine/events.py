"""What a broker's machine is told beside what every machine is: its port, its partitions, its followers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zkgroup.broker.replica_host import Follower
from zkgroup.machinery.events import SharedEvent
from zkgroup.model import TopicPartition
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
class Led:
    """The host leads a partition by this decision of the controller."""

    state: PartitionStateInfo


@dataclass(frozen=True, slots=True)
class Reassigned:
    """The host goes on leading a partition, with the replicas that this decision names."""

    state: PartitionStateInfo


@dataclass(frozen=True, slots=True)
class Left:
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
class FollowersSeen:
    """The answer to `LookAtFollowers`: of each partition that the host leads, its epoch and followers."""

    partitions: tuple[TopicPartition, ...]
    """All that were asked for."""
    followers: Mapping[TopicPartition, tuple[int, Mapping[int, Follower]]]


@dataclass(frozen=True, slots=True)
class IsrsCounted:
    """The host has taken in what `CountIsrs` named."""

    batch: int
    behind: frozenset[TopicPartition] = frozenset()
    """Partitions of which somebody who is to join lacks lines below the high watermark."""


@dataclass(frozen=True, slots=True)
class FetchesHeld:
    """`HoldFetches` is carried out."""

    partitions: frozenset[TopicPartition]
    """That are held and were not before."""


@dataclass(frozen=True, slots=True)
class Followed:
    """A controller has had partitions of these topics followed, in the present registration."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class ControllerWanted:
    """Where is the controller? Answered by `ControllerFound`."""


BrokerEvent = (
    Serving
    | Led
    | Reassigned
    | Left
    | FollowerFetched
    | FollowersSeen
    | IsrsCounted
    | FetchesHeld
    | Followed
    | ControllerWanted
)
Event = BrokerEvent | SharedEvent
