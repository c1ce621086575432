"""Heartbeat, SyncGroup and LeaveGroup. Members get their assignments once the leader's are stored.

Source: kafka/coordinator/group/GroupCoordinator.scala@2.8.2 (handleHeartbeat, doSyncGroup,
handleLeaveGroup); a group.instance.id that is not registered is an unknown member, as in 3.9.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from zkgroup.coordinator.context import CoordinatorContext
from zkgroup.coordinator.events import SYNC_ERRORS, Heartbeat, LeaveGroup, SyncGroup, WriteOutcome
from zkgroup.coordinator.group import ConsumerGroupState, GroupMetadata, MemberMetadata
from zkgroup.coordinator.rebalance import (
    answer_sync,
    fail_syncs,
    give_way,
    maybe_prepare_rebalance,
    remove_member,
    remove_pending,
    restart_session,
    store_group,
    synced,
)
from zkgroup.model.error_codes import ErrorCode
from zkgroup.wire.groups import (
    HeartbeatResponse,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
    SyncGroupResponse,
)


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


def refuse_sync(context: CoordinatorContext, sync: SyncGroup, error: ErrorCode) -> None:
    """Answers a sync with an error."""
    context.reply(sync.request_id, SyncGroupResponse(error=error))


def sync_group(context: CoordinatorContext, group: GroupMetadata, sync: SyncGroup) -> None:
    """A sync of a group that is known."""
    error = _sync_error(group, sync)
    if error is not ErrorCode.NONE:
        refuse_sync(context, sync, error)
        return
    member = group.members[sync.member_id]
    synced(context, group, member)
    if group.state is ConsumerGroupState.STABLE:
        context.reply(sync.request_id, _assigned(group, member))
        restart_session(context, member)
        return
    # A repeated sync on another connection: no client may wait for the answer of the first.
    answer_sync(context, member, SyncGroupResponse(error=ErrorCode.REBALANCE_IN_PROGRESS))
    member.parked_sync = sync.request_id
    if group.leader == member.member_id and group.assignment_write is None:
        _store_assignments(context, group, sync.assignments)


def _sync_error(group: GroupMetadata, sync: SyncGroup) -> ErrorCode:
    if group.state is ConsumerGroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.error_of(sync.member_id, sync.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if sync.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if sync.protocol_type is not None and sync.protocol_type != group.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if sync.protocol is not None and sync.protocol != group.protocol:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is ConsumerGroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _assigned(group: GroupMetadata, member: MemberMetadata) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol=group.protocol, assignment=member.assignment
    )


def _store_assignments(context: CoordinatorContext, group: GroupMetadata, given: Mapping[str, bytes]) -> None:
    """Stores what the leader assigned: nothing to members that it left out, and nothing for other ids."""
    assignments = {member_id: given.get(member_id, b"") for member_id in group.members}

    def written(outcome: WriteOutcome) -> None:
        if group.assignment_write == write_id:  # else a rebalance has begun, or the group is gone
            group.assignment_write = None
            _assignments_written(context, group, assignments, outcome)

    write_id = store_group(context, group, assignments, written)
    group.assignment_write = write_id


def _assignments_written(
    context: CoordinatorContext, group: GroupMetadata, assignments: Mapping[str, bytes], outcome: WriteOutcome
) -> None:
    if outcome is WriteOutcome.ZOOKEEPER_MEMBERS:
        give_way(context, group)
        return
    error = SYNC_ERRORS[outcome]
    if error is not ErrorCode.NONE:
        fail_syncs(context, group, error)
        maybe_prepare_rebalance(context, group, f"assignments not stored: {outcome.value}")
        return
    for member in group.members.values():
        member.assignment = assignments[member.member_id]
    for member in group.members.values():
        if answer_sync(context, member, _assigned(group, member)):
            restart_session(context, member)
    context.log("sync_completed", group, ms=context.now_ms - group.state_timestamp_ms)
    context.transition(group, ConsumerGroupState.STABLE, "assignments are stored")


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
