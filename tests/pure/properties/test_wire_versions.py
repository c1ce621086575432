"""Properties of every version of every message: it is read back; other bytes are read or refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pure.properties.frame_memory import MemoryMeter
from tests.pure.properties.frame_values import values_of_kind
from tests.worlds.wire_requests import REQUESTS, decode_request, encode_response
from zkgroup.errors import CorruptFrameError
from zkgroup.wire.messages import (
    Message,
    decode_response,
    decode_rest,
    encode,
    encode_request,
    framed,
    response_buffers,
)
from zkgroup.wire.primitives import uvarint

MESSAGES: list[type[Message]] = [kind for one in REQUESTS.values() for kind in (one, one.RESPONSE)]
each_message = pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
each_request = pytest.mark.parametrize("kind", list(REQUESTS.values()), ids=lambda kind: kind.__name__)


def versions_of(kind: type[Message]) -> st.SearchStrategy[int]:
    return st.sampled_from(kind.VERSIONS)


@each_message
@settings(max_examples=4)
@given(st.data())
def test_each_version_survives_the_round_trip(kind: type[Message], data: st.DataObject) -> None:
    """Any value in any version comes back; cut short or extended it is refused."""
    version = data.draw(versions_of(kind))
    survives(kind, version, data.draw(values_of_kind(kind, version)))


def survives(kind: type[Message], version: int, value: Any) -> None:
    payload = encode(value, version)
    assert decode_rest(kind, version, payload, 0) == value
    for end in {*range(0, len(payload), 1 + len(payload) // 8), len(payload) - 1} - {-1}:
        with pytest.raises(CorruptFrameError) as raised:
            decode_rest(kind, version, payload[:end], 0)
        assert raised.value.offset <= end
    with pytest.raises(CorruptFrameError):
        decode_rest(kind, version, payload + b"\0", 0)


@each_request
@settings(max_examples=2)
@given(st.data())
def test_a_frame_is_read_by_its_header(kind: Any, data: st.DataObject) -> None:
    """The version of the header follows from the message's; the buffers of a response are its frame."""
    version = data.draw(versions_of(kind))
    request = data.draw(values_of_kind(kind, version))
    response = data.draw(values_of_kind(kind.RESPONSE, version))
    sent = encode_request(request, 7, "c", version=version)
    answer = encode_response(response, 8, version=version)

    header, read = decode_request(sent[4:])

    named = "c" if kind.header_version(version) else None  # version 0 of the header has no client id
    assert (header.api_key, header.version, header.client_id, read) == (kind.API, version, named, request)
    assert decode_response(kind.RESPONSE, answer[4:], version=version) == (8, response)
    assert b"".join(response_buffers(response, 8, version=version)) == answer
    assert framed(answer[4:]) == answer


@each_message
@settings(max_examples=4)
@given(st.data())
def test_any_damage_to_any_version_is_read_or_refused(kind: type[Message], data: st.DataObject) -> None:
    """A message with bytes changed, removed or added is another valid message, or is refused.

    What is accepted has the same meaning when it is written and read again. Its bytes may differ: unknown
    tagged fields are dropped, and a varint may have been longer than it needs to be.
    """
    version = data.draw(versions_of(kind))
    good = values_of_kind(kind, version).map(lambda value: encode(value, version))
    payload = bytearray(data.draw(good | st.binary(max_size=60)))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(payload)))
        payload[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))

    refusal: CorruptFrameError | None = None
    try:
        value: object = decode_rest(kind, version, bytes(payload), 0)
    except CorruptFrameError as error:
        refusal = error
    else:
        written = encode(value, version)
        assert decode_rest(kind, version, written, 0) == value
        assert len(written) <= len(payload)
        assert kind.is_flexible(version) or written == payload
    assert refusal is None or 0 <= refusal.offset <= len(payload)


@pytest.fixture(scope="module")
def meter() -> Iterator[MemoryMeter]:
    with MemoryMeter() as meter:
        yield meter


@each_message
def test_no_claim_in_any_version_makes_more_memory_than_its_bytes(
    meter: MemoryMeter, kind: type[Message]
) -> None:
    """Long messages of zeros, of ones and of large counts, in the last version, whose lengths are compact."""
    size = 6_000
    version = kind.VERSIONS[-1]
    counts = [b"\x7f\xff\xff\xff", uvarint(2**31), uvarint(size // 2), b"\1"]
    payloads = [bytes(size), b"\1" * size, b"\2" * size]
    payloads += [bytes(at) + count + bytes(size) for count in counts for at in range(0, 16, 3)]

    found = meter.peaks(kind, payloads, version)

    most = [20_000 + 64 * len(payload) for payload in payloads]
    assert [peak for peak, bound in zip(found, most, strict=True) if peak >= bound] == []
