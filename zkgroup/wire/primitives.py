"""Writers and readers of single values: numbers, texts, bytes, arrays of numbers, and lengths.

Strings, bytes and arrays have one length on the wire in the first versions of a message (an int16 or an
int32) and another, compact one in its flexible versions (KIP-482): an unsigned varint of one more than the
length, where 0 stands for null.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

from zkgroup.errors import CorruptFrameError, UnencodableError
from zkgroup.wire.schema import Buffer, Data, Fixed, Number, Text

Write = Callable[[Any, list[Buffer]], None]
"""Adds the bytes of one value. Raises UnencodableError where it does not fit."""
Read = Callable[[bytes, int, list[Any]], int]
"""Adds the value, or the values of neighbouring fields, that start at an offset, and says where they end.

Raises CorruptFrameError."""

SHOWN = 40
"""Characters of a refused value in a message."""

INT8 = struct.Struct(">b")
TEXT_LENGTH = struct.Struct(">h")
"""Of a string, where it is not compact; -1 for null."""
ARRAY_COUNT = struct.Struct(">i")
"""Of the items of an array, or of bytes, where it is not compact; -1 for null."""

TEXT_BYTES_MAX = 32_767
"""Of a string, also where its length is compact (Kafka's generated messages check the same)."""
ONE_BYTE = 0x80
"""Unsigned varints below it take one byte."""
VARINT_BYTES_MAX = 5


class Codec(NamedTuple):
    """A way to write and read the values of one node."""

    write: Write
    read: Read
    smallest: int
    """Bytes that the shortest value takes."""
    item: Codec | None = None
    """Of an array of records."""


def number(node: Number, where: str) -> Codec:
    """One number by itself."""
    layout = struct.Struct(">" + node.code)
    pack, unpack_from, size = layout.pack, layout.unpack_from, node.size

    def write(value: int, parts: list[Buffer]) -> None:
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


def truth(where: str) -> Codec:
    """True or False."""

    def write(value: bool, parts: list[Buffer]) -> None:
        parts.append(b"\1" if value else b"\0")

    def read(buffer: bytes, at: int, values: list[Any]) -> int:
        if len(buffer) <= at:
            raise short(where, buffer, at, 1)
        if buffer[at] > 1:
            raise CorruptFrameError(where, at, "0 or 1", str(INT8.unpack_from(buffer, at)[0]))
        values.append(buffer[at] == 1)
        return at + 1

    return Codec(write, read, 1)


def numbers(node: Number, where: str, *, compact: bool, nullable: bool, is_counted: bool = False) -> Codec:
    """An array of numbers, unpacked in one go. `is_counted`: `INTEGERS_OF_ITEM` count as one item."""
    size = node.size
    few = tuple(struct.Struct(f">{count}{node.code}") for count in range(8))
    """Replica lists are short: their layouts are kept."""
    write_length, count_of = count_codec(where, size, compact=compact, nullable=nullable)

    def write(values: Sequence[int] | None, parts: list[Buffer]) -> None:
        parts.append(write_length(values))
        try:
            if values is not None:
                parts.append(struct.pack(f">{len(values)}{node.code}", *values))
        except struct.error as error:
            raise misfit(where, f"{node.name}s", values) from error

    def read(buffer: bytes, at: int, values: list[Any]) -> int:
        count, start = count_of(buffer, at)
        if 0 <= count < len(few):
            values.append(few[count].unpack_from(buffer, start))
        elif count < 0:
            values.append(None)
            return start
        else:
            if is_counted:
                count_items(where, at, count // INTEGERS_OF_ITEM)
            values.append(struct.unpack_from(f">{count}{node.code}", buffer, start))
        return start + count * size

    return Codec(write, read, 1 if compact else 4)


def text(node: Text, where: str, *, compact: bool) -> Codec:
    """A text, or None where the node allows it."""
    return _compact_text(node, where) if compact and node.compact else _text(node, where)


def _text(node: Text, where: str) -> Codec:
    def write(value: str | None, parts: list[Buffer]) -> None:
        if value is None:
            parts.append(TEXT_LENGTH.pack(_null_length(node.nullable, where)))
            return
        raw = _utf8(value, where, is_cut=node.is_cut)
        parts.append(TEXT_LENGTH.pack(len(raw)))
        parts.append(raw)

    def read(buffer: bytes, at: int, values: list[Any]) -> int:
        start = at + 2
        if len(buffer) < start:
            raise short(where, buffer, at, 2)
        size: int = TEXT_LENGTH.unpack_from(buffer, at)[0]
        if size < 0:
            if size != -1 or not node.nullable:
                raise CorruptFrameError(where, at, f"the length of a {node.name}", str(size))
            values.append(None)
            return start
        return _read_utf8(where, buffer, start, size, values)

    return Codec(write, read, 2)


def _compact_text(node: Text, where: str) -> Codec:
    def write(value: str | None, parts: list[Buffer]) -> None:
        if value is None:
            _null_length(node.nullable, where)
            parts.append(b"\0")
            return
        raw = _utf8(value, where, is_cut=node.is_cut)
        parts.append(uvarint(len(raw) + 1))
        parts.append(raw)

    def read(buffer: bytes, at: int, values: list[Any]) -> int:
        size, start = read_uvarint(buffer, at, where)
        if size == 0:
            if not node.nullable:
                raise CorruptFrameError(where, at, f"the length of a {node.name}", "null")
            values.append(None)
            return start
        if size > TEXT_BYTES_MAX + 1:
            raise CorruptFrameError(where, at, f"at most {TEXT_BYTES_MAX} bytes", str(size - 1))
        return _read_utf8(where, buffer, start, size - 1, values)

    return Codec(write, read, 1)


def _null_length(nullable: bool, where: str) -> int:
    if not nullable:
        raise UnencodableError(where, "a value, as this version has no null", "None")
    return -1


def _utf8(value: str, where: str, *, is_cut: bool) -> bytes:
    try:
        raw = value.encode()
    except UnicodeEncodeError as error:
        raise _no_text(where, value) from error
    if len(raw) > TEXT_BYTES_MAX:
        if is_cut:
            return raw[:TEXT_BYTES_MAX].decode(errors="ignore").encode()
        raise _no_text(where, value)
    return raw


def _no_text(where: str, value: str) -> UnencodableError:
    return UnencodableError(where, f"at most {TEXT_BYTES_MAX} bytes of UTF-8", _shown(value))


def _read_utf8(where: str, buffer: bytes, start: int, size: int, values: list[Any]) -> int:
    end = start + size
    if len(buffer) < end:
        raise short(where, buffer, start, size)
    try:
        values.append(buffer[start:end].decode())
    except UnicodeDecodeError as error:
        raise CorruptFrameError(where, start, "UTF-8", _shown(buffer[start:end])) from error
    return end


def data(node: Data, where: str, *, compact: bool) -> Codec:
    """Bytes, or None where the node allows it. They are written without a copy."""
    write_length, length_of = _data_length(node, where, compact=compact)

    def write(value: Buffer | None, parts: list[Buffer]) -> None:
        parts.append(write_length(value))
        if value is not None:
            parts.append(value)

    def read(buffer: bytes, at: int, values: list[Any]) -> int:
        size, start = length_of(buffer, at)
        if size < 0:
            values.append(None)
            return start
        end = start + size
        if len(buffer) < end:
            raise short(where, buffer, start, size)
        values.append(memoryview(buffer)[start:end] if node.is_view else buffer[start:end])
        return end

    return Codec(write, read, 1 if compact else 4)


def _data_length(node: Data, where: str, *, compact: bool) -> tuple[WriteLength, ReadLength]:
    def length_of(buffer: bytes, at: int) -> tuple[int, int]:
        start = at + 4
        if len(buffer) < start:
            raise short(where, buffer, at, 4)
        size: int = ARRAY_COUNT.unpack_from(buffer, at)[0]
        if size < 0 and not (size == -1 and node.nullable):
            raise CorruptFrameError(where, at, f"the length of {node.name}", str(size))
        return size, start

    def compact_length_of(buffer: bytes, at: int) -> tuple[int, int]:
        size, start = read_uvarint(buffer, at, where)
        if size == 0 and not node.nullable:
            raise CorruptFrameError(where, at, f"the length of {node.name}", "null")
        return size - 1, start

    write_length = _length_writer(where, compact=compact, nullable=node.nullable)
    return write_length, compact_length_of if compact else length_of


def fixed(node: Fixed, where: str) -> Codec:
    """So many bytes."""
    size = node.size

    def write(value: bytes, parts: list[Buffer]) -> None:
        if len(value) != size:
            raise UnencodableError(where, f"{size} bytes", _shown(value))
        parts.append(value)

    def read(buffer: bytes, at: int, values: list[Any]) -> int:
        if len(buffer) - at < size:
            raise short(where, buffer, at, size)
        values.append(buffer[at : at + size])
        return at + size

    return Codec(write, read, size)


WriteLength = Callable[[Sequence[Any] | memoryview | None], bytes]
"""The bytes of the length of a value, or of null."""
ReadLength = Callable[[bytes, int], tuple[int, int]]
"""The length that stands at an offset, -1 for null, and where what it counts starts."""


INTEGERS_OF_ITEM: Final = 8
"""Numbers of an array that take about the memory of a record with a text."""
_ITEMS_LEFT: ContextVar[list[int]] = ContextVar("items_left")


def limit_items(most: int) -> None:
    """Limits the items that counted codecs read from now on in this context."""
    _ITEMS_LEFT.set([most])


class TooManyItemsError(CorruptFrameError):
    """A request has more items than counted codecs may read."""


def count_items(where: str, at: int, count: int) -> None:
    """Raises TooManyItemsError where so many more items are beyond the limit."""
    left = _ITEMS_LEFT.get()
    if count > left[0]:
        raise TooManyItemsError(where, at, f"at most {left[0]} more items in one request", str(count))
    left[0] -= count


def count_codec(
    where: str, smallest: int, *, compact: bool, nullable: bool
) -> tuple[WriteLength, ReadLength]:
    """The count of an array whose items take `smallest` bytes or more."""

    def check(at: int, count: int, left: int) -> None:
        if count < 0 or count * smallest > left:
            expected = f"a count of 0 to {left // smallest}, as {left} bytes are left"
            raise CorruptFrameError(where, at, expected, "null" if compact and count < 0 else str(count))

    def count_of(buffer: bytes, at: int) -> tuple[int, int]:
        start = at + 4
        left = len(buffer) - start
        if left < 0:
            raise short(where, buffer, at, 4)
        count: int = ARRAY_COUNT.unpack_from(buffer, at)[0]
        if count == -1 and nullable:
            return count, start
        check(at, count, left)
        return count, start

    def compact_count_of(buffer: bytes, at: int) -> tuple[int, int]:
        count, start = read_uvarint(buffer, at, where)
        count -= 1
        left = len(buffer) - start
        if count < 0 and nullable:
            return count, start
        check(at, count, left)
        return count, start

    write_length = _length_writer(where, compact=compact, nullable=nullable)
    return write_length, compact_count_of if compact else count_of


def _length_writer(where: str, *, compact: bool, nullable: bool) -> WriteLength:
    def write_length(value: Sequence[Any] | memoryview | None) -> bytes:
        length = _null_length(nullable, where) if value is None else len(value)
        try:
            return ARRAY_COUNT.pack(length)
        except struct.error as error:
            raise UnencodableError(where, "a length of 32 bits", str(length)) from error

    def write_compact(value: Sequence[Any] | memoryview | None) -> bytes:
        length = _null_length(nullable, where) if value is None else len(value)
        if length >= 2**31:
            raise UnencodableError(where, "a length of 32 bits", str(length))
        return uvarint(length + 1)

    return write_compact if compact else write_length


_ONE_BYTE_VARINTS = tuple(bytes([value]) for value in range(ONE_BYTE))


def uvarint(value: int) -> bytes:
    """An unsigned varint: seven bits a byte, the lowest first, each but the last with its top bit set."""
    if value < ONE_BYTE:
        return _ONE_BYTE_VARINTS[value]
    found = bytearray()
    while value >= ONE_BYTE:
        found.append(value & 0x7F | ONE_BYTE)
        value >>= 7
    found.append(value)
    return bytes(found)


def read_uvarint(buffer: bytes, at: int, where: str) -> tuple[int, int]:
    """The unsigned varint at an offset, below 2^32, and where it ends. Raises CorruptFrameError."""
    if at < len(buffer) and (first := buffer[at]) < ONE_BYTE:
        return first, at + 1
    value, shift = 0, 0
    for index in range(at, at + VARINT_BYTES_MAX):
        if index >= len(buffer):
            raise CorruptFrameError(where, index, "a varint", "the end")
        value |= (buffer[index] & 0x7F) << shift
        if buffer[index] < ONE_BYTE:
            if value >> 32:
                break
            return value, index + 1
        shift += 7
    found = buffer[at : at + VARINT_BYTES_MAX].hex(" ")
    raise CorruptFrameError(where, at, f"a varint of at most {VARINT_BYTES_MAX} bytes, below 2^32", found)


def short(where: str, buffer: bytes, at: int, size: int) -> CorruptFrameError:
    """The frame ends before it should."""
    return CorruptFrameError(where, at, f"{size} bytes", f"{len(buffer) - at} before the end")


def misfit(where: str, expected: str, value: object) -> UnencodableError:
    """A number beyond its field, or no number."""
    return UnencodableError(where, expected, _shown(value))


def _shown(value: object) -> str:
    text = repr(value[:SHOWN]) if isinstance(value, str | bytes) else repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
