"""Storages that fail, stop, or count: what happens to a log when its disk does."""

from __future__ import annotations

import errno
import os
from collections import Counter

from zkgroup.broker.log.storage import MemoryStorage


class FullStorage(MemoryStorage):
    """A disk with room for so many more bytes; what fits of a write is written before it fails."""

    def __init__(self) -> None:
        super().__init__()
        self.room: int | None = None

    def write(self, path: str, position: int, data: bytes | bytearray | memoryview) -> None:
        fits = self._fitting(path, position + len(data))
        if fits is not None:
            super().write(path, position, bytes(data)[: max(fits - position, 0)])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        super().write(path, position, data)

    def replace(self, path: str, data: bytes, flush: bool) -> None:
        if self._fitting(path + ".tmp", len(data)) is not None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        super().replace(path, data, flush)

    def _fitting(self, path: str, size: int) -> int | None:
        """The size that a file can have, if that is less than it should; takes the room."""
        if self.room is None:
            return None
        present = self.size(path) or 0
        grows = max(size - present, 0)
        if grows > self.room:
            fits, self.room = present + self.room, 0
            return fits
        self.room -= grows
        return None


class Killed(BaseException):
    """The process ends here."""


class DyingStorage(MemoryStorage):
    """Ends the process at its n-th change of a file; a write may have been done in part."""

    def __init__(self) -> None:
        super().__init__()
        self.changes_left: int | None = None

    def _change(self) -> bool:
        """Whether the process ends within this change."""
        if self.changes_left is None:
            return False
        self.changes_left -= 1
        if self.changes_left < -1:
            raise Killed
        return self.changes_left == -1

    def write(self, path: str, position: int, data: bytes | bytearray | memoryview) -> None:
        if self._change():
            super().write(path, position, bytes(data)[: len(data) // 2])
            raise Killed
        super().write(path, position, data)

    def truncate(self, path: str, size: int) -> None:
        if self._change():
            raise Killed
        super().truncate(path, size)

    def replace(self, path: str, data: bytes, flush: bool) -> None:
        if self._change():
            super().write(path + ".tmp", 0, data[: len(data) // 2])
            raise Killed
        super().replace(path, data, flush)

    def rename(self, path: str, to: str) -> None:
        if self._change():
            raise Killed
        super().rename(path, to)

    def remove(self, path: str) -> None:
        if self._change():
            raise Killed
        super().remove(path)


class ForcedStorage(MemoryStorage):
    """Knows what of the files was forced to the disk, by content and by name: all that a machine keeps."""

    def __init__(self) -> None:
        super().__init__()
        self._contents: dict[int, tuple[bytearray, bytes]] = {}
        self._names: dict[str, dict[str, bytearray]] = {}

    def flush(self, path: str) -> None:
        if path == "" or path in self._folders:
            self._names[path] = dict(self._folders[path])
            if path == "":
                self._names |= {folder: {} for folder in self._folders if folder not in self._names}
        else:
            file = self._file(path)
            self._contents[id(file)] = file, bytes(file)

    def replace(self, path: str, data: bytes, flush: bool) -> None:
        super().replace(path, data, flush)
        if flush:
            self.flush(path)
            self.flush(path.rpartition("/")[0])

    def after_the_machine_died(self) -> MemoryStorage:
        """The files as they are found again: what was not forced is lost."""
        left = MemoryStorage()
        for folder in self._names:
            left.make_folder(folder)
            for name, file in self._names[folder].items():
                path = f"{folder}/{name}" if folder else name
                left.write(path, 0, self._contents.get(id(file), (file, b""))[1])
        return left


class CountingStorage(MemoryStorage):
    """Counts the bytes that are read, and the files."""

    def __init__(self, of: MemoryStorage) -> None:
        super().__init__()
        self._folders = of._folders
        self.read_bytes = Counter[str]()

    def read(self, path: str, position: int, size: int) -> bytes:
        data = super().read(path, position, size)
        self.read_bytes[path] += len(data)
        return data

    def read_all(self, path: str) -> bytes | None:
        data = super().read_all(path)
        self.read_bytes[path] += len(data or b"")
        return data

    def ending(self, ending: str) -> int:
        """Bytes that were read of files with this ending."""
        return sum(size for path, size in self.read_bytes.items() if path.endswith(ending))


def copied(storage: MemoryStorage) -> MemoryStorage:
    """The same files, for a process of its own."""
    made = MemoryStorage()
    made._folders = {
        folder: {name: bytearray(data) for name, data in files.items()}
        for folder, files in storage._folders.items()
    }
    return made
