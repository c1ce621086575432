"""The state that the parts of a coordinator share: time of the step, effects, timers, writes in flight."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from zkgroup.coordinator.group import ConsumerGroupState, GroupMetadata
from zkgroup.coordinator.records import GroupRecord
from zkgroup.coordinator.settings import CoordinatorSettings
from zkgroup.coordinator.timers import TimerQueue
from zkgroup.model import TopicPartition
from zkgroup.runtime.events import LogEvent
from zkgroup.znodes.coordinated_groups import OffsetAndMetadata

OnWritten = Callable[[WriteOutcome], None]
OnOffsetsWritten = Callable[[Mapping[TopicPartition, WriteOutcome]], None]


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

    @property
    def writes_in_flight(self) -> int:
        return len(self._group_writes) + len(self._offset_writes)
