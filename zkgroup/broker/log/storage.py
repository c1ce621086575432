"""Files of a data folder: the port of a log, and files in memory.

A log opens, writes and deletes files by their paths below the data folder (`orders-0/…log`), with `/` between
folder and name. Descriptors are the storage's own affair (`disk_storage`).

All methods raise OSError, as the operating system does; `storage_errors` turns it into ReplicaStorageError.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Protocol

from zkgroup.errors import ReplicaStorageError


class Flush(Enum):
    """The moments at which records are forced to the disk."""

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
        """Returns the time of the last write to a file, in epoch milliseconds."""
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
        """Returns the names in a folder, sorted; `""` is the data folder itself."""
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


class MemoryStorage:
    """A `Storage` in memory. It can outlive its log, as a folder outlives the process of its broker."""

    directory_id: str | None = None
    """The uuid by which a broker finds its own registration again; see `DataDir.folder_id`."""

    def __init__(self) -> None:
        self._folders: dict[str, dict[str, bytearray]] = {"": {}}
        self.broken: set[str] = set()
        """Folders that can be neither opened nor made nor removed, as on a disk that has gone bad."""

    def lose(self) -> None:
        """Does what a new disk does: no file is here any more. No log may use the storage then."""
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
