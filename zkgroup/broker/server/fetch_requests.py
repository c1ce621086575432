"""Fetch: what to answer to consumers and followers, and whether to wait. Pure.

Sources: kafka/server/KafkaApis.scala (`handleFetchRequest`), kafka/server/DelayedFetch.scala @2.8.2.
"""

from __future__ import annotations

from zkgroup.broker.machine.events import FollowerFetched
from zkgroup.broker.replicas.replica_view import FollowerId
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.records import NO_EPOCH_END, FetchedPartition, FetchPartition


def has_news(first: FetchedPartition, fetched: FetchedPartition) -> bool:
    """Whether an answer for a partition is sent at once: records, an error, a diverging log, or another high
    watermark than in the first answer to the same request, which was held."""
    return (
        fetched.error != ErrorCode.NONE
        or bool(fetched.records)
        or fetched.diverging != NO_EPOCH_END
        or fetched.high_watermark != first.high_watermark
    )


def follower_fetched(
    topic_partition: TopicPartition, follower: FollowerId, request: FetchPartition, fetched: FetchedPartition
) -> FollowerFetched | None:
    """The event for the machine after an answer to a follower; None after an error or a diverging log."""
    if fetched.error != ErrorCode.NONE or fetched.diverging != NO_EPOCH_END:
        return None
    return FollowerFetched(
        topic_partition, follower.broker, request.offset, fetched.log_end_offset, fetched.high_watermark
    )
