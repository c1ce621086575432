"""Reads the offsets of all groups at intervals, for the retention; see `coordinator.retention`.

Only an offset that the coordinator wrote last may expire: its metadata records the same offset. Which write
was read goes with it, so that `ExpireOffsets` deletes nothing that was written later.

Offsets of topics that were deleted are found on the way, and read, too, when the controller deletes a topic:
a new topic of that name would otherwise be consumed from the offsets of the former one. Kafka's coordinator
deletes them as well (GroupCoordinator.handleDeletedPartitions). Its notice may come before a slot is loaded,
and a commit that was accepted before it may be stored after it. So a loaded slot is checked as well, and a
check that finds the request to delete a topic is repeated when the request is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from zkgroup.broker.groups.led_slots import LedSlot, SlotPhase, StoreCore
from zkgroup.broker.groups.offset_reads import FoundOffset, FoundOffsets, list_partitions, read_offsets
from zkgroup.broker.groups.slot_usage import metadata_size
from zkgroup.broker.groups.store_events import OffsetsRecorded, Recorded, RetentionChecked
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Exists, Sync
from zkgroup.runtime.events import Watch
from zkgroup.runtime.machine import Job
from zkgroup.runtime.procedures import Procedure, Query, ask, exists_done, read_allowed
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import topics_path
from zkgroup.znodes.coordinated_groups import OffsetAndMetadata

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

    def slot_loaded(self, slot: LedSlot) -> None:
        """Starts to read all its offsets: topics may have been deleted before the load."""
        slot.reads_all_topics = True
        self._read_deleted(slot)

    def connected(self, slot: LedSlot) -> None:
        """The connection is new, and watches are gone: topics whose deletion was watched are read again."""
        self._deletion_over(slot, slot.watched_deletions)

    def _deletion_over(self, slot: LedSlot, topics: Collection[str]) -> None:
        slot.topics_to_read.update(topics)
        slot.watched_deletions.difference_update(slot.topics_to_read)
        if not slot.is_closed:
            self._read_deleted(slot)

    def _read_deleted(self, slot: LedSlot) -> None:
        if self._is_checked(slot):
            return
        reported, topics = frozenset(slot.deleted_topics), slot.deleted_topics | slot.topics_to_read
        if topics or slot.reads_all_topics:
            start = partial(self._check_deleted, slot, reported, None if slot.reads_all_topics else topics)
            slot.deleted_topics.clear()
            slot.topics_to_read.clear()
            slot.reads_all_topics = False
            self._run(slot, "read offsets of deleted topics", start)

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
        for names in _batches(slot):
            offsets = yield from self._read(slot, names)
            deleted = yield from self._of_deleted_topics(slot, offsets)
            for name in names:
                if name in slot.groups:
                    own = _own(offsets[name])
                    has_others = len(own) < len(offsets[name].found) or bool(offsets[name].unreadable)
                    self._record(name, own, deleted[name], has_others=has_others)
        slot.usage.is_measured = True
        self._core.context.emit(RetentionChecked(slot.number, frozenset(slot.groups)))

    def _record(
        self,
        name: str,
        own: Mapping[TopicPartition, FoundOffset],
        deleted: frozenset[TopicPartition],
        *,
        has_others: bool,
    ) -> None:
        self._core.context.emit(
            OffsetsRecorded(
                group_id=name,
                offsets={each: _moved(found.committed, self._core.machine_ms) for each, found in own.items()},
                recorded=_recorded(own),
                has_others=has_others,
                of_deleted_topics=deleted,
            )
        )

    def _read(
        self, slot: LedSlot, names: Sequence[str], topics: Collection[str] | None = None
    ) -> Procedure[dict[str, FoundOffsets]]:
        before = {name: slot.usage.known(name) for name in names}
        listed = yield from list_partitions(names, topics)
        found = yield from read_offsets(slot.number, listed)
        if topics is None:
            for name in names:
                sizes = dict.fromkeys(found[name].unreadable, 0)
                sizes |= {tp: metadata_size(one.committed.metadata) for tp, one in found[name].found.items()}
                slot.usage.measured(name, before[name], sizes)
        return found

    def _check_deleted(
        self, slot: LedSlot, reported: frozenset[str], topics: Collection[str] | None
    ) -> Procedure[None]:
        """Records the offsets of deleted topics, among these topics or, with None, all.

        The reported ones are deleted by the controller: it has accepted the request to delete them.
        """
        yield from ask(Query(Sync(topics_path())))
        for names in _batches(slot):
            offsets = yield from self._read(slot, names, topics)
            deleted = yield from self._of_deleted_topics(slot, offsets, reported)
            for name in names:
                if name in slot.groups and deleted[name]:
                    own = {each: offsets[name].found[each] for each in sorted(deleted[name])}
                    self._record(name, own, deleted[name], has_others=True)
        slot.usage.is_measured = slot.usage.is_measured or topics is None

    def _of_deleted_topics(
        self, slot: LedSlot, offsets: Mapping[str, FoundOffsets], reported: frozenset[str] = frozenset()
    ) -> Procedure[dict[str, frozenset[TopicPartition]]]:
        """The partitions whose topic is gone or was created later, or is reported and being deleted."""
        own = {name: _own(found) for name, found in offsets.items()}
        present = {
            each.topic
            for found in own.values()
            for each, offset in found.items()
            if offset.topic is not None and not offset.is_of_former_topic
        }
        gone = reported & (yield from self._being_deleted(slot, sorted(present)))
        return {
            name: frozenset(
                each
                for each, offset in found.items()
                if offset.topic is None or offset.is_of_former_topic or each.topic in gone
            )
            for name, found in own.items()
        }

    def _being_deleted(self, slot: LedSlot, topics: Sequence[str]) -> Procedure[set[str]]:
        """Those of these topics that are to be deleted; their offsets are read again after that."""
        if not topics:
            return set()
        found = yield from read_allowed([TopicDeletion.path(each) for each in topics])
        requested = {topic for topic, each in zip(topics, found, strict=True) if isinstance(each, Znode)}
        if unwatched := sorted(requested - slot.watched_deletions):
            yield from self._watch(slot, unwatched)
        return requested

    def _watch(self, slot: LedSlot, topics: Sequence[str]) -> Procedure[None]:
        watches = [Watch(partial(self._deletion_over, slot, {each})) for each in topics]
        outcomes = yield from ask(
            *(
                Query(Exists(TopicDeletion.path(each), watch=True), watch)
                for each, watch in zip(topics, watches, strict=True)
            )
        )
        # Without an answer no watch is armed; one that fired meanwhile is not any more.
        slot.watched_deletions.update(
            topic for topic, watch in zip(topics, watches, strict=True) if not watch.fired
        )
        for watch, outcome in zip(watches, outcomes, strict=True):
            if exists_done(outcome) is None:
                watch()


def _batches(slot: LedSlot) -> Iterator[Sequence[str]]:
    names = sorted(slot.groups)
    return (names[start : start + GROUPS_AT_ONCE] for start in range(0, len(names), GROUPS_AT_ONCE))


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
