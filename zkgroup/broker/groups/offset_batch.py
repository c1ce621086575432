"""A batch of commits of one slot: what is still open, and the operations of one transaction. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from zkgroup.broker.groups.led_slots import LedSlot, OffsetPaths, StoredGroup
from zkgroup.broker.groups.slot_usage import SlotUsage, metadata_size
from zkgroup.coordinator.effects import WriteOffsets
from zkgroup.coordinator.events import WriteOutcome
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete, Operation, SetData
from zkgroup.znodes.consumers import (
    Offset,
    group_path,
    ids_path,
    offset_path,
    offsets_path,
    offsets_topic_path,
)
from zkgroup.znodes.coordinated_groups import OffsetAndMetadata, meta_path, meta_topic_path

TRANSACTION_BYTES: Final = 400 * 1024
"""Most bytes of one transaction of commits, roughly; ZooKeeper's limit is 1 MiB."""
OPERATION_BYTES: Final = 60
"""Bytes of an operation beside path and data."""

Key = tuple[str, TopicPartition]
"""Group and partition."""


class OffsetBatch:
    """Commits that were collected. A later one of the same partition replaces an earlier one."""

    def __init__(self, writes: Iterable[WriteOffsets]) -> None:
        self.writes = tuple(writes)
        self.outcomes: dict[int, dict[TopicPartition, WriteOutcome]] = {}
        """By write id, of each partition that has one."""
        self._open: dict[Key, list[WriteOffsets]] = {}
        """The commits of each partition without an outcome; the last one's offset is written."""
        self.in_flight: tuple[Key, ...] = ()
        """The partitions in the transaction under way."""
        self.refusals: dict[str, int] = {}
        """By group, how often its znodes were not what was expected."""
        self.noted: dict[Key, int | None] = {}
        """The offsets whose size is noted and that are not stored yet, with their former size."""
        still_open, outcomes = self._open, self.outcomes
        for write in self.writes:
            group_id = write.group_id
            outcomes[write.write_id] = {}
            for partition in write.offsets:
                key = (group_id, partition)
                if key in still_open:
                    still_open[key].append(write)
                else:
                    still_open[key] = [write]

    @property
    def is_done(self) -> bool:
        return not self._open

    def offsets(self) -> dict[Key, OffsetAndMetadata]:
        """Returns the offsets to write, in the order of the commits."""
        return {key: writers[-1].offsets[key[1]] for key, writers in self._open.items()}

    def guarded(self) -> frozenset[str]:
        """The groups with a commit of a client that is no member."""
        if not any([write.refuse_zookeeper_members for write in self.writes]):  # noqa: C419  twice as fast
            return frozenset()
        return frozenset(
            write.group_id
            for writers in self._open.values()
            for write in writers
            if write.refuse_zookeeper_members
        )

    def admit(self, usage: SlotUsage) -> None:
        """Refuses the offsets for which the slot has no room, and notes the size of the others."""
        refused = []
        for key, writers in self._open.items():
            group_id, partition = key
            size = metadata_size(writers[-1].offsets[partition].metadata)
            before = usage.size(group_id, partition)
            if size == before:
                continue
            if usage.admits(before, size):
                self.noted[key] = before
                usage.put(group_id, partition, size)
            else:
                refused.append(key)
        self.settle(refused, WriteOutcome.SLOT_FULL)

    def take_back(self, usage: SlotUsage) -> None:
        """Notes the former size of offsets that were not stored."""
        for (group_id, partition), before in self.noted.items():
            usage.put(group_id, partition, before)
        self.noted.clear()

    def settle(self, keys: Iterable[Key], outcome: WriteOutcome) -> None:
        """The outcome of these partitions, for all commits that have them."""
        if self.noted and outcome in (WriteOutcome.STORED, WriteOutcome.UNKNOWN):
            keys = tuple(keys)
            for key in keys:
                self.noted.pop(key, None)
        take, outcomes = self._open.pop, self.outcomes
        for key in keys:
            for write in take(key, ()):
                outcomes[write.write_id][key[1]] = outcome

    def settle_guarded(self, group_id: str) -> None:
        """ZooKeeper consumers are members: only commits of members go on."""
        for key in [each for each in self._open if each[0] == group_id]:
            writers = self._open.pop(key)
            if members := [write for write in writers if not write.refuse_zookeeper_members]:
                self._open[key] = members
            for write in writers:
                if write.refuse_zookeeper_members:
                    self.outcomes[write.write_id][key[1]] = WriteOutcome.ZOOKEEPER_MEMBERS

    def settle_all(self, outcome: WriteOutcome) -> None:
        """The outcome of all that is open."""
        self.settle(list(self._open), outcome)


@dataclass(slots=True)
class OffsetTransaction:
    """One transaction of a batch."""

    operations: list[Operation]
    owners: list[Key | str | None] = field(default_factory=list)
    """For each operation the partition that needs it, or the group that it guards; None for the slot."""
    keys: list[Key] = field(default_factory=list)
    """The partitions that it writes."""
    bytes: int = 0
    creates: bool = False
    """True if it may create a znode; nearly all only set data."""

    def created(self) -> Iterator[tuple[Create, Key | str | None]]:
        """The znodes that it creates, with their owners."""
        if self.creates:
            for operation, owner in zip(self.operations, self.owners, strict=True):
                if isinstance(operation, Create):
                    yield operation, owner

    def add(self, operations: Sequence[Operation], owner: Key | str | None) -> None:
        self.operations += operations
        self.owners += [owner] * len(operations)


