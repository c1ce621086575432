"""One segment of a log: record batches in a `.log` file, with the two indexes beside it.

The indexes follow from the batches: an entry is made for the first batch that starts more than
`index_interval_bytes` behind the batch of the entry before. So a segment is searched by an index entry and a
walk over the headers behind it, and a walk shows when an entry is wrong or missing; the indexes are made
again then. Only the headers of batches are read, but by `recover`, which checks all that it keeps.

Sources: kafka/log/LogSegment.scala@2.8.2 (`append`, `recover`, `findOffsetByTimestamp`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from zkgroup.broker.log.index import NO_TIMESTAMP, RELATIVE_OFFSET_MAX, OffsetIndex, TimeEntry, TimeIndex
from zkgroup.broker.log.storage import Storage
from zkgroup.errors import ReplicaStorageError
from zkgroup.wire.record_batch import HEADER_BYTES, MAGIC, BatchHeader, has_crc, read_header
from zkgroup.wire.schema import Buffer

WALK_BYTES: Final = 4096
"""Bytes that a walk over headers reads at once."""
ENDS_KEPT: Final = 8
"""Positions of a segment that are remembered: those of some readers."""
SCAN_BYTES: Final = 1024 * 1024
"""Bytes that a recovery reads at once."""


class Located(NamedTuple):
    """A batch in a segment."""

    header: BatchHeader
    position: int
    """Of its first byte."""

    @property
    def end(self) -> int:
        """Of the byte behind it."""
        return self.position + self.header.size


class _State(NamedTuple):
    """The facts about a segment's end that are known without reading it."""

    size: int
    next_offset: int
    since_index: int
    """Bytes from the batch of the last index entry on."""
    max_timestamp: int
    max_timestamp_offset: int
    """Of the last record of the first batch that has it."""


def follows(header: BatchHeader, next_offset: int, room: int) -> bool:
    """Returns whether these bytes can be the header of an offset's batch, with so many bytes to its end."""
    return is_plausible(header) and header.base_offset == next_offset and header.size <= room


def is_plausible(header: BatchHeader) -> bool:
    """Returns whether it can be the header of a batch."""
    return (
        header.magic == MAGIC
        and header.size >= HEADER_BYTES
        and header.last_offset_delta >= 0
        and header.record_count >= 0
    )


