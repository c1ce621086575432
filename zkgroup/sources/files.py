"""`FileSource`: records from `<topic>/<partition>.jsonl` or `.log` in a folder, one append-only line each.

The offset of a line is its number, from 0. A line without its newline does not count yet (a writer is
writing it). A file that was replaced or truncated is noticed by its inode and size, or because it has fewer
lines than a position. The folder may be shared over a network, so growth is found by the files' sizes, which
are read less often while nothing comes, and not by notifications of one machine.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from zkgroup.errors import ConfigError, OffsetOutOfRangeError, SourceError, SourceUnavailableError
from zkgroup.model import TopicPartition
from zkgroup.sources.port import Bounds, Cluster, RecordSource, SourceRecord

log = logging.getLogger("zkgroup.consumer")

ENDINGS = (".jsonl", ".log")
INDEX_EVERY = 1024
"""Number of lines between two entries of a file's index."""
READ_AGAIN_MIN_S = 0.01
READ_AGAIN_MAX_S = 0.25


class LineIndex:
    """The byte positions of every 1024th line of one append-only file, as far as it was read.

    It has no open file: a consumer may own thousands of partitions. `end` and `read` may be called from any
    thread: during a rebalance two consumers that share a source may read a partition at once.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._begin()
        self._size = 0
        self._inode: tuple[int, int] | None = None
        """Device and inode of the file; None before it was seen."""

    def _begin(self) -> None:
        self._entries: list[int] = [0]
        """Byte position of line `i * INDEX_EVERY`."""
        self._known = (0, 0)
        """The last known start of a line: (line number, byte position)."""
        self._last = (0, 0)
        """Line number and byte position at the end of the last read, where the next usually starts."""

    def end(self) -> int:
        """Number of complete lines now; 0 without the file."""
        with self._lock:
            if self._look() > self._known[1]:
                self._scan(None)
            return self._known[0]

    def read(self, line: int, max_lines: int) -> list[bytes] | None:
        """Up to `max_lines` complete lines from a line number on, without their newlines.

        None if the file has fewer lines. Raises FileNotFoundError if there is no file.
        """
        with self._lock:
            return self._read(line, max_lines)

    def _read(self, line: int, max_lines: int) -> list[bytes] | None:
        size = self._look()
        start = self._start_of(line)
        if start is None or start >= size:
            return None if start is None else []
        lines: list[bytes] = []
        position = start
        with self.path.open("rb") as file:
            file.seek(start)
            for text in file:
                if len(lines) >= max_lines or not text.endswith(b"\n"):
                    break
                lines.append(text[:-1])
                position += len(text)
                self._learn(line + len(lines), position)
        self._last = (line + len(lines), position)
        return lines

    def _look(self) -> int:
        """The size of the file. Begins anew, with a warning, if it is another one than before, or shorter."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            self._begin()
            return 0
        inode, before = (found.st_dev, found.st_ino), self._size
        if self._inode not in (None, inode) or found.st_size < before:
            how = "truncated" if self._inode == inode else "replaced"
            message = (
                "%s was %s: it had %d bytes and has %d; files are append-only, and offsets count its lines"
            )
            log.warning(message, self.path, how, before, found.st_size)
            self._begin()
        self._inode, self._size = inode, found.st_size
        return found.st_size

    def _start_of(self, line: int) -> int | None:
        """Byte position of a line; None if the file has fewer lines."""
        if line == self._last[0]:
            return self._last[1]
        if line > self._known[0]:
            self._scan(line)
        if line > self._known[0]:
            return None
        slot = line // INDEX_EVERY
        number, position = slot * INDEX_EVERY, self._entries[slot]
        with self.path.open("rb") as file:
            file.seek(position)
            for text in file:
                if number == line:
                    break
                number += 1
                position += len(text)
        return position

    def _scan(self, until: int | None) -> None:
        """Extends the index from the last known line start, to a line or to the end."""
        number, position = self._known
        with self.path.open("rb") as file:
            file.seek(position)
            for text in file:
                if not text.endswith(b"\n") or (until is not None and number >= until):
                    break
                number += 1
                position += len(text)
                self._learn(number, position)

    def _learn(self, line: int, position: int) -> None:
        if line <= self._known[0]:
            return
        self._known = (line, position)
        if line % INDEX_EVERY == 0:
            self._entries.append(position)


