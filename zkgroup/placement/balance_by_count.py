"""Balance by count, with the fewest moves.

Two demands, the first before the second: the loads of the brokers are as even as the rules allow (the sum of
their squares is least), and of all such placements it is one with the fewest pieces away from home. It is a
flow of least cost, as that of `zkgroup.assignment.sticky_assignor`, over the brokers alone: an edge from x to
y stands for the best piece of x that may go to y.

`even_out_counts` applies chains of shifts that end on a broker with at least 2 less, until there are none.
`save_moves` applies cycles that keep the balance and bring pieces home. Where no such cycle is left the
number of moves is the least there is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from zkgroup.model import TopicPartition
from zkgroup.placement.model import PlacementModel

EFFORT = 3_000_000
"""Prices that `save_moves` may ask for, a second or two; what it then has is kept, but not proven."""


def even_out_counts(board: PlacementModel) -> None:
    """Shifts pieces from fuller to emptier brokers until no chain of shifts helps."""
    improved = True
    while improved:
        improved = False
        stuck: set[int] = set()
        while (source := _fullest(board, stuck)) is not None:
            if _relieve(board, source, stuck):
                improved = True


def save_moves(board: PlacementModel, moves: int, least: int) -> int:
    """Brings pieces home where that leaves the balance as it is.

    Args:
        moves: pieces away from home now.
        least: a number of moves that cannot be undercut; nothing is looked for when it is reached.

    Returns:
        The lower bound that was proven: the moves now, or `least` where the search was given up.
    """
    effort = 0
    while moves > least:
        effort += moves * len(board.loads)
        if effort > EFFORT:
            return least
        cycle = _saving_cycle(board)
        if cycle is None:
            return moves
        shifts = [(edge.partition, edge.source, edge.target) for edge in cycle if edge.partition is not None]
        if not _make(board, shifts):
            return least
        moves += sum(edge.price for edge in cycle)
    return moves


def _fullest(board: PlacementModel, stuck: set[int]) -> int | None:
    free = [broker for broker in board.loads if broker not in stuck]
    return max(free, key=lambda broker: (board.loads[broker], -broker), default=None)


def _relieve(board: PlacementModel, source: int, stuck: set[int]) -> bool:
    """One chain from `source` to a broker with 2 less or fewer; without one, all that it reaches is stuck.

    The emptiest broker is taken that is reached by one shift, then the nearest.
    """
    limit = board.loads[source] - 2
    emptiest_first = sorted(board.loads, key=lambda broker: (board.loads[broker], broker))
    for target in emptiest_first:
        if board.loads[target] > limit:
            break
        if (tp := board.find(source, target)) is not None:
            board.shift(tp, source, target)
            return True
    reached: dict[int, tuple[int, TopicPartition]] = {}
    queue = deque([source])
    while queue:
        broker = queue.popleft()
        for target in emptiest_first:
            if target == source or target in reached or (tp := board.find(broker, target)) is None:
                continue
            reached[target] = (broker, tp)
            if board.loads[target] <= limit:
                if not (made := _make(board, _chain(source, target, reached))):
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


def _make(board: PlacementModel, shifts: Iterable[_Shift]) -> bool:
    """Makes all of these shifts or, where one partition named twice stands in its own way, none."""
    made: list[_Shift] = []
    for tp, source, target in shifts:
        if not board.may_shift(tp, source, target):
            for done, came_from, went_to in reversed(made):
                board.shift(done, went_to, came_from)
            return False
        board.shift(tp, source, target)
        made.append((tp, source, target))
    return True


class _Edge(NamedTuple):
    """A shift from one broker to another, or, without a partition, an exchange of their loads."""

    source: int
    target: int
    price: int
    partition: TopicPartition | None


def _edges(board: PlacementModel) -> list[_Edge]:
    """The cheapest shift between every two brokers, and the exchanges of loads.

    Only strays save a move when they go home, so only they are looked at one by one.
    A chain that ends at a broker of load n may go on at one of load n + 1, which gives one up instead.
    """
    edges = []
    for source in board.loads:
        best: dict[int, tuple[int, TopicPartition]] = {}
        for tp, targets in _cheap_shifts(board, source):
            for target in targets:
                if target == source or (target in best and best[target][0] < 0):
                    continue
                if board.may_shift(tp, source, target):
                    price = board.price(tp, source, target)
                    if target not in best or price < best[target][0]:
                        best[target] = (price, tp)
        for target in board.loads:
            if target == source:
                continue
            if target not in best and (found := board.find(source, target)) is not None:
                best[target] = (board.price(found, source, target), found)
            if board.loads[target] == board.loads[source] + 1:
                edges.append(_Edge(source, target, 0, None))
        edges += [_Edge(source, target, price, tp) for target, (price, tp) in best.items()]
    return edges


def _cheap_shifts(board: PlacementModel, source: int) -> Iterator[tuple[TopicPartition, Iterable[int]]]:
    """Shifts that leave no more pieces away: of strays to anywhere, of others to another home."""
    for tp in board.pieces(source):
        if board.is_stray(tp, source):
            yield tp, board.loads
        elif homes := board.missing_homes(tp):
            yield tp, homes


def _saving_cycle(board: PlacementModel) -> list[_Edge] | None:
    """A cycle of negative price, by the method of Bellman and Ford."""
    edges = _edges(board)
    cost = dict.fromkeys(_states(board), 0)
    via: dict[_State, tuple[_State, _Edge]] = {}
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


def _states(board: PlacementModel) -> list[_State]:
    return [state for broker in board.loads for state in _both(broker)]


def _cycle_in(via: Mapping[_State, tuple[_State, _Edge]]) -> list[_Edge]:
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
