"""The four plans of an operator: decommission, replace, set-rf, balance.

Each moves what it must and nothing else, puts it where the loads become as even as the racks allow,
and hands the result to `validate`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from zkgroup.errors import NotFoundError, PlacementError, PlanRefusedError
from zkgroup.model import TopicPartition
from zkgroup.placement.balancing import TOLERANCE
from zkgroup.placement.model import (
    ClusterSnapshot,
    Plan,
    ReplicaPlacement,
    Replicas,
    brokers_named,
    count,
    racks_in_use,
)
from zkgroup.placement.steps import appoint, arranged, balance_replicas, most_droppable, place_new
from zkgroup.placement.validation import PlanViolation, check_snapshot, validate


def decommission(
    snapshot: ClusterSnapshot, brokers: Collection[int], *, allow: Collection[PlanViolation] = ()
) -> Plan:
    """Empties brokers, registered or gone: each of their replicas goes to another broker, no other moves.

    Preferred leaders among them are appointed anew, as evenly as the replicas allow.

    Raises:
        NotFoundError: a broker that is neither registered nor in any replica list.
        PlacementError: no broker is left.
        PlanRefusedError: too few brokers stay for some partition, or `validate` refuses.
    """
    check_snapshot(snapshot)
    intent = f"decommission {_listed(brokers)}"
    leaving = set(brokers)
    _check_known(snapshot, leaving)
    staying = [broker for broker in snapshot.brokers if broker.id not in leaving]
    if not staying:
        raise PlacementError(f"{intent}: no broker would be left")
    affected = {tp: replicas for tp, replicas in snapshot.replicas.items() if leaving.intersection(replicas)}
    _refuse_short(intent, affected, len(staying))
    placement = ReplicaPlacement(
        snapshot.replicas,
        [broker.id for broker in staying],
        racks_in_use(staying, snapshot.rack_mode),
        snapshot.sizes,
        only_new=True,
    )
    wanted: dict[TopicPartition, int] = {}
    for tp, replicas in affected.items():
        for broker in leaving.intersection(replicas):
            placement.drop(tp, broker)
        wanted[tp] = len(replicas) - len(placement.brokers_of[tp])
    place_new(placement, wanted)
    target = appoint(snapshot, placement)
    causes = {
        tp: f"{_listed(leaving.intersection(replicas))} is decommissioned"
        for tp, replicas in affected.items()
    }
    return validate(
        snapshot, target, intent=intent, allow={*allow, "balance"}, leaving=leaving, causes=causes
    )


def _refuse_short(intent: str, affected: Replicas, staying: int) -> None:
    """Raises PlanRefusedError where partitions have more replicas than brokers stay; names their topics."""
    short = sorted({tp.topic for tp, replicas in affected.items() if len(replicas) > staying})
    if short:
        have = f"{count(len(short), 'topic')} {'has' if len(short) == 1 else 'have'}"
        topics = " ".join(f"--topic {topic}" for topic in short)
        reason = f"{have} more replicas than the {count(staying, 'remaining broker')}"
        raise PlanRefusedError(intent, [f"{reason}; `zkgroup plan set-rf {staying} {topics}` first"])


def replace(
    snapshot: ClusterSnapshot, pairs: Mapping[int, int], *, allow: Collection[PlanViolation] = ()
) -> Plan:
    """Puts one broker in the place of another, at the same position in every replica list.

    A partition on both keeps the one replica and gets another broker for the other; a note says so.
    An empty broker gets what the old one had, however uneven that is: it was asked for.

    Args:
        pairs: the old broker, registered or gone, to the new one.

    Raises:
        NotFoundError: an old broker that is neither registered nor in any replica list.
        PlacementError: a new one that is not registered, one named on both sides or twice.
        PlanRefusedError: partitions would be in fewer racks, loads less even where a new broker is not empty,
            or as `decommission`.
    """
    check_snapshot(snapshot)
    intent = "replace " + ",".join(f"{old}={new}" for old, new in sorted(pairs.items()))
    _check_pairs(snapshot, pairs)
    staying = [broker for broker in snapshot.brokers if broker.id not in pairs]
    taken = {
        tp: tuple(pairs[one] if one in pairs and pairs[one] not in replicas else one for one in replicas)
        for tp, replicas in snapshot.replicas.items()
    }
    ids, racks = [broker.id for broker in staying], racks_in_use(staying, snapshot.rack_mode)
    placement = ReplicaPlacement(taken, ids, racks, snapshot.sizes, only_new=True)
    doubled = {tp: [one for one in replicas if one in pairs] for tp, replicas in taken.items()}
    wanted = {tp: len(olds) for tp, olds in sorted(doubled.items()) if olds}
    _refuse_short(intent, {tp: taken[tp] for tp in wanted}, len(staying))
    for tp in wanted:
        for old in doubled[tp]:
            placement.drop(tp, old)
    place_new(placement, wanted)
    target = {
        tp: arranged(replicas, placement.brokers_of[tp])
        for tp, replicas in taken.items()
        if replicas != snapshot.replicas[tp]
    }
    target |= {tp: arranged(taken[tp], placement.brokers_of[tp]) for tp in wanted}
    causes = {tp: f"{_listed(set(pairs).intersection(snapshot.replicas[tp]))} is replaced" for tp in target}
    notes = [
        f"{count(len(both), 'partition')} on both {old} and {new}, {both[0]} first: "
        f"what {old} holds of them goes to other brokers"
        for old, new in sorted(pairs.items())
        if (both := [tp for tp in wanted if old in doubled[tp]])
    ]
    used = {one for replicas in snapshot.replicas.values() for one in replicas}
    allowed: set[PlanViolation] = {*allow, "balance"} if used.isdisjoint(pairs.values()) else {*allow}
    return validate(
        snapshot, target, intent=intent, allow=allowed, leaving=set(pairs), causes=causes, notes=notes
    )


def set_rf(
    snapshot: ClusterSnapshot,
    factor: int,
    *,
    topics: Collection[str] | None = None,
    allow: Collection[PlanViolation] = (),
) -> Plan:
    """Gives every partition this number of replicas: new ones to the emptiest brokers, none moves.

    Where there are too many, those that are needed least are removed: on brokers that are gone, out of sync,
    then followers, then what costs no rack, then from the fullest broker.

    Args:
        topics: the topics to change; None for all.

    Raises:
        NotFoundError: a topic that does not exist.
        PlacementError: less than one replica, more than there are brokers.
        PlanRefusedError: see `validate`.
    """
    check_snapshot(snapshot)
    intent = f"set-rf {factor}"
    if unknown := sorted(set(topics or ()) - {tp.topic for tp in snapshot.replicas}):
        named = f"is no topic {unknown[0]}" if len(unknown) == 1 else f"are no topics {', '.join(unknown)}"
        raise NotFoundError(f"{intent}: there {named}")
    _check_hosts(snapshot, intent)
    if not 1 <= factor <= len(snapshot.brokers):
        raise PlacementError(f"{intent}: expected 1 to {len(snapshot.brokers)}, the number of brokers")
    racks = racks_in_use(snapshot.brokers, snapshot.rack_mode)
    ids = [broker.id for broker in snapshot.brokers]
    placement = ReplicaPlacement(snapshot.replicas, ids, racks, snapshot.sizes, only_new=True)
    wanted: dict[TopicPartition, int] = {}
    for tp, replicas in sorted(snapshot.replicas.items()):
        if topics is not None and tp.topic not in topics:
            continue
        while len(placement.brokers_of[tp]) > factor:
            placement.drop(tp, most_droppable(snapshot, placement, tp, racks))
        if len(replicas) < factor:
            wanted[tp] = factor - len(replicas)
    place_new(placement, wanted)
    target = appoint(snapshot, placement)
    causes = {tp: f"{count(factor, 'replica')} instead of {len(snapshot.replicas[tp])}" for tp in target}
    return validate(snapshot, target, intent=intent, allow={*allow, "factor", "balance"}, causes=causes)


def balance(
    snapshot: ClusterSnapshot,
    *,
    leaders_only: bool = False,
    tolerance: float = TOLERANCE,
    allow: Collection[PlanViolation] = (),
) -> Plan:
    """Evens out replicas, then preferred leaders, with the fewest moves; by size where sizes are given.

    First every partition comes into as many racks as it should be in. By count, the loads are then as even
    as the racks allow (brokers that can take each other's replicas differ by at most 1), and no
    placement as even has fewer moves: `Plan.least_moves` says whether that was proven. By size, brokers
    outside the tolerance are helped until nothing helps any more. Leaders change by order alone, so they cost
    no moves; a broker can lead only what it holds.

    Replicas on brokers that are not registered stay: `decommission` moves them.

    Args:
        leaders_only: whether replicas stay where they are and only their order changes.
        tolerance: by size, distance from the mean load, as a fraction of it, that is left alone.

    Raises:
        PlacementError: no broker that hosts replicas is registered, or a tolerance below 0.
        PlanRefusedError: see `validate`.
    """
    check_snapshot(snapshot)
    _check_hosts(snapshot, "balance")
    if tolerance < 0:
        raise PlacementError(f"balance: expected a tolerance of 0 or more, found {tolerance}")
    ids = [broker.id for broker in snapshot.brokers]
    racks = racks_in_use(snapshot.brokers, snapshot.rack_mode)
    placement = ReplicaPlacement(snapshot.replicas, ids, racks, snapshot.sizes)
    sharing_a_rack = {tp for tp in placement.brokers_of if placement.racks_missing(tp)}
    least = 0 if leaders_only else balance_replicas(snapshot, placement, tolerance)
    target = appoint(snapshot, placement, everywhere=True, tolerance=tolerance)
    causes = dict.fromkeys(sharing_a_rack, "its replicas were in too few racks")
    return validate(snapshot, target, intent="balance", allow=allow, causes=causes, least_moves=least)


def _check_hosts(snapshot: ClusterSnapshot, intent: str) -> None:
    if not snapshot.brokers:
        raise PlacementError(f"{intent}: no broker that hosts replicas is registered")


def _check_known(snapshot: ClusterSnapshot, brokers: Collection[int]) -> None:
    known = {broker.id for broker in snapshot.brokers}
    known.update(broker for replicas in snapshot.replicas.values() for broker in replicas)
    if unknown := sorted(set(brokers) - known):
        raise NotFoundError(
            f"{brokers_named(unknown, 'is', 'are')} neither registered nor in any replica list"
        )
    if not brokers:
        raise PlacementError("no broker was named")


def _check_pairs(snapshot: ClusterSnapshot, pairs: Mapping[int, int]) -> None:
    _check_known(snapshot, pairs)
    registered = {broker.id for broker in snapshot.brokers}
    if unknown := sorted(set(pairs.values()) - registered):
        raise PlacementError(f"{brokers_named(unknown, 'is', 'are')} not registered and cannot take over")
    if both := sorted(set(pairs) & set(pairs.values())):
        raise PlacementError(f"{brokers_named(both, 'is', 'are')} to be replaced and to take over")
    if len(set(pairs.values())) < len(pairs):
        raise PlacementError("a broker can take the place of one other only: `decommission` spreads them")


def _listed(brokers: Collection[int]) -> str:
    return " ".join(str(broker) for broker in sorted(brokers))
