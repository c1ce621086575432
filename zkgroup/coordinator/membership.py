"""Heartbeat and LeaveGroup.

Source: kafka/coordinator/group/GroupCoordinator.scala@2.8.2 (handleHeartbeat, handleLeaveGroup); a
group.instance.id that is not registered is an unknown member, as in 3.9.1.
"""

from __future__ import annotations

from functools import cache

from zkgroup.coordinator.context import CoordinatorContext
from zkgroup.coordinator.events import Heartbeat, LeaveGroup
from zkgroup.coordinator.group import ConsumerGroupState, GroupMetadata
from zkgroup.coordinator.rebalance import remove_member, remove_pending, restart_session
from zkgroup.model.error_codes import ErrorCode
from zkgroup.wire.groups import HeartbeatResponse, LeaveGroupResponse, LeavingMember, LeftMember


@cache
def heartbeat_response(error: ErrorCode) -> HeartbeatResponse:
    """The response with an error, made once: most requests of members are heartbeats."""
    return HeartbeatResponse(error=error)


def heartbeat(context: CoordinatorContext, group: GroupMetadata, beat: Heartbeat) -> None:
    """A heartbeat for a group that is known."""
    context.reply(beat.request_id, heartbeat_response(_heartbeat_error(context, group, beat)))


def _heartbeat_error(context: CoordinatorContext, group: GroupMetadata, beat: Heartbeat) -> ErrorCode:
    if group.state is ConsumerGroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.error_of(beat.member_id, beat.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if beat.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    restart_session(context, group.members[beat.member_id])
    if group.state is ConsumerGroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave_group(context: CoordinatorContext, group: GroupMetadata | None, leave: LeaveGroup) -> None:
    """Members leave, each with its own result. A group that is unknown has no such members."""
    if group is not None and group.state is ConsumerGroupState.DEAD:
        context.reply(leave.request_id, LeaveGroupResponse(error=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    results = tuple(
        LeftMember(
            member_id=identity.member_id,
            group_instance_id=identity.group_instance_id,
            error=ErrorCode.UNKNOWN_MEMBER_ID if group is None else _leave(context, group, identity),
        )
        for identity in leave.members
    )
    context.reply(leave.request_id, LeaveGroupResponse(error=ErrorCode.NONE, members=results))


def _leave(context: CoordinatorContext, group: GroupMetadata, identity: LeavingMember) -> ErrorCode:
    member_id, instance = identity.member_id, identity.group_instance_id
    if member_id in group.pending_members:
        remove_pending(context, group, member_id)
        return ErrorCode.NONE
    if not member_id and instance is not None:
        member_id = group.static_members.get(instance, "")
    error = group.error_of(member_id, instance)
    if error is ErrorCode.NONE:
        remove_member(context, group, group.members[member_id], f"member {member_id} leaves")
    return error
