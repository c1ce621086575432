"""The events and effects of a broker's machine, and the context that its parts share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from zkgroup.broker.machine.isr import IsrChangePropagationConfig
from zkgroup.broker.replica_view import Follower
from zkgroup.model import TopicPartition
from zkgroup.runtime.events import LogEvent, SharedEffect, SharedEvent
from zkgroup.runtime.procedures import MachineContext
from zkgroup.security.acls import AccessControlEntry, ResourcePattern
from zkgroup.security.scram import ScramCredential
from zkgroup.wire.control import BrokerEndPoint, PartitionStateInfo
from zkgroup.wire.messages import ErrorCode
from zkgroup.znodes.brokers import PLAIN_LISTENER, VERSION_DEFAULT, Endpoint, InterBrokerListener
from zkgroup.znodes.cluster import RESERVED_BROKER_MAX_ID, ProducerIdBlock
from zkgroup.znodes.config import ConfigEntity
from zkgroup.znodes.notifications import CHANGE_AGE_MAX_MS


@dataclass(frozen=True, slots=True)
class Serving:
    """The listeners serve requests: the broker may register."""

    endpoints: tuple[Endpoint, ...]
    """Those that are advertised."""
    folder: str | None = None
    """The id of the folder of the records, which one process uses at a time; None without a folder."""


@dataclass(frozen=True, slots=True)
class BecameLeader:
    """The replica manager leads a partition, by this state from the controller."""

    state: PartitionStateInfo


@dataclass(frozen=True, slots=True)
class ReplicasChanged:
    """The replica manager continues to lead a partition, with the replicas in this state."""

    state: PartitionStateInfo


@dataclass(frozen=True, slots=True)
class StoppedLeading:
    """The replica manager does not lead a partition any more, or could not."""

    topic_partition: TopicPartition


@dataclass(frozen=True, slots=True)
class FollowerFetched:
    """A follower has fetched from a partition and got an answer."""

    topic_partition: TopicPartition
    follower: int
    offset: int
    """The fetch offset."""
    log_end_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class FollowerFetches:
    """A follower has fetched from several partitions that this broker leads, by one request."""

    fetched: tuple[FollowerFetched, ...]


@dataclass(frozen=True, slots=True)
class FollowersRead:
    """The result of `ReadFollowers`: leader epoch and followers of each partition that is led here."""

    partitions: tuple[TopicPartition, ...]
    """All partitions in `ReadFollowers`."""
    followers: Mapping[TopicPartition, tuple[int, Mapping[int, Follower]]]


@dataclass(frozen=True, slots=True)
class MaximalIsrsSet:
    """`SetMaximalIsrs` was performed."""

    batch: int
    behind: frozenset[TopicPartition] = frozenset()
    """Partitions of which a joining replica lacks records below the high watermark."""


@dataclass(frozen=True, slots=True)
class FetchesPaused:
    """`PauseFetches` was performed."""

    partitions: frozenset[TopicPartition]
    """The partitions that were not paused before."""


@dataclass(frozen=True, slots=True)
class TopicsFollowed:
    """A controller has made the broker follow partitions of these topics, in the present registration."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class FindController:
    """The broker needs the controller's address; `ControllerFound` follows."""


@dataclass(frozen=True, slots=True)
class ClaimProducerIds:
    """The broker needs a block of producer ids; `ProducerIdsClaimed` follows."""


BrokerEvent = (
    Serving
    | BecameLeader
    | ReplicasChanged
    | StoppedLeading
    | FollowerFetches
    | FollowersRead
    | MaximalIsrsSet
    | FetchesPaused
    | TopicsFollowed
    | FindController
    | ClaimProducerIds
)
Event = BrokerEvent | SharedEvent


@dataclass(frozen=True, slots=True)
class Prepared:
    """The broker id is known: open folder and port, and post `Serving`. Once."""

    broker: int
    cluster_id: str | None
    """None if `/cluster/id` cannot be read."""


@dataclass(frozen=True, slots=True)
class Registered:
    """The broker is registered in `/brokers/ids` in this session; elections may begin."""

    epoch: int
    """czxid of the registration, which identifies this incarnation for its peers."""
    incarnation: int
    """Incarnation of the session."""


@dataclass(frozen=True, slots=True)
class MaximalIsr:
    """The maximal ISR of one partition: the high watermark waits for its members."""

    topic_partition: TopicPartition
    leader_epoch: int
    isr: frozenset[int]
    joining: frozenset[int] = frozenset()
    """Replicas that the write adds: records may have been acknowledged since they had caught up."""


