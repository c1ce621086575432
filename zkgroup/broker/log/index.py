"""The two sparse indexes of a segment, in Kafka's files: `.index` by offset, `.timeindex` by timestamp.

An entry of the offset index is the last offset of a batch, as the distance from the segment's base offset,
and the batch's position in the `.log` file. An entry of the time index is the largest timestamp up to a
batch, and the last offset of the batch that has it. Both ascend.

No file is kept in memory: a search reads one block of the file, and in a long index a few single entries
before. An index can be made again from its segment, so an entry is checked there before it is used.

Sources: kafka/log/OffsetIndex.scala, TimeIndex.scala @2.8.2.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

from zkgroup.broker.log.storage import Storage

BLOCK_ENTRIES: Final = 512
"""Number of entries in one read."""
RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1
NO_TIMESTAMP: Final = -1


class OffsetEntry(NamedTuple):
    """A batch in the offset index."""

    offset: int
    """Of its last record."""
    position: int
    """Of its first byte in the segment."""


class TimeEntry(NamedTuple):
    """An entry of the time index."""

    timestamp: int
    """The largest one up to the batch for which the entry was made."""
    offset: int
    """Of the last record of the batch that has it."""


EntryT = TypeVar("EntryT", OffsetEntry, TimeEntry)


class _Index(Generic[EntryT]):
    """Entries of one size in a file. What is no whole entry at its end is left out."""

    ENTRY: ClassVar[struct.Struct]
    OFFSET_FIELD: ClassVar[int]
    """Of an entry, the one with the offset, less the base offset."""

    __slots__ = ("_base_offset", "_entries", "_pending", "_storage", "path")

    def __init__(self, storage: Storage, path: str, base_offset: int) -> None:
        self._storage = storage
        self.path = path
        """Of the file."""
        self._base_offset = base_offset
        self._entries = (storage.size(path) or 0) // self.ENTRY.size
        self._pending: bytearray | None = None
        """Entries behind those in the file; None where each is written at once."""

    @contextmanager
    def written_together(self) -> Iterator[None]:
        """Writes the entries that are added meanwhile in one piece at the end; none is read before."""
        self._pending = pending = bytearray()
        whole = self._entries
        try:
            yield
            if pending:
                self._storage.write(self.path, whole * self.ENTRY.size, pending)
                whole += len(pending) // self.ENTRY.size
        finally:
            self._pending, self._entries = None, whole

    def __len__(self) -> int:
        return self._entries

    def truncate(self, entries: int) -> None:
        """Keeps so many entries from the first on, and no byte behind them. Creates a missing file."""
        self._entries = entries
        size = self._storage.size(self.path)
        if size is None:
            self._storage.write(self.path, 0, b"")
        elif size != entries * self.ENTRY.size:
            self._storage.truncate(self.path, entries * self.ENTRY.size)

    def _add(self, *fields: int) -> None:
        if self._pending is None:
            self._storage.write(self.path, self._entries * self.ENTRY.size, self.ENTRY.pack(*fields))
        else:
            self._pending += self.ENTRY.pack(*fields)
        self._entries += 1

    def _fields(self, number: int, count: int = 1) -> list[tuple[int, ...]]:
        """Of `count` entries from one on. Raises OSError where the file is shorter than it was."""
        if not count:
            return []
        size = count * self.ENTRY.size
        data = self._storage.read(self.path, number * self.ENTRY.size, size)
        if len(data) != size:
            raise OSError(f"{self.path}: expected {number + count} entries, found fewer")
        return list(self.ENTRY.iter_unpack(data))

    def _count_up_to(self, field: int, value: int) -> int:
        """Returns the number of entries with at most this value in a field, which ascends."""
        if not self._entries:
            return 0
        first = max(self._entries - BLOCK_ENTRIES, 0)
        block = self._fields(first, self._entries - first)
        if first and block[0][field] > value:
            number = bisect_right(
                range(first // BLOCK_ENTRIES + 1),
                value,
                key=lambda number: self._fields(number * BLOCK_ENTRIES)[0][field],
            )
            first = max(number - 1, 0) * BLOCK_ENTRIES
            block = self._fields(first, BLOCK_ENTRIES)
        return first + bisect_right(block, value, key=lambda fields: fields[field])

    def _entry(self, *fields: int) -> EntryT:
        raise NotImplementedError

    def __getitem__(self, number: int) -> EntryT:
        [fields] = self._fields(number)
        return self._entry(*fields)

    def _last_up_to(self, field: int, value: int) -> EntryT | None:
        """The last entry with at most this value in a field; None with none."""
        count = self._count_up_to(field, value)
        return self[count - 1] if count else None

    @property
    def last(self) -> EntryT | None:
        return self[self._entries - 1] if self._entries else None

    def truncate_to(self, offset: int) -> None:
        """Removes the entries of batches that reach an offset or end behind it."""
        self.truncate(self._count_up_to(self.OFFSET_FIELD, offset - 1 - self._base_offset))


class OffsetIndex(_Index[OffsetEntry]):
    """A `.index` file."""

    ENTRY = struct.Struct(">ii")
    OFFSET_FIELD = 0
    __slots__ = ()

    def append(self, offset: int, position: int) -> None:
        """Adds an entry for a batch behind all others; `offset` is that of its last record."""
        self._add(offset - self._base_offset, position)

    def lookup(self, offset: int) -> OffsetEntry | None:
        """The last entry at or before an offset; None with none."""
        return self._last_up_to(0, offset - self._base_offset)

    def lookup_position(self, position: int) -> OffsetEntry | None:
        """The last entry whose batch starts at or before a position; None with none."""
        return self._last_up_to(1, position)

    def _entry(self, *fields: int) -> OffsetEntry:
        return OffsetEntry(self._base_offset + fields[0], fields[1])


class TimeIndex(_Index[TimeEntry]):
    """A `.timeindex` file."""

    ENTRY = struct.Struct(">qi")
    OFFSET_FIELD = 1
    __slots__ = ("_last_timestamp",)

    def __init__(self, storage: Storage, path: str, base_offset: int) -> None:
        super().__init__(storage, path, base_offset)
        self._last_timestamp: int | None = None
        """Of the last entry; None before it is asked for."""

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Adds an entry, unless the last one has the same timestamp or a later one."""
        if self._last_timestamp is None:
            last = self.last
            self._last_timestamp = NO_TIMESTAMP if last is None else last.timestamp
        if timestamp > self._last_timestamp:
            self._add(timestamp, offset - self._base_offset)
            self._last_timestamp = timestamp

    def truncate(self, entries: int) -> None:
        """Keeps so many entries from the first on."""
        self._last_timestamp = None
        super().truncate(entries)

    def lookup(self, timestamp: int) -> TimeEntry | None:
        """The last entry at or before a timestamp; None with none."""
        return self._last_up_to(0, timestamp)

    def _entry(self, *fields: int) -> TimeEntry:
        return TimeEntry(fields[0], self._base_offset + fields[1])
