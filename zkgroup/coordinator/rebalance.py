"""The join phase and the sync phase of a group, and the timers that end them.

    prepare_rebalance: members join again; ends when all have, or by the join timer (or the initial delay)
    complete_join:     the next generation; its members sync, and the sync timer removes those that do not
    assignment stored: Stable

Source: kafka/coordinator/group/GroupCoordinator.scala@2.8.2 (prepareRebalance, onCompleteJoin,
removeMemberAndUpdateGroup, onExpirePendingSync), DelayedJoin.scala (initial delay).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from zkgroup.coordinator.context import CoordinatorContext, OnWritten
from zkgroup.coordinator.events import JOIN_ERRORS, WriteOutcome
from zkgroup.coordinator.group import ConsumerGroupState, GroupMetadata, MemberMetadata
from zkgroup.coordinator.history import assignments_by_name, note_begin
from zkgroup.coordinator.records import group_record
from zkgroup.model.error_codes import ErrorCode
from zkgroup.wire.groups import JoinedMember, JoinGroupResponse, SyncGroupResponse


def arm_timers(context: CoordinatorContext, group: GroupMetadata) -> None:
    """Gives a new group object its timers, and its members theirs."""
    group.join_timer.on_expiry = partial(_join_timer_fired, context, group)
    group.sync_timer.on_expiry = partial(_sync_timer_fired, context, group)
    for member in group.members.values():
        add_session_timer(context, group, member)


def add_session_timer(context: CoordinatorContext, group: GroupMetadata, member: MemberMetadata) -> None:
    """Gives a member its timer."""
    member.session_timer.on_expiry = partial(_session_expired, context, group, member)


def restart_session(context: CoordinatorContext, member: MemberMetadata) -> None:
    """The member lives: its session is as long again."""
    context.timers.set(member.session_timer, context.now_ms + member.session_timeout_ms)


def drop_member(
    context: CoordinatorContext,
    group: GroupMetadata,
    member: MemberMetadata,
    error: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID,
) -> None:
    """Removes a member and answers its parked requests; the group goes on as it is."""
    answer_join(context, group, member, JoinGroupResponse(error=error, member_id=""))
    answer_sync(context, member, SyncGroupResponse(error=error))
    context.timers.cancel(member.session_timer)
    group.remove(member)


def remove_member(
    context: CoordinatorContext, group: GroupMetadata, member: MemberMetadata, reason: str
) -> None:
    """Removes a member, which starts a rebalance, or may complete the one that runs."""
    drop_member(context, group, member)
    if group.state is ConsumerGroupState.PREPARING_REBALANCE:
        try_complete_join(context, group)
    else:
        maybe_prepare_rebalance(context, group, reason)


def _session_expired(context: CoordinatorContext, group: GroupMetadata, member: MemberMetadata) -> None:
    """A member was silent. One with a parked request cannot send heartbeats, so only a new one expires."""
    if member.is_new or not member.is_parked:
        context.log("member_expired", group, member=member.member_id)
        remove_member(context, group, member, f"member {member.member_id} expired")


def remove_pending(context: CoordinatorContext, group: GroupMetadata, member_id: str) -> None:
    """Forgets an id that was given with MEMBER_ID_REQUIRED; the join phase may have waited for it."""
    context.timers.cancel(group.pending_members.pop(member_id))
    if group.state is ConsumerGroupState.PREPARING_REBALANCE:
        try_complete_join(context, group)


def answer_join(
    context: CoordinatorContext, group: GroupMetadata, member: MemberMetadata, result: JoinGroupResponse
) -> None:
    """Answers the parked join of a member, if it has one."""
    request_id = group.take_join(member)
    if request_id is not None:
        context.reply(request_id, result)


def answer_sync(context: CoordinatorContext, member: MemberMetadata, result: SyncGroupResponse) -> bool:
    """Answers the parked sync of a member; False if it has none."""
    request_id, member.parked_sync = member.parked_sync, None
    if request_id is not None:
        context.reply(request_id, result)
    return request_id is not None


def fail_syncs(context: CoordinatorContext, group: GroupMetadata, error: ErrorCode) -> None:
    """Drops all assignments and answers the parked syncs with an error."""
    for member in group.members.values():
        member.assignment = b""
        if answer_sync(context, member, SyncGroupResponse(error=error)):
            restart_session(context, member)


def member_list(group: GroupMetadata) -> tuple[JoinedMember, ...]:
    """The members with their metadata for the selected protocol."""
    assert group.protocol is not None
    return tuple(
        JoinedMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata(group.protocol),
        )
        for member in group.members_in_order()
    )


def joined(group: GroupMetadata, member: MemberMetadata) -> JoinGroupResponse:
    """The present generation, for a member: with the members for the leader."""
    is_leader = group.leader == member.member_id
    return JoinGroupResponse(
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader or "",
        member_id=member.member_id,
        members=member_list(group) if is_leader else (),
    )


def maybe_prepare_rebalance(context: CoordinatorContext, group: GroupMetadata, reason: str) -> None:
    """Starts a rebalance unless one is being prepared."""
    if group.can_rebalance:
        prepare_rebalance(context, group, reason)


def prepare_rebalance(context: CoordinatorContext, group: GroupMetadata, reason: str) -> None:
    """Starts a rebalance: all members have to join again. A frozen group keeps its generation."""
    if group.is_frozen and group.state is ConsumerGroupState.STABLE:
        context.log("rebalance_held", group, reason=reason)
        return
    if group.state is ConsumerGroupState.COMPLETING_REBALANCE:
        fail_syncs(context, group, ErrorCode.REBALANCE_IN_PROGRESS)
    context.timers.cancel(group.sync_timer)
    group.assignment_write = None
    was_empty = group.state is ConsumerGroupState.EMPTY
    context.transition(group, ConsumerGroupState.PREPARING_REBALANCE, reason)
    group.rebalance_started_ms = context.now_ms
    note_begin(group, reason, context.now_ms)
    if group.members:
        _reserve_if_needed(context, group)
    if was_empty:
        delay = context.settings.group_initial_rebalance_delay_ms
        group.has_new_member = False
        group.remaining_delay_ms = max(group.rebalance_timeout_ms - delay, 0)
        _arm_join_timer(context, group, delay)
    else:
        _arm_join_timer(context, group, group.rebalance_timeout_ms)
        try_complete_join(context, group)


def _arm_join_timer(context: CoordinatorContext, group: GroupMetadata, delay_ms: int) -> None:
    group.join_delay_ms = delay_ms
    context.timers.set(group.join_timer, context.now_ms + delay_ms)


def try_complete_join(context: CoordinatorContext, group: GroupMetadata) -> None:
    """Completes the join phase early if all members have joined; the initial delay cannot end early."""
    if group.remaining_delay_ms is None and group.has_all_members_joined:
        complete_join(context, group)


def _join_timer_fired(context: CoordinatorContext, group: GroupMetadata) -> None:
    remaining = group.remaining_delay_ms
    if remaining and group.has_new_member:
        group.has_new_member = False
        group.remaining_delay_ms = max(remaining - group.join_delay_ms, 0)
        _arm_join_timer(context, group, min(context.settings.group_initial_rebalance_delay_ms, remaining))
    else:
        complete_join(context, group)


def complete_join(context: CoordinatorContext, group: GroupMetadata) -> None:
    """Ends the join phase: members that have not joined are removed, the others are the next generation.

    Static members stay although they have not joined; if there is no other member, the phase goes on.
    """
    group.remaining_delay_ms = None
    for member in [each for each in group.members.values() if each.parked_join is None]:
        if not member.is_static:
            drop_member(context, group, member)
            context.log("member_did_not_join", group, member=member.member_id)
    if group.members and not group.elect_joined_leader():
        _arm_join_timer(context, group, group.rebalance_timeout_ms)
        return
    context.timers.cancel(group.join_timer)
    if group.members and not group.is_next_generation_reserved:
        group.is_completion_due = True
        _reserve_if_needed(context, group)
        return
    _start_generation(context, group)


def _start_generation(context: CoordinatorContext, group: GroupMetadata) -> None:
    group.is_completion_due = False
    before = group.state
    group.start_generation(context.now_ms)
    context.log_transition(group, before, "all members have joined" if group.members else "no members")
    if group.rebalance_started_ms is not None:
        context.log("join_completed", group, ms=context.now_ms - group.rebalance_started_ms)
    if not group.members:
        group.is_marked = False
        group.reservation = None
        store_group(context, group, {}, _ignore)  # without it the former generation is loaded, and expires
        return
    for member in group.members.values():
        answer_join(context, group, member, joined(group, member))
        restart_session(context, member)
        member.is_new = False
        group.pending_sync.add(member.member_id)
    context.timers.set(group.sync_timer, context.now_ms + group.rebalance_timeout_ms)


def _ignore(outcome: WriteOutcome) -> None:
    """The outcome changes nothing."""


def give_way(context: CoordinatorContext, group: GroupMetadata) -> None:
    """Removes all members at once, because ZooKeeper consumers are in the group, and stores the empty group.

    Parked requests get 23, as later joins do while these are there; heartbeats and commits of the former
    members get 25.
    """
    group.is_frozen = False
    for member in list(group.members.values()):
        drop_member(context, group, member, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        context.log("member_gave_way", group, member=member.member_id)
    maybe_prepare_rebalance(context, group, "ZooKeeper consumers are in the group")
    if group.state is ConsumerGroupState.PREPARING_REBALANCE:
        complete_join(context, group)


def _reserve_if_needed(context: CoordinatorContext, group: GroupMetadata) -> None:
    """Reserves generations in ZooKeeper, and sets the marker of the group, while members join."""
    if group.is_next_generation_reserved or group.reservation is not None:
        return
    generation = group.generation_to_reserve()

    def written(outcome: WriteOutcome) -> None:
        _reserved(context, group, write_id, generation, outcome)

    write_id = context.reserve(group, written)
    group.reservation = write_id


def _reserved(
    context: CoordinatorContext, group: GroupMetadata, write_id: int, generation: int, outcome: WriteOutcome
) -> None:
    if outcome is WriteOutcome.STORED:
        group.reserved_generation = max(group.reserved_generation, generation)
    if group.reservation != write_id:
        return
    group.reservation = None
    if outcome is WriteOutcome.STORED:
        group.is_marked = True
        if group.is_completion_due:
            complete_join(context, group)
    else:
        _refuse_joins(context, group, JOIN_ERRORS[outcome], f"generations not reserved: {outcome.value}")


def _refuse_joins(context: CoordinatorContext, group: GroupMetadata, error: ErrorCode, reason: str) -> None:
    """Answers the parked joins with an error, and forgets the members that are new.

    A group that was empty before is empty again, without a new generation.
    """
    group.is_completion_due = False
    for member in list(group.members.values()):
        if member.is_new or not group.is_marked:
            drop_member(context, group, member, error)
        else:
            answer_join(context, group, member, JoinGroupResponse(error=error, member_id=member.member_id))
            restart_session(context, member)
    if group.is_marked:
        _arm_join_timer(context, group, group.rebalance_timeout_ms)
    else:
        group.remaining_delay_ms = None
        context.timers.cancel(group.join_timer)
        context.transition(group, ConsumerGroupState.EMPTY, reason)


def store_group(
    context: CoordinatorContext, group: GroupMetadata, assignments: Mapping[str, bytes], then: OnWritten
) -> int:
    """Stores the group with these assignments; `then` gets the outcome. Returns the id of the write."""
    record = group_record(group, assignments, context.now_ms)
    stored = assignments_by_name(group, assignments)
    begin, group.rebalance_begin = group.rebalance_begin, None

    def written(outcome: WriteOutcome) -> None:
        if outcome is WriteOutcome.STORED:
            group.reserved_generation = max(group.reserved_generation, record.reserved_generation)
            group.stored_assignments = stored
        else:
            group.rebalance_begin = begin or group.rebalance_begin
            context.log("group_not_stored", group, generation=record.generation, outcome=outcome.value)
        then(outcome)

    return context.write_group(record, written)


def synced(context: CoordinatorContext, group: GroupMetadata, member: MemberMetadata) -> None:
    """A member has synced; the sync timer waits for the others."""
    group.pending_sync.discard(member.member_id)
    if not group.pending_sync:
        context.timers.cancel(group.sync_timer)


def _sync_timer_fired(context: CoordinatorContext, group: GroupMetadata) -> None:
    """Removes the members that have not synced, however often they send heartbeats."""
    late = [group.members[member_id] for member_id in sorted(group.pending_sync)]
    for member in late:
        context.log("member_did_not_sync", group, member=member.member_id)
        drop_member(context, group, member)
    if late:
        who = "1 member" if len(late) == 1 else f"{len(late)} members"
        maybe_prepare_rebalance(context, group, f"{who} did not sync")
