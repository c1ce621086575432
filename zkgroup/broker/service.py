"""What a broker answers to each request that reaches its port.

The three requests of the controller are handled one at a time, by one task. Metadata and coordinators come
from the metadata cache, whatever has become of ZooKeeper. Lines are the host's. Kafka's own records are
hosted by nobody here: who asks for them is told to look for another leader.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Protocol

from zkgroup.broker.elsewhere import fetched_elsewhere, listed_elsewhere, produced_elsewhere
from zkgroup.broker.host_questions import failed, without_role
from zkgroup.broker.host_thread import HostThread
from zkgroup.broker.line_requests import LineRequests, is_of_follower
from zkgroup.broker.min_insync import MinInsync
from zkgroup.broker.orders import ControlRequest, Orders
from zkgroup.broker.receiver import (
    Action,
    Delete,
    Handling,
    Receiver,
    ResponseT,
    Stop,
)
from zkgroup.broker.replica_host import ReplicaHost
from zkgroup.broker.roles import perform
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock
from zkgroup.wire.control import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from zkgroup.wire.error_codes import ErrorCode
from zkgroup.wire.messages import Request, Response
from zkgroup.wire.metadata import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from zkgroup.wire.records import FetchRequest, ListOffsetsRequest, ProduceRequest
from zkgroup.wire.replica_host import (
    AppendLinesRequest,
    AppendLinesResponse,
    FailedReplicasRequest,
    FailedReplicasResponse,
    FetchLinesRequest,
    FetchLinesResponse,
)

_log = logging.getLogger("zkgroup.broker")

FETCH_WAIT_MAX_MS = 30_000
"""No fetch waits longer, whatever it asks for: who asks may be gone without a sign."""


class Answers(Protocol):
    """Where answers about the cluster come from: a `MetadataCache`, or a controller's own picture."""

    def prepare(self, topics: Iterable[str]) -> Iterator[None]: ...

    def metadata(self, topics: Iterable[str]) -> MetadataResponse: ...

    def coordinator(self, group: str) -> FindCoordinatorResponse: ...


class Observer(Protocol):
    """Who wants to know what was done; called on the loop, before the answer is sent. Must not raise."""

    def acted(self, action: Action, error: int) -> None:
        """The host has done what the controller said (`ErrorCode.NONE`), or could not."""
        ...

    def fetched(self, request: FetchLinesRequest, response: FetchLinesResponse) -> None:
        """A follower has asked this broker for lines and is answered."""
        ...

    def told(self, request: LeaderAndIsrRequest) -> None:
        """A controller's LeaderAndIsr was obeyed, as far as it is not older than what is known.

        Not of one that was under way when orders were dropped.
        """
        ...

    def left_over(self, partitions: Sequence[TopicPartition]) -> None:
        """Lines are kept here of which a controller's first LeaderAndIsr has said nothing."""
        ...


class Giving(Protocol):
    """How fast lines may be given to followers that lag (KIP-73). Times in seconds of the loop's clock."""

    def holds(self, tp: TopicPartition) -> bool: ...

    def free_at(self, tp: TopicPartition) -> float: ...

    def took(self, tp: TopicPartition, size: int, now: float) -> None: ...


