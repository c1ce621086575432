"""DeleteRecords: moves the log start offset of a partition up, on the leader and its followers.

Source: kafka/server/KafkaApis.scala (`handleDeleteRecordsRequest`) @2.8.2, whose answers it has, but for the
order of the rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from zkgroup.broker.replicas.deletions import DelayedDeleteRecords, DeletedRecords
from zkgroup.broker.replicas.executor import PartitionWatch, ReplicaExecutor
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.server.handlers import RequestContext
from zkgroup.broker.server.metadata_cache import INTERNAL_TOPICS
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.records import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResult,
    DeleteRecordsTopicResult,
)


class DeleteRecordsHandler:
    """The handler of DeleteRecords. Used on one event loop."""

    def __init__(
        self,
        replicas: ReplicaExecutor,
        *,
        is_live: Callable[[int], bool] = lambda broker: True,
        is_known: Callable[[TopicPartition], bool] = lambda tp: False,
    ) -> None:
        """
        Args:
            is_live: whether a broker is live, by the last UpdateMetadata; others are not waited for.
            is_known: whether a partition exists, by the last UpdateMetadata (error 6 instead of 3).
        """
        self._replicas = replicas
        self._is_live = is_live
        self._is_known = is_known

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
        rows: dict[str, list[DeleteRecordsResult]] = {}
        for tp in offsets:
            error, low_watermark = results[tp]
            if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._is_known(tp):
                error = ErrorCode.NOT_LEADER_FOR_PARTITION
            rows.setdefault(tp.topic, []).append(DeleteRecordsResult(tp.partition, low_watermark, error))
        topics = tuple(DeleteRecordsTopicResult(topic, tuple(each)) for topic, each in rows.items())
        return DeleteRecordsResponse(0, topics)

    async def _delete(
        self, offsets: dict[TopicPartition, int], timeout_ms: int
    ) -> dict[TopicPartition, DeletedRecords]:
        """Deletes on the thread of the replicas, all partitions in one call."""
        until = asyncio.get_running_loop().time() + max(0, timeout_ms) / 1000
        watch = PartitionWatch(self._replicas)
        begun: list[DelayedDeleteRecords] = []

        def attempt(replicas: ReplicaManager) -> bool:
            if not begun:
                begun.append(DelayedDeleteRecords(replicas, offsets, self._is_live))
                for tp in begun[0].waiting:
                    watch.add(tp)
            is_complete = begun[0].check(replicas)
            if is_complete:
                watch.close()
            return is_complete

        try:
            if not await self._replicas.complete(watch, attempt, until):
                await self._replicas.call(begun[0].check)  # a broker that was waited for may have ended
        finally:
            if watch.is_open:
                self._replicas.post(lambda replicas: watch.close())
        return begun[0].results
