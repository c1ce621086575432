"""The setup of one schedule of coordinated groups: drawn from its seed, printed with a failure."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Final

from tests.simulation.cluster.setup import AWAITED, ClusterSetup
from tests.simulation.coordinator.client import ClientOptions
from zkgroup.coordinator.settings import CoordinatorSettings
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC

TOPIC: Final = "t0"
PARTITIONS: Final = 3
OTHER_TOPIC: Final = "other"
"""A topic that no member subscribes to."""

CLUSTER_FAULTS: Final = (
    "lost_reply",
    "lost_request",
    "late",
    "cut_client",
    "expire",
    "isolate",
    "stall",
    "depose",
    "pause",
    "kill_controller",
    "kill_broker",
    "bounce",
    "cut_connection",
    "part",
    "delete_controller",
)
OPERATIONS: Final = ("reassign", "prefer", "resign", "shut_down")
GROUP_FAULTS: Final = (
    "cut_group_client",
    "pause_group_client",
    "kill_group_client",
    "leave_group",
    "pause_zookeeper_member",
    "kill_zookeeper_member",
    "stop_zookeeper_member",
    "start_member",
    "commit_outside",
    "fetch_outside",
    "fence_slot",
    "move_slot",
    "depose_coordinator",
    "lose_commit",
    "duplicate_static",
)
FREEZES: Final = ("freeze_group", "unfreeze_group")
"""Drawn last, so that other draws of a seed stay as they were."""
ADMINISTRATION: Final = (
    "delete_group",
    "delete_offsets",
    "remove_static",
    "change_offsets",
    "delete_topic",
    "create_topic",
)
"""What administrators and operators do."""
RARE: Final = ("depose_coordinator", "lose_commit")
OFTENER: Final = 12
"""Faults that need a rare moment are tried so many times as often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSetup(ClusterSetup):
    """A cluster with groups."""

    groups: tuple[str, ...] = ("g0",)
    clients: int = 2
    """Clients of the coordinator in each group."""
    static: int = 0
    """How many of them have a `group.instance.id`."""
    zookeeper_members: int = 1
    """ZooKeeper consumers in each group."""
    options: ClientOptions = field(default_factory=ClientOptions)
    ends_with_clients: bool = True
    """Which kind of members each group has at the end."""


def draw_coordinator(seed: int, steps: int) -> CoordinatorSetup:
    """The setup of a seed. Every fault is drawn independently, so that each pair occurs in some schedule."""
    rng = random.Random(f"coordinator {seed}")
    brokers = tuple(range(1, rng.choice((2, 2, 3)) + 1))
    slots = rng.choice((1, 1, 2))
    weights = {fault: rng.choice((0.0, 0.0, 5.0, 12.0)) for fault in CLUSTER_FAULTS}
    weights |= {operation: rng.choice((0.0, 0.0, 10.0)) for operation in OPERATIONS}
    weights |= {fault: rng.choice((0.0, 8.0, 20.0)) for fault in GROUP_FAULTS}
    weights |= {name: rng.choice((0.0, 5.0, 15.0)) for name in ADMINISTRATION}
    weights |= {name: weights[name] * OFTENER for name in RARE}
    weights |= {name: weights[name] * 5 for name in ADMINISTRATION if name != "remove_static"}
    weights["delete_topic"] = rng.choice((0.0, 0.0, 20.0))
    weights |= dict.fromkeys(("create_topic", "fetch_outside"), weights["delete_topic"] * OFTENER)
    weights["part"] = rng.choice((0.0, 10.0, 25.0))
    weights |= {name: weights[name] * times for name, times in AWAITED.items() if name in weights}
    clients = rng.choice((2, 2, 3))
    setup = CoordinatorSetup(
        kind="zkgroup",
        brokers=brokers,
        electors=brokers[:2],
        topics={
            TOPIC: ((1,),) * PARTITIONS,
            OTHER_TOPIC: ((1,),),
            OFFSETS_TOPIC: tuple(
                tuple(rng.sample(brokers, rng.randint(2, len(brokers)))) for _ in range(slots)
            ),
        },
        slots=slots,
        coordinator=CoordinatorSettings(
            group_min_session_timeout_ms=100, group_initial_rebalance_delay_ms=rng.choice((0, 300))
        ),
        steps=steps,
        bursts=rng.choice((0.2, 0.4)),
        stale=rng.random() < 0.5,
        weights=weights,
        groups=("g0", "g1")[: rng.choice((1, 1, 2))],
        clients=clients,
        static=rng.choice((0, 0, 1, clients)),
        zookeeper_members=rng.choice((0, 1, 1, 2)),
        options=ClientOptions(
            session_timeout_ms=rng.choice((1_500, 2_500)),
            gets_id_first=rng.random() < 0.7,
            requires_stable=rng.random() < 0.5,
            is_cooperative=rng.random() < 0.4,
        ),
        ends_with_clients=rng.random() < 0.7,
    )
    freezes = {"freeze_group": rng.choice((0.0, 0.0, 200.0)), "unfreeze_group": rng.choice((0.0, 30.0))}
    return replace(setup, weights={**weights, **freezes})
