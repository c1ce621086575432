"""The answer to each request that reaches a broker's port.

The three requests of the controller are handled one at a time, by one task. Metadata and coordinators come
from the metadata cache, also while ZooKeeper cannot be reached. Lines come from the `ReplicaManager`. zkgroup
brokers have no Kafka records: requests for them are answered with error 6, so that clients ask another leader
(kafka/server/KafkaApis.scala@0.8.2.2).

`LineRequests` decides what a request for lines is answered, and whether it waits. `BrokerApis` lets it wait
on its event loop, the simulated broker from one of its steps to the next.
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
        if response.error != ErrorCode.NONE or response.records or response.diverging is not None:
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


_log = logging.getLogger("zkgroup.broker")

FETCH_WAIT_MAX_MS = 30_000
"""No fetch waits longer, whatever it asks for: who asks may be gone without a sign."""


class MetadataSource(Protocol):
    """Where metadata of the cluster come from: a `MetadataCache`, or the context of a controller."""

    def prepare(self, topics: Iterable[str]) -> Iterator[None]: ...

    def metadata(self, topics: Iterable[str]) -> MetadataResponse: ...

    def coordinator(self, group: str) -> FindCoordinatorResponse: ...


class RequestObserver(Protocol):
    """Is notified of handled requests, on the loop, before the answer is sent. Must not raise."""

    def on_action(self, action: Action, error: int) -> None:
        """The replica manager has done what the controller said (`ErrorCode.NONE`), or could not."""
        ...

    def on_fetch(self, request: FetchLinesRequest, response: FetchLinesResponse) -> None:
        """A follower has fetched lines from this broker."""
        ...

    def on_leader_and_isr(self, request: LeaderAndIsrRequest) -> None:
        """A LeaderAndIsr was applied, as far as it is not older than what is known.

        Not called for one that was being handled when the control queue was dropped.
        """
        ...

    def on_stray_replicas(self, partitions: Sequence[TopicPartition]) -> None:
        """Lines are kept here of partitions that a controller's first LeaderAndIsr did not name."""
        ...


class LeaderQuota(Protocol):
    """How fast lines may be sent to followers that lag (KIP-73). Times in seconds of the loop's clock."""

    def holds(self, tp: TopicPartition) -> bool: ...

    def free_at(self, tp: TopicPartition) -> float: ...

    def took(self, tp: TopicPartition, size: int, now: float) -> None: ...


class BrokerApis:
    """Answers requests. Made and used on one event loop; `close` ends its task.

    Args:
        broker: the own id.
        control_requests: handles LeaderAndIsr, StopReplica and UpdateMetadata.
        metadata: for Metadata and FindCoordinator.
        clock: for the age of the metadata.
        host: None for a broker that hosts nothing: it can neither lead nor follow (56), and a request for
            lines closes the connection.
        controlled_shutdown: asks the controller that runs in this process, by the id of the broker that
            stops; None where none does.
        observer: is notified of handled requests.
        leader_quota: None where lines are sent without a bound.
        accepts_control: whether control requests are handled now. Where not, they close the connection: they
            are meant for a former start, or session, whose registration still stands (K8).
        is_live: whether the controller has said that a broker lives. One that fetches all the same is a
        former
            incarnation (77), and may follow a topic that was deleted without it and made again (ADR 0024).
        min_insync: None where lines are taken however few replicas are in sync.
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
        """Epoch of the controller whose first LeaderAndIsr was obeyed last."""
        self._accepts_control = accepts_control
        self._lines = LineRequests(is_live, min_insync)
        self._control_queue = ControlQueue(broker, self._handle)

    async def respond(self, request: Request) -> Response | None:
        """The answer to a request; None where there is none and the connection is to be closed.

        Cancelled, it gives up waiting; what a host or controller was already asked is done all the same.
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
        """Ends the task. What waits for it is cancelled."""
        await self._control_queue.close()

    # --- the controller's requests --------------------------------------------------------------

    def drop_control_requests(self, then: Callable[[], None]) -> None:
        """Refuses those that wait; `then` is called when the one under way is over, or now."""
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
        """Once for each controller: its first LeaderAndIsr names all that has a place here (recipes 15)."""
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
        """Has the host do what the handler yields; all of it in one visit to the host's thread."""
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
        """Only an answer, the end of the connection and `close` end the wait for the high watermark."""
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
        """Waits up to `max_wait_ms` while there is nothing to say."""
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
        """The answer, later or without its lines where the bound is reached.

        A follower at the high watermark is in sync, or about to be, and is never slowed down.
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
    """The metadata of these topics, or all; the loop does other things between its pieces."""
    for _ in metadata.prepare(topics):
        await asyncio.sleep(0)
    return metadata.metadata(topics)


# --- on the host's thread -------------------------------------------------------------------------


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
    """What fails by a mistake of the host fails for one partition: -1, and the others are done."""
    try:
        return perform(host, broker, action)
    except Exception:  # noqa: BLE001
        _log.exception("broker %d: %s failed", broker, action)
        return ErrorCode.UNKNOWN


def _refuse(action: Action) -> int:
    """Of a broker that hosts nothing: there is nothing to stop, and it has no place for lines."""
    return (
        ErrorCode.NONE if isinstance(action, StopReplica | DeleteReplica) else ErrorCode.KAFKA_STORAGE_ERROR
    )


_ERROR = ErrorCode.NOT_LEADER_FOR_PARTITION


def refuse_produce(request: ProduceRequest) -> ProduceResponse | None:
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


def refuse_fetch(request: FetchRequest) -> FetchResponse:
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


def refuse_list_offsets(request: ListOffsetsRequest) -> ListOffsetsResponse:
    """No offset."""
    return ListOffsetsResponse(
        tuple(
            ListedTopic(
                topic.topic, tuple(ListedPartition(one.partition, _ERROR, ()) for one in topic.partitions)
            )
            for topic in request.topics
        )
    )
