"""Readers of records whose fields are read one after the other in one function, written out as source.

`dataclasses` writes `__init__` so. A request has some twenty fields: with a function for each of them, the
calls take more time than the reading. The reader of a request with a text, a number and an array of records:

    def read(buffer, at, values):
        start, size = at, len(buffer)
        try:
            n0, = unpack0(buffer, at)
            at += 2
            if n0 < 0: return slow(buffer, start, values)
            end = at + n0
            if end > size: return slow(buffer, start, values)
            a0 = buffer[at:end].decode()
            at = end
            a1, n2, = unpack1(buffer, at)
            at += 8
            if n2 < 0 or n2 * 6 > size - at: return slow(buffer, start, values)
            found = []
            for _ in range(n2): at = read2(buffer, at, found)
            a2 = tuple(found)
        except (StructError, IndexError, UnicodeDecodeError):
            return slow(buffer, start, values)
        ...

Whatever it does not expect it leaves to the slow reader, which has a function for each field: that one reads
the record again, or names the field at fault.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from zkgroup.wire.primitives import ARRAY_COUNT, ONE_BYTE, TEXT_LENGTH, Codec, Read
from zkgroup.wire.schema import Array, Field, Number, StructSchema, Text, Truth

_SLOW = "return slow(buffer, start, values)"


def record_reader(
    node: StructSchema,
    version: int,
    codecs: Mapping[str, Codec],
    *,
    is_flexible: bool,
    read_tagged: Read | None,
    slow: Read,
) -> Read | None:
    """The reader of a record in one version; None for a class whose values are made by calling it.

    Args:
        codecs: of the fields that the version has, by name.
        read_tagged: reads the tagged fields at the end; None in a version that is not flexible.
        slow: reads the same records, and names what is wrong with one.
    """
    kind: Any = node.kind
    is_tuple = hasattr(kind, "_make")
    if not is_tuple and ("__slots__" not in vars(kind) or hasattr(kind, "__post_init__")):
        return None
    source = _Source(slow, is_flexible=is_flexible)
    tagged = [index for index, field in enumerate(node.fields) if field.tag is not None]
    for index, field in enumerate(node.fields):
        if field.tag is None and version in field.versions:
            source.read(index, field, version, codecs[field.name])
        else:
            source.space[f"a{index}"] = field.versions.absent
    source.unpack()
    if read_tagged is not None:
        source.read_tagged(tagged, [node.fields[index].versions.absent for index in tagged], read_tagged)
    return source.made(kind, [field.name for field in node.fields], is_tuple=is_tuple)


class _Source:
    """The source of one reader. Numbers and lengths that lie side by side are unpacked in one go."""

    def __init__(self, slow: Read, *, is_flexible: bool) -> None:
        self._is_flexible = is_flexible
        self._lines: list[str] = []
        self._codes = ""
        """Of the numbers that are not unpacked yet, for `struct`."""
        self._numbers = ""
        """Their names."""
        self._local: list[str] = []
        """Names of the values of fields."""
        self.space: dict[str, Any] = {
            "slow": slow,
            "new": object.__new__,
            "new_tuple": tuple.__new__,
            "StructError": struct.error,
        }

    def read(self, index: int, field: Field, version: int, codec: Codec) -> None:
        """Adds a field."""
        node, name = field.node_in(version), f"a{index}"
        match node:
            case Number():
                self._add_number(node.code, name)
            case Truth():
                self._add_number("B", name)
                self.unpack()
                self._lines += [f"if {name} > 1: {_SLOW}", f"{name} = {name} == 1"]
            case Text():
                self._read_text(index, node)
            case Array(StructSchema()):
                assert codec.item is not None
                self._read_array(index, node, codec.item)
            case _:
                self.unpack()
                self.space[f"read{index}"] = codec.read
                self._lines += ["found = []", f"at = read{index}(buffer, at, found)", f"{name}, = found"]

    def read_tagged(self, tagged: Sequence[int], absent: Sequence[Any], read: Read) -> None:
        """Adds the tagged fields, which are rarely there."""
        self.space["read_tagged"], self.space["absent"] = read, tuple(absent)
        names = "".join(f"a{index}, " for index in tagged)
        self._lines += [
            "if buffer[at] == 0:",
            "    at += 1",
            *([f"    {names}= absent"] if tagged else []),
            "else:",
            "    found = []",
            "    at = read_tagged(buffer, at, found)",
            *([f"    {names}= found"] if tagged else []),
        ]

    def unpack(self) -> None:
        """Adds the numbers that wait."""
        if self._codes:
            layout = struct.Struct(">" + self._codes)
            name = f"unpack{len(self._lines)}"
            self.space[name] = layout.unpack_from
            self._lines += [f"{self._numbers}= {name}(buffer, at)", f"at += {layout.size}"]
            self._codes = self._numbers = ""

    def _add_number(self, code: str, name: str) -> None:
        self._codes += code
        self._numbers += f"{name}, "

    def _read_length(self, index: int, layout: struct.Struct, *, is_compact: bool) -> None:
        """A length or count `n`, -1 for null; a compact one of one byte."""
        if not is_compact:
            self._add_number(str(layout.format)[1:], f"n{index}")
            self.unpack()
            return
        self.unpack()
        self._lines += [f"n{index} = buffer[at] - 1", f"if n{index} >= {ONE_BYTE - 1}: {_SLOW}", "at += 1"]

    def _read_text(self, index: int, node: Text) -> None:
        self._read_length(index, TEXT_LENGTH, is_compact=self._is_flexible and node.compact)
        self._unless_null(
            index,
            [
                f"end = at + n{index}",
                f"if end > size: {_SLOW}",
                f"a{index} = buffer[at:end].decode()",
                "at = end",
            ],
            is_nullable=node.nullable,
        )

    def _read_array(self, index: int, node: Array, item: Codec) -> None:
        self.space[f"read{index}"] = item.read
        self._read_length(index, ARRAY_COUNT, is_compact=self._is_flexible)
        self._unless_null(
            index,
            [
                f"if n{index} * {item.smallest} > size - at: {_SLOW}",
                "found = []",
                f"for _ in range(n{index}): at = read{index}(buffer, at, found)",
                f"a{index} = tuple(found)",
            ],
            is_nullable=node.nullable,
        )

    def _unless_null(self, index: int, lines: list[str], *, is_nullable: bool) -> None:
        if is_nullable:
            self._lines += [f"if n{index} == -1: a{index} = None", f"elif n{index} < 0: {_SLOW}", "else:"]
            self._lines += [f"    {line}" for line in lines]
        else:
            self._lines += [f"if n{index} < 0: {_SLOW}", *lines]

    def made(self, kind: Any, names: Sequence[str], *, is_tuple: bool) -> Read:
        """The reader. The slots of a frozen dataclass are set by their descriptors."""
        values = [f"a{index}" for index in range(len(names))]
        if is_tuple:
            make = [f"values.append(new_tuple(kind, ({''.join(f'{value}, ' for value in values)})))"]
        else:
            self.space |= {f"set{index}": getattr(kind, name).__set__ for index, name in enumerate(names)}
            make = ["self = new(kind)"]
            make += [f"set{index}(self, {value})" for index, value in enumerate(values)]
            make += ["values.append(self)"]
        self.space["kind"] = kind
        lines = [
            "def read(buffer, at, values):",
            "    start, size = at, len(buffer)",
            "    try:",
            *[f"        {line}" for line in self._lines or ["pass"]],
            "    except (StructError, IndexError, UnicodeDecodeError):",
            f"        {_SLOW}",
            *[f"    {line}" for line in make],
            "    return at",
        ]
        exec("\n".join(lines), self.space)  # noqa: S102 - of nothing but numbers counted here
        read: Read = self.space["read"]
        return read
