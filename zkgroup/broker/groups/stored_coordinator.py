"""A coordinator whose groups are in ZooKeeper: what coordinator and store give each other. Pure.

    request, timer -> GroupCoordinator -> answer
                                       -> GroupStore -> ZooKeeper       what must be stored comes first
    ZooKeeper's reply -> GroupStore -> GroupCoordinator -> the answer that waited

The layer around has the store's machine, the connections, the clock and its timer: `service` in a broker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import Final

from zkgroup.broker.groups import store_events
from zkgroup.broker.groups.store_events import (
    ExpireOffsets,
    LegacyOffsetsRead,
    LegacyOffsetsWritten,
    MembersRead,
    OffsetsDeleted,
    OffsetsExpired,
    OffsetsRead,
    OffsetsRecorded,
    ReadMembers,
    RetentionChecked,
    SlotsCounted,
    StoreEvent,
    ZooKeeperMembersNoticed,
)
from zkgroup.coordinator.coordinator import GroupCoordinator
from zkgroup.coordinator.effects import (
    DeleteOffsets,
    DropRequest,
    Effect,
    GroupResult,
    ReadOffsets,
    RemoveGroupResult,
    RemoveOffsetsResult,
    Reply,
    WriteOffsets,
)
from zkgroup.coordinator.events import (
    DELETE_OFFSET_ERRORS,
    CoordinatorEvent,
    ForgetGroup,
    LeaseExtended,
    OffsetsWritten,
    RemoveGroup,
    RemoveOffsets,
    Started,
)
from zkgroup.coordinator.group import GroupMetadata
from zkgroup.coordinator.group_ids import slot_of
from zkgroup.coordinator.retention import expired_offsets, is_over, subscribed_topics
from zkgroup.coordinator.settings import CoordinatorSettings
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode
from zkgroup.model.ports import Clock
from zkgroup.runtime.events import LogEvent

COMMITS: Final = "offsets_written"
"""Kind of the log event with `OffsetsWritten.outcomes`; they are counted and not logged."""


class DroppedRequest(Enum):
    """The type of `DROPPED`."""

    DROPPED = "dropped"


DROPPED: Final = DroppedRequest.DROPPED
"""The result of a request that gets no answer: a later one of the same member has replaced it."""


@dataclass(frozen=True, slots=True)
class OffsetsRemoved:
    """The error of each partition whose offset was to be deleted."""

    errors: Mapping[TopicPartition, ErrorCode]


ServiceResult = (
    GroupResult | OffsetsRead | OffsetsRemoved | LegacyOffsetsRead | LegacyOffsetsWritten | DroppedRequest
)


class StoredCoordinator:
    """The coordinator of one broker beside the store of its groups. Not thread-safe."""

    def __init__(
        self,
        settings: CoordinatorSettings,
        retention_ms: int,
        clock: Clock,
        unique_id: Callable[[], str],
        *,
        step_store: Callable[[StoreEvent], None],
        answer: Callable[[int, ServiceResult], None],
        on_log: Callable[[LogEvent], None],
        on_stepped: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Args:
            retention_ms: how long offsets of groups without members stay.
            unique_id: gives the random part of a member id.
            step_store: gives the store's machine an event; its own effects come to `take_from_store`.
            answer: gets the one result of each request, by the request's number.
            on_stepped: called when all effects of an event are performed: `next_due_ms` may have changed.
        """
        self._clock = clock
        self._retention_ms = retention_ms
        self._settings, self._unique_id = settings, unique_id
        self._step_store, self._answer, self._on_log = step_store, answer, on_log
        self._on_stepped = on_stepped
        self.coordinator = GroupCoordinator(settings, 1, unique_id)
        """Coordinates no group until the number of slots is known."""
        self.slot_count: int | None = None
        """Number of slots, once the store has read it."""
        self._lease_until_ms: int | None = None
        self._numbers = count(1)
        self._deletions: dict[int, DeleteOffsets] = {}
        """Each OffsetDelete without an outcome, by its request id."""
        self._removed: dict[int, tuple[str, OffsetsRemoved]] = {}
        """Group and result of each OffsetDelete whose group is read for other offsets, by its request id."""
        self._unknown: dict[int, RemoveGroup | RemoveOffsets] = {}
        """Each request to delete an unknown group, or offsets of one, while its members are read."""
        self._effects: deque[Effect] = deque()
        self._is_performing = False

    @property
    def has_lease(self) -> bool:
        """True if the coordinator may answer for its groups, as far as the store has reported."""
        return self._lease_until_ms is None or self._clock.now_ms() < self._lease_until_ms

    @property
    def next_due_ms(self) -> int | None:
        """The time of the next `advance`; None without a lease, because no timer fires then."""
        return self.coordinator.next_deadline_ms if self.has_lease else None

    def new_id(self) -> int:
        """A number for one request."""
        return next(self._numbers)

    def handle(self, event: CoordinatorEvent) -> None:
        """Gives the coordinator an event, and performs what follows from it."""
        effects = self.coordinator.handle(event, self._clock.now_ms())
        if isinstance(event, (RemoveGroup, RemoveOffsets)) and _is_unknown(effects):
            self._unknown[event.request_id] = event
            self._step_store(ReadMembers(event.request_id, event.group_id))
            return
        self._effects.extend(effects)
        self._perform_all()

    def advance(self) -> None:
        """Fires the coordinator's timers that are due, after the requests that have come."""
        self._effects.extend(self.coordinator.advance(self._clock.now_ms()))
        self._perform_all()

    def _perform_all(self) -> None:
        """Performs the effects in their order, also those that they lead to."""
        if self._is_performing:
            return
        self._is_performing = True
        try:
            while self._effects:
                effect = self._effects.popleft()
                match effect:  # the most frequent effects first: each case costs a test
                    case Reply(number, result):
                        self._answer(number, result)
                    case WriteOffsets():
                        self._step_store(effect)
                    case DropRequest(number):
                        self._answer(number, DROPPED)
                    case LogEvent():
                        self._on_log(effect)
                    case DeleteOffsets():
                        self._delete_offsets(effect)
                    case _:
                        self._step_store(effect)
        finally:
            self._is_performing = False
        self._on_stepped()

    def _delete_offsets(self, effect: DeleteOffsets) -> None:
        number = effect.request_id
        self._deletions[number] = effect
        if effect.partitions:
            self._step_store(effect)
        else:
            self._offsets_deleted(OffsetsDeleted(number, {}))

    def _offsets_deleted(self, deleted: OffsetsDeleted) -> None:
        """Answers an OffsetDelete. An empty group that has lost its last offset is removed first."""
        number = deleted.request_id
        deletion = self._deletions.pop(number)
        errors = {tp: DELETE_OFFSET_ERRORS[outcome] for tp, outcome in deleted.outcomes.items()}
        kept = dict.fromkeys(deletion.subscribed, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
        result = OffsetsRemoved({**kept, **errors})
        group = self.coordinator.group(deletion.group_id)
        if group is not None and errors and is_over(group, has_offsets=False):
            self._removed[number] = deletion.group_id, result
            left = ReadOffsets(
                request_id=number, group_id=deletion.group_id, partitions=None, unstable=frozenset()
            )
            self._step_store(left)
        else:
            self._answer(number, result)

    def _read(self, read: OffsetsRead | MembersRead) -> None:
        if isinstance(read, MembersRead):
            self._members_read(read)
        elif read.request_id in self._removed:
            self._others_read(read)
        else:
            self._answer(read.request_id, read)

    def _others_read(self, read: OffsetsRead) -> None:
        group_id, result = self._removed.pop(read.request_id)
        if read.error is ErrorCode.NONE:
            has_offsets = bool(read.offsets or read.partition_errors)
            self._remove_if_over(group_id, has_offsets=has_offsets)
        self._answer(read.request_id, result)

    def _members_read(self, read: MembersRead) -> None:
        """Answers a request to delete an unknown group, or offsets of one: ZooKeeper's members keep them."""
        event, error = self._unknown.pop(read.request_id), read.error
        if error is ErrorCode.NONE and not read.members:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        if isinstance(event, RemoveGroup):
            result = error if error is not ErrorCode.NONE else ErrorCode.NON_EMPTY_GROUP
            self._answer(read.request_id, RemoveGroupResult(result))
        elif error is not ErrorCode.NONE:
            self._answer(read.request_id, RemoveOffsetsResult(error))
        else:
            kept = dict.fromkeys(event.partitions, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
            self._answer(read.request_id, OffsetsRemoved(kept))

    def take_from_store(self, effect: store_events.Effect | LogEvent) -> None:
        """Takes an effect of the store's own."""
        match effect:
            case OffsetsWritten(outcomes):
                self._on_log(LogEvent(COMMITS, {"outcomes": outcomes}))
                self.handle(effect)
            case LogEvent():
                self._on_log(effect)
            case SlotsCounted(count):
                self._count_slots(count)
            case OffsetsRead() | MembersRead():
                self._read(effect)
            case LegacyOffsetsRead() | LegacyOffsetsWritten():
                self._answer(effect.request_id, effect)
            case OffsetsDeleted():
                self._offsets_deleted(effect)
            case OffsetsRecorded():
                self._expire(effect)
            case RetentionChecked():
                self._forget_never_stored(effect)
            case OffsetsExpired():
                self._expired(effect)
            case ZooKeeperMembersNoticed():
                self._notice_zookeeper_members(effect)
            case LeaseExtended(until_ms):
                self._lease_until_ms = until_ms
                self.handle(effect)
            case _:
                self.handle(effect)

    def _count_slots(self, count: int) -> None:
        if self.slot_count is not None:
            return
        self.slot_count = count
        self.coordinator = GroupCoordinator(self._settings, count, self._unique_id)
        self.handle(Started())
        if self._lease_until_ms is not None:
            self.handle(LeaseExtended(self._lease_until_ms))

    def _notice_zookeeper_members(self, notice: ZooKeeperMembersNoticed) -> None:
        fields = {"group": notice.group_id, "members": ",".join(notice.members)}
        if not notice.members:
            self._on_log(LogEvent("zookeeper_members_left", fields))
            return
        group = self.coordinator.group(notice.group_id)
        has_both = group is not None and group.is_marked
        detail = (
            "both kinds of members consume: stop one" if has_both else "clients get error 23: stop one kind"
        )
        self._on_log(LogEvent("zookeeper_members", {**fields, "detail": detail}))

    def _expire(self, recorded: OffsetsRecorded) -> None:
        """Deletes the offsets of a group that have expired, or of deleted topics, or the group without any.

        A group that the coordinator does not know only stores offsets.
        """
        group = self.coordinator.group(recorded.group_id)
        known = group or GroupMetadata(recorded.group_id)
        expired = recorded.of_deleted_topics | expired_offsets(
            known, recorded.offsets, subscribed_topics(known), self._clock.now_ms(), self._retention_ms
        )
        if expired:
            self._step_store(
                ExpireOffsets(recorded.group_id, {each: recorded.recorded[each] for each in expired})
            )
        else:
            has_offsets = recorded.has_others or bool(recorded.offsets)
            self._remove_if_over(recorded.group_id, has_offsets=has_offsets)

    def _expired(self, expired: OffsetsExpired) -> None:
        if expired.partitions:
            fields = {"group": expired.group_id, "count": len(expired.partitions)}
            self._on_log(LogEvent("offsets_expired", fields))
        self._remove_if_over(expired.group_id, has_offsets=expired.has_offsets)

    def _remove_if_over(self, group_id: str, *, has_offsets: bool) -> None:
        group = self.coordinator.group(group_id)
        if group is not None and is_over(group, has_offsets):
            self.handle(RemoveGroup(request_id=self.new_id(), group_id=group_id, keeps_offsets=True))

    def _forget_never_stored(self, checked: RetentionChecked) -> None:
        """Forgets groups whose clients got an id or an error and have gone: ZooKeeper has nothing of them."""
        for group in list(self.coordinator.groups()):
            is_of_slot = slot_of(group.group_id, self.slot_count or 1) == checked.slot
            if is_of_slot and group.group_id not in checked.groups and is_over(group, has_offsets=False):
                self.handle(ForgetGroup(group.group_id))


def _is_unknown(effects: Sequence[Effect]) -> bool:
    """Returns whether the coordinator has answered that it does not know the group."""
    match effects:
        case [Reply(_, RemoveGroupResult(error) | RemoveOffsetsResult(error))]:
            return error is ErrorCode.GROUP_ID_NOT_FOUND
    return False
