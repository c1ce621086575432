"""The group coordinator of a broker: the slots that it leads, their groups, and which check comes first.

    validity of the group id -> the coordinator serves -> its slot is loading -> its slot is another's
    -> the checks of the request (`join_group`, `sync_group`, `membership`, `offsets`)

Source: kafka/coordinator/group/GroupCoordinator.scala@2.8.2 (validateGroupStatus, handle*, onGroupLoaded,
onGroupUnloaded).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from typing import Final, assert_never

from zkgroup.coordinator import join_group, membership, offsets
from zkgroup.coordinator.context import CoordinatorContext
from zkgroup.coordinator.descriptions import describe
from zkgroup.coordinator.effects import Effect, FetchOffsetsResult, RemoveGroupResult
from zkgroup.coordinator.events import (
    DELETE_ERRORS,
    CommitOffsets,
    CoordinatorEvent,
    DescribeGroup,
    FetchOffsets,
    ForgetGroup,
    GroupRequest,
    GroupWritten,
    Heartbeat,
    JoinGroup,
    LeaseExtended,
    LeaveGroup,
    ListGroups,
    MarkerLost,
    OffsetsWritten,
    RemoveGroup,
    RemoveOffsets,
    SlotEvent,
    SlotKept,
    SlotLoaded,
    SlotLoading,
    SlotUnloaded,
    Started,
    Stopped,
    SyncGroup,
    WriteOutcome,
)
from zkgroup.coordinator.group import ConsumerGroupState, GroupMetadata
from zkgroup.coordinator.group_ids import is_valid_group_id, is_znode_name, slot_of
from zkgroup.coordinator.rebalance import (
    answer_join,
    answer_sync,
    arm_timers,
    give_way,
    prepare_rebalance,
    restart_session,
)
from zkgroup.coordinator.records import GroupRecord, group_record, loaded_group
from zkgroup.coordinator.retention import is_over
from zkgroup.coordinator.settings import CoordinatorSettings
from zkgroup.model.error_codes import ErrorCode
from zkgroup.wire.groups import (
    DescribedGroup,
    JoinGroupResponse,
    LeaveGroupResponse,
    ListedGroup,
    ListGroupsResponse,
    SyncGroupResponse,
)

OnUnload = Callable[[GroupMetadata], None]
_MAY_HAVE_NO_NAME: Final = (CommitOffsets, FetchOffsets, DescribeGroup, RemoveGroup)
"""Requests that accept the empty group id."""
_MAKES_NO_GROUP: Final = (FetchOffsets, DescribeGroup, RemoveGroup, RemoveOffsets)
"""Requests that accept an id of more than `GROUP_ID_BYTES_MAX`: it may be that of ZooKeeper consumers."""


class SlotState(Enum):
    """The state of a slot in its coordinator."""

    NOT_OWNED = "not owned"
    LOADING = "loading"
    OWNED = "owned"


class _Slot:
    __slots__ = ("epoch", "groups", "state")

    def __init__(self) -> None:
        self.state = SlotState.NOT_OWNED
        self.epoch = -1
        """The highest leader epoch that was seen."""
        self.groups: dict[str, GroupMetadata] = {}


class SlotTable:
    """All slots. An event with an older leader epoch than the last one of its slot changes nothing."""

    def __init__(self, count: int) -> None:
        self._slots = [_Slot() for _ in range(count)]
        self._numbers: dict[str, int] = {}
        """The slot of each group that is there: most requests are about one of them."""

    def of(self, group_id: str) -> int:
        """The slot of a group."""
        number = self._numbers.get(group_id)
        return slot_of(group_id, len(self._slots)) if number is None else number

    def group(self, group_id: str) -> GroupMetadata | None:
        """A group; those of a slot that is not owned are not there."""
        number = self._numbers.get(group_id)
        return None if number is None else self._slots[number].groups[group_id]

    def groups(self) -> Iterator[GroupMetadata]:
        for slot in self._slots:
            yield from slot.groups.values()

    def size(self, group_id: str) -> int:
        """Number of groups of the slot of a group."""
        return len(self._slots[self.of(group_id)].groups)

    def add(self, group: GroupMetadata) -> None:
        number = self._numbers[group.group_id] = self.of(group.group_id)
        self._slots[number].groups[group.group_id] = group

    def remove(self, group: GroupMetadata) -> None:
        del self._slots[self._numbers.pop(group.group_id)].groups[group.group_id]

    def state(self, slot: int) -> SlotState:
        return self._slots[slot].state

    @property
    def is_any_loading(self) -> bool:
        """True if groups are missing from `groups` that soon will be there."""
        return any(slot.state is SlotState.LOADING for slot in self._slots)

    def loading(self, slot: int, epoch: int, on_unload: OnUnload) -> None:
        """Begins to load a slot; what it had before is unloaded."""
        if epoch >= self._slots[slot].epoch:
            self._unload(slot, on_unload)
            self._slots[slot].state = SlotState.LOADING
            self._slots[slot].epoch = epoch

    def loaded(self, slot: int, epoch: int) -> bool:
        """Ends the load of a slot; False if it is not the one that runs."""
        found = self._slots[slot]
        if found.state is not SlotState.LOADING or found.epoch != epoch:
            return False
        found.state = SlotState.OWNED
        return True

    def kept(self, slot: int, epoch: int) -> None:
        """Raises the epoch of a slot whose version still holds."""
        self._slots[slot].epoch = max(self._slots[slot].epoch, epoch)

    def unloaded(self, slot: int, epoch: int | None, on_unload: OnUnload) -> None:
        """Gives a slot up."""
        found = self._slots[slot]
        if epoch is None or epoch >= found.epoch:
            self._unload(slot, on_unload)
            found.epoch = found.epoch if epoch is None else epoch

    def unload_all(self, on_unload: OnUnload) -> None:
        for slot in range(len(self._slots)):
            self._unload(slot, on_unload)

    def _unload(self, slot: int, on_unload: OnUnload) -> None:
        found = self._slots[slot]
        found.state = SlotState.NOT_OWNED
        groups, found.groups = found.groups, {}
        for group in groups.values():
            del self._numbers[group.group_id]
        for group in groups.values():
            on_unload(group)


class GroupCoordinator:
    """Takes events and gives effects, in order; it has no clock, no connection and no thread.

    Requests that have arrived are to be handled before `advance`: a coordinator that was paused then takes
    the heartbeats that waited before it expires their members.
    """

    def __init__(self, settings: CoordinatorSettings, slot_count: int, unique_id: Callable[[], str]) -> None:
        self._context = CoordinatorContext(settings, unique_id)
        self._slots = SlotTable(slot_count)
        self._is_active = False
        self._lease_until_ms: int | None = None

    def groups(self) -> Iterator[GroupMetadata]:
        """The groups of the loaded slots."""
        return self._slots.groups()

    def group(self, group_id: str) -> GroupMetadata | None:
        """A loaded group."""
        return self._slots.group(group_id)

    @property
    def next_deadline_ms(self) -> int | None:
        """`advance` has nothing to do before it; None without timers."""
        return self._context.timers.next_deadline_ms()

    def advance(self, now_ms: int) -> list[Effect]:
        """Fires the timers that are due. Outside the lease none fires: no heartbeat was accepted."""
        self._context.now_ms = now_ms
        if self._has_lease():
            for timer in self._context.timers.due(now_ms):
                timer.on_expiry()
        return self._context.take_effects()

    def handle(self, event: CoordinatorEvent, now_ms: int) -> list[Effect]:
        """Takes one event."""
        self._context.now_ms = now_ms
        match event:  # the most frequent events first: each case costs a test
            case Heartbeat() | CommitOffsets():
                self._request(event)
            case OffsetsWritten(outcomes):
                for write_id, of_write in outcomes.items():
                    self._context.offsets_written(write_id, of_write)
            case GroupWritten(write_id, outcome):
                self._context.written(write_id, outcome)
            case ListGroups():
                self._list(event)
            case SlotLoading() | SlotLoaded() | SlotKept() | SlotUnloaded():
                self._slot_event(event)
            case LeaseExtended(until_ms):
                self._extend_lease(until_ms)
            case ForgetGroup(group_id):
                self._forget(group_id)
            case MarkerLost(group_id):
                self._lose_marker(group_id)
            case Started():
                self._is_active = True
            case Stopped():
                self._is_active = False
                self._slots.unload_all(self._unload_group)
            case _:
                self._request(event)
        return self._context.take_effects()

    def _has_lease(self) -> bool:
        return self._lease_until_ms is None or self._context.now_ms < self._lease_until_ms

    def _extend_lease(self, until_ms: int) -> None:
        """After a time without a lease all sessions start anew: members could not send heartbeats."""
        had_lease = self._has_lease()
        self._lease_until_ms = until_ms
        if not had_lease:
            for group in self._slots.groups():
                for member in group.members.values():
                    if member.session_timer.deadline_ms is not None and not member.is_new:
                        restart_session(self._context, member)

    def _error_of(self, request: GroupRequest, group: GroupMetadata | None) -> ErrorCode:
        """The checks that all requests have in common, in Kafka's order.

        group: where it is there; its id was checked then, and its slot is owned.
        """
        group_id = request.group_id
        if group is None or not group_id:
            may_be_empty = isinstance(request, _MAY_HAVE_NO_NAME)
            is_valid = is_znode_name if isinstance(request, _MAKES_NO_GROUP) else is_valid_group_id
            if not is_valid(group_id) or not (group_id or may_be_empty):
                return ErrorCode.INVALID_GROUP_ID
        if not self._is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        state = SlotState.OWNED if group is not None else self._slots.state(self._slots.of(group_id))
        if state is SlotState.LOADING:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if state is SlotState.NOT_OWNED or not self._has_lease():
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE

    def _request(self, request: GroupRequest) -> None:
        group = self._slots.group(request.group_id)
        context, error = self._context, self._error_of(request, group)
        is_refused = error is not ErrorCode.NONE
        group = None if is_refused else group
        match request:
            case Heartbeat():
                self._heartbeat(request, group, error)
            case CommitOffsets():
                self._commit(request, group, error)
            case JoinGroup():
                self._join(request, group, error)
            case SyncGroup():
                self._sync(request, group, error)
            case LeaveGroup():
                if is_refused:
                    context.reply(request.request_id, LeaveGroupResponse(error=error))
                else:
                    membership.leave_group(context, group, request)
            case FetchOffsets():
                if is_refused:
                    context.reply(request.request_id, FetchOffsetsResult(error))
                else:
                    offsets.fetch_offsets(context, group, request)
            case DescribeGroup():
                context.reply(request.request_id, self._described(request, group, error))
            case RemoveGroup():
                self._remove(request, group, error)
            case RemoveOffsets():
                offsets.remove_offsets(context, group, request, error)
            case _:
                assert_never(request)

    def _join(self, join: JoinGroup, group: GroupMetadata | None, error: ErrorCode) -> None:
        context, settings = self._context, self._context.settings
        shortest, longest = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
        if error is ErrorCode.NONE and not shortest <= join.session_timeout_ms <= longest:
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        if error is ErrorCode.NONE and group is None:
            if join.member_id:
                error = ErrorCode.UNKNOWN_MEMBER_ID
            elif self._is_full(join.group_id):
                error = ErrorCode.GROUP_MAX_SIZE_REACHED
        if error is not ErrorCode.NONE:
            join_group.refuse(context, join, error)
            return
        join_group.join_group(context, group or self._add_group(join.group_id), join)

    def _sync(self, sync: SyncGroup, group: GroupMetadata | None, error: ErrorCode) -> None:
        if sync.requires_protocol and None in (sync.protocol_type, sync.protocol):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        elif error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            error = ErrorCode.REBALANCE_IN_PROGRESS  # clients do not know 14 here; they join again
        elif error is ErrorCode.NONE and group is None:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is ErrorCode.NONE and group is not None:
            membership.sync_group(self._context, group, sync)
        else:
            membership.refuse_sync(self._context, sync, error)

    def _heartbeat(self, beat: Heartbeat, group: GroupMetadata | None, error: ErrorCode) -> None:
        if error is ErrorCode.NONE and group is not None:
            membership.heartbeat(self._context, group, beat)
            return
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            error = ErrorCode.NONE  # no session runs while the groups are loaded
        elif error is ErrorCode.NONE:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        self._context.reply(beat.request_id, membership.heartbeat_response(error))

    def _commit(self, commit: CommitOffsets, group: GroupMetadata | None, error: ErrorCode) -> None:
        is_new = group is None
        if error is ErrorCode.NONE and group is None:
            if commit.generation >= 0:
                error = ErrorCode.ILLEGAL_GENERATION
            elif self._is_full(commit.group_id):
                error = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
            else:
                group = self._add_group(commit.group_id)
        if error is ErrorCode.NONE and group is not None:
            if is_new:
                offsets.commit_offsets(self._context, group, commit, partial(self._forget_unused, group))
            else:
                offsets.commit_offsets(self._context, group, commit)
        else:
            offsets.refuse_commit(self._context, commit, error)

    def _is_full(self, group_id: str) -> bool:
        """Returns whether the slot of a group takes no more groups."""
        return self._slots.size(group_id) >= self._context.settings.slot_max_groups

    def _add_group(self, group_id: str) -> GroupMetadata:
        group = GroupMetadata(group_id)
        group.state_timestamp_ms = self._context.now_ms
        arm_timers(self._context, group)
        self._slots.add(group)
        return group

    def _described(
        self, request: DescribeGroup, group: GroupMetadata | None, error: ErrorCode
    ) -> DescribedGroup:
        if error is not ErrorCode.NONE:
            return DescribedGroup(error=error, group=request.group_id, state="")
        if group is None:
            group = GroupMetadata(request.group_id)
            group.state = ConsumerGroupState.DEAD
        return describe(group, request, self._context.now_ms)

    def _list(self, request: ListGroups) -> None:
        if not self._is_active:
            self._context.reply(
                request.request_id, ListGroupsResponse(error=ErrorCode.COORDINATOR_NOT_AVAILABLE)
            )
            return
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self._slots.is_any_loading else ErrorCode.NONE
        found = tuple(
            ListedGroup(
                group=group.group_id, protocol_type=group.protocol_type or "", state=group.state.value
            )
            for group in self._slots.groups()
            if not request.states or group.state.value in request.states
        )
        self._context.reply(request.request_id, ListGroupsResponse(error=error, groups=found))

    def _remove(self, request: RemoveGroup, group: GroupMetadata | None, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            if group is None or group.state is ConsumerGroupState.DEAD:
                error = ErrorCode.GROUP_ID_NOT_FOUND
            elif group.state is not ConsumerGroupState.EMPTY:
                error = ErrorCode.NON_EMPTY_GROUP
        if error is not ErrorCode.NONE or group is None:
            self._context.reply(request.request_id, RemoveGroupResult(error))
            return
        record = group_record(group, {}, group.state_timestamp_ms)
        self._end_group(group, "deleted")

        def written(outcome: WriteOutcome) -> None:
            if self._slots.group(request.group_id) is group:
                self._slots.remove(group)
                if outcome is not WriteOutcome.STORED:
                    self._install(record)
            self._context.reply(request.request_id, RemoveGroupResult(DELETE_ERRORS[outcome]))

        self._context.delete_group(request.group_id, written, keeps_offsets=request.keeps_offsets)

    def _forget(self, group_id: str) -> None:
        group = self._slots.group(group_id)
        if group is not None and group.state is ConsumerGroupState.EMPTY:
            self._end_group(group, "never stored")
            self._slots.remove(group)

    def _forget_unused(self, group: GroupMetadata) -> None:
        """Forgets a group whose first commit was refused, unless a client has joined it meanwhile."""
        if self._slots.group(group.group_id) is group and is_over(group, has_offsets=False):
            self._forget(group.group_id)

    def _lose_marker(self, group_id: str) -> None:
        group = self._slots.group(group_id)
        if group is not None and group.is_marked and group.members:
            give_way(self._context, group)

    def _slot_event(self, event: SlotEvent) -> None:
        match event:
            case SlotLoading(slot, epoch):
                self._slots.loading(slot, epoch, self._unload_group)
            case SlotLoaded(slot, epoch, groups):
                if self._slots.loaded(slot, epoch):
                    for record in groups:
                        self._install(record)
            case SlotKept(slot, epoch):
                self._slots.kept(slot, epoch)
            case SlotUnloaded(slot, epoch):
                self._slots.unloaded(slot, epoch, self._unload_group)
            case _:
                assert_never(event)

    def _install(self, record: GroupRecord) -> None:
        """Adds a stored group: every session starts in full; a group that is too large rebalances."""
        context, group = self._context, loaded_group(record)
        arm_timers(context, group)
        self._slots.add(group)
        for member in group.members.values():
            restart_session(context, member)
        context.log("group_loaded", group, state=group.state.value, generation=group.generation)
        if len(group.members) > context.settings.group_max_size:
            prepare_rebalance(context, group, "more members than group.max.size")

    def _unload_group(self, group: GroupMetadata) -> None:
        """Ends a group here: its parked requests are answered, and no timer of it fires."""
        moved = ErrorCode.NOT_COORDINATOR
        for member in group.members.values():
            answer_join(
                self._context, group, member, JoinGroupResponse(error=moved, member_id=member.member_id)
            )
            answer_sync(self._context, member, SyncGroupResponse(error=moved))
        self._end_group(group, "unloaded")

    def _end_group(self, group: GroupMetadata, reason: str) -> None:
        timers = self._context.timers
        for timer in (group.join_timer, group.sync_timer, *group.pending_members.values()):
            timers.cancel(timer)
        for member in group.members.values():
            timers.cancel(member.session_timer)
        group.pending_members.clear()
        group.reservation = group.assignment_write = None
        self._context.transition(group, ConsumerGroupState.DEAD, reason)
