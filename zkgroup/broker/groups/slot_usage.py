"""The usage of ZooKeeper by the committed offsets of a slot, and its bounds. Pure.

Any client that reaches a coordinator may commit offsets of a group that nobody knows, each with metadata.
ZooKeeper keeps all of it in memory, so a slot has bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zkgroup.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotBounds:
    """The bounds of one slot."""

    groups_max: int = 500
    """`slot_max_groups`: most groups; the coordinator refuses others (`CoordinatorSettings`)."""
    offsets_max: int = 10_000
    """`slot_max_offsets`: most offsets of all groups."""
    metadata_bytes_max: int = 1_048_576
    """`slot_max_metadata_bytes`: most bytes of the metadata of these offsets together."""


class SlotUsage:
    """The offsets of one slot: their number, and the bytes of their metadata."""

    def __init__(self, bounds: SlotBounds) -> None:
        self._bounds = bounds
        self._sizes: dict[str, dict[TopicPartition, int]] = {}
        """Bytes of metadata of each offset, by group."""
        self.offsets = 0
        """Number of offsets."""
        self.metadata_bytes = 0
        self.is_measured = False
        """True if all offsets were read since the slot was loaded; none is refused before."""

    def size(self, group_id: str, partition: TopicPartition) -> int | None:
        """Bytes of the metadata of an offset; None without such an offset."""
        sizes = self._sizes.get(group_id)
        return None if sizes is None else sizes.get(partition)

    def admits(self, before: int | None, size: int) -> bool:
        """Returns whether an offset may be written whose metadata had `before` bytes; None: it is new.

        One that is there can always be written with metadata that are no longer.
        """
        if not self.is_measured:
            return True
        if before is None and self.offsets >= self._bounds.offsets_max:
            return False
        grows_by = size - (before or 0)
        return grows_by <= 0 or self.metadata_bytes + grows_by <= self._bounds.metadata_bytes_max

    def put(self, group_id: str, partition: TopicPartition, size: int | None) -> None:
        """Notes an offset with metadata of so many bytes; None: it is gone."""
        sizes = self._sizes.setdefault(group_id, {})
        before = sizes.pop(partition, None)
        if before is not None:
            self.offsets -= 1
            self.metadata_bytes -= before
        if size is not None:
            sizes[partition] = size
            self.offsets += 1
            self.metadata_bytes += size
        if not sizes:
            del self._sizes[group_id]

    def known(self, group_id: str) -> frozenset[TopicPartition]:
        """The partitions of a group that have an offset."""
        return frozenset(self._sizes.get(group_id, ()))

    def measured(
        self, group_id: str, before: frozenset[TopicPartition], sizes: Mapping[TopicPartition, int]
    ) -> None:
        """Takes the offsets of a group as they were read: others can write and delete them, too.

        `before`: those that were known before the read; others have been committed meanwhile.
        """
        for partition in before - sizes.keys():
            self.put(group_id, partition, None)
        for partition, size in sizes.items():
            if self.size(group_id, partition) is None:
                self.put(group_id, partition, size)

    def forget(self, group_id: str) -> None:
        """The offsets of a group are gone."""
        for partition in self.known(group_id):
            self.put(group_id, partition, None)


def metadata_size(metadata: str) -> int:
    """The bytes of the metadata of an offset."""
    return len(metadata) if metadata.isascii() else len(metadata.encode())
