"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: offsets by time, ends of leader epochs, log starts.

DeleteRecords moves the log start offset of a partition up, on the leader and its followers. Its answers are
Kafka's, but for the order of the rows.

Sources: kafka/server/KafkaApis.scala (`handleListOffsetRequest`, `handleOffsetForLeaderEpochRequest`,
`handleDeleteRecordsRequest`) @2.8.2.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from zkgroup.broker.replicas.delayed_operations import DelayedDeleteRecords, DeletedRecords
from zkgroup.broker.replicas.executor import ReplicaExecutor
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.server.handlers import RequestContext
from zkgroup.broker.server.metadata_cache import INTERNAL_TOPICS
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode, by_topic
from zkgroup.wire.records import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResult,
    DeleteRecordsTopicResult,
    EpochEndResult,
    EpochTopicResult,
    ListedPartition,
    ListedTopic,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

OFFSET_NOT_AVAILABLE_VERSION: Final = 5
"""The first version of ListOffsets whose clients know error 78; others get 5."""


class OffsetHandlers:
    """The handlers of the three requests. Used on one event loop."""

    def __init__(
        self,
        replicas: ReplicaExecutor,
        *,
        is_live: Callable[[int], bool] = lambda broker: True,
        is_known: Callable[[TopicPartition], bool] = lambda tp: False,
    ) -> None:
        """Arguments: see `BrokerApis`. Deletions do not wait for brokers that are not live."""
        self._replicas = replicas
        self._is_live = is_live
        self._is_known = is_known

    async def list_offsets(self, context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
        """The offsets of all partitions, from one call on the thread of the replicas.

        Version 0 answers as Kafka's, with the starts of segments.
        """
        is_legacy = context.version == 0
        repeated = repeated_partitions(request) if not is_legacy else set()

        def listed(replicas: ReplicaManager) -> list[list[ListedPartition]]:
            return [
                [
                    ListedPartition(each.partition, ErrorCode.INVALID_REQUEST)
                    if (tp := TopicPartition(topic.topic, each.partition)) in repeated
                    else replicas.list_offset(tp, each, request.replica_id, is_legacy=is_legacy)
                    for each in topic.partitions
                ]
                for topic in request.topics
            ]

        found = await self._replicas.call(listed)
        return ListOffsetsResponse(
            tuple(
                ListedTopic(
                    topic.topic, tuple(self._in_version(topic.topic, each, context.version) for each in parts)
                )
                for topic, parts in zip(request.topics, found, strict=True)
            )
        )

    def _in_version(self, topic: str, listed: ListedPartition, version: int) -> ListedPartition:
        error = self._error(topic, listed.partition, listed.error)
        if error == ErrorCode.OFFSET_NOT_AVAILABLE and version < OFFSET_NOT_AVAILABLE_VERSION:
            error = ErrorCode.LEADER_NOT_AVAILABLE
        return listed if error == listed.error else dataclasses.replace(listed, error=error)

    async def epoch_ends(
        self, context: RequestContext, request: OffsetForLeaderEpochRequest
    ) -> OffsetForLeaderEpochResponse:
        """The end offsets of leader epochs of all partitions, from one call on the thread of the replicas."""

        def ends(replicas: ReplicaManager) -> list[list[EpochEndResult]]:
            return [
                [
                    replicas.epoch_end(TopicPartition(topic.topic, each.partition), each)
                    for each in topic.partitions
                ]
                for topic in request.topics
            ]

        found = await self._replicas.call(ends)
        return OffsetForLeaderEpochResponse(
            topics=tuple(
                EpochTopicResult(
                    topic.topic,
                    tuple(
                        dataclasses.replace(each, error=self._error(topic.topic, each.partition, each.error))
                        for each in parts
                    ),
                )
                for topic, parts in zip(request.topics, found, strict=True)
            )
        )

    async def delete_records(
        self, context: RequestContext, request: DeleteRecordsRequest
    ) -> DeleteRecordsResponse:
        """Deletes records, and waits until the live followers have done so, or until the timeout (7).

        A partition that is named twice is deleted up to the offset that is named last, and has one row.
        Errors: 1 for an offset above the high watermark, 3 and 6, 17 for an internal topic, 44 for a topic
        whose `cleanup.policy` lacks `delete`.
        """
        offsets = {
            TopicPartition(topic.topic, one.partition): one.offset
            for topic in request.topics
            for one in topic.partitions
        }
        internal = {tp for tp in offsets if tp.topic in INTERNAL_TOPICS and self._is_known(tp)}
        wanted = {tp: offset for tp, offset in offsets.items() if tp not in internal}
        results = await self._delete(wanted, request.timeout_ms) if wanted else {}
        results |= dict.fromkeys(internal, DeletedRecords(ErrorCode.INVALID_TOPIC))
        rows = ((tp, self._deleted(tp, results[tp])) for tp in offsets)
        return DeleteRecordsResponse(0, by_topic(rows, DeleteRecordsTopicResult))

    def _deleted(self, tp: TopicPartition, result: DeletedRecords) -> DeleteRecordsResult:
        error = self._error(tp.topic, tp.partition, result.error)
        return DeleteRecordsResult(tp.partition, result.low_watermark, error)

    async def _delete(
        self, offsets: dict[TopicPartition, int], timeout_ms: int
    ) -> dict[TopicPartition, DeletedRecords]:
        """Deletes on the thread of the replicas, all partitions in one call."""
        delayed, is_complete = await self._replicas.complete_operation(
            lambda host: DelayedDeleteRecords(host, offsets, self._is_live),
            asyncio.get_running_loop().time() + max(0, timeout_ms) / 1000,
        )
        if not is_complete:
            await self._replicas.call(delayed.check)  # a broker that was waited for may have ended
        return delayed.results

    def _error(self, topic: str, partition: int, error: int) -> int:
        """6 instead of 3 for a partition that exists on other brokers."""
        if error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._is_known(TopicPartition(topic, partition)):
            return ErrorCode.NOT_LEADER_FOR_PARTITION
        return error


def repeated_partitions(request: ListOffsetsRequest) -> set[TopicPartition]:
    """The partitions that a request names more than once; Kafka refuses them with error 42."""
    named: Iterable[TopicPartition] = (
        TopicPartition(topic.topic, each.partition) for topic in request.topics for each in topic.partitions
    )
    return {tp for tp, count in Counter(named).items() if count > 1}
