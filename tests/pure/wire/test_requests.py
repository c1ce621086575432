"""Every request there is can be read, under a key of its own."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

from tests.worlds.wire_requests import REQUESTS, decode_request
from zkgroup import wire
from zkgroup.errors import CorruptFrameError, UnsupportedRequestError
from zkgroup.wire.groups import CommitPartitionResult, CommitTopicResult, OffsetCommitResponse
from zkgroup.wire.messages import (
    Api,
    EncodedResponse,
    Request,
    RequestHeader,
    Response,
    response_buffers,
)
from zkgroup.wire.metadata import MetadataRequest


def classes_below(base: type) -> set[type]:
    """Kinds of a class that the modules of the package define."""
    return {
        kind
        for module in pkgutil.iter_modules(wire.__path__)
        for kind in vars(importlib.import_module(f"{wire.__name__}.{module.name}")).values()
        if inspect.isclass(kind) and issubclass(kind, base) and kind is not base
    }


def test_every_request_is_known_by_its_key_and_has_a_response() -> None:
    """None is left out of the table, none is in it twice, and each has an answer of its own."""
    assert set(REQUESTS.values()) == classes_below(Request)
    assert set(REQUESTS) == set(Api)
    responses = [kind.RESPONSE for kind in REQUESTS.values()]
    assert set(responses) == classes_below(Response) - {EncodedResponse}
    assert len(responses) == len(set(responses))


def test_a_request_and_its_answer_have_the_same_versions() -> None:
    """A version that can be asked can be answered."""
    assert [kind for kind in REQUESTS.values() if kind.VERSIONS != kind.RESPONSE.VERSIONS] == []


@pytest.mark.parametrize(("api_key", "version"), [(24, 0), (-1, 0), (3, 12), (3, -1), (7, 3), (23, 5)])
def test_an_unknown_request_is_named_whatever_follows(api_key: int, version: int) -> None:
    """API, version and correlation id are where they always are, so that it can be told who asks for what."""
    payload = api_key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + b"\0\0\0\7"

    for rest in (b"", b"\xff" * 9):
        with pytest.raises(UnsupportedRequestError) as raised:
            decode_request(payload + rest)
        told = (raised.value.api_key, raised.value.version, raised.value.correlation_id)
        assert told == (api_key, version, 7)


def test_what_can_be_read_need_not_be_served() -> None:
    """A broker says which requests it serves."""
    metadata_1 = b"\0\3\0\1" + bytes(4) + b"\xff\xff" + b"\xff\xff\xff\xff"

    assert decode_request(metadata_1)[1] == MetadataRequest(None)
    with pytest.raises(UnsupportedRequestError):
        decode_request(metadata_1, {})


def test_bytes_behind_the_body_of_a_request_are_ignored() -> None:
    """librdkafka 2.16 asks for all topics with three of them; Kafka ignores any number."""
    sent = bytes.fromhex("0003 000b 00000003 0007 72646b61666b61 00  00 00 00 00 010000")

    assert decode_request(sent) == (
        RequestHeader(3, 11, 3, "rdkafka"),
        MetadataRequest(None, allow_auto_topic_creation=False),
    )


def test_a_frame_too_short_for_a_header_is_refused() -> None:
    """Also the empty one."""
    for size in range(8):
        with pytest.raises(CorruptFrameError, match="RequestHeader"):
            decode_request(bytes(size))


@pytest.mark.parametrize("version", OffsetCommitResponse.VERSIONS)
def test_a_response_that_is_encoded_before_has_the_same_bytes(version: int) -> None:
    """Only the correlation id is written for each request."""
    results = (CommitPartitionResult(partition=1, error=0), CommitPartitionResult(partition=2, error=25))
    response = OffsetCommitResponse(topics=(CommitTopicResult(topic="t", partitions=results),))

    found = response_buffers(EncodedResponse(response, version), 7, version=version)

    assert found == response_buffers(response, 7, version=version)
