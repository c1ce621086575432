"""The control requests at a broker's port: LeaderAndIsr, StopReplica and UpdateMetadata, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from zkgroup.broker.machine.events import FollowerFetched
from zkgroup.broker.replica_view import Action, DeleteReplica, Handling, ResponseT, StopReplica
from zkgroup.broker.replicas.actions import partitions_without_role, perform
from zkgroup.broker.replicas.executor import ReplicaExecutor
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.server.control_claims import (
    claimed,
    claimed_brokers,
    impossible,
    paths_of,
    registered_brokers,
    stored_states,
    without,
)
from zkgroup.broker.server.control_requests import ControlRequestHandler
from zkgroup.broker.server.handlers import RequestContext
from zkgroup.broker.server.peer_claim_checker import PeerClaimChecker
from zkgroup.broker.server.peer_claims import ClaimVerdict, ControllerId
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock
from zkgroup.model.text import named
from zkgroup.runtime.logs import get_logger, limited
from zkgroup.wire.control import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    PartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from zkgroup.wire.messages import ErrorCode, Request, Response
from zkgroup.znodes.brokers import BrokerRegistration

_log = get_logger("zkgroup.broker")

ControlRequest = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest
_REFUSALS: Final[Mapping[type[Request], Callable[[int], Response]]] = {
    LeaderAndIsrRequest: LeaderAndIsrResponse,
    StopReplicaRequest: StopReplicaResponse,
    UpdateMetadataRequest: UpdateMetadataResponse,
}


class RequestObserver(Protocol):
    """Receives notifications of handled requests, on the loop, before the answer is sent. Must not raise."""

    def on_action(self, action: Action, error: int) -> None:
        """The replica manager has performed an action of the controller, with this error code."""
        ...

    def on_leader_and_isr(self, request: LeaderAndIsrRequest) -> None:
        """A LeaderAndIsr was applied, except for partitions with a stale leader epoch.

        Not called for a request that was in progress when the control queue was dropped.
        """
        ...

    def on_stray_replicas(self, partitions: Sequence[TopicPartition]) -> None:
        """This broker has logs of partitions that a controller's first LeaderAndIsr does not name."""
        ...

    def on_fetches(self, fetched: Sequence[FollowerFetched]) -> None:
        """A follower has fetched these partitions from this broker."""
        ...


