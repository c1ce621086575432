"""The schema of a message on the wire: the types of its fields, read from the hints of its class."""

from __future__ import annotations

import types
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

Node: TypeAlias = "Number | Text | Data | Fixed | Truth | Array | Nullable | StructSchema"


@dataclass(frozen=True, slots=True)
class Array:
    """A count and so many items: an int32, or compact a varint of one more; -1, or compact 0, is null."""

    item: Node
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Nullable:
    """An int8: -1 for None, 1 before the record (as Kafka's nullable structs, KIP-893)."""

    record: StructSchema


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a class."""

    name: str
    node: Node
    versions: Versions
    tag: int | None = None
    """Its number among the tagged fields; None for a field that has its place in the order."""
    nullable_from: int = 0
    """The first version of the message in which it may be null, where its node is nullable."""

    def node_in(self, version: int) -> Node:
        """Its node in a version of the message: without null where that version has none."""
        node = self.node
        if version < self.nullable_from and isinstance(node, Text | Data | Array):
            return replace(node, nullable=False)
        return node


@dataclass(frozen=True, slots=True)
class StructSchema:
    """The fields of a class one after the other, and in a flexible version its tagged fields behind them."""

    kind: type
    fields: tuple[Field, ...]
    """Those without a tag in their order on the wire, then those with one by their tags."""

    def on_the_wire(self, version: int) -> tuple[Field, ...]:
        """The fields that this version of the message has."""
        return tuple(field for field in self.fields if version in field.versions)


@cache
def schema_of(kind: type) -> StructSchema:
    """The schema of a dataclass or named tuple whose fields have the types of `zkgroup.wire.schema`.

    Raises TypeError where one has not: a mistake in the class, found when it is first used.
    """
    named: Any = kind
    if is_dataclass(named):
        defaults = {field.name: field.default for field in fields(named)}
    else:
        defaults = {name: named._field_defaults.get(name, MISSING) for name in named._fields}
    hints = get_type_hints(kind, include_extras=True)
    found = [_field(kind, name, hints[name], default) for name, default in defaults.items()]
    tagged = {field.tag: field for field in found if field.tag is not None}
    plain = [field for field in found if field.tag is None]
    if len(tagged) + len(plain) < len(found):
        raise TypeError(f"{kind.__name__} has two fields of one tag")
    return StructSchema(kind, (*plain, *(tagged[tag] for tag in sorted(tagged))))


def _field(kind: type, name: str, hint: Any, default: Any = MISSING) -> Field:
    where = f"{kind.__name__}.{name}"
    marks = _marks(hint)
    versions = next((mark for mark in marks if isinstance(mark, Versions)), Versions())
    tag = next((mark.number for mark in marks if isinstance(mark, Tag)), None)
    nullable_from = next((mark.version for mark in marks if isinstance(mark, NullableFrom)), 0)
    node = _node(hint, where)
    may_be_none = isinstance(node, Nullable) or getattr(node, "nullable", False)
    if versions.absent is None and default is not MISSING:
        versions = replace(versions, absent=default)
    is_partial = tag is not None or not versions.is_all
    if is_partial and versions.absent is None and not may_be_none:
        raise TypeError(f"{where} does not say what it is in versions without it")
    return Field(name, node, versions, tag, nullable_from)


def _node(hint: Any, where: str) -> Node:
    for mark in _marks(hint):
        if isinstance(mark, Number | Text | Data | Fixed | Truth):
            return mark
        if isinstance(mark, Layout):
            return _laid_out(hint, mark)
    plain = hint.__origin__ if get_origin(hint) is Annotated else hint
    arguments = get_args(plain)
    if get_origin(plain) is tuple and len(arguments) == 2 and arguments[1] is ...:
        return Array(_node(arguments[0], where))
    if get_origin(plain) in (types.UnionType, Union) and len(arguments) == 2 and arguments[1] is type(None):
        inner = _node(arguments[0], where)
        if isinstance(inner, Array):
            return replace(inner, nullable=True)
        if isinstance(inner, StructSchema):
            return Nullable(inner)
    if isinstance(plain, type) and (is_dataclass(plain) or hasattr(plain, "_fields")):
        return schema_of(plain)
    raise TypeError(f"{where}: {hint!r} has no layout")


def _laid_out(hint: Any, layout: Layout) -> StructSchema:
    kind = hint.__origin__
    return StructSchema(kind, tuple(_field(kind, name, inner) for name, inner in layout.fields))


def _marks(hint: Any) -> tuple[Any, ...]:
    return hint.__metadata__ if get_origin(hint) is Annotated else ()


@dataclass(frozen=True, slots=True)
class Number:
    """A number of fixed size, whole or (`float64`) not."""

    name: str
    code: str
    """Of the module `struct`."""
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Text:
    """A length and so many bytes of UTF-8: an int16, or compact a varint of one more; -1, or 0, is null."""

    nullable: bool
    compact: bool = True
    """True if its length is compact in a flexible version."""
    is_cut: bool = False
    """True if a text that is too long is written without its end."""

    @property
    def name(self) -> str:
        return "nullable string" if self.nullable else "string"


@dataclass(frozen=True, slots=True)
class Data:
    """A length and so many bytes: an int32, or compact a varint of one more; -1, or compact 0, is null."""

    nullable: bool = False
    is_view: bool = False
    """True if reading gives a view of the frame rather than a copy; it keeps the whole frame in memory."""

    @property
    def name(self) -> str:
        word = "records" if self.is_view else "bytes"
        return f"nullable {word}" if self.nullable else word


@dataclass(frozen=True, slots=True)
class Fixed:
    """So many bytes, without a length."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Truth:
    """An int8, 0 or 1. Anything else is refused, as Kafka 0.8.2.2 refuses it in StopReplica."""

    name: str = "boolean"


