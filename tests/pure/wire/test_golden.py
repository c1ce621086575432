"""Every control, metadata and coordinator frame of real Kafka 0.8.2.2 is read, and written byte for byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.worlds import golden_data
from tests.worlds.golden_data import Frame
from tests.worlds.wire_requests import OF_0_8_2, REQUESTS, decode_request, encode_response
from zkgroup.errors import CorruptFrameError, UnsupportedRequestError
from zkgroup.model import TopicPartition
from zkgroup.wire.control import (
    BrokerEndPoint,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    PartitionError,
    PartitionStateInfo,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataBroker,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    controller_client_id,
)
from zkgroup.wire.messages import (
    Api,
    ErrorCode,
    Request,
    Response,
    decode_response,
    encode,
    encode_request,
)

KAFKA = "kafka-0.8.2.2/wire"
PYTHON = "group-protocol"
REFUSED_FLAG = (f"{KAFKA}/23-refused-requests.jsonl", 618)
"""StopReplica with delete flag 2: the real broker closed the connection."""


def spoken(folder: str) -> Iterator[Frame]:
    """The frames whose API and version we speak."""
    for frame in golden_data.frames(folder):
        if frame.version == 0 and frame.api in OF_0_8_2 and (frame.file, frame.number) != REFUSED_FLAG:
            yield frame


def request_of(frame: Frame) -> Request:
    return decode_request(frame.data[4:])[1]


def response_of(frame: Frame) -> Response:
    return decode_response(REQUESTS[frame.api].RESPONSE, frame.data[4:], version=frame.version)[1]


def recorded(name: str, number: int) -> Frame:
    return next(f for f in golden_data.frames(KAFKA) if f.file.endswith(name) and f.number == number)


@pytest.mark.parametrize(("folder", "least"), [(KAFKA, 200), (PYTHON, 4)])
def test_every_recorded_request_is_read_and_written_as_it_was(folder: str, least: int) -> None:
    """Header and body, to the last byte; the headers say what the recorder saw."""
    seen: Counter[str] = Counter()
    for frame in spoken(folder):
        if frame.direction != "request":
            continue
        header, request = decode_request(frame.data[4:])

        told = (header.api_key, header.version, header.correlation_id, header.client_id)
        assert told == (frame.api, frame.version, frame.correlation_id, frame.client_id), frame
        assert type(request) is REQUESTS[frame.api]
        assert encode_request(request, header.correlation_id, header.client_id) == frame.data, frame
        seen[type(request).__name__] += 1
    assert seen.total() >= least, seen


@pytest.mark.parametrize(("folder", "least"), [(KAFKA, 195), (PYTHON, 4)])
def test_every_recorded_response_is_read_and_written_as_it_was(folder: str, least: int) -> None:
    """Header and body, to the last byte."""
    seen: Counter[str] = Counter()
    for frame in spoken(folder):
        if frame.direction != "response":
            continue
        kind = REQUESTS[frame.api].RESPONSE
        correlation_id, response = decode_response(kind, frame.data[4:], version=frame.version)

        assert correlation_id == frame.correlation_id, frame
        assert encode_response(response, correlation_id) == frame.data, frame
        seen[kind.__name__] += 1
    assert seen.total() >= least, seen


def test_the_recordings_hold_every_message_of_the_control_protocol() -> None:
    """Each of the four control requests, Metadata and ConsumerMetadata, and the responses."""
    seen = {(frame.api, frame.direction) for frame in spoken(KAFKA)}

    apis = (
        *(Api.LEADER_AND_ISR, Api.STOP_REPLICA, Api.UPDATE_METADATA),
        *(Api.CONTROLLED_SHUTDOWN, Api.METADATA, Api.FIND_COORDINATOR),
    )
    assert seen == {(api, direction) for api in apis for direction in ("request", "response")}


def test_every_other_recorded_request_is_refused_by_its_name() -> None:
    """APIs and versions that are not served raise UnsupportedRequestError, which names them."""
    seen = 0
    for folder in (KAFKA, PYTHON):
        others = set(golden_data.frames(folder)) - set(spoken(folder))
        for frame in others:
            if frame.direction != "request" or (frame.file, frame.number) == REFUSED_FLAG:
                continue
            with pytest.raises(UnsupportedRequestError) as raised:
                decode_request(frame.data[4:], {})
            told = (raised.value.api_key, raised.value.version, raised.value.correlation_id)
            assert told == (frame.api, frame.version, frame.correlation_id)
            seen += 1
    assert seen > 30


def test_a_delete_flag_that_is_neither_yes_nor_no_is_refused() -> None:
    """Kafka 0.8.2.2 closed the connection at this very frame."""
    name, number = REFUSED_FLAG

    with pytest.raises(CorruptFrameError) as raised:
        decode_request(recorded(name, number).data[4:])

    assert raised.value.field == "StopReplicaRequest.delete"
    assert (raised.value.offset, raised.value.expected, raised.value.found) == (23, "0 or 1", "2")


def test_leader_and_isr_of_a_new_topic() -> None:
    """The values of the first recorded request, spelled out."""
    frame = recorded("02-topic-create.jsonl", 2)

    assert request_of(frame) == LeaderAndIsrRequest(
        controller_id=1,
        controller_epoch=1,
        partitions=(
            PartitionStateInfo("orders", 1, 1, 1, 0, (1, 2), 0, (1, 2)),
            PartitionStateInfo("orders", 0, 1, 3, 0, (3, 1), 0, (3, 1)),
        ),
        leaders=(BrokerEndPoint(1, "127.0.0.1", 21201), BrokerEndPoint(3, "127.0.0.1", 21203)),
    )
    assert frame.client_id == controller_client_id(1, "127.0.0.1", 21101)


def test_client_ids_are_the_controllers_and_empty_for_stop_replica() -> None:
    """0.8.2.2 names itself in LeaderAndIsr and UpdateMetadata only; ControlledShutdown has no client id."""
    seen: dict[int, set[str | None]] = {}
    for frame in spoken(KAFKA):
        if frame.direction == "request" and "23-" not in frame.file:
            seen.setdefault(frame.api, set()).add(frame.client_id)

    controllers = {controller_client_id(broker, "127.0.0.1", 21100 + broker) for broker in (1, 2)}
    assert seen[Api.LEADER_AND_ISR] == seen[Api.UPDATE_METADATA] == controllers
    assert seen[Api.STOP_REPLICA] == {""}
    assert seen[Api.CONTROLLED_SHUTDOWN] == {None}


def test_a_deletion_deletes_and_names_the_partition() -> None:
    """StopReplica with and without the flag, a partition a request."""
    requests = {
        request_of(f) for f in spoken(KAFKA) if f.api == Api.STOP_REPLICA and f.direction == "request"
    }

    assert StopReplicaRequest(1, 1, True, (TopicPartition("events", 0),)) in requests
    assert StopReplicaRequest(1, 1, False, (TopicPartition("events", 0),)) in requests


def test_lists_may_be_empty() -> None:
    """Requests that name no partition were answered 0 by a real broker."""
    name = "23-refused-requests.jsonl"

    assert request_of(recorded(name, 610)) == StopReplicaRequest(2, 2, False, ())
    assert request_of(recorded(name, 612)) == LeaderAndIsrRequest(2, 2, (), ())
    assert response_of(recorded(name, 611)) == StopReplicaResponse(ErrorCode.NONE)
    assert response_of(recorded(name, 613)) == LeaderAndIsrResponse(ErrorCode.NONE)


def test_refusals_of_a_real_broker() -> None:
    """Stale controller epoch 11 (UpdateMetadata: -1), stale leader epoch 13, and no entry for no replica."""
    name = "23-refused-requests.jsonl"

    assert response_of(recorded(name, 597)) == LeaderAndIsrResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
    assert response_of(recorded(name, 601)) == UpdateMetadataResponse(ErrorCode.UNKNOWN)
    assert response_of(recorded(name, 603)) == LeaderAndIsrResponse(
        ErrorCode.NONE, (PartitionError("orders", 1, ErrorCode.STALE_LEADER_EPOCH),)
    )
    assert response_of(recorded(name, 605)) == LeaderAndIsrResponse(ErrorCode.NONE)


def test_controlled_shutdown_has_no_client_id() -> None:
    """Correlation 0, broker 3, nothing remaining."""
    frame = recorded("11-controlled-shutdown.jsonl", 355)

    assert request_of(frame) == ControlledShutdownRequest(broker=3)
    assert encode_request(ControlledShutdownRequest(3), 0, "is left out") == frame.data
    answers = {
        response_of(f)
        for f in spoken(KAFKA)
        if f.api == Api.CONTROLLED_SHUTDOWN and "11-" in f.file and f.direction == "response"
    }
    assert answers == {ControlledShutdownResponse(ErrorCode.NONE)}


def test_a_body_encoded_once_serves_many_brokers() -> None:
    """The frames of one UpdateMetadata to two brokers differ in the header alone."""
    request = UpdateMetadataRequest(1, 1, (), (UpdateMetadataBroker(1, "h", 1),))
    body = encode(request, 0)

    for correlation_id in (1, 2):
        shared = encode_request(request, correlation_id, "c", body=body)
        assert shared == encode_request(request, correlation_id, "c")
        assert shared.endswith(body)


def test_a_recorded_frame_cut_anywhere_is_refused() -> None:
    """The longest of each message, header included: at every byte; a response with one more too."""
    longest: dict[tuple[int, str], Frame] = {}
    for frame in spoken(KAFKA):
        key = (frame.api, frame.direction)
        if key not in longest or len(frame.data) > len(longest[key].data):
            longest[key] = frame
    for frame in longest.values():
        read = request_of if frame.direction == "request" else response_of
        more = [frame.data + b"\0"] if frame.direction == "response" else []
        for data in (*(frame.data[:end] for end in range(4, len(frame.data))), *more):
            with pytest.raises(CorruptFrameError) as raised:
                read(frame._replace(data=data))
            assert raised.value.offset <= len(data) - 4
