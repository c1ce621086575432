"""A store of groups and offsets in memory, in the place of `GroupStore`: every write is stored at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from zkgroup.broker.groups.store_events import (
    DeleteStoredOffsets,
    ExpireOffsets,
    LegacyOffsetsRead,
    LegacyOffsetsWritten,
    MembersRead,
    OffsetsDeleted,
    OffsetsExpired,
    OffsetsRead,
    ReadLegacyOffsets,
    ReadMembers,
    SlotLed,
    SlotResigned,
    SlotsCounted,
    WriteLegacyOffsets,
    WriteManyOffsets,
)
from zkgroup.coordinator.effects import (
    DeleteGroup,
    ReadOffsets,
    ReserveGenerations,
    WriteGroup,
    WriteOffsets,
)
from zkgroup.coordinator.events import (
    GroupWritten,
    OffsetsWritten,
    SlotLoaded,
    SlotLoading,
    SlotUnloaded,
    WriteOutcome,
)
from zkgroup.coordinator.records import GroupRecord
from zkgroup.coordinator.slots import slot_of
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode
from zkgroup.model.ports import Instant
from zkgroup.runtime.events import TimerFired
from zkgroup.znodes.coordinated_groups import OffsetAndMetadata

ANSWERS = "answers"
"""Timer at which the writes that were held get their outcomes."""

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class MemoryGroupStore:
    """What several brokers may share; each steps it as its own machine.

    `outcome` is that of every write. While `holds` is set, writes get theirs with `TimerFired(ANSWERS)`.
    """

    def __init__(self, slots: int = 1) -> None:
        self.slots = slots
        self.groups: dict[str, GroupRecord] = {}
        self.offsets: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
        self.zookeeper_members: dict[str, tuple[str, ...]] = {}
        self.unreadable: set[TopicPartition] = set()
        """Offsets that are no numbers."""
        self.outcome = WriteOutcome.STORED
        self.holds = False
        self.is_counted = False
        self.led: set[int] = set()
        self.written: list[object] = []
        """Every write, in order."""
        self.read: list[ReadOffsets] = []
        """Every OffsetFetch that came to the store."""
        self.effects_before: list[Any] = []
        """Given with the next step, before its own."""
        self._held: deque[Callable[[], list[Any]]] = deque()

    def step(self, event: Any, now: Instant) -> list[Any]:
        """`GroupStore.step`."""
        effects, self.effects_before = self.effects_before, []
        if not self.is_counted:
            self.is_counted = True
            effects.append(SlotsCounted(self.slots))
        return [*effects, *self._step(event)]

    def _step(self, event: Any) -> list[Any]:
        match event:
            case SlotLed(slot, epoch):
                self.led.add(slot)
                records = [each for name, each in self.groups.items() if slot_of(name, self.slots) == slot]
                return [SlotLoading(slot, epoch), SlotLoaded(slot, epoch, tuple(records))]
            case SlotResigned(slot, epoch):
                self.led.discard(slot)
                return [SlotUnloaded(slot, epoch)]
            case TimerFired(name) if name == ANSWERS:
                found = []
                while self._held:
                    found += self._held.popleft()()
                return found
            case ReadOffsets():
                self.read.append(event)
                return [self._read(event)]
            case ReadMembers(number, group):
                return [MembersRead(number, ErrorCode.NONE, self.zookeeper_members.get(group, ()))]
            case ReadLegacyOffsets():
                stored = self.offsets.get(event.group_id, {})
                offsets = {each: stored[each].offset for each in event.partitions if each in stored}
                unreadable = frozenset(self.unreadable.intersection(event.partitions))
                return [LegacyOffsetsRead(event.request_id, ErrorCode.NONE, offsets, unreadable)]
            case WriteGroup() | ReserveGenerations() | DeleteGroup() | WriteOffsets() | DeleteStoredOffsets():
                self.written.append(event)
                return self._later(lambda: self._write(event))
            case WriteManyOffsets(writes):
                return [effect for write in writes for effect in self._step(write)]
            case WriteLegacyOffsets():
                self.written.append(event)
                return self._later(lambda: self._write_legacy(event))
            case ExpireOffsets(group, recorded):
                for each in recorded:
                    self.offsets[group].pop(each, None)
                left = bool(self.offsets.get(group))
                return [OffsetsExpired(group_id=group, partitions=frozenset(recorded), has_offsets=left)]
            case _:
                return []  # session events: memory has no session

    def _later(self, write: Callable[[], list[Any]]) -> list[Any]:
        if not self.holds:
            return write()
        self._held.append(write)
        return []

    def _read(self, read: ReadOffsets) -> OffsetsRead:
        stored = self.offsets.get(read.group_id, {})
        named = tuple(stored) if read.partitions is None else read.partitions
        unstable = dict.fromkeys(read.unstable & set(named), ErrorCode.UNSTABLE_OFFSET_COMMIT)
        offsets = {each: stored[each] for each in named if each in stored}
        return OffsetsRead(read.request_id, ErrorCode.NONE, offsets, unstable)

    def _write(self, write: Any) -> list[Any]:
        is_stored = self.outcome is WriteOutcome.STORED
        match write:
            case WriteGroup(write_id, record):
                if is_stored:
                    self.groups[record.group_id] = record
                return [GroupWritten(write_id, self.outcome)]
            case ReserveGenerations():
                found = self.groups.get(write.group_id)
                if is_stored and found is not None:
                    reserved = write.reserved_generation
                    self.groups[write.group_id] = replace(found, reserved_generation=reserved)
                return [GroupWritten(write.write_id, self.outcome)]
            case DeleteGroup(write_id, group, keeps_offsets):
                if keeps_offsets and self.offsets.get(group):
                    return [GroupWritten(write_id, WriteOutcome.HAS_OFFSETS)]
                if is_stored:
                    self.groups.pop(group, None)
                    self.offsets.pop(group, None)
                return [GroupWritten(write_id, self.outcome)]
            case WriteOffsets():
                if is_stored:
                    self.offsets.setdefault(write.group_id, {}).update(write.offsets)
                return [OffsetsWritten({write.write_id: dict.fromkeys(write.offsets, self.outcome)})]
            case DeleteStoredOffsets(request_id, group, partitions):
                for each in partitions if is_stored else ():
                    self.offsets.get(group, {}).pop(each, None)
                return [OffsetsDeleted(request_id, dict.fromkeys(partitions, self.outcome))]
            case _:
                raise AssertionError(write)

    def _write_legacy(self, write: WriteLegacyOffsets) -> list[Any]:
        if self.outcome is WriteOutcome.STORED:
            offsets = {each: OffsetAndMetadata(offset=offset) for each, offset in write.offsets.items()}
            self.offsets.setdefault(write.group_id, {}).update(offsets)
        return [LegacyOffsetsWritten(write.request_id, dict.fromkeys(write.offsets, self.outcome))]