@dataclass(frozen=True, slots=True)
class SetMaximalIsrs:
    """Call `ReplicaManager.set_isr`, in order; then post `MaximalIsrsSet`, unless `batch` is None.

    From then on the high watermark waits for the joining replicas; one that is below it is `behind`.
    """

    batch: int | None
    isrs: tuple[MaximalIsr, ...]


@dataclass(frozen=True, slots=True)
class ReadFollowers:
    """Read the followers of these partitions from the replica manager, and post `FollowersRead`."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class PauseFetches:
    """Pause all fetches, refuse control requests until `Registered`, and post `FetchesPaused`.

    Partitions that a controller names after that are fetched."""


@dataclass(frozen=True, slots=True)
class ResumeFetches:
    """Fetch these partitions again."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class IsrChanged:
    """The ISR in ZooKeeper has changed, as far as this leader knows."""

    topic_partition: TopicPartition
    leader_epoch: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """The configuration of an entity has changed: all its overrides, none if the znode is gone.

    Those of a user come without its credentials."""

    entity: ConfigEntity
    overrides: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CredentialsChanged:
    """The SCRAM credentials of a user have changed: all of them by mechanism, none if they are gone."""

    user: str
    """The name, decoded."""
    credentials: Mapping[str, ScramCredential]


@dataclass(frozen=True, slots=True)
class AclsChanged:
    """All changes of ACLs up to now were read. Those that differ, to be applied at once; maybe none."""

    acls: Mapping[ResourcePattern, tuple[AccessControlEntry, ...]]
    """All entries of each pattern, none if they are gone."""


@dataclass(frozen=True, slots=True)
class ControllerFound:
    """The result of `FindController`."""

    controller: BrokerEndPoint | None
    """None if there is none, or ZooKeeper cannot be read."""


@dataclass(frozen=True, slots=True)
class ProducerIdsClaimed:
    """The result of `ClaimProducerIds`."""

    block: ProducerIdBlock | None
    """None with an error."""
    error: ErrorCode = ErrorCode.NONE
    """14 without an answer of ZooKeeper: the client tries again; -1 if the znode cannot be read."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The broker has failed; it submits nothing more."""

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
    | CredentialsChanged
    | AclsChanged
    | ControllerFound
    | ProducerIdsClaimed
    | Failed
    | LogEvent
)
Effect = BrokerEffect | SharedEffect


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMachineConfig:
    """Configuration of a broker's machine."""

    broker: int | None
    """Its id; None: one is generated by `/brokers/seqid`."""
    new_cluster_id: bytes
    """16 random bytes, for a cluster that has no id yet."""
    registration_version: int = VERSION_DEFAULT
    rack: str | None = None
    """From registration version 3 on."""
    inter_broker: InterBrokerListener = PLAIN_LISTENER
    """By which it reaches other brokers."""
    reserved_max_id: int = RESERVED_BROKER_MAX_ID
    lag_max_ms: int = 10_000
    notices: IsrChangePropagationConfig = field(default_factory=IsrChangePropagationConfig)
    change_age_max_ms: int = CHANGE_AGE_MAX_MS
    """Milliseconds. Older notifications of configurations are deleted."""
    follows_users: bool = False
    """True if it is told of the SCRAM credentials of users."""
    follows_acls: bool = False
    """True for a broker with an authorizer."""
    jitter: Callable[[], float] = lambda: 0.5
    """Returns a random number in [0, 1). The only source of randomness of the machine."""


class BrokerContext(MachineContext[BrokerEffect]):
    """The state of one broker that all components share."""

    def __init__(self, config: BrokerMachineConfig) -> None:
        super().__init__(config.jitter)
        self.config = config
        self.broker = config.broker
        """The broker id, once it is known."""
        self.has_failed = False
        self._server_time: tuple[int, int] | None = None

    def fail(self, error: Exception) -> None:
        """Ends the broker with an error: nothing more is submitted."""
        self.has_failed = True
        self.emit(Failed(error))

    def saw_server_time(self, wall_ms: int) -> None:
        """Notes a time that the servers have just written."""
        self._server_time = wall_ms, self.now.ms

    @property
    def server_time_ms(self) -> int | None:
        """The servers' wall time now in epoch milliseconds, or a little less; None if it is unknown.

        Times in znodes can only be compared with the servers' clock.
        """
        if self._server_time is None:
            return None
        wall_ms, at_ms = self._server_time
        return wall_ms + self.now.ms - at_ms
