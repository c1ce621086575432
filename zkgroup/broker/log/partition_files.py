"""The files of one partition: a `LineLog` on disk.

Lines are written before their index entry, and both before they are acknowledged. So what a crash leaves
behind is a log with something too much at its end, which opening cuts off. Where something is to be cut, the
index goes first, for the same reason.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import astuple, dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from zkgroup.broker.log.leader_epochs import LeaderEpochs
from zkgroup.broker.log.recovery import (
    ENTRY,
    Index,
    IndexEntry,
    decode_high_watermark,
    encode_epochs,
    encode_high_watermark,
    good_epochs,
    good_part,
)
from zkgroup.errors import ReplicaStorageError
from zkgroup.wire.replica_host import HEAD_BYTES, LineBatch, end_of


class Flush(Enum):
    """When lines are forced to the disk."""

    NONE = "none"
    """The operating system does it in its own time: safe against the death of the process."""
    BATCH = "batch"
    """Each batch before it is answered: safe against the death of the machine."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Where the files of one partition are."""

    lines: Path
    index: Path
    epochs: Path
    high_watermark: Path
    deleted: Path
    other_lines: Path
    """The other form that `FileSource` reads, which must not stand beside ours."""

    @classmethod
    def of(cls, folder: Path, partition: int) -> Paths:
        """In the folder of the topic."""
        endings = ("jsonl", "index", "epochs", "high-watermark", "deleted", "log")
        return cls(*(folder / f"{partition}.{ending}" for ending in endings))


@dataclass(frozen=True, slots=True)
class _Files:
    lines: int
    index: int
    high_watermark: int


class PartitionFiles:
    """A `LineLog` on disk. Its files stay open until `release`, and are opened again when they are needed."""

    def __init__(
        self,
        paths: Paths,
        index: Index,
        epochs: LeaderEpochs,
        high_watermark: int | None,
        end_position: int,
        flush: Flush,
        open_files: OpenFiles,
    ) -> None:
        self._paths = paths
        self._index = index
        self._epochs = epochs
        self._high_watermark = high_watermark
        self._end_offset = index.end_offset
        self._end_position = end_position
        self._flush = flush
        self._open_files = open_files
        self._files: _Files | None = None

    @property
    def end_offset(self) -> int:
        return self._end_offset

    @property
    def epochs(self) -> LeaderEpochs:
        return self._epochs

    @property
    def kept_high_watermark(self) -> int | None:
        return self._high_watermark

    def keep_high_watermark(self, offset: int) -> None:
        with storage_errors(self._paths.high_watermark):
            _write(self._open().high_watermark, encode_high_watermark(offset), 0)
        self._high_watermark = offset

    def begin_epoch(self, leader_epoch: int) -> None:
        self._keep_epochs(self._epochs.begin(leader_epoch, self._end_offset))

    def append(self, batch: LineBatch) -> None:
        self.begin_epoch(batch.leader_epoch)
        entry = IndexEntry(
            batch.base_offset, batch.count, self._end_position, batch.leader_epoch, batch.crc32c
        )
        with storage_errors(self._paths.lines):
            files = self._open()
            _write(files.lines, batch.lines, self._end_position)
            if self._flush is Flush.BATCH:
                os.fsync(files.lines)
            _write(files.index, entry.encode(), len(self._index) * ENTRY.size)
            if self._flush is Flush.BATCH:
                os.fsync(files.index)
        self._index.add(entry)
        self._end_offset = end_of(batch)
        self._end_position += len(batch.lines)

    def read(self, offset: int, end: int, max_bytes: int) -> tuple[LineBatch, ...]:
        first = self._index.find(offset)
        if first == len(self._index):
            return ()
        entries: list[tuple[IndexEntry, int]] = []
        start = self._index[first].position
        for number in range(first, len(self._index)):
            entry = self._index[number]
            stop = self._position_of(number + 1)
            size = stop - start + HEAD_BYTES * (len(entries) + 1)
            if entry.base_offset + entry.lines > end or (entries and size > max_bytes):
                break
            entries.append((entry, stop))
        if not entries:
            return ()
        with storage_errors(self._paths.lines):
            text = _read(self._open().lines, entries[-1][1] - start, start)
        return tuple(
            LineBatch(
                base_offset=entry.base_offset,
                leader_epoch=entry.leader_epoch,
                count=entry.lines,
                crc32c=entry.crc32c,
                lines=text[entry.position - start : stop - start],
            )
            for entry, stop in entries
        )

    def cut(self, offset: int) -> None:
        batches = self._index.find(offset)
        position = self._position_of(batches)
        self._index.cut(batches)
        self._end_offset, self._end_position = self._index.end_offset, position
        with storage_errors(self._paths.lines):
            files = self._open()
            os.ftruncate(files.index, batches * ENTRY.size)
            os.ftruncate(files.lines, position)
        self._keep_epochs(self._epochs.cut(self._end_offset))

    def release(self) -> None:
        """Closes the files."""
        files, self._files = self._files, None
        for file in astuple(files) if files else ():
            with suppress(OSError):
                os.close(file)

    def close(self) -> None:
        self.release()
        self._open_files.forget(self)

    def _position_of(self, number: int) -> int:
        return self._index[number].position if number < len(self._index) else self._end_position

    def _keep_epochs(self, epochs: LeaderEpochs) -> None:
        if epochs == self._epochs:
            return
        with storage_errors(self._paths.epochs):
            replace(self._paths.epochs, encode_epochs(epochs), self._flush)
        self._epochs = epochs

    def _open(self) -> _Files:
        if self._files is None:
            self._files = _open_all(self._paths.lines, self._paths.index, self._paths.high_watermark)
        self._open_files.used(self)
        return self._files


