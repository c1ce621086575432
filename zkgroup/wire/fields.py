"""The types of a message's fields: what Python sees, and how it lies in the bytes.

Each is a Python type with its layout attached (`typing.Annotated`). Beside these a field may be a tuple of
them (`tuple[Int32, ...]`, an array: int32 count and the items), another dataclass (its fields one after the
other), a tuple of such, or `SomeDataclass | None` (an int8, 1 or -1, before it).
Numbers are big-endian. Names are those of Kafka's protocol guide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any


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
