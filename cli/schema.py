"""JSON documents, events, JSON Schemas (draft 2020-12) and tables from one declaration: a class's type hints.

`Shape` derives object, schema, csv columns and table; the rest are the parts that schemas consist of.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from functools import cached_property
from operator import attrgetter, itemgetter
from pathlib import Path
from types import UnionType
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    Protocol,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from zkgroup.groups.as_of import AsOf
from zkgroup.model import TopicPartition
from zkgroup.model.text import hex_session, iso_time

from .render import Cell, CellValue, Output, TableColumn

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
BOOLEAN: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
SECONDS: Schema = {"type": "number", "minimum": 0}
TIME: Schema = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"}
SESSION: Schema = {"type": "string", "pattern": "^0x[0-9a-f]+$"}


def nullable(schema: Schema) -> Schema:
    """This, or null for unknown."""
    return {"anyOf": [schema, {"type": "null"}]}


def list_of(items: Schema) -> Schema:
    """A list of these."""
    return {"type": "array", "items": items}


def map_of(values: Schema) -> Schema:
    """An object whose keys are data."""
    return {"type": "object", "additionalProperties": values}


def word(*words: str) -> Schema:
    """One of these texts."""
    return {"type": "string", "enum": list(words)}


def object_of(**properties: Schema) -> Schema:
    """Every key is there, and no other."""
    return _required(properties, list(properties))


def _required(properties: dict[str, Schema], required: list[str]) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


BROKERS: Schema = list_of(INTEGER)
"""Ids of brokers."""


Json = dict[str, Any]
"""An object, as `json.dumps` takes it."""

T = TypeVar("T")
Encode = Callable[[Any], Any]
Coded = tuple[Schema, Encode]
"""The JSON Schema of a type, and the function that makes its values plain."""


class JsonKey(NamedTuple):
    """A key of an object that is no attribute of the value, or has another type than the attribute."""

    key: str
    schema: Schema
    get: Callable[[Any], Any]
    """The plain value, from the whole value."""
    is_optional: bool = False
    """The key is left out where the value is None."""


class Inline(NamedTuple):
    """The keys of another shape, from the value of an attribute, at this place of the object."""

    attribute: str
    shape: Shape[Any]


class Entries(NamedTuple):
    """A mapping as a list of objects with two keys: `key` for the mapping's key, `value` for its value."""

    name: str
    """As a name of `Shape`: `attribute` or `key=attribute`."""
    key: str
    value: str


class KeyColumn:
    """A column of a shape's table: the value of a key below the key's name, numbers on the right.

    Args:
        key: the key; any name for a column that `cell` or `at` makes, such as `note`.
        header: where that is not the key in capitals; `{}` is what the table is of.
        cell: makes the cell from the row.
        at: makes it from the row and from what the table is of, as the time now.
        styles: the style of each value.
        when: says of all rows whether the column is shown; by default it is.
        when_at: says the same of what the table is of.
        layout: of `TableColumn`: `right`, `shorten`, `least`, `rank`, `lines`; or a function of all rows.
    """

    def __init__(
        self,
        key: str,
        header: str | None = None,
        cell: Callable[[Any], CellValue] | None = None,
        *,
        at: Callable[[Any, Any], CellValue] | None = None,
        styles: Mapping[Any, str] | None = None,
        when: Callable[[Sequence[Any]], object] | None = None,
        when_at: Callable[[Any], object] | None = None,
        **layout: Any,
    ) -> None:
        self.key = key
        self._header = key.upper().replace("_", " ") if header is None else header
        self._cell, self._at, self._styles, self._layout = cell, at, styles, layout
        self._when, self._when_at = when, when_at

    def is_shown(self, rows: Sequence[Any], at: Any) -> bool:
        """Returns whether a table of these rows has the column."""
        when, when_at = self._when, self._when_at
        return (when is None or bool(when(rows))) and (when_at is None or bool(when_at(at)))

    def of(self, member: JsonKey | None, rows: Sequence[Any], at: Any) -> TableColumn[Any]:
        """The column of a table of these rows; `member` is the key of the shape, if it is one."""
        make, cell = self._at, self._cell
        if make is not None:
            cell = lambda row: make(row, at)  # noqa: E731
        elif cell is None:
            assert member is not None, f"{self.key} is no key: give the column a cell"
            get, styles = member.get, self._styles
            cell = lambda row: _shown(get(row), styles)  # noqa: E731
        layout = {name: one(rows) if callable(one) else one for name, one in self._layout.items()}
        kind = member and member.schema.get("anyOf", [member.schema])[0].get("type")
        layout.setdefault("right", kind == "integer")
        return TableColumn(self._header.format(at), cell, **layout)