class Segment:
    """The batches from `base_offset` up to the next segment. Everything raises OSError or
    ReplicaStorageError."""

    __slots__ = (
        "_are_times_right",
        "_ends",
        "_index",
        "_path",
        "_state",
        "_storage",
        "_times",
        "base_offset",
        "interval",
    )

    def __init__(self, storage: Storage, folder: str, base_offset: int, index_interval_bytes: int) -> None:
        """Reads nothing: the files may be missing."""
        self._storage = storage
        self.base_offset = base_offset
        self._path = f"{folder}/{base_offset:020d}"
        self.interval = index_interval_bytes
        self._index: OffsetIndex | None = None
        self._times: TimeIndex | None = None
        self._state: _State | None = None
        self._are_times_right = False
        """True if the last time entry was compared with its batch, or made here."""
        self._ends: dict[int, int] = {}
        """Offset to position where the last reads ended and appends began: most reads go on there."""

    @property
    def log_path(self) -> str:
        return self._path + ".log"

    @property
    def next_offset(self) -> int:
        """The offset behind the last record."""
        return self._loaded.next_offset

    @property
    def size(self) -> int:
        """Bytes in the `.log` file."""
        if self._state is not None:
            return self._state.size
        return self._storage.size(self.log_path) or 0

    @property
    def index(self) -> OffsetIndex:
        if self._index is None:
            self._index = OffsetIndex(self._storage, self._path + ".index", self.base_offset)
        return self._index

    @property
    def times(self) -> TimeIndex:
        if self._times is None:
            self._times = TimeIndex(self._storage, self._path + ".timeindex", self.base_offset)
        return self._times

    @property
    def _loaded(self) -> _State:
        if self._state is None:
            self.load()
            assert self._state is not None
        return self._state

    def can_hold(self, offset: int) -> bool:
        """Returns whether the index can express an offset."""
        return offset - self.base_offset <= RELATIVE_OFFSET_MAX

    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch; -1 without one."""
        first = next(self.walk(0), None)
        return NO_TIMESTAMP if first is None else first.header.max_timestamp

    def largest_timestamp(self) -> int:
        """Of all records; -1 where none has one."""
        self._check_times()
        return self._loaded.max_timestamp

    def modified_ms(self) -> int:
        return self._storage.modified_ms(self.log_path)

    def create(self, flush: bool) -> None:
        """Makes the files, the `.log` last."""
        self.index.truncate(0)
        self.times.truncate(0)
        self._storage.write(self.log_path, 0, b"")
        self._state = _State(0, self.base_offset, 0, NO_TIMESTAMP, NO_TIMESTAMP)
        self._are_times_right = True
        if flush:
            self._storage.flush(self.log_path)

    def load(self) -> None:
        """Finds the end of the segment: reads the headers behind the last index entry.

        Raises ReplicaStorageError where those are none.
        """
        size = self._storage.size(self.log_path)
        if size is None:
            raise ReplicaStorageError(f"{self.log_path} is missing")
        self._ends.clear()
        if not self._has_indexes(size):
            self.rebuild()
            return
        self._begin_count(size)
        is_indexed = len(self.index) > 0
        for located in self.walk(self._last_indexed_position(), size):
            if is_indexed and located.header.max_timestamp > self._loaded.max_timestamp:
                self.rebuild()  # the time index has lost entries, or else it would have this one
                return
            is_indexed = False
            self._count(located)

    def rebuild(self) -> None:
        """Makes both indexes again from the headers of all batches."""
        size = self._storage.size(self.log_path) or 0
        self._ends.clear()
        self.index.truncate(0)
        self.times.truncate(0)
        self._begin_count(size)
        with self.index.written_together(), self.times.written_together():
            for located in self.walk(0, size):
                self._count(located)
        self.seal()
        self._are_times_right = True

    def recover(self, trusted_offset: int, accept: Callable[[BatchHeader], bool]) -> None:
        """Checks the batches that reach `trusted_offset` or lie behind it, and a few before; cuts the log at
        the first one that is wrong. The indexes are made again from there.

        `accept` is asked for each batch whose checksum holds.
        """
        size = self._storage.size(self.log_path) or 0
        self._ends.clear()
        self._keep_entries_below(trusted_offset, size)
        self._begin_count(size)
        end = self._last_indexed_position()
        next_offset = self._header_at(end).base_offset if end else self.base_offset
        self._state = self._loaded._replace(next_offset=next_offset)
        with self.index.written_together(), self.times.written_together():
            for located in _scan(self._storage, self.log_path, end, size, next_offset):
                if not accept(located.header):
                    break
                self._count(located)
                end = located.end
        if end < size:
            self._storage.truncate(self.log_path, end)
        self._state = self._loaded._replace(size=end)

    def _has_indexes(self, size: int) -> bool:
        """Returns whether both indexes are there, and the last offset entry is right."""
        if self._storage.size(self.index.path) is None or self._storage.size(self.times.path) is None:
            return False
        last = self.index.last
        return last is None or self._is_right(last.position, last.offset, size)

    def _keep_entries_below(self, offset: int, size: int) -> None:
        """Removes the index entries of batches that reach an offset; all where the last one left is wrong."""
        self.index.truncate_to(offset)
        if not self._has_indexes(size):
            self.index.truncate(0)
        last = self.index.last
        self.times.truncate_to(self.base_offset if last is None else last.offset + 1)

    def _check_times(self) -> None:
        """Makes the indexes again where the last time entry is wrong."""
        if self._are_times_right:
            return
        self._are_times_right = True
        last = self.times.last
        if not (self._is_time(last) if last is not None else len(self.index) == 0):
            self.rebuild()

    def _is_time(self, entry: TimeEntry) -> bool:
        """Returns whether the batch that an entry names has its timestamp."""
        if not self.base_offset <= entry.offset < self.next_offset:
            return False
        header = self.find(entry.offset).header
        return (header.max_timestamp, header.last_offset) == entry

    def _is_right(self, position: int, offset: int, size: int) -> bool:
        """Returns whether the batch at a position ends at an offset."""
        if not 0 < position <= size - HEADER_BYTES:
            return False
        header = self._header_at(position)
        return is_plausible(header) and header.last_offset == offset and position + header.size <= size

    def _last_indexed_position(self) -> int:
        """Of the batch of the last index entry."""
        last = self.index.last
        return 0 if last is None else last.position

    def _begin_count(self, size: int) -> None:
        """As it was before the batch of the last index entry was counted."""
        time = self.times.last
        timestamp, offset = (NO_TIMESTAMP, NO_TIMESTAMP) if time is None else time
        self._state = _State(size, self.base_offset, 0, timestamp, offset)

    def _count(self, located: Located) -> None:
        """Counts a batch, and makes index entries for it where they are due."""
        header, position = located
        state = self._state
        assert state is not None
        size, _, since, max_timestamp, max_offset = state
        last_offset, added = header.last_offset, header.size
        if header.max_timestamp > max_timestamp:
            max_timestamp, max_offset = header.max_timestamp, last_offset
        if since > self.interval:
            self.index.append(last_offset, position)
            self.times.maybe_append(max_timestamp, max_offset)
            since = 0
        self._state = _State(
            max(size, position + added), last_offset + 1, since + added, max_timestamp, max_offset
        )

    def append(self, data: Buffer | bytearray, headers: Sequence[BatchHeader], flush: bool) -> None:
        """Writes whole batches, which `headers` are of, behind the last one; all or, with an error, none."""
        state = self._loaded
        entries, times = len(self.index), len(self.times)
        try:
            self._storage.write(self.log_path, state.size, data)
            self._note_end(state.next_offset, state.size)
            position = state.size
            for header in headers:
                self._count(Located(header, position))
                position += header.size
            if flush:
                self._storage.flush(self.log_path)
        except OSError:
            self._state = state
            self.index.truncate(entries)
            self.times.truncate(times)
            self._storage.truncate(self.log_path, state.size)
            raise

    def truncate_to(self, offset: int) -> None:
        """Removes the records from an offset on, and those before it in the same batch."""
        if offset >= self.next_offset:
            return
        cut = self.find(offset)
        self._state = None
        self._ends.clear()
        # The index first: it may say less than there is, never more.
        self.index.truncate_to(cut.header.base_offset)
        self.times.truncate_to(cut.header.base_offset)
        self._storage.truncate(self.log_path, cut.position)
        self.load()

    def seal(self) -> None:
        """Ends the time index with the largest timestamp, as no batch follows for now."""
        state = self._loaded
        self.times.maybe_append(state.max_timestamp, state.max_timestamp_offset)

    def flush(self) -> None:
        """Forces the files to the disk."""
        self._storage.flush(self.log_path)
        self._storage.flush(self.index.path)
        self._storage.flush(self.times.path)

    def remove(self) -> None:
        """Deletes the files, the `.log` first: without it there is no segment."""
        for ending in (".log", ".index", ".timeindex"):
            self._storage.remove(self._path + ending)

    def read(self, offset: int, end_offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one that holds `offset`, as long as they end at or below `end_offset`: at
        least one where there is one, else as many as fit `max_bytes`."""
        state = self._loaded
        if offset >= min(end_offset, state.next_offset):
            return b""
        if end_offset >= state.next_offset and (data := self._read_on(offset, max_bytes, state)) is not None:
            return data
        first = self.find(offset)
        stop, next_offset = state.size, state.next_offset
        if end_offset < state.next_offset:
            last = self.find(end_offset)
            stop, next_offset = last.position, last.header.base_offset
        if stop - first.position > max_bytes:
            stop, next_offset = self._last_end(first, first.position + max_bytes)
        if stop <= first.position:
            return b""
        data = self._storage.read(self.log_path, first.position, stop - first.position)
        if len(data) != stop - first.position:
            raise ReplicaStorageError(f"{self.log_path} ends before byte {stop}")
        self._note_end(next_offset, stop)
        return data

    def _read_on(self, offset: int, max_bytes: int, state: _State) -> bytes | None:
        """The rest of the segment where its position is known and it fits, else None.

        A follower that is nearly level reads so, by one system call. The batch there is checked as by `find`.
        """
        if (position := self._ends.get(offset)) is None:
            return None
        size = state.size - position
        if not HEADER_BYTES <= size <= max_bytes:
            return None
        data = self._storage.read(self.log_path, position, size)
        if len(data) != size:
            raise ReplicaStorageError(f"{self.log_path} ends before byte {state.size}")
        if not follows(read_header(data), offset, size):
            raise ReplicaStorageError(f"{self.log_path}: expected a batch at byte {position}")
        self._note_end(state.next_offset, state.size)
        return data

    def _note_end(self, offset: int, position: int) -> None:
        self._ends[offset] = position
        if len(self._ends) > ENDS_KEPT:
            del self._ends[next(iter(self._ends))]

    def find(self, offset: int) -> Located:
        """The batch that holds an offset of this segment."""
        if (position := self._ends.get(offset)) is not None and position < self._loaded.size:
            return next(self.walk(position))
        found = self._find(offset)
        if found is None:
            self.rebuild()
            found = self._find(offset)
        if found is None:
            raise ReplicaStorageError(f"{self.log_path} has no batch with offset {offset}")
        return found

    def _find(self, offset: int) -> Located | None:
        """None where the index is wrong, or lacks an entry."""
        entry = self.index.lookup(offset)
        start = 0 if entry is None else entry.position
        if entry is not None and not self._is_right(entry.position, entry.offset, self._loaded.size):
            return None
        since = 0
        for located in self.walk(start):
            if located.header.last_offset >= offset:
                return located if located.header.base_offset <= offset else None
            if since > self.interval:
                return None
            since += located.header.size
        return None

    def _last_end(self, first: Located, limit: int) -> tuple[int, int]:
        """Returns the last batch's end below a position, at least `first`'s, and the offset behind it."""
        end, next_offset = first.end, first.header.last_offset + 1
        entry = self.index.lookup_position(limit)
        start = first.position
        if entry is not None and entry.position > start:
            if not self._is_right(entry.position, entry.offset, self._loaded.size):
                self.rebuild()
                return self._last_end(first, limit)
            start = entry.position
            before = self._header_at(start)
            end, next_offset = start, before.base_offset
        for located in self.walk(start):
            if located.end > limit:
                break
            end, next_offset = located.end, located.header.last_offset + 1
        return end, next_offset

    def find_by_time(self, timestamp: int, start_offset: int) -> Located | None:
        """The first batch from an offset on that has a record of this time or later."""
        if self.largest_timestamp() < timestamp:
            return None
        entry = self.times.lookup(timestamp)
        if entry is not None and not self._is_time(entry):
            self.rebuild()
            entry = self.times.lookup(timestamp)
        start = max(self.base_offset if entry is None else entry.offset, start_offset)
        if start >= self.next_offset:
            return None
        for located in self.walk(self.find(start).position):
            if located.header.max_timestamp >= timestamp:
                return located
        return None

    def batch(self, located: Located) -> bytes:
        """All bytes of a batch."""
        return self._storage.read(self.log_path, located.position, located.header.size)

    def walk(self, position: int, size: int | None = None) -> Iterator[Located]:
        """The batches from a position on, by their headers. Raises ReplicaStorageError where one is none."""
        end = self._loaded.size if size is None else size
        next_offset: int | None = None
        chunk, start = b"", position
        while position < end:
            if position + HEADER_BYTES > start + len(chunk):
                chunk, start = self._storage.read(self.log_path, position, WALK_BYTES), position
            if len(chunk) < HEADER_BYTES:
                raise ReplicaStorageError(f"{self.log_path}: the batch at byte {position} is cut short")
            header = read_header(chunk, position - start)
            expected = header.base_offset if next_offset is None else next_offset
            if not follows(header, expected, end - position):
                raise ReplicaStorageError(f"{self.log_path}: expected a batch at byte {position}")
            yield Located(header, position)
            position += header.size
            next_offset = header.last_offset + 1

    def _header_at(self, position: int) -> BatchHeader:
        data = self._storage.read(self.log_path, position, HEADER_BYTES)
        if len(data) < HEADER_BYTES:
            raise ReplicaStorageError(f"{self.log_path}: the batch at byte {position} is cut short")
        return read_header(data)


def _scan(storage: Storage, path: str, position: int, end: int, next_offset: int) -> Iterator[Located]:
    """The batches from a position on, as long as they are whole, follow each other and have their CRC."""
    chunk, start = b"", position
    view = memoryview(chunk)
    while position + HEADER_BYTES <= end:
        at = position - start
        if at + HEADER_BYTES > len(chunk):
            chunk, start, at = storage.read(path, position, SCAN_BYTES), position, 0
            view = memoryview(chunk)
        if at + HEADER_BYTES > len(chunk):
            return
        header = read_header(chunk, at)
        size = header.size
        if not follows(header, next_offset, end - position):
            return
        if at + size > len(chunk):
            chunk, start, at = storage.read(path, position, max(size, SCAN_BYTES)), position, 0
            view = memoryview(chunk)
        if at + size > len(chunk) or not has_crc(header, view[at : at + size]):
            return
        yield Located(header, position)
        position += size
        next_offset = header.last_offset + 1
