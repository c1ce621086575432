"""JoinGroup: the checks in Kafka's order, then what the state of the group asks for.

Source: kafka/coordinator/group/GroupCoordinator.scala@2.8.2 (doUnknownJoinGroup, doJoinGroup,
updateStaticMemberAndRebalance).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from zkgroup.coordinator.context import CoordinatorContext
from zkgroup.coordinator.events import JOIN_ERRORS, JoinGroup, WriteOutcome
from zkgroup.coordinator.group import ConsumerGroupState, GroupMetadata, MemberMetadata, Timer
from zkgroup.coordinator.rebalance import (
    add_session_timer,
    answer_join,
    answer_sync,
    drop_member,
    joined,
    maybe_prepare_rebalance,
    prepare_rebalance,
    remove_pending,
    restart_session,
    store_group,
    try_complete_join,
)
from zkgroup.coordinator.settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from zkgroup.model.error_codes import ErrorCode
from zkgroup.wire.groups import JoinGroupResponse, SyncGroupResponse

STRING_BYTES_MAX: Final = 32_767
"""Longest string of Kafka's protocol. A member id is longer than the id of its client, or of its instance."""


def refuse(context: CoordinatorContext, join: JoinGroup, error: ErrorCode) -> None:
    """Answers a join with an error, and the id that it came with."""
    context.reply(join.request_id, JoinGroupResponse(error=error, member_id=join.member_id))


