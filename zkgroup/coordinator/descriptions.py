"""A group as tools see it: with assignments only while it is stable, as in Kafka."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from zkgroup.coordinator.events import DescribeGroup
from zkgroup.coordinator.group import ConsumerGroupState, GroupMetadata, MemberMetadata
from zkgroup.wire.groups import NO_TIMER, DescribedGroup, DescribedMember
from zkgroup.wire.metadata import NO_OPERATIONS

GROUP_OPERATIONS: Final = sum(1 << code for code in (3, 6, 8))
"""Read, delete and describe, as bits: every operation on a group, because there are no ACLs."""


def describe(group: GroupMetadata, request: DescribeGroup, now_ms: int) -> DescribedGroup:
    """The description of a group; one without members that is not known is Dead."""
    is_stable = group.state is ConsumerGroupState.STABLE
    timers_at_ms = now_ms if request.include_timers else None
    described = DescribedGroup(
        group=group.group_id,
        state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol=(group.protocol or "") if is_stable else "",
        members=tuple(_member(group, each, timers_at_ms) for each in group.members_in_order()),
        authorized_operations=GROUP_OPERATIONS if request.include_authorized_operations else NO_OPERATIONS,
    )
    if timers_at_ms is None:
        return described
    ends_ms = group.join_timer.deadline_ms
    return replace(
        described,
        phase=group.phase.value,
        generation=group.generation,
        leader=group.leader or "",
        pending_members=len(group.pending_members),
        phase_ends_in_ms=_left_ms(group.sync_timer.deadline_ms if ends_ms is None else ends_ms, now_ms),
    )


def _member(group: GroupMetadata, member: MemberMetadata, timers_at_ms: int | None) -> DescribedMember:
    is_stable = group.state is ConsumerGroupState.STABLE
    protocol = group.protocol if is_stable else None
    described = DescribedMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        metadata=b"" if protocol is None else member.metadata(protocol),
        assignment=member.assignment if is_stable else b"",
    )
    if timers_at_ms is None:
        return described
    has_joined = member.parked_join is not None
    session_ms = None if has_joined else member.session_timer.deadline_ms
    return replace(
        described,
        session_expires_in_ms=_left_ms(session_ms, timers_at_ms),
        has_joined=has_joined,
        is_awaiting_sync=member.member_id in group.pending_sync,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
    )


def _left_ms(at_ms: int | None, now_ms: int) -> int:
    return NO_TIMER if at_ms is None else max(0, at_ms - now_ms)
