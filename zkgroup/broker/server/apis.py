"""The answers to the requests at a broker's port.

One task handles the three requests of the controller, one at a time. Metadata and coordinators come from the
metadata cache, also without a connection to ZooKeeper. AppendLines and FetchLines go to the `ReplicaManager`.
Produce, Fetch and ListOffsets are refused with error 6, so that clients ask another leader
(kafka/server/KafkaApis.scala@0.8.2.2).

`LineRequests` decides the answer to AppendLines and FetchLines, and whether it is delayed. `BrokerApis` waits
on its event loop, the simulated broker between its steps.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Protocol

from zkgroup.broker.machine.events import FollowerFetched
from zkgroup.broker.replicas.actions import failed_replicas, partitions_without_role, perform
from zkgroup.broker.replicas.executor import ReplicaExecutor
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.replicas.min_insync import MinInsync
from zkgroup.broker.replicas.replica import no_fetch
from zkgroup.broker.server.control_requests import (
    Action,
    ControlQueue,
    ControlRequest,
    ControlRequestHandler,
    DeleteReplica,
    Handling,
    ResponseT,
    StopReplica,
)
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock
from zkgroup.wire.control import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from zkgroup.wire.messages import ErrorCode, Request, Response
from zkgroup.wire.metadata import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
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

    def append(self, host: ReplicaManager, request: AppendLinesRequest) -> AppendLinesResponse:
        """Appends lines; with acks=all and too few in-sync replicas it appends none and returns error 19."""
        if request.acks not in (ACKS_LEADER, ACKS_ALL):
            return AppendLinesResponse(ErrorCode.INVALID_RECORD, -1, -1)
        if request.acks == ACKS_ALL and self._lacks(host, _partition(request)):
            return AppendLinesResponse(ErrorCode.NOT_ENOUGH_REPLICAS, -1, -1)
        return host.append_lines(request)

    @staticmethod
    def must_wait(request: AppendLinesRequest, response: AppendLinesResponse) -> bool:
        """Whether the answer is delayed after `append`, until `replicated` returns it."""
        return response.error == ErrorCode.NONE and request.acks == ACKS_ALL

    def replicated(
        self, host: ReplicaManager, request: AppendLinesRequest, response: AppendLinesResponse
    ) -> AppendLinesResponse | None:
        """The answer once the high watermark has passed the lines, or error 6 if it leads no more; else None.

        Nothing else ends the wait, because the producer cannot learn the outcome in another way. A new leader
        epoch of the same leader does not end it: the lines are still in its log. The answer is error 20 if
        too few replicas are in sync at the end of the wait.
        """
        tp, wanted = _partition(request), response.base_offset + len(request.lines)
        reached = host.high_watermark(tp) if host.keeps(tp, request.leader_epoch, wanted) else None
        if reached is None:  # another leader may have truncated the lines
            error = ErrorCode.NOT_LEADER_FOR_PARTITION
            return dataclasses.replace(response, error=error, high_watermark=-1)
        if reached < wanted:
            return None
        if self._lacks(host, tp):
            error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            return dataclasses.replace(response, error=error, high_watermark=-1)
        return dataclasses.replace(response, high_watermark=reached)

    def _lacks(self, host: ReplicaManager, tp: TopicPartition) -> bool:
        """Whether this replica leads and too few replicas are in sync."""
        if self._min_insync is None or (counted := host.maximal_isr_size(tp)) is None:
            return False
        return self._min_insync.lacks(tp, counted)

    # --- fetch ------------------------------------------------------------------------------------

    def refused(self, request: FetchLinesRequest) -> FetchLinesResponse | None:
        """The answer to a broker that is not live by the last UpdateMetadata; None for others.

        May be called on any thread.
        """
        if is_of_follower(request) and not self._is_live(request.replica_id):
            return no_fetch(ErrorCode.STALE_BROKER_EPOCH)
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


_log = logging.getLogger("zkgroup.broker")

FETCH_WAIT_MAX_MS = 30_000
"""Longest delay of a fetch, whatever its `max_wait_ms`: the client may be gone without closing its socket."""


class MetadataSource(Protocol):
    """The source of cluster metadata: a `MetadataCache`, or the context of a controller."""

    def prepare(self, topics: Iterable[str]) -> Iterator[None]: ...

    def metadata(self, topics: Iterable[str]) -> MetadataResponse: ...

    def coordinator(self, group: str) -> FindCoordinatorResponse: ...


class RequestObserver(Protocol):
    """Receives notifications of handled requests, on the loop, before the answer is sent. Must not raise."""

    def on_action(self, action: Action, error: int) -> None:
        """The replica manager has performed an action of the controller, with this error code."""
        ...

    def on_fetch(self, request: FetchLinesRequest, response: FetchLinesResponse) -> None:
        """A follower has fetched lines from this broker."""
        ...

    def on_leader_and_isr(self, request: LeaderAndIsrRequest) -> None:
        """A LeaderAndIsr was applied, except for partitions with a stale leader epoch.

        Not called for a request that was in progress when the control queue was dropped.
        """
        ...

    def on_stray_replicas(self, partitions: Sequence[TopicPartition]) -> None:
        """This broker has logs of partitions that a controller's first LeaderAndIsr does not name."""
        ...


