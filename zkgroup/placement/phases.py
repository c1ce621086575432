"""A plan cut into phases, so that no more than a given number of copies run at the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from zkgroup.errors import PlacementError
from zkgroup.placement.model import ClusterSnapshot, Phase, Plan, PlannedMove, racks_in_use, racks_of
from zkgroup.placement.validation import bytes_moved

PARTITIONS_MAX = 2_500
"""Partitions of one phase: with the longest names, their request still fits one znode (1 MiB)."""


def phases(
    plan: Plan,
    snapshot: ClusterSnapshot,
    *,
    max_moves: int,
    max_moves_per_broker: int | None = None,
    max_partitions: int = PARTITIONS_MAX,
) -> tuple[Phase, ...]:
    """The changes of a plan, in the order in which to make them.

    Partitions with replicas on brokers that are not registered come first, the fewest live replicas before
    all others. A partition with more moves than may run at once is moved in steps: as many newcomers at a
    time, in place of as many that leave, through lists that are never shorter than the shorter of old and
    new and in as many racks as possible. Changes that copy nothing come last, when all replicas that are to
    lead are there.

    Args:
        snapshot: the one that the plan was made from.
        max_moves: copies that run at the same time, of all brokers together.
        max_moves_per_broker: copies that one broker receives at the same time; None for no limit of its own.
        max_partitions: partitions of one phase.

    Raises:
        PlacementError: a limit below 1.
    """
    limits = (max_moves, max_partitions, 1 if max_moves_per_broker is None else max_moves_per_broker)
    if min(limits) < 1:
        raise PlacementError("phases: every limit has to be at least 1")
    racks = racks_in_use(snapshot.brokers, snapshot.rack_mode)
    registered = {broker.id for broker in snapshot.brokers}

    def urgency(change: PlannedMove) -> tuple[bool, int]:
        live = len(registered.intersection(change.before))
        return (live == len(change.before), live)

    copying = sorted((one for one in plan.changes if one.added), key=urgency)
    waiting = [_steps(change, max_moves, racks) for change in copying]
    found: list[Phase] = []
    while waiting:
        taken, waiting = _fill(waiting, max_moves, max_moves_per_broker, max_partitions)
        found.append(_phase(taken, plan, snapshot))
    free = [one for one in plan.changes if not one.added]
    parts = (free[begin : begin + max_partitions] for begin in range(0, len(free), max_partitions))
    return (*found, *(_phase(part, plan, snapshot) for part in parts))


def _fill(
    waiting: Sequence[list[PlannedMove]], max_moves: int, per_broker: int | None, max_partitions: int
) -> tuple[list[PlannedMove], list[list[PlannedMove]]]:
    """The first step of every partition that still has room, in order; the rest waits."""
    taken: list[PlannedMove] = []
    later: list[list[PlannedMove]] = []
    moves, received = 0, Counter[int]()
    for steps in waiting:
        first = steps[0]
        fits = (
            moves + len(first.added) <= max_moves
            and len(taken) < max_partitions
            and (per_broker is None or all(received[broker] < per_broker for broker in first.added))
        )
        if not fits:
            later.append(steps)
            continue
        taken.append(first)
        moves += len(first.added)
        received.update(first.added)
        if steps[1:]:
            later.append(steps[1:])
    return taken, later


def _steps(change: PlannedMove, max_moves: int, racks: Mapping[int, str]) -> list[PlannedMove]:
    """One change as several, none with more moves than may run at once."""
    if len(change.added) <= max_moves:
        return [change]
    steps: list[PlannedMove] = []
    now, dropped, added = list(change.before), list(change.dropped), list(change.added)
    while added:
        before = tuple(now)
        for _ in range(min(max_moves, len(added))):
            new, old = _best_exchange(now, added, dropped, racks)
            added.remove(new)
            if old is None:
                now.append(new)
            else:
                dropped.remove(old)
                now[now.index(old)] = new
        after = change.after if not added else tuple(now)
        text = f"step {len(steps) + 1} of {-(-len(change.added) // max_moves)}: {change.reason}"
        steps.append(
            PlannedMove(topic_partition=change.topic_partition, before=before, after=after, reason=text)
        )
    return steps


def _best_exchange(
    now: Sequence[int], added: Sequence[int], dropped: Sequence[int], racks: Mapping[int, str]
) -> tuple[int, int | None]:
    """The newcomer, and the one whose place it takes, that leave the partition in most racks."""
    leaving: Sequence[int | None] = dropped or [None]
    pairs = [(new, old) for new in added for old in leaving]
    return max(
        pairs,
        key=lambda pair: len(racks_of([*(one for one in now if one != pair[1]), pair[0]], racks)),
    )


def _phase(changes: Sequence[PlannedMove], plan: Plan, snapshot: ClusterSnapshot) -> Phase:
    return Phase(
        changes=tuple(changes),
        moves=sum(len(change.added) for change in changes),
        bytes=bytes_moved(changes, snapshot.sizes),
    )
