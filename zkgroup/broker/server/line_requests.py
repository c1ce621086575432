"""AppendLines, FetchLines and FailedReplicas: zkgroup's own requests.

`LineRequests` decides the answer to AppendLines and FetchLines, and whether it is delayed. `LineHandlers`
waits on its event loop, the simulated broker between its steps.
"""

from __future__ import annotations

import asyncio
import dataclasses

from zkgroup.broker.replicas.actions import failed_replicas
from zkgroup.broker.replicas.executor import ReplicaExecutor
from zkgroup.broker.replicas.line_fetches import fetch_lines, no_lines
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.replicas.min_insync import MinInsync
from zkgroup.broker.server.fetch_handler import FETCH_WAIT_MAX_MS
from zkgroup.broker.server.handlers import RequestContext
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.replica_host import (
    ACKS_ALL,
    ACKS_LEADER,
    CONSUMER,
    OBSERVER,
    AppendLinesRequest,
    AppendLinesResponse,
    FailedReplicasRequest,
    FailedReplicasResponse,
    FetchLinesRequest,
    FetchLinesResponse,
)


class LineRequests:
    """Decides the answers to AppendLines and FetchLines. Used on the thread of the replicas."""

    def __init__(self, min_insync: MinInsync | None = None) -> None:
        """`min_insync`: None appends with acks=all without a check of the ISR size."""
        self._min_insync = min_insync

    # --- append -----------------------------------------------------------------------------------

    def append(self, replicas: ReplicaManager, request: AppendLinesRequest) -> AppendLinesResponse:
        """Appends lines; with acks=all and too few in-sync replicas it appends none and returns error 19."""
        if request.acks not in (ACKS_LEADER, ACKS_ALL):
            return AppendLinesResponse(ErrorCode.INVALID_RECORD, -1, -1)
        if request.acks == ACKS_ALL and self._lacks(replicas, _partition(request)):
            return AppendLinesResponse(ErrorCode.NOT_ENOUGH_REPLICAS, -1, -1)
        return replicas.append_lines(request)

    @staticmethod
    def must_wait(request: AppendLinesRequest, response: AppendLinesResponse) -> bool:
        """Whether the answer is delayed after `append`, until `replicated` returns it."""
        return response.error == ErrorCode.NONE and request.acks == ACKS_ALL

    def replicated(
        self, replicas: ReplicaManager, request: AppendLinesRequest, response: AppendLinesResponse
    ) -> AppendLinesResponse | None:
        """The answer once the high watermark has passed the lines, or error 6 if it leads no more; else None.

        Nothing else ends the wait, because the producer cannot learn the outcome in another way. A new leader
        epoch of the same leader does not end it: the lines are still in its log. The answer is error 20 if
        too few replicas are in sync at the end of the wait.
        """
        tp, wanted = _partition(request), response.base_offset + len(request.lines)
        reached = replicas.high_watermark(tp) if replicas.keeps(tp, request.leader_epoch, wanted) else None
        if reached is None:  # another leader may have truncated the lines
            error = ErrorCode.NOT_LEADER_FOR_PARTITION
            return dataclasses.replace(response, error=error, high_watermark=-1)
        if reached < wanted:
            return None
        if self._lacks(replicas, tp):
            error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            return dataclasses.replace(response, error=error, high_watermark=-1)
        return dataclasses.replace(response, high_watermark=reached)

    def _lacks(self, replicas: ReplicaManager, tp: TopicPartition) -> bool:
        """Whether this replica leads and too few replicas are in sync."""
        if self._min_insync is None or (counted := replicas.maximal_isr_size(tp)) is None:
            return False
        return self._min_insync.lacks(tp, counted)

    # --- fetch ------------------------------------------------------------------------------------

    @staticmethod
    def says_nothing(first: FetchLinesResponse, response: FetchLinesResponse) -> bool:
        """Whether the answer is delayed further: it has no batch, and the high watermark is unchanged."""
        if response.error != ErrorCode.NONE or response.records or response.diverging is not None:
            return False
        return response.high_watermark == first.high_watermark


def _partition(request: AppendLinesRequest) -> TopicPartition:
    return TopicPartition(request.topic, request.partition)


class LineHandlers:
    """The handlers of AppendLines, FetchLines and FailedReplicas. Used on one event loop."""

    def __init__(self, replicas: ReplicaExecutor, lines: LineRequests) -> None:
        """`lines` decides the answers."""
        self._replicas = replicas
        self._lines = lines

    async def failed_replicas(
        self, context: RequestContext, request: FailedReplicasRequest
    ) -> FailedReplicasResponse:
        """The failed replicas of this broker."""
        return await self._replicas.call(failed_replicas)

    async def append(self, context: RequestContext, request: AppendLinesRequest) -> AppendLinesResponse:
        """Appends lines; with acks=all it waits for the answer of `LineRequests.replicated`.

        Only that answer, the end of the connection and `close` end the wait.
        """
        lines = self._lines
        with self._replicas.changed(TopicPartition(request.topic, request.partition)) as change:
            response = await self._replicas.call(lambda one: lines.append(one, request))
            if not lines.must_wait(request, response):
                return response
            while (
                answer := await self._replicas.call(lambda one: lines.replicated(one, request, response))
            ) is None:
                await change.wait()
                change.clear()
            return answer

    async def fetch(self, context: RequestContext, request: FetchLinesRequest) -> FetchLinesResponse:
        """Answers a fetch; it waits up to `max_wait_ms` for a batch or a change of the high watermark."""
        if request.replica_id not in (CONSUMER, OBSERVER):
            return no_lines(ErrorCode.UNSUPPORTED_VERSION)  # followers use Fetch
        with self._replicas.changed(TopicPartition(request.topic, request.partition)) as change:
            first = response = await self._replicas.call(lambda one: fetch_lines(one, request))
            try:
                wait_ms = min(max(0, request.max_wait_ms), FETCH_WAIT_MAX_MS)
                async with asyncio.timeout(wait_ms / 1000):
                    while self._lines.says_nothing(first, response):
                        await change.wait()
                        change.clear()
                        response = await self._replicas.call(lambda one: fetch_lines(one, request, held=True))
            except TimeoutError:
                pass
            return response


async def no_failed_replicas(
    context: RequestContext, request: FailedReplicasRequest
) -> FailedReplicasResponse:
    """The answer of a broker without replicas."""
    return FailedReplicasResponse()
