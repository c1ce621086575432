"""A buffer that moves over the bytes of a file: the one thing of a big file that is in memory."""

from __future__ import annotations

from typing import Final

from zkgroup.errors import DamagedFileError, NotZooKeeperFileError
from zkgroup.zkfiles.compression import PIECE_BYTES, FileBytes

MAX_RECORD_BYTES: Final = 64 * 1024 * 1024
"""The largest record or znode that is believed. Servers stop at `jute.maxbuffer`, 1 MiB unless raised."""

MAX_LOADED_BYTES: Final = 2 * 0xFFFFF
"""The largest record of a log, and the largest data or path of a snapshot, that a server loads by default.

It is `jute.maxbuffer` and `zookeeper.jute.maxbuffer.extrasize` together, which is as much unless it is set;
before 3.5.7 `jute.maxbuffer` and 1024. Source: BinaryInputArchive.checkLength@3.9.
"""


class Window:
    """`data[at:]` is what was read and not used yet; `offset` is where that stands in the plain file.

    Take bytes by raising `at`; `ensure` reads more, and then `data` and `at` are others than before.
    """

    def __init__(self, file: FileBytes, *, piece_bytes: int = PIECE_BYTES) -> None:
        self._file = file
        self._piece_bytes = piece_bytes
        self.data = b""
        self.at = 0
        self.base = 0
        """Says where `data[0]` stands in the plain file."""
        self._failure: DamagedFileError | None = None
        """Says why no more can be read."""

    @property
    def path(self) -> str:
        """Of the file, for messages."""
        return str(self._file.path)

    @property
    def offset(self) -> int:
        """Plain bytes before `at`."""
        return self.base + self.at

    def ensure(self, count: int) -> bool:
        """Returns whether at least so many bytes are there from `at` on; False where the file ends before.

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
            while there < count and self._failure is None and (piece := self._file.read(self._piece_bytes)):
                pieces.append(piece)
                there += len(piece)
        except DamagedFileError as error:
            self._failure = error  # what was read before it counts
        self._leave()
        self.base += self.at
        self.at = 0
        self.data = b"".join(pieces)

    def jump(self, offset: int) -> None:
        """Goes on to an offset of the plain file that is not behind."""
        there = self.base + len(self.data)
        if offset <= there:
            self.at = offset - self.base
            return
        self._file.skip(offset - there)
        self.data, self.at, self.base = b"", 0, offset

    def reload(self, offset: int) -> bool:
        """Reads anew from an offset, and further back too; False where the file is packed and cannot."""
        if not self._file.seek(offset):
            return False
        self.data, self.at, self.base, self._failure = b"", 0, offset, None
        return True

    def has_changed(self, offset: int, seen: bytes) -> bool:
        """Returns whether other bytes than those seen stand at an offset by now."""
        return self._file.has_changed(offset, seen)

    def _leave(self) -> None:
        """Called before `data[:at]` is forgotten."""

    def fits(self, end: int) -> bool:
        """Returns whether a file of known size is at least so long by now; others are always."""
        return self._file.compression is not None or self._file.is_as_long_as(end)

    def damage(self, expected: str, found: str, offset: int | None = None) -> DamagedFileError:
        """The error to raise for what stands at an offset of the file, by default at `at`."""
        return DamagedFileError(self.path, self.offset if offset is None else offset, expected, found)

    def foreign(self, expected: str, found: str) -> NotZooKeeperFileError:
        """The error to raise where the file is none of ZooKeeper's."""
        return NotZooKeeperFileError(self.path, expected, found)

    def without_magic(self, kind: str, magic: bytes, front: bytes) -> NotZooKeeperFileError:
        """The error to raise where the file does not start as its kind does."""
        return self.foreign(f"{kind}, which starts with {bytes_text(magic)}", bytes_text(front[:8]))


def bytes_text(data: bytes) -> str:
    """For messages: in quotes if they are printable ASCII, else in hex."""
    text = data.decode("ascii", "replace")
    return f"'{text}'" if text.isascii() and text.isprintable() else f"0x{data.hex()}"
