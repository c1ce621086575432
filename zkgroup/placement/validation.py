"""Validation of a plan: its cost, the reason for each change, its skew, and what it may not make worse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from zkgroup.errors import PlacementError, PlanRefusedError
from zkgroup.model import TopicPartition
from zkgroup.placement.balancing import TOLERANCE
from zkgroup.placement.model import (
    ClusterSnapshot,
    Load,
    Plan,
    PlannedMove,
    Replicas,
    Skew,
    brokers_named,
    count,
    racks_in_use,
    racks_of,
    racks_wanted,
)


def skew(
    snapshot: ClusterSnapshot,
    replicas: Mapping[TopicPartition, tuple[int, ...]],
    leaving: Collection[int] = (),
) -> Skew:
    """The loads of the registered brokers under some replica lists; spreads over those that do not leave."""
    sizes = snapshot.sizes
    hosted, led = Counter[int](), Counter[int]()
    hosted_bytes, led_bytes = Counter[int](), Counter[int]()
    for tp, brokers in replicas.items():
        size = sizes[tp] if sizes else 0
        for broker in brokers:
            hosted[broker] += 1
            hosted_bytes[broker] += size
        for broker in brokers[:1]:
            led[broker] += 1
            led_bytes[broker] += size
    ids = sorted(broker.id for broker in snapshot.brokers)
    loads = {
        broker: Load(
            hosted[broker],
            led[broker],
            hosted_bytes[broker] if sizes is not None else None,
            led_bytes[broker] if sizes is not None else None,
        )
        for broker in ids
    }
    staying = [broker for broker in ids if broker not in leaving]
    racks = racks_in_use([one for one in snapshot.brokers if one.id not in leaving], snapshot.rack_mode)
    all_racks = racks_in_use(snapshot.brokers, snapshot.rack_mode)
    return Skew(
        loads=loads,
        replica_spread=_spread(hosted, staying),
        leader_spread=_spread(led, staying),
        byte_spread=None if sizes is None else _spread(hosted_bytes, staying),
        leader_byte_spread=None if sizes is None else _spread(led_bytes, staying),
        racks_missing=sum(
            max(0, racks_wanted(len(brokers), racks) - len(racks_of(brokers, all_racks)))
            for brokers in replicas.values()
        ),
    )


def _spread(loads: Mapping[int, int], brokers: Collection[int]) -> int:
    values = [loads[broker] for broker in brokers]
    return max(values, default=0) - min(values, default=0)


PlanViolation = Literal["factor", "racks", "balance", "source"]
"""Says what a plan may make worse when it is allowed to.

