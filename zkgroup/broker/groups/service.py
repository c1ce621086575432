"""The group coordinator of a broker on its event loop, with the store of its groups.

    connection -> handler -> StoredCoordinator -> answer                         at once: Heartbeat
                                               -> GroupStore.step -> ZooKeeper   a write comes first

Coordinator and store are stepped on the event loop alone: no group has a thread, and a request that needs no
write is answered without leaving the loop.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, TypeVar

from zkgroup.broker.groups import store_events
from zkgroup.broker.groups.slot_usage import SlotBounds
from zkgroup.broker.groups.store import GroupStore
from zkgroup.broker.groups.store_events import (
    GroupStoreConfig,
    ReadLegacyOffsets,
    SlotLed,
    SlotResigned,
    StoreEvent,
    TopicsDeleted,
    WriteLegacyOffsets,
    WriteManyOffsets,
)
from zkgroup.broker.groups.stored_coordinator import ServiceResult, StoredCoordinator
from zkgroup.broker.replica_view import Role
from zkgroup.broker.server.handlers import Later
from zkgroup.broker.settings import BrokerSettings
from zkgroup.coordinator.coordinator import GroupCoordinator
from zkgroup.coordinator.effects import WriteOffsets
from zkgroup.coordinator.events import GroupRequest, ListGroups, Started, Stopped
from zkgroup.coordinator.group_ids import slot_of
from zkgroup.coordinator.settings import CoordinatorSettings
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock, Store
from zkgroup.runtime.async_loop import AsyncMachineLoop, LoopTimer
from zkgroup.runtime.events import LogEvent
from zkgroup.runtime.loop import Machine
from zkgroup.wire.groups import SlotUse
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC

TURNS_TO_ANSWER: Final = 3
"""Turns of the event loop in which connections send the answers that they have got."""
MINUTE_MS: Final = 60_000

ServiceRequest = GroupRequest | ListGroups | ReadLegacyOffsets | WriteLegacyOffsets
T = TypeVar("T")
StoreMachine = Machine[StoreEvent, store_events.Effect | LogEvent]


def coordinator_settings(settings: BrokerSettings) -> CoordinatorSettings:
    """The coordinator's part of a broker's settings."""
    return CoordinatorSettings(
        group_min_session_timeout_ms=settings.group_min_session_timeout_ms,
        group_max_session_timeout_ms=settings.group_max_session_timeout_ms,
        group_initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        group_max_size=settings.group_max_size,
        slot_max_groups=settings.slot_max_groups,
        offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
    )


class _OpenRequest(Later[T]):
    """The answer of a request, among the others that are open."""

    __slots__ = ("_number", "_open", "_translate")

    def __init__(
        self, number: int, others: dict[int, _OpenRequest[Any]], translate: Callable[[Any], T]
    ) -> None:
        self.is_given = False
        self._first = self._then = None
        self._number, self._open, self._translate = number, others, translate
        others[number] = self

    @property
    def value(self) -> T:
        """The answer. Where it is made of the result, an error is that of the connection alone."""
        return self._translate(self._given)

    def drop(self) -> None:
        super().drop()
        self._open.pop(self._number, None)


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
        self._on_crash = on_crash
        self._open: dict[int, _OpenRequest[Any]] = {}
        """Requests without an answer, by number."""
        self._loop = asyncio.get_running_loop()
        self._commits: list[WriteOffsets] = []
        """Those of this turn of the loop that the store does not have yet."""
        self._is_turn_ending = False
        """True if `_end_turn` is going to be called."""
        self._timer = LoopTimer(clock, self.advance)
        self._stored = StoredCoordinator(
            coordinator_settings(settings),
            settings.offsets_retention_minutes * MINUTE_MS,
            clock,
            unique_id,
            step_store=self._step_store,
            answer=self._answer,
            on_log=on_log,
            on_stepped=self._end_turn_soon,
        )
        self.new_id = self._stored.new_id
        """Gives the number of a request."""
        config = _store_config(broker, settings)
        self._bounds = config.bounds
        self._store: GroupStore | None = None
        """The machine that keeps groups and offsets, unless another one was given."""
        if machine is None:
            machine = self._store = GroupStore(config, random.random)
        self._machine: AsyncMachineLoop[StoreEvent, store_events.Effect | LogEvent] = AsyncMachineLoop(
            machine,
            store,
            clock,
            perform=self._stored.take_from_store,
            on_crash=on_crash,
        )

    @property
    def coordinator(self) -> GroupCoordinator:
        """The coordinator; another one once the number of slots is known."""
        return self._stored.coordinator

    @property
    def slot_count(self) -> int | None:
        """The number of slots of the cluster; None until it is written and was read."""
        return self._stored.slot_count

    def loading(self) -> list[int]:
        """The slots that it leads and has not loaded yet."""
        return [] if self._store is None else self._store.loading()

    def slot_use(self) -> list[SlotUse]:
        """Returns the usage and the bounds of the groups of each loaded slot."""
        if self._store is None or self.slot_count is None:
            return []
        bounds = self._bounds
        groups = Counter(slot_of(group.group_id, self.slot_count) for group in self.coordinator.groups())
        return [
            SlotUse(
                slot=number,
                groups=groups[number],
                groups_max=bounds.groups_max,
                offsets=usage.offsets,
                offsets_max=bounds.offsets_max,
                metadata_bytes=usage.metadata_bytes,
                metadata_bytes_max=bounds.metadata_bytes_max,
            )
            for number, usage in sorted(self._store.usage().items())
            if usage.is_measured
        ]

    def start(self) -> None:
        """Begins to serve: from now on slots can be led."""
        self._stored.handle(Started())
        self._machine.listen()

    async def stop(self) -> None:
        """Gives up all slots: parked requests are answered with 16, later ones with 15."""
        self._stored.handle(Stopped())
        for _ in range(TURNS_TO_ANSWER):
            await asyncio.sleep(0)

    def close(self) -> None:
        """Ends the coordinator; requests that still wait end as their connections do. Idempotent."""
        self._timer.cancel()
        self._machine.close()

    def on_role(self, tp: TopicPartition, role: Role, leader_epoch: int | None) -> None:
        """A replica of this broker has another role, or a new leader epoch; other topics are ignored."""
        if tp.topic == OFFSETS_TOPIC and leader_epoch is not None:
            change = SlotLed if role is Role.LEADER else SlotResigned
            self._step_store(change(tp.partition, leader_epoch))

    def topics_deleted(self, topics: frozenset[str]) -> None:
        """The controller deletes topics: their offsets in the slots that the broker leads are deleted."""
        self._step_store(TopicsDeleted(topics))

    def ask(self, request: ServiceRequest) -> Later[Any]:
        """The answer to a request with a number of `new_id`; most are there without a wait.

        Where it is dropped, its member stays in the group until its session is over.
        """
        return self.answer(request, lambda result: result)

    def answer(self, request: ServiceRequest, translate: Callable[[Any], T]) -> Later[T]:
        """Returns a function's result for the result of a request, as of `ask`.

        While many requests are handled in one turn of the loop, the lease is extended all the same.
        """
        open_request = _OpenRequest(request.request_id, self._open, translate)
        try:
            if self._machine.is_overdue or not self._stored.has_lease:
                self._machine.catch_up()
            if isinstance(request, (ReadLegacyOffsets, WriteLegacyOffsets)):
                self._step_store(request)
            else:
                self._stored.handle(request)
        except BaseException:
            open_request.drop()
            raise
        return open_request

    def _answer(self, number: int, result: ServiceResult) -> None:
        open_request = self._open.pop(number, None)
        if open_request is not None:  # else its connection is lost
            open_request.give(result)

    def _step_store(self, event: StoreEvent) -> None:
        """Gives the store an event; commits at the end of the turn, all together."""
        if isinstance(event, WriteOffsets):
            self._commits.append(event)  # `on_stepped` follows, which ends the turn
        else:
            self._write_commits()
            self._machine.step(event)

    def _write_commits(self) -> None:
        commits, self._commits = self._commits, []
        if commits:
            self._machine.step(WriteManyOffsets(commits))

    def _end_turn_soon(self) -> None:
        if not self._is_turn_ending:
            self._is_turn_ending = True
            self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        """Does what is done once for all requests of a turn of the loop."""
        self._is_turn_ending = False
        self._write_commits()
        self._timer.set(self._stored.next_due_ms)

    def advance(self) -> None:
        """Fires the timers that are due, after the requests that have come."""
        try:
            self._stored.advance()
        except Exception as error:  # noqa: BLE001  # the broker ends and reports it
            self.close()
            self._on_crash(error)


def _store_config(broker: int, settings: BrokerSettings) -> GroupStoreConfig:
    return GroupStoreConfig(
        broker=broker,
        offsets_retention_check_interval_ms=settings.offsets_retention_check_interval_ms,
        bounds=SlotBounds(
            groups_max=settings.slot_max_groups,
            offsets_max=settings.slot_max_offsets,
            metadata_bytes_max=settings.slot_max_metadata_bytes,
        ),
    )
