"""Reads the offsets of all groups at intervals, for the retention; see `coordinator.retention`.

Only an offset that the coordinator wrote last may expire: its metadata records the same offset. Which write
was read goes with it, so that `ExpireOffsets` deletes nothing that was written later.

The offsets of a topic are read, too, when the controller deletes it: a new topic of that name would otherwise
be consumed from the offsets of the former one. Kafka's coordinator deletes them as well
(GroupCoordinator.handleDeletedPartitions).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

from zkgroup.broker.groups.led_slots import LedSlot, SlotPhase, StoreCore, StoredGroup
from zkgroup.broker.groups.offset_reads import FoundOffset, FoundOffsets, list_partitions, read_offsets
from zkgroup.broker.groups.store_events import OffsetsRecorded, Recorded, RetentionChecked
from zkgroup.coordinator.records import OffsetAndMetadata
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Sync
from zkgroup.runtime.concurrent_procedures import Job
from zkgroup.runtime.procedures import Procedure, Query, ask, read_many
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import Topic, topics_path

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
            if slot.phase is SlotPhase.OWNED and not self._is_checked(slot):
                self._run(slot, "read offsets that may expire", partial(self._check, slot))

    def topics_deleted(self, topics: Collection[str]) -> None:
        """Starts to read their offsets in the slots that are owned."""
        for slot in self._core.slots.values():
            if slot.phase is SlotPhase.OWNED:
                slot.deleted_topics.update(topics)
                self._read_deleted(slot)

    def _read_deleted(self, slot: LedSlot) -> None:
        if slot.deleted_topics and not self._is_checked(slot):
            topics = sorted(slot.deleted_topics)
            slot.deleted_topics.clear()
            self._run(slot, "read offsets of deleted topics", partial(self._check_deleted, slot, topics))

    def _is_checked(self, slot: LedSlot) -> bool:
        return ("retention", slot) in self._core.procedures

    def _run(self, slot: LedSlot, name: str, start: Callable[[], Procedure[None]]) -> None:
        """Starts a check of a slot; offsets of topics that are deleted meanwhile are read after it."""
        job = Job(name, start, lambda error: self._read_deleted(slot))
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
        own = _own(offsets)
        self._core.context.emit(
            OffsetsRecorded(
                group_id=group.group_id,
                offsets={each: _moved(found.committed, self._core.machine_ms) for each, found in own.items()},
                recorded=_recorded(own),
                has_others=len(own) < len(offsets.found) or bool(offsets.unreadable),
            )
        )

    def _check_deleted(self, slot: LedSlot, topics: Sequence[str]) -> Procedure[None]:
        names = sorted(slot.groups)
        for start in range(0, len(names), GROUPS_AT_ONCE):
            batch = names[start : start + GROUPS_AT_ONCE]
            listed = yield from list_partitions(batch, topics)
            offsets = yield from read_offsets(slot.number, listed)
            created = yield from _created(topics)
            for name in batch:
                own = {
                    each: found
                    for each, found in _own(offsets[name]).items()
                    if each.topic not in created or found.offset.stat.mzxid < created[each.topic]
                }
                if own and name in slot.groups:
                    self._core.context.emit(
                        OffsetsRecorded(
                            group_id=name,
                            offsets={each: found.committed for each, found in own.items()},
                            recorded=_recorded(own),
                            has_others=True,
                            are_of_deleted_topics=True,
                        )
                    )


def _created(topics: Sequence[str]) -> Procedure[dict[str, int]]:
    """The transactions that created these topics again; without those that are deleted now.

    An offset that was written later is one of the new topic.
    """
    yield from ask(Query(Sync(topics_path())))
    found, deletions = yield from read_many(
        [Topic.path(each) for each in topics], [TopicDeletion.path(each) for each in topics]
    )
    return {
        topic: znode.stat.czxid
        for topic, znode, deletion in zip(topics, found, deletions, strict=True)
        if znode is not None and deletion is None
    }


def _own(offsets: FoundOffsets) -> dict[TopicPartition, FoundOffset]:
    """The offsets that the coordinator wrote last."""
    return {each: found for each, found in offsets.found.items() if found.recorded is not None}


def _recorded(own: Mapping[TopicPartition, FoundOffset]) -> dict[TopicPartition, Recorded]:
    return {
        each: Recorded(found.offset.stat.mzxid, found.metadata.stat.mzxid)
        for each, found in own.items()
        if found.metadata is not None
    }


def _moved(offset: OffsetAndMetadata, to_machine_ms: Callable[[int], int]) -> OffsetAndMetadata:
    """The offset with times of the machine's clock."""
    expires_ms = offset.expire_timestamp_ms
    return offset._replace(
        commit_timestamp_ms=to_machine_ms(offset.commit_timestamp_ms),
        expire_timestamp_ms=None if expires_ms is None else to_machine_ms(expires_ms),
    )
