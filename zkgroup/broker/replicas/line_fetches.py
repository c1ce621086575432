"""FetchLines, over Kafka's Fetch of one partition: for the clients of `zkgroup.lines`."""

from __future__ import annotations

from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.records import NO_EPOCH_END, NO_OFFSET, FetchedPartition, FetchPartition
from zkgroup.wire.replica_host import OBSERVER, FetchLinesRequest, FetchLinesResponse


def fetch_lines(
    host: ReplicaManager, request: FetchLinesRequest, *, held: bool = False
) -> FetchLinesResponse:
    """The answer to a consumer, or an observer (offsets of a replica in any role)."""
    topic_partition = TopicPartition(request.topic, request.partition)
    if request.replica_id == OBSERVER:
        return _as_lines(host, topic_partition, host.offsets(topic_partition))
    return _as_lines(host, topic_partition, host.fetch(topic_partition, as_partition(request), held=held))


def as_partition(request: FetchLinesRequest) -> FetchPartition:
    """The partition of a FetchLines as in a Fetch."""
    return FetchPartition(
        request.partition,
        request.offset,
        request.max_bytes,
        current_leader_epoch=request.leader_epoch,
        last_fetched_epoch=request.last_fetched_epoch,
    )


def as_fetched(partition: int, response: FetchLinesResponse) -> FetchedPartition:
    """The answer to a FetchLines as in the answer to a Fetch."""
    return FetchedPartition(
        partition,
        response.error,
        response.high_watermark,
        log_end_offset=response.log_end_offset,
        diverging=response.diverging or NO_EPOCH_END,
        records=response.records,
    )


def _as_lines(
    host: ReplicaManager, topic_partition: TopicPartition, fetched: FetchedPartition
) -> FetchLinesResponse:
    if fetched.error != ErrorCode.NONE:
        return no_lines(ErrorCode(fetched.error))
    end_offset: int | None = fetched.log_end_offset
    if end_offset == NO_OFFSET:
        end_offset = host.log_end_offset(topic_partition)
    return FetchLinesResponse(
        fetched.error,
        fetched.high_watermark,
        end_offset or 0,
        diverging=None if fetched.diverging == NO_EPOCH_END else fetched.diverging,
        records=bytes(fetched.records or b""),
    )


def no_lines(error: ErrorCode) -> FetchLinesResponse:
    """The answer to a FetchLines that was refused with `error`."""
    return FetchLinesResponse(error, -1, -1)
