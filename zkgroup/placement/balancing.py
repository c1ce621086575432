"""Balances a cluster: by the number of replicas and leaders, or by their size in bytes. Pure."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from zkgroup.model import TopicPartition
from zkgroup.placement.model import PlacementModel

EFFORT = 3_000_000
"""Prices that `save_moves` may ask for, a second or two; what it then has is used, but not proven."""


def even_out_counts(placement: PlacementModel) -> None:
    """Shifts pieces from fuller to emptier brokers until no chain of shifts helps."""
    improved = True
    while improved:
        improved = False
        stuck: set[int] = set()
        while (source := _fullest(placement, stuck)) is not None:
            if _relieve(placement, source, stuck):
                improved = True


def save_moves(placement: PlacementModel, moves: int, least: int) -> int:
    """Brings pieces home where that leaves the balance as it is.

    Args:
        moves: pieces away from home now.
        least: a number of moves that cannot be undercut; the search ends when it is reached.

    Returns:
        The lower bound that was proven: the moves now, or `least` where the search was given up.
    """
    effort = 0
    while moves > least:
        effort += moves * len(placement.loads)
        if effort > EFFORT:
            return least
        cycle = _saving_cycle(placement)
        if cycle is None:
            return moves
        shifts = [(edge.partition, edge.source, edge.target) for edge in cycle if edge.partition is not None]
        if not _make(placement, shifts):
            return least
        moves += sum(edge.price for edge in cycle)
    return moves


def _fullest(placement: PlacementModel, stuck: set[int]) -> int | None:
    free = [broker for broker in placement.loads if broker not in stuck]
    return max(free, key=lambda broker: (placement.loads[broker], -broker), default=None)


def _relieve(placement: PlacementModel, source: int, stuck: set[int]) -> bool:
    """One chain from `source` to a broker with 2 less or fewer; without one, all that it reaches is stuck.

    The emptiest broker is taken that is reached by one shift, then the nearest.
    """
    limit = placement.loads[source] - 2
    emptiest_first = sorted(placement.loads, key=lambda broker: (placement.loads[broker], broker))
    for target in emptiest_first:
        if placement.loads[target] > limit:
            break
        if (tp := placement.find(source, target)) is not None:
            placement.shift(tp, source, target)
            return True
    reached: dict[int, tuple[int, TopicPartition]] = {}
    queue = deque([source])
    while queue:
        broker = queue.popleft()
        for target in emptiest_first:
            if target == source or target in reached or (tp := placement.find(broker, target)) is None:
                continue
            reached[target] = (broker, tp)
            if placement.loads[target] <= limit:
                if not (made := _make(placement, _chain(source, target, reached))):
                    stuck.add(source)
                return made
            queue.append(target)
    stuck.update((source, *reached))
    return False


_Shift = tuple[TopicPartition, int, int]
"""A partition, the broker that its piece leaves, and the one that it goes to."""


def _chain(source: int, target: int, reached: Mapping[int, tuple[int, TopicPartition]]) -> Iterator[_Shift]:
    """The shifts by which `target` was reached, the last one first."""
    while target != source:
        broker, tp = reached[target]
        yield tp, broker, target
        target = broker


def _make(placement: PlacementModel, shifts: Iterable[_Shift]) -> bool:
    """Makes all of these shifts or, where one partition named twice stands in its own way, none."""
    made: list[_Shift] = []
    for tp, source, target in shifts:
        if not placement.may_shift(tp, source, target):
            for done, came_from, went_to in reversed(made):
                placement.shift(done, went_to, came_from)
            return False
        placement.shift(tp, source, target)
        made.append((tp, source, target))
    return True


class _BrokerEdge(NamedTuple):
    """A shift from one broker to another, or, without a partition, an exchange of their loads."""

    source: int
    target: int
    price: int
    partition: TopicPartition | None


def _edges(placement: PlacementModel) -> list[_BrokerEdge]:
    """The cheapest shift between every two brokers, and the exchanges of loads.

    Only strays save a move when they go home, so only they are tried one by one.
    A chain that ends at a broker of load n may go on at one of load n + 1, which gives one up instead.
    """
    edges = []
    for source in placement.loads:
        best: dict[int, tuple[int, TopicPartition]] = {}
        for tp, targets in _cheap_shifts(placement, source):
            for target in targets:
                if target == source or (target in best and best[target][0] < 0):
                    continue
                if placement.may_shift(tp, source, target):
                    price = placement.price(tp, source, target)
                    if target not in best or price < best[target][0]:
                        best[target] = (price, tp)
        for target in placement.loads:
            if target == source:
                continue
            if target not in best and (found := placement.find(source, target)) is not None:
                best[target] = (placement.price(found, source, target), found)
            if placement.loads[target] == placement.loads[source] + 1:
                edges.append(_BrokerEdge(source, target, 0, None))
        edges += [_BrokerEdge(source, target, price, tp) for target, (price, tp) in best.items()]
    return edges


def _cheap_shifts(placement: PlacementModel, source: int) -> Iterator[tuple[TopicPartition, Iterable[int]]]:
    """Shifts that leave no more pieces away: of strays to anywhere, of others to another home."""
    for tp in placement.pieces(source):
        if placement.is_stray(tp, source):
            yield tp, placement.loads
        elif homes := placement.missing_homes(tp):
            yield tp, homes


def _saving_cycle(placement: PlacementModel) -> list[_BrokerEdge] | None:
    """A cycle of negative price, by the method of Bellman and Ford."""
    edges = _edges(placement)
    cost = dict.fromkeys(product(placement.loads, (False, True)), 0)
    via: dict[_State, tuple[_State, _BrokerEdge]] = {}
    for _ in range(len(cost) + 1):
        changed = False
        for edge in edges:
            # Two exchanges in a row would add up to a change of balance: after one comes a shift.
            origins = [(edge.source, False)] if edge.partition is None else _both(edge.source)
            arrival = (edge.target, edge.partition is None)
            for origin in origins:
                if cost[origin] + edge.price < cost[arrival]:
                    cost[arrival] = cost[origin] + edge.price
                    via[arrival] = (origin, edge)
                    changed = True
        if not changed:
            return None
        if cycle := _cycle_in(via):
            return cycle
    raise AssertionError("prices fell for longer than there are states, without a cycle")


_State = tuple[int, bool]
"""A broker, and whether it was reached by an exchange of loads."""


def _both(broker: int) -> list[_State]:
    return [(broker, False), (broker, True)]


def _cycle_in(via: Mapping[_State, tuple[_State, _BrokerEdge]]) -> list[_BrokerEdge]:
    """A cycle among the steps by which states were reached, in walking order; empty where there is none."""
    seen: set[_State] = set()
    for start in via:
        path: dict[_State, None] = {}
        state = start
        while state in via and state not in seen and state not in path:
            path[state] = None
            state = via[state][0]
        if state in path:
            edges, end = [via[state][1]], via[state][0]
            while end != state:
                edges.append(via[end][1])
                end = via[end][0]
            return edges[::-1]
        seen.update(path)
    return []


TOLERANCE = 0.1
"""Brokers within this fraction of the mean load are left alone."""


class _Piece(NamedTuple):
    weight: int
    partition: TopicPartition


def even_out_sizes(placement: PlacementModel, tolerance: float) -> None:
    """Shifts pieces until every broker is within `tolerance` of the mean, or nothing helps any more.

    Args:
        placement: its weights are bytes; it has a broker.
        tolerance: distance from the mean load, as a fraction of it, that is left alone.
    """
    pieces = {
        broker: sorted(_Piece(placement.weight(tp), tp) for tp in placement.pieces(broker))
        for broker in placement.loads
    }
    mean = sum(placement.loads.values()) / len(placement.loads)
    while step := _next_step(placement, pieces, mean, mean * tolerance):
        for tp, source, target in step:
            placement.shift(tp, source, target)
            piece = _Piece(placement.weight(tp), tp)
            pieces[source].remove(piece)
            insort(pieces[target], piece)


_Step = list[tuple[TopicPartition, int, int]]


def _next_step(
    placement: PlacementModel, pieces: dict[int, list[_Piece]], mean: float, limit: float
) -> _Step | None:
    """Helps the broker furthest from the mean, or the next; one shift before an exchange."""
    outside = [broker for broker, load in placement.loads.items() if abs(load - mean) > limit]
    outside.sort(key=lambda broker: (-abs(placement.loads[broker] - mean), broker))
    emptiest_first = sorted(placement.loads, key=lambda broker: (placement.loads[broker], broker))
    pairs = [
        (one, other) if placement.loads[one] > mean else (other, one)
        for one in outside
        for other in (emptiest_first if placement.loads[one] > mean else reversed(emptiest_first))
    ]
    for source, target in pairs:
        gap = placement.loads[source] - placement.loads[target]
        if gap <= 0 or placement.find(source, target) is None:
            continue
        for piece in _nearest(pieces[source], gap / 2):
            if abs(piece.weight - gap / 2) >= gap / 2:
                break  # this one and those that follow would not bring the two closer
            if placement.may_shift(piece.partition, source, target):
                return [(piece.partition, source, target)]
    return next(filter(None, (_exchange(placement, pieces, *pair) for pair in pairs)), None)


def _exchange(
    placement: PlacementModel, pieces: dict[int, list[_Piece]], source: int, target: int
) -> _Step | None:
    """Two pieces whose difference is about half of that of the loads, the larger on the fuller broker."""
    gap = placement.loads[source] - placement.loads[target]
    if gap <= 0 or placement.find(source, target) is None or placement.find(target, source) is None:
        return None
    best: tuple[float, _Step] | None = None
    for piece in pieces[source]:
        if not placement.may_shift(piece.partition, source, target):
            continue
        for back in _nearest(pieces[target], piece.weight - gap / 2):
            gain = piece.weight - back.weight
            if not 0 < gain < gap or (best and abs(gain - gap / 2) >= best[0]):
                break  # those that follow are further away still
            if placement.may_shift(back.partition, target, source):
                step = [(piece.partition, source, target), (back.partition, target, source)]
                best = (abs(gain - gap / 2), step)
                break
    return best[1] if best else None


def _nearest(pieces: Sequence[_Piece], weight: float) -> Iterator[_Piece]:
    """The pieces in the order of their distance from a weight, of two alike the heavier first."""
    above = bisect_left(pieces, weight, key=lambda piece: piece.weight)
    below = above - 1
    while below >= 0 or above < len(pieces):
        take_above = below < 0 or (
            above < len(pieces) and pieces[above].weight - weight <= weight - pieces[below].weight
        )
        if take_above:
            yield pieces[above]
            above += 1
        else:
            yield pieces[below]
            below -= 1