def _shown(value: Any, styles: Mapping[Any, str] | None) -> CellValue:
    """A plain value as a cell."""
    if styles is not None and value is not None:
        return Cell(str(value), styles.get(value))
    if isinstance(value, list):
        return (", " if value and isinstance(value[0], str) else ",").join(map(str, value))
    return ("no", "yes")[value] if isinstance(value, bool) else value


def given(key: str, schema: Schema, attribute: str | None = None) -> JsonKey:
    """An attribute with another schema than its hint has; of the key's name unless `attribute` names it."""
    get = _getter(attribute or key)
    return JsonKey(key, schema, lambda value: _plain(get(value)))


def rows_of(key: str, shape: Shape[Any], get: Callable[[Any], Iterable[Any]]) -> JsonKey:
    """A list of objects of a shape, made from the whole value."""
    return JsonKey(key, list_of(shape.schema), lambda value: [shape.json(one) for one in get(value)])


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, frozenset)):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


class Shape(Generic[T]):
    """Values of a class as JSON objects and rows: document, schema, csv columns and table, by its type hints.

    Args:
    kind: a class with type hints: a dataclass, a NamedTuple, or one with typed properties.
    names: the attributes that are keys, in order, `key=attribute` for one of another name, a `JsonKey`, an
        `Inline` or `Entries`; by default every field of the dataclass or NamedTuple. `a.b` is `b` of the
        value of `a`, and None where that is None. A key that is named again replaces the first, at its place.
    columns: those of the table, from left to right: a `KeyColumn`, or only a key.

    A `TopicPartition` becomes two keys, `topic` and `partition`. `since_ms` becomes `since`, a time;
    `took_s`, seconds as a float, becomes `took_ms`; `session` and `session_id` become `session`, in hex.
    An int is a count (0 and up), unless the hint is `Signed`. An enumeration is its value, a nested class
    its own `Shape`.
    """

    def __init__(
        self, kind: type[T], *names: str | JsonKey | Inline | Entries, columns: Sequence[str | KeyColumn] = ()
    ) -> None:
        self._kind = kind
        self._names = names or _fields(kind)
        self._columns = [KeyColumn(one) if isinstance(one, str) else one for one in columns]
        SHAPES.setdefault(kind, self)

    @cached_property
    def members(self) -> Mapping[str, JsonKey]:
        """Key to its schema and its plain value, in order."""
        return {field.key: field for name in self._names for field in self._fields_of(name)}

    def _fields_of(self, name: str | JsonKey | Inline | Entries) -> Iterable[JsonKey]:
        if isinstance(name, JsonKey):
            return [name]
        if isinstance(name, Inline):
            get = _getter(name.attribute)
            return [one._replace(get=_composed(one.get, get)) for one in name.shape.members.values()]
        pair = name if isinstance(name, Entries) else None
        key, _, attribute = (pair.name if pair else cast("str", name)).rpartition("=")
        hint, get = _hint(self._kind, attribute), _getter_of(self._kind, attribute)
        if hint is TopicPartition:
            return [
                JsonKey(part, schema, _getter_of(self._kind, f"{attribute}.{part}"))
                for part, schema in (("topic", STRING), ("partition", COUNT))
            ]
        derived, (schema, encode) = _member(attribute, hint) if pair is None else _entries(hint, pair)
        return [JsonKey(key or derived, schema, _composed(encode, get))]

    @cached_property
    def schemas(self) -> dict[str, Schema]:
        """Key to schema."""
        return {key: member.schema for key, member in self.members.items()}

    @property
    def schema(self) -> Schema:
        return _required(
            self.schemas, [key for key, member in self.members.items() if not member.is_optional]
        )

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys in order: the columns of csv."""
        return tuple(self.members)

    def columns(self, rows: Sequence[T], at: Any = None) -> list[TableColumn[T]]:
        """The columns of a table of these rows."""
        shown = [one for one in self._columns if one.is_shown(rows, at)]
        return [one.of(self.members.get(one.key), rows, at) for one in shown]

    def table(self, out: Output, rows: Sequence[T], at: Any = None) -> None:
        """Prints one row a value; `at` is for the columns that need it."""
        out.table(self.columns(rows, at), rows)

    @cached_property
    def _getters(self) -> list[tuple[str, Callable[[Any], Any]]]:
        """Key to what gives its plain value: documents have many thousands of some objects."""
        return [(key, member.get) for key, member in self.members.items()]

    @cached_property
    def _optional(self) -> list[str]:
        """The keys that are left out where the value is None."""
        return [key for key, member in self.members.items() if member.is_optional]

    def json(self, value: T) -> Json:
        """The object, with plain values."""
        found = {key: get(value) for key, get in self._getters}
        for key in self._optional:
            if found[key] is None:
                del found[key]
        return found


SHAPES: dict[Any, Shape[Any]] = {}
"""Class to its shape, for values inside of others."""


class NamedKeys(Shape[Mapping[str, Any]]):
    """The shape of values that are given by name, each with its type hint, or with its schema."""

    def __init__(self, **hints: Any) -> None:
        self._hints = hints

    @cached_property
    def members(self) -> Mapping[str, JsonKey]:
        found = []
        for name, hint in self._hints.items():
            coded = (name, (hint, _plain)) if isinstance(hint, dict) else _member(name, hint)
            key, (schema, encode) = coded
            found.append(JsonKey(key, schema, _composed(encode, itemgetter(name))))
        return {one.key: one for one in found}

    def json(self, value: Mapping[str, Any]) -> Json:
        if value.keys() != self._hints.keys():
            raise TypeError(f"expected {', '.join(self._hints)}, found {', '.join(value)}")
        return super().json(value)


def _fields(kind: Any) -> tuple[str, ...]:
    named = getattr(kind, "_fields", None)
    return tuple(item.name for item in fields(kind)) if named is None else tuple(named)


def _composed(encode: Encode, get: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return get if encode is _same else lambda value: encode(get(value))


def _getter_of(kind: Any, attribute: str) -> Callable[[Any], Any]:
    """`_getter` for a class; where its hints say that `a` is never None, nothing checks it."""
    outer = attribute.rpartition(".")[0]
    hint = _hint(kind, outer) if outer else None
    return attrgetter(attribute) if _without_none(hint) is hint else _getter(attribute)


def _getter(attribute: str) -> Callable[[Any], Any]:
    """Gives an attribute, or `b` of `a` for `a.b`: None where `a` is None."""
    first, _, rest = attribute.partition(".")
    get = attrgetter(first)
    if not rest:
        return get
    inner = _getter(rest)

    def get_inner(value: Any) -> Any:
        found = get(value)
        return None if found is None else inner(found)

    return get_inner


def _hint(kind: Any, attribute: str) -> Any:
    """The type of a field or property; of `a.b`, that of `b` of the class of `a`."""
    first, _, rest = attribute.partition(".")
    found, generic = getattr(kind, first, None), get_origin(kind)
    if isinstance(found, property):
        hint = get_type_hints(found.fget, include_extras=True)["return"]
    else:
        hint = get_type_hints(generic or kind, include_extras=True)[first]
    if generic is not None:
        hint = _filled(hint, dict(zip(generic.__parameters__, get_args(kind), strict=True)))
    if not rest:
        return hint
    certain = _without_none(hint)
    inner = _hint(certain, rest)
    return inner if certain is hint else inner | None


def _filled(hint: Any, types: Mapping[Any, Any]) -> Any:
    """A type of a generic class with the types that are given for its variables."""
    if hint in types:
        return types[hint]
    variables = getattr(hint, "__parameters__", ())
    return hint[tuple(types[one] for one in variables)] if variables else hint


def _without_none(hint: Any) -> Any:
    """`X` of `X | None`; the hint itself where it is no such union."""
    args = get_args(hint)
    if get_origin(hint) in (Union, UnionType) and len(args) == 2 and type(None) in args:
        return next(one for one in args if one is not type(None))
    return hint


def _member(attribute: str, hint: Any) -> tuple[str, Coded]:
    """The key of an attribute and its coding, by its name where that says more than its type."""
    name = attribute.rpartition(".")[2]
    if name.endswith("_ms") and not name.startswith(_DURATIONS):
        return name.removesuffix("_ms"), _optional(hint, (TIME, iso_time))
    if name.endswith("_s") and hint in _SECONDS:
        return f"{name.removesuffix('_s')}_ms", _SECONDS[hint]
    if name in ("session", "session_id"):
        return "session", _optional(hint, (SESSION, hex_session))
    return name, coding(hint)


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


_SECONDS: dict[Any, Coded] = {
    float: (COUNT, _milliseconds),
    tuple[float, ...]: (list_of(COUNT), lambda values: list(map(_milliseconds, values))),
}


def _entries(hint: Any, entries: Entries) -> tuple[str, Coded]:
    (key_schema, key_encode), (schema, encode) = map(coding, get_args(hint))
    rows = list_of(object_of(**{entries.key: key_schema, entries.value: schema}))

    def encode_all(value: Mapping[Any, Any]) -> list[Json]:
        return [{entries.key: key_encode(key), entries.value: encode(one)} for key, one in value.items()]

    return entries.name.rpartition("=")[2].rpartition(".")[2], (rows, encode_all)


_DURATIONS = ("load_", "session_timeout_", "metadata_age_", "timeout_", "silence_")
"""Beginnings of the names of durations: they stay milliseconds."""


def _optional(hint: Any, coded: Coded) -> Coded:
    if type(None) not in get_args(hint):
        return coded
    schema, encode = coded
    if encode is _same:
        return nullable(schema), _same
    return nullable(schema), lambda value: None if value is None else encode(value)


def coding(hint: Any) -> Coded:
    """Returns the JSON form of a type hint. Raises TypeError for one that has no meaning there."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, args = get_origin(hint), get_args(hint)
    if hint is Signed:
        return INTEGER, _same
    if origin is Annotated:
        return coding(args[0])
    if origin is Literal:
        return word(*args), _same
    if (certain := _without_none(hint)) is not hint:
        return _optional(hint, coding(certain))
    if origin in _LISTS:
        schema, encode = coding(args[0])
        return list_of(schema), lambda value: [encode(one) for one in value]
    if origin in _MAPS:
        schema, encode = coding(args[1])
        return map_of(schema), lambda value: {key: encode(one) for key, one in value.items()}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return word(*(one.value for one in hint)), attrgetter("value")
    if hint is TopicPartition:
        return _PLACE, lambda tp: {"topic": tp.topic, "partition": tp.partition}
    if hint in SHAPES:
        return SHAPES[hint].schema, SHAPES[hint].json
    raise TypeError(f"{hint!r} has no form in JSON: expected a plain type or a class with a Shape")