@dataclass(frozen=True, slots=True)
class Versions:
    """In which versions of its message a field is on the wire, both ends included.

    Where it is not, it is left out in writing, and `absent` in reading; by default that is the default of
    the class.
    """

    first: int = 0
    last: int | None = None
    absent: Any = None

    def __contains__(self, version: int) -> bool:
        return version >= self.first and (self.last is None or version <= self.last)

    @property
    def is_all(self) -> bool:
        """True if every version has the field."""
        return self.first == 0 and self.last is None


@dataclass(frozen=True, slots=True)
class Tag:
    """The number of a tagged field (KIP-482). It is written where it differs from its default.

    Its versions are flexible ones. Numbers below 10,000 are Kafka's, those from there on zkgroup's own:
    who does not know a tag skips it.
    """

    number: int


@dataclass(frozen=True, slots=True)
class NullableFrom:
    """The first version of the message in which a field may be null."""

    version: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The fields of a class that does not describe itself: (attribute, type of field) in order."""

    fields: tuple[tuple[str, Any], ...]


Buffer: TypeAlias = bytes | memoryview
"""Bytes that are passed on without a copy."""

Int8 = Annotated[int, Number("int8", "b", 1)]
Int16 = Annotated[int, Number("int16", "h", 2)]
Int32 = Annotated[int, Number("int32", "i", 4)]
Int64 = Annotated[int, Number("int64", "q", 8)]
Float64 = Annotated[float, Number("float64", "d", 8)]
String = Annotated[str, Text(nullable=False)]
NullableString = Annotated[str | None, Text(nullable=True)]
ErrorText = Annotated[str | None, Text(nullable=True, is_cut=True)]
"""A message for people. It may name what a client has sent, which leaves too little room for the rest."""
Bytes = Annotated[bytes, Data()]
Records = Annotated[Buffer | None, Data(nullable=True, is_view=True)]
"""Record batches, not looked into here (`record_batch` does)."""
Uuid = Annotated[bytes, Fixed("uuid", 16)]
Boolean = Annotated[bool, Truth()]

NO_UUID = bytes(16)
"""The id of a topic that has none."""
