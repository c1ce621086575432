"""Refusals of Produce, Fetch and ListOffsets version 0.

Error 6 for each partition, so that clients ask another leader (kafka/server/KafkaApis.scala@0.8.2.2).
"""

from __future__ import annotations

from zkgroup.broker.server.handlers import RequestContext
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.records import (
    FetchedPartition,
    FetchedTopic,
    FetchRequest,
    FetchResponse,
    ListedPartition,
    ListedTopic,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceResult,
    ProduceTopicResult,
)

_ERROR = ErrorCode.NOT_LEADER_FOR_PARTITION


async def refuse_produce(context: RequestContext, request: ProduceRequest) -> ProduceResponse | None:
    """Refuses all partitions; None for acks=0, which gets no answer: as in Kafka the connection is closed."""
    if request.acks == 0:
        return None
    return ProduceResponse(
        tuple(
            ProduceTopicResult(
                topic.topic, tuple(ProduceResult(one.partition, _ERROR, -1) for one in topic.partitions)
            )
            for topic in request.topics
        )
    )


async def refuse_fetch(context: RequestContext, request: FetchRequest) -> FetchResponse:
    """Refuses all partitions, without records and high watermarks."""
    return FetchResponse(
        tuple(
            FetchedTopic(
                topic.topic,
                tuple(FetchedPartition(one.partition, _ERROR, -1, b"") for one in topic.partitions),
            )
            for topic in request.topics
        )
    )


async def refuse_list_offsets(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Refuses all partitions, without offsets."""
    return ListOffsetsResponse(
        tuple(
            ListedTopic(
                topic.topic, tuple(ListedPartition(one.partition, _ERROR, ()) for one in topic.partitions)
            )
            for topic in request.topics
        )
    )
