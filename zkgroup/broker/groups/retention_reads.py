"""Reads the offsets of all groups at intervals, for the retention; see `coordinator.retention`.

Only an offset that the coordinator wrote last may expire: its metadata records the same offset. What was read
is remembered, so that `ExpireOffsets` deletes nothing that was written later.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from zkgroup.broker.groups.led_slots import LedSlot, SlotPhase, StoreCore, StoredGroup
from zkgroup.broker.groups.offset_reads import FoundOffsets, list_partitions, read_offsets
from zkgroup.broker.groups.store_events import OffsetsRecorded, RetentionChecked
from zkgroup.coordinator.records import OffsetAndMetadata
from zkgroup.runtime.concurrent_procedures import Job
from zkgroup.runtime.procedures import Procedure

RETENTION_TIMER: Final = "retention"
GROUPS_AT_ONCE: Final = 100
"""Groups whose offsets are read together."""


class RetentionReads:
    """Emits `OffsetsRecorded` for every group of the owned slots, then `RetentionChecked` for each slot."""

    def __init__(self, core: StoreCore) -> None:
        self._core = core

    def start(self) -> None:
        """Sets the timer of the next check, unless it is set."""
        context = self._core.context
        if not context.has_timer(RETENTION_TIMER):
            interval_ms = context.config.offsets_retention_check_interval_ms
            context.set_timer(RETENTION_TIMER, context.now.ms + interval_ms)

    def timer_fired(self) -> None:
        """Starts a check of each slot that is owned."""
        self.start()
        for slot in self._core.slots.values():
            if slot.phase is SlotPhase.OWNED and ("retention", slot) not in self._core.procedures:
                job = Job("read offsets that may expire", partial(self._check, slot), lambda error: None)
                self._core.run(("retention", slot), job)

    def close(self, slot: LedSlot) -> None:
        """The slot is given up."""
        self._core.procedures.cancel(("retention", slot))

    def _check(self, slot: LedSlot) -> Procedure[None]:
        names = sorted(slot.groups)
        for start in range(0, len(names), GROUPS_AT_ONCE):
            batch = names[start : start + GROUPS_AT_ONCE]
            listed = yield from list_partitions(batch)
            offsets = yield from read_offsets(slot.number, listed)
            for name in batch:
                group = slot.groups.get(name)
                if group is not None:
                    self._record(group, offsets[name])
        self._core.context.emit(RetentionChecked(slot.number, frozenset(slot.groups)))

    def _record(self, group: StoredGroup, offsets: FoundOffsets) -> None:
        own = {each: found for each, found in offsets.found.items() if found.recorded is not None}
        group.recorded = {
            each: (found.offset.stat.mzxid, found.metadata.stat.mzxid)
            for each, found in own.items()
            if found.metadata is not None
        }
        self._core.context.emit(
            OffsetsRecorded(
                group_id=group.group_id,
                offsets={each: _moved(found.committed, self._core.machine_ms) for each, found in own.items()},
                has_others=len(own) < len(offsets.found) or bool(offsets.unreadable),
            )
        )


def _moved(offset: OffsetAndMetadata, to_machine_ms: Callable[[int], int]) -> OffsetAndMetadata:
    """The offset with times of the machine's clock."""
    expires_ms = offset.expire_timestamp_ms
    return offset._replace(
        commit_timestamp_ms=to_machine_ms(offset.commit_timestamp_ms),
        expire_timestamp_ms=None if expires_ms is None else to_machine_ms(expires_ms),
    )
