"""The events and effects of a broker's machine, beside those of every machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zkgroup.broker.replicas.replica_view import Follower
from zkgroup.model import TopicPartition
from zkgroup.runtime.events import LogEvent, SharedEffect, SharedEvent
from zkgroup.wire.control import Broker, PartitionStateInfo
from zkgroup.znodes.config import ConfigEntity


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


@dataclass(frozen=True, slots=True)
class Prepared:
    """The own id is known: open folder and port, and say `Serving`. Once."""

    broker: int
    cluster_id: str | None
    """None where `/cluster/id` cannot be read."""


@dataclass(frozen=True, slots=True)
class Registered:
    """The broker stands in `/brokers/ids` in this session; elections may begin."""

    epoch: int
    """czxid of the registration: names this incarnation to its peers."""
    incarnation: int
    """Of the session."""


@dataclass(frozen=True, slots=True)
class MaximalIsr:
    """The maximal ISR of one partition: the high watermark waits for its members."""

    topic_partition: TopicPartition
    leader_epoch: int
    isr: frozenset[int]
    joining: frozenset[int] = frozenset()
    """Members that the write adds: lines may have been acknowledged since they had caught up."""


@dataclass(frozen=True, slots=True)
class SetMaximalIsrs:
    """Tell the host (`ReplicaManager.set_isr`), in order; then say `MaximalIsrsSet`, unless `batch` is None.

    From then on the high watermark waits for those that join; who is below it by then is `behind`.
    """

    batch: int | None
    isrs: tuple[MaximalIsr, ...]


@dataclass(frozen=True, slots=True)
class ReadFollowers:
    """Ask the host for its view of these partitions, and say `FollowersRead`."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class PauseFetches:
    """Fetch nothing of what is followed now, refuse control requests before `Registered`, and post
    `FetchesPaused`.

    What a controller names from then on is fetched."""


@dataclass(frozen=True, slots=True)
class ResumeFetches:
    """Fetch these again."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class IsrChanged:
    """What is in force in ZooKeeper from now on, as far as this leader knows."""

    topic_partition: TopicPartition
    leader_epoch: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """All overrides of one topic or broker, as they are now; none where its znode is gone."""

    entity: ConfigEntity
    overrides: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ControllerFound:
    """The answer to `FindController`."""

    controller: Broker | None
    """None where there is none, or ZooKeeper cannot be read."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The broker cannot go on; it asks for nothing more."""

    error: Exception


BrokerEffect = (
    Prepared
    | Registered
    | SetMaximalIsrs
    | ReadFollowers
    | PauseFetches
    | ResumeFetches
    | IsrChanged
    | ConfigChanged
    | ControllerFound
    | Failed
    | LogEvent
)
Effect = BrokerEffect | SharedEffect
