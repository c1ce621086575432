"""The settings of the active controller and of the elector, and the context that all their parts share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from zkgroup.controller.machine.events import ControllerEffect
from zkgroup.runtime.procedures import MachineContext
from zkgroup.znodes.brokers import PLAIN_LISTENER, Endpoint, InterBrokerListener
from zkgroup.znodes.json_fields import DATA_BYTES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """The settings of an active controller, with the names of Kafka's settings."""

    unclean_election: bool = False
    """`unclean.leader.election.enable`; a topic may say otherwise. True up to 0.10."""
    delete_topics: bool = True
    """`delete.topic.enable`. False at 0.8.2.2."""
    auto_rebalance: bool = True
    """`auto.leader.rebalance.enable`."""
    rebalance_first_ms: int = 5_000
    rebalance_interval_ms: int = 300_000
    """`leader.imbalance.check.interval.seconds`, in milliseconds."""
    rebalance_percentage: int = 10
    """`leader.imbalance.per.broker.percentage`."""
    slot_replicas: int = 3
    """`offsets.topic.replication.factor`: replicas of a slot, once there are so many brokers."""
    status_interval_ms: int = 5_000
    """Shortest time between two writes of the status (published status, recipes 18)."""


@dataclass(slots=True)
class StrayRecordsRead:
    """The progress of reading the records of stray replicas by former controllers."""

    all: bool = False
    moves: bool = False
    """Those of ended reassignments were read."""
    of_earlier: bool = False
    """Among them were some of controllers of earlier versions."""
    read: int = 0
    last: int = -1
    """Number of the last one."""
    version: int | None = None
    """Of the znode that says up to which one none need be read; None where there is none."""
    is_noted: bool = False
    """True if what they name is recorded and they need not be read again."""


TAKEOVER_GRACE_MS: Final = 2000
"""`controller.takeover.grace` (fenced elections, recipes 13)."""


class ControllerAddress(NamedTuple):
    """The address of a controller that hosts nothing (controllers without partitions, recipes 14)."""

    host: str
    """Of its inter-broker listener."""
    port: int
    listeners: tuple[Endpoint, ...] = ()
    """All that it has; empty for one plain listener."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectorConfig:
    """The settings of an elector."""

    broker: int
    controller_only: ControllerAddress | None = None
    """None for a broker, whose registration is its own affair and comes before the election."""
    inter_broker: InterBrokerListener = PLAIN_LISTENER
    """By which it reaches brokers."""
    takeover_grace_ms: int = TAKEOVER_GRACE_MS
    lease_fraction: float = 2 / 3
    """Of the session timeout; as `lease_fraction` of a member."""
    server_tick_ms: int = 2000
    """`tickTime` of the servers, which a client cannot ask for."""
    request_bytes_max: int = DATA_BYTES_MAX
    """Of one transaction of many writes; more go as several, each with the whole fence."""
    jitter: Callable[[], float] = lambda: 0.5
    """Draws a number in [0, 1). The only source of randomness of the machine."""


class ElectorContext(MachineContext[ControllerEffect]):
    """The clock, the timers and the effects of one controller, and its settings."""

    def __init__(self, config: ElectorConfig) -> None:
        super().__init__(config.jitter)
        self.config = config
