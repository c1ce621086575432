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
from typing import Any, assert_never

from zkgroup.errors import CorruptFrameError
from zkgroup.wire.fields import Data, Integer, Text, Truth
from zkgroup.wire.primitives import (
    INT8,
    Codec,
    Read,
    Write,
    count_of,
    data,
    integer,
    integers,
    short,
    size_of,
    text,
    truth,
)
from zkgroup.wire.schema import Array, Field, Node, Nullable, Record, schema_of

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