def replace(path: Path, data: bytes, flush: Flush) -> None:
    """Writes a small file as a whole: it is the old one or the new one, never a part."""
    made = fresh(path)
    with made.open("wb") as file:
        file.write(data)
        if flush is Flush.BATCH:
            file.flush()
            os.fsync(file.fileno())
    made.rename(path)


def fresh(path: Path) -> Path:
    """Where a small file is written before it takes its name."""
    return path.with_name(path.name + ".new")


def sync_folder(folder: Path) -> None:
    """Forces the names of new files to the disk."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Raises ReplicaStorageError, which names the file, where the system raises OSError."""
    try:
        yield
    except OSError as error:
        raise ReplicaStorageError(f"{error.filename or path}: {error.strerror or error}") from error


def _open_all(*paths: Path) -> _Files:
    """All of them, or none."""
    with ExitStack() as opened:
        files = []
        for path in paths:
            files.append(file := os.open(path, os.O_RDWR))
            opened.callback(os.close, file)
        opened.pop_all()
    return _Files(*files)


def _write(file: int, data: bytes, position: int) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(file, memoryview(data)[done:], position + done)


def _read(file: int, size: int, position: int) -> bytes:
    parts: list[bytes] = []
    while size > 0:
        part = os.pread(file, size, position)
        if not part:
            raise OSError(f"ends at byte {position}, and {size} more were expected")
        parts.append(part)
        size -= len(part)
        position += len(part)
    return b"".join(parts)


OPEN_LOGS_MAX = 128
"""Partitions whose files, three each, are held open; a process may usually have 1024 files."""


class Releasable(Protocol):
    """What holds files open, and can do without."""

    def release(self) -> None: ...


class OpenFiles:
    """The logs that have files open; the one that was used longest ago releases them when there are too
    many.
    """

    def __init__(self, maximum: int = OPEN_LOGS_MAX) -> None:
        self._maximum = maximum
        self._holders: OrderedDict[Releasable, None] = OrderedDict()

    def used(self, holder: Releasable) -> None:
        """Its files are open, and just being used."""
        self._holders[holder] = None
        self._holders.move_to_end(holder)
        if len(self._holders) > self._maximum:
            self._holders.popitem(last=False)[0].release()

    def forget(self, holder: Releasable) -> None:
        """It has none open any more."""
        self._holders.pop(holder, None)

    def close(self) -> None:
        """All give theirs up."""
        while self._holders:
            self._holders.popitem()[0].release()


def make_files(paths: Paths, high_watermark: int | None, flush: Flush) -> None:
    """The files of a new partition, the lines last: with them it is there."""
    with storage_errors(paths.lines):
        paths.lines.parent.mkdir(exist_ok=True)
        if paths.other_lines.exists():
            raise ReplicaStorageError(f"{paths.other_lines}: expected no other file of lines")
        replace(paths.index, b"", flush)
        replace(paths.epochs, b"", flush)
        replace(paths.high_watermark, encode_high_watermark(high_watermark), flush)
        with paths.lines.open("xb"):
            pass
        if flush is Flush.BATCH:
            sync_folder(paths.lines.parent)
            sync_folder(paths.lines.parent.parent)


def open_log(paths: Paths, flush: Flush, open_files: OpenFiles) -> PartitionFiles | None:
    """The log of a partition, cut back to the last batch up to which all is good; None where there is none.

    Raises ReplicaStorageError for lines without an index: another program wrote them, so they are not
    touched.
    """
    with storage_errors(paths.lines):
        if paths.deleted.exists():
            remove_files(paths, flush)
        if not _is_there(paths):
            return None
        index = Index(paths.index.read_bytes())
        paths.lines.touch()
        with paths.lines.open("rb") as lines:
            good = good_part(index, lines)
        index.cut(good.batches)
        os.truncate(paths.index, good.batches * ENTRY.size)
        os.truncate(paths.lines, good.end_position)
        stored = paths.epochs.read_bytes() if paths.epochs.exists() else None
        epochs = good_epochs(stored, good)
        if stored != encode_epochs(epochs):
            replace(paths.epochs, encode_epochs(epochs), flush)
        high_watermark = _read_high_watermark(paths)
        if high_watermark is None:
            replace(paths.high_watermark, encode_high_watermark(None), flush)
    return PartitionFiles(paths, index, epochs, high_watermark, good.end_position, flush, open_files)


def _is_there(paths: Paths) -> bool:
    """Whether there is a partition, and not only what the beginning of one has left behind."""
    if not paths.index.exists():
        if paths.lines.exists():
            raise ReplicaStorageError(
                f"{paths.lines} has no index beside it: no broker wrote it; move it away"
            )
        return False
    return paths.lines.exists() or paths.index.stat().st_size > 0 or bool(_read_high_watermark(paths))


def _read_high_watermark(paths: Paths) -> int | None:
    if not paths.high_watermark.exists():
        return None
    return decode_high_watermark(paths.high_watermark.read_bytes())


def remove_files(paths: Paths, flush: Flush) -> None:
    """Deletes a partition: it is gone with the first rename, and `open_log` finishes what is left to do."""
    with storage_errors(paths.lines):
        for path in (paths.lines, paths.index):
            if path.exists():
                path.rename(paths.deleted)
        if flush is Flush.BATCH and paths.deleted.exists():
            sync_folder(paths.deleted.parent)
        for path in (paths.index, paths.epochs, paths.high_watermark):
            path.unlink(missing_ok=True)
            fresh(path).unlink(missing_ok=True)
        paths.deleted.unlink(missing_ok=True)