def _same(value: Any) -> Any:
    return value


Signed = Annotated[int, "signed"]
"""An int that may be negative, as Kafka's -1 for no leader."""

_PLAIN: dict[Any, Coded] = {
    str: (STRING, _same),
    int: (COUNT, _same),
    bool: (BOOLEAN, _same),
    Path: (STRING, str),
}
_LISTS = (list, tuple, frozenset, Sequence, Collection, Iterable)
_MAPS = (dict, Mapping)
_PLACE = object_of(topic=STRING, partition=COUNT)


class SnapshotMoment(Protocol):
    """The transaction that a snapshot is of, and its time."""

    @property
    def zxid(self) -> int | None: ...

    @property
    def time_ms(self) -> int | None: ...


AS_OF = Shape(AsOf)


class Document(Generic[T]):
    """A whole document: `schema` and `as_of`, then the keys of a shape.

    Args:
        name: as in `zkgroup.<name>/1`.
        shape: of its value; `NamedKeys` where the values are given by name.
        as_of: the shape of the moment, where it is not always known; None for a document without one.
        rows: the key of the list whose items are the lines of csv and ndjson; without it there is one line.
        columns: those of csv, where they are not the keys of an item.
    """

    def __init__(
        self,
        name: str,
        shape: Shape[T],
        as_of: Shape[Any] | None = AS_OF,
        *,
        rows: str | None = None,
        columns: Sequence[str] = (),
    ) -> None:
        self.name = f"zkgroup.{name}/1"
        self.shape = shape
        self._as_of = as_of
        self._rows, self._columns = rows, columns

    @property
    def schema(self) -> Schema:
        moment = {} if self._as_of is None else {"as_of": self._as_of.schema}
        return object_of(schema={"const": self.name}, **moment, **self.shape.schemas)

    def json(self, as_of: SnapshotMoment | None, value: T | None = None, /, **values: Any) -> Json:
        """The document of a value, or of values by name. `as_of` is None where it has no moment."""
        moment = {} if self._as_of is None else {"as_of": self._as_of.json(as_of)}
        return {
            "schema": self.name,
            **moment,
            **self.shape.json(cast("T", values) if value is None else value),
        }

    def print(
        self, out: Output, as_of: SnapshotMoment | None, value: T | None = None, /, **values: Any
    ) -> bool:
        """Prints it unless the format is `table`; returns whether it did."""
        if out.is_table:
            return False
        columns = self._columns
        if self._rows and not columns:
            columns = tuple(self.shape.schemas[self._rows]["items"].get("properties", ()))
        return out.document(self.json(as_of, value, **values), self._rows, columns)


class JsonEvent(Generic[T]):
    """An event on stdout: `event` and `time`, then the keys of a shape."""

    def __init__(self, name: str, shape: Shape[T], *, is_timed: bool = True) -> None:
        self.name = name
        self._shape = shape
        self._is_timed = is_timed

    @property
    def schema(self) -> Schema:
        whole = self._shape.schema
        first: dict[str, Schema] = {
            "event": {"const": self.name},
            **({"time": TIME} if self._is_timed else {}),
        }
        return _required({**first, **whole["properties"]}, [*first, *whole["required"]])

    def json(self, value: T, time: str | None = None) -> Json:
        """`time` is the text of the moment, for an event that has one."""
        return {"event": self.name, **({"time": time} if self._is_timed else {}), **self._shape.json(value)}


def text_of(data: bytes | None) -> str | None:
    """Bytes as text; None for None and where they are not UTF-8."""
    try:
        return None if data is None else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def base64_of(data: bytes | None) -> str | None:
    """Bytes that are not UTF-8 as base64; None for all others, which `text_of` gives."""
    return None if data is None or text_of(data) is not None else base64.b64encode(data).decode("ascii")
