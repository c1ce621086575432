"""Documents, JSON Schemas and csv columns that are derived from the type hints of a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

import pytest
from zkgroup_cli.schema import Document, Field, Shape, Signed, given, nullable

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
        Field("twice", {"type": "integer"}, lambda value: 2 * value.load_ms),
    )

    assert shape.json(VALUE) == {"number": 1, "leader": -1, "twice": 14}
    assert shape.keys == ("number", "leader", "twice")
    assert shape.schemas["leader"] == nullable({"type": "integer"})


def test_a_type_without_a_form_in_json_is_an_error() -> None:
    """Not a document that nobody described."""

    @dataclass(frozen=True)
    class Odd:
        data: bytes | float | None

    with pytest.raises((TypeError, NameError)):
        _ = Shape(Odd).schema
