"""Every version of Kafka's messages beside kafka-python's codec, which is made from Kafka's own schemas."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol import admin, consumer, metadata, producer

from tests.pure.properties.frame_values import values_of_kind
from tests.worlds.wire_requests import REQUESTS, encode_response
from zkgroup.wire.messages import Message, decode_rest, encode, encode_request
from zkgroup.wire.schema import Array, Data, Field, Fixed, Number, StructSchema, Text, Truth, schema_of

OWN_TAGS = 10_000
"""Tags from here on are zkgroup's own: kafka-python skips them."""
KAFKAS = [
    kind
    for kind in REQUESTS.values()
    if any(hasattr(module, kind.__name__) for module in (admin, consumer, metadata, producer))
]
MESSAGES: list[type[Message]] = [kind for one in KAFKAS for kind in (one, one.RESPONSE)]
each_message = pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)


def theirs_of(kind: type[Message]) -> Any:
    """Their class of the name; the records of a fetch are left as bytes."""
    modules = (admin, consumer, metadata, producer)
    return next(getattr(module, kind.__name__) for module in modules if hasattr(module, kind.__name__))


def theirs_from(theirs: Any, value: Any, record: StructSchema, version: int) -> Any:
    """Their object with our values: fields are matched by their order, tagged ones by their tags."""
    struct = theirs._struct
    untagged = [one for one in struct.untagged_fields(version) if one.for_version_q(version)]
    ours = [one for one in record.on_the_wire(version) if one.tag is None]
    assert len(untagged) == len(ours), (record.kind, version)
    given_ = {
        their.name: _their_value(their, getattr(value, our.name), our.node, version)
        for their, our in zip(untagged, ours, strict=True)
    }
    their_tags = {one.tag: one for one in struct.fields.values() if one.tag is not None}
    for our in record.on_the_wire(version):
        found = getattr(value, our.name)
        if our.tag is not None and our.tag < OWN_TAGS and found != our.versions.absent:
            their = their_tags[our.tag]
            given_[their.name] = _their_value(their, found, our.node, version)
    return theirs(version=version, **given_)


def _their_value(their: Any, value: Any, node: Any, version: int) -> Any:
    if isinstance(node, Array):
        if value is None or not isinstance(node.item, StructSchema):
            return None if value is None else list(value)
        return [theirs_from(their.data_class, one, node.item, version) for one in value]
    if their.name.endswith("authorized_operations") and isinstance(node, Number):
        return {bit for bit in range(32) if value >> bit & 1}  # of a number below zero it never ends
    if isinstance(node, Fixed):
        return uuid.UUID(bytes=value)
    if isinstance(node, StructSchema):
        return theirs_from(their.data_class, value, node, version)
    return value


def without_own_tags(value: Any, record: StructSchema) -> Any:
    """The value as kafka-python can hold it."""
    changes: dict[str, Any] = {}
    for field in record.fields:
        found, node = getattr(value, field.name), field.node
        if (field.tag or 0) >= OWN_TAGS:
            changes[field.name] = field.versions.absent
        elif isinstance(node, Array) and isinstance(item := node.item, StructSchema) and found is not None:
            changes[field.name] = tuple(without_own_tags(one, item) for one in found)
    return dataclasses.replace(value, **changes)


@each_message
@settings(max_examples=3)
@given(st.data())
def test_messages_lie_as_kafka_python_lays_them(kind: type[Message], data: st.DataObject) -> None:
    """Any version: byte for byte the same, and read back from theirs."""
    version = data.draw(st.sampled_from(kind.VERSIONS))
    schema = schema_of(kind)
    value = without_own_tags(data.draw(values_of_kind(kind, version)), schema)
    theirs = theirs_from(theirs_of(kind), value, schema, version)

    payload = bytes(theirs.encode(version=version))

    assert encode(value, version) == payload
    assert decode_rest(kind, version, payload, 0) == value


@each_message
def test_frames_are_those_of_kafka_python(kind: type[Message]) -> None:
    """The header that goes with each version, and the key of the API."""
    theirs_kind, schema = theirs_of(kind), schema_of(kind)
    request = next(one for one in KAFKAS if kind in (one, one.RESPONSE))
    value = least_of(schema)
    for version in kind.VERSIONS:
        theirs = theirs_from(theirs_kind, value, schema, version)
        theirs.with_header(correlation_id=7, **({"client_id": "c"} if kind is request else {}))
        ours = (
            encode_request(value, 7, "c", version=version)
            if kind is request
            else encode_response(value, 7, version=version)
        )
        assert ours == bytes(theirs.encode(header=True, framed=True))
    assert theirs_kind.API_KEY == request.API


def least_of(record: StructSchema) -> Any:
    """A value of defaults, zeros and empty texts."""
    kind: Any = record.kind
    return kind(**{field.name: _least(field) for field in record.fields})


def _least(field: Field) -> Any:
    if field.versions.absent is not None or field.tag is not None:
        return field.versions.absent
    match field.node:
        case Number():
            return 0
        case Text():
            return ""
        case Data():
            return b""
        case Truth():
            return False
        case _:
            return ()


def test_own_tags_are_skipped_by_kafka_python() -> None:
    """A fetch between brokers is one for every client: what zkgroup adds is a tag that is not known."""
    from zkgroup.wire.records import FetchedPartition, FetchedTopic, FetchRequest, FetchResponse

    request = FetchRequest(1, 2, 3, (), broker_epoch=77)
    partition = FetchedPartition(0, 0, 9, b"", log_end_offset=12)
    response = FetchResponse((FetchedTopic("t", (partition,)),))

    assert decode_rest(FetchRequest, 12, encode(request, 12), 0) == request
    assert theirs_of(FetchRequest).decode(encode(request, 12), version=12).replica_id == 1
    found = theirs_of(FetchResponse).decode(encode(response, 12), version=12)
    assert found.responses[0].partitions[0].high_watermark == 9
    assert decode_rest(FetchResponse, 12, encode(response, 12), 0) == response
