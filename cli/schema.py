"""JSON documents, events and their JSON Schema (draft 2020-12) from one declaration: type hints of a class.

`Shape` derives object, schema and csv columns; the rest are the parts that schemas consist of.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from functools import cached_property
from operator import attrgetter
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
from zkgroup.model.requests import hex_session

from .units import iso_time

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
BOOLEAN: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
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
"""What a type is in JSON Schema, and what makes its value plain."""


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


def given(key: str, schema: Schema, attribute: str | None = None) -> JsonKey:
    """An attribute with another schema than its hint has; of the key's name unless `attribute` names it."""
    get = _getter(attribute or key)
    return JsonKey(key, schema, lambda value: _plain(get(value)))


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, frozenset)):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


class Shape(Generic[T]):
    """How values of a class become JSON objects: document, schema and csv columns, from its type hints.

    Args:
    kind: a class with type hints: a dataclass, a NamedTuple, or one with typed properties.
    names: the attributes that are keys, in order, `key=attribute` for one of another name, a `JsonKey`, an
        `Inline` or `Entries`; by default every field of the dataclass or NamedTuple. `a.b` is `b` of the
        value of `a`, and None where that is None. A key that is named again replaces the first, at its place.

    A `TopicPartition` becomes two keys, `topic` and `partition`. `since_ms` becomes `since`, a time;
    `took_s`, seconds as a float, becomes `took_ms`; `session` and `session_id` become `session`, in hex.
    An int is a count (0 and up), unless the hint is `Signed`. An enumeration is its value, a nested class
    its own `Shape`.
    """

    def __init__(self, kind: type[T], *names: str | JsonKey | Inline | Entries) -> None:
        self._kind = kind
        self._names = names or _fields(kind)
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
    found = getattr(kind, first, None)
    if isinstance(found, property):
        hint = get_type_hints(found.fget, include_extras=True)["return"]
    else:
        hint = get_type_hints(kind, include_extras=True)[first]
    if not rest:
        return hint
    certain = _without_none(hint)
    inner = _hint(certain, rest)
    return inner if certain is hint else inner | None


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
    """What a type hint is in JSON. Raises TypeError for one that has no meaning there."""
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

    `as_of` is the shape of the moment, where it is not always known; None for a document without one.
    """

    def __init__(self, name: str, shape: Shape[T], as_of: Shape[Any] | None = AS_OF) -> None:
        self.name = f"zkgroup.{name}/1"
        self.shape = shape
        self._as_of = as_of

    @property
    def schema(self) -> Schema:
        moment = {} if self._as_of is None else {"as_of": self._as_of.schema}
        return object_of(schema={"const": self.name}, **moment, **self.shape.schemas)

    def json(self, as_of: SnapshotMoment | None, value: T) -> Json:
        """`as_of` is None where the document has no moment."""
        moment = {} if self._as_of is None else {"as_of": self._as_of.json(as_of)}
        return {"schema": self.name, **moment, **self.shape.json(value)}


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
