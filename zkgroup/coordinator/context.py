"""The state that the parts of a coordinator share: time of the step, effects, timers, writes in flight."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from itertools import count

from zkgroup.coordinator.effects import (
    DeleteGroup,
    DropRequest,
    Effect,
    GroupResult,
    Reply,
    ReserveGenerations,
    WriteGroup,
    WriteOffsets,
)
from zkgroup.coordinator.events import WriteOutcome
from zkgroup.coordinator.group import ConsumerGroupState, GroupMetadata, Timer
from zkgroup.coordinator.records import GroupRecord
from zkgroup.coordinator.settings import CoordinatorSettings
from zkgroup.model import TopicPartition
from zkgroup.runtime.events import LogEvent
from zkgroup.znodes.coordinated_groups import OffsetAndMetadata

OnWritten = Callable[[WriteOutcome], None]
OnOffsetsWritten = Callable[[Mapping[TopicPartition, WriteOutcome]], None]
STALE_MAX = 1000
"""Stale entries that are left in the heap, whatever its size."""


class TimerQueue:
    """The timers of a coordinator. Moving a deadline to a later time does not touch the heap."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._numbers = count()
        self._stale = 0

    def __len__(self) -> int:
        """The number of entries, stale ones included."""
        return len(self._heap)

    def set(self, timer: Timer, deadline_ms: int) -> None:
        """Sets or moves a timer."""
        timer.deadline_ms = deadline_ms
        if timer.queued_ms is None or deadline_ms < timer.queued_ms:
            if timer.queued_ms is not None:
                self._entry_is_stale()
            self._push(timer, deadline_ms)

    def cancel(self, timer: Timer) -> None:
        """Unsets a timer."""
        timer.deadline_ms = None
        if timer.queued_ms is not None:
            timer.queued_ms = None
            self._entry_is_stale()

    def next_deadline_ms(self) -> int | None:
        """No timer fires before it; one that was moved may fire later. None without timers."""
        while self._heap and not self._is_live(self._heap[0]):
            heapq.heappop(self._heap)
            self._stale -= 1
        return self._heap[0][0] if self._heap else None

    def due(self, now_ms: int) -> Iterator[Timer]:
        """Takes the timers whose deadline has passed, one after another, the earliest first.

        What is done with one may set or cancel others, which the next step sees.
        """
        while self._heap and self._heap[0][0] <= now_ms:
            entry = heapq.heappop(self._heap)
            if not self._is_live(entry):
                self._stale -= 1
                continue
            timer = entry[2]
            timer.queued_ms = None
            assert timer.deadline_ms is not None
            if timer.deadline_ms > now_ms:
                self._push(timer, timer.deadline_ms)
                continue
            timer.deadline_ms = None
            yield timer

    def _push(self, timer: Timer, at_ms: int) -> None:
        timer.queued_ms = at_ms
        heapq.heappush(self._heap, (at_ms, next(self._numbers), timer))

    @staticmethod
    def _is_live(entry: tuple[int, int, Timer]) -> bool:
        return entry[2].queued_ms == entry[0]

    def _entry_is_stale(self) -> None:
        self._stale += 1
        if self._stale > STALE_MAX and self._stale > len(self._heap) // 2:
            self._heap = [entry for entry in self._heap if self._is_live(entry)]
            heapq.heapify(self._heap)
            self._stale = 0


class CoordinatorContext:
    """One for a coordinator. `now_ms` is the time of the step that runs."""

    def __init__(self, settings: CoordinatorSettings, unique_id: Callable[[], str]) -> None:
        self.settings = settings
        self.now_ms = 0
        self.timers = TimerQueue()
        self._unique_id = unique_id
        self._effects: list[Effect] = []
        self._write_ids = count(1)
        self._group_writes: dict[int, OnWritten] = {}
        self._offset_writes: dict[int, OnOffsetsWritten] = {}

    def take_effects(self) -> list[Effect]:
        """The effects since the last call."""
        effects, self._effects = self._effects, []
        return effects

    def reply(self, request_id: int, result: GroupResult) -> None:
        self._effects.append(Reply(request_id, result))

    def drop_request(self, request_id: int) -> None:
        self._effects.append(DropRequest(request_id))

    def pass_on(self, effect: Effect) -> None:
        self._effects.append(effect)

    def log(self, kind: str, group: GroupMetadata, **fields: object) -> None:
        """An event for the state-change log and the metrics."""
        self._effects.append(LogEvent(kind, {"group": group.group_id, **fields}))

    def new_member_id(self, prefix: str) -> str:
        """`<client id or group.instance.id>-<unique>`, as Kafka's."""
        return f"{prefix}-{self._unique_id()}"

    def transition(self, group: GroupMetadata, state: ConsumerGroupState, reason: str) -> None:
        """Changes the state of a group, and logs it."""
        before = group.state
        group.transition_to(state, self.now_ms)
        self.log_transition(group, before, reason)

    def log_transition(self, group: GroupMetadata, before: ConsumerGroupState, reason: str) -> None:
        self.log(
            "group_state",
            group,
            before=before.value,
            after=group.state.value,
            generation=group.generation,
            members=len(group.members),
            reason=reason,
        )

    def write_group(self, record: GroupRecord, then: OnWritten) -> int:
        """Stores a group; `then` gets the outcome."""
        write_id = self._next_write(then)
        self._effects.append(WriteGroup(write_id, record))
        return write_id

    def reserve(self, group: GroupMetadata, then: OnWritten) -> int:
        """Reserves generations, and sets the marker where it is not set."""
        write_id = self._next_write(then)
        self._effects.append(
            ReserveGenerations(
                write_id=write_id,
                group_id=group.group_id,
                generation=group.generation,
                reserved_generation=group.requested_generation,
                marks=not group.is_marked,
            )
        )
        return write_id

    def delete_group(self, group_id: str, then: OnWritten, *, keeps_offsets: bool) -> None:
        write_id = self._next_write(then)
        self._effects.append(DeleteGroup(write_id, group_id, keeps_offsets))

    def write_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        then: OnOffsetsWritten,
        *,
        refuse_zookeeper_members: bool,
    ) -> None:
        write_id = next(self._write_ids)
        self._offset_writes[write_id] = then
        self._effects.append(
            WriteOffsets(
                write_id=write_id,
                group_id=group_id,
                offsets=offsets,
                refuse_zookeeper_members=refuse_zookeeper_members,
            )
        )

    def _next_write(self, then: OnWritten) -> int:
        write_id = next(self._write_ids)
        self._group_writes[write_id] = then
        return write_id

    def written(self, write_id: int, outcome: WriteOutcome) -> None:
        """Takes the outcome of a write; a second one of the same write is an error."""
        self._group_writes.pop(write_id)(outcome)

    def offsets_written(self, write_id: int, outcomes: Mapping[TopicPartition, WriteOutcome]) -> None:
        self._offset_writes.pop(write_id)(outcomes)
