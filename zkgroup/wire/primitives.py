"""Single values, and arrays of integers, as bytes; and how to say what is wrong with them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from zkgroup.errors import CorruptFrameError, UnencodableError
from zkgroup.wire.fields import Integer, Text

Write = Callable[[Any, list[bytes]], None]
"""Adds the bytes of one value. Raises UnencodableError where it does not fit."""
Read = Callable[[bytes, int, list[Any]], int]
"""Adds the value, or the values of neighbouring fields, that start at an offset, and says where they end.

Raises CorruptFrameError."""

SHOWN = 40
"""Characters of a refused value in a message."""

INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class Codec(NamedTuple):
    """How the values of one node are written and read."""

    write: Write
    read: Read
    smallest: int
    """Bytes that the shortest value takes."""


def integer(node: Integer, where: str) -> Codec:
    """One number by itself."""
    layout = struct.Struct(">" + node.code)
    pack, unpack_from, size = layout.pack, layout.unpack_from, node.size

    def write(value: int, parts: list[bytes]) -> None:
        try:
            parts.append(pack(value))
        except struct.error as error:
            raise misfit(where, node.name, value) from error

    def read(buffer: bytes, at: int, values: list[Any]) -> int:
        if len(buffer) - at < size:
            raise short(where, buffer, at, size)
        values += unpack_from(buffer, at)
        return at + size

    return Codec(write, read, size)


def text(node: Text, where: str) -> Codec:
    """A text, or None where the node allows it."""

    def write(value: str | None, parts: list[bytes]) -> None:
        if value is None:
            parts.append(_INT16.pack(-1))
            return
        try:
            raw = value.encode()
            parts.append(_INT16.pack(len(raw)))
        except (UnicodeEncodeError, struct.error) as error:
            raise UnencodableError(where, "at most 32767 bytes of UTF-8", _shown(value)) from error
        parts.append(raw)

    def read(buffer: bytes, at: int, values: list[Any]) -> int:
        start = at + 2
        if len(buffer) < start:
            raise short(where, buffer, at, 2)
        size: int = _INT16.unpack_from(buffer, at)[0]
        end = start + size
        if size < 0:
            if size != -1 or not node.nullable:
                raise CorruptFrameError(where, at, f"the length of a {node.name}", str(size))
            values.append(None)
            return start
        if len(buffer) < end:
            raise short(where, buffer, start, size)
        try:
            values.append(buffer[start:end].decode())
        except UnicodeDecodeError as error:
            raise CorruptFrameError(where, start, "UTF-8", _shown(buffer[start:end])) from error
        return end

    return Codec(write, read, 2)


def data(where: str) -> Codec:
    """Bytes, not looked into."""

    def write(value: bytes, parts: list[bytes]) -> None:
        parts.append(size_of(value, where))
        parts.append(value)

    def read(buffer: bytes, at: int, values: list[Any]) -> int:
        start = at + 4
        if len(buffer) < start:
            raise short(where, buffer, at, 4)
        size: int = _INT32.unpack_from(buffer, at)[0]
        if size < 0:
            raise CorruptFrameError(where, at, "the length of bytes", str(size))
        if len(buffer) - start < size:
            raise short(where, buffer, start, size)
        values.append(buffer[start : start + size])
        return start + size

    return Codec(write, read, 4)


def truth(where: str) -> Codec:
    """True or False."""

    def write(value: bool, parts: list[bytes]) -> None:
        parts.append(b"\1" if value else b"\0")

    def read(buffer: bytes, at: int, values: list[Any]) -> int:
        if len(buffer) <= at:
            raise short(where, buffer, at, 1)
        if buffer[at] > 1:
            raise CorruptFrameError(where, at, "0 or 1", str(INT8.unpack_from(buffer, at)[0]))
        values.append(buffer[at] == 1)
        return at + 1

    return Codec(write, read, 1)


def integers(node: Integer, where: str) -> Codec:
    """An array of numbers, unpacked in one go."""
    size = node.size
    few = tuple(struct.Struct(f">{count}{node.code}") for count in range(8))
    """Replica lists are short: their layouts are kept."""

    def write(values: Sequence[int], parts: list[bytes]) -> None:
        parts.append(size_of(values, where))
        try:
            parts.append(struct.pack(f">{len(values)}{node.code}", *values))
        except struct.error as error:
            raise misfit(where, f"{node.name}s", values) from error

    def read(buffer: bytes, at: int, values: list[Any]) -> int:
        count, start = count_of(buffer, at, where, size)
        if count < len(few):
            values.append(few[count].unpack_from(buffer, start))
        else:
            values.append(struct.unpack_from(f">{count}{node.code}", buffer, start))
        return start + count * size

    return Codec(write, read, 4)


# --- what is wrong --------------------------------------------------------------------------------


def count_of(buffer: bytes, at: int, where: str, smallest: int) -> tuple[int, int]:
    """The count of an array whose items take `smallest` bytes or more, and where they start."""
    start = at + 4
    left = len(buffer) - start
    if left < 0:
        raise short(where, buffer, at, 4)
    count: int = _INT32.unpack_from(buffer, at)[0]
    if count < 0 or count * smallest > left:
        expected = f"a count of 0 to {left // smallest}, as {left} bytes are left"
        raise CorruptFrameError(where, at, expected, str(count))
    return count, start


def size_of(value: Sequence[Any], where: str) -> bytes:
    """The length of an array or of bytes."""
    try:
        return _INT32.pack(len(value))
    except struct.error as error:
        raise UnencodableError(where, "a length of 32 bits", str(len(value))) from error


def short(where: str, buffer: bytes, at: int, size: int) -> CorruptFrameError:
    """The frame ends before it should."""
    return CorruptFrameError(where, at, f"{size} bytes", f"{len(buffer) - at} before the end")


def misfit(where: str, expected: str, value: object) -> UnencodableError:
    """A number beyond its field, or no number."""
    return UnencodableError(where, expected, _shown(value))


def _shown(value: object) -> str:
    text = repr(value[:SHOWN]) if isinstance(value, str | bytes) else repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
