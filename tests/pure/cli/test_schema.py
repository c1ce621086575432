"""Documents, JSON Schemas and csv columns that are derived from the type hints of a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple

import pytest
from zkgroup_cli.schema import (
    Document,
    Entries,
    Inline,
    JsonEvent,
    JsonKey,
    Shape,
    Signed,
    coding,
    given,
    nullable,
)

from zkgroup.groups.ensemble import AsOf
from zkgroup.model import TopicPartition


class _State(Enum):
    ON = "on"
    OFF = "off"


@dataclass(frozen=True)
class _Inner:
    topic_partition: TopicPartition
    since_ms: int | None
    session_id: int


@dataclass(frozen=True)
class _Outer:
    state: _State
    kind: Literal["a", "b"]
    leader: Signed
    offsets: Mapping[str, int]
    rows: Sequence[_Inner]
    load_ms: int

    @property
    def count(self) -> int:
        return len(self.rows)


INNER = Shape(_Inner)
VALUE = _Outer(_State.ON, "b", -1, {"x": 1}, (_Inner(TopicPartition("orders", 3), 0, 0x1A),), 7)


def test_a_document_follows_the_type_hints() -> None:
    """Partitions become two keys, epoch milliseconds a time, sessions hex; durations stay as they are."""
    made = Document("thing", Shape(_Outer)).json(AsOf(zxid=5, time_ms=0), VALUE)

    assert made == {
        "schema": "zkgroup.thing/1",
        "as_of": {"zxid": 5, "time": "1970-01-01T00:00:00.000Z"},
        "state": "on",
        "kind": "b",
        "leader": -1,
        "offsets": {"x": 1},
        "rows": [{"topic": "orders", "partition": 3, "since": "1970-01-01T00:00:00.000Z", "session": "0x1a"}],
        "load_ms": 7,
    }


def test_the_schema_has_the_same_keys_and_the_types_of_the_hints() -> None:
    """Every key is required, and no other is allowed."""
    schema = Shape(_Outer).schema
    row = schema["properties"]["rows"]["items"]["properties"]

    assert schema["required"] == list(Shape(_Outer).keys)
    assert schema["properties"]["state"] == {"type": "string", "enum": ["on", "off"]}
    assert schema["properties"]["leader"] == {"type": "integer"}
    assert schema["properties"]["load_ms"] == {"type": "integer", "minimum": 0}
    assert list(row) == ["topic", "partition", "since", "session"]
    assert row["since"]["anyOf"][1] == {"type": "null"}


def test_keys_can_be_chosen_renamed_and_computed() -> None:
    """Properties too; `given` has another schema than the hint."""
    shape = Shape(
        _Outer,
        *("number=count", given("leader", nullable({"type": "integer"}))),
        JsonKey("twice", {"type": "integer"}, lambda value: 2 * value.load_ms),
    )

    assert shape.json(VALUE) == {"number": 1, "leader": -1, "twice": 14}
    assert shape.keys == ("number", "leader", "twice")
    assert shape.schemas["leader"] == nullable({"type": "integer"})


@dataclass(frozen=True)
class _Whole:
    outer: _Outer | None
    waiting: Mapping[str, int]
    took_s: float
    pauses_s: tuple[float, ...]
    note: str | None


WHOLE = Shape(
    _Whole,
    Inline("outer", Shape(_Outer, "kind", "load_ms")),
    Entries("blocked=waiting", "topic", "partitions"),
    *("took_s", "pauses_s"),
    JsonKey("note", {"type": "string"}, lambda value: value.note, is_optional=True),
)


def test_keys_of_another_shape_stand_among_the_others() -> None:
    """A mapping can be a list of rows, and seconds become milliseconds."""
    value = _Whole(VALUE, {"orders": 3, "clicks": 4}, 1.2345, (0.25, 2.0), "slow")

    assert WHOLE.json(value) == {
        "kind": "b",
        "load_ms": 7,
        "blocked": [{"topic": "orders", "partitions": 3}, {"topic": "clicks", "partitions": 4}],
        "took_ms": 1234,
        "pauses_ms": [250, 2000],
        "note": "slow",
    }
    assert WHOLE.keys == tuple(WHOLE.json(value))


def test_an_optional_key_is_left_out_where_it_is_none() -> None:
    """The schema knows it and does not require it."""
    value = _Whole(VALUE, {}, 0.0, (), None)

    assert "note" not in WHOLE.json(value)
    assert "note" in WHOLE.schema["properties"]
    assert "note" not in WHOLE.schema["required"]


def test_an_attribute_of_none_is_none() -> None:
    """`a.b` is nullable where `a` is, in the schema as in the value."""
    shape = Shape(_Whole, "outer.load_ms", "words=outer.offsets")

    assert shape.json(_Whole(None, {}, 0.0, (), None)) == {"load_ms": None, "words": None}
    assert shape.schemas["load_ms"] == nullable({"type": "integer", "minimum": 0})


def test_a_key_that_is_named_again_replaces_the_first() -> None:
    """At its place: a document can take the keys of another and fill one of them differently."""
    shape = Shape(_Outer, "kind", "count", JsonKey("kind", {"const": "c"}, lambda _: "c"))

    assert shape.json(VALUE) == {"kind": "c", "count": 1}
    assert shape.schemas["kind"] == {"const": "c"}


def test_a_document_can_have_another_moment_or_none() -> None:
    """An undo list is of no transaction, and each ensemble of `audit run` has its own."""

    class TimeAlone(NamedTuple):
        zxid: int | None
        time_ms: int

    alone = Document("thing", Shape(_Outer, "count"), Shape(AsOf, given("zxid", nullable({}))))
    without = Document("thing", Shape(_Outer, "count"), as_of=None)

    assert alone.json(TimeAlone(None, 0), VALUE)["as_of"] == {"zxid": None}
    assert alone.schema["properties"]["as_of"]["required"] == ["zxid"]
    assert list(without.json(None, VALUE)) == list(without.schema["properties"]) == ["schema", "count"]


def test_an_event_has_its_name_and_its_time_first() -> None:
    """An event without a time has only its name."""
    shape = Shape(_Outer, "count")
    timed, untimed = JsonEvent("begun", shape), JsonEvent("ready", shape, is_timed=False)

    assert timed.json(VALUE, "now") == {"event": "begun", "time": "now", "count": 1}
    assert timed.schema["required"] == ["event", "time", "count"]
    assert untimed.json(VALUE) == {"event": "ready", "count": 1}
    assert list(untimed.schema["properties"]) == ["event", "count"]


def test_a_type_without_a_form_in_json_is_an_error() -> None:
    """Also a class without a shape: its keys would depend on which modules are imported."""

    @dataclass(frozen=True)
    class Undeclared:
        count: int

    for hint in (bytes, float, bytes | None, Undeclared, tuple[Undeclared, ...]):
        with pytest.raises(TypeError, match="has no form in JSON"):
            coding(hint)
