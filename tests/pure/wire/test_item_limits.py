"""The limit for the items of a large request: memory and time follow it, not the size of the frame."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pure.properties.frame_values import values_of_kind
from tests.worlds.wire_requests import REQUESTS, decode_request
from zkgroup.errors import CorruptFrameError
from zkgroup.wire.admin_apis import DeleteTopicsRequest
from zkgroup.wire.control import PartitionStateInfo, UpdateMetadataRequest
from zkgroup.wire.messages import ITEMS_MAX, Request, encode_request
from zkgroup.wire.metadata import MetadataRequest, RequestedTopic
from zkgroup.wire.records import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ProducedPartition,
    ProducedTopic,
    ProduceRequest,
)

LIMIT = 1_000
FEW = 5
TP_STATE = PartitionStateInfo("t", 0, 1, 1, 0, (1, 2, 3), 0, (1, 2, 3))


def frame(request: Request, version: int) -> bytes:
    return encode_request(request, 1, "x", version=version)[4:]


def metadata(count: int) -> Request:
    return MetadataRequest(tuple(RequestedTopic("") for _ in range(count)))


def partitions(count: int) -> Request:
    return ProduceRequest(1, 1, (ProducedTopic("t", (ProducedPartition(0, None),) * count),))


def nested(count: int) -> Request:
    """Each array is short."""
    topic = ProducedTopic("t", (ProducedPartition(0, None),) * FEW)
    return ProduceRequest(1, 1, (topic,) * -(-count // (FEW + 1)))


def names(count: int) -> Request:
    """A byte each."""
    return DeleteTopicsRequest(topic_names=("",) * count, timeout_ms=1)


def topics(count: int) -> Request:
    return FetchRequest(-1, 1, 1, tuple(FetchTopic("", ()) for _ in range(count)))


def numbers(count: int) -> Request:
    return FetchRequest(-1, 1, 1, (), forgotten=(ForgottenTopic("t", tuple(range(count * 8))),))


hostile = pytest.mark.parametrize(
    ("request_of", "version"),
    [(metadata, 1), (metadata, 9), (partitions, 3), (nested, 8), (names, 4), (topics, 12), (numbers, 12)],
)


@hostile
def test_too_many_items_are_refused_before_they_take_memory(
    request_of: Callable[[int], Request], version: int
) -> None:
    """Whatever they are, and however they are spread; fewer are read."""
    many, few = frame(request_of(30 * LIMIT), version), frame(request_of(LIMIT - 10), version)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptFrameError, match="more items in one request"):
            decode_request(many, items_max=LIMIT)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 400_000
    assert decode_request(few, items_max=LIMIT) == decode_request(few)


def test_unknown_tagged_fields_are_items() -> None:
    """Those of the header as well: each takes time, though no memory."""
    sent = frame(MetadataRequest(()), 9)
    assert sent[-1] == 0
    tags = b"".join(_uvarint(tag) + b"\0" for tag in range(20_000, 20_000 + 2 * LIMIT))
    with pytest.raises(CorruptFrameError, match="more items in one request"):
        decode_request(sent[:-1] + _uvarint(2 * LIMIT) + tags, items_max=LIMIT)
    header = struct.pack(">hhih1s", 3, 9, 1, 1, b"x") + _uvarint(2 * LIMIT) + tags
    with pytest.raises(CorruptFrameError, match="more items in one request"):
        decode_request(header, items_max=LIMIT)


def test_limit_is_for_all_arrays_of_a_request() -> None:
    """None of them has as many."""
    each = FetchTopic("t", tuple(FetchPartition(number, 0, 1) for number in range(9)))
    request = FetchRequest(-1, 1, 1, (each,) * (LIMIT // 10))
    assert decode_request(frame(request, 11), items_max=LIMIT)[1] == request
    with pytest.raises(CorruptFrameError, match="more items in one request"):
        decode_request(frame(FetchRequest(-1, 1, 1, (*request.topics, each)), 11), items_max=LIMIT)


def test_limit_of_a_client_is_below_that_of_a_controller() -> None:
    """A controller names all partitions of the cluster at once, in one request of each broker."""
    count = ITEMS_MAX + 1
    decode_request(frame(UpdateMetadataRequest(1, 1, (TP_STATE,) * count, ()), 0))
    with pytest.raises(CorruptFrameError, match="more items in one request"):
        decode_request(frame(MetadataRequest((RequestedTopic(""),) * count), 1))


def test_limit_is_for_each_request() -> None:
    """What one request has used is there for the next one."""
    request = UpdateMetadataRequest(1, 1, (TP_STATE,) * (LIMIT - 1), ())
    sent = frame(request, 0)

    assert [decode_request(sent, items_max=LIMIT)[1] for _ in range(3)] == [request] * 3


@given(st.data())
def test_counted_requests_are_read_as_others_are(data: st.DataObject) -> None:
    """In every version of every request."""
    key = data.draw(st.sampled_from(sorted(REQUESTS)))
    version = data.draw(st.sampled_from(REQUESTS[key].VERSIONS))
    sent = frame(data.draw(values_of_kind(REQUESTS[key], version)), version)

    assert decode_request(sent, items_max=len(sent) - 1) == decode_request(sent)


def _uvarint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