def paths_of(slot: int, stored: StoredGroup, partition: TopicPartition) -> OffsetPaths:
    """The znodes of an offset. They are made once."""
    found = stored.paths.get(partition)
    if found is None:
        group, topic = stored.group_id, partition.topic
        parents = (group_path(group), offsets_path(group), offsets_topic_path(group, topic))
        offset, metadata = offset_path(group, partition), OffsetAndMetadata.path(slot, group, partition)
        metadata_parents = (meta_path(slot, group), meta_topic_path(slot, group, topic))
        found = stored.paths[partition] = OffsetPaths(
            parents=parents,
            offset=offset,
            metadata_parents=metadata_parents,
            metadata=metadata,
            every=(*parents, offset, *metadata_parents, metadata),
            bytes=len(offset.encode()) + len(metadata.encode()),
        )
    return found


def unknown_paths(slot: LedSlot, keys: Iterable[Key], guarded: Iterable[str]) -> dict[str, StoredGroup]:
    """The znodes of which it is not known whether they exist, each with its group.

    A header that is not known is one of them: a commit without a reply may have created it.
    """
    found: dict[str, StoredGroup] = {}
    for group_id, partition in keys:
        group = slot.group(group_id)
        if partition not in group.complete:
            paths = paths_of(slot.number, group, partition).every
            found.update((path, group) for path in paths if path not in group.existing)
        if group.version is None:
            found[group.path] = group
    for group_id in guarded:
        group = slot.group(group_id)
        if ids_path(group_id) not in group.existing:
            found[ids_path(group_id)] = group
    return found


def transaction_of(
    slot: LedSlot,
    offsets: Mapping[Key, OffsetAndMetadata],
    guarded: Iterable[str],
    bytes_max: int,
) -> OffsetTransaction:
    """The first transaction of these offsets, with at least one of them."""
    transaction = OffsetTransaction([])
    transaction.add([slot.check], None)
    made: set[str] = set()
    guards = set(guarded)
    for key, offset in offsets.items():
        group = slot.group(key[0])
        guard = _guard(group, made) if key[0] in guards else []
        value, metadata = Offset(offset.offset).encode(), offset.encode()
        known = group.complete.get(key[1])
        if known is not None and not guard and group.version is not None:
            operations: list[Operation] = [
                SetData(known.offset, value, -1),
                SetData(known.metadata, metadata, -1),
            ]
            size = 2 * OPERATION_BYTES + known.bytes + len(value) + len(metadata)
        else:
            paths = paths_of(slot.number, group, key[1])
            if all(map(group.existing.get, paths.every)):
                group.complete[key[1]] = paths
            transaction.creates = True  # or sets data of znodes that were not known to be complete
            made.update(_created(guard))
            operations = _operations(group, paths, value, metadata, made)
            size = _size_of(guard) + _size_of(operations)
        if transaction.keys and transaction.bytes + size > bytes_max:
            break
        if len(operations) > 2 or guard:
            guards.discard(key[0])
            made.update(_created(operations))
            transaction.add(guard, key[0])
        transaction.add(operations, key)
        transaction.bytes += size
        transaction.keys.append(key)
    return transaction


def _created(operations: Sequence[Operation]) -> list[str]:
    return [each.path for each in operations if isinstance(each, Create)]


def _guard(group: StoredGroup, made: set[str]) -> list[Operation]:
    """Refused while ZooKeeper consumers are members (guard of a group's changes: recipes 8)."""
    above, ids = group_path(group.group_id), ids_path(group.group_id)
    if group.existing[ids]:
        return [Delete(ids, -1), Create(ids, None)]
    return [*_missing([above], group, made), Create(ids, None)]


def _operations(
    group: StoredGroup, paths: OffsetPaths, value: bytes, metadata: bytes, made: set[str]
) -> list[Operation]:
    """Sets an offset and its metadata; creates what is missing."""
    has_header = group.version is not None or group.path in made
    return [
        *_missing(paths.parents, group, made),
        _put(paths.offset, value, group),
        *([] if has_header else [Create(group.path, None)]),
        *_missing(paths.metadata_parents, group, made),
        _put(paths.metadata, metadata, group),
    ]


def _put(path: str, data: bytes, group: StoredGroup) -> Operation:
    return SetData(path, data, -1) if group.existing[path] else Create(path, data)


def _missing(paths: Sequence[str], group: StoredGroup, made: set[str]) -> list[Operation]:
    return [Create(path, None) for path in paths if not group.existing[path] and path not in made]


def _size_of(operations: Sequence[Operation]) -> int:
    size = OPERATION_BYTES * len(operations)
    for operation in operations:
        size += len(operation.path.encode())
        if isinstance(operation, (Create, SetData)):
            size += len(operation.data or b"")
    return size
