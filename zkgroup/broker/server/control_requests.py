"""The control requests of a broker: LeaderAndIsr, StopReplica and UpdateMetadata, one at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeVar

from zkgroup.broker.server.metadata_cache import MetadataCache
from zkgroup.model import TopicPartition
from zkgroup.wire.control import (
    Broker,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    PartitionError,
    PartitionStateInfo,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from zkgroup.wire.messages import ErrorCode, Response

# --- what the host is to do -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BecomeLeader:
    """Stop fetching, forget how far followers are, and lead."""

    state: PartitionStateInfo

    @property
    def topic_partition(self) -> TopicPartition:
        return self.state.topic_partition


@dataclass(frozen=True, slots=True)
class SetReplicas:
    """Go on leading, with these replicas."""

    state: PartitionStateInfo

    @property
    def topic_partition(self) -> TopicPartition:
        return self.state.topic_partition


@dataclass(frozen=True, slots=True)
class BecomeFollower:
    """Stop leading, and fetch from the leader."""

    state: PartitionStateInfo
    leader: Broker | None
    """Where the leader is. None: there is none, or the controller did not say where; nothing is fetched."""

    @property
    def topic_partition(self) -> TopicPartition:
        return self.state.topic_partition


@dataclass(frozen=True, slots=True)
class StopReplica:
    """Neither lead nor fetch; keep what is stored."""

    topic_partition: TopicPartition


@dataclass(frozen=True, slots=True)
class DeleteReplica:
    """Neither lead nor fetch, and remove what is stored, also where nothing else is known of it."""

    topic_partition: TopicPartition


RoleAction = BecomeLeader | BecomeFollower | StopReplica | DeleteReplica
Action = RoleAction | SetReplicas

ResponseT = TypeVar("ResponseT")
Handling = Generator[Action, int, ResponseT]
"""A handler at work: yields actions, is sent their error codes, returns the response."""


# --- what is known of a replica -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AssignedRole:
    """What the controller made of one replica on this broker."""

    state: PartitionStateInfo
    """Of the last LeaderAndIsr that was obeyed; its leader epoch is the fence for the next."""
    leads: bool
    """Whether this broker leads it now: not after a StopReplica, or where the host could not."""
    error: int = ErrorCode.NONE
    """Why the host could not take the role, which a later controller asks anew."""
    awaits_leader: bool = False
    """Whether that request named no leader to fetch from; the same leader epoch can come again with one."""


class ControlRequestHandler:
    """The rules for what a controller sends to one broker.

    * A request of an older controller epoch than any request has shown is refused with 11, whatever its
      kind, and changes nothing.
    * A partition of LeaderAndIsr whose leader epoch is not above the known one has error 13, or that of the
      known one, where its role could not be taken: the controller that got it may have been replaced. One
      that this broker does not replicate is not in the response at all. Leaders are made before followers.
    * A leader takes over the replicas that a later controller names, also in the leader epoch that is known.
      They go for another list where the former controller was to end a move, which was then taken back.
      0.8.2.2 does not: what is on the later list alone is out of the ISR until the leader epoch rises.
    * A follower whose leader is not among the leaders named stops what it did and answers 0. Its leader epoch
      is known: an earlier one has error 13. The same decision can be sent again with the leader.
    * StopReplica carries no leader epoch, so a late one is obeyed (K28). Without delete the known leader
      epoch stays; with delete it is forgotten, for the topic can come again at epoch 0.
    """

    def __init__(self, broker: int, cache: MetadataCache) -> None:
        """`broker` is the own id; `cache` takes in what UpdateMetadata says."""
        self._broker = broker
        self._cache = cache
        self._controller_epoch: int | None = None
        self._replicas: dict[TopicPartition, AssignedRole] = {}

    @property
    def controller_epoch(self) -> int | None:
        """The highest that any request has shown; None before the first."""
        return self._controller_epoch

    @property
    def replicas(self) -> Mapping[TopicPartition, AssignedRole]:
        """What is known of the replicas on this broker."""
        return MappingProxyType(self._replicas)

    # --- handlers -------------------------------------------------------------------------------

    def leader_and_isr(self, request: LeaderAndIsrRequest) -> Handling[LeaderAndIsrResponse]:
        """Makes this broker leader or follower of each partition; the response names them in order.

        A partition named twice counts once, by its last entry, as in the map of 0.8.2.2.
        """
        if self._is_stale(request.controller_epoch):
            return LeaderAndIsrResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
        entries = {state.topic_partition: state for state in request.partitions}
        leaders = {broker.broker: broker for broker in request.leaders}
        errors: dict[TopicPartition, int] = {}
        accepted: list[PartitionStateInfo] = []
        for tp, state in entries.items():
            if self._is_known(state):
                errors[tp] = yield from self._known(state, request.controller_epoch)
            elif self._broker in state.replicas:
                accepted.append(state)
        for state in accepted:
            if state.leader == self._broker:
                errors[state.topic_partition] = yield from self._lead(state)
        for state in accepted:
            if state.leader != self._broker:
                errors[state.topic_partition] = yield from self._follow(state, leaders.get(state.leader))
        return LeaderAndIsrResponse(
            ErrorCode.NONE, tuple(PartitionError(*tp, errors[tp]) for tp in entries if tp in errors)
        )

    def stop_replica(self, request: StopReplicaRequest) -> Handling[StopReplicaResponse]:
        """Stops or deletes each partition; 0 also for one that is not known here."""
        if self._is_stale(request.controller_epoch):
            return StopReplicaResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
        answers = []
        for tp in dict.fromkeys(request.partitions):
            error = yield DeleteReplica(tp) if request.delete else StopReplica(tp)
            if error == ErrorCode.NONE:
                self._stopped(tp, request.delete)
            answers.append(PartitionError(*tp, error))
        return StopReplicaResponse(ErrorCode.NONE, tuple(answers))

    def update_metadata(self, request: UpdateMetadataRequest, now_ms: int) -> UpdateMetadataResponse:
        """Hands the request to the metadata cache; no host is needed.

        0.8.2.2 answers -1 to an older controller epoch, through a mistake of its own; we answer 11.
        """
        if self._is_stale(request.controller_epoch):
            return UpdateMetadataResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
        self._cache.update(request, now_ms)
        return UpdateMetadataResponse(ErrorCode.NONE)

    # --- parts ----------------------------------------------------------------------------------

    def _is_stale(self, controller_epoch: int) -> bool:
        """Whether the sender has been replaced; otherwise its epoch is known from here on."""
        if self._controller_epoch is not None and controller_epoch < self._controller_epoch:
            return True
        self._controller_epoch = controller_epoch
        return False

    def _is_known(self, state: PartitionStateInfo) -> bool:
        """Whether a decision of this leader epoch, or of a later one, was obeyed before."""
        known = self._replicas.get(state.topic_partition)
        if known is None:
            return False
        if state.leader_epoch == known.state.leader_epoch:
            return not known.awaits_leader
        return state.leader_epoch < known.state.leader_epoch

    def _known(self, state: PartitionStateInfo, controller_epoch: int) -> Generator[Action, int, int]:
        """A decision that was obeyed before, or one before it."""
        if self._has_other_replicas(state, controller_epoch):
            self._replicas[state.topic_partition] = AssignedRole(state, leads=True)
            return (yield SetReplicas(state))
        return self._error_of(state) or ErrorCode.STALE_LEADER_EPOCH

    def _has_other_replicas(self, state: PartitionStateInfo, controller_epoch: int) -> bool:
        """Whether a later controller than the one that began this term goes on with it, on another list."""
        known = self._replicas.get(state.topic_partition)
        return (
            known is not None
            and known.leads
            and (state.leader, state.leader_epoch) == (self._broker, known.state.leader_epoch)
            and controller_epoch > known.state.controller_epoch
            and self._broker in state.replicas
            and {*state.replicas} != {*known.state.replicas}
        )

    def _error_of(self, state: PartitionStateInfo) -> int:
        """Of the role that this very leader epoch has given, where it could not be taken."""
        known = self._replicas.get(state.topic_partition)
        is_same = known is not None and known.state.leader_epoch == state.leader_epoch
        return known.error if known is not None and is_same else ErrorCode.NONE

    def _lead(self, state: PartitionStateInfo) -> Generator[Action, int, int]:
        """The epoch is known even where the host cannot lead: only a new decision can help then."""
        error = yield BecomeLeader(state)
        self._replicas[state.topic_partition] = AssignedRole(
            state, leads=error == ErrorCode.NONE, error=error
        )
        return error

    def _follow(self, state: PartitionStateInfo, leader: Broker | None) -> Generator[Action, int, int]:
        error = yield BecomeFollower(state, leader)
        self._replicas[state.topic_partition] = AssignedRole(
            state, leads=False, error=error, awaits_leader=leader is None
        )
        return error

    def _stopped(self, tp: TopicPartition, delete: bool) -> None:
        known = self._replicas.get(tp)
        if known is None:
            return
        if delete:
            del self._replicas[tp]
        else:
            self._replicas[tp] = AssignedRole(known.state, leads=False, awaits_leader=known.awaits_leader)


_log = logging.getLogger("zkgroup.broker")

CONTROL_QUEUE_MAX: Final = 64
"""Control requests that wait; the sender of a further one waits with them."""

ControlRequest = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest
_QueuedRequest = tuple[int, ControlRequest, asyncio.Future[Response | None]]


class ControlQueue:
    """Control requests in order of arrival. Made and used on one event loop; `close` ends its task."""

    def __init__(self, broker: int, handle: Callable[[ControlRequest], Awaitable[Response]]) -> None:
        """`handle` handles one request and returns its response."""
        self._broker = broker
        self._handle = handle
        self.generation = 0
        """Rises with `drop`: a request of a former generation is refused unless its handling has begun."""
        self._waiting: asyncio.Queue[_QueuedRequest] = asyncio.Queue(CONTROL_QUEUE_MAX)
        self._is_busy = False
        self._then: list[Callable[[], None]] = []
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"broker {broker} obeys")

    async def submit(self, request: ControlRequest) -> Response | None:
        """The answer, once it is its turn; None where it is refused, or after `close`."""
        if self._task.done():
            return None
        answer: asyncio.Future[Response | None] = asyncio.get_running_loop().create_future()
        await self._waiting.put((self.generation, request, answer))
        return await answer

    def drop(self, then: Callable[[], None]) -> None:
        """Refuses those that wait; `then` is called when the one under way is over, or now."""
        self.generation += 1
        if self._is_busy:
            self._then.append(then)
        else:
            then()

    async def close(self) -> None:
        """Ends the task. What waits for it is cancelled."""
        self._task.cancel()
        await asyncio.wait([self._task])
        while not self._waiting.empty():
            self._waiting.get_nowait()[2].cancel()

    async def _run(self) -> None:
        """One request of a controller after the other, each to its end.

        One whose connection is gone before its turn is dropped: its sender sends it again, perhaps behind
        others.
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
            _log.exception("broker %d could not handle %s", self._broker, type(request).__name__)
            if not answer.done():
                answer.set_exception(error)
        else:
            if not answer.done():
                answer.set_result(response)
