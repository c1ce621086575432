"""The refusal of Fetch version 0.

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
)

_ERROR = ErrorCode.NOT_LEADER_FOR_PARTITION


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
