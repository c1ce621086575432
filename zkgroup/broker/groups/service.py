"""The group coordinator of a broker on its event loop, with the store of its groups.

    connection -> handler -> GroupCoordinator.handle -> answer                        at once: Heartbeat
                                                     -> GroupStore.step -> ZooKeeper  a write comes first
    ZooKeeper's reply -> GroupStore.step -> GroupCoordinator.handle -> the answer that waited

Coordinator and store are stepped on the event loop alone: no group has a thread, and a request that needs no
write is answered without leaving the loop.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from zkgroup.broker.groups import store_events
from zkgroup.broker.groups.store import GroupStore
from zkgroup.broker.groups.store_events import (
    ExpireOffsets,
    GroupStoreConfig,
    LegacyOffsetsRead,
    LegacyOffsetsWritten,
    OffsetsDeleted,
    OffsetsExpired,
    OffsetsRead,
    OffsetsRecorded,
    ReadLegacyOffsets,
    SlotLed,
    SlotResigned,
    SlotsCounted,
    StoreEvent,
    WriteLegacyOffsets,
    ZooKeeperMembersNoticed,
)
from zkgroup.broker.groups.telemetry import COMMITS
from zkgroup.broker.settings import BrokerSettings
from zkgroup.coordinator.coordinator import GroupCoordinator
from zkgroup.coordinator.effects import (
    DeleteOffsets,
    DropRequest,
    Effect,
    GroupResult,
    ReadOffsets,
    Reply,
)
from zkgroup.coordinator.events import (
    CoordinatorEvent,
    GroupRequest,
    LeaseExtended,
    ListGroups,
    OffsetsWritten,
    RemoveGroup,
    Started,
    Stopped,
)
from zkgroup.coordinator.group import GroupMetadata
from zkgroup.coordinator.outcomes import DELETE_OFFSET_ERRORS
from zkgroup.coordinator.retention import expired_offsets, is_over
from zkgroup.coordinator.settings import CoordinatorSettings
from zkgroup.coordinator.subscriptions import subscribed_topics
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode
from zkgroup.model.ports import Clock, Store
from zkgroup.runtime.async_loop import AsyncMachineLoop, LoopTimer
from zkgroup.runtime.events import LogEvent
from zkgroup.runtime.loop import Machine

log = logging.getLogger("zkgroup.broker")

TURNS_TO_ANSWER: Final = 3
"""Turns of the event loop in which connections send the answers that they have got."""
MINUTE_MS: Final = 60_000


class DroppedRequest(Enum):
    """The type of `DROPPED`."""

    DROPPED = "dropped"


DROPPED: Final = DroppedRequest.DROPPED
"""The result of a request that gets no answer: a later one of the same member has replaced it."""


@dataclass(frozen=True, slots=True)
class OffsetsRemoved:
    """Whether the offset of each partition was deleted."""

    errors: Mapping[TopicPartition, ErrorCode]


StoreMachine = Machine[StoreEvent, store_events.Effect | LogEvent]
ServiceResult = (
    GroupResult | OffsetsRead | OffsetsRemoved | LegacyOffsetsRead | LegacyOffsetsWritten | DroppedRequest
)


def coordinator_settings(settings: BrokerSettings) -> CoordinatorSettings:
    """The coordinator's part of a broker's settings."""
    return CoordinatorSettings(
        group_min_session_timeout_ms=settings.group_min_session_timeout_ms,
        group_max_session_timeout_ms=settings.group_max_session_timeout_ms,
        group_initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        group_max_size=settings.group_max_size,
        offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
    )


class GroupCoordinatorService:
    """The coordinator of one broker. Made and used on one event loop."""

    def __init__(
        self,
        broker: int,
        store: Store,
        clock: Clock,
        settings: BrokerSettings,
        *,
        on_crash: Callable[[Exception], None],
        on_log: Callable[[LogEvent], None] = lambda event: None,
        machine: StoreMachine | None = None,
        unique_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        """
        Args:
            store: the broker's ZooKeeper session.
            on_crash: called with an error of the coordinator or of the store's machine, which then stop.
            on_log: receives log events; it must not raise.
            machine: keeps groups and offsets; None: `GroupStore`.
            unique_id: gives the random part of a member id.
        """
        self._clock = clock
        self._retention_ms = settings.offsets_retention_minutes * MINUTE_MS
        self._on_crash, self._on_log = on_crash, on_log
        self._settings, self._unique_id = coordinator_settings(settings), unique_id
        self.coordinator = GroupCoordinator(self._settings, 1, unique_id)
        """Coordinates no group until the number of slots is known."""
        self._slots: int | None = None
        self._lease_until_ms: int | None = None
        self._numbers = itertools.count(1)
        self._open: dict[int, asyncio.Future[ServiceResult] | ServiceResult | None] = {}
        """Requests without an answer, with what waits for it."""
        self._deletions: dict[int, DeleteOffsets] = {}
        """Each OffsetDelete without an outcome, by its request id."""
        self._removed: dict[int, tuple[str, OffsetsRemoved]] = {}
        """Group and result of each OffsetDelete whose group is read for other offsets, by its request id."""
        self._effects: deque[Effect] = deque()
        self._is_performing = False
        self._timer = LoopTimer(clock, self.advance)
        self._machine: AsyncMachineLoop[StoreEvent, store_events.Effect | LogEvent] = AsyncMachineLoop(
            machine or GroupStore(_store_config(broker, settings), random.random),
            store,
            clock,
            perform=self._take_from_store,
            on_crash=on_crash,
        )

    # --- start and close --------------------------------------------------------------------------

    def start(self) -> None:
        """Begins to serve: from now on slots can be led."""
        self._handle(Started())
        self._machine.listen()

    async def stop(self) -> None:
        """Gives up all slots: parked requests are answered with 16, later ones with 15."""
        self._handle(Stopped())
        for _ in range(TURNS_TO_ANSWER):
            await asyncio.sleep(0)

    def close(self) -> None:
        """Ends the coordinator; requests that still wait end as their connections do. Idempotent."""
        self._timer.cancel()
        self._machine.close()

    # --- the broker's partitions of __consumer_offsets ----------------------------------------------

    def slot_led(self, slot: int, leader_epoch: int) -> None:
        """The broker leads a slot from now on."""
        self._machine.step(SlotLed(slot, leader_epoch))

    def slot_resigned(self, slot: int, leader_epoch: int) -> None:
        """The broker no longer leads a slot."""
        self._machine.step(SlotResigned(slot, leader_epoch))

    # --- requests ---------------------------------------------------------------------------------

    def new_id(self) -> int:
        """A number for one request."""
        return next(self._numbers)

    async def ask(
        self, request: GroupRequest | ListGroups | ReadLegacyOffsets | WriteLegacyOffsets
    ) -> ServiceResult:
        """The answer to a request with a number of `new_id`; most are there without a wait.

        Cancellation ends the wait: the answer is dropped when it comes, and the member stays in its group
        until its session is over.
        """
        number = request.request_id
        self._open[number] = None
        try:
            if isinstance(request, ReadLegacyOffsets | WriteLegacyOffsets):
                self._machine.step(request)
            else:
                self._handle(request)
            found = self._open[number]
            if found is None:
                future: asyncio.Future[ServiceResult] = asyncio.get_running_loop().create_future()
                self._open[number] = future
                return await future
            assert not isinstance(found, asyncio.Future)
            return found
        finally:
            del self._open[number]

    def _answer(self, number: int, result: ServiceResult) -> None:
        if number not in self._open:
            return  # its connection is lost
        waiting = self._open[number]
        if not isinstance(waiting, asyncio.Future):
            self._open[number] = result
        elif not waiting.done():
            waiting.set_result(result)

    # --- the coordinator --------------------------------------------------------------------------

    def _handle(self, event: CoordinatorEvent) -> None:
        self._effects.extend(self.coordinator.handle(event, self._clock.now_ms()))
        self._perform_all()

    def advance(self) -> None:
        """Fires the timers that are due, after the requests that have come."""
        try:
            self._effects.extend(self.coordinator.advance(self._clock.now_ms()))
            self._perform_all()
        except Exception as error:  # noqa: BLE001  # the broker ends and reports it
            self.close()
            self._on_crash(error)

    def _perform_all(self) -> None:
        """Performs the effects in their order, also those that they lead to; then sets the timer."""
        if self._is_performing:
            return
        self._is_performing = True
        try:
            while self._effects:
                self._perform(self._effects.popleft())
        finally:
            self._is_performing = False
        self._set_timer()

    def _set_timer(self) -> None:
        """Without a lease no timer of the coordinator fires, so there is nothing to wait for."""
        has_lease = self._lease_until_ms is None or self._clock.now_ms() < self._lease_until_ms
        self._timer.set(self.coordinator.next_deadline_ms if has_lease else None)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Reply(number, result):
                self._answer(number, result)
            case DropRequest(number):
                self._answer(number, DROPPED)
            case LogEvent():
                self._on_log(effect)
            case DeleteOffsets():
                self._delete_offsets(effect)
            case _:
                self._machine.step(effect)

    def _delete_offsets(self, effect: DeleteOffsets) -> None:
        number = effect.request_id
        self._deletions[number] = effect
        if effect.partitions:
            self._machine.step(store_events.DeleteStoredOffsets(number, effect.group_id, effect.partitions))
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
            self._machine.step(left)
        else:
            self._answer(number, result)

    def _offsets_read(self, read: OffsetsRead) -> None:
        if read.request_id not in self._removed:
            self._answer(read.request_id, read)
            return
        group_id, result = self._removed.pop(read.request_id)
        if read.error is ErrorCode.NONE:
            has_offsets = bool(read.offsets or read.partition_errors)
            self._remove_if_over(group_id, has_offsets=has_offsets)
        self._answer(read.request_id, result)

    # --- the store --------------------------------------------------------------------------------

    def _take_from_store(self, effect: store_events.Effect | LogEvent) -> None:
        match effect:
            case LogEvent():
                self._on_log(effect)
            case SlotsCounted(count):
                self._count_slots(count)
            case OffsetsRead():
                self._offsets_read(effect)
            case LegacyOffsetsRead() | LegacyOffsetsWritten():
                self._answer(effect.request_id, effect)
            case OffsetsDeleted():
                self._offsets_deleted(effect)
            case OffsetsRecorded():
                self._expire(effect)
            case OffsetsExpired():
                if effect.partitions:
                    self._on_log(
                        LogEvent(
                            "offsets_expired", {"group": effect.group_id, "count": len(effect.partitions)}
                        )
                    )
                self._remove_if_over(effect.group_id, has_offsets=effect.has_offsets)
            case ZooKeeperMembersNoticed():
                self._notice_zookeeper_members(effect)
            case OffsetsWritten(_, outcomes):
                kinds = [each.value for each in outcomes.values()]
                self._on_log(LogEvent(COMMITS, {"outcomes": kinds}))
                self._handle(effect)
            case LeaseExtended(until_ms):
                self._lease_until_ms = until_ms
                self._handle(effect)
            case _:
                self._handle(effect)

    def _count_slots(self, count: int) -> None:
        if self._slots is not None:
            return
        self._slots = count
        self.coordinator = GroupCoordinator(self._settings, count, self._unique_id)
        self._handle(Started())
        if self._lease_until_ms is not None:
            self._handle(LeaseExtended(self._lease_until_ms))

    def _notice_zookeeper_members(self, notice: ZooKeeperMembersNoticed) -> None:
        kind = "zookeeper_members" if notice.members else "zookeeper_members_left"
        self._on_log(LogEvent(kind, {"group": notice.group_id, "members": ",".join(notice.members)}))

    # --- retention --------------------------------------------------------------------------------

    def _expire(self, recorded: OffsetsRecorded) -> None:
        """Deletes the offsets of a group that have expired, or the group where it has none.

        A group that the coordinator does not know only stores offsets.
        """
        group = self.coordinator.group(recorded.group_id)
        known = group or GroupMetadata(recorded.group_id)
        expired = expired_offsets(
            known, recorded.offsets, subscribed_topics(known), self._clock.now_ms(), self._retention_ms
        )
        if expired:
            self._machine.step(ExpireOffsets(recorded.group_id, expired))
        else:
            has_offsets = recorded.has_others or bool(recorded.offsets)
            self._remove_if_over(recorded.group_id, has_offsets=has_offsets)

    def _remove_if_over(self, group_id: str, *, has_offsets: bool) -> None:
        group = self.coordinator.group(group_id)
        if group is not None and is_over(group, has_offsets):
            self._handle(RemoveGroup(request_id=self.new_id(), group_id=group_id))


def _store_config(broker: int, settings: BrokerSettings) -> GroupStoreConfig:
    return GroupStoreConfig(
        broker=broker,
        offsets_retention_check_interval_ms=settings.offsets_retention_check_interval_ms,
    )
