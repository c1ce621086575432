"""Reads offsets: Kafka's znodes, and the metadata where it belongs to the offset.

A ZooKeeper consumer writes the offset alone. Its offset is recognised because the metadata has another one:
then there is no metadata, and no leader epoch.

An offset that was committed before its topic was created is one of a deleted topic of that name. No client
gets it, whatever `retention_reads` has deleted by then. The topic is read after the offset: in the other
order it could be created anew between the two.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from zkgroup.broker.groups.led_slots import LedSlot, StoreCore
from zkgroup.broker.groups.store_events import (
    LegacyOffsetsRead,
    MembersRead,
    OffsetsRead,
    ReadLegacyOffsets,
    ReadMembers,
)
from zkgroup.coordinator.effects import ReadOffsets
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import TopicPartition, Znode, ZnodeStat
from zkgroup.model.error_codes import ErrorCode
from zkgroup.model.requests import (
    Code,
    Exists,
    ListChildren,
    ListMany,
    ListManyDone,
    ReadMany,
    ReadManyDone,
    Sync,
)
from zkgroup.runtime.machine import Job
from zkgroup.runtime.procedures import Procedure, Query, ask, exists_done, list_done
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import Offset, ids_path, offset_path, offsets_path, offsets_topic_path
from zkgroup.znodes.coordinated_groups import OffsetAndMetadata
from zkgroup.znodes.json_fields import INT32, decimal


@dataclass(frozen=True, slots=True)
class FoundOffset:
    """The znodes of one offset."""

    offset: Znode
    value: int
    metadata: Znode | None
    recorded: OffsetAndMetadata | None
    """None also where the metadata is of another offset: the coordinator did not write it last."""
    topic: ZnodeStat | None
    """Of the topic's znode; None: there is no such topic."""

    @property
    def is_of_former_topic(self) -> bool:
        """True if it was committed before its topic was created."""
        if self.recorded is None or self.topic is None:
            return False
        return self.offset.stat.mzxid < self.topic.czxid

    @property
    def committed(self) -> OffsetAndMetadata:
        return OffsetAndMetadata(self.value) if self.recorded is None else self.recorded


@dataclass(frozen=True, slots=True)
class FoundOffsets:
    """The offsets of a group; without those by which ZooKeeper consumers say "none".

    A negative one that the coordinator wrote is there: Kafka's clients find what they committed.
    """

    found: Mapping[TopicPartition, FoundOffset]
    unreadable: Mapping[TopicPartition, str]
    """The reason for each unreadable offset, for the log."""


def list_partitions(
    groups: Iterable[str], of: Collection[str] | None = None
) -> Procedure[dict[str, list[TopicPartition]]]:
    """The partitions that have an offset znode, for each group; with `of` those of these topics alone."""
    names = list(groups)
    (outcome,) = yield from ask(Query(ListMany(tuple(map(offsets_path, names)))))
    topics = [
        (name, topic)
        for name, below in zip(names, _listed(outcome), strict=True)
        for topic in below
        if of is None or topic in of
    ]
    found: dict[str, list[TopicPartition]] = {name: [] for name in names}
    if topics:
        (outcome,) = yield from ask(Query(ListMany(tuple(offsets_topic_path(*each) for each in topics))))
        for (name, topic), below in zip(topics, _listed(outcome), strict=True):
            numbers = [number for each in below if (number := decimal(each, INT32)) is not None]
            found[name] += [TopicPartition(topic, number) for number in sorted(numbers)]
    return found


def _listed(outcome: object) -> list[tuple[str, ...]]:
    assert isinstance(outcome, ListManyDone), outcome
    return [each if isinstance(each, tuple) else () for each in outcome.children]


def read_offsets(
    slot: int, partitions: Mapping[str, Iterable[TopicPartition]]
) -> Procedure[dict[str, FoundOffsets]]:
    """The offsets of these partitions, for each group."""
    keys = [(group, partition) for group, each in partitions.items() for partition in each]
    found: dict[str, dict[TopicPartition, FoundOffset]] = {group: {} for group in partitions}
    unreadable: dict[str, dict[TopicPartition, str]] = {group: {} for group in partitions}
    result = {group: FoundOffsets(found[group], unreadable[group]) for group in partitions}
    if not keys:
        return result
    topics = sorted({partition.topic for _, partition in keys})
    offsets, metadata, *exist = yield from ask(
        Query(ReadMany(tuple(offset_path(*key) for key in keys))),
        Query(ReadMany(tuple(OffsetAndMetadata.path(slot, *key) for key in keys))),
        *(Query(Exists(Topic.path(each))) for each in topics),
    )
    assert isinstance(offsets, ReadManyDone)
    assert isinstance(metadata, ReadManyDone)
    stats = {topic: exists_done(each) for topic, each in zip(topics, exist, strict=True)}
    for (group, partition), offset, beside in zip(keys, offsets.znodes, metadata.znodes, strict=True):
        if isinstance(offset, Code):
            unreadable[group][partition] = offset.value
        elif offset is not None:
            try:
                metadata_found = beside if isinstance(beside, Znode) else None
                each = _found(offset, metadata_found, stats[partition.topic])
            except CorruptZnodeError as error:
                unreadable[group][partition] = str(error)
            else:
                if each.value >= 0 or each.recorded is not None:
                    found[group][partition] = each
    return result


