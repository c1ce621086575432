"""Balancing by count: cycles that save moves, shifts that block each other, and where it ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests.pure.placement.snapshots import Lists, leaders, replicas, snapshot, tp
from zkgroup.model import TopicPartition
from zkgroup.placement import balance, balancing
from zkgroup.placement.balancing import even_out_counts, save_moves
from zkgroup.placement.model import LeaderPlacement

NEEDS_A_CYCLE: Lists = [(1, 4), (4,), (1, 0)]
RACKS = {0: "r1", 1: "r1", 2: "r1", 3: "r0", 4: "r1"}


def test_a_cycle_saves_a_move() -> None:
    """Rack r0 needs two replicas and the loads come out even with 2 moves; chains alone take 3."""
    plan = balance(snapshot(NEEDS_A_CYCLE, RACKS))

    assert (plan.moves, plan.least_moves) == (2, 2)
    assert plan.after.racks_missing == 0
    assert sum(load**2 for load in replicas(plan).values()) == 7


def test_a_cycle_saves_a_change_of_leader() -> None:
    """Four leaders of broker 0 spread over three with 2 changes."""
    plan = balance(snapshot([(0, 2), (0,), (0, 2), (0,)], [0, 1, 2]))

    assert (plan.moves, plan.leader_changes) == (2, 2)
    assert sorted(leaders(plan).values()) == [1, 1, 2]


def test_a_search_that_is_given_up_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan is as even, with a move more, and says that it may not have the fewest."""
    monkeypatch.setattr(balancing, "EFFORT", 0)

    plan = balance(snapshot(NEEDS_A_CYCLE, RACKS))

    assert plan.moves == 3
    assert plan.least_moves < 3
    assert sum(load**2 for load in replicas(plan).values()) == 7


def test_a_chain_of_shifts_reaches_what_one_shift_does_not() -> None:
    """Broker 1 holds nothing that broker 3 could lead; broker 2 passes a leadership on."""
    homes = {tp(0): 1, tp(1): 1, tp(2): 2}
    held = {tp(0): (1, 2), tp(1): (1,), tp(2): (2, 3)}
    placement = LeaderPlacement(homes, homes, held, {1: 0, 2: 0, 3: 0})

    even_out_counts(placement)

    assert placement.loads == {1: 1, 2: 1, 3: 1}
    assert placement.leaders == {tp(0): 2, tp(1): 1, tp(2): 3}


class Contrary:
    """A placement on which a shift of `t-1` blocks the shift of `t-0`."""

    def __init__(self) -> None:
        self.loads = {1: 4, 2: 3, 3: 2}
        self.homes: Mapping[TopicPartition, int] = {tp(0): 1, tp(1): 2}
        self.shifts: list[tuple[TopicPartition, int, int]] = []

    def pieces(self, source: int) -> Iterator[TopicPartition]:
        return (one for one, home in self.homes.items() if home == source)

    def is_stray(self, tp: TopicPartition, source: int) -> bool:
        return False

    def missing_homes(self, tp: TopicPartition) -> list[int]:
        return []

    def may_shift(self, tp: TopicPartition, source: int, target: int) -> bool:
        return (source, target) == (2, 3)

    def find(self, source: int, target: int) -> TopicPartition | None:
        return {(1, 2): tp(0), (2, 3): tp(1)}.get((source, target))

    def weight(self, tp: TopicPartition) -> int:
        return 1

    def price(self, tp: TopicPartition, source: int, target: int) -> int:
        return 1

    def shift(self, tp: TopicPartition, source: int, target: int) -> None:
        self.shifts.append((tp, source, target))


def test_a_chain_that_stands_in_its_own_way_is_taken_back() -> None:
    """The first shift is undone when the second turns out impossible, and the search ends."""
    placement = Contrary()

    even_out_counts(placement)

    assert placement.shifts == [(tp(1), 2, 3), (tp(1), 3, 2)]


def test_a_cycle_that_stands_in_its_own_way_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the bound that was known before is returned."""
    placement = Contrary()
    cycle = [balancing._BrokerEdge(2, 3, -1, tp(1)), balancing._BrokerEdge(3, 2, 0, tp(0))]
    monkeypatch.setattr(balancing, "_saving_cycle", lambda placement: cycle)

    assert save_moves(placement, moves=5, least=2) == 2
    assert placement.shifts == [(tp(1), 2, 3), (tp(1), 3, 2)]
