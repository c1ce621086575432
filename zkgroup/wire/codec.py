"""Makes writers and readers of schemas, one pair for each class and version, once.

Reading: a reader is given the whole frame and where to start, and says where it ended. Before anything is
cut out or made, the bytes for it are known to be there; a count is compared with the least that so many
items take. So memory follows the size of the frame, never a number in it. A record of two bytes in the frame
takes some 60 in memory, so the items of a large request are also limited (`requests.ITEMS_MAX`).

A controller that takes over writes a hundred thousand partitions into one message, and every broker reads
them. So neighbouring fields are packed in one go, and neighbouring numbers unpacked in one. Where that
fails the fields are done one by one, which names the one at fault.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple, assert_never

from zkgroup.errors import CorruptFrameError
from zkgroup.wire.primitives import (
    INT8,
    ONE_BYTE,
    TEXT_BYTES_MAX,
    Codec,
    Read,
    Write,
    count_codec,
    count_items,
    data,
    fixed,
    number,
    numbers,
    read_uvarint,
    short,
    text,
    truth,
    uvarint,
)
from zkgroup.wire.record_readers import record_reader
from zkgroup.wire.schema import (
    Array,
    Buffer,
    Data,
    Field,
    Fixed,
    Node,
    Nullable,
    Number,
    StructSchema,
    Text,
    Truth,
    schema_of,
)

LAYOUTS_MAX = 1024
"""Layouts that are kept of one class: one for each combination of lengths met."""


class Form(NamedTuple):
    """The parts that decide how a field lies, beside its node."""

    version: int
    """Of the message."""
    flexible: bool
    """True if lengths are compact and every record ends with tagged fields (KIP-482)."""
    is_counted: bool = False
    """True if reading counts the items of arrays and the tagged fields (`primitives.limit_items`)."""


@cache
def codec_of(kind: type, version: int, flexible: bool | None = None, *, is_counted: bool = False) -> Codec:
    """The codec of a message, of a header or of a record of a message, in one version of the message.

    flexible: whether that is a flexible version; None for what `kind` says itself (`FLEXIBLE_FROM`).
    is_counted: whether reading is limited by `primitives.limit_items`, which has to be called before.
    """
    if flexible is None:
        first: int | None = getattr(kind, "FLEXIBLE_FROM", None)
        flexible = first is not None and version >= first
    return _record(schema_of(kind), Form(version, flexible, is_counted))


def _codec(node: Node, where: str, form: Form) -> Codec:
    compact = form.flexible
    match node:
        case Number():
            return number(node, where)
        case Text():
            return text(node, where, compact=compact)
        case Data():
            return data(node, where, compact=compact)
        case Fixed():
            return fixed(node, where)
        case Truth():
            return truth(where)
        case Array(Number() as item):
            return numbers(item, where, compact=compact, nullable=node.nullable, is_counted=form.is_counted)
        case Array():
            return _array(node, where, form)
        case Nullable():
            return _nullable(node, where, form)
        case StructSchema():
            return _record(node, form)
        case _:
            assert_never(node)


def _array(node: Array, where: str, form: Form) -> Codec:
    of_item = _codec(node.item, where, form)
    write_item, read_item, smallest = of_item.write, of_item.read, of_item.smallest
    if smallest == 0:
        raise TypeError(f"{where}: items without bytes cannot be counted by them")
    write_count, count_of = count_codec(where, smallest, compact=form.flexible, nullable=node.nullable)
    is_counted = form.is_counted

    def write(values: Sequence[Any] | None, parts: list[Buffer]) -> None:
        parts.append(write_count(values))
        for value in values or ():
            write_item(value, parts)

    def read(buffer: bytes, at: int, values: list[Any]) -> int:
        count, at = count_of(buffer, at)
        if count < 0:
            values.append(None)
            return at
        if is_counted:
            count_items(where, at, count)
        items: list[Any] = []
        for _ in range(count):
            at = read_item(buffer, at, items)
        values.append(tuple(items))
        return at

    return Codec(write, read, 1 if form.flexible else 4, of_item)


def _nullable(node: Nullable, where: str, form: Form) -> Codec:
    record = _record(node.record, form)

    def write(value: Any, parts: list[Buffer]) -> None:
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


def _record(node: StructSchema, form: Form) -> Codec:
    present = [field for field in node.on_the_wire(form.version) if form.flexible or field.tag is None]
    codecs = {
        field.name: _codec(field.node_in(form.version), f"{node.kind.__name__}.{field.name}", form)
        for field in present
    }
    plain = [field for field in present if field.tag is None]
    tagged = [field for field in present if field.tag is not None]
    writers = list(_writers(node.kind, plain, codecs, form, ends=form.flexible and not tagged))
    readers = list(_readers(node, form, codecs))
    if form.flexible:
        if tagged:
            writers.append(_write_tagged(tagged, codecs))
        elif not plain or not _is_flat(plain[-1], form):
            writers.append(_write_no_tags)
        readers.append(_read_tagged(node, tagged, codecs, is_counted=form.is_counted))
    make, reader = _maker(node), None

    def write_all(value: Any, parts: list[Buffer]) -> None:
        for write in writers:
            write(value, parts)

    def read_all(buffer: bytes, at: int, values: list[Any]) -> int:
        found: list[Any] = []
        for read in readers:
            at = read(buffer, at, found)
        values.append(make(found))
        return at

    if not form.is_counted:
        tail = readers[-1] if form.flexible else None
        reader = record_reader(
            node, form.version, codecs, is_flexible=form.flexible, read_tagged=tail, slow=read_all
        )
    return Codec(
        writers[0] if len(writers) == 1 else write_all,
        reader or read_all,
        sum(codecs[field.name].smallest for field in plain) + form.flexible,
    )


def _maker(node: StructSchema) -> Callable[[list[Any]], Any]:
    """Makes a value of its fields in the order of the schema.

    For a dataclass it is written out as source, as `dataclasses` does, and sets each slot by its descriptor:
    that takes half the time of the `__init__` of a frozen one.
    """
    kind: Any = node.kind
    names = [field.name for field in node.fields]
    if hasattr(kind, "_make"):
        made: Callable[[list[Any]], Any] = kind._make
        return made
    if "__slots__" not in vars(kind) or hasattr(kind, "__post_init__"):
        return lambda values: kind(**dict(zip(names, values, strict=True)))
    sources = [f"    set{index}(self, a{index})\n" for index in range(len(names))]
    given = "".join(f"a{index}, " for index in range(len(names)))
    source = (
        "def make(values):\n"
        + (f"    {given}= values\n" if names else "")
        + "    self = new(kind)\n"
        + "".join(sources)
        + "    return self\n"
    )
    space: dict[str, Any] = {"new": object.__new__, "kind": kind}
    space |= {f"set{index}": getattr(kind, name).__set__ for index, name in enumerate(names)}
    exec(source, space)  # noqa: S102 - of nothing but numbers counted here
    make: Callable[[list[Any]], Any] = space["make"]
    return make


def _write_no_tags(_value: Any, parts: list[Buffer]) -> None:
    parts.append(b"\0")


def _write_tagged(fields: Sequence[Field], codecs: dict[str, Codec]) -> Write:
    """Writes the fields that differ from their defaults, by their tags."""
    get: Callable[[Any], Any] = attrgetter(*[field.name for field in fields])
    every: Callable[[Any], tuple[Any, ...]] = get if len(fields) > 1 else lambda value: (get(value),)
    defaults = tuple(field.versions.absent for field in fields)
    known = [(field.versions.absent, uvarint(field.tag or 0), codecs[field.name].write) for field in fields]

    def write(value: Any, parts: list[Buffer]) -> None:
        values = every(value)
        if values == defaults:
            parts.append(b"\0")
            return
        count, section = 0, list[Buffer]()
        for found, (absent, tag, write_value) in zip(values, known, strict=True):
            if found != absent:
                inner: list[Buffer] = []
                write_value(found, inner)
                section += (tag, uvarint(sum(map(len, inner))), *inner)
                count += 1
        parts.append(uvarint(count))
        parts += section

    return write


def _read_tagged(
    node: StructSchema, present: Sequence[Field], codecs: dict[str, Codec], *, is_counted: bool
) -> Read:
    """Reads the tagged fields, those that are missing as their defaults; skips those that are not known."""
    where = f"{node.kind.__name__} (tagged fields)"
    every = [field for field in node.fields if field.tag is not None]
    absent = [field.versions.absent for field in every]
    known = {field.tag: (every.index(field), codecs[field.name].read) for field in present}

    def read(buffer: bytes, at: int, values: list[Any]) -> int:
        if at < len(buffer) and buffer[at] == 0:
            values += absent
            return at + 1
        found, last = list(absent), -1
        count, start = read_uvarint(buffer, at, where)
        left = len(buffer) - start
        if count * 2 > left:
            expected = f"a count of 0 to {left // 2}, as {left} bytes are left"
            raise CorruptFrameError(where, at, expected, str(count))
        if is_counted:
            count_items(where, at, count)
        at = start
        for _ in range(count):
            (tag, start), place = read_uvarint(buffer, at, where), at
            if tag <= last:
                raise CorruptFrameError(where, place, f"a tag above {last}", str(tag))
            last = tag
            size, at = read_uvarint(buffer, start, where)
            if len(buffer) - at < size:
                raise short(where, buffer, at, size)
            if tag in known:
                index, read_value = known[tag]
                one: list[Any] = []
                end = read_value(buffer, at, one)
                if end != at + size:
                    raise CorruptFrameError(where, start, f"{end - at} bytes of tag {tag}", str(size))
                found[index] = one[0]
            at += size
        values += found
        return at

    return read


def _writers(
    kind: type, fields: Sequence[Field], codecs: dict[str, Codec], form: Form, *, ends: bool
) -> Iterator[Write]:
    for run in _runs(fields, form):
        last = run[-1]
        if _is_counted(last, form):
            yield _pack(kind, run, codecs, form, ends=False)
            yield _items(last.name, codecs[last.name])
        elif _is_flat(last, form):
            yield _pack(kind, run, codecs, form, ends=ends and last is fields[-1])
        else:
            yield _attribute(last.name, codecs[last.name].write)


def _runs(fields: Sequence[Field], form: Form) -> Iterator[list[Field]]:
    """The fields in order: those that one `struct` can hold, up to the count of an array, together."""
    run: list[Field] = []
    for field in fields:
        if _is_flat(field, form):
            run.append(field)
        elif _is_counted(field, form):
            yield [*run, field]
            run = []
        else:
            yield from [run, [field]] if run else [[field]]
            run = []
    if run:
        yield run


def _is_counted(field: Field, form: Form) -> bool:
    """Returns whether it is an array of records that is always there."""
    node = field.node_in(form.version)
    return isinstance(node, Array) and not isinstance(node.item, Number) and not node.nullable


def _items(name: str, codec: Codec) -> Write:
    """Writes the items of an array, whose count is written already."""
    get = attrgetter(name)
    assert codec.item is not None
    write_item = codec.item.write

    def write(value: Any, parts: list[Buffer]) -> None:
        for item in get(value):
            write_item(item, parts)

    return write


def _is_flat(field: Field, form: Form) -> bool:
    """Returns whether one `struct` can hold it, once its length is known."""
    match field.node_in(form.version):
        case Number() | Array(Number(), nullable=False):
            return True
        case Text(nullable=False, compact=compact):
            return compact or not form.flexible
        case _:
            return False


def _attribute(name: str, write_value: Write) -> Write:
    get = attrgetter(name)

    def write(value: Any, parts: list[Buffer]) -> None:
        write_value(get(value), parts)

    return write


def _pack(kind: type, fields: list[Field], codecs: dict[str, Codec], form: Form, *, ends: bool) -> Write:
    """Writes neighbouring fields in one go; with `ends`, also that no tagged fields follow."""
    names = [field.name for field in fields]
    if len(names) == 1 and not ends and not _is_counted(fields[0], form):
        return _attribute(names[0], codecs[names[0]].write)
    values: Callable[[Any], Any] = attrgetter(*names)
    get = values if len(names) > 1 else lambda value: (values(value),)
    is_tuple = getattr(kind, "_fields", None) == tuple(names)
    pack = _packer(get, fields, _Layouts(fields, form, ends=ends), is_tuple=is_tuple)

    def write(value: Any, parts: list[Buffer]) -> None:
        try:
            parts.append(pack(value))
        except (UnicodeEncodeError, struct.error, AttributeError, TypeError):
            for name, one in zip(names, get(value), strict=True):
                codecs[name].write(one, [])
            raise

    return write


def _packer(
    get: Callable[[Any], tuple[Any, ...]], fields: list[Field], layouts: _Layouts, *, is_tuple: bool
) -> Callable[[Any], bytes]:
    """Written out as source, as `dataclasses` does: half the cost of walking over the fields each time.

    `is_tuple`: the value is a tuple of these fields and no others. Of an array of records the count alone is
    packed. For a text, a number and an array of numbers:

        a0, a1, a2 = value
        a0 = a0.encode()
        return layouts[len(a0), len(a2)](len(a0), a0, a1, len(a2), *a2)

    Where lengths are compact, what is packed for a length is one more.
    """
    names = [f"a{index}" for index in range(len(fields))]
    more = " + 1" if layouts.form.flexible else ""
    encoded, lengths, packed = "", "", ""
    for name, field in zip(names, fields, strict=True):
        if isinstance(field.node, Text):
            encoded += f"    {name} = {name}.encode()\n"
        if isinstance(field.node, Number):
            packed += f"{name}, "
        elif _is_counted(field, layouts.form):
            lengths += f"len({name}), " if layouts.form.flexible else ""
            packed += f"len({name}){more}, "
        else:
            lengths += f"len({name}), "
            packed += f"len({name}){more}, {'' if isinstance(field.node, Text) else '*'}{name}, "
    source = (
        "def pack(value):\n"
        f"    {', '.join(names)}, = {'value' if is_tuple else 'get(value)'}\n"
        f"{encoded}"
        f"    return layouts[({lengths})]({packed})\n"
    )
    made: dict[str, Any] = {"get": get, "layouts": layouts}
    exec(source, made)  # noqa: S102 - of nothing but numbers counted here
    pack: Callable[[Any], bytes] = made["pack"]
    return pack


class _Layouts(dict[tuple[int, ...], Callable[..., bytes]]):
    """Lengths of the variable parts of some fields, in order, to what packs them; made when asked for."""

    def __init__(self, fields: list[Field], form: Form, *, ends: bool) -> None:
        super().__init__()
        self._fields = fields
        self.form = form
        self._ends = ends

    def __missing__(self, lengths: tuple[int, ...]) -> Callable[..., bytes]:
        if len(self) >= LAYOUTS_MAX:
            self.clear()
        left = iter(lengths)
        code, long, at = ">", dict[int, int](), 0
        for field in self._fields:
            if isinstance(field.node, Number):
                code, at = code + field.node.code, at + 1
                continue
            if _is_counted(field, self.form) and not self.form.flexible:
                code, at = code + "i", at + 1
                continue
            size = next(left)
            item = field.node.item if isinstance(field.node, Array) else None
            each = item.code if isinstance(item, Number) else "s"
            if item is None and size > TEXT_BYTES_MAX:
                raise struct.error("too long")  # the codec of the field names it
            if not self.form.flexible:
                code += "h" if item is None else "i"
            elif size + 1 < ONE_BYTE:
                code += "B"
            else:
                code += f"{len(uvarint(size + 1))}s"
                long[at] = size + 1
            at += 1
            if not _is_counted(field, self.form):
                code += f"{size}{each}"
                at += 1 if item is None else size
        pack = struct.Struct(code + ("x" if self._ends else "")).pack
        self[lengths] = made = _with_long(pack, long) if long else pack
        return made


def _with_long(pack: Callable[..., bytes], long: dict[int, int]) -> Callable[..., bytes]:
    """Packs where some compact lengths take more than a byte: at those places their varints are packed."""
    varints = {at: uvarint(length) for at, length in long.items()}

    def packed(*values: Any) -> bytes:
        given = list(values)
        for at, varint in varints.items():
            given[at] = varint
        return pack(*given)

    return packed


def _readers(node: StructSchema, form: Form, codecs: dict[str, Codec]) -> Iterator[Read]:
    plain = [field for field in node.fields if field.tag is None]
    for sort, group in groupby(plain, partial(_sort, version=form.version)):
        if sort == "numbers":
            yield _unpack(list(group), codecs)
            continue
        for field in group:
            yield partial(_absent, [field.versions.absent]) if sort == "absent" else codecs[field.name].read
    if not form.flexible and len(plain) < len(node.fields):
        yield partial(_absent, [field.versions.absent for field in node.fields if field.tag is not None])


def _sort(field: Field, *, version: int) -> str:
    if version not in field.versions:
        return "absent"
    return "numbers" if isinstance(field.node, Number) else "other"


def _absent(absent: list[Any], _buffer: bytes, at: int, values: list[Any]) -> int:
    values += absent
    return at


def _unpack(fields: list[Field], codecs: dict[str, Codec]) -> Read:
    """Reads neighbouring numbers in one go."""
    layout = struct.Struct(
        ">" + "".join(field.node.code for field in fields if isinstance(field.node, Number))
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
