"""What a broker must do next, beside asking ZooKeeper: the outputs of its machine, as orders.

The shell performs the effects of a step in the order given, all of them before the next event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zkgroup.machinery.effects import Note, SharedEffect
from zkgroup.model import TopicPartition
from zkgroup.wire.control import Broker
from zkgroup.znodes.config_entity import ConfigEntity


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
class Counted:
    """Whom the high watermark of one partition waits for."""

    topic_partition: TopicPartition
    leader_epoch: int
    isr: frozenset[int]
    joining: frozenset[int] = frozenset()
    """Of these, whom the write will take in: lines may have been acknowledged since they had caught up."""


@dataclass(frozen=True, slots=True)
class CountIsrs:
    """Tell the host (`ReplicaHost.set_isr`), in order; then say `IsrsCounted`, unless `batch` is None.

    From then on the high watermark waits for those that join; who is below it by then is `behind`.
    """

    batch: int | None
    isrs: tuple[Counted, ...]


@dataclass(frozen=True, slots=True)
class LookAtFollowers:
    """Ask the host for its view of these partitions, and say `FollowersSeen`."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class HoldFetches:
    """Ask no leader for lines of what is followed now, obey no controller before `Registered`, and say
    `FetchesHeld`.

    What a controller names from then on is fetched."""


@dataclass(frozen=True, slots=True)
class FollowOn:
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
    """The answer to `ControllerWanted`."""

    controller: Broker | None
    """None where there is none, or ZooKeeper does not tell."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The broker cannot go on; it asks for nothing more."""

    error: Exception


BrokerEffect = (
    Prepared
    | Registered
    | CountIsrs
    | LookAtFollowers
    | HoldFetches
    | FollowOn
    | IsrChanged
    | ConfigChanged
    | ControllerFound
    | Failed
    | Note
)
Effect = BrokerEffect | SharedEffect
