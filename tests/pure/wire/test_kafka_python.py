"""The layouts that no recording holds, beside kafka-python's, which are made from Kafka's own schemas."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol import consumer, metadata, producer

from tests.worlds.wire_requests import REQUESTS, decode_request, encode_response
from zkgroup.wire.messages import (
    ErrorCode,
    Request,
    Response,
    decode_response,
    describe,
    encode_request,
)
from zkgroup.wire.metadata import FindCoordinatorRequest, MetadataRequest
from zkgroup.wire.records import (
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ListedPartition,
    ListedTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ProducedPartition,
    ProducedTopic,
    ProduceRequest,
    ProduceResponse,
    ProduceResult,
    ProduceTopicResult,
)

NOT_LEADER = ErrorCode.NOT_LEADER_FOR_PARTITION

Produced = producer.ProduceRequest.TopicProduceData
Answered = producer.ProduceResponse.TopicProduceResponse
Fetch = consumer.FetchRequest.FetchTopic
Fetched = consumer.FetchResponse.FetchableTopicResponse
Listing = consumer.ListOffsetsRequest.ListOffsetsTopic
Listed = consumer.ListOffsetsResponse.ListOffsetsTopicResponse

ASKED: list[tuple[Any, Request]] = [
    (
        metadata.MetadataRequest(
            version=0,
            topics=[metadata.MetadataRequest.MetadataRequestTopic(name=name) for name in ("a", "ö")],
        ),
        MetadataRequest.of("a", "ö"),
    ),
    (metadata.FindCoordinatorRequest(version=0, key="g"), FindCoordinatorRequest("g")),
    (
        producer.ProduceRequest(
            version=0,
            acks=-1,
            timeout_ms=3,
            topic_data=[
                Produced(name="t", partition_data=[Produced.PartitionProduceData(index=1, records=b"abc")]),
                Produced(name="u", partition_data=[]),
            ],
        ),
        ProduceRequest(-1, 3, (ProducedTopic("t", (ProducedPartition(1, b"abc"),)), ProducedTopic("u", ()))),
    ),
    (
        consumer.FetchRequest(
            version=0,
            replica_id=-1,
            max_wait_ms=100,
            min_bytes=1,
            topics=[
                Fetch(
                    topic="t",
                    partitions=[Fetch.FetchPartition(partition=1, fetch_offset=2**40, partition_max_bytes=9)],
                )
            ],
        ),
        FetchRequest(-1, 100, 1, (FetchTopic("t", (FetchPartition(1, 2**40, 9),)),)),
    ),
    (
        consumer.ListOffsetsRequest(
            version=0,
            replica_id=-1,
            topics=[
                Listing(
                    name="t",
                    partitions=[
                        Listing.ListOffsetsPartition(partition_index=1, timestamp=-2, max_num_offsets=4)
                    ],
                )
            ],
        ),
        ListOffsetsRequest(-1, (ListOffsetsTopic("t", (ListOffsetsPartition(1, -2, 4),)),)),
    ),
]

ANSWERED: list[tuple[Any, Response]] = [
    (
        producer.ProduceResponse(
            version=0,
            responses=[
                Answered(
                    name="t",
                    partition_responses=[
                        Answered.PartitionProduceResponse(index=1, error_code=NOT_LEADER, base_offset=-1)
                    ],
                )
            ],
        ),
        ProduceResponse((ProduceTopicResult("t", (ProduceResult(1, NOT_LEADER, -1),)),)),
    ),
    (
        consumer.FetchResponse(
            version=0,
            responses=[
                Fetched(
                    topic="t",
                    partitions=[
                        Fetched.PartitionData(
                            partition_index=1, error_code=NOT_LEADER, high_watermark=-1, records=b""
                        )
                    ],
                )
            ],
        ),
        FetchResponse((FetchedTopic("t", (FetchedPartition(1, NOT_LEADER, -1, b""),)),)),
    ),
    (
        consumer.ListOffsetsResponse(
            version=0,
            topics=[
                Listed(
                    name="t",
                    partitions=[
                        Listed.ListOffsetsPartitionResponse(
                            partition_index=1, error_code=0, old_style_offsets=[2**40, 7]
                        )
                    ],
                )
            ],
        ),
        ListOffsetsResponse((ListedTopic("t", (ListedPartition(1, 0, (2**40, 7)),)),)),
    ),
]


def framed_by_them(message: Any) -> bytes:
    message.with_header(correlation_id=7, **({"client_id": "c"} if message.is_request() else {}))
    return bytes(message.encode(header=True, framed=True))


@pytest.mark.parametrize(("theirs", "ours"), ASKED, ids=lambda value: type(value).__name__)
def test_requests_lie_as_kafka_python_lays_them(theirs: Any, ours: Request) -> None:
    """Byte for byte, and back."""
    frame = framed_by_them(theirs)

    assert encode_request(ours, 7, "c") == frame
    assert decode_request(frame[4:])[1] == ours


@pytest.mark.parametrize(("theirs", "ours"), ANSWERED, ids=lambda value: type(value).__name__)
def test_responses_lie_as_kafka_python_lays_them(theirs: Any, ours: Response) -> None:
    """Byte for byte, and back."""
    frame = framed_by_them(theirs)

    assert encode_response(ours, 7) == frame
    assert decode_response(type(ours), frame[4:]) == (7, ours)


@pytest.mark.parametrize(("theirs", "ours"), [*ASKED, *ANSWERED], ids=lambda value: type(value).__name__)
def test_api_keys_are_kafkas(theirs: Any, ours: Request | Response) -> None:
    """A request of ours, and that to which a response of ours belongs, has the key that Kafka gave it."""
    (key,) = [key for key, kind in REQUESTS.items() if type(ours) in (kind, kind.RESPONSE)]

    assert key == theirs.API_KEY


def test_error_codes_are_kafkas() -> None:
    """Each number has the meaning it has for clients; 13 alone has got another one since 0.8.2.2.

    Some names differ between Kafka, whose we have, and kafka-python.
    """
    from kafka import errors

    later = {
        ErrorCode.UNKNOWN: "UnknownError",
        ErrorCode.NONE: "NoError",
        ErrorCode.MESSAGE_TOO_LARGE: "MessageSizeTooLargeError",
        ErrorCode.STALE_LEADER_EPOCH: "NetworkExceptionError",
        ErrorCode.INVALID_REPLICA_ASSIGNMENT: "InvalidReplicationAssignmentError",
        ErrorCode.INVALID_CONFIG: "InvalidConfigurationError",
        ErrorCode.INVALID_TOPIC: "InvalidTopicError",
    }
    for code in ErrorCode:
        theirs = errors.for_code(code).__name__
        assert theirs == later.get(
            code, "".join(code.name.title().split("_")).removesuffix("Error") + "Error"
        )
    assert describe(11) == "11 (stale controller epoch)"
    assert describe(999) == "999"
