"""The bytes of a file, whatever it is packed in: plain, gzip, or the JVM's snappy stream.

Sources: SnapStream.java of ZooKeeper 3.9, and SnappyInputStream of xerial's snappy-java, whose stream is not
the official framing format. Servers compress snapshots only; logs are gzipped by those who
archive them. The first bytes show what a file is packed in, for copies are renamed.

Files are read in order and in pieces, not mapped: a server that cuts its log back while it is mapped would
end this process, and packed files can be read in no other way. Nothing is inflated before it is asked for.
"""

from __future__ import annotations

import os
import stat
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from zkgroup.errors import DamagedFileError, MissingFileError, NotZooKeeperFileError
from zkgroup.zkfiles.snappy import MAX_BLOCK_BYTES, SnappyError, decompressed

PIECE_BYTES: Final = 256 * 1024
"""Bytes that are read at a time."""

_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_WINDOW: Final = 31
"""zlib's number for a gzip member with its checksum."""
_SNAPPY_MAGIC: Final = b"\x82SNAPPY\0"
_SNAPPY_HEADER_BYTES: Final = 16
"""Magic, version, oldest version that can read it."""
_INT: Final = struct.Struct(">i")
FILE_HEADER: Final = struct.Struct(">4siq")
"""Magic, format version, dbid: 0 in logs, -1 in snapshots."""
_FORMAT_VERSION: Final = 2
"""In every release from 3.4 to 3.9; it cannot be used to tell them apart."""
_REGULAR_ONLY: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class FileBytes:
    """One regular file, opened for reading and nothing else; a context manager.

    `compression` is None, `gz` or `snappy`; `size` that of the file on the disk. A link is
    not followed. Raises NotZooKeeperFileError where there is no regular file, or it may not be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = open_regular(path, "a snapshot or log")
        try:
            self.size = self._size_now()
            front = os.pread(self._descriptor, len(_SNAPPY_MAGIC), 0)
        except OSError as error:
            self.close()
            raise NotZooKeeperFileError(str(path), "bytes to read", _words(path, error)) from error
        self._at = 0
        """Of the file on the disk."""
        self._given = 0
        """So many plain bytes of a packed file were read."""
        self._rest = b""
        """Those that were unpacked and not read yet."""
        self.compression: str | None = None
        self._unpacked: Iterator[bytes] = iter(())
        if front.startswith(_GZIP_MAGIC):
            self.compression, self._unpacked = "gz", self._gunzipped()
        elif front.startswith(_SNAPPY_MAGIC):
            self.compression, self._unpacked = "snappy", self._unsnapped()

    def read(self, most: int) -> bytes:
        """The next plain bytes, at most so many; none at the end. Raises DamagedFileError."""
        if self.compression is None:
            return self._packed(most)
        while not self._rest:
            piece = next(self._unpacked, None)
            if piece is None:
                return b""
            self._rest = piece
        piece, self._rest = self._rest[:most], self._rest[most:]
        self._given += len(piece)
        return piece

    def skip(self, count: int) -> None:
        if self.compression is None:
            self._at += count
            return
        while count > 0 and (piece := self.read(min(count, PIECE_BYTES))):
            count -= len(piece)

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _size_now(self) -> int:
        return os.fstat(self._descriptor).st_size

    def _bytes_at(self, offset: int, most: int) -> bytes:
        try:
            return os.pread(self._descriptor, most, offset)
        except OSError as error:
            words = _words(self.path, error)
            raise DamagedFileError(str(self.path), offset, "bytes to read", words) from error

    def _packed(self, most: int) -> bytes:
        """The next bytes as they are on the disk."""
        piece = self._bytes_at(self._at, most)
        self._at += len(piece)
        return piece

    def _damage(self, expected: str, found: str) -> DamagedFileError:
        return DamagedFileError(str(self.path), self._given, expected, found)

    def _gunzipped(self) -> Iterator[bytes]:
        """Members one after the other, as `gzip` reads them, with zeros allowed behind the last."""
        packed = self._packed(PIECE_BYTES)
        while packed:
            member, has_ended = zlib.decompressobj(_GZIP_WINDOW), False
            while not has_ended:
                packed = packed or self._packed(PIECE_BYTES)
                try:
                    piece = member.decompress(packed, PIECE_BYTES)
                except zlib.error as error:
                    raise self._damage("gzip", str(error)) from error
                has_ended = member.eof
                if not (packed or piece or has_ended):
                    raise self._damage("the end of the gzip member", "the end of the file: it was cut off")
                packed = member.unused_data if has_ended else member.unconsumed_tail
                yield piece
            packed = packed.lstrip(b"\0")
            while not packed and (more := self._packed(PIECE_BYTES)):
                packed = more.lstrip(b"\0")

    def _unsnapped(self) -> Iterator[bytes]:
        """Blocks with their length in front, behind a header; streams may be joined."""
        self._at += _SNAPPY_HEADER_BYTES
        while front := self._exactly(_INT.size, may_end=True):
            size: int = _INT.unpack(front)[0]
            if front == _SNAPPY_MAGIC[: _INT.size]:
                self._exactly(_SNAPPY_HEADER_BYTES - _INT.size)
                continue
            left = self.size - self._at
            if size < 0 or size > min(2 * MAX_BLOCK_BYTES, left):
                raise self._damage(f"a snappy block of at most {left} bytes", str(size))
            try:
                plain = decompressed(self._exactly(size))
            except SnappyError as error:
                raise self._damage("a snappy block", str(error)) from error
            yield plain

    def _exactly(self, count: int, *, may_end: bool = False) -> bytes:
        block = bytearray()
        while len(block) < count and (piece := self._packed(count - len(block))):
            block += piece
        if len(block) < count and not (may_end and not block):
            raise self._damage(f"{count} bytes of a snappy stream", f"the end of the file after {len(block)}")
        return bytes(block)


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


def _words(path: Path, error: OSError | ValueError) -> str:
    if "\0" in str(path):  # each Python has other words for it
        return "a null byte in its name"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


MAX_RECORD_BYTES: Final = 64 * 1024 * 1024
"""The largest record or znode that is believed. Servers stop at `jute.maxbuffer`, 1 MiB unless raised."""

MAX_LOADED_BYTES: Final = 2 * 0xFFFFF
"""The largest record of a log, and the largest data or path of a snapshot, that a server loads by default.

