"""The few types of ZooKeeper's serialisation, read from bytes that may be anything.

Source: BinaryInputArchive.java of ZooKeeper 3.9: big endian, nothing aligned, nothing tagged; buffers, texts
and vectors have an int in front, -1 for null. Every length is compared with what is there before it is used.
The functions `..._at` give a value with the place behind it, which costs half of a call of an object that
moves. They raise JuteError.
"""

from __future__ import annotations

import struct
from typing import Final

from zkgroup.zkfiles.records import Acl, AclEntry

INT: Final = struct.Struct(">i")
LONG: Final = struct.Struct(">q")
_INT: Final = INT.unpack_from
_LONG: Final = LONG.unpack_from

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


def int_at(raw: bytes, at: int, end: int) -> tuple[int, int]:
    """Four bytes, signed."""
    if end - at < 4:
        raise JuteError(at, "4 bytes", str(end - at))
    return _INT(raw, at)[0], at + 4


def long_at(raw: bytes, at: int, end: int) -> tuple[int, int]:
    """Eight bytes, signed."""
    if end - at < 8:
        raise JuteError(at, "8 bytes", str(end - at))
    return _LONG(raw, at)[0], at + 8


def flag_at(raw: bytes, at: int, end: int) -> tuple[bool, int]:
    """One byte, 0 or 1."""
    if at >= end:
        raise JuteError(at, "a byte", "the end")
    value = raw[at]
    if value > 1:
        raise JuteError(at, "0 or 1", str(value))
    return value == 1, at + 1


def buffer_at(raw: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    """Bytes, or None for null."""
    start = at + 4
    if start > end:
        raise JuteError(at, "4 bytes", str(end - at))
    (size,) = _INT(raw, at)
    if 0 <= size <= end - start:
        stop = start + size
        return raw[start:stop], stop
    if size == -1:
        return None, start
    raise JuteError(at, f"a length of at most {end - start}", str(size))


def text_at(raw: bytes, at: int, end: int) -> tuple[str, int]:
    """A text that is not null."""
    data, stop = buffer_at(raw, at, end)
    if data is None:
        raise JuteError(at, "a text", "null")
    return text_of(data, at), stop


def acl_at(raw: bytes, at: int, end: int) -> tuple[Acl | None, int]:
    """A list of ACL entries, or None for null."""
    stop = at + len(OPEN_ACL_BYTES)
    if stop <= end and raw.startswith(OPEN_ACL_BYTES, at):
        return OPEN_ACL, stop
    count, at = count_at(raw, at, end, _SMALLEST_ACL)
    if count is None:
        return None, at
    entries = []
    for _ in range(count):
        perms, at = int_at(raw, at, end)
        scheme, at = text_at(raw, at, end)
        id_, at = text_at(raw, at, end)
        entries.append(AclEntry(perms, scheme, id_))
    return tuple(entries), at


def count_at(raw: bytes, at: int, end: int, smallest: int) -> tuple[int | None, int]:
    """The number of items of at least `smallest` bytes that follow; None for null."""
    count, start = int_at(raw, at, end)
    if count == -1:
        return None, start
    most = (end - start) // smallest
    if not 0 <= count <= most:
        raise JuteError(at, f"at most {most} items", str(count))
    return count, start


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
