"""The group coordinator of a simulated broker: production coordinator and store, on the broker's session."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any, Final

from tests.simulation.cluster.environment import ClusterEnvironment
from tests.simulation.cluster.shell import MachineShell
from tests.simulation.schedule import Action
from zkgroup.broker.groups import store_events
from zkgroup.broker.groups.store import GroupStore
from zkgroup.broker.groups.store_events import (
    GroupStoreConfig,
    SlotLed,
    SlotResigned,
    StoreEvent,
    TopicsDeleted,
)
from zkgroup.broker.groups.stored_coordinator import ServiceResult, StoredCoordinator
from zkgroup.broker.replica_view import Role
from zkgroup.coordinator.effects import CommitOffsetsResult
from zkgroup.coordinator.events import CommitOffsets, GroupRequest, SlotLoaded, Started
from zkgroup.coordinator.group import ConsumerGroupState
from zkgroup.coordinator.settings import CoordinatorSettings
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode
from zkgroup.model.ports import Store
from zkgroup.runtime.events import LogEvent
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC

RETENTION_MS: Final = 7 * 86_400_000
RETENTION_CHECK_MS: Final = 20_000

OnResult = Callable[[ServiceResult], None]


class StoreShell(MachineShell):
    """The runtime of a store. An event that comes within a step follows that step, as in a broker."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._events: deque[object] = deque()
        self._is_stepping = False

    def step(self, event: object) -> None:
        """Steps the machine with this event, and with those that follow from it."""
        self._events.append(event)
        if self._is_stepping:
            return
        self._is_stepping = True
        try:
            while self._events:
                super().step(self._events.popleft())
        finally:
            self._is_stepping = False


class SimulatedCoordinator:
    """The coordinator of one start of a broker, with the store of its groups."""

    def __init__(
        self,
        world: ClusterEnvironment,
        settings: CoordinatorSettings,
        broker: int,
        store: Store,
        is_known: Callable[[TopicPartition], bool],
        note: Callable[..., None],
    ) -> None:
        """`is_known`: which partitions exist, for commits. `note` records what happens, for the history."""
        self._world, self._is_known, self._note = world, is_known, note
        self._waiting: dict[int, OnResult] = {}
        self._ids = count(1)
        self._loads = 0
        self.stored = StoredCoordinator(
            settings,
            RETENTION_MS,
            world.clock,
            lambda: f"{broker}-{next(self._ids)}-{world.rng.randrange(10**6)}",
            step_store=lambda event: self.step_store(event),
            answer=self._answer,
            on_log=self._logged,
        )
        config = GroupStoreConfig(broker=broker, offsets_retention_check_interval_ms=RETENTION_CHECK_MS)
        self.machine = GroupStore(config, world.rng.random)
        self.shell = StoreShell(self.machine, store, world.clock, self._take)
        self.stored.handle(Started())

    def step_store(self, event: StoreEvent) -> None:
        """Gives the store an event."""
        self.shell.step(event)

    @property
    def led_slots(self) -> list[int]:
        """The slots that the controller has made it lead."""
        return sorted(self.machine._core.slots)

    def stop(self) -> None:
        """Ends with its process: nothing is answered."""
        self.shell.stop()
        self._waiting.clear()

    def role_taken(self, tp: TopicPartition, role: Role, leader_epoch: int | None) -> None:
        """A replica of this broker has another role; other topics than that of the slots are ignored."""
        if tp.topic == OFFSETS_TOPIC and leader_epoch is not None:
            event = SlotLed if role is Role.LEADER else SlotResigned
            self.step_store(event(tp.partition, leader_epoch))

    def topics_deleted(self, topics: frozenset[str]) -> None:
        """The controller deletes topics."""
        if topics:
            self._world.figures["notices of deleted topics"] += 1
            self.step_store(TopicsDeleted(topics))

    def ask(self, request: GroupRequest, on_result: OnResult) -> None:
        """Handles the request of a client; the result may come later, or never."""
        if isinstance(request, CommitOffsets):
            unknown = frozenset(tp for tp in request.offsets if not self._is_known(tp))
            self._world.figures["commits of unknown partitions"] += bool(unknown)
            if len(unknown) == len(request.offsets):  # as a broker: the coordinator is not asked
                errors = dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                on_result(CommitOffsetsResult(errors))
                return
            request = replace(request, unknown_partitions=unknown)
        number = self.stored.new_id()
        self._waiting[number] = on_result
        self.stored.handle(replace(request, request_id=number))

    def _answer(self, number: int, result: ServiceResult) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is not None:
            waiting(result)

    def actions(self, has_requests: Callable[[], bool]) -> Iterator[Action]:
        """Possible next steps. While requests wait, the coordinator's timers do not fire."""
        if self.shell.inbox:
            yield self.shell.take_event
        if self.shell.has_due_timers():
            yield self.shell.fire_timers
        due_ms = self.stored.next_due_ms
        if due_ms is not None and due_ms <= self._world.clock.now_ms() and not has_requests():
            yield self.stored.advance

    def next_timer_ms(self) -> int | None:
        """When the next timer of store or coordinator fires."""
        times = (self.shell.next_timer_ms(), self.stored.next_due_ms)
        return min((each for each in times if each is not None), default=None)

    def _take(self, effect: store_events.Effect | LogEvent) -> None:
        if isinstance(effect, SlotLoaded):
            self._loads += 1
            self._world.figures["slots loaded"] += 1
            self._world.figures["groups loaded"] += len(effect.groups)
        self.stored.take_from_store(effect)

    def _logged(self, event: LogEvent) -> None:
        self._world.figures[f"note {event.kind}"] += 1
        if (
            event.kind == "group_state"
            and event.fields["after"] == ConsumerGroupState.COMPLETING_REBALANCE.value
        ):
            self._note(
                "generation.began",
                group=event.fields["group"],
                generation=event.fields["generation"],
                load=self._loads,
            )
