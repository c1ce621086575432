"""The events and effects of a broker's machine, and the context that its parts share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from zkgroup.broker.machine.isr import IsrChangePropagationConfig
from zkgroup.broker.replicas.replica_view import Follower
from zkgroup.model import TopicPartition
from zkgroup.runtime.events import LogEvent, SharedEffect, SharedEvent
from zkgroup.runtime.procedures import MachineContext
from zkgroup.wire.control import Broker, PartitionStateInfo
from zkgroup.znodes.brokers import VERSION_DEFAULT
from zkgroup.znodes.cluster import RESERVED_BROKER_MAX_ID
from zkgroup.znodes.config import ConfigEntity
from zkgroup.znodes.notifications import CHANGE_AGE_MAX_MS


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """Configuration of a broker's machine."""

    broker: int | None
    """Its id; None: one is given out by `/brokers/seqid`."""
    new_cluster_id: bytes
    """16 random bytes, for a cluster that has no id yet."""
    registration_version: int = VERSION_DEFAULT
    rack: str | None = None
    """From registration version 3 on."""
    reserved_max_id: int = RESERVED_BROKER_MAX_ID
    lag_max_ms: int = 10_000
    notices: IsrChangePropagationConfig = field(default_factory=IsrChangePropagationConfig)
    change_age_max_ms: int = CHANGE_AGE_MAX_MS
    """Notifications of configurations that are older are deleted."""
    jitter: Callable[[], float] = lambda: 0.5
    """Draws a number in [0, 1). The only source of randomness of the machine."""


class BrokerContext(MachineContext[BrokerEffect]):
    """The books of one broker."""

    def __init__(self, config: BrokerConfig) -> None:
        super().__init__(config.jitter)
        self.config = config
        self.broker = config.broker
        """The own id, once it is known."""
        self.has_failed = False
        self._server_time: tuple[int, int] | None = None

    def fail(self, error: Exception) -> None:
        """Nothing more is asked."""
        self.has_failed = True
        self.emit(Failed(error))

    def saw_server_time(self, wall_ms: int) -> None:
        """A time that the servers have just written down."""
        self._server_time = wall_ms, self.now.ms

    @property
    def server_time_ms(self) -> int | None:
        """The servers' wall time now, or a little less; None where none is known.

        What they wrote down can only be compared with their own clock.
        """
        if self._server_time is None:
            return None
        wall_ms, at_ms = self._server_time
        return wall_ms + self.now.ms - at_ms
