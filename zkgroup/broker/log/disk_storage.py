"""Files of a data folder on disk.

Those that were used last stay open. Where the system has no descriptor for another one, the storage waits:
that is no error of a disk.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from zkgroup.errors import NOTHING_LEFT
from zkgroup.runtime.logs import get_logger

log = get_logger("zkgroup.broker")

OPEN_FILES_MAX = 400
"""Descriptors that a broker keeps for its logs; a process may usually have 1024."""
WAIT_S = 0.1
"""Pause before a file is opened again for which there was no descriptor."""
SAID_AGAIN_S = 60.0

T = TypeVar("T")


def when_free(
    opening: Callable[[], T],
    release: Callable[[], bool] = lambda: False,
    pause: Callable[[float], None] = time.sleep,
) -> T:
    """Calls what opens files. While the system has nothing left for it, waits and says so.

    Args:
        opening: may be called again after it has failed.
        release: closes a file that is not needed now; returns whether there was one.
        pause: waits so many seconds, the calling thread too.
    """
    waits = 0
    while True:
        try:
            found = opening()
        except OSError as error:
            if error.errno not in NOTHING_LEFT:
                raise
            if release():
                continue
            if waits % round(SAID_AGAIN_S / WAIT_S) == 0:
                log.warning("%s: %s; it is tried again until there is", error.filename, error.strerror)
            waits += 1
            pause(WAIT_S)
        else:
            if waits:
                log.warning("files can be opened again")
            return found


class DiskStorage:
    """A `Storage` on disk."""

    def __init__(
        self,
        folder: Path,
        open_files_max: int = OPEN_FILES_MAX,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """`pause`: see `when_free`."""
        self._folder = str(folder)
        self._maximum = open_files_max
        self._pause = pause
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
            file = self._opened(path, os.O_RDONLY)
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
            file = self._opened(path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            return self._read(file, 0, os.fstat(file).st_size)
        except OSError as error:
            raise self._named(error, path) from None
        finally:
            os.close(file)

    def replace(self, path: str, data: bytes, flush: bool) -> None:
        made = path + ".tmp"
        file = self._opened(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
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
        os.rename(self._full(made), self._full(path))  # noqa: PTH104  # a log is opened by some such calls: paths are strings
        if flush:
            self.flush(path.rpartition("/")[0])

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(self._when_free(lambda: os.listdir(self._full(folder))))  # noqa: PTH208
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
            self._when_free(lambda: shutil.rmtree(full))
        else:
            full.unlink(missing_ok=True)

    def close(self) -> None:
        while self._open:
            _close(self._open.popitem()[1])

    def _opened(self, path: str, flags: int) -> int:
        full = self._full(path)
        return self._when_free(lambda: os.open(full, flags, 0o644))

    def _when_free(self, opening: Callable[[], T]) -> T:
        """Gives up files that are open before it waits."""
        return when_free(opening, self._close_oldest, self._pause)

    def _close_oldest(self) -> bool:
        if not self._open:
            return False
        _close(self._open.popitem(last=False)[1])
        return True

    def _named(self, error: OSError, path: str) -> OSError:
        """An error of an open file does not name it by itself."""
        error.filename = error.filename or self._full(path)
        return error

    def _full(self, path: str) -> str:
        return f"{self._folder}/{path}" if path else self._folder

    def _descriptor(self, path: str, *, create: bool = False) -> int:
        if (file := self._open.get(path)) is None:
            file = self._opened(path, os.O_RDWR | (os.O_CREAT if create else 0))
            self._open[path] = file
            if len(self._open) > self._maximum:
                self._close_oldest()
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


def _close(file: int) -> None:
    with suppress(OSError):
        os.close(file)
