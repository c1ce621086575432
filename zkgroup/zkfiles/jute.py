"""The few types of ZooKeeper's serialisation, read from bytes that may be anything.

Source: BinaryInputArchive.java of ZooKeeper 3.9: big endian, nothing aligned, nothing tagged; buffers, texts
and vectors have an int in front, -1 for null. Every length is compared with what is there before it is used.
"""

from __future__ import annotations

import struct
from typing import Final

from zkgroup.zkfiles.records import Acl, AclEntry

INT: Final = struct.Struct(">i")
LONG: Final = struct.Struct(">q")

OPEN_ACL: Final[Acl] = (AclEntry(31, "world", "anyone"),)
"""Everybody may do everything; snapshots name it -1 and have it in no table."""
OPEN_ACL_BYTES: Final = b"\0\0\0\x01" + b"\0\0\0\x1f" + b"\0\0\0\x05world" + b"\0\0\0\x06anyone"
"""As a list of one entry."""
_SMALLEST_ACL: Final = 12
"""Bytes of an entry whose scheme and id are empty."""


class JuteError(ValueError):
    """Bytes that cannot be what they should; `offset` is within the buffer that was given."""

    def __init__(self, offset: int, expected: str, found: str) -> None:
        super().__init__(f"byte {offset}: expected {expected}, found {found}")
        self.offset = offset
        self.expected = expected
        self.found = found


class Jute:
    """Reads one value after the other from `raw[at:end]`. Raises JuteError, never another error."""

    __slots__ = ("at", "end", "raw")

    def __init__(self, raw: bytes, at: int = 0, end: int | None = None) -> None:
        self.raw = raw
        self.at = at
        self.end = len(raw) if end is None else end

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return self.end - self.at

    def number(self) -> int:
        """Four bytes, signed."""
        return self._number(INT)

    def long(self) -> int:
        """Eight bytes, signed."""
        return self._number(LONG)

    def _number(self, layout: struct.Struct) -> int:
        at = self.at
        if self.end - at < layout.size:
            raise JuteError(at, f"{layout.size} bytes", str(self.end - at))
        self.at = at + layout.size
        value: int = layout.unpack_from(self.raw, at)[0]
        return value

    def flag(self) -> bool:
        """One byte, 0 or 1."""
        at = self.at
        if at >= self.end:
            raise JuteError(at, "a byte", "the end")
        value = self.raw[at]
        if value > 1:
            raise JuteError(at, "0 or 1", str(value))
        self.at = at + 1
        return value == 1

    def buffer(self) -> bytes | None:
        """Bytes, or None for null."""
        at = self.at
        size = self.number()
        if size == -1:
            return None
        if size < 0 or size > self.end - self.at:
            raise JuteError(at, f"a length of at most {self.end - self.at}", str(size))
        start = self.at
        self.at = start + size
        return self.raw[start : self.at]

    def text(self) -> str:
        """A text that is not null."""
        at = self.at
        raw = self.buffer()
        if raw is None:
            raise JuteError(at, "a text", "null")
        return text_of(raw, at)

    def acl(self) -> Acl | None:
        """A list of ACL entries, or None for null."""
        at = self.at
        end = at + len(OPEN_ACL_BYTES)
        if end <= self.end and self.raw.startswith(OPEN_ACL_BYTES, at):
            self.at = end
            return OPEN_ACL
        count = self.count(_SMALLEST_ACL)
        if count is None:
            return None
        return tuple(AclEntry(self.number(), self.text(), self.text()) for _ in range(count))

    def texts(self) -> tuple[str, ...]:
        """A list of texts; null is taken for none."""
        return tuple(self.text() for _ in range(self.count(INT.size) or 0))

    def count(self, smallest: int) -> int | None:
        """How many items of at least `smallest` bytes follow; None for null."""
        at = self.at
        count = self.number()
        if count == -1:
            return None
        if count < 0 or count * smallest > self.end - self.at:
            raise JuteError(at, f"at most {(self.end - self.at) // smallest} items", str(count))
        return count


def text_of(raw: bytes, at: int = 0) -> str:
    """The text of UTF-8 bytes that stand at an offset.

    ZooKeeper writes characters outside the basic plane as two surrogates of three bytes each
    (BinaryOutputArchive.stringToByteBuffer); they are put together. Raises JuteError.
    """
    try:
        return raw.decode()
    except UnicodeDecodeError:
        pass
    try:
        halves = raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise JuteError(at + INT.size + error.start, "UTF-8", repr(raw[error.start : error.end])) from error
    return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
