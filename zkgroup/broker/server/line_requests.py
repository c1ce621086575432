"""What a broker answers to requests for lines, and which of them wait. Pure but for the host.

`BrokerApis` lets them wait on its event loop, the simulated broker from one of its steps to the next; what
each of them is answered, and when, both decide by this.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from zkgroup.broker.machine.events import FollowerFetched
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.replicas.min_insync import MinInsync
from zkgroup.broker.replicas.replica import no_fetch
from zkgroup.model import TopicPartition
from zkgroup.wire.error_codes import ErrorCode
from zkgroup.wire.replica_host import (
    ACKS_ALL,
    ACKS_LEADER,
    CONSUMER,
    OBSERVER,
    AppendLinesRequest,
    AppendLinesResponse,
    FetchLinesRequest,
    FetchLinesResponse,
)


class LineRequests:
    """The rules of one broker. Used on the thread of the replicas, except for `refused`."""

    def __init__(self, is_live: Callable[[int], bool], min_insync: MinInsync | None = None) -> None:
        """is_live: whether the controller has said that a broker lives. One that fetches all the same is a
        former incarnation (77), and may follow a topic that was deleted without it (ADR 0024).
        min_insync: None where lines are taken however few are in sync.
        """
        self._is_live = is_live
        self._min_insync = min_insync

    # --- append -----------------------------------------------------------------------------------

    def append(self, host: ReplicaManager, request: AppendLinesRequest) -> AppendLinesResponse:
        """Appends; with acks=all and too few in sync nothing, error 19."""
        if request.acks not in (ACKS_LEADER, ACKS_ALL):
            return AppendLinesResponse(ErrorCode.INVALID_RECORD, -1, -1)
        if request.acks == ACKS_ALL and self._lacks(host, _partition(request)):
            return AppendLinesResponse(ErrorCode.NOT_ENOUGH_REPLICAS, -1, -1)
        return host.append(request)

    @staticmethod
    def must_wait(request: AppendLinesRequest, response: AppendLinesResponse) -> bool:
        """Whether what `append` returned is not the answer yet: `replicated` has it."""
        return response.error == ErrorCode.NONE and request.acks == ACKS_ALL

    def replicated(
        self, host: ReplicaManager, request: AppendLinesRequest, response: AppendLinesResponse
    ) -> AppendLinesResponse | None:
        """The answer once the high watermark has passed the lines, or 6 if another leads first; else None.

        Nothing but that ends the wait: the producer has no other way to learn of it. A new term of this same
        leader does not: the lines are where they were. With too few in sync by then it is 20.
        """
        tp, wanted = _partition(request), response.base_offset + len(request.lines)
        reached = host.high_watermark(tp) if host.keeps(tp, request.leader_epoch, wanted) else None
        if reached is None:  # another may have taken them away
            error = ErrorCode.NOT_LEADER_FOR_PARTITION
            return dataclasses.replace(response, error=error, high_watermark=-1)
        if reached < wanted:
            return None
        if self._lacks(host, tp):
            error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            return dataclasses.replace(response, error=error, high_watermark=-1)
        return dataclasses.replace(response, high_watermark=reached)

    def _lacks(self, host: ReplicaManager, tp: TopicPartition) -> bool:
        """Whether this replica leads and too few are in sync."""
        if self._min_insync is None or (counted := host.maximal_isr_size(tp)) is None:
            return False
        return self._min_insync.lacks(tp, counted)

    # --- fetch ------------------------------------------------------------------------------------

    def refused(self, request: FetchLinesRequest) -> FetchLinesResponse | None:
        """The answer to a broker that the controller has not called alive."""
        if is_of_follower(request) and not self._is_live(request.replica_id):
            return no_fetch(ErrorCode.STALE_BROKER_EPOCH)
        return None

    @staticmethod
    def says_nothing(first: FetchLinesResponse, response: FetchLinesResponse) -> bool:
        """Whether the request waits on: there is no line for it, and no change of the watermark."""
        if response.error != ErrorCode.NONE or response.batches or response.diverging is not None:
            return False
        return response.high_watermark == first.high_watermark


def is_of_follower(request: FetchLinesRequest) -> bool:
    """Whether a broker asks, and no consumer or observer."""
    return request.replica_id not in (CONSUMER, OBSERVER)


def follower_fetched(request: FetchLinesRequest, response: FetchLinesResponse) -> FollowerFetched | None:
    """What the machine learns of a fetch that was answered."""
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
