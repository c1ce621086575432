"""Short constructors for a controller's requests, and a replica host that records and answers them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from tests.worlds.batches import records_of
from zkgroup.broker.replica_view import Action, Handling
from zkgroup.model import TopicPartition
from zkgroup.wire.control import (
    BrokerEndPoint,
    LeaderAndIsrRequest,
    PartitionStateInfo,
    StopReplicaRequest,
    UpdateMetadataBroker,
    UpdateMetadataRequest,
)
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.records import (
    CONSUMER_REPLICA,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ProducedPartition,
    ProducedTopic,
    ProduceRequest,
)
from zkgroup.znodes.brokers import Endpoint

T = TypeVar("T")

ORDERS = TopicPartition("orders", 0)


def broker(number: int) -> BrokerEndPoint:
    return BrokerEndPoint(number, f"host{number}", 9000 + number)


def brokers(*numbers: int) -> tuple[BrokerEndPoint, ...]:
    return tuple(map(broker, numbers))


def live_brokers(*numbers: int) -> tuple[UpdateMetadataBroker, ...]:
    return tuple(UpdateMetadataBroker(one.broker, one.host, one.port) for one in brokers(*numbers))


def plain(host: str, port: int) -> tuple[Endpoint, ...]:
    """The one listener of a broker without others."""
    return (Endpoint("PLAINTEXT", host, port, "PLAINTEXT"),)


def state(
    tp: TopicPartition = ORDERS,
    leader: int = 1,
    *,
    epoch: int = 0,
    isr: tuple[int, ...] = (1, 2),
    replicas: tuple[int, ...] = (1, 2),
    decided: int = 1,
    version: int = 0,
) -> PartitionStateInfo:
    """A partition state, decided in controller epoch `decided`."""
    return PartitionStateInfo(*tp, decided, leader, epoch, isr, version, replicas)


def leader_and_isr(
    *states: PartitionStateInfo, leaders: tuple[int, ...] = (1, 2, 3), epoch: int = 1
) -> LeaderAndIsrRequest:
    return LeaderAndIsrRequest(9, epoch, states, brokers(*leaders))


def update_metadata(
    *states: PartitionStateInfo, live: tuple[int, ...] = (1, 2, 3), epoch: int = 1
) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(9, epoch, states, live_brokers(*live))


def stop_replica(*partitions: TopicPartition, delete: bool = False, epoch: int = 1) -> StopReplicaRequest:
    return StopReplicaRequest(9, epoch, delete, partitions)


def handled(
    handling: Handling[T], errors: Mapping[TopicPartition, int] | None = None
) -> tuple[list[Action], T]:
    """The actions of a handler, in order, and its response; `errors` are the host's errors by partition."""
    actions: list[Action] = []
    error: int | None = None
    while True:
        try:
            action = next(handling) if error is None else handling.send(error)
        except StopIteration as done:
            return actions, done.value
        actions.append(action)
        error = (errors or {}).get(action.topic_partition, ErrorCode.NONE)


def produce_request(tp: TopicPartition, acks: int, *values: bytes) -> ProduceRequest:
    """Produces records of these values, in one batch, to one partition."""
    records = records_of(values, timestamp_ms=1)
    return ProduceRequest(
        acks, 30_000, (ProducedTopic(tp.topic, (ProducedPartition(tp.partition, records),)),)
    )


def consume_request(tp: TopicPartition, offset: int, wait_ms: int = 0) -> FetchRequest:
    """Fetches as a consumer, and waits so long for a record."""
    wanted = FetchTopic(tp.topic, (FetchPartition(tp.partition, offset, 10_000),))
    return FetchRequest(CONSUMER_REPLICA, wait_ms, 1, (wanted,))
