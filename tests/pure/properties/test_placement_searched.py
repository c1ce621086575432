"""Compares plans over random clusters with every possible placement."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace as changed

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.pure.properties.clusters import (
    EVERYTHING,
    after,
    cluster_snapshots,
    decommission_first,
    listed,
    planned,
    racks_of,
)
from zkgroup.model import TopicPartition
from zkgroup.placement import ClusterSnapshot, balance, set_rf

Loads = tuple[int, ...]


def squares(loads: Iterable[int]) -> int:
    """The unevenness: the sum of the squares of the loads."""
    return sum(load**2 for load in loads)


def best(
    choices: Iterable[Iterable[tuple[Collection[int], int]]], brokers: Collection[int]
) -> tuple[int, int]:
    """The least unevenness of any combination of choices, and the least price of those that have it.

    Args:
        choices: for each partition its possible placements: the brokers that it loads, and its price.
    """
    order = sorted(brokers)
    cheapest: dict[Loads, int] = {(0,) * len(order): 0}
    for options in choices:
        found: dict[Loads, int] = {}
        for (loads, price), (held, more) in itertools.product(cheapest.items(), list(options)):
            key = tuple(load + (broker in held) for load, broker in zip(loads, order, strict=True))
            found[key] = min(found.get(key, price + more), price + more)
        cheapest = found
    return min((squares(loads), price) for loads, price in cheapest.items())


def most_racks(snapshot: ClusterSnapshot, options: Iterable[Collection[int]]) -> Iterator[Collection[int]]:
    """The placements that spread over the greatest number of racks."""
    options = list(options)
    racks = max(racks_of(snapshot, one) for one in options)
    return (one for one in options if racks_of(snapshot, one) == racks)


@settings(max_examples=60)
@given(cluster_snapshots(most=5, partitions=7, gone=False))
@example(
    listed([(1, 4), (4,), (1, 0)], ["r1", "r1", "r1", "r0", "r1"])
)  # the first even placement has 3 moves
@example(listed([(0, 2), (0,), (0, 2), (0,)], [None, None, None]))  # the first even leaders are 3 changes
def test_balance_by_count_equals_an_exhaustive_search(snapshot: ClusterSnapshot) -> None:
    """No legal placement is more even, and no equally even one moves less; so for leaders, by order alone."""
    snapshot = changed(snapshot, sizes=None)
    plan = balance(snapshot, allow=EVERYTHING)
    ids = [broker.id for broker in snapshot.brokers]
    result = after(snapshot, plan).replicas

    placements = best(
        (
            [
                (held, len(set(held) - set(before)))
                for held in most_racks(snapshot, itertools.combinations(ids, len(before)))
            ]
            for before in snapshot.replicas.values()
        ),
        ids,
    )
    assert (squares(load.replicas for load in plan.after.loads.values()), plan.moves) == placements
    assert plan.least_moves == plan.moves

    leaders = best(
        (
            [((one,), before[0] in result[tp] and one != before[0]) for one in result[tp]]
            for tp, before in snapshot.replicas.items()
        ),
        ids,
    )
    kept = [tp for tp, before in snapshot.replicas.items() if before[0] in result[tp]]
    assert (
        squares(load.leaders for load in plan.after.loads.values()),
        sum(result[tp][0] != snapshot.replicas[tp][0] for tp in kept),
    ) == leaders


@given(cluster_snapshots(most=5, partitions=7, gone=False))
def test_decommission_by_count_is_as_even_as_any(snapshot: ClusterSnapshot) -> None:
    """With the moves that it must make, no placement of the remaining replicas is more even."""
    snapshot = changed(snapshot, sizes=None)
    plan = planned(decommission_first, snapshot)
    ids = [broker.id for broker in snapshot.brokers if broker.id != 0]

    assert plan.moves == sum(0 in lists for lists in snapshot.replicas.values())
    assert {tp for tp, lists in snapshot.replicas.items() if 0 in lists} == set(plan.target)
    placements = best(
        (
            [
                (held, 0)
                for held in most_racks(
                    snapshot,
                    [
                        (*kept, *more)
                        for more in itertools.combinations(set(ids) - kept, len(lists) - len(kept))
                    ],
                )
            ]
            for lists in snapshot.replicas.values()
            for kept in [set(lists) - {0}]
        ),
        ids,
    )
    assert squares(plan.after.loads[one].replicas for one in ids) == placements[0]


@given(cluster_snapshots(most=5, partitions=6, gone=False), st.integers(1, 3))
def test_more_replicas_are_as_even_as_any(snapshot: ClusterSnapshot, now: int) -> None:
    """One more replica for every partition: each in as many racks as possible, and no choice is more even."""
    ids = [broker.id for broker in snapshot.brokers]
    assume(now < len(ids))
    filled = {
        tp: (*lists, *(one for one in ids if one not in lists)) for tp, lists in snapshot.replicas.items()
    }
    snapshot = changed(snapshot, sizes=None, replicas={tp: lists[:now] for tp, lists in filled.items()})
    plan = set_rf(snapshot, now + 1)

    assert plan.moves == len(snapshot.replicas)
    assert all(change.after[:-1] == change.before for change in plan.changes)
    placements = best(
        (
            [(held, 0) for held in most_racks(snapshot, [(*lists, one) for one in ids if one not in lists])]
            for lists in snapshot.replicas.values()
        ),
        ids,
    )
    assert squares(load.replicas for load in plan.after.loads.values()) == placements[0]


@given(cluster_snapshots(gone=False), st.sampled_from([0.0, 0.1, 0.5]))
def test_balance_by_size_ends_where_no_single_move_helps(snapshot: ClusterSnapshot, tolerance: float) -> None:
    """A broker is outside the tolerance only if no legal move to or from it makes the loads more even."""
    sizes = snapshot.sizes or {tp: 1 + tp.partition for tp in snapshot.replicas}
    snapshot = changed(snapshot, sizes=sizes)
    plan = balance(snapshot, tolerance=tolerance, allow=EVERYTHING)
    result = after(snapshot, plan).replicas
    loads = {broker: load.bytes or 0 for broker, load in plan.after.loads.items()}
    if plan.before.racks_missing == 0:
        assert squares(loads.values()) <= squares(load.bytes or 0 for load in plan.before.loads.values())

    mean = sum(loads.values()) / len(loads)
    outside = {broker for broker, load in loads.items() if abs(load - mean) > mean * tolerance}
    for source, target in itertools.permutations(loads, 2):
        if outside & {source, target}:
            for tp in helpful(snapshot, result, loads, source, target):
                raise AssertionError(f"{tp} could go from {source} to {target}")


def helpful(
    snapshot: ClusterSnapshot,
    lists: Mapping[TopicPartition, Collection[int]],
    loads: Mapping[int, int],
    source: int,
    target: int,
) -> Iterator[TopicPartition]:
    """Partitions whose move makes two brokers' loads more equal, away from the one further from the mean."""
    assert snapshot.sizes is not None
    mean = sum(loads.values()) / len(loads)
    limit = max(abs(loads[source] - mean), abs(loads[target] - mean))
    extreme = source if abs(loads[source] - mean) == limit else target
    if (loads[extreme] > mean) != (extreme == source):
        return
    for tp, held in lists.items():
        if source in held and target not in held:
            moved = (set(held) - {source}) | {target}
            if 0 < snapshot.sizes[tp] < loads[source] - loads[target] and racks_of(
                snapshot, moved
            ) >= racks_of(snapshot, held):
                yield tp
