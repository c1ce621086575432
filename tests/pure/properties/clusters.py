"""Random clusters and the plans made for them, for the properties of placements."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace as changed

from hypothesis import assume
from hypothesis import strategies as st

from zkgroup.errors import PlacementError, PlanRefusedError
from zkgroup.model import TopicPartition
from zkgroup.placement import (
    Broker,
    ClusterSnapshot,
    Plan,
    PlanViolation,
    balance,
    decommission,
    replace,
    set_rf,
)

EVERYTHING: tuple[PlanViolation, ...] = ("factor", "racks", "balance", "source")
GONE = 9
"""A broker that is in replica lists and not registered."""


@st.composite
def clusters(draw: st.DrawFn, most: int = 6) -> tuple[Broker, ...]:
    """Brokers 0, 1, ..., in no racks, in a few or in one each."""
    racks = draw(st.sampled_from([0, 0, 1, 2, 3, most]))
    names = [f"r{n}" for n in range(racks)]
    return tuple(
        Broker(one, draw(st.sampled_from(names)) if names else None)
        for one in range(draw(st.integers(1, most)))
    )


@st.composite
def cluster_snapshots(
    draw: st.DrawFn, most: int = 6, partitions: int = 8, gone: bool = True
) -> ClusterSnapshot:
    """Clusters with up to 3 replicas a partition, on few brokers or on many; with sizes or without."""
    brokers = draw(clusters(most))
    ids = [broker.id for broker in brokers] + [GONE] * gone
    favourites = draw(st.lists(st.sampled_from(ids), min_size=1, unique=True))
    lists = st.lists(st.sampled_from([*favourites, *ids]), min_size=1, max_size=3, unique=True)
    numbers = range(draw(st.integers(0, partitions)))
    replicas = {TopicPartition(draw(st.sampled_from("ab")), number): tuple(draw(lists)) for number in numbers}
    sizes = draw(st.none() | st.just({}))
    if sizes is not None:
        sizes = {tp: draw(st.integers(0, 50)) for tp in replicas}
    return ClusterSnapshot(replicas=replicas, brokers=brokers, sizes=sizes)


def listed(lists: list[tuple[int, ...]], racks: list[str | None]) -> ClusterSnapshot:
    """A cluster of one topic and its brokers, for examples."""
    return ClusterSnapshot(
        replicas={TopicPartition("t", number): one for number, one in enumerate(lists)},
        brokers=tuple(Broker(number, rack) for number, rack in enumerate(racks)),
    )


def after(snapshot: ClusterSnapshot, plan: Plan) -> ClusterSnapshot:
    return changed(snapshot, replicas={**snapshot.replicas, **plan.target})


def racks_of(snapshot: ClusterSnapshot, replicas: Collection[int]) -> int:
    """The number of racks of a replica list; 0 where brokers have no racks."""
    return len({broker.rack for broker in snapshot.brokers if broker.rack and broker.id in replicas})


def decommission_first(snapshot: ClusterSnapshot, allow: Collection[PlanViolation]) -> Plan:
    return decommission(snapshot, [0], allow=allow)


def replace_first(snapshot: ClusterSnapshot, allow: Collection[PlanViolation]) -> Plan:
    return replace(snapshot, {0: max(broker.id for broker in snapshot.brokers)}, allow=allow)


def set_rf_2(snapshot: ClusterSnapshot, allow: Collection[PlanViolation]) -> Plan:
    return set_rf(snapshot, 2, allow=allow)


def even_out(snapshot: ClusterSnapshot, allow: Collection[PlanViolation]) -> Plan:
    return balance(snapshot, allow=allow)


PLANNERS = (decommission_first, replace_first, set_rf_2, even_out)
Planner = Callable[[ClusterSnapshot, Collection[PlanViolation]], Plan]


def planned(
    planner: Planner, snapshot: ClusterSnapshot, allow: Collection[PlanViolation] = EVERYTHING
) -> Plan:
    """The plan; skips examples for which no plan exists."""
    try:
        return planner(snapshot, allow)
    except (PlacementError, PlanRefusedError):
        assume(False)
        raise
