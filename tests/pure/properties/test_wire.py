"""Properties of frames: what is written is read back; other bytes are read or refused, in bounded memory."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pure.properties.frame_memory import MemoryMeter
from tests.pure.properties.frame_values import values_of_kind
from tests.worlds.wire_requests import OF_0_8_2, REQUESTS, decode_request, encode_response
from zkgroup.errors import CorruptFrameError, WireError
from zkgroup.wire.messages import (
    SIZE,
    FrameSplitter,
    Request,
    RequestHeader,
    Response,
    decode_rest,
    encode,
    encode_request,
    framed,
)

REQUESTS_0 = [REQUESTS[key] for key in sorted(OF_0_8_2)]
"""Those that have a version 0 of Kafka 0.8.2.2 or zkgroup; `test_wire_versions` draws from all of all."""
MESSAGES: list[type[Request | Response]] = [
    message for request in REQUESTS_0 for message in (request, request.RESPONSE)
]
each_message = pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
each_request = pytest.mark.parametrize("kind", REQUESTS_0, ids=lambda kind: kind.__name__)

MEMORY_FACTOR = 64
"""Python needs that much more for a value of the smallest size than the wire does, at most."""
MEMORY_CONSTANT = 20_000
"""Bytes for the error, its message and its traceback."""


def accepted(kind: type, payload: bytes) -> None:
    """Decodes bytes, or raises CorruptFrameError at a place in them; the value encodes to the same bytes."""
    refusal: CorruptFrameError | None = None
    try:
        value = decode_rest(kind, 0, payload, 0)
    except CorruptFrameError as error:
        refusal = error
    else:
        assert encode(value, 0) == payload
    assert refusal is None or 0 <= refusal.offset <= len(payload)


@each_message
@settings(max_examples=6)
@given(st.data())
def test_a_message_cut_short_or_long_anywhere_is_refused(kind: type, data: st.DataObject) -> None:
    """Cut at every byte: a part of a message is not accepted as one, and no trailing bytes are ignored."""
    value = data.draw(values_of_kind(kind, 0))
    payload = encode(value, 0)

    assert decode_rest(kind, 0, payload, 0) == value
    for end in range(len(payload)):
        with pytest.raises(CorruptFrameError) as raised:
            decode_rest(kind, 0, payload[:end], 0)
        assert raised.value.offset <= end
    with pytest.raises(CorruptFrameError):
        decode_rest(kind, 0, payload + b"\0", 0)


@each_request
@settings(max_examples=10)
@given(st.data())
def test_a_frame_survives_its_way_in_pieces(kind: type[Request], data: st.DataObject) -> None:
    """Header and body of a request, cut anywhere, and its response after it."""
    request = data.draw(values_of_kind(kind, 0))
    response = data.draw(values_of_kind(kind.RESPONSE, 0))
    header = data.draw(values_of_kind(RequestHeader, 1))
    sent = encode_request(request, header.correlation_id, header.client_id)
    stream = sent + encode_response(response, header.correlation_id)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=5).map(sorted))
    splitter, payloads = FrameSplitter(), []
    for start, end in itertools.pairwise([0, *cuts, len(stream)]):
        splitter.feed(stream[start:end])
        while (payload := splitter.next_frame()) is not None:
            payloads.append(payload)
    splitter.finish()

    client_id = header.client_id if kind.header_version(0) else None
    expected = RequestHeader(kind.API, 0, header.correlation_id, client_id)
    assert [framed(payload) for payload in payloads] == [sent, stream[len(sent) :]]
    assert decode_request(payloads[0]) == (expected, request)


@each_message
@settings(max_examples=20)
@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(kind: type, payload: bytes) -> None:
    """CorruptFrameError is the only error, and what is accepted encodes to the same bytes."""
    accepted(kind, payload)


@given(
    st.binary(max_size=60)
    | st.sampled_from(sorted(OF_0_8_2)).map(lambda key: key.to_bytes(2, "big") + bytes(20))
)
def test_any_frame_is_a_request_or_refused(payload: bytes) -> None:
    """The server has one kind of error to handle; bytes behind a request are ignored."""
    with suppress(WireError):
        header, request = decode_request(payload)
        if header.version or header.api_key not in OF_0_8_2:
            return  # a record may end with tags that are not known
        read = encode_request(request, header.correlation_id, header.client_id)
        assert read == framed(payload[: len(read) - 4])


@pytest.fixture(scope="module")
def meter() -> Iterator[MemoryMeter]:
    """Measures in another process. Past bug: in this one, other tests' servers allocated memory too."""
    with MemoryMeter() as meter:
        yield meter


def assert_bounded(meter: MemoryMeter, kind: type, payloads: list[bytes]) -> None:
    found = meter.peaks(kind, payloads)
    most = [MEMORY_CONSTANT + MEMORY_FACTOR * len(payload) for payload in payloads]
    assert [peak for peak, bound in zip(found, most, strict=True) if peak >= bound] == []


@each_message
@settings(max_examples=3)
@given(data=st.data())
def test_no_number_in_a_message_makes_more_memory_than_its_bytes(
    meter: MemoryMeter, kind: type, data: st.DataObject
) -> None:
    """With every length and count of a message set to the maximum, memory is bounded by the frame's size."""
    payload = encode(data.draw(values_of_kind(kind, 0)), 0)
    damaged = [
        payload[:at] + claim + payload[at + len(claim) :]
        for at in range(len(payload))
        for claim in (b"\x7f\xff\xff\xff", b"\x7f\xff", b"\x00\xff\xff\xff")
    ]
    assert_bounded(meter, kind, damaged)


@each_message
def test_many_of_the_smallest_items_take_memory_by_their_bytes(meter: MemoryMeter, kind: type) -> None:
    """A long message of zeros, and one whose first array is as long as possible."""
    size = 20_000
    longest = [bytes(at) + (size // 30).to_bytes(4, "big") + bytes(size) for at in range(20)]
    assert_bounded(meter, kind, [bytes(size), *longest])


@given(st.lists(st.binary(max_size=3000), min_size=1, max_size=5), st.integers(1, 4000), st.booleans())
def test_frames_are_split_from_pieces_of_any_size(frames: list[bytes], size: int, lazily: bool) -> None:
    """Frames come out in order, also those that wait in the splitter; nothing stays behind them."""
    stream = b"".join(map(framed, frames))
    splitter, found = FrameSplitter(), list[bytes]()
    for at in range(0, len(stream), size):
        splitter.feed(stream[at : at + size])
        while not lazily and (frame := splitter.next_frame()) is not None:
            found.append(frame)
    while (frame := splitter.next_frame()) is not None:
        found.append(frame)
    splitter.finish()
    assert found == frames


def test_single_bytes_of_a_frame_take_no_memory_beyond_them() -> None:
    """A client that sends byte after byte is given no object for each."""
    splitter = FrameSplitter()
    tracemalloc.start()
    try:
        for byte in SIZE.pack(200_000) + bytes(100_000):
            splitter.feed(bytes([byte]))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 150_000