def _found(offset: Znode, beside: Znode | None, topic: ZnodeStat | None) -> FoundOffset:
    """Raises CorruptZnodeError for an offset that is none; metadata that is unreadable counts as none."""
    value = Offset.decode(offset.path, offset.data).value
    if beside is None:
        return FoundOffset(offset, value, None, None, topic)
    try:
        recorded = OffsetAndMetadata.decode(beside.path, beside.data)
    except CorruptZnodeError:
        return FoundOffset(offset, value, beside, None, topic)
    return FoundOffset(offset, value, beside, recorded if recorded.offset == value else None, topic)


Request = ReadOffsets | ReadMembers | ReadLegacyOffsets


class OffsetReads:
    """OffsetFetch, and the members of unknown groups: each request is a job of its own."""

    def __init__(self, core: StoreCore) -> None:
        self._core = core
        self._under_way: dict[int, tuple[LedSlot | None, Request]] = {}
        """By request id; without a slot those of version 0."""

    def add(self, read: Request) -> None:
        """Takes a request; refuses it where the slot is not owned.

        One of version 0 is taken on any broker, and refused without a connection.
        """
        is_legacy = isinstance(read, ReadLegacyOffsets)
        slot = None if is_legacy else self._core.owned(read.group_id)
        if slot is None and not (is_legacy and self._core.context.connected):
            self._refuse(read)
            return
        self._under_way[read.request_id] = slot, read
        name = "read members" if isinstance(read, ReadMembers) else "read offsets"
        job = Job(name, partial(self._perform, slot, read), partial(self._ended, read))
        self._core.run(("read", read.request_id), job)

    def close(self, slot: LedSlot) -> None:
        """The slot is given up: its requests are refused."""
        for request_id, (of, read) in list(self._under_way.items()):
            if of is slot:
                del self._under_way[request_id]
                self._core.procedures.cancel(("read", request_id))
                self._refuse(read)

    def session_over(self) -> None:
        """No reply comes any more; the slots are closed."""
        for _, read in self._under_way.values():
            self._refuse(read)
        self._under_way.clear()

    def _refuse(self, read: Request, error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        match read:
            case ReadMembers():
                self._core.context.emit(MembersRead(read.request_id, error))
            case ReadOffsets():
                self._core.context.emit(OffsetsRead(read.request_id, error, {}, {}))
            case ReadLegacyOffsets():
                unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
                self._core.context.emit(LegacyOffsetsRead(read.request_id, unavailable, {}))

    def _ended(self, read: Request, error: Exception | None) -> None:
        if error is not None and self._under_way.pop(read.request_id, None) is not None:
            self._refuse(read, ErrorCode.UNKNOWN)

    def _perform(self, slot: LedSlot | None, read: Request) -> Procedure[None]:
        match read:
            case ReadMembers():
                yield from self._read_members(read)
            case ReadOffsets():
                assert slot is not None
                yield from self._read(slot, read)
            case ReadLegacyOffsets():
                yield from self._read_legacy(read)

    def _read(self, slot: LedSlot, read: ReadOffsets) -> Procedure[None]:
        partitions = read.partitions
        if partitions is None:
            listed = yield from list_partitions([read.group_id])
            partitions = tuple(listed[read.group_id])
        offsets = yield from read_offsets(slot.number, {read.group_id: partitions})
        found = offsets[read.group_id]
        errors = dict.fromkeys(found.unreadable, ErrorCode.UNKNOWN)
        for partition, reason in found.unreadable.items():
            path = offset_path(read.group_id, partition)
            self._core.context.note("offset.unreadable", path=path, detail=reason)
        unstable = read.unstable & set(partitions)
        errors.update(dict.fromkeys(unstable, ErrorCode.UNSTABLE_OFFSET_COMMIT))
        del self._under_way[read.request_id]
        self._core.context.emit(
            OffsetsRead(
                read.request_id,
                ErrorCode.NONE,
                {
                    each: offset.committed
                    for each, offset in found.found.items()
                    if each not in unstable and not offset.is_of_former_topic
                },
                errors,
            )
        )

    def _read_members(self, read: ReadMembers) -> Procedure[None]:
        path = ids_path(read.group_id)
        _, listed = yield from ask(Query(Sync(path)), Query(ListChildren(path)))
        del self._under_way[read.request_id]
        members = tuple(sorted(list_done(listed).children))
        self._core.context.emit(MembersRead(read.request_id, ErrorCode.NONE, members))

    def _read_legacy(self, read: ReadLegacyOffsets) -> Procedure[None]:
        paths = tuple(offset_path(read.group_id, each) for each in read.partitions)
        found: dict[TopicPartition, int | None] = {}
        if paths:
            (outcome,) = yield from ask(Query(ReadMany(paths)))
            assert isinstance(outcome, ReadManyDone), outcome
            for partition, znode in zip(read.partitions, outcome.znodes, strict=True):
                if znode is not None:
                    found[partition] = self._legacy_value(znode) if isinstance(znode, Znode) else None
        del self._under_way[read.request_id]
        offsets = {partition: value for partition, value in found.items() if value is not None}
        unreadable = frozenset(found.keys() - offsets.keys())
        self._core.context.emit(LegacyOffsetsRead(read.request_id, ErrorCode.NONE, offsets, unreadable))

    def _legacy_value(self, znode: Znode) -> int | None:
        try:
            return Offset.decode(znode.path, znode.data).value
        except CorruptZnodeError as error:
            self._core.context.note("offset.unreadable", path=error.path, detail=str(error))
            return None
