"""Answers to those who ask a broker for Kafka's records, which it does not host. Pure.

Error 6 for each partition: clients look for another leader, and the connection lives on.
Source: kafka/server/KafkaApis.scala@0.8.2.2.
"""

from __future__ import annotations

from zkgroup.wire.error_codes import ErrorCode
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


def produced_elsewhere(request: ProduceRequest) -> ProduceResponse | None:
    """None for acks=0, where no answer may be sent: Kafka closes the connection, which the producer sees."""
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


def fetched_elsewhere(request: FetchRequest) -> FetchResponse:
    """No record, and no high watermark."""
    return FetchResponse(
        tuple(
            FetchedTopic(
                topic.topic,
                tuple(FetchedPartition(one.partition, _ERROR, -1, b"") for one in topic.partitions),
            )
            for topic in request.topics
        )
    )


def listed_elsewhere(request: ListOffsetsRequest) -> ListOffsetsResponse:
    """No offset."""
    return ListOffsetsResponse(
        tuple(
            ListedTopic(
                topic.topic, tuple(ListedPartition(one.partition, _ERROR, ()) for one in topic.partitions)
            )
            for topic in request.topics
        )
    )
