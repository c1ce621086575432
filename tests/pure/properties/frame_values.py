"""Strategies for any value of any message of the wire protocol, in any of its versions."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from zkgroup.wire.schema import (
    Array,
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


def values_of_kind(kind: type, version: int) -> st.SearchStrategy[Any]:
    """Any value that a version of a message can hold; a field that it lacks has its decoded default."""
    return values_of(schema_of(kind), version)


def values_of(node: Node, version: int) -> st.SearchStrategy[Any]:
    """Any value of a node of a schema."""
    match node:
        case Number(code="d"):
            return st.floats(allow_nan=False)
        case Number():
            low = 0 if node.code.isupper() else -(2 ** (8 * node.size - 1))
            return st.integers(low, low + 2 ** (8 * node.size) - 1)
        case Text():
            return _may_be_none(st.text(max_size=8), nullable=node.nullable)
        case Data():
            return _may_be_none(st.binary(max_size=12), nullable=node.nullable)
        case Fixed():
            return st.binary(min_size=node.size, max_size=node.size)
        case Truth():
            return st.booleans()
        case Array(item, nullable):
            size = 2 if isinstance(item, StructSchema) else 4
            several = st.lists(values_of(item, version), max_size=size).map(tuple)
            return _may_be_none(several, nullable=nullable)
        case Nullable(record):
            return st.none() | values_of(record, version)
        case StructSchema():
            kind: Any = node.kind
            return st.builds(kind, **{field.name: _field(field, version) for field in node.fields})


def _field(field: Field, version: int) -> st.SearchStrategy[Any]:
    if version not in field.versions:
        return st.just(field.versions.absent)
    return values_of(field.node_in(version), version)


def _may_be_none(values: st.SearchStrategy[Any], *, nullable: bool) -> st.SearchStrategy[Any]:
    return values | st.none() if nullable else values