class BrokerService:
    """Answers requests. Made and used on one event loop; `close` ends its task.

    Args:
        broker: the own id.
        receiver: the rules for what controllers send.
        answers: for Metadata and FindCoordinator.
        clock: for the age of the metadata.
        host: None for a broker that hosts nothing: it can neither lead nor follow (56), and a request for
            lines closes the connection.
        controlled_shutdown: asks the controller that runs in this process, by the id of the broker that
            stops; None where none does.
        observer: is told what was done.
        giving: None where lines are given as fast as they are asked for.
        obeys: whether controllers may give orders now. Where not, their requests close the connection: they
            are meant for a former start, or session, whose registration still stands (K8).
        knows: whether the controller has said that a broker lives. One that fetches all the same is a former
            incarnation (77), and may follow a topic that was deleted without it and made again (ADR 0024).
        min_insync: None where lines are taken however few are in sync.
    """

    def __init__(
        self,
        *,
        broker: int,
        receiver: Receiver,
        answers: Answers,
        clock: Clock,
        host: HostThread | None = None,
        controlled_shutdown: Callable[[int], Awaitable[ControlledShutdownResponse]] | None = None,
        observer: Observer | None = None,
        giving: Giving | None = None,
        obeys: Callable[[], bool] = lambda: True,
        knows: Callable[[int], bool] = lambda broker: True,
        min_insync: MinInsync | None = None,
    ) -> None:
        self._broker = broker
        self._receiver = receiver
        self._answers = answers
        self._clock = clock
        self._host = host
        self._controlled_shutdown = controlled_shutdown
        self._observer = observer
        self._giving = giving
        self._placed_by: int | None = None
        """Epoch of the controller whose first LeaderAndIsr was obeyed last."""
        self._obeys = obeys
        self._lines = LineRequests(knows, min_insync)
        self._orders = Orders(broker, self._handle)

    async def respond(self, request: Request) -> Response | None:
        """The answer to a request; None where there is none and the connection is to be closed.

        Cancelled, it gives up waiting; what a host or controller was already asked is done all the same.
        """
        match request:
            case MetadataRequest():
                return await answered(self._answers, request.topics)
            case FindCoordinatorRequest():
                return self._answers.coordinator(request.group)
            case LeaderAndIsrRequest() | StopReplicaRequest() | UpdateMetadataRequest():
                return await self._ordered(request)
            case AppendLinesRequest():
                return None if self._host is None else await self._append(request, self._host)
            case FetchLinesRequest():
                return None if self._host is None else await self._fetch(request, self._host)
            case FailedReplicasRequest():
                return FailedReplicasResponse() if self._host is None else await self._host.call(failed)
            case ControlledShutdownRequest():
                return await self._shut_down(request)
            case ProduceRequest():
                return produced_elsewhere(request)
            case FetchRequest():
                return fetched_elsewhere(request)
            case ListOffsetsRequest():
                return listed_elsewhere(request)
            case _:
                return None

    async def close(self) -> None:
        """Ends the task. What waits for it is cancelled."""
        await self._orders.close()

    # --- the controller's requests --------------------------------------------------------------

    def drop_orders(self, then: Callable[[], None]) -> None:
        """Refuses those that wait; `then` is called when the one under way is over, or now."""
        self._orders.drop(then)

    async def _ordered(self, request: ControlRequest) -> Response | None:
        return await self._orders.obey(request) if self._obeys() else None

    async def _handle(self, request: ControlRequest) -> Response:
        match request:
            case UpdateMetadataRequest():
                return self._receiver.update_metadata(request, self._clock.now_ms())
            case LeaderAndIsrRequest():
                life = self._orders.life
                response = await self._drive(self._receiver.leader_and_isr(request))
                if response.error == ErrorCode.NONE:
                    if self._observer is not None and life == self._orders.life:
                        self._observer.told(request)
                    await self._look_for_left_over(request.controller_epoch)
                return response
            case _:
                return await self._drive(self._receiver.stop_replica(request))

    async def _look_for_left_over(self, controller_epoch: int) -> None:
        """Once for each controller: its first LeaderAndIsr names all that has a place here (recipes 15)."""
        if self._host is None or self._observer is None or controller_epoch == self._placed_by:
            return
        self._placed_by = controller_epoch
        if found := await self._host.call(without_role):
            self._observer.left_over(found)

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
                self._observer.acted(action, error)
        return response

    async def _shut_down(self, request: ControlledShutdownRequest) -> ControlledShutdownResponse:
        if self._controlled_shutdown is None:
            return ControlledShutdownResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
        return await self._controlled_shutdown(request.broker)

    # --- lines ----------------------------------------------------------------------------------

    async def _append(self, request: AppendLinesRequest, host: HostThread) -> AppendLinesResponse:
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

    async def _fetch(self, request: FetchLinesRequest, host: HostThread) -> FetchLinesResponse:
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
            return await self._given(request, response)

    async def _given(self, request: FetchLinesRequest, response: FetchLinesResponse) -> FetchLinesResponse:
        """The answer, later or without its lines where the bound is reached.

        Who has come to the high watermark is in sync, or about to be, and is never slowed down.
        """
        tp, giving = TopicPartition(request.topic, request.partition), self._giving
        lags = is_of_follower(request) and request.offset < response.high_watermark
        if giving is None or not lags or not response.batches or not giving.holds(tp):
            return response
        loop = asyncio.get_running_loop()
        until = loop.time() + min(max(0, request.max_wait_ms), FETCH_WAIT_MAX_MS) / 1000
        while (free_at := giving.free_at(tp)) > (now := loop.time()):
            if now >= until:
                return dataclasses.replace(response, batches=())
            await asyncio.sleep(min(free_at, until) - now)
        giving.took(tp, sum(len(batch.lines) for batch in response.batches), now)
        return response

    def _observe(self, request: FetchLinesRequest, response: FetchLinesResponse) -> None:
        if self._observer is not None and is_of_follower(request):
            self._observer.fetched(request, response)


async def answered(answers: Answers, topics: Sequence[str]) -> MetadataResponse:
    """The metadata of these topics, or all; the loop does other things between its pieces."""
    for _ in answers.prepare(topics):
        await asyncio.sleep(0)
    return answers.metadata(topics)


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


def _perform(host: ReplicaHost, broker: int, action: Action) -> int:
    """What fails by a mistake of the host fails for one partition: -1, and the others are done."""
    try:
        return perform(host, broker, action)
    except Exception:  # noqa: BLE001
        _log.exception("broker %d: %s failed", broker, action)
        return ErrorCode.UNKNOWN


def _refuse(action: Action) -> int:
    """Of a broker that hosts nothing: there is nothing to stop, and it has no place for lines."""
    return ErrorCode.NONE if isinstance(action, Stop | Delete) else ErrorCode.KAFKA_STORAGE_ERROR