class ControlHandlers:
    """The handlers of the control requests. Made and used on one event loop; `close` ends its task."""

    def __init__(
        self,
        broker: int,
        control_requests: ControlRequestHandler,
        clock: Clock,
        replicas: ReplicaExecutor | None,
        observer: RequestObserver | None = None,
        accepts: Callable[[], bool] = lambda: True,
        claims: PeerClaimChecker | None = None,
    ) -> None:
        """Arguments: see `BrokerApis`; `accepts` is its `accepts_control`."""
        self._claims = claims
        self._broker = broker
        self._control_requests = control_requests
        self._clock = clock
        self._replicas = replicas
        self._observer = observer
        self._stray_replicas_reported_for: int | None = None
        """The controller epoch for which stray replicas were reported last."""
        self._accepts = accepts
        self._queue = ControlQueue(broker, self._handle)

    async def close(self) -> None:
        """Ends the task; requests in the queue are cancelled."""
        await self._queue.close()

    def drop(self, then: Callable[[], None]) -> None:
        """Refuses the queued control requests; `then` is called after the request in progress, or now."""
        self._queue.drop(then)

    async def submit(self, context: RequestContext, request: ControlRequest) -> Response | None:
        """Handles a request after those before it; None closes the connection.

        A sender that cannot be the controller gets error 11. While ZooKeeper cannot be read, a sender that
        was not read before gets no answer: a controller sends the request again.
        """
        generation = self._queue.generation
        if not self._accepts():
            return None
        if self._claims is not None:
            claim = ControllerId(request.controller_id, request.controller_epoch)
            match await self._claims.verdict(claim, context.peer):
                case ClaimVerdict.UNREAD:
                    return None
                case ClaimVerdict.STALE | ClaimVerdict.IMPOSSIBLE:
                    return _REFUSALS[type(request)](ErrorCode.STALE_CONTROLLER_EPOCH)
            if isinstance(request, UpdateMetadataRequest):
                await self._claims.learn(broker.broker for broker in request.brokers)
            compared = await self._compared(request, self._claims)
            if compared is None:
                return None
            if compared != (request, frozenset()):
                return await self._submit_rest(request, *compared, context, generation)
        return await self._submit(request, generation)

    async def _compared(
        self, request: ControlRequest, claims: PeerClaimChecker
    ) -> tuple[ControlRequest, frozenset[TopicPartition]] | None:
        """Returns the part of a request that ZooKeeper does not contradict, and the other partitions.

        None while ZooKeeper cannot be read.
        """
        known, live = self._control_requests.known_to(request), self._control_requests.brokers
        partitions, brokers = claimed(request, self._broker, known), claimed_brokers(request, live)
        paths = (*paths_of(request, partitions), *map(BrokerRegistration.path, brokers))
        znodes = await claims.read(paths) if paths else ()
        if znodes is None:
            return None
        at = len(paths) - len(brokers)
        stored = stored_states(request, partitions, znodes[:at])
        refused = impossible(request, self._broker, partitions, known, stored)
        rest = without(request, refused) if refused else request
        if isinstance(rest, UpdateMetadataRequest) and brokers:
            rest = replace(rest, brokers=registered_brokers(rest, live, brokers, znodes[at:]))
        return rest, refused

    async def _submit(self, request: ControlRequest, generation: int) -> Response | None:
        return await self._queue.submit(request) if generation == self._queue.generation else None

    async def _submit_rest(
        self,
        request: ControlRequest,
        rest: ControlRequest,
        refused: frozenset[TopicPartition],
        context: RequestContext,
        generation: int,
    ) -> Response | None:
        """Handles what is left of a request; what no controller can have sent is error 13, a broker 77."""
        which = named(sorted(refused), 3) or "live brokers"
        message, kind = "%s of %s: not as in ZooKeeper: %s; refused", type(request).__name__
        _log.warning(message, kind, context.peer, which, extra=limited())
        response = await self._submit(rest, generation)
        error = ErrorCode.STALE_LEADER_EPOCH
        if isinstance(response, UpdateMetadataResponse) and response.error == ErrorCode.NONE:
            return replace(response, error=error if refused else ErrorCode.STALE_BROKER_EPOCH)
        if not isinstance(response, LeaderAndIsrResponse | StopReplicaResponse):
            return response
        if response.error != ErrorCode.NONE:
            return response
        errors = (PartitionError(*tp, error) for tp in sorted(refused))
        return replace(response, partitions=(*response.partitions, *errors))

    async def _handle(self, request: ControlRequest) -> Response:
        match request:
            case UpdateMetadataRequest():
                return self._control_requests.update_metadata(request, self._clock.now_ms())
            case LeaderAndIsrRequest():
                generation = self._queue.generation
                response = await self._drive(self._control_requests.leader_and_isr(request))
                if response.error == ErrorCode.NONE:
                    if self._observer is not None and generation == self._queue.generation:
                        self._observer.on_leader_and_isr(request)
                    await self._report_stray_replicas(request.controller_epoch)
                return response
            case _:
                return await self._drive(self._control_requests.stop_replica(request))

    async def _report_stray_replicas(self, controller_epoch: int) -> None:
        """Reports the stray replicas once for each controller epoch.

        A controller's first LeaderAndIsr names all replicas of this broker (recipes 15, stray replicas).
        """
        if (
            self._replicas is None
            or self._observer is None
            or controller_epoch == self._stray_replicas_reported_for
        ):
            return
        self._stray_replicas_reported_for = controller_epoch
        if found := await self._replicas.call(partitions_without_role):
            self._observer.on_stray_replicas(found)

    async def _drive(self, handling: Handling[ResponseT]) -> ResponseT:
        """Performs the actions that a handler yields, in one call on the thread of the replicas."""
        done: list[tuple[Action, int]] = []
        if self._replicas is None:
            response = _driven(handling, _refuse, done)
        else:
            response = await self._replicas.call(
                lambda replicas: _driven(
                    handling, lambda action: _perform(replicas, self._broker, action), done
                )
            )
        if self._observer is not None:
            for action, error in done:
                self._observer.on_action(action, error)
        return response


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


