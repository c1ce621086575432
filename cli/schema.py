"""JSON documents and their JSON Schema (draft 2020-12) from one declaration: the type hints of a class.

`Shape` derives document, schema and csv columns; the rest are the parts that schemas consist of.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from functools import cached_property
from operator import attrgetter
from types import UnionType
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from zkgroup.groups.ensemble import AsOf
from zkgroup.groups.verify import hex_session
from zkgroup.model import TopicPartition
from zkgroup.model.requests import STAT_NAMES

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
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def document(name: str, **properties: Schema) -> Schema:
    """A whole document: schema and moment, then its own keys."""
    moment = object_of(zxid=COUNT, time=TIME)
    return object_of(schema={"const": f"zkgroup.{name}/1"}, as_of=moment, **properties)


BROKERS: Schema = list_of(INTEGER)
"""Ids of brokers."""

LOG_END = {"log_end_offset": nullable(COUNT), "high_watermark": nullable(COUNT), "reason": nullable(STRING)}
"""How far a replica is, or why that is not known."""

STAT = object_of(**dict.fromkeys(STAT_NAMES, INTEGER))
"""A Stat, with ZooKeeper's own names."""

ZNODE: dict[str, Schema] = {
    "path": STRING,
    "data": nullable(STRING),
    "data_base64": nullable(STRING),
    "stat": STAT,
}
"""A znode: `data` where it is text, else `data_base64`; both null where the server stores null."""

LEADERLESS: dict[str, Schema] = {
    "converged": nullable(BOOLEAN),
    "leaderless": nullable(list_of(object_of(partition=COUNT, detail=STRING))),
}
"""How a wait for leaders ended; both null where nobody waited."""


Json = dict[str, Any]
"""An object, as `json.dumps` takes it."""

T = TypeVar("T")
Encode = Callable[[Any], Any]
Coded = tuple[Schema, Encode]
"""What a type is in JSON Schema, and what makes its value plain."""


class Field(NamedTuple):
    """A key of an object that is no attribute of the value, or has another type than the attribute."""

    key: str
    schema: Schema
    get: Callable[[Any], Any]


def given(key: str, schema: Schema, attribute: str | None = None) -> Field:
    """An attribute with another schema than its hint has; of the key's name unless `attribute` names it."""
    get = attrgetter(attribute or key)
    return Field(key, schema, lambda value: _plain(get(value)))


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, frozenset)):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


class _Member(NamedTuple):
    """One key of an object: its schema, and its plain value from the whole value."""

    key: str
    schema: Schema
    get: Callable[[Any], Any]


class Shape(Generic[T]):
    """How values of a class become JSON objects: document, schema and csv columns, from its type hints.

    Args:
    kind: a class with type hints: a dataclass, a NamedTuple, or one with typed properties.
    names: the attributes that are keys, in order, `key=attribute` for one of another name, or a `Field`;
        by default every field of the dataclass.

    A `TopicPartition` becomes two keys, `topic` and `partition`. `since_ms` becomes `since`, a time;
    `session` and `session_id` become `session`, in hex. An int is a count (0 and up), unless the hint is
    `Signed`. An enumeration is its value, a nested class its own `Shape`.
    """

    def __init__(self, kind: type[T], *names: str | Field) -> None:
        self._kind = kind
        self._names = names or tuple(item.name for item in fields(cast("Any", kind)))
        SHAPES.setdefault(kind, self)

    @cached_property
    def _members(self) -> tuple[_Member, ...]:
        found: list[_Member] = []
        for name in self._names:
            if isinstance(name, Field):
                found.append(_Member(*name))
                continue
            key, _, attribute = name.rpartition("=")
            hint = _hint(self._kind, attribute)
            if hint is TopicPartition:
                found += [
                    _Member(part, schema, attrgetter(f"{attribute}.{part}"))
                    for part, schema in (("topic", STRING), ("partition", COUNT))
                ]
                continue
            derived, (schema, encode) = _member(attribute, hint)
            found.append(_Member(key or derived, schema, _composed(encode, attrgetter(attribute))))
        return tuple(found)

    @cached_property
    def schemas(self) -> dict[str, Schema]:
        """Key to schema."""
        return {member.key: member.schema for member in self._members}

    @property
    def schema(self) -> Schema:
        return object_of(**self.schemas)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys in order: the columns of csv."""
        return tuple(member.key for member in self._members)

    def json(self, value: T) -> Json:
        """The object, with plain values."""
        return {member.key: member.get(value) for member in self._members}


SHAPES: dict[Any, Shape[Any]] = {}
"""Class to its shape, for values inside of others."""


def _composed(encode: Encode, get: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: encode(get(value))


def _hint(kind: Any, attribute: str) -> Any:
    """The type of a field or property; of `a.b`, that of `b` of the class of `a`."""
    first, _, rest = attribute.partition(".")
    found = getattr(kind, first, None)
    if isinstance(found, property):
        hint = get_type_hints(found.fget, include_extras=True)["return"]
    else:
        hint = get_type_hints(kind, include_extras=True)[first]
    return _hint(hint, rest) if rest else hint


def _member(attribute: str, hint: Any) -> tuple[str, Coded]:
    """The key of an attribute and its coding, by its name where that says more than its type."""
    name = attribute.rpartition(".")[2]
    if name.endswith("_ms") and not name.startswith(_DURATIONS):
        return name.removesuffix("_ms"), _optional(hint, (TIME, iso_time))
    if name in ("session", "session_id"):
        return "session", _optional(hint, (SESSION, hex_session))
    return name, coding(hint)


_DURATIONS = ("load_", "session_timeout_", "metadata_age_")
"""Beginnings of the names of durations: they stay milliseconds."""


def _optional(hint: Any, coded: Coded) -> Coded:
    if type(None) not in get_args(hint):
        return coded
    schema, encode = coded
    return nullable(schema), lambda value: None if value is None else encode(value)


def coding(hint: Any) -> Coded:
    """What a type hint is in JSON. Raises TypeError for one that has no meaning there."""
    if hint in _PLAIN:
        return _PLAIN[hint], _same
    origin, args = get_origin(hint), get_args(hint)
    if hint is Signed:
        return INTEGER, _same
    if origin is Literal:
        return word(*args), _same
    if origin in (Union, UnionType) and len(args) == 2 and type(None) in args:
        return _optional(hint, coding(next(one for one in args if one is not type(None))))
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
    if isinstance(hint, type):
        shape = SHAPES.get(hint) or Shape(hint)
        return shape.schema, shape.json
    raise TypeError(f"{hint!r} has no form in JSON")


def _same(value: Any) -> Any:
    return value


Signed = Annotated[int, "signed"]
"""An int that may be negative, as Kafka's -1 for no leader."""

_PLAIN: dict[Any, Schema] = {str: STRING, int: COUNT, bool: BOOLEAN}
_LISTS = (list, tuple, frozenset, Sequence, Collection, Iterable)
_MAPS = (dict, Mapping)
_PLACE = object_of(topic=STRING, partition=COUNT)


class Document(Generic[T]):
    """A whole document: `schema` and `as_of`, then the keys of a shape."""

    def __init__(self, name: str, shape: Shape[T]) -> None:
        self.name = name
        self.shape = shape

    @property
    def schema(self) -> Schema:
        return document(self.name, **self.shape.schemas)

    def json(self, as_of: AsOf, value: T) -> Json:
        return {
            "schema": f"zkgroup.{self.name}/1",
            "as_of": {"zxid": as_of.zxid, "time": iso_time(as_of.time_ms)},
            **self.shape.json(value),
        }
