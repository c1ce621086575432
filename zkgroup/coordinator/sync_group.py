"""SyncGroup: members get their assignments once the leader's are stored.

Source: kafka/coordinator/group/GroupCoordinator.scala@2.8.2 (doSyncGroup).
"""

from __future__ import annotations

from collections.abc import Mapping

from zkgroup.coordinator.context import CoordinatorContext
from zkgroup.coordinator.events import SyncGroup, WriteOutcome
from zkgroup.coordinator.group import ConsumerGroupState, GroupMetadata, MemberMetadata
from zkgroup.coordinator.outcomes import SYNC_ERRORS
from zkgroup.coordinator.rebalance import (
    answer_sync,
    fail_syncs,
    give_way,
    maybe_prepare_rebalance,
    restart_session,
    store_group,
    synced,
)
from zkgroup.model.error_codes import ErrorCode
from zkgroup.wire.groups import SyncGroupResponse


def refuse(context: CoordinatorContext, sync: SyncGroup, error: ErrorCode) -> None:
    """Answers a sync with an error."""
    context.reply(sync.request_id, SyncGroupResponse(error=error))


def sync_group(context: CoordinatorContext, group: GroupMetadata, sync: SyncGroup) -> None:
    """A sync of a group that is known."""
    error = _error_of(group, sync)
    if error is not ErrorCode.NONE:
        refuse(context, sync, error)
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


def _error_of(group: GroupMetadata, sync: SyncGroup) -> ErrorCode:
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
