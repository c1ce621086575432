"""Properties of placements over random clusters, and plans against an exhaustive search."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace as changed

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from zkgroup.errors import PlacementError, PlanRefusedError
from zkgroup.model import TopicPartition
from zkgroup.placement import (
    Broker,
    Loss,
    Picture,
    Plan,
    Start,
    balance,
    decommission,
    generate,
    grow,
    phases,
    replace,
    set_rf,
    spread,
)

EVERYTHING: tuple[Loss, ...] = ("factor", "racks", "balance", "source")
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
def pictures(draw: st.DrawFn, most: int = 6, partitions: int = 8, gone: bool = True) -> Picture:
    """Up to 3 replicas a partition, on few brokers or on many; sizes or none."""
    brokers = draw(clusters(most))
    ids = [broker.id for broker in brokers] + [GONE] * gone
    favourites = draw(st.lists(st.sampled_from(ids), min_size=1, unique=True))
    lists = st.lists(st.sampled_from([*favourites, *ids]), min_size=1, max_size=3, unique=True)
    numbers = range(draw(st.integers(0, partitions)))
    replicas = {TopicPartition(draw(st.sampled_from("ab")), number): tuple(draw(lists)) for number in numbers}
    sizes = draw(st.none() | st.just({}))
    if sizes is not None:
        sizes = {tp: draw(st.integers(0, 50)) for tp in replicas}
    return Picture(replicas=replicas, brokers=brokers, sizes=sizes)


def listed(lists: list[tuple[int, ...]], racks: list[str | None]) -> Picture:
    """One topic and its brokers, written down."""
    return Picture(
        replicas={TopicPartition("t", number): one for number, one in enumerate(lists)},
        brokers=tuple(Broker(number, rack) for number, rack in enumerate(racks)),
    )


def after(picture: Picture, plan: Plan) -> Picture:
    return changed(picture, replicas={**picture.replicas, **plan.target})


def racks_of(picture: Picture, replicas: Collection[int]) -> int:
    """How many racks a list is in; 0 where there are none."""
    return len({broker.rack for broker in picture.brokers if broker.rack and broker.id in replicas})


# --- Kafka's spread -------------------------------------------------------------------------------


@given(clusters(8), st.integers(1, 30), st.integers(1, 8), st.integers(0, 7), st.integers(0, 7))
def test_every_spread_is_legal(
    brokers: tuple[Broker, ...], partitions: int, factor: int, index: int, shift: int
) -> None:
    """Full lists of different brokers, as many racks as there can be, leaders within 1 of even."""
    assume(factor <= len(brokers))
    found = spread(brokers, partitions, factor, start=Start(index, shift)).replicas

    assert list(found) == list(range(partitions))
    racks = {broker.id: broker.rack for broker in brokers}
    for lists in found.values():
        assert len(set(lists)) == len(lists) == factor
        assert len({racks[broker] for broker in lists}) >= min(factor, len(set(racks.values())))
    led = Counter(lists[0] for lists in found.values())
    loads = [led[broker.id] for broker in brokers]
    assert max(loads) - min(loads) <= 1


@given(
    clusters(8), st.integers(1, 10), st.integers(1, 10), st.integers(1, 4), st.sampled_from(["0.8", "0.10"])
)
def test_every_growth_follows_on(
    brokers: tuple[Broker, ...], old: int, more: int, factor: int, compat: str
) -> None:
    """Only new partitions, with the factor of the old; leaders of later Kafkas go on in turn."""
    assume(factor <= len(brokers))
    existing = spread(brokers, old, factor).replicas

    added = grow(existing, brokers, old + more, compat=compat).replicas  # type: ignore[arg-type]

    assert list(added) == list(range(old, old + more))
    assert all(len(set(lists)) == factor for lists in added.values())
    if compat == "0.10" and brokers[0].rack is None:
        both = [lists[0] for lists in {**existing, **added}.values()]
        assert both == [brokers[number % len(brokers)].id for number in range(old + more)]


@given(clusters(6), st.dictionaries(st.sampled_from("abc"), st.integers(1, 9), min_size=1), st.integers(1, 3))
def test_generate_covers_every_partition(
    brokers: tuple[Broker, ...], topics: dict[str, int], factor: int
) -> None:
    """With its factor; without racks leaders are even over all topics together."""
    assume(factor <= len(brokers))
    existing = {topic: dict.fromkeys(range(count), (GONE,) * factor) for topic, count in topics.items()}

    lists, _ = generate(existing, brokers)

    assert set(lists) == {TopicPartition(topic, n) for topic, count in topics.items() for n in range(count)}
    assert all(len(set(one)) == factor for one in lists.values())
    led = Counter(one[0] for one in lists.values())
    assert max(led.values()) - min(led[broker.id] for broker in brokers) <= 1


# --- what holds for every plan --------------------------------------------------------------------


def decommission_first(picture: Picture, allow: Collection[Loss]) -> Plan:
    return decommission(picture, [0], allow=allow)


def replace_first(picture: Picture, allow: Collection[Loss]) -> Plan:
    return replace(picture, {0: max(broker.id for broker in picture.brokers)}, allow=allow)


def set_rf_2(picture: Picture, allow: Collection[Loss]) -> Plan:
    return set_rf(picture, 2, allow=allow)


def even_out(picture: Picture, allow: Collection[Loss]) -> Plan:
    return balance(picture, allow=allow)


PLANNERS = (decommission_first, replace_first, set_rf_2, even_out)
Planner = Callable[[Picture, Collection[Loss]], Plan]


def planned(planner: Planner, picture: Picture, allow: Collection[Loss] = EVERYTHING) -> Plan:
    """The plan; examples for which there is none are passed over."""
    try:
        return planner(picture, allow)
    except (PlacementError, PlanRefusedError):
        assume(False)
        raise


@pytest.mark.parametrize("planner", PLANNERS)
@given(pictures())
def test_every_plan_is_legal_and_explained(planner: Planner, picture: Picture) -> None:
    """Different brokers, the factor kept, newcomers registered, a reason for each change, the price right."""
    plan = planned(planner, picture)

    registered = {broker.id for broker in picture.brokers}
    for change in plan.changes:
        assert change.before == picture.replicas[change.topic_partition] != change.after
        assert len(set(change.after)) == len(change.after)
        assert len(change.after) == (2 if planner is set_rf_2 else len(change.before))
        assert set(change.after) <= registered | set(change.before)
        assert change.reason
    assert plan.moves == sum(len(set(one.after) - set(one.before)) for one in plan.changes)
    assert plan.least_moves <= plan.moves
    held = Counter(itertools.chain.from_iterable(after(picture, plan).replicas.values()))
    assert {broker: load.replicas for broker, load in plan.after.loads.items()} == {
        broker: held[broker] for broker in registered
    }


@pytest.mark.parametrize("planner", PLANNERS)
@given(pictures())
def test_planning_the_result_again_changes_nothing(planner: Planner, picture: Picture) -> None:
    """A plan leaves nothing to do for the same intent; the broker that left has nothing to give."""
    plan = planned(planner, picture)

    result = after(picture, plan)
    if planner in (decommission_first, replace_first) and len(picture.brokers) > 1:
        assert not any(0 in lists for lists in result.replicas.values())
    assert planner(result, EVERYTHING).changes == ()


@pytest.mark.parametrize("planner", PLANNERS)
@given(pictures())
def test_no_plan_costs_a_rack_unless_allowed(planner: Planner, picture: Picture) -> None:
    """Where a partition would be in fewer racks than its factor needs and it was in, the plan is refused."""
    plan = planned(planner, picture, ("factor", "balance", "source"))

    for change in plan.changes:
        assert racks_of(picture, change.after) >= min(racks_of(picture, change.before), len(change.after))


@pytest.mark.parametrize("planner", PLANNERS)
@given(pictures(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_changes_nothing(planner: Planner, picture: Picture, chance: object) -> None:
    """Partitions and brokers may come in any order."""
    plan = planned(planner, picture)
    items, brokers = list(picture.replicas.items()), list(picture.brokers)
    chance.shuffle(items)  # type: ignore[attr-defined]
    chance.shuffle(brokers)  # type: ignore[attr-defined]
    shuffled = changed(picture, replicas=dict(items), brokers=tuple(brokers))

    assert planner(shuffled, EVERYTHING) == plan


@given(pictures(), st.integers(1, 4), st.none() | st.integers(1, 3), st.integers(1, 4))
def test_phases_lead_to_the_target_step_by_step(
    picture: Picture, max_moves: int, per_broker: int | None, partitions: int
) -> None:
    """Each begins where the last one ended, keeps to the limits, and has no shorter list than needed."""
    plan = planned(decommission_first, picture)
    now = dict(picture.replicas)

    for phase in phases(
        plan, picture, max_moves=max_moves, max_moves_per_broker=per_broker, max_partitions=partitions
    ):
        received = Counter[int]()
        for change in phase.changes:
            assert now[change.topic_partition] == change.before
            assert len(change.after) >= len(picture.replicas[change.topic_partition])
            now[change.topic_partition] = change.after
            received.update(change.added)
        assert phase.moves == received.total() <= max_moves
        assert len(phase.changes) <= partitions
        assert per_broker is None or max(received.values(), default=0) <= per_broker

    assert now == after(picture, plan).replicas


# --- against every possible placement -------------------------------------------------------------

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


def most_racks(picture: Picture, options: Iterable[Collection[int]]) -> Iterator[Collection[int]]:
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
def test_balance_by_count_equals_an_exhaustive_search(picture: Picture) -> None:
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
def test_decommission_by_count_is_as_even_as_any(picture: Picture) -> None:
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
def test_more_replicas_are_as_even_as_any(picture: Picture, now: int) -> None:
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
def test_balance_by_size_ends_where_no_single_move_helps(picture: Picture, tolerance: float) -> None:
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
    picture: Picture,
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