class LeaderQuota(Protocol):
    """The throttle for batches that a leader sends to followers that lag (KIP-73). Times in seconds."""

    def holds(self, tp: TopicPartition) -> bool: ...

    def free_at(self, tp: TopicPartition) -> float: ...

    def took(self, tp: TopicPartition, size: int, now: float) -> None: ...


class BrokerApis:
    """Answers the requests at a broker's port. Made and used on one event loop; `close` ends its task.

    Args:
        broker: the id of this broker.
        control_requests: handles LeaderAndIsr, StopReplica and UpdateMetadata.
        metadata: answers Metadata and FindCoordinator.
        clock: gives the time of each UpdateMetadata.
        host: None for a broker without replicas: it can neither lead nor follow (56), and AppendLines and
            FetchLines close the connection.
        controlled_shutdown: asks the controller in this process, with the id of the broker that stops; None
            without a controller.
        observer: is notified of handled requests.
        leader_quota: None sends batches without a throttle.
        accepts_control: whether control requests are handled now. Otherwise they close the connection: they
            were sent for an earlier start or session, whose registration still exists (K8).
        is_live: whether a broker is live, by the last UpdateMetadata. A fetch of another broker comes from an
            earlier incarnation (77), which may follow a topic that was deleted and created again (ADR 0024).
        min_insync: None appends with acks=all without a check of the ISR size.
    """

    def __init__(
        self,
        *,
        broker: int,
        control_requests: ControlRequestHandler,
        metadata: MetadataSource,
        clock: Clock,
        host: ReplicaExecutor | None = None,
        controlled_shutdown: Callable[[int], Awaitable[ControlledShutdownResponse]] | None = None,
        observer: RequestObserver | None = None,
        leader_quota: LeaderQuota | None = None,
        accepts_control: Callable[[], bool] = lambda: True,
        is_live: Callable[[int], bool] = lambda broker: True,
        min_insync: MinInsync | None = None,
    ) -> None:
        self._broker = broker
        self._control_requests = control_requests
        self._metadata = metadata
        self._clock = clock
        self._host = host
        self._controlled_shutdown = controlled_shutdown
        self._observer = observer
        self._leader_quota = leader_quota
        self._stray_replicas_reported_for: int | None = None
        """The controller epoch for which stray replicas were reported last."""
        self._accepts_control = accepts_control
        self._lines = LineRequests(is_live, min_insync)
        self._control_queue = ControlQueue(broker, self._handle)

    async def respond(self, request: Request) -> Response | None:
        """Answers a request; None closes the connection without an answer.

        Cancellation ends the wait, but calls of the replica manager or controller that have begun are
        completed.
        """
        match request:
            case MetadataRequest():
                return await metadata_response(self._metadata, request.names)
            case FindCoordinatorRequest():
                return self._metadata.coordinator(request.key)
            case LeaderAndIsrRequest() | StopReplicaRequest() | UpdateMetadataRequest():
                return await self._queue_control_request(request)
            case AppendLinesRequest():
                return None if self._host is None else await self._append(request, self._host)
            case FetchLinesRequest():
                return None if self._host is None else await self._fetch(request, self._host)
            case FailedReplicasRequest():
                return (
                    FailedReplicasResponse() if self._host is None else await self._host.call(failed_replicas)
                )
            case ControlledShutdownRequest():
                return await self._shut_down(request)
            case ProduceRequest():
                return refuse_produce(request)
            case FetchRequest():
                return refuse_fetch(request)
            case ListOffsetsRequest():
                return refuse_list_offsets(request)
            case _:
                return None

    async def close(self) -> None:
        """Ends the task of the control requests; requests in its queue are cancelled."""
        await self._control_queue.close()

    # --- the controller's requests --------------------------------------------------------------

    def drop_control_requests(self, then: Callable[[], None]) -> None:
        """Refuses the queued control requests; `then` is called after the request in progress, or now."""
        self._control_queue.drop(then)

    async def _queue_control_request(self, request: ControlRequest) -> Response | None:
        return await self._control_queue.submit(request) if self._accepts_control() else None

    async def _handle(self, request: ControlRequest) -> Response:
        match request:
            case UpdateMetadataRequest():
                return self._control_requests.update_metadata(request, self._clock.now_ms())
            case LeaderAndIsrRequest():
                generation = self._control_queue.generation
                response = await self._drive(self._control_requests.leader_and_isr(request))
                if response.error == ErrorCode.NONE:
                    if self._observer is not None and generation == self._control_queue.generation:
                        self._observer.on_leader_and_isr(request)
                    await self._report_stray_replicas(request.controller_epoch)
                return response
            case _:
                return await self._drive(self._control_requests.stop_replica(request))

    async def _report_stray_replicas(self, controller_epoch: int) -> None:
        """Reports the stray replicas once for each controller epoch.

        A controller's first LeaderAndIsr names all replicas of this broker (recipes 15).
        """
        if (
            self._host is None
            or self._observer is None
            or controller_epoch == self._stray_replicas_reported_for
        ):
            return
        self._stray_replicas_reported_for = controller_epoch
        if found := await self._host.call(partitions_without_role):
            self._observer.on_stray_replicas(found)

    async def _drive(self, handling: Handling[ResponseT]) -> ResponseT:
        """Performs the actions that a handler yields, in one call on the thread of the replicas."""
        done: list[tuple[Action, int]] = []
        if self._host is None:
            response = _driven(handling, _refuse, done)
        else:
            response = await self._host.call(
                lambda host: _driven(handling, lambda action: _perform(host, self._broker, action), done)
            )
        if self._observer is not None:
            for action, error in done:
                self._observer.on_action(action, error)
        return response

    async def _shut_down(self, request: ControlledShutdownRequest) -> ControlledShutdownResponse:
        if self._controlled_shutdown is None:
            return ControlledShutdownResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
        return await self._controlled_shutdown(request.broker)

    # --- lines ----------------------------------------------------------------------------------

    async def _append(self, request: AppendLinesRequest, host: ReplicaExecutor) -> AppendLinesResponse:
        """Appends lines; with acks=all it waits for the answer of `LineRequests.replicated`.

        Only that answer, the end of the connection and `close` end the wait.
        """
        lines = self._lines
        with host.changed(TopicPartition(request.topic, request.partition)) as change:
            response = await host.call(lambda one: lines.append(one, request))
            if not lines.must_wait(request, response):
                return response
            while (answer := await host.call(lambda one: lines.replicated(one, request, response))) is None:
                await change.wait()
                change.clear()
            return answer

    async def _fetch(self, request: FetchLinesRequest, host: ReplicaExecutor) -> FetchLinesResponse:
        """Answers a fetch; it waits up to `max_wait_ms` for a batch or a change of the high watermark."""
        if (refusal := self._lines.refused(request)) is not None:
            return refusal
        with host.changed(TopicPartition(request.topic, request.partition)) as change:
            first = response = await host.call(lambda one: one.fetch(request))
            self._observe(request, response)
            try:
                wait_ms = min(max(0, request.max_wait_ms), FETCH_WAIT_MAX_MS)
                async with asyncio.timeout(wait_ms / 1000):
                    while self._lines.says_nothing(first, response):
                        await change.wait()
                        change.clear()
                        response = await host.call(lambda one: one.fetch(request, held=True))
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