`factor`: a partition has fewer replicas. `racks`: it is in fewer racks. `balance`: the loads of the brokers
are less even. `source`: no replica is alive to copy from, so that the move waits until one is.
"""


def validate(
    snapshot: ClusterSnapshot,
    target: Replicas,
    *,
    intent: str = "assign",
    allow: Collection[PlanViolation] = (),
    leaving: Collection[int] = (),
    causes: Mapping[TopicPartition, str] | None = None,
    least_moves: int | None = None,
    notes: Sequence[str] = (),
) -> Plan:
    """Makes a plan of target lists.

    Args:
        target: replica lists by partition; a partition that is not named stays as it is.
        intent: what was asked for, in the words of the command line.
        leaving: brokers that are to be empty afterwards; evenness is that of the others.
        causes: why a partition changes, where there is more to say than which replica goes where.
        least_moves: a lower bound that the planner has proven; by default what the target itself needs.

    Raises:
        PlacementError: the snapshot or the target is not valid; see `check_snapshot` and `check_target`.
        PlanRefusedError: it would make something worse that is not allowed to get worse.
    """
    check_snapshot(snapshot)
    check_target(snapshot, target)
    racks = racks_in_use(snapshot.brokers, snapshot.rack_mode)
    changes = []
    for tp, after in sorted(target.items()):
        before = snapshot.replicas[tp]
        if before != after:
            cause = (causes or {}).get(tp, "")
            changes.append(
                PlannedMove(
                    topic_partition=tp,
                    before=before,
                    after=after,
                    reason=_reason(before, after, racks, cause),
                )
            )
    old, new = (
        skew(snapshot, snapshot.replicas, leaving),
        skew(snapshot, {**snapshot.replicas, **target}, leaving),
    )
    lost = [one for one in _violations(snapshot, changes, old, new, racks) if one[0] not in allow]
    if lost:
        raise PlanRefusedError(intent, [text for _, text in lost], sorted({kind for kind, _ in lost}))
    moves = sum(len(change.added) for change in changes)
    return Plan(
        intent=intent,
        changes=tuple(changes),
        before=old,
        after=new,
        moves=moves,
        bytes=bytes_moved(changes, snapshot.sizes),
        leader_changes=sum(change.leader_changes for change in changes),
        least_moves=moves if least_moves is None else least_moves,
        notes=(*notes, *_notes(snapshot, leaving), *_rack_notes(old, new)),
    )


def bytes_moved(changes: Collection[PlannedMove], sizes: Mapping[TopicPartition, int] | None) -> int | None:
    """Returns what changes copy, in bytes; None where sizes are not known."""
    if sizes is None:
        return None
    return sum(sizes[change.topic_partition] * len(change.added) for change in changes)


def check_snapshot(snapshot: ClusterSnapshot) -> None:
    """Raises PlacementError for what no planner can work with; the message names the partition or broker."""
    ids = [broker.id for broker in snapshot.brokers]
    if len(set(ids)) < len(ids):
        twice = sorted({one for one in ids if ids.count(one) > 1})
        raise PlacementError(f"{brokers_named(twice, 'is', 'are')} named twice")
    if wrong := [broker for broker in ids if broker < 0]:
        raise PlacementError(f"brokers {wrong}: an id is never negative")
    for tp, replicas in snapshot.replicas.items():
        _check_list(tp, replicas)
    if snapshot.sizes is not None:
        for tp in snapshot.replicas:
            if snapshot.sizes.get(tp, -1) < 0:
                raise PlacementError(f"{tp}: expected its size in bytes, found {snapshot.sizes.get(tp)}")
    racks_in_use(snapshot.brokers, snapshot.rack_mode)


def check_target(snapshot: ClusterSnapshot, target: Replicas) -> None:
    """Raises PlacementError: an unknown partition, a list that repeats a broker, an unregistered newcomer."""
    known = {broker.id for broker in snapshot.brokers}
    for tp, replicas in target.items():
        if tp not in snapshot.replicas:
            raise PlacementError(f"{tp} does not exist")
        _check_list(tp, replicas)
        if unknown := sorted(set(replicas) - known - set(snapshot.replicas[tp])):
            raise PlacementError(f"{tp}: {brokers_named(unknown, 'is', 'are')} not registered")


def _check_list(tp: TopicPartition, replicas: Sequence[int]) -> None:
    if not replicas:
        raise PlacementError(f"{tp}: the replica list is empty")
    if len(set(replicas)) < len(replicas):
        raise PlacementError(f"{tp}: the replica list {list(replicas)} repeats a broker")


def _reason(before: Sequence[int], after: Sequence[int], racks: Mapping[int, str], cause: str) -> str:
    def named(broker: int) -> str:
        return f"{broker} ({racks[broker]})" if broker in racks else str(broker)

    dropped = [broker for broker in before if broker not in after]
    added = [broker for broker in after if broker not in before]
    parts = [f"{named(one)} -> {named(other)}" for one, other in zip(dropped, added, strict=False)]
    parts += [f"{named(broker)} leaves" for broker in dropped[len(added) :]]
    parts += [f"{named(broker)} joins" for broker in added[len(dropped) :]]
    if before[0] != after[0]:
        parts.append(f"leader {before[0]} -> {after[0]}")
    elif not parts:
        parts.append("order of followers only")
    return ", ".join(parts) + (f": {cause}" if cause else "")


def _violations(
    snapshot: ClusterSnapshot,
    changes: Sequence[PlannedMove],
    old: Skew,
    new: Skew,
    racks: Mapping[int, str],
) -> Iterator[tuple[PlanViolation, str]]:
    known = {broker.id for broker in snapshot.brokers}
    for change in changes:
        tp, before, after = change.topic_partition, change.before, change.after
        if len(after) < len(before):
            yield "factor", f"{tp} would have {count(len(after), 'replica')} instead of {len(before)}"
        # Fewer replicas cannot be in as many racks; that loss is named once, above.
        was = min(len(racks_of(before, racks)), racks_wanted(len(after), racks))
        if (now := len(racks_of(after, racks))) < was:
            yield (
                "racks",
                f"{tp} would be in {count(now, 'rack')} instead of {was}: {list(before)} -> {list(after)}",
            )
        if change.added and not _sources(snapshot, tp, known):
            yield (
                "source",
                f"{tp}: none of {list(before)} is alive and in sync, there is nothing to copy from",
            )
    if new.racks_missing >= old.racks_missing:  # racks go before evenness
        yield from (("balance", text) for text in _less_even(old, new))


def _less_even(old: Skew, new: Skew) -> Iterator[str]:
    """By count, a difference of 1 is even; by size, one of a fifth of the mean (twice the tolerance) is."""
    if old.byte_spread is None or new.byte_spread is None:
        pairs = [
            ("replicas", old.replica_spread, new.replica_spread, 1.0),
            ("preferred leaders", old.leader_spread, new.leader_spread, 1.0),
        ]
    else:
        loads = list(new.loads.values())
        slack = 2 * TOLERANCE / max(1, len(loads))
        hosted, led = sum(load.bytes or 0 for load in loads), sum(load.leader_bytes or 0 for load in loads)
        pairs = [
            ("bytes of replicas", old.byte_spread, new.byte_spread, slack * hosted),
            ("bytes of leaders", old.leader_byte_spread or 0, new.leader_byte_spread or 0, slack * led),
        ]
    for what, was, now, even in pairs:
        if now > max(was, even):
            yield f"the loads of the brokers would differ by {now} {what} instead of {was}"


def _sources(snapshot: ClusterSnapshot, tp: TopicPartition, known: Collection[int]) -> list[int]:
    """Replicas that a new one can be copied from."""
    in_sync = None if snapshot.in_sync is None else snapshot.in_sync.get(tp)
    return [
        broker
        for broker in snapshot.replicas[tp]
        if broker in known and (in_sync is None or broker in in_sync)
    ]


def _rack_notes(old: Skew, new: Skew) -> Iterator[str]:
    if new.racks_missing < old.racks_missing:
        more = count(old.racks_missing - new.racks_missing, "rack")
        yield f"partitions come into {more} more, summed"
        yield from (f"{text}, for the sake of the racks" for text in _less_even(old, new))
    if new.racks_missing:
        yield f"racks still missing, summed over partitions: {new.racks_missing}"


def _notes(snapshot: ClusterSnapshot, leaving: Collection[int]) -> Iterator[str]:
    known = {broker.id for broker in snapshot.brokers}
    gone: dict[int, int] = {}
    for replicas in snapshot.replicas.values():
        for broker in replicas:
            if broker not in known and broker not in leaving:
                gone[broker] = gone.get(broker, 0) + 1
    for broker, number in sorted(gone.items()):
        yield (
            f"broker {broker} is not registered and keeps its {count(number, 'replica')}: "
            f"`decommission {broker}` moves them"
        )
    if not racks_in_use(snapshot.brokers, snapshot.rack_mode) and any(
        broker.rack is not None for broker in snapshot.brokers
    ):
        yield "racks were ignored"
