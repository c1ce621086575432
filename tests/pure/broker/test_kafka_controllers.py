"""Every recorded request of Kafka controllers gets the answer of the Kafka brokers."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path

from tests.worlds import golden_data
from tests.worlds.broker_requests import handled
from tests.worlds.golden_data import Frame
from tests.worlds.wire_requests import decode_request
from zkgroup.broker.server.control_requests import ControlRequestHandler
from zkgroup.broker.server.metadata_cache import MetadataCache
from zkgroup.model import TopicPartition
from zkgroup.wire.control import (
    BrokerEndPoint,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    PartitionStateInfo,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from zkgroup.wire.messages import Api, Request, decode_response
from zkgroup.znodes.brokers import PartitionState, Topic

WIRE = "kafka-0.8.2.2/wire"
RESTARTED = {
    "08-brokers-return-and-deletion": (2, 3),
    "11-controlled-shutdown": (1,),
    "12-broker-returns": (3,),
}
"""Brokers that were started again before, or at the start of, a recording: what they knew is gone."""
REFUSED_FLAG = 618
"""StopReplica with delete flag 2: the real broker closed the connection."""

Response = LeaderAndIsrResponse | StopReplicaResponse | UpdateMetadataResponse


def control_frames() -> Iterator[Frame]:
    apis = (Api.LEADER_AND_ISR, Api.STOP_REPLICA, Api.UPDATE_METADATA)
    for frame in golden_data.frames(WIRE):
        if frame.api in apis and not (frame.number == REFUSED_FLAG and "23-" in frame.file):
            yield frame


def created(topic: str, tree: str, epoch: int) -> LeaderAndIsrRequest:
    """The states in the tree right after the creation of a topic whose requests were not recorded."""
    nodes = {node.path: node.data for node in golden_data.trees("kafka-0.8.2.2") if tree in node.file}
    states = []
    for number, replicas in Topic.decode(topic, nodes[Topic.path(topic)]).partitions.items():
        tp = TopicPartition(topic, number)
        found = PartitionState.decode(topic, nodes[PartitionState.path(tp)])
        states.append(PartitionStateInfo(*tp, 1, found.leader, found.leader_epoch, found.isr, 0, replicas))
    return LeaderAndIsrRequest(
        epoch, epoch, tuple(states), tuple(BrokerEndPoint(one, "", 1) for one in (1, 2, 3))
    )


def brokers_at_the_start() -> dict[int, ControlRequestHandler]:
    receivers = {number: ControlRequestHandler(number, MetadataCache()) for number in (1, 2, 3)}
    for one in receivers.values():
        for topic in ("clicks", "events", "solo"):
            handled(one.leader_and_isr(created(topic, "03-topics-created", 1)))
    return receivers


def answer(receiver: ControlRequestHandler, request: Request) -> Response:
    match request:
        case LeaderAndIsrRequest():
            return handled(receiver.leader_and_isr(request))[1]
        case StopReplicaRequest():
            return handled(receiver.stop_replica(request))[1]
        case _:
            assert isinstance(request, UpdateMetadataRequest)
            return receiver.update_metadata(request, 0)


def in_order(response: Response) -> tuple[int, list[tuple[str, int, int]]]:
    """The error and the sorted partitions: Kafka brokers answer in the order of a hash map."""
    if isinstance(response, UpdateMetadataResponse):
        return response.error, []
    return response.error, sorted(response.partitions)


def test_all_are_answered_as_by_real_brokers() -> None:
    """Only a stale UpdateMetadata has 11 where theirs has -1, by mistake."""
    receivers = brokers_at_the_start()
    waiting: dict[tuple[int, int], deque[Response]] = {}
    compared: Counter[int] = Counter()
    differ: list[tuple[Response, Response]] = []
    file = ""
    for frame in control_frames():
        if frame.file != file:
            file = frame.file
            for number in RESTARTED.get(Path(file).stem, ()):
                receivers[number] = ControlRequestHandler(number, MetadataCache())
            if Path(file).stem == "11-controlled-shutdown":
                again = created("orders", "16-before-controlled-shutdown", 2)
                handled(receivers[1].leader_and_isr(again))
        assert frame.broker is not None
        queue = waiting.setdefault((frame.broker, frame.api), deque())
        if frame.direction == "request":
            queue.append(answer(receivers[frame.broker], decode_request(frame.data[4:])[1]))
            continue
        ours = queue.popleft()
        _, theirs = decode_response(type(ours), frame.data[4:])
        compared[frame.api] += 1
        if in_order(ours) != in_order(theirs):
            differ.append((ours, theirs))

    assert differ == [(UpdateMetadataResponse(11), UpdateMetadataResponse(-1))]
    assert compared.keys() == {Api.LEADER_AND_ISR, Api.STOP_REPLICA, Api.UPDATE_METADATA}
    assert compared.total() == 190
