"""Files of a data folder, on disk or in memory.

A log opens, writes and deletes files by their paths below the data folder (`orders-0/…log`), with `/` between
folder and name. Descriptors are the storage's own affair: it keeps those open that were used last.

All methods raise OSError, as the operating system does; `storage_errors` turns it into ReplicaStorageError.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import Protocol

from zkgroup.errors import ReplicaStorageError

OPEN_FILES_MAX = 400
"""Descriptors that a broker keeps for its logs; a process may usually have 1024."""


class Flush(Enum):
    """When records are forced to the disk."""

    NONE = "none"
    """The operating system does it in its own time: safe against the death of the process. Rolled segments
    are forced before the recovery point passes them, and everything at a clean shutdown."""
    BATCH = "batch"
    """Each append before it is answered: safe against the death of the machine."""


class Storage(Protocol):
    """The files below one data folder."""

    def read(self, path: str, position: int, size: int) -> bytes:
        """Bytes from a position on; fewer where the file ends."""
        ...

    def write(self, path: str, position: int, data: bytes | bytearray | memoryview) -> None:
        """Writes all of `data`; creates a missing file. What was written before an error stays."""
        ...

    def truncate(self, path: str, size: int) -> None:
        """Cuts a file to this size."""
        ...

    def flush(self, path: str) -> None:
        """Forces a file, or the names in a folder, to the disk."""
        ...

    def size(self, path: str) -> int | None:
        """Bytes in a file; None where there is none."""
        ...

    def modified_ms(self, path: str) -> int:
        """When a file was last written, in epoch milliseconds."""
        ...

    def read_all(self, path: str) -> bytes | None:
        """A small file as a whole; None where there is none."""
        ...

    def replace(self, path: str, data: bytes, flush: bool) -> None:
        """Writes a small file as a whole: readers find the old one or the new one, never a part.

        `flush` forces it to the disk, with its name.
        """
        ...

    def names(self, folder: str) -> list[str]:
        """What is in a folder, sorted; `""` is the data folder itself."""
        ...

    def make_folder(self, folder: str) -> None:
        """Creates a folder; without effect where there is one."""
        ...

    def rename(self, path: str, to: str) -> None:
        """Renames a file or a folder."""
        ...

    def remove(self, path: str) -> None:
        """Deletes a file, or a folder with all that is in it; without effect where there is none."""
        ...

    def close(self) -> None:
        """Closes all files; they are opened again when they are needed."""
        ...


class DiskStorage:
    """A `Storage` on disk."""

    def __init__(self, folder: Path, open_files_max: int = OPEN_FILES_MAX) -> None:
        self._folder = str(folder)
        self._maximum = open_files_max
        self._open: OrderedDict[str, int] = OrderedDict()

    def read(self, path: str, position: int, size: int) -> bytes:
        try:
            return self._read(self._descriptor(path), position, size)
        except OSError as error:
            raise self._named(error, path) from None

    @staticmethod
    def _read(file: int, position: int, size: int) -> bytes:
        data = os.pread(file, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        done = len(data)
        while done < size and (data := os.pread(file, size - done, position + done)):
            parts.append(data)
            done += len(data)
        return b"".join(parts)

    def write(self, path: str, position: int, data: bytes | bytearray | memoryview) -> None:
        try:
            file = self._descriptor(path, create=True)
            done = os.pwrite(file, data, position)
            while done < len(data):
                done += os.pwrite(file, memoryview(data)[done:], position + done)
        except OSError as error:
            raise self._named(error, path) from None

    def truncate(self, path: str, size: int) -> None:
        try:
            os.ftruncate(self._descriptor(path), size)
        except OSError as error:
            raise self._named(error, path) from None

    def flush(self, path: str) -> None:
        try:
            if path in self._open:
                os.fsync(self._open[path])
                return
            file = os.open(self._full(path), os.O_RDONLY)
            try:
                os.fsync(file)
            finally:
                os.close(file)
        except OSError as error:
            raise self._named(error, path) from None

    def size(self, path: str) -> int | None:
        try:
            return os.stat(self._full(path)).st_size  # noqa: PTH116  # paths are strings here: one per read
        except FileNotFoundError:
            return None

    def modified_ms(self, path: str) -> int:
        return os.stat(self._full(path)).st_mtime_ns // 1_000_000  # noqa: PTH116

    def read_all(self, path: str) -> bytes | None:
        try:
            file = os.open(self._full(path), os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            return self._read(file, 0, os.fstat(file).st_size)
        except OSError as error:
            raise self._named(error, path) from None
        finally:
            os.close(file)

    def replace(self, path: str, data: bytes, flush: bool) -> None:
        full = self._full(path)
        made = full + ".tmp"
        file = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            done = 0
            while done < len(data):
                done += os.write(file, memoryview(data)[done:])
            if flush:
                os.fsync(file)
        except OSError as error:
            raise self._named(error, path) from None
        finally:
            os.close(file)
        self._forget(path)
        os.rename(made, full)  # noqa: PTH104  # a log is opened by some such calls: paths are strings
        if flush:
            self.flush(path.rpartition("/")[0])

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self._full(folder)))  # noqa: PTH208
        except FileNotFoundError:
            return []

    def make_folder(self, folder: str) -> None:
        Path(self._full(folder)).mkdir(exist_ok=True)

    def rename(self, path: str, to: str) -> None:
        self._forget(path)
        Path(self._full(path)).rename(self._full(to))

    def remove(self, path: str) -> None:
        self._forget(path)
        full = Path(self._full(path))
        if full.is_dir():
            shutil.rmtree(full)
        else:
            full.unlink(missing_ok=True)

    def close(self) -> None:
        while self._open:
            _close(self._open.popitem()[1])

    def _named(self, error: OSError, path: str) -> OSError:
        """An error of an open file does not name it by itself."""
        error.filename = error.filename or self._full(path)
        return error

    def _full(self, path: str) -> str:
        return f"{self._folder}/{path}" if path else self._folder

    def _descriptor(self, path: str, *, create: bool = False) -> int:
        if (file := self._open.get(path)) is None:
            file = os.open(self._full(path), os.O_RDWR | (os.O_CREAT if create else 0), 0o644)
            self._open[path] = file
            if len(self._open) > self._maximum:
                _close(self._open.popitem(last=False)[1])
        else:
            self._open.move_to_end(path)
        return file

    def _forget(self, path: str) -> None:
        """Closes a file, or the files in a folder."""
        if (file := self._open.pop(path, None)) is not None:
            _close(file)
        if "/" not in path:
            for inner in [name for name in self._open if name.startswith(path + "/")]:
                _close(self._open.pop(inner))


class MemoryStorage:
    """A `Storage` in memory. It can outlive its log, as a folder outlives the process of its broker."""

    directory_id: str | None = None
    """The uuid by which a broker finds its own registration again; see `DataDir.folder_id`."""

    def __init__(self) -> None:
        self._folders: dict[str, dict[str, bytearray]] = {"": {}}
        self.broken: set[str] = set()
        """Folders that can be neither opened nor made nor removed, as on a disk that has gone bad."""

    def lose(self) -> None:
        """What a new disk does: no file is here any more. No log may use the storage then."""
        self._folders = {"": {}}

    @property
    def files(self) -> Mapping[str, bytearray]:
        """All files by their paths; for tests that damage them."""
        return {
            f"{folder}/{name}" if folder else name: data
            for folder, files in self._folders.items()
            for name, data in files.items()
        }

    def read(self, path: str, position: int, size: int) -> bytes:
        with memoryview(self._file(path)) as data:
            return bytes(data[position : position + size])

    def write(self, path: str, position: int, data: bytes | bytearray | memoryview) -> None:
        file = self._folder_of(path).setdefault(_name(path), bytearray())
        if position > len(file):
            file.extend(bytes(position - len(file)))
        file[position : position + len(data)] = data

    def truncate(self, path: str, size: int) -> None:
        del self._file(path)[size:]

    def flush(self, path: str) -> None: ...

    def size(self, path: str) -> int | None:
        return None if (file := self._found(path)) is None else len(file)

    def modified_ms(self, path: str) -> int:
        """-1: files in memory have no time of their own."""
        return -1

    def read_all(self, path: str) -> bytes | None:
        return None if (file := self._found(path)) is None else bytes(file)

    def replace(self, path: str, data: bytes, flush: bool) -> None:
        self._folder_of(path)[_name(path)] = bytearray(data)

    def names(self, folder: str) -> list[str]:
        self._check(folder)
        folders = [name for name in self._folders if name] if not folder else []
        return sorted([*self._folders.get(folder, ()), *folders])

    def make_folder(self, folder: str) -> None:
        self._check(folder)
        self._folders.setdefault(folder, {})

    def rename(self, path: str, to: str) -> None:
        self._check(path)
        if path in self._folders:
            self._folders[to] = self._folders.pop(path)
        else:
            self._folder_of(to)[_name(to)] = self._folder_of(path).pop(_name(path))

    def remove(self, path: str) -> None:
        if self._folders.pop(path, None) is None:
            self._folder_of(path).pop(_name(path), None)

    def close(self) -> None: ...

    def _check(self, path: str) -> None:
        if path in self.broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def _found(self, path: str) -> bytearray | None:
        return self._folders.get(path.rpartition("/")[0], {}).get(_name(path))

    def _file(self, path: str) -> bytearray:
        if (file := self._found(path)) is None:
            raise _missing(path)
        return file

    def _folder_of(self, path: str) -> dict[str, bytearray]:
        try:
            return self._folders[path.rpartition("/")[0]]
        except KeyError:
            raise _missing(path) from None


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


@contextmanager
def storage_errors(path: str) -> Iterator[None]:
    """Raises ReplicaStorageError, which names the file, where the system raises OSError."""
    try:
        yield
    except OSError as error:
        raise ReplicaStorageError(f"{error.filename or path}: {error.strerror or error}") from error


def _close(file: int) -> None:
    with suppress(OSError):
        os.close(file)
