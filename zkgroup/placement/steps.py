"""The steps of plans: replace lost replicas, balance, choose preferred leaders."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from zkgroup.model import TopicPartition
from zkgroup.placement.balancing import TOLERANCE, even_out_counts, even_out_sizes, save_moves
from zkgroup.placement.model import ClusterSnapshot, LeaderPlacement, ReplicaPlacement, racks_of


def place_new(placement: ReplicaPlacement, wanted: Mapping[TopicPartition, int]) -> None:
    """Places so many new replicas of each partition, the largest first, and evens out what was placed.

    Of those alike the ones without a leader go first, so that each newcomer finds some to lead.

    Args:
        placement: made with `only_new`, so that only what is placed here is shifted.
        wanted: how many brokers more each partition gets; there are as many without a replica of it.
    """
    for tp in sorted(
        wanted, key=lambda one: (-placement.weight(one), not placement.lost_its_leader(one), one)
    ):
        for _ in range(wanted[tp]):
            target = placement.best_target(tp)
            assert target is not None, "the caller counted the brokers"
            placement.add(tp, target)
    if placement.by_size:
        even_out_sizes(placement, TOLERANCE)
    else:
        even_out_counts(placement)


def repair_racks(placement: ReplicaPlacement) -> dict[TopicPartition, int]:
    """Moves replicas out of racks that have two of a partition while another has none.

    Returns:
        How many replicas of each partition were moved; each brings it into one rack more, so fewer cannot do.
    """
    repaired: dict[TopicPartition, int] = {}
    for tp in sorted(placement.brokers_of):
        while placement.racks_missing(tp) and (sharing_a_rack := placement.sharing_a_rack(tp)):
            target = placement.best_target(tp)
            assert target is not None, "a rack is missing, so its brokers are free"
            placement.shift(tp, sharing_a_rack[0], target)
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


def balance_replicas(snapshot: ClusterSnapshot, placement: ReplicaPlacement, tolerance: float) -> int:
    """Evens out replicas; returns the lower bound of moves that was proven."""
    before = dict(placement.loads)
    repaired = sum(repair_racks(placement).values())
    if placement.by_size:
        even_out_sizes(placement, tolerance)
        return max(repaired, _least_by_size(snapshot, before, placement.loads))
    even_out_counts(placement)
    least = max(repaired, least_moves(before, placement.loads, placement.closed_groups()))
    return save_moves(placement, placement.away(), least)


def appoint(
    snapshot: ClusterSnapshot,
    placement: ReplicaPlacement,
    *,
    everywhere: bool = False,
    tolerance: float = TOLERANCE,
) -> dict[TopicPartition, tuple[int, ...]]:
    """The replica lists of what is on a placement, with preferred leaders as even as the replicas allow.

    Args:
        everywhere: whether any preferred leader may change, by order alone; otherwise only those of
            partitions that lost theirs are appointed.

    Returns:
        Lists of the partitions that differ from the snapshot. Survivors keep their positions.
    """
    homes: dict[TopicPartition, int] = {}
    homeless: dict[TopicPartition, list[int]] = {}
    for tp, replicas in snapshot.replicas.items():
        if replicas[0] in placement.brokers_of[tp]:
            if replicas[0] in placement.loads:  # a gone broker may come back: its leaderships wait for it
                homes[tp] = replicas[0]
        elif able := sorted(broker for broker in placement.brokers_of[tp] if broker in placement.loads):
            homeless[tp] = able
    fixed = dict.fromkeys(placement.loads, 0)
    if not everywhere:
        for tp, leader in homes.items():
            fixed[leader] += placement.weight(tp)
    leaders = dict(homes) if everywhere else {}
    loads = dict(fixed)
    for tp, leader in leaders.items():
        loads[leader] += placement.weight(tp)
    at_home = dict(loads)
    for tp, able in sorted(homeless.items(), key=lambda one: (-placement.weight(one[0]), one[0])):
        leaders[tp] = min(able, key=lambda broker: (loads[broker], broker))
        loads[leaders[tp]] += placement.weight(tp)
    led = LeaderPlacement(leaders, homes, placement.brokers_of, fixed, snapshot.sizes)
    if placement.by_size:
        even_out_sizes(led, tolerance)
    else:
        even_out_counts(led)
        away = sum(1 for tp, leader in led.leaders.items() if homes.get(tp, leader) != leader)
        save_moves(led, away, least_moves(at_home, led.loads, [list(led.loads)]))
    lists = {
        tp: arranged(replicas, placement.brokers_of[tp], led.leaders.get(tp))
        for tp, replicas in snapshot.replicas.items()
    }
    return {tp: replicas for tp, replicas in lists.items() if replicas != snapshot.replicas[tp]}


def arranged(before: tuple[int, ...], brokers: Collection[int], leader: int | None = None) -> tuple[int, ...]:
    """A replica list of these brokers in the old order, newcomers in the places of those that left."""
    newcomers = iter(sorted(broker for broker in brokers if broker not in before))
    places = (broker if broker in brokers else next(newcomers, None) for broker in before)
    order = [broker for broker in places if broker is not None]
    order += newcomers
    if leader is not None and order[0] != leader:
        order.remove(leader)
        order.insert(0, leader)
    return tuple(order)


def _least_by_size(snapshot: ClusterSnapshot, before: Mapping[int, int], after: Mapping[int, int]) -> int:
    """A broker that gets lighter gives away at least so many that the largest make the difference."""
    assert snapshot.sizes is not None
    hosted: dict[int, list[int]] = {broker: [] for broker in before}
    for tp, replicas in snapshot.replicas.items():
        for broker in replicas:
            if broker in hosted:
                hosted[broker].append(snapshot.sizes[tp])
    least = 0
    for broker, sizes in hosted.items():
        rest = before[broker] - after[broker]
        for size in sorted(sizes, reverse=True):
            if rest <= 0:
                break
            rest -= size
            least += 1
    return least


def most_droppable(
    snapshot: ClusterSnapshot, placement: ReplicaPlacement, tp: TopicPartition, racks: Mapping[int, str]
) -> int:
    """The replica that is needed least: gone, out of sync, a follower, in a rack with another, fullest."""
    in_sync = None if snapshot.in_sync is None else snapshot.in_sync.get(tp)
    leader = snapshot.replicas[tp][0]

    def key(broker: int) -> tuple[bool, bool, bool, int, int, int]:
        rest = [other for other in placement.brokers_of[tp] if other != broker]
        return (
            broker not in placement.loads,
            in_sync is not None and broker not in in_sync,
            broker != leader,
            len(racks_of(rest, racks)),
            placement.loads.get(broker, 0),
            broker,
        )

    return max(placement.brokers_of[tp], key=key)
