"""Balance by size: where pieces weigh differently, and the most even placement is too dear to look for.

As long as a broker lies further from the mean than the tolerance, the shift is made that brings the fullest
broker and another closest together: a piece of about half their difference, so few moves do it. Where no
single piece helps, two are exchanged. Each step lowers the sum of the squares, so it ends, and it ends in the
same place however often it is begun again.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from zkgroup.model import TopicPartition
from zkgroup.placement.model import PlacementModel

TOLERANCE = 0.1
"""Brokers within this fraction of the mean load are left alone."""


class _Piece(NamedTuple):
    weight: int
    partition: TopicPartition


def even_out_sizes(board: PlacementModel, tolerance: float) -> None:
    """Shifts pieces until every broker is within `tolerance` of the mean, or nothing helps any more.

    Args:
        board: its weights are bytes; it has a broker.
        tolerance: distance from the mean load, as a fraction of it, that is left alone.
    """
    held = {
        broker: sorted(_Piece(board.weight(tp), tp) for tp in board.pieces(broker)) for broker in board.loads
    }
    mean = sum(board.loads.values()) / len(board.loads)
    while step := _next_step(board, held, mean, mean * tolerance):
        for tp, source, target in step:
            board.shift(tp, source, target)
            piece = _Piece(board.weight(tp), tp)
            held[source].remove(piece)
            insort(held[target], piece)


_Step = list[tuple[TopicPartition, int, int]]


def _next_step(
    board: PlacementModel, held: dict[int, list[_Piece]], mean: float, limit: float
) -> _Step | None:
    """Helps the broker furthest from the mean, or the next; one shift before an exchange."""
    outside = [broker for broker, load in board.loads.items() if abs(load - mean) > limit]
    outside.sort(key=lambda broker: (-abs(board.loads[broker] - mean), broker))
    emptiest_first = sorted(board.loads, key=lambda broker: (board.loads[broker], broker))
    pairs = [
        (one, other) if board.loads[one] > mean else (other, one)
        for one in outside
        for other in (emptiest_first if board.loads[one] > mean else reversed(emptiest_first))
    ]
    for source, target in pairs:
        gap = board.loads[source] - board.loads[target]
        if gap <= 0 or board.find(source, target) is None:
            continue
        for piece in _nearest(held[source], gap / 2):
            if abs(piece.weight - gap / 2) >= gap / 2:
                break  # this one and those that follow would not bring the two closer
            if board.may_shift(piece.partition, source, target):
                return [(piece.partition, source, target)]
    return next(filter(None, (_exchange(board, held, *pair) for pair in pairs)), None)


def _exchange(board: PlacementModel, held: dict[int, list[_Piece]], source: int, target: int) -> _Step | None:
    """Two pieces whose difference is about half of that of the loads, the larger on the fuller broker."""
    gap = board.loads[source] - board.loads[target]
    if gap <= 0 or board.find(source, target) is None or board.find(target, source) is None:
        return None
    best: tuple[float, _Step] | None = None
    for piece in held[source]:
        if not board.may_shift(piece.partition, source, target):
            continue
        for back in _nearest(held[target], piece.weight - gap / 2):
            gain = piece.weight - back.weight
            if not 0 < gain < gap or (best and abs(gain - gap / 2) >= best[0]):
                break  # those that follow are further away still
            if board.may_shift(back.partition, target, source):
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
