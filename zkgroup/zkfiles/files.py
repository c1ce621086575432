"""The files of a server: found in a folder by their names, and read as bytes, unpacked where they are packed.

A snapshot's name has the last zxid that was applied when it began, a log's that of its first record;
hex, so they are sorted as numbers. Servers compress snapshots only, by gzip or in the stream of xerial's
snappy-java, which is not the official framing format; archives have gzipped logs. The first
bytes show the format of a packed file, for copies get other names.

Files are read in order and in pieces, not mapped: a server that cuts its log back while it is mapped would
end this process, and packed files can be read in no other way. Nothing is inflated before it is asked for.
Sources: Util.getZxidFromName and SnapStream.java of ZooKeeper 3.9, SnappyInputStream of snappy-java.
"""

from __future__ import annotations

import os
import re
import stat
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Final, Self

from zkgroup.errors import ConfigError, DamagedFileError, MissingFileError, NotZooKeeperFileError

SNAPSHOT: Final = "snapshot"
LOG: Final = "log"
DATA_FOLDER: Final = "version-2"
"""The folder below dataDir and dataLogDir in which a server keeps both kinds."""

_NAME: Final = re.compile(r"(snapshot|log)\.([0-9a-fA-F]{1,16})(?:\.(gz|snappy))?", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class ServerFile:
    """One file with the facts in its name; it was not read."""

    zxid: int
    """The last zxid applied when a snapshot began, or that of the first record of a log."""
    path: Path
    kind: str
    """`snapshot` or `log`."""
    compression: str | None = None
    """The compression: None, `gz` or `snappy`."""

    @classmethod
    def of(cls, path: Path) -> ServerFile | None:
        """The file at a path; None for names that servers do not read: `acceptedEpoch`, `*.tmp`."""
        match = _NAME.fullmatch(path.name)
        return match and cls(int(match[2], 16), path, match[1], match[3])


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """The files of one server, each kind by rising zxid."""

    folder: Path
    snapshots: tuple[ServerFile, ...]
    logs: tuple[ServerFile, ...]
    skipped: tuple[Path, ...] = ()
    """The paths with names like a server's that are no regular files: links are not followed."""

    def logs_within(self, from_zxid: int, to_zxid: int | None = None) -> tuple[ServerFile, ...]:
        """The logs that can hold a record of `from_zxid` to `to_zxid`, both included, by their names."""
        return tuple(
            log
            for log, following in with_following(self.logs)
            if (following is None or following.zxid > from_zxid) and (to_zxid is None or log.zxid <= to_zxid)
        )


def with_following(files: Sequence[ServerFile]) -> Iterator[tuple[ServerFile, ServerFile | None]]:
    """Yields each file and the next one; None behind the last."""
    return zip_longest(files, files[1:])


def list_files(folder: Path) -> ServerFiles:
    """The snapshots and logs in a `version-2` folder, or in the one below a dataDir; nothing is opened.

    Of a file that exists both plain and compressed the plain one counts. Raises NotZooKeeperFileError
    where there is no such folder, it may not be read, or has no such file.
    """
    found, skipped = _listed(folder)
    below = folder / DATA_FOLDER
    if not found and below.is_dir() and not below.is_symlink():
        folder = below
        found, skipped = _listed(folder)
    if not found:
        raise NotZooKeeperFileError(
            str(folder), "snapshot.ZXID or log.ZXID, as in a version-2 folder", f"none{_but(skipped)}"
        )
    best: dict[tuple[str, int], ServerFile] = {}
    for file in sorted(found, key=lambda each: (each.compression or "", each.path.name)):
        best.setdefault((file.kind, file.zxid), file)
    ordered = sorted(best.values())
    return ServerFiles(
        folder,
        tuple(file for file in ordered if file.kind == SNAPSHOT),
        tuple(file for file in ordered if file.kind == LOG),
        tuple(sorted(skipped)),
    )


def _listed(folder: Path) -> tuple[list[ServerFile], list[Path]]:
    """The files with a name like a server's, and paths with such a name that are no regular files."""
    found, skipped = [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                file = ServerFile.of(folder / entry.name)
                if file is not None and entry.is_file(follow_symlinks=False):
                    found.append(file)
                elif file is not None:
                    skipped.append(file.path)
    except OSError as error:
        raise _not_listed(folder, error) from error
    return found, skipped


def _but(skipped: Sequence[Path]) -> str:
    if not skipped:
        return ""
    first = min(skipped).name
    if len(skipped) == 1:
        return f" but {first}, which is no regular file"
    return f" but {first} and {len(skipped) - 1} more, which are no regular files"


def _not_listed(folder: Path, error: OSError) -> NotZooKeeperFileError:
    path, expected = str(folder), "a folder"
    if folder.is_symlink() and not folder.is_dir():
        return NotZooKeeperFileError(path, expected, "a link, which is not followed")
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        if not os.path.lexists(folder):
            return MissingFileError(path, expected, "nothing")
        return NotZooKeeperFileError(path, expected, "a file" if folder.is_file() else "no folder")
    return NotZooKeeperFileError(path, f"{expected} to read", error.strerror or str(error))


PIECE_BYTES: Final = 256 * 1024
"""The bytes that are read at a time."""

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
"""The version in every release from 3.4 to 3.9, so it does not distinguish them."""
_REGULAR_ONLY: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class FileBytes:
    """One regular file, opened for reading and nothing else; a context manager.

    `compression` is None, `gz` or `snappy`; `size` is that of the file on the disk. A link is
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
        self._given = 0
        """The number of plain bytes of a packed file that were returned."""
        self._rest = b""
        """The bytes that were unpacked and not returned yet."""
        self.compression: str | None = None
        self._unpacked: Iterator[bytes] = iter(())
        if front.startswith(_GZIP_MAGIC):
            self.compression, self._unpacked = "gz", self._gunzipped()
        elif front.startswith(_SNAPPY_MAGIC):
            self.compression, self._unpacked = "snappy", self._unsnapped()

    def read(self, most: int) -> bytes:
        """Returns the next plain bytes, at most so many; none at the end. Raises DamagedFileError."""
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
        """The next bytes as they are on the disk, `most` at most."""
        piece = self._bytes_at(self._at, most)
        self._at += len(piece)
        return piece

    def _damage(self, expected: str, found: str) -> DamagedFileError:
        return DamagedFileError(str(self.path), self._given, expected, found)

    def _gunzipped(self) -> Iterator[bytes]:
        """Yields the content of member after member, as `gzip` does; zeros may follow the last."""
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
        """Yields the content of blocks with their length in front, behind a header; streams may be joined."""
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
    """Returns a descriptor for a regular file; it waits for nothing, as on a pipe, and follows no link.

    Raises NotZooKeeperFileError with `expected` for anything else, and for files that may not be read.
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
    if "\0" in str(path):  # the message depends on the version of Python
        return "a null byte in its name"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


MAX_RECORD_BYTES: Final = 64 * 1024 * 1024
"""The largest record or znode that is accepted. Servers stop at `jute.maxbuffer`, 1 MiB unless raised."""

MAX_LOADED_BYTES: Final = 2 * 0xFFFFF
"""The largest record of a log, and the largest data or path of a snapshot, that a server loads by default.

It is `jute.maxbuffer` and `zookeeper.jute.maxbuffer.extrasize` together, which are equal unless set;
before 3.5.7 `jute.maxbuffer` and 1024. Source: BinaryInputArchive.checkLength@3.9.
"""


class Window(FileBytes):
    """Bytes of a file: `data[at:]` was read and not used yet, and begins at `offset` of the plain file.

    Take bytes by raising `at`; `ensure` reads more, which changes `data` and `at`.
    """

    def __init__(self, path: Path, *, piece_bytes: int = PIECE_BYTES) -> None:
        super().__init__(path)
        self._piece_bytes = piece_bytes
        self.data = b""
        self.at = 0
        self.base = 0
        """The place of `data[0]` in the plain file."""
        self._failure: DamagedFileError | None = None

    @property
    def offset(self) -> int:
        """The number of plain bytes before `at`."""
        return self.base + self.at

    def ensure(self, count: int) -> bool:
        """Reads until so many bytes follow `at`; False where the file ends before.

        Raises DamagedFileError where it cannot be read that far.
        """
        self.fill(count)
        is_there = len(self.data) - self.at >= count
        if not is_there and self._failure is not None:
            raise self._failure
        return is_there

    def fill(self, count: int) -> None:
        """Reads until so many bytes follow `at`, or as far as possible."""
        there = len(self.data) - self.at
        if there >= count:
            return
        pieces = [self.data[self.at :]]
        try:
            while there < count and self._failure is None and (piece := self.read(self._piece_bytes)):
                pieces.append(piece)
                there += len(piece)
        except DamagedFileError as error:
            self._failure = error  # the bytes before it count
        self._leave()
        self.base += self.at
        self.at = 0
        self.data = b"".join(pieces)

    def _leave(self) -> None:
        """A hook that is called before `data[:at]` is dropped."""

    def jump(self, offset: int) -> None:
        """Moves on to a later offset of the plain file."""
        there = self.base + len(self.data)
        if offset <= there:
            self.at = offset - self.base
            return
        self.skip(offset - there)
        self.data, self.at, self.base = b"", 0, offset

    def reload(self, offset: int) -> bool:
        """Reads again from any offset; False for a packed file, where that is impossible."""
        if self.compression is None:
            self._at = offset
            self.data, self.at, self.base, self._failure = b"", 0, offset, None
        return self.compression is None

    def has_changed(self, offset: int, seen: bytes) -> bool:
        """True if the bytes at an offset have changed since they were read; packed files never change."""
        return self.compression is None and self._bytes_at(offset, len(seen)) != seen

    def fits(self, end: int) -> bool:
        """True if a plain file is at least so long by now; the length of a packed one is not known."""
        if end > self.size and self.compression is None:
            self.size = self._size_now()
        return end <= self.size or self.compression is not None

    def pass_header(self, kind: str, magic: bytes) -> None:
        """Passes the header. Raises NotZooKeeperFileError where the file does not start like its kind."""
        front = self.data[: FILE_HEADER.size]
        if len(front) < FILE_HEADER.size or not front.startswith(magic):
            expected, found = bytes_text(magic), bytes_text(front[:8])
            raise NotZooKeeperFileError(str(self.path), f"{kind}, which starts with {expected}", found)
        _, version, _ = FILE_HEADER.unpack(front)
        if version != _FORMAT_VERSION:
            raise NotZooKeeperFileError(str(self.path), f"format version {_FORMAT_VERSION}", str(version))
        self.at = FILE_HEADER.size

    def damage(self, expected: str, found: str, offset: int | None = None) -> DamagedFileError:
        """The error to raise for the bytes at an offset of the file, by default at `at`."""
        return DamagedFileError(str(self.path), self.offset if offset is None else offset, expected, found)


def bytes_text(data: bytes) -> str:
    """The text of bytes in messages: in quotes if they are printable ASCII, else in hex."""
    text = data.decode("ascii", "replace")
    return f"'{text}'" if text.isascii() and text.isprintable() else f"0x{data.hex()}"


MAX_BLOCK_BYTES: Final = 16 * 1024 * 1024
"""The most plain bytes of one block that are accepted; the JVM's library writes 32 KiB."""


class SnappyError(ValueError):
    """The error for bytes that are no snappy block."""


def decompressed(block: bytes) -> bytes:
    """The plain bytes of one block. Raises SnappyError, and ConfigError where pyarrow is not installed."""
    length = _plain_length(block)
    try:
        import pyarrow as pa
    except ImportError as error:
        needs = f"files that are packed with snappy need pyarrow ({error})"
        raise ConfigError(f"{needs}: pip install 'zkgroup[audit]'") from error
    try:
        plain: bytes = pa.decompress(block, length, "snappy", asbytes=True)
    except OSError as error:
        raise SnappyError(str(error)) from error
    return plain


def _plain_length(block: bytes) -> int:
    """The plain size of a block, which is its first element."""
    length = 0
    for place, byte in enumerate(block[:5]):
        length |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            if length > MAX_BLOCK_BYTES:
                raise SnappyError(f"a block of {length} bytes, at most {MAX_BLOCK_BYTES} are believed")
            return length
    raise SnappyError("a block without its length")