async def metadata_response(metadata: MetadataSource, topics: Sequence[str]) -> MetadataResponse:
    """The metadata of these topics, or of all; it yields to the event loop between batches of partitions."""
    for _ in metadata.prepare(topics):
        await asyncio.sleep(0)
    return metadata.metadata(topics)


# --- on the thread of the replicas ----------------------------------------------------------------


def _driven(
    handling: Handling[ResponseT], perform: Callable[[Action], int], done: list[tuple[Action, int]]
) -> ResponseT:
    try:
        action = next(handling)
        while True:
            error = perform(action)
            done.append((action, error))
            action = handling.send(error)
    except StopIteration as end:
        response: ResponseT = end.value
        return response


def _perform(host: ReplicaManager, broker: int, action: Action) -> int:
    """Performs an action; a bug of the replica manager is error -1 of this partition, and is logged."""
    try:
        return perform(host, broker, action)
    except Exception:  # noqa: BLE001
        _log.exception("broker %d: %s failed", broker, action)
        return ErrorCode.UNKNOWN


def _refuse(action: Action) -> int:
    """The error code of an action at a broker without replicas: 0 for a stop or deletion, else 56."""
    return (
        ErrorCode.NONE if isinstance(action, StopReplica | DeleteReplica) else ErrorCode.KAFKA_STORAGE_ERROR
    )


_ERROR = ErrorCode.NOT_LEADER_FOR_PARTITION


def refuse_produce(request: ProduceRequest) -> ProduceResponse | None:
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


def refuse_fetch(request: FetchRequest) -> FetchResponse:
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


def refuse_list_offsets(request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Refuses all partitions, without offsets."""
    return ListOffsetsResponse(
        tuple(
            ListedTopic(
                topic.topic, tuple(ListedPartition(one.partition, _ERROR, ()) for one in topic.partitions)
            )
            for topic in request.topics
        )
    )
