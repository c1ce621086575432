"""From target lists to a plan: what it costs, why each partition changes, and whether it may be carried out.

Every plan goes through `review`, those that are made here as well as proposals from elsewhere (`generate`, a
file of the user's). A plan that would make something worse is refused, each reason named, unless the caller
allows that kind of loss.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from zkgroup.errors import PlacementError, PlanRefusedError
from zkgroup.model import TopicPartition
from zkgroup.placement.evening_bytes import TOLERANCE
from zkgroup.placement.figures import figures
from zkgroup.placement.racks import racks_in_use, racks_of, racks_wanted
from zkgroup.placement.values import Change, Figures, Picture, Plan, Replicas
from zkgroup.placement.words import brokers_named, count

Loss = Literal["factor", "racks", "balance", "source"]
"""What a plan may make worse when it is allowed to.

`factor`: a partition has fewer replicas. `racks`: it is in fewer racks. `balance`: the loads of the brokers
are less even. `source`: no replica is alive to copy from, so that the move waits until one is.
"""


def review(
    picture: Picture,
    target: Replicas,
    *,
    intent: str = "assign",
    allow: Collection[Loss] = (),
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
        PlacementError: the picture or the target is not valid; see `check_picture` and `check_target`.
        PlanRefusedError: it would make something worse that is not allowed to get worse.
    """
    check_picture(picture)
    check_target(picture, target)
    racks = racks_in_use(picture.brokers, picture.rack_mode)
    changes = []
    for tp, after in sorted(target.items()):
        before = picture.replicas[tp]
        if before != after:
            cause = (causes or {}).get(tp, "")
            changes.append(
                Change(
                    topic_partition=tp,
                    before=before,
                    after=after,
                    reason=_reason(before, after, racks, cause),
                )
            )
    old, new = (
        figures(picture, picture.replicas, leaving),
        figures(picture, {**picture.replicas, **target}, leaving),
    )
    lost = [one for one in _losses(picture, changes, old, new, racks) if one[0] not in allow]
    if lost:
        raise PlanRefusedError(intent, [text for _, text in lost], sorted({kind for kind, _ in lost}))
    moves = sum(len(change.added) for change in changes)
    return Plan(
        intent=intent,
        changes=tuple(changes),
        before=old,
        after=new,
        moves=moves,
        bytes=bytes_moved(changes, picture.sizes),
        leader_changes=sum(change.leader_changes for change in changes),
        least_moves=moves if least_moves is None else least_moves,
        notes=(*notes, *_notes(picture, leaving), *_rack_notes(old, new)),
    )


def bytes_moved(changes: Collection[Change], sizes: Mapping[TopicPartition, int] | None) -> int | None:
    """What changes copy, in bytes; None where sizes are not known."""
    if sizes is None:
        return None
    return sum(sizes[change.topic_partition] * len(change.added) for change in changes)


def check_picture(picture: Picture) -> None:
    """Raises PlacementError for what no planner can work with; the message names the partition or broker."""
    ids = [broker.id for broker in picture.brokers]
    if len(set(ids)) < len(ids):
        twice = sorted({one for one in ids if ids.count(one) > 1})
        raise PlacementError(f"{brokers_named(twice, 'is', 'are')} named twice")
    if wrong := [broker for broker in ids if broker < 0]:
        raise PlacementError(f"brokers {wrong}: an id is never negative")
    for tp, replicas in picture.replicas.items():
        _check_list(tp, replicas)
    if picture.sizes is not None:
        for tp in picture.replicas:
            if picture.sizes.get(tp, -1) < 0:
                raise PlacementError(f"{tp}: expected its size in bytes, found {picture.sizes.get(tp)}")
    racks_in_use(picture.brokers, picture.rack_mode)


def check_target(picture: Picture, target: Replicas) -> None:
    """Raises PlacementError: an unknown partition, a list that repeats a broker, an unregistered newcomer."""
    known = {broker.id for broker in picture.brokers}
    for tp, replicas in target.items():
        if tp not in picture.replicas:
            raise PlacementError(f"{tp} does not exist")
        _check_list(tp, replicas)
        if unknown := sorted(set(replicas) - known - set(picture.replicas[tp])):
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


def _losses(
    picture: Picture, changes: Sequence[Change], old: Figures, new: Figures, racks: Mapping[int, str]
) -> Iterator[tuple[Loss, str]]:
    known = {broker.id for broker in picture.brokers}
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
        if change.added and not _sources(picture, tp, known):
            yield (
                "source",
                f"{tp}: none of {list(before)} is alive and in sync, there is nothing to copy from",
            )
    if new.racks_missing >= old.racks_missing:  # racks go before evenness
        yield from (("balance", text) for text in _less_even(old, new))


def _less_even(old: Figures, new: Figures) -> Iterator[str]:
    """By count, a difference of 1 is even; by size, one of a fifth of the mean (twice the tolerance) is."""
    if old.byte_spread is None or new.byte_spread is None:
        pairs = [
            ("replicas", old.replica_spread, new.replica_spread, 1.0),
            ("preferred leaders", old.leader_spread, new.leader_spread, 1.0),
        ]
    else:
        loads = list(new.loads.values())
        slack = 2 * TOLERANCE / max(1, len(loads))
        held, led = sum(load.bytes or 0 for load in loads), sum(load.leader_bytes or 0 for load in loads)
        pairs = [
            ("bytes of replicas", old.byte_spread, new.byte_spread, slack * held),
            ("bytes of leaders", old.leader_byte_spread or 0, new.leader_byte_spread or 0, slack * led),
        ]
    for what, was, now, even in pairs:
        if now > max(was, even):
            yield f"the loads of the brokers would differ by {now} {what} instead of {was}"


def _sources(picture: Picture, tp: TopicPartition, known: Collection[int]) -> list[int]:
    """Replicas that a new one can be copied from."""
    in_sync = None if picture.in_sync is None else picture.in_sync.get(tp)
    return [
        broker
        for broker in picture.replicas[tp]
        if broker in known and (in_sync is None or broker in in_sync)
    ]


def _rack_notes(old: Figures, new: Figures) -> Iterator[str]:
    if new.racks_missing < old.racks_missing:
        more = count(old.racks_missing - new.racks_missing, "rack")
        yield f"partitions come into {more} more, summed"
        yield from (f"{text}, for the sake of the racks" for text in _less_even(old, new))
    if new.racks_missing:
        yield f"racks still missing, summed over partitions: {new.racks_missing}"


def _notes(picture: Picture, leaving: Collection[int]) -> Iterator[str]:
    known = {broker.id for broker in picture.brokers}
    gone: dict[int, int] = {}
    for replicas in picture.replicas.values():
        for broker in replicas:
            if broker not in known and broker not in leaving:
                gone[broker] = gone.get(broker, 0) + 1
    for broker, number in sorted(gone.items()):
        yield (
            f"broker {broker} is not registered and keeps its {count(number, 'replica')}: "
            f"`decommission {broker}` moves them"
        )
    if not racks_in_use(picture.brokers, picture.rack_mode) and any(
        broker.rack is not None for broker in picture.brokers
    ):
        yield "racks were not looked at"
