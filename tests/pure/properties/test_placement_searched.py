"""Plans over random clusters against every placement that there is."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace as changed

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.pure.properties.clusters import (
    EVERYTHING,
    after,
    decommission_first,
    listed,
    pictures,
    planned,
    racks_of,
)
from zkgroup.model import TopicPartition
from zkgroup.placement import ClusterSnapshot, balance, set_rf

Loads = tuple[int, ...]


def squares(loads: Iterable[int]) -> int:
    """Unevenness: the sum of the squares."""
    return sum(load**2 for load in loads)


def best(
    choices: Iterable[Iterable[tuple[Collection[int], int]]], brokers: Collection[int]
) -> tuple[int, int]:
    """The least unevenness that any combination of choices has, and the least price among those.

    Args:
        choices: for each partition what it may be: brokers that it loads, and a price.
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


def most_racks(picture: ClusterSnapshot, options: Iterable[Collection[int]]) -> Iterator[Collection[int]]:
    """Those that are in as many racks as any of them."""
    options = list(options)
    racks = max(racks_of(picture, one) for one in options)
    return (one for one in options if racks_of(picture, one) == racks)


@settings(max_examples=200)
@given(pictures(most=5, partitions=7, gone=False))
@example(
    listed([(1, 4), (4,), (1, 0)], ["r1", "r1", "r1", "r0", "r1"])
)  # the first even placement has 3 moves
@example(listed([(0, 2), (0,), (0, 2), (0,)], [None, None, None]))  # the first even leaders are 3 changes
def test_balance_by_count_equals_an_exhaustive_search(picture: ClusterSnapshot) -> None:
    """No legal placement is more even, and none as even moves less; nor could leaders be, by order alone."""
    picture = changed(picture, sizes=None)
    plan = balance(picture, allow=EVERYTHING)
    ids = [broker.id for broker in picture.brokers]
    result = after(picture, plan).replicas

    placements = best(
        (
            [
                (held, len(set(held) - set(before)))
                for held in most_racks(picture, itertools.combinations(ids, len(before)))
            ]
            for before in picture.replicas.values()
        ),
        ids,
    )
    assert (squares(load.replicas for load in plan.after.loads.values()), plan.moves) == placements
    assert plan.least_moves == plan.moves

    leaders = best(
        (
            [((one,), before[0] in result[tp] and one != before[0]) for one in result[tp]]
            for tp, before in picture.replicas.items()
        ),
        ids,
    )
    kept = [tp for tp, before in picture.replicas.items() if before[0] in result[tp]]
    assert (
        squares(load.leaders for load in plan.after.loads.values()),
        sum(result[tp][0] != picture.replicas[tp][0] for tp in kept),
    ) == leaders


@given(pictures(most=5, partitions=7, gone=False))
def test_decommission_by_count_is_as_even_as_any(picture: ClusterSnapshot) -> None:
    """With the moves that it must make, no placement of what left is more even."""
    picture = changed(picture, sizes=None)
    plan = planned(decommission_first, picture)
    ids = [broker.id for broker in picture.brokers if broker.id != 0]

    assert plan.moves == sum(0 in lists for lists in picture.replicas.values())
    assert {tp for tp, lists in picture.replicas.items() if 0 in lists} == set(plan.target)
    placements = best(
        (
            [
                (held, 0)
                for held in most_racks(
                    picture,
                    [
                        (*kept, *more)
                        for more in itertools.combinations(set(ids) - kept, len(lists) - len(kept))
                    ],
                )
            ]
            for lists in picture.replicas.values()
            for kept in [set(lists) - {0}]
        ),
        ids,
    )
    assert squares(plan.after.loads[one].replicas for one in ids) == placements[0]


@given(pictures(most=5, partitions=6, gone=False), st.integers(1, 3))
def test_more_replicas_are_as_even_as_any(picture: ClusterSnapshot, now: int) -> None:
    """One replica more for every partition: each in as many racks as can be, and then no way is more even."""
    ids = [broker.id for broker in picture.brokers]
    assume(now < len(ids))
    filled = {
        tp: (*lists, *(one for one in ids if one not in lists)) for tp, lists in picture.replicas.items()
    }
    picture = changed(picture, sizes=None, replicas={tp: lists[:now] for tp, lists in filled.items()})
    plan = set_rf(picture, now + 1)

    assert plan.moves == len(picture.replicas)
    assert all(change.after[:-1] == change.before for change in plan.changes)
    placements = best(
        (
            [(held, 0) for held in most_racks(picture, [(*lists, one) for one in ids if one not in lists])]
            for lists in picture.replicas.values()
        ),
        ids,
    )
    assert squares(load.replicas for load in plan.after.loads.values()) == placements[0]


@given(pictures(gone=False), st.sampled_from([0.0, 0.1, 0.5]))
def test_balance_by_size_ends_where_no_single_move_helps(picture: ClusterSnapshot, tolerance: float) -> None:
    """A broker is outside the tolerance only if no legal move to or from it makes loads more even."""
    sizes = picture.sizes or {tp: 1 + tp.partition for tp in picture.replicas}
    picture = changed(picture, sizes=sizes)
    plan = balance(picture, tolerance=tolerance, allow=EVERYTHING)
    result = after(picture, plan).replicas
    loads = {broker: load.bytes or 0 for broker, load in plan.after.loads.items()}
    if plan.before.racks_missing == 0:
        assert squares(loads.values()) <= squares(load.bytes or 0 for load in plan.before.loads.values())

    mean = sum(loads.values()) / len(loads)
    outside = {broker for broker, load in loads.items() if abs(load - mean) > mean * tolerance}
    for source, target in itertools.permutations(loads, 2):
        if outside & {source, target}:
            for tp in helpful(picture, result, loads, source, target):
                raise AssertionError(f"{tp} could go from {source} to {target}")


def helpful(
    picture: ClusterSnapshot,
    lists: Mapping[TopicPartition, Collection[int]],
    loads: Mapping[int, int],
    source: int,
    target: int,
) -> Iterator[TopicPartition]:
    """Partitions that would bring two brokers closer together, from the one further from the mean's side."""
    assert picture.sizes is not None
    mean = sum(loads.values()) / len(loads)
    limit = max(abs(loads[source] - mean), abs(loads[target] - mean))
    extreme = source if abs(loads[source] - mean) == limit else target
    if (loads[extreme] > mean) != (extreme == source):
        return
    for tp, held in lists.items():
        if source in held and target not in held:
            moved = (set(held) - {source}) | {target}
            if 0 < picture.sizes[tp] < loads[source] - loads[target] and racks_of(picture, moved) >= racks_of(
                picture, held
            ):
                yield tp
