"""The steps that plans are made of: place replicas that lost theirs, even out, appoint leaders."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from zkgroup.model import TopicPartition
from zkgroup.placement.balancing import TOLERANCE, even_out_counts, even_out_sizes, save_moves
from zkgroup.placement.model import ClusterSnapshot, LeaderPlacement, ReplicaPlacement, racks_of


def settle(
    board: ReplicaPlacement, wanted: Mapping[TopicPartition, int], tolerance: float = TOLERANCE
) -> None:
    """Places so many new replicas of each partition, the largest first, and evens out what was placed.

    Of those alike the ones without a leader go first, so that each newcomer finds some to lead.

    Args:
        board: a settled one, so that only what is placed here is shifted.
        wanted: how many brokers more each partition gets; there are as many without a replica of it.
    """
    for tp in sorted(wanted, key=lambda one: (-board.weight(one), not board.lost_its_leader(one), one)):
        for _ in range(wanted[tp]):
            target = board.best_target(tp)
            assert target is not None, "the caller counted the brokers"
            board.add(tp, target)
    if board.by_size:
        even_out_sizes(board, tolerance)
    else:
        even_out_counts(board)


def repair_racks(board: ReplicaPlacement) -> dict[TopicPartition, int]:
    """Moves replicas out of racks that have two of a partition while another has none.

    Returns:
        How many replicas of each partition were moved; each brings it into one rack more, so fewer cannot do.
    """
    repaired: dict[TopicPartition, int] = {}
    for tp in sorted(board.held):
        while board.racks_missing(tp) and (crowded := board.crowded(tp)):
            target = board.best_target(tp)
            assert target is not None, "a rack is missing, so its brokers are free"
            board.shift(tp, crowded[0], target)
            repaired[tp] = repaired.get(tp, 0) + 1
    return repaired


def least_moves(
    before: Mapping[int, int], after: Mapping[int, int], groups: Iterable[Collection[int]]
) -> int:
    """A number of moves that no placement as even as `after` can do with less; 0 where none is known.

    Args:
        before: pieces at home on each broker.
        after: pieces on each broker at the end.
        groups: brokers that can only exchange pieces among themselves: all, or those of a rack.
    """
    least = 0
    for group in groups:
        low, high = min(after[broker] for broker in group), max(after[broker] for broker in group)
        if high - low > 1:
            return 0
        surplus = sum(max(0, before[broker] - high) for broker in group)
        gap = sum(max(0, low - before[broker]) for broker in group)
        # Pieces that have no home fill gaps without being moved from anywhere.
        homeless = sum(after[broker] - before[broker] for broker in group)
        least += max(surplus, gap - homeless)
    return least


def balance_replicas(snapshot: ClusterSnapshot, board: ReplicaPlacement, tolerance: float) -> int:
    """Evens out replicas; returns the lower bound of moves that was proven."""
    before = dict(board.loads)
    repaired = sum(repair_racks(board).values())
    if board.by_size:
        even_out_sizes(board, tolerance)
        return max(repaired, _least_by_size(snapshot, before, board.loads))
    even_out_counts(board)
    least = max(repaired, least_moves(before, board.loads, board.closed_groups()))
    return save_moves(board, board.away(), least)


def appoint(
    snapshot: ClusterSnapshot,
    board: ReplicaPlacement,
    *,
    everywhere: bool = False,
    tolerance: float = TOLERANCE,
) -> dict[TopicPartition, tuple[int, ...]]:
    """The replica lists of what is on a board, with preferred leaders as even as the replicas allow.

    Args:
        everywhere: whether any preferred leader may change, by order alone; otherwise only those of
            partitions that lost theirs are appointed.

    Returns:
        Lists of the partitions that differ from the snapshot. Survivors keep their positions.
    """
    homes: dict[TopicPartition, int] = {}
    homeless: dict[TopicPartition, list[int]] = {}
    for tp, replicas in snapshot.replicas.items():
        if replicas[0] in board.held[tp]:
            if replicas[0] in board.loads:  # a gone broker may come back: its leaderships wait for it
                homes[tp] = replicas[0]
        elif able := sorted(broker for broker in board.held[tp] if broker in board.loads):
            homeless[tp] = able
    fixed = dict.fromkeys(board.loads, 0)
    if not everywhere:
        for tp, leader in homes.items():
            fixed[leader] += board.weight(tp)
    leaders = dict(homes) if everywhere else {}
    loads = dict(fixed)
    for tp, leader in leaders.items():
        loads[leader] += board.weight(tp)
    at_home = dict(loads)
    for tp, able in sorted(homeless.items(), key=lambda one: (-board.weight(one[0]), one[0])):
        leaders[tp] = min(able, key=lambda broker: (loads[broker], broker))
        loads[leaders[tp]] += board.weight(tp)
    led = LeaderPlacement(leaders, homes, board.held, fixed, snapshot.sizes)
    if board.by_size:
        even_out_sizes(led, tolerance)
    else:
        even_out_counts(led)
        away = sum(1 for tp, leader in led.leaders.items() if homes.get(tp, leader) != leader)
        save_moves(led, away, least_moves(at_home, led.loads, [list(led.loads)]))
    lists = {
        tp: arranged(replicas, board.held[tp], led.leaders.get(tp))
        for tp, replicas in snapshot.replicas.items()
    }
    return {tp: replicas for tp, replicas in lists.items() if replicas != snapshot.replicas[tp]}


def arranged(before: tuple[int, ...], held: Collection[int], leader: int | None = None) -> tuple[int, ...]:
    """A replica list of these brokers in the old order, newcomers in the places of those that left."""
    newcomers = iter(sorted(broker for broker in held if broker not in before))
    places = (broker if broker in held else next(newcomers, None) for broker in before)
    order = [broker for broker in places if broker is not None]
    order += newcomers
    if leader is not None and order[0] != leader:
        order.remove(leader)
        order.insert(0, leader)
    return tuple(order)


def _least_by_size(snapshot: ClusterSnapshot, before: Mapping[int, int], after: Mapping[int, int]) -> int:
    """A broker that gets lighter gives away at least so many that the largest make the difference."""
    assert snapshot.sizes is not None
    held: dict[int, list[int]] = {broker: [] for broker in before}
    for tp, replicas in snapshot.replicas.items():
        for broker in replicas:
            if broker in held:
                held[broker].append(snapshot.sizes[tp])
    least = 0
    for broker, sizes in held.items():
        rest = before[broker] - after[broker]
        for size in sorted(sizes, reverse=True):
            if rest <= 0:
                break
            rest -= size
            least += 1
    return least


def most_droppable(
    snapshot: ClusterSnapshot, board: ReplicaPlacement, tp: TopicPartition, racks: Mapping[int, str]
) -> int:
    """The replica that is missed least: gone, out of sync, a follower, in a rack with another, fullest."""
    in_sync = None if snapshot.in_sync is None else snapshot.in_sync.get(tp)
    leader = snapshot.replicas[tp][0]

    def key(broker: int) -> tuple[bool, bool, bool, int, int, int]:
        rest = [other for other in board.held[tp] if other != broker]
        return (
            broker not in board.loads,
            in_sync is not None and broker not in in_sync,
            broker != leader,
            len(racks_of(rest, racks)),
            board.loads.get(broker, 0),
            broker,
        )

    return max(board.held[tp], key=key)
