"""The schema of a message on the wire: the types of its fields, read from the hints of its class."""

from __future__ import annotations

import types
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

Node: TypeAlias = "Integer | Text | Data | Truth | Array | Nullable | Record"


@dataclass(frozen=True, slots=True)
class Array:
    """An int32 count and so many items. There is no null array."""

    item: Node


@dataclass(frozen=True, slots=True)
class Nullable:
    """An int8: -1 for None, 1 before the record (as Kafka's nullable structs, KIP-893)."""

    record: Record


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a class."""

    name: str
    node: Node
    versions: Versions


@dataclass(frozen=True, slots=True)
class Record:
    """The fields of a class one after the other."""

    kind: type
    fields: tuple[Field, ...]

    def on_the_wire(self, version: int) -> tuple[Field, ...]:
        """The fields that this version of the message has."""
        return tuple(field for field in self.fields if version in field.versions)


@cache
def schema_of(kind: type) -> Record:
    """The schema of a dataclass or named tuple whose fields have the types of `zkgroup.wire.schema`.

    Raises TypeError where one has not: a mistake in the class, found when it is first used.
    """
    named: Any = kind
    names = [field.name for field in fields(named)] if is_dataclass(named) else named._fields
    hints = get_type_hints(kind, include_extras=True)
    return Record(kind, tuple(_field(kind, name, hints[name]) for name in names))


def _field(kind: type, name: str, hint: Any) -> Field:
    where = f"{kind.__name__}.{name}"
    versions = next((mark for mark in _marks(hint) if isinstance(mark, Versions)), Versions())
    node = _node(hint, where)
    may_be_none = isinstance(node, Nullable) or node == Text(nullable=True)
    if versions != Versions() and versions.absent is None and not may_be_none:
        raise TypeError(f"{where} does not say what it is in versions without it")
    return Field(name, node, versions)


def _node(hint: Any, where: str) -> Node:
    for mark in _marks(hint):
        if isinstance(mark, Integer | Text | Data | Truth):
            return mark
        if isinstance(mark, Layout):
            return _laid_out(hint, mark)
    plain = hint.__origin__ if get_origin(hint) is Annotated else hint
    arguments = get_args(plain)
    if get_origin(plain) is tuple and len(arguments) == 2 and arguments[1] is ...:
        return Array(_node(arguments[0], where))
    if get_origin(plain) in (types.UnionType, Union) and len(arguments) == 2 and arguments[1] is type(None):
        return Nullable(schema_of(arguments[0]))
    if isinstance(plain, type) and (is_dataclass(plain) or hasattr(plain, "_fields")):
        return schema_of(plain)
    raise TypeError(f"{where}: {hint!r} has no layout")


def _laid_out(hint: Any, layout: Layout) -> Record:
    kind = hint.__origin__
    return Record(kind, tuple(_field(kind, name, inner) for name, inner in layout.fields))


def _marks(hint: Any) -> tuple[Any, ...]:
    return hint.__metadata__ if get_origin(hint) is Annotated else ()


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number of fixed size."""

    name: str
    code: str
    """Of the module `struct`."""
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Text:
    """An int16 length and so many bytes of UTF-8; length -1 is null."""

    nullable: bool

    @property
    def name(self) -> str:
        return "nullable string" if self.nullable else "string"


@dataclass(frozen=True, slots=True)
class Data:
    """An int32 length and so many bytes."""

    name: str = "bytes"


@dataclass(frozen=True, slots=True)
class Truth:
    """An int8, 0 or 1. Anything else is refused, as Kafka 0.8.2.2 refuses it in StopReplica."""

    name: str = "boolean"


@dataclass(frozen=True, slots=True)
class Versions:
    """In which versions of its message a field is on the wire, both ends included.

    Where it is not, it is left out in writing, and `absent` in reading. (Not the dataclass's default: such a
    field stands among others that have none.)
    """

    first: int = 0
    last: int | None = None
    absent: Any = None

    def __contains__(self, version: int) -> bool:
        return version >= self.first and (self.last is None or version <= self.last)


@dataclass(frozen=True, slots=True)
class Layout:
    """The fields of a class that does not describe itself: (attribute, type of field) in order."""

    fields: tuple[tuple[str, Any], ...]


Int8 = Annotated[int, Integer("int8", "b", 1)]
Int16 = Annotated[int, Integer("int16", "h", 2)]
Int32 = Annotated[int, Integer("int32", "i", 4)]
Int64 = Annotated[int, Integer("int64", "q", 8)]
Uint32 = Annotated[int, Integer("uint32", "I", 4)]
String = Annotated[str, Text(nullable=False)]
NullableString = Annotated[str | None, Text(nullable=True)]
Bytes = Annotated[bytes, Data()]
Boolean = Annotated[bool, Truth()]
