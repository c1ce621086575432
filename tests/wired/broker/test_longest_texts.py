"""Every API answers the longest texts that a client can send."""

from __future__ import annotations

from typing import Any

from tests.worlds.running_brokers import ask
from zkgroup.testing import KafkaCluster
from zkgroup.wire.messages import Request
from zkgroup.wire.metadata import ApiVersionsRequest, ApiVersionsResponse
from zkgroup.wire.primitives import TEXT_BYTES_MAX
from zkgroup.wire.schema import Array, Data, Fixed, Nullable, Number, StructSchema, Text, Truth, schema_of

LONGEST = "n" * TEXT_BYTES_MAX


def filled(node: Any) -> Any:
    """A value of a node of a schema: each text is the longest one, each array has one item."""
    match node:
        case Text():
            return LONGEST
        case Number():
            return 1
        case Truth():
            return False
        case Fixed(size=size):
            return bytes(size)
        case Data():
            return b""
        case Array(item=item):
            return (filled(item),)
        case Nullable(record=record):
            return filled(record)
        case StructSchema(kind=kind, fields=fields):
            return kind(**{field.name: filled(field.node) for field in fields})
    raise TypeError(node)


def test_an_answer_that_cannot_name_what_was_sent_is_an_error(kafka_cluster: KafkaCluster) -> None:
    """Its message is cut. Past bug: the connection was closed, as the answer could not be encoded."""
    (broker, *_) = kafka_cluster.brokers
    port = int(kafka_cluster.address(broker).rpartition(":")[2])
    served = ask(port, ApiVersionsRequest("test", "1"), ApiVersionsResponse, version=3).apis
    kinds = {kind.API.value: kind for kind in Request.__subclasses__()}

    closed = []
    for api in served:
        kind = kinds[api.api_key]
        try:
            ask(port, filled(schema_of(kind)), kind.RESPONSE, version=api.last)
        except AssertionError:
            closed.append(kind.__name__)
    assert closed == []
