"""Properties of placements over random clusters: Kafka's spread, and the properties of every plan."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace as changed

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.pure.properties.clusters import (
    EVERYTHING,
    GONE,
    PLANNERS,
    Planner,
    after,
    cluster_snapshots,
    clusters,
    decommission_first,
    planned,
    racks_of,
    replace_first,
    set_rf_2,
)
from zkgroup.model import TopicPartition
from zkgroup.placement import Broker, ClusterSnapshot, Start, generate, grow, phases, spread


@given(clusters(8), st.integers(1, 30), st.integers(1, 8), st.integers(0, 7), st.integers(0, 7))
def test_every_spread_is_legal(
    brokers: tuple[Broker, ...], partitions: int, factor: int, index: int, shift: int
) -> None:
    """Every list has different brokers, in as many racks as possible; leaders are within 1 of even."""
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
    """Only partitions are added, with the old factor; in later Kafkas the leaders continue in turn."""
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
    """Every partition keeps its factor; without racks, leaders are even over all topics together."""
    assume(factor <= len(brokers))
    existing = {topic: dict.fromkeys(range(count), (GONE,) * factor) for topic, count in topics.items()}

    lists, _ = generate(existing, brokers)

    assert set(lists) == {TopicPartition(topic, n) for topic, count in topics.items() for n in range(count)}
    assert all(len(set(one)) == factor for one in lists.values())
    led = Counter(one[0] for one in lists.values())
    assert max(led.values()) - min(led[broker.id] for broker in brokers) <= 1


@pytest.mark.parametrize("planner", PLANNERS)
@given(cluster_snapshots())
def test_every_plan_is_legal_and_explained(planner: Planner, snapshot: ClusterSnapshot) -> None:
    """Different brokers, the same factor, registered newcomers, a reason for each change, the right price."""
    plan = planned(planner, snapshot)

    registered = {broker.id for broker in snapshot.brokers}
    for change in plan.changes:
        assert change.before == snapshot.replicas[change.topic_partition] != change.after
        assert len(set(change.after)) == len(change.after)
        assert len(change.after) == (2 if planner is set_rf_2 else len(change.before))
        assert set(change.after) <= registered | set(change.before)
        assert change.reason
    assert plan.moves == sum(len(set(one.after) - set(one.before)) for one in plan.changes)
    assert plan.least_moves <= plan.moves
    held = Counter(itertools.chain.from_iterable(after(snapshot, plan).replicas.values()))
    assert {broker: load.replicas for broker, load in plan.after.loads.items()} == {
        broker: held[broker] for broker in registered
    }


@pytest.mark.parametrize("planner", PLANNERS)
@given(cluster_snapshots())
def test_planning_the_result_again_changes_nothing(planner: Planner, snapshot: ClusterSnapshot) -> None:
    """A second plan for the same intent is empty; the broker that was emptied has nothing left to move."""
    plan = planned(planner, snapshot)

    result = after(snapshot, plan)
    if planner in (decommission_first, replace_first) and len(snapshot.brokers) > 1:
        assert not any(0 in lists for lists in result.replicas.values())
    assert planner(result, EVERYTHING).changes == ()


@pytest.mark.parametrize("planner", PLANNERS)
@given(cluster_snapshots())
def test_no_plan_costs_a_rack_unless_allowed(planner: Planner, snapshot: ClusterSnapshot) -> None:
    """A plan that puts a partition in fewer racks than before, and than its factor needs, is refused."""
    plan = planned(planner, snapshot, ("factor", "balance", "source"))

    for change in plan.changes:
        assert racks_of(snapshot, change.after) >= min(racks_of(snapshot, change.before), len(change.after))


@pytest.mark.parametrize("planner", PLANNERS)
@given(cluster_snapshots(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_changes_nothing(
    planner: Planner, snapshot: ClusterSnapshot, chance: object
) -> None:
    """The order of partitions and brokers does not change the plan."""
    plan = planned(planner, snapshot)
    items, brokers = list(snapshot.replicas.items()), list(snapshot.brokers)
    chance.shuffle(items)  # type: ignore[attr-defined]
    chance.shuffle(brokers)  # type: ignore[attr-defined]
    shuffled = changed(snapshot, replicas=dict(items), brokers=tuple(brokers))

    assert planner(shuffled, EVERYTHING) == plan


@given(cluster_snapshots(), st.integers(1, 4), st.none() | st.integers(1, 3), st.integers(1, 4))
def test_phases_lead_to_the_target_step_by_step(
    snapshot: ClusterSnapshot, max_moves: int, per_broker: int | None, partitions: int
) -> None:
    """Each phase begins where the last one ended, keeps the limits, and has no shorter list than needed."""
    plan = planned(decommission_first, snapshot)
    now = dict(snapshot.replicas)

    for phase in phases(
        plan, snapshot, max_moves=max_moves, max_moves_per_broker=per_broker, max_partitions=partitions
    ):
        received = Counter[int]()
        for change in phase.changes:
            assert now[change.topic_partition] == change.before
            assert len(change.after) >= len(snapshot.replicas[change.topic_partition])
            now[change.topic_partition] = change.after
            received.update(change.added)
        assert phase.moves == received.total() <= max_moves
        assert len(phase.changes) <= partitions
        assert per_broker is None or max(received.values(), default=0) <= per_broker

    assert now == after(snapshot, plan).replicas
