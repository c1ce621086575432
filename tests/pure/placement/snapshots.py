"""Short ways to write a cluster down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zkgroup.model import TopicPartition
from zkgroup.placement import Broker, ClusterSnapshot, Plan, RackMode

Lists = list[tuple[int, ...]]


def tp(number: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, number)


def snapshot(
    lists: Lists,
    brokers: Iterable[int] | Mapping[int, str | None],
    sizes: list[int] | None = None,
    in_sync: list[set[int]] | None = None,
    rack_mode: RackMode = "enforced",
) -> ClusterSnapshot:
    """One topic `t`: the replica lists by partition number; brokers with their racks where they have any."""
    racks = brokers if isinstance(brokers, Mapping) else dict.fromkeys(brokers)
    return ClusterSnapshot(
        replicas={tp(number): replicas for number, replicas in enumerate(lists)},
        brokers=tuple(Broker(one, rack) for one, rack in racks.items()),
        sizes=None if sizes is None else {tp(number): size for number, size in enumerate(sizes)},
        in_sync=None if in_sync is None else {tp(number): isr for number, isr in enumerate(in_sync)},
        rack_mode=rack_mode,
    )


def lists_after(before: ClusterSnapshot, plan: Plan) -> Lists:
    """Every replica list when the plan is done."""
    return list({**before.replicas, **plan.target}.values())


def replicas(plan: Plan) -> dict[int, int]:
    """Broker to its replicas afterwards."""
    return {broker: load.replicas for broker, load in plan.after.loads.items()}


def leaders(plan: Plan) -> dict[int, int]:
    """Broker to its preferred leaderships afterwards."""
    return {broker: load.leaders for broker, load in plan.after.loads.items()}
