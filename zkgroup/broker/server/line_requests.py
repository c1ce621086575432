"""AppendLines, FetchLines and FailedReplicas: zkgroup's own requests.

`LineRequests` decides the answer to AppendLines and FetchLines, and whether it is delayed. `LineHandlers`
waits on its event loop, the simulated broker between its steps.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Protocol

from zkgroup.broker.machine.events import FollowerFetched
from zkgroup.broker.replicas.actions import failed_replicas
from zkgroup.broker.replicas.executor import ReplicaExecutor
from zkgroup.broker.replicas.line_fetches import fetch_lines, no_lines
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.replicas.min_insync import MinInsync
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

    def __init__(self, is_live: Callable[[int], bool], min_insync: MinInsync | None = None) -> None:
        """
        Args:
            is_live: whether a broker is live, by the last UpdateMetadata. A fetch of another broker comes
                from an earlier incarnation (77), which may follow a deleted topic (ADR 0024).
            min_insync: None appends with acks=all without a check of the ISR size.
        """
        self._is_live = is_live
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

    def refused(self, request: FetchLinesRequest) -> FetchLinesResponse | None:
        """The answer to a broker that is not live by the last UpdateMetadata; None for others.

        May be called on any thread.
        """
        if is_of_follower(request) and not self._is_live(request.replica_id):
            return no_lines(ErrorCode.STALE_BROKER_EPOCH)
        return None

    @staticmethod
    def says_nothing(first: FetchLinesResponse, response: FetchLinesResponse) -> bool:
        """Whether the answer is delayed further: it has no batch, and the high watermark is unchanged."""
        if response.error != ErrorCode.NONE or response.records or response.diverging is not None:
            return False
        return response.high_watermark == first.high_watermark


def is_of_follower(request: FetchLinesRequest) -> bool:
    """Whether a fetch comes from a broker, not from a consumer or observer."""
    return request.replica_id not in (CONSUMER, OBSERVER)


def follower_fetched(request: FetchLinesRequest, response: FetchLinesResponse) -> FollowerFetched | None:
    """The event for the machine after a follower's fetch was answered; None for another fetch or an error."""
    if not is_of_follower(request) or response.error != ErrorCode.NONE or response.diverging is not None:
        return None
    return FollowerFetched(
        TopicPartition(request.topic, request.partition),
        request.replica_id,
        request.offset,
        response.log_end_offset,
        response.high_watermark,
    )


def _partition(request: AppendLinesRequest) -> TopicPartition:
    return TopicPartition(request.topic, request.partition)


FETCH_WAIT_MAX_MS = 30_000
"""Longest delay of a fetch, whatever its `max_wait_ms`: the client may be gone without closing its socket."""


class FetchObserver(Protocol):
    """Receives notifications of answered fetches, on the loop, before the answer is sent. Must not raise."""

    def on_fetch(self, request: FetchLinesRequest, response: FetchLinesResponse) -> None:
        """A follower has fetched lines from this broker."""
        ...


class LeaderQuota(Protocol):
    """The throttle for batches that a leader sends to followers that lag (KIP-73). Times in seconds."""

    def holds(self, tp: TopicPartition) -> bool: ...

    def free_at(self, tp: TopicPartition) -> float: ...

    def took(self, tp: TopicPartition, size: int, now: float) -> None: ...


class LineHandlers:
    """The handlers of AppendLines, FetchLines and FailedReplicas. Used on one event loop."""

    def __init__(
        self,
        replicas: ReplicaExecutor,
        lines: LineRequests,
        observer: FetchObserver | None = None,
        leader_quota: LeaderQuota | None = None,
    ) -> None:
        """
        Args:
            lines: decides the answers.
            observer: is notified of the fetches of followers.
            leader_quota: None sends batches without a throttle.
        """
        self._replicas = replicas
        self._lines = lines
        self._observer = observer
        self._leader_quota = leader_quota

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
        if (refusal := self._lines.refused(request)) is not None:
            return refusal
        with self._replicas.changed(TopicPartition(request.topic, request.partition)) as change:
            first = response = await self._replicas.call(lambda one: fetch_lines(one, request))
            self._observe(request, response)
            try:
                wait_ms = min(max(0, request.max_wait_ms), FETCH_WAIT_MAX_MS)
                async with asyncio.timeout(wait_ms / 1000):
                    while self._lines.says_nothing(first, response):
                        await change.wait()
                        change.clear()
                        response = await self._replicas.call(lambda one: fetch_lines(one, request, held=True))
                        self._observe(request, response)
            except TimeoutError:
                pass
            return await self._throttled(request, response)

    async def _throttled(
        self, request: FetchLinesRequest, response: FetchLinesResponse
    ) -> FetchLinesResponse:
        """Delays the answer to a throttled follower, or sends it without batches after `max_wait_ms`.

        A follower at the high watermark is in sync, or soon will be, and is never throttled.
        """
        tp, leader_quota = TopicPartition(request.topic, request.partition), self._leader_quota
        lags = is_of_follower(request) and request.offset < response.high_watermark
        if leader_quota is None or not lags or not response.records or not leader_quota.holds(tp):
            return response
        loop = asyncio.get_running_loop()
        until = loop.time() + min(max(0, request.max_wait_ms), FETCH_WAIT_MAX_MS) / 1000
        while (free_at := leader_quota.free_at(tp)) > (now := loop.time()):
            if now >= until:
                return dataclasses.replace(response, records=b"")
            await asyncio.sleep(min(free_at, until) - now)
        leader_quota.took(tp, len(response.records), now)
        return response

    def _observe(self, request: FetchLinesRequest, response: FetchLinesResponse) -> None:
        if self._observer is not None and is_of_follower(request):
            self._observer.on_fetch(request, response)


async def no_failed_replicas(
    context: RequestContext, request: FailedReplicasRequest
) -> FailedReplicasResponse:
    """The answer of a broker without replicas."""
    return FailedReplicasResponse()
