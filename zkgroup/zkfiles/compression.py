"""The bytes of a file, whatever it is packed in: plain, gzip, or the JVM's snappy stream.

Source: SnapStream.java of ZooKeeper 3.9. Servers compress snapshots only; logs are gzipped by those who
archive them. The first bytes show what a file is packed in, for copies are renamed.

Files are read in order and in pieces, not mapped: a server that cuts its log back while it is mapped would
end this process, and packed files can be read in no other way. Nothing is inflated before it is asked for.
"""

from __future__ import annotations

import os
import stat
import struct
import zlib
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from zkgroup.errors import DamagedFileError, MissingFileError, NotZooKeeperFileError
from zkgroup.zkfiles import snappy

PIECE_BYTES: Final = 256 * 1024
"""Bytes that are read at a time."""

_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_WINDOW: Final = 31
"""zlib's number for a gzip member with its checksum."""
_INT: Final = struct.Struct(">i")
_REGULAR_ONLY: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class Pieces(Protocol):
    """The plain bytes of a file, from the front."""

    def read(self, most: int) -> bytes:
        """Some bytes, at most so many; none at the end. Raises DamagedFileError."""

    def skip(self, count: int) -> None:
        """Goes on so many bytes, or to the end."""


class FileBytes:
    """One regular file, opened for reading and nothing else; a context manager.

    `compression` is None, `gz` or `snappy`; `size` that of the file on the disk. A link is
    not followed. Raises NotZooKeeperFileError where there is no regular file, or it may not be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._raw = _RawFile(path)
        try:
            self.size = self._raw.size
            front = self._raw.front
            self.compression: str | None = None
            self._pieces: Pieces = self._raw
            if front.startswith(_GZIP_MAGIC):
                self.compression, self._pieces = "gz", _Gunzipped(self._raw)
            elif front.startswith(snappy.STREAM_MAGIC):
                self.compression, self._pieces = "snappy", _Unsnapped(self._raw)
        except BaseException:
            self._raw.close()
            raise

    def is_as_long_as(self, end: int) -> bool:
        """Returns whether the file on the disk has so many bytes by now."""
        if end > self.size:
            self.size = self._raw.size_now()
        return end <= self.size

    def seek(self, offset: int) -> bool:
        """Goes to an offset, and says whether that is possible: not in packed files."""
        if self.compression is not None:
            return False
        self._raw.at = offset
        return True

    def has_changed(self, offset: int, seen: bytes) -> bool:
        """Returns whether other bytes than those seen stand at an offset by now; packed files are not written
        to."""
        return self.compression is None and self._raw.at_offset(offset, len(seen)) != seen

    def read(self, most: int) -> bytes:
        """The next plain bytes, at most so many; none at the end. Raises DamagedFileError."""
        return self._pieces.read(most)

    def skip(self, count: int) -> None:
        """Leaves plain bytes out."""
        self._pieces.skip(count)

    def close(self) -> None:
        """Closes the file."""
        self._raw.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_regular(path: Path, expected: str) -> int:
    """A descriptor to read a regular file by; nothing is waited for, as a pipe would, and no link followed.

    Raises NotZooKeeperFileError, which says that `expected` was, for anything else and what may not be read.
    """
    try:
        descriptor = os.open(path, _REGULAR_ONLY)
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError) and not path.is_symlink():
            raise MissingFileError(str(path), expected, "nothing") from error
        found = "a link, which is not followed" if path.is_symlink() else _words(path, error)
        raise NotZooKeeperFileError(str(path), f"{expected} to read", found) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotZooKeeperFileError(str(path), f"{expected} to read", "no regular file")
    return descriptor


class _RawFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.at = 0
        self._descriptor = open_regular(path, "a snapshot or log")
        try:
            self.size, self.front = self._looked_at()
        except BaseException:
            self.close()
            raise

    def _looked_at(self) -> tuple[int, bytes]:
        try:
            return self.size_now(), os.pread(self._descriptor, len(snappy.STREAM_MAGIC), 0)
        except OSError as error:
            raise NotZooKeeperFileError(str(self.path), "bytes to read", _words(self.path, error)) from error

    def read(self, most: int) -> bytes:
        piece = self.at_offset(self.at, most)
        self.at += len(piece)
        return piece

    def at_offset(self, offset: int, most: int) -> bytes:
        try:
            return os.pread(self._descriptor, most, offset)
        except OSError as error:
            raise DamagedFileError(
                str(self.path), offset, "bytes to read", _words(self.path, error)
            ) from error

    def size_now(self) -> int:
        return os.fstat(self._descriptor).st_size

    def skip(self, count: int) -> None:
        self.at += count

    def close(self) -> None:
        os.close(self._descriptor)


class _Packed:
    """Bytes of a packed file on the way: `self._at` counts plain ones."""

    def __init__(self, raw: _RawFile) -> None:
        self._raw = raw
        self._at = 0

    def read(self, most: int) -> bytes:
        raise NotImplementedError

    def skip(self, count: int) -> None:
        while count > 0 and (piece := self.read(min(count, PIECE_BYTES))):
            count -= len(piece)

    def _damage(self, expected: str, found: str) -> DamagedFileError:
        return DamagedFileError(str(self._raw.path), self._at, expected, found)


class _Gunzipped(_Packed):
    """Members one after the other, as `gzip` reads them, with zeros allowed behind the last."""

    def __init__(self, raw: _RawFile) -> None:
        super().__init__(raw)
        self._member = zlib.decompressobj(_GZIP_WINDOW)
        self._packed = b""
        self._has_ended = False

    def read(self, most: int) -> bytes:
        while not self._has_ended:
            if self._member.eof and not self._next_member():
                break
            if not self._packed:
                self._packed = self._raw.read(PIECE_BYTES)
            is_last = not self._packed
            try:
                piece = self._member.decompress(self._packed, most)
            except zlib.error as error:
                raise self._damage("gzip", str(error)) from error
            self._packed = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            if piece:
                self._at += len(piece)
                return piece
            if is_last and not self._member.eof:
                raise self._damage("the end of the gzip member", "the end of the file: it was cut off")
        return b""

    def _next_member(self) -> bool:
        while True:
            self._packed = (self._packed or self._raw.read(PIECE_BYTES)).lstrip(b"\0")
            if self._packed:
                self._member = zlib.decompressobj(_GZIP_WINDOW)
                return True
            if self._raw.at >= self._raw.size:
                self._has_ended = True
                return False


class _Unsnapped(_Packed):
    def __init__(self, raw: _RawFile) -> None:
        super().__init__(raw)
        self._raw.skip(snappy.STREAM_HEADER_BYTES)
        self._plain = b""
        self._decompress: snappy.Decompress | None = None

    def read(self, most: int) -> bytes:
        while not self._plain:
            block = self._block()
            if block is None:
                return b""
            self._decompress = self._decompress or snappy.fastest()
            try:
                self._plain = self._decompress(block)
            except snappy.SnappyError as error:
                raise self._damage("a snappy block", str(error)) from error
        piece, self._plain = self._plain[:most], self._plain[most:]
        self._at += len(piece)
        return piece

    def _block(self) -> bytes | None:
        while True:
            front = self._exactly(_INT.size, may_end=True)
            if not front:
                return None
            size: int = _INT.unpack(front)[0]
            if front == snappy.STREAM_MAGIC[: _INT.size]:  # streams that were joined
                self._exactly(snappy.STREAM_HEADER_BYTES - _INT.size)
                continue
            if size < 0 or size > min(2 * snappy.MAX_BLOCK_BYTES, self._raw.size - self._raw.at):
                raise self._damage(
                    f"a snappy block of at most {self._raw.size - self._raw.at} bytes", str(size)
                )
            return self._exactly(size)

    def _exactly(self, count: int, *, may_end: bool = False) -> bytes:
        block = bytearray()
        while len(block) < count and (piece := self._raw.read(count - len(block))):
            block += piece
        if len(block) < count and not (may_end and not block):
            raise self._damage(f"{count} bytes of a snappy stream", f"the end of the file after {len(block)}")
        return bytes(block)


def _words(path: Path, error: OSError | ValueError) -> str:
    if "\0" in str(path):  # each Python has other words for it
        return "a null byte in its name"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
