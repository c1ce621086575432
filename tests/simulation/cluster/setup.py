"""The setup of one schedule of a cluster: drawn from its seed, printed with a failure."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from zkgroup.controller.machine.settings import ControllerSettings
from zkgroup.coordinator.settings import CoordinatorSettings
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC
from zkgroup.znodes.json_fields import DATA_BYTES_MAX

FAULTS = (
    "lost_reply",
    "lost_request",
    "late",
    "cut_client",
    "expire",
    "isolate",
    "stall",
    "answer_late",
    "depose",
    "pause",
    "kill_controller",
    "kill_broker",
    "kill_ahead",
    "bounce",
    "lose_broker",
    "break_disk",
    "cut_connection",
    "part",
    "delete_controller",
)
OPERATIONS = (
    "create_topic",
    "grow",
    "delete_topic",
    "force_deletion",
    "reassign",
    "change_target",
    "cancel",
    "prefer",
    "resign",
    "shut_down",
    "configure",
    "allow_unclean",
    "elect_unclean",
    "store_plan",
    "change_plan",
    "delete_records",
)
_APART = frozenset({"force_deletion", "delete_records"})
"""Drawn separately, so that the other draws of a seed stay as they were before these were added."""
FOREIGN_WRITES = (
    "write_request",
    "delete_request",
    "kafka_step",
    "break_znode",
    "outrun",
    "raise_epoch",
    "forbid",
)
AWAITED = {"kafka_step": 10.0, "answer_late": 50.0, "depose": 100.0, "outrun": 20.0, "forbid": 25.0}
"""Events that need a rare state: the factor by which they are tried more often."""
SMALL_BYTES = 720
"""Size for two partition states, or one with its parents, or the throttles of a topic."""
Kind = Literal["zkgroup", "kafka"]
Replicas = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSetup:
    """A cluster, and the weights of its faults, operations and foreign writes."""

    kind: Kind
    """`kafka`: the brokers and their controllers are Kafka's; zkgroup's controllers host nothing."""
    brokers: tuple[int, ...]
    electors: tuple[int, ...]
    """Brokers with a controller that can be elected."""
    alone: tuple[int, ...] = ()
    """Ids of zkgroup controllers that host nothing."""
    kafka_first: bool = False
    """Whether a Kafka controller is active before zkgroup's controllers start."""
    topics: Mapping[str, tuple[Replicas, ...]] = field(default_factory=dict)
    """Replica lists of the topics at the start."""
    slots: int = 0
    """Partitions of `__consumer_offsets`, which are the slots of group coordinators; 0: no such topic."""
    coordinator: CoordinatorSettings | None = None
    """Of the brokers' group coordinators; None: they have none."""
    steps: int = 250
    bursts: float = 0.12
    """Chance in each step that all waiting events happen, a few times."""
    stale: bool = False
    """Whether the servers of clients may be stale by any amount."""
    rebalances: bool = False
    fetches_without_terms: bool = False
    """Whether followers fetch as those of Kafka 0.8.2.2: without a leader epoch."""
    holds_fetches: bool = False
    """Whether leaders hold a fetch for a while until there are new records."""
    fetch_bytes: int = 10_000
    """Most bytes of all partitions in an answer to a follower."""
    segment_bytes: int = 1 << 20
    """Largest segment of a log."""
    request_bytes_max: int = DATA_BYTES_MAX
    """Largest transaction in bytes of a controller's bulk writes."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Chance of each fault, operation and foreign write in a thousand steps."""
    session_timeout_ms: int = 6000

    def controller_settings(self) -> ControllerSettings:
        return ControllerSettings(auto_rebalance=self.rebalances, rebalance_first_ms=2_000)


def draw_cluster(seed: int, steps: int) -> ClusterSetup:
    """The setup of a seed. Every fault is drawn independently, so that each pair occurs in some schedule."""
    rng = random.Random(seed)
    kind: Kind = "kafka" if rng.random() < 0.25 else "zkgroup"
    brokers = tuple(range(1, rng.choice((3, 3, 4)) + 1))
    few = brokers[: rng.choice((2, 2, 3))]
    topics = {}
    for index in range(rng.choice((1, 1, 2))):
        factor = rng.choice((1, 2, 2, 3, 3))
        topics[f"t{index}"] = tuple(tuple(rng.sample(brokers, factor)) for _ in range(rng.choice((1, 2, 3))))
    weights = {fault: rng.choice((0.0, 0.0, 3.0, 8.0)) for fault in FAULTS}
    weights |= {
        operation: rng.choice((0.0, 4.0, 12.0)) for operation in OPERATIONS if operation not in _APART
    }
    weights |= {write: rng.choice((0.0, 0.0, 4.0, 12.0)) for write in FOREIGN_WRITES}
    weights |= {name: weights[name] * times for name, times in AWAITED.items()}
    if kind == "zkgroup":  # Kafka's controller would use any replica that a broker has kept
        apart = random.Random(f"apart {seed}")
        weights |= {"force_deletion": apart.choice((0.0, 0.0, 12.0))}
    deletions = random.Random(f"records {seed}")
    weights |= {"delete_records": deletions.choice((0.0, 20.0))}
    of_slots = random.Random(f"slots {seed}")
    slots = of_slots.choice((0, 0, 1, 2)) if kind == "zkgroup" else 0
    if slots:
        few_replicas = of_slots.choice((1, 2))
        topics[OFFSETS_TOPIC] = tuple(tuple(of_slots.sample(brokers, few_replicas)) for _ in range(slots))
    return ClusterSetup(
        kind=kind,
        brokers=brokers,
        electors=few,
        alone=(101, 102) if kind == "kafka" else (101,) if rng.random() < 0.3 else (),
        kafka_first=kind == "kafka" and rng.random() < 0.6,
        topics=topics,
        slots=slots,
        steps=steps,
        stale=rng.random() < 0.5,
        rebalances=rng.random() < 0.3,
        request_bytes_max=SMALL_BYTES if rng.random() < 0.7 else DATA_BYTES_MAX,
        holds_fetches=rng.random() < 0.5,
        fetch_bytes=random.Random(f"fetch bytes {seed}").choice((1, 200, 10_000)),
        segment_bytes=deletions.choice((200, 1 << 20)),
        weights=weights,
    )
