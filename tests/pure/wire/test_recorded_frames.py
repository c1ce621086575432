"""Frames of real clients and of Kafka 2.8.2 are read, and written as they were, in every version served."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.worlds import golden_data
from tests.worlds.golden_data import Frame
from tests.worlds.wire_requests import REQUESTS, decode_request, encode_response
from zkgroup.errors import CorruptFrameError, UnsupportedRequestError
from zkgroup.wire.messages import (
    Api,
    ErrorCode,
    decode_response,
    encode_request,
    response_buffers,
)
from zkgroup.wire.metadata import ApiVersion, ApiVersionsResponse


def as_sent(frame: Frame) -> Frame:
    """With the version that its bytes have: ApiVersions with error 35 is answered in version 0 (KIP-511)."""
    refused = frame.api == Api.API_VERSIONS and frame.data[8:10] == b"\0\x23"
    return frame._replace(version=0) if refused and frame.direction == "response" else frame


def has_no_body(frame: Frame) -> bool:
    """JoinGroup 9 without a body: Kafka 2.8.2 was to refuse it by its version."""
    return (frame.api, frame.version) == (Api.JOIN_GROUP, 9)


FRAMES = [
    as_sent(frame)
    for frame in golden_data.packed_frames("group-protocol/frames.jsonl.gz")
    if not has_no_body(frame)
]
READ = [each for each in FRAMES if each.api in REQUESTS and each.version in REQUESTS[each.api].VERSIONS]


def test_every_request_is_read_and_written_as_it_was() -> None:
    """Header and body to the last byte; clients send tagged fields of their own in none of them."""
    seen: Counter[tuple[int, int]] = Counter()
    for frame in READ:
        if frame.direction == "request":
            header, request = decode_request(frame.data[4:])

            found = (header.api_key, header.version, header.correlation_id, header.client_id)
            assert found == (frame.api, frame.version, frame.correlation_id, frame.client_id)
            assert type(request) is REQUESTS[frame.api]
            written = encode_request(request, header.correlation_id, header.client_id, version=header.version)
            assert written == frame.data, frame
            seen[frame.api, frame.version] += 1
    assert seen.total() > 800
    assert {(Api.FETCH, 12), (Api.METADATA, 11), (Api.API_VERSIONS, 3)} <= set(seen)


def test_every_response_is_read_and_written_as_it_was() -> None:
    """To the last byte, also as buffers."""
    seen: Counter[tuple[int, int]] = Counter()
    for frame in READ:
        if frame.direction == "response":
            kind = REQUESTS[frame.api].RESPONSE
            correlation_id, response = decode_response(kind, frame.data[4:], version=frame.version)

            assert correlation_id == frame.correlation_id
            assert encode_response(response, correlation_id, version=frame.version) == frame.data, frame
            buffers = response_buffers(response, correlation_id, version=frame.version)
            assert b"".join(buffers) == frame.data
            seen[frame.api, frame.version] += 1
    assert seen.total() > 800
    assert {(Api.FETCH, 12), (Api.METADATA, 11), (Api.API_VERSIONS, 3)} <= set(seen)


def test_other_versions_are_refused_by_name() -> None:
    """ApiVersions 4 of clients newer than the broker, and frames made to be refused."""
    others = {(frame.api, frame.version) for frame in FRAMES} - {(one.api, one.version) for one in READ}
    for frame in FRAMES:
        if frame.direction == "request" and (frame.api, frame.version) in others:
            with pytest.raises(UnsupportedRequestError) as raised:
                decode_request(frame.data[4:])
            found = (raised.value.api_key, raised.value.version, raised.value.correlation_id)
            assert found == (frame.api, frame.version, frame.correlation_id)
    assert (Api.API_VERSIONS, 4) in others


def test_an_unsupported_api_versions_is_answered_in_version_0() -> None:
    """Error 35 and the range of ApiVersions itself alone, as Kafka 2.8.2 answered."""
    refused = {
        decode_response(ApiVersionsResponse, frame.data[4:])[1]
        for frame in READ
        if frame.file == "handcrafted" and frame.direction == "response" and frame.api == Api.API_VERSIONS
    }

    alone = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, (ApiVersion(Api.API_VERSIONS, 0, 3),))
    assert alone in refused


def read(frame: Frame, payload: bytes) -> None:
    if frame.direction == "request":
        decode_request(payload)
    else:
        decode_response(REQUESTS[frame.api].RESPONSE, payload, version=frame.version)


def test_a_frame_cut_anywhere_is_refused() -> None:
    """The longest below 1 KiB of each message and version, at every byte; a response with one more too."""
    longest: dict[tuple[int, int, str], Frame] = {}
    for frame in READ:
        key = (frame.api, frame.version, frame.direction)
        if len(frame.data) < 1024 and (key not in longest or len(frame.data) > len(longest[key].data)):
            longest[key] = frame
    for frame in longest.values():
        ends = range(4, len(frame.data), 1 + len(frame.data) // 150)
        longer = frame.data[4:] + b"\0"
        if frame.direction == "request":
            assert decode_request(longer) == decode_request(frame.data[4:])
        more = [longer] if frame.direction == "response" else []
        for data in (*(frame.data[4:end] for end in ends), frame.data[4:-1], *more):
            with pytest.raises(CorruptFrameError) as raised:
                read(frame, data)
            assert raised.value.offset <= len(data)