It is `jute.maxbuffer` and `zookeeper.jute.maxbuffer.extrasize` together, which is as much unless it is set;
before 3.5.7 `jute.maxbuffer` and 1024. Source: BinaryInputArchive.checkLength@3.9.
"""


class Window(FileBytes):
    """`data[at:]` is what was read and not used yet; `offset` is where that stands in the plain file.

    Take bytes by raising `at`; `ensure` reads more, and then `data` and `at` are others than before.
    """

    def __init__(self, path: Path, *, piece_bytes: int = PIECE_BYTES) -> None:
        super().__init__(path)
        self._piece_bytes = piece_bytes
        self.data = b""
        self.at = 0
        self.base = 0
        """The place of `data[0]` in the plain file."""
        self._failure: DamagedFileError | None = None
        """The reason why no more can be read."""

    @property
    def offset(self) -> int:
        """Plain bytes before `at`."""
        return self.base + self.at

    def ensure(self, count: int) -> bool:
        """True if at least so many bytes are there from `at` on; False where the file ends before.

        Raises DamagedFileError where it cannot be read so far.
        """
        self.fill(count)
        is_there = len(self.data) - self.at >= count
        if not is_there and self._failure is not None:
            raise self._failure
        return is_there

    def fill(self, count: int) -> None:
        """Reads until so many bytes are there from `at` on, or as far as can be."""
        there = len(self.data) - self.at
        if there >= count:
            return
        pieces = [self.data[self.at :]]
        try:
            while there < count and self._failure is None and (piece := self.read(self._piece_bytes)):
                pieces.append(piece)
                there += len(piece)
        except DamagedFileError as error:
            self._failure = error  # what was read before it counts
        self._leave()
        self.base += self.at
        self.at = 0
        self.data = b"".join(pieces)

    def _leave(self) -> None:
        """Called before `data[:at]` is forgotten."""

    def jump(self, offset: int) -> None:
        """Goes on to an offset of the plain file that is not behind."""
        there = self.base + len(self.data)
        if offset <= there:
            self.at = offset - self.base
            return
        self.skip(offset - there)
        self.data, self.at, self.base = b"", 0, offset

    def reload(self, offset: int) -> bool:
        """Reads anew from an offset, and further back too; False where the file is packed and cannot."""
        if self.compression is None:
            self._at = offset
            self.data, self.at, self.base, self._failure = b"", 0, offset, None
        return self.compression is None

    def has_changed(self, offset: int, seen: bytes) -> bool:
        """True if other bytes than those seen stand at an offset by now; packed files are not written to."""
        return self.compression is None and self._bytes_at(offset, len(seen)) != seen

    def fits(self, end: int) -> bool:
        """True if a plain file is at least so long by now; how long a packed one is nobody knows."""
        if end > self.size and self.compression is None:
            self.size = self._size_now()
        return end <= self.size or self.compression is not None

    def pass_header(self, kind: str, magic: bytes) -> None:
        """Raises NotZooKeeperFileError where the file does not start as its kind does."""
        front = self.data[: FILE_HEADER.size]
        if len(front) < FILE_HEADER.size or not front.startswith(magic):
            expected, found = bytes_text(magic), bytes_text(front[:8])
            raise NotZooKeeperFileError(str(self.path), f"{kind}, which starts with {expected}", found)
        _, version, _ = FILE_HEADER.unpack(front)
        if version != _FORMAT_VERSION:
            raise NotZooKeeperFileError(str(self.path), f"format version {_FORMAT_VERSION}", str(version))
        self.at = FILE_HEADER.size

    def damage(self, expected: str, found: str, offset: int | None = None) -> DamagedFileError:
        """The error to raise for what stands at an offset of the file, by default at `at`."""
        return DamagedFileError(str(self.path), self.offset if offset is None else offset, expected, found)


def bytes_text(data: bytes) -> str:
    """For messages: in quotes if they are printable ASCII, else in hex."""
    text = data.decode("ascii", "replace")
    return f"'{text}'" if text.isascii() and text.isprintable() else f"0x{data.hex()}"