def _perform(replicas: ReplicaManager, broker: int, action: Action) -> int:
    """Performs an action; a bug of the replica manager is error -1 of this partition, and is logged."""
    try:
        return perform(replicas, broker, action)
    except Exception:  # noqa: BLE001
        _log.exception("broker %d: %s failed", broker, action, extra=limited())
        return ErrorCode.UNKNOWN


def _refuse(action: Action) -> int:
    """The error code of an action at a broker without replicas: 0 for a stop or deletion, else 56."""
    return (
        ErrorCode.NONE if isinstance(action, StopReplica | DeleteReplica) else ErrorCode.KAFKA_STORAGE_ERROR
    )


CONTROL_QUEUE_MAX: Final = 64
"""Most queued control requests; the connection of a further one waits."""

_QueuedRequest = tuple[int, ControlRequest, asyncio.Future[Response | None]]


class ControlQueue:
    """Handles control requests one at a time, in order of arrival. Made and used on one event loop."""

    def __init__(self, broker: int, handle: Callable[[ControlRequest], Awaitable[Response]]) -> None:
        """`handle` handles one request and returns its response."""
        self._broker = broker
        self._handle = handle
        self.generation = 0
        """Rises with `drop`: queued requests of a former generation are refused."""
        self._waiting: asyncio.Queue[_QueuedRequest] = asyncio.Queue(CONTROL_QUEUE_MAX)
        self._is_busy = False
        self._then: list[Callable[[], None]] = []
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"broker {broker} control")

    async def submit(self, request: ControlRequest) -> Response | None:
        """Queues a request and returns its answer; None if it is refused, or after `close`."""
        if self._task.done():
            return None
        answer: asyncio.Future[Response | None] = asyncio.get_running_loop().create_future()
        await self._waiting.put((self.generation, request, answer))
        return await answer

    def drop(self, then: Callable[[], None]) -> None:
        """Refuses the queued requests; `then` is called after the request in progress, or now."""
        self.generation += 1
        if self._is_busy:
            self._then.append(then)
        else:
            then()

    async def close(self) -> None:
        """Ends the task; queued requests are cancelled."""
        self._task.cancel()
        await asyncio.wait([self._task])
        while not self._waiting.empty():
            self._waiting.get_nowait()[2].cancel()

    async def _run(self) -> None:
        """Handles the queued requests, one after the other.

        A request whose connection has closed is skipped: its sender sends it again, perhaps after others.
        """
        while True:
            generation, request, answer = await self._waiting.get()
            if answer.done():
                continue
            if generation != self.generation:
                answer.set_result(None)
                continue
            self._is_busy = True
            try:
                await self._answer(request, answer)
            finally:
                self._is_busy = False
            self._then, called = [], self._then
            for then in called:
                then()

    async def _answer(self, request: ControlRequest, answer: asyncio.Future[Response | None]) -> None:
        try:
            response = await self._handle(request)
        except asyncio.CancelledError:
            answer.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # a bug in a handler must not end the task
            kind = type(request).__name__
            _log.exception("broker %d could not handle %s", self._broker, kind, extra=limited())
            if not answer.done():
                answer.set_exception(error)
        else:
            if not answer.done():
                answer.set_result(response)
