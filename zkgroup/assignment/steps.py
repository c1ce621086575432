"""A rebalance in steps: at most so many partitions leave a living owner at a time.

The target is the assignment that the strategy gives without a limit. A step carries out as many of its moves
as the limit allows; the other partitions stay where they are. A move is one of a partition to another member
while the member that had it is registered; what a dead member had goes to its new owner in the first step.

When the group changes during a step, its moves may be anywhere between old and new owner. They stay as they
are and count against the limit, until they are known to be done. Since a balanced assignment is at most as
far from the new step as from the last one, the steps come to an end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from zkgroup.assignment.strategies import Owners, assign
from zkgroup.model import EvaluatedMember, TopicPartition
from zkgroup.model.assignors import Racks


class RebalanceStep(NamedTuple):
    """The assignment of one step."""

    owners: Owners
    moving: Owners
    """The moves of the step that are not known to be done: partition to the thread that had it."""


def next_step(
    strategy: str,
    members: Sequence[EvaluatedMember],
    partitions: Mapping[str, Sequence[int]],
    last: RebalanceStep,
    racks: Racks,
    living: Collection[str],
    limit: int,
) -> RebalanceStep:
    """The step after `last`, whose `moving` may be under way still.

    Args:
        living: the registered members. Static members that are away are in `members` only.
        limit: the number of moves at a time, at least 1.
    """
    threads = {member.member: member.threads for member in members}

    def may_have(thread: str | None, tp: TopicPartition) -> bool:
        member, number = _parts(thread)
        return member in living and number < threads.get(member, {}).get(tp.topic, 0)

    under_way = {
        tp: source
        for tp, source in last.moving.items()
        if may_have(last.owners.get(tp), tp) and _parts(source)[0] in living
    }
    homes = dict(last.owners)
    for tp, source in last.moving.items():
        if tp not in under_way and not may_have(homes.get(tp), tp):
            homes[tp] = source  # the new owner is gone, and the one before it may have the partition still
    owners = dict(assign(strategy, members, partitions, homes, racks).owners)
    under_way = {tp: source for tp, source in under_way.items() if tp in owners}
    owners |= {tp: homes[tp] for tp in under_way}
    moves = [
        tp
        for tp in sorted(owners)
        if tp not in under_way
        and may_have(homes.get(tp), tp)
        and _parts(homes[tp])[0] != _parts(owners[tp])[0]
    ]
    room = max(0, limit - len(under_way))
    owners |= {tp: homes[tp] for tp in moves[room:]}
    return RebalanceStep(owners, under_way | {tp: homes[tp] for tp in moves[:room]})


def _parts(thread: str | None) -> tuple[str, int]:
    member, _, number = (thread or "").rpartition("-")
    return member, int(number) if number.isdecimal() else 0
