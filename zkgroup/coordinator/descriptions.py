"""A group as tools see it: with assignments only while it is stable, as in Kafka."""

from __future__ import annotations

from zkgroup.coordinator.effects import DescribedGroupResult, MemberSummary
from zkgroup.coordinator.group import ConsumerGroupState, GroupMetadata, MemberMetadata


def describe(group: GroupMetadata) -> DescribedGroupResult:
    """The description of a group that is known."""
    is_stable = group.state is ConsumerGroupState.STABLE
    return DescribedGroupResult(
        group_id=group.group_id,
        state=group.state.value,
        phase=group.phase,
        generation=group.generation,
        protocol_type=group.protocol_type or "",
        protocol=(group.protocol or "") if is_stable else "",
        leader=group.leader or "",
        members=tuple(_described(group, member, is_stable) for member in group.members_in_order()),
        pending_members=len(group.pending_members),
        join_expires_ms=group.join_timer.deadline_ms,
        sync_expires_ms=group.sync_timer.deadline_ms,
    )


def _described(group: GroupMetadata, member: MemberMetadata, is_stable: bool) -> MemberSummary:
    protocol = group.protocol if is_stable else None
    return MemberSummary(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        metadata=b"" if protocol is None else member.metadata(protocol),
        assignment=member.assignment if is_stable else b"",
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_expires_ms=member.session_timer.deadline_ms,
        has_joined=member.parked_join is not None,
        is_awaiting_sync=member.member_id in group.pending_sync,
    )