def join_group(context: CoordinatorContext, group: GroupMetadata, join: JoinGroup) -> None:
    """A join that the coordinator's own checks let pass."""
    if not group.has_room(join.member_id, context.settings.group_max_size):
        _no_room(context, group, join)
    elif group.state is ConsumerGroupState.DEAD:
        refuse(context, join, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    elif not group.supports(join.protocol_type, join.protocols):
        refuse(context, join, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif not join.member_id:
        _join_without_id(context, group, join)
    elif join.member_id in group.pending_members:
        _join_pending(context, group, join)
    else:
        _join_with_id(context, group, join)
    if group.state is ConsumerGroupState.PREPARING_REBALANCE:
        try_complete_join(context, group)


def _no_room(context: CoordinatorContext, group: GroupMetadata, join: JoinGroup) -> None:
    """Refuses a join of a full group, and forgets the member or the id that it came with."""
    member = group.members.get(join.member_id)
    if member is not None:
        drop_member(context, group, member)
    elif join.member_id in group.pending_members:
        remove_pending(context, group, join.member_id)
    context.reply(join.request_id, JoinGroupResponse(error=ErrorCode.GROUP_MAX_SIZE_REACHED, member_id=""))


def _join_without_id(context: CoordinatorContext, group: GroupMetadata, join: JoinGroup) -> None:
    instance = join.group_instance_id
    member_id = context.new_member_id(join.client_id if instance is None else instance)
    if len(member_id.encode()) > STRING_BYTES_MAX:
        refuse(context, join, ErrorCode.INVALID_REQUEST)
    elif instance is not None and instance in group.static_members:
        _replace_static(context, group, join, member_id)
    elif join.requires_member_id and instance is None:
        timer = Timer(partial(_pending_expired, context, group, member_id))
        group.pending_members[member_id] = timer
        context.timers.set(timer, context.now_ms + join.session_timeout_ms)
        context.reply(
            join.request_id, JoinGroupResponse(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        )
    else:
        _add_member(context, group, join, member_id)


def _pending_expired(context: CoordinatorContext, group: GroupMetadata, member_id: str) -> None:
    context.log("pending_member_expired", group, member=member_id)
    remove_pending(context, group, member_id)


def _join_pending(context: CoordinatorContext, group: GroupMetadata, join: JoinGroup) -> None:
    """The id is used. It was given to a dynamic member, so it cannot come with a group.instance.id."""
    if join.group_instance_id is not None:
        context.reply(join.request_id, JoinGroupResponse(error=ErrorCode.UNKNOWN, member_id=""))
        return
    context.timers.cancel(group.pending_members.pop(join.member_id))
    _add_member(context, group, join, join.member_id)


def _add_member(context: CoordinatorContext, group: GroupMetadata, join: JoinGroup, member_id: str) -> None:
    """Adds a member and starts a rebalance. Its first timer is not its session: it cannot send heartbeats."""
    member = MemberMetadata(
        member_id=member_id,
        group_instance_id=join.group_instance_id,
        client_id=join.client_id,
        client_host=join.client_host,
        session_timeout_ms=join.session_timeout_ms,
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        protocols=join.protocols,
    )
    member.is_new = True
    if group.state is ConsumerGroupState.PREPARING_REBALANCE and group.generation == 0:
        group.has_new_member = True
    group.add(member, join.protocol_type)
    add_session_timer(context, group, member)
    _park(context, group, member, join)
    context.timers.set(member.session_timer, context.now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
    maybe_prepare_rebalance(context, group, f"member {member_id} joins")


def _park(context: CoordinatorContext, group: GroupMetadata, member: MemberMetadata, join: JoinGroup) -> None:
    replaced = group.park_join(member, join.request_id)
    if replaced is not None:
        context.drop_request(replaced)


def _join_with_id(context: CoordinatorContext, group: GroupMetadata, join: JoinGroup) -> None:
    error = group.error_of(join.member_id, join.group_instance_id)
    if error is not ErrorCode.NONE:
        refuse(context, join, error)
        return
    member = group.members[join.member_id]
    is_same = member.protocols == join.protocols
    is_leader = group.leader == member.member_id
    _take_timeouts(member, join)
    if (
        is_same
        and not member.is_new
        and (
            group.state is ConsumerGroupState.COMPLETING_REBALANCE
            or (group.state is ConsumerGroupState.STABLE and (group.is_frozen or not is_leader))
        )
    ):
        context.reply(join.request_id, joined(group, member))
        return
    group.update(member, join.protocols)
    _park(context, group, member, join)
    maybe_prepare_rebalance(context, group, f"member {member.member_id} joins again")


def _take_timeouts(member: MemberMetadata, join: JoinGroup) -> None:
    """Later versions than 2.8 take the timeouts of each join (from 3.4 on)."""
    member.session_timeout_ms = join.session_timeout_ms
    member.rebalance_timeout_ms = join.rebalance_timeout_ms


def _replace_static(context: CoordinatorContext, group: GroupMetadata, join: JoinGroup, new_id: str) -> None:
    """A new process takes a group.instance.id; the requests of the former one are fenced.

    In a stable group there is no rebalance if the next generation would select the same protocol, even where
    the metadata differ (Kafka).
    """
    assert join.group_instance_id is not None
    old_id = group.static_members[join.group_instance_id]
    member = group.members[old_id]
    fenced = ErrorCode.FENCED_INSTANCE_ID
    answer_join(context, group, member, JoinGroupResponse(error=fenced, member_id=old_id))
    answer_sync(context, member, SyncGroupResponse(error=fenced))
    _log_replacement(context, group, member, new_id)
    former = _FormerMember(member, group.leader or "")
    group.replace_id(member, new_id)
    restart_session(context, member)
    group.update(member, join.protocols)
    _take_timeouts(member, join)
    _park(context, group, member, join)
    is_kept = group.state is ConsumerGroupState.STABLE and not member.is_new
    if is_kept and group.select_protocol() == group.protocol:
        assignments = {each.member_id: each.assignment for each in group.members.values()}
        store_group(
            context, group, assignments, partial(_replacement_written, context, group, member, new_id, former)
        )
    elif group.state is not ConsumerGroupState.PREPARING_REBALANCE:
        prepare_rebalance(context, group, f"static member {join.group_instance_id} has a new id")


class _FormerMember:
    """A static member as it was before its id was replaced."""

    def __init__(self, member: MemberMetadata, leader: str) -> None:
        self.member_id = member.member_id
        self.protocols = member.protocols
        self.session_timeout_ms = member.session_timeout_ms
        self.rebalance_timeout_ms = member.rebalance_timeout_ms
        self.leader = leader


def _log_replacement(
    context: CoordinatorContext, group: GroupMetadata, member: MemberMetadata, new_id: str
) -> None:
    """Two living processes with one group.instance.id replace each other again and again."""
    last = member.replaced_ms
    is_repeated = last is not None and context.now_ms - last < member.session_timeout_ms
    context.log(
        "static_member_replaced",
        group,
        instance=member.group_instance_id,
        former=member.member_id,
        member=new_id,
        is_repeated=is_repeated,
    )
    member.replaced_ms = context.now_ms


def _replacement_written(
    context: CoordinatorContext,
    group: GroupMetadata,
    member: MemberMetadata,
    new_id: str,
    former: _FormerMember,
    outcome: WriteOutcome,
) -> None:
    """Answers the new process, unless a rebalance has begun, which will answer it.

    A leader that comes back gets its former id as the leader, so that it does not assign: its assignment
    would not be used.
    """
    is_parked = member.parked_join is not None
    if group.state is not ConsumerGroupState.STABLE or member.member_id != new_id or not is_parked:
        return
    error = JOIN_ERRORS[outcome]
    if error is ErrorCode.NONE:
        result = JoinGroupResponse(
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=former.leader,
            member_id=new_id,
        )
    else:
        group.update(member, former.protocols)
        group.replace_id(member, former.member_id)
        member.session_timeout_ms = former.session_timeout_ms
        member.rebalance_timeout_ms = former.rebalance_timeout_ms
        result = JoinGroupResponse(
            error=error,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=former.leader,
            member_id="",
        )
    answer_join(context, group, member, result)
    restart_session(context, member)