class FileSource(RecordSource):
    """`RecordSource` over a folder of append-only line files.

    Raises `ConfigError` when the folder does not exist, `SourceError` when a partition has files of
    both endings. A partition without a file is empty; a position in it waits for the file, with a warning.
    A file that is replaced or truncated is a warning; if it has fewer lines than the position, the reset
    policy decides, as it does when the consumer starts. Several consumers may share one instance.
    """

    poll_interval_s = READ_AGAIN_MIN_S  # longer while nothing comes

    def __init__(self, folder: str | Path) -> None:
        """Opens no file yet.

        Args:
            folder: contains `<topic>/<partition>.jsonl` or `<topic>/<partition>.log` for each partition.

        Raises:
            ConfigError: the folder does not exist.
        """
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise ConfigError(f"{self.folder}: expected a folder with <topic>/<partition>.jsonl, found none")
        self._indexes: dict[TopicPartition, LineIndex] = {}
        self._here = threading.local()  # consumers that share a source each open it on a thread of their own
        self._topics_seen: set[str] = set()

    def open(self, cluster: Cluster) -> None:
        self._here.cluster = cluster

    def bounds(self, topic_partition: TopicPartition) -> Bounds:
        index = self._index(topic_partition)
        return Bounds(0, index.end() if index else 0)

    def read(self, topic_partition: TopicPartition, offset: int, max_records: int) -> Sequence[SourceRecord]:
        index = self._index(topic_partition)
        topic, partition = topic_partition.topic, topic_partition.partition
        try:
            lines = index.read(offset, max_records) if index is not None else None
        except FileNotFoundError:
            index = lines = None
        if lines is None and index is not None:
            raise OffsetOutOfRangeError(topic_partition, offset, f"{index.path} has {index.end()} lines")
        if lines is None and offset > 0:
            place = self.folder / topic / f"{partition}{ENDINGS[0]}"
            raise SourceUnavailableError(f"{place}: expected a file with a line {offset}, found none")
        return [SourceRecord(topic, partition, offset + i, line) for i, line in enumerate(lines or ())]

    def poll(
        self, positions: Mapping[TopicPartition, int], max_records: int, timeout_s: float
    ) -> Sequence[SourceRecord]:
        records = super().poll(positions, max_records, timeout_s)
        self.poll_interval_s = (
            READ_AGAIN_MIN_S if records else min(self.poll_interval_s * 2, READ_AGAIN_MAX_S)
        )
        return records

    def _index(self, topic_partition: TopicPartition) -> LineIndex | None:
        known = self._indexes.get(topic_partition)
        if known is not None:
            return known
        self._warn_of_unread_files(topic_partition.topic)
        base = self.folder / topic_partition.topic
        found = [
            path for ending in ENDINGS if (path := base / f"{topic_partition.partition}{ending}").exists()
        ]
        if len(found) > 1:
            raise SourceError(f"{topic_partition}: expected one file, found {found[0]} and {found[1].name}")
        if not found:
            return None
        return self._indexes.setdefault(topic_partition, LineIndex(found[0]))

    def _warn_of_unread_files(self, topic: str) -> None:
        """Warns, once for each topic, of files that belong to no partition."""
        folder = self.folder / topic
        cluster: Cluster | None = getattr(self._here, "cluster", None)
        if topic in self._topics_seen or cluster is None or not folder.is_dir():
            return
        self._topics_seen.add(topic)
        partitions = cluster.partitions(topic)
        for path in sorted(folder.iterdir()):
            if path.suffix in ENDINGS and path.stem.isdecimal() and int(path.stem) not in partitions:
                log.warning("%s is not read: topic %s has partitions %s", path, topic, list(partitions))
