"""The rebalances of a group, as they are stored with each generation (history, recipes 25). Pure.

A rebalance begins with the first change since a generation was stored, and ends when the next one is stored:
one that is begun again meanwhile is the same. Members are named by their group.instance.id, if they have one,
so that a static member that is started again has neither left nor joined.
"""

from __future__ import annotations

from collections.abc import Mapping

from zkgroup.assignment.consumer_protocol import CONSUMER_PROTOCOL_TYPE, decode_assignment
from zkgroup.coordinator.group import GroupMetadata, MemberMetadata, RebalanceBegin
from zkgroup.errors import CorruptFrameError
from zkgroup.model import TopicPartition
from zkgroup.znodes.group_history import RebalanceRecord


def note_begin(group: GroupMetadata, reason: str, now_ms: int) -> None:
    """Notes why a rebalance begins, unless one has begun."""
    if group.rebalance_begin is None:
        group.rebalance_begin = RebalanceBegin(now_ms, reason)


def name_of(member: MemberMetadata) -> str:
    """The name of a member in the history."""
    return member.group_instance_id or member.member_id


def assignments_by_name(group: GroupMetadata, assignments: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """The assignments, which are by member id, by the members' names in the history."""
    return {name_of(each): assignments[each.member_id] for each in group.members.values()}


def rebalance_of(
    group: GroupMetadata, assignments: Mapping[str, bytes], now_ms: int
) -> RebalanceRecord | None:
    """The rebalance that ends when these assignments are stored; None for a write without one.

    `time_ms` is of the machine's clock.
    """
    begin = group.rebalance_begin
    if begin is None:
        return None
    before, after = group.stored_assignments, assignments_by_name(group, assignments)
    is_known = group.protocol_type in (None, CONSUMER_PROTOCOL_TYPE)
    return RebalanceRecord(
        time_ms=begin.ms,
        generation=group.generation,
        reason=begin.reason,
        joined=tuple(sorted(after.keys() - before.keys())),
        left=tuple(sorted(before.keys() - after.keys())),
        moved=_moved(before, after) if is_known else None,
        took_ms=now_ms - begin.ms,
    )


def _moved(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> int | None:
    """The number of partitions that another member has now; None where an assignment is not readable.

    Only assignments that differ are decoded: a partition that moves changes two of them.
    """
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    try:
        owners: dict[TopicPartition, str] = {
            partition: name
            for name in changed
            for partition in decode_assignment(before.get(name, b"")).partitions
        }
        return sum(
            owners.get(partition, name) != name
            for name in changed
            for partition in decode_assignment(after.get(name, b"")).partitions
        )
    except CorruptFrameError:
        return None
