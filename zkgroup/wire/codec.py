"""Makes writers and readers of schemas, one pair for each class and version, once.

Reading: a reader is given the whole frame and where to start, and says where it ended. Before anything is
cut out or made, the bytes for it are known to be there; a count is compared with the least that so many
items take. So memory follows the size of the frame, never a number in it.

A controller that takes over writes a hundred thousand partitions into one message, and every broker reads
them. So neighbouring fields are packed in one go, and neighbouring integers unpacked in one. Where that
fails the fields are done one by one, which names the one at fault.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple, assert_never

from zkgroup.errors import CorruptFrameError, UnencodableError
from zkgroup.wire.schema import Array, Data, Field, Integer, Node, Nullable, Record, Text, Truth, schema_of

LAYOUTS_MAX = 1024
"""Layouts that are kept of one class: one for each combination of lengths met."""


@cache
def codec_of(kind: type, version: int) -> Codec:
    """The codec of a message or header in one of its versions."""
    return _record(schema_of(kind), version)


def _codec(node: Node, where: str, version: int) -> Codec:
    match node:
        case Integer():
            return integer(node, where)
        case Text():
            return text(node, where)
        case Data():
            return data(where)
        case Truth():
            return truth(where)
        case Array(Integer() as item):
            return integers(item, where)
        case Array():
            return _array(node, where, version)
        case Nullable():
            return _nullable(node, where, version)
        case Record():
            return _record(node, version)
        case _:
            assert_never(node)


# --- several --------------------------------------------------------------------------------------


def _array(node: Array, where: str, version: int) -> Codec:
    write_item, read_item, smallest = _codec(node.item, where, version)
    if smallest == 0:
        raise TypeError(f"{where}: items without bytes cannot be counted by them")

    def write(values: Sequence[Any], parts: list[bytes]) -> None:
        parts.append(size_of(values, where))
        for value in values:
            write_item(value, parts)

    def read(buffer: bytes, at: int, values: list[Any]) -> int:
        count, at = count_of(buffer, at, where, smallest)
        items: list[Any] = []
        for _ in range(count):
            at = read_item(buffer, at, items)
        values.append(tuple(items))
        return at

    return Codec(write, read, 4)


def _nullable(node: Nullable, where: str, version: int) -> Codec:
    record = _record(node.record, version)

    def write(value: Any, parts: list[bytes]) -> None:
        parts.append(INT8.pack(-1 if value is None else 1))
        if value is not None:
            record.write(value, parts)

    def read(buffer: bytes, at: int, values: list[Any]) -> int:
        if len(buffer) <= at:
            raise short(where, buffer, at, 1)
        sign = INT8.unpack_from(buffer, at)[0]
        if sign not in (-1, 1):
            raise CorruptFrameError(where, at, "-1 or 1", str(sign))
        if sign == 1:
            return record.read(buffer, at + 1, values)
        values.append(None)
        return at + 1

    return Codec(write, read, 1)


# --- records --------------------------------------------------------------------------------------


def _record(node: Record, version: int) -> Codec:
    kind: Callable[..., Any] = node.kind
    present = node.on_the_wire(version)
    codecs = {
        field.name: _codec(field.node, f"{node.kind.__name__}.{field.name}", version) for field in present
    }
    writers = list(_writers(node.kind, present, codecs))
    readers = list(_readers(node, version, codecs))

    def write_all(value: Any, parts: list[bytes]) -> None:
        for write in writers:
            write(value, parts)

    def read_all(buffer: bytes, at: int, values: list[Any]) -> int:
        found: list[Any] = []
        for read in readers:
            at = read(buffer, at, found)
        values.append(kind(*found))
        return at

    return Codec(
        writers[0] if len(writers) == 1 else write_all,
        read_all,
        sum(codec.smallest for codec in codecs.values()),
    )


def _writers(kind: type, fields: Sequence[Field], codecs: dict[str, Codec]) -> Iterator[Write]:
    for flat, group in groupby(fields, _is_flat):
        if flat:
            yield _pack(kind, list(group), codecs)
            continue
        for field in group:
            yield _attribute(field.name, codecs[field.name].write)


def _is_flat(field: Field) -> bool:
    """Whether one `struct` can hold it, once its length is known."""
    match field.node:
        case Integer() | Text(nullable=False) | Array(Integer()):
            return True
        case _:
            return False


def _attribute(name: str, write_value: Write) -> Write:
    get = attrgetter(name)

    def write(value: Any, parts: list[bytes]) -> None:
        write_value(get(value), parts)

    return write


def _pack(kind: type, fields: list[Field], codecs: dict[str, Codec]) -> Write:
    """Writes neighbouring fields in one go."""
    names = [field.name for field in fields]
    if len(names) == 1:
        return _attribute(names[0], codecs[names[0]].write)
    get: Callable[[Any], tuple[Any, ...]] = attrgetter(*names)
    pack = _packer(get, fields, is_tuple=getattr(kind, "_fields", None) == tuple(names))

    def write(value: Any, parts: list[bytes]) -> None:
        try:
            parts.append(pack(value))
        except (UnicodeEncodeError, struct.error):
            for name, one in zip(names, get(value), strict=True):
                codecs[name].write(one, [])
            raise

    return write


def _packer(
    get: Callable[[Any], tuple[Any, ...]], fields: list[Field], *, is_tuple: bool
) -> Callable[[Any], bytes]:
    """Written out as source, as `dataclasses` does: half the cost of walking over the fields each time.

    `is_tuple`: the value is a tuple of these fields and no others. For a text, a number and an array:

        a0, a1, a2 = value
        a0 = a0.encode()
        return layouts[len(a0), len(a2)](len(a0), a0, a1, len(a2), *a2)
    """
    names = [f"a{index}" for index in range(len(fields))]
    encoded, lengths, packed = "", "", ""
    for name, field in zip(names, fields, strict=True):
        if isinstance(field.node, Text):
            encoded += f"    {name} = {name}.encode()\n"
        if isinstance(field.node, Integer):
            packed += f"{name}, "
        else:
            lengths += f"len({name}), "
            packed += f"len({name}), {name}, " if isinstance(field.node, Text) else f"len({name}), *{name}, "
    source = (
        "def pack(value):\n"
        f"    {', '.join(names)} = {'value' if is_tuple else 'get(value)'}\n"
        f"{encoded}"
        f"    return layouts[({lengths})]({packed})\n"
    )
    made: dict[str, Any] = {"get": get, "layouts": _Layouts(fields)}
    exec(source, made)  # noqa: S102 - of nothing but numbers counted here
    pack: Callable[[Any], bytes] = made["pack"]
    return pack


class _Layouts(dict[tuple[int, ...], Callable[..., bytes]]):
    """Lengths of the variable parts of some fields, in order, to what packs them; made when asked for."""

    def __init__(self, fields: list[Field]) -> None:
        super().__init__()
        self._fields = fields

    def __missing__(self, lengths: tuple[int, ...]) -> Callable[..., bytes]:
        if len(self) >= LAYOUTS_MAX:
            self.clear()
        left = iter(lengths)
        code = ">"
        for field in self._fields:
            match field.node:
                case Integer() as node:
                    code += node.code
                case Array(Integer() as item):
                    code += f"i{next(left)}{item.code}"
                case _:
                    code += f"h{next(left)}s"
        pack = self[lengths] = struct.Struct(code).pack
        return pack


def _readers(node: Record, version: int, codecs: dict[str, Codec]) -> Iterator[Read]:
    for sort, group in groupby(node.fields, partial(_sort, version=version)):
        if sort == "integers":
            yield _unpack(list(group), codecs)
            continue
        for field in group:
            yield partial(_absent, field.versions.absent) if sort == "absent" else codecs[field.name].read


def _sort(field: Field, *, version: int) -> str:
    if version not in field.versions:
        return "absent"
    return "integers" if isinstance(field.node, Integer) else "other"


def _absent(value: Any, _buffer: bytes, at: int, values: list[Any]) -> int:
    values.append(value)
    return at


def _unpack(fields: list[Field], codecs: dict[str, Codec]) -> Read:
    """Reads neighbouring integers in one go."""
    layout = struct.Struct(
        ">" + "".join(field.node.code for field in fields if isinstance(field.node, Integer))
    )
    unpack_from, size = layout.unpack_from, layout.size
    singles = [codecs[field.name].read for field in fields]

    def read(buffer: bytes, at: int, values: list[Any]) -> int:
        if len(buffer) - at < size:
            for one in singles:
                at = one(buffer, at, [])
        values += unpack_from(buffer, at)
        return at + size

    return read


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
