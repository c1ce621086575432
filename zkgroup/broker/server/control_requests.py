"""Handles LeaderAndIsr, StopReplica and UpdateMetadata: the actions for a broker's replicas. Pure."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from types import MappingProxyType

from zkgroup.broker.replica_view import (
    Action,
    AssignedRole,
    BecomeFollower,
    BecomeLeader,
    DeleteReplica,
    Handling,
    SetReplicas,
    StopReplica,
)
from zkgroup.broker.server.metadata_cache import MetadataCache
from zkgroup.model import TopicPartition
from zkgroup.wire.control import (
    BrokerEndPoint,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    PartitionError,
    PartitionStateInfo,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataBroker,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from zkgroup.wire.messages import ErrorCode, Request
from zkgroup.znodes.ids import is_legal


class ControlRequestHandler:
    """Handles the control requests that a controller sends to one broker.

    * A request with a lower controller epoch than an earlier request is refused with error 11, whatever its
      API, and changes nothing.
    * LeaderAndIsr: a partition whose leader epoch is not above the known one gets error 13. If the action of
      the known leader epoch failed, a leader gets that error again: the controller that received it
      may have been replaced. A follower gets the action again: its files may have been opened since. The
      response omits partitions that this broker does not replicate. Leaders are handled before followers.
    * A leader takes the replica list of a later controller, also in the known leader epoch. The lists differ
      if a reassignment that the former controller was completing has been cancelled. 0.8.2.2 does not take
      it: replicas on the later list alone stay out of the ISR until the leader epoch rises.
    * A follower whose leader is not among the request's leaders ends its role and answers 0. The leader epoch
      is known then: an earlier one gets error 13. The same leader epoch can be sent again with the leader.
    * A partition that no cluster can have gets error 17: its name would be a path of the data folder.
    * StopReplica carries no leader epoch, so a late one is performed (late orders: K28). Without delete the
      known leader epoch stays; with delete it is removed: the topic can be created again at leader epoch 0.
    """

    def __init__(self, broker: int, cache: MetadataCache) -> None:
        """`broker` is the id of this broker; `update_metadata` updates `cache`."""
        self._broker = broker
        self._cache = cache
        self.controller_epoch: int | None = None
        """The highest controller epoch in any request so far; None before the first request."""
        self._replicas: dict[TopicPartition, AssignedRole] = {}

    @property
    def replicas(self) -> Mapping[TopicPartition, AssignedRole]:
        """The roles of the replicas on this broker."""
        return MappingProxyType(self._replicas)

    @property
    def brokers(self) -> Mapping[int, UpdateMetadataBroker]:
        """The live brokers by the last UpdateMetadata."""
        return self._cache.brokers

    def known_to(self, request: Request) -> Callable[[TopicPartition], PartitionStateInfo | None]:
        """The last request of this kind about a partition."""
        if isinstance(request, UpdateMetadataRequest):
            return self._cache.partition
        return lambda tp: None if (role := self._replicas.get(tp)) is None else role.state

    def leader_and_isr(self, request: LeaderAndIsrRequest) -> Handling[LeaderAndIsrResponse]:
        """Makes this broker leader or follower of each partition; the response has the request's order.

        If a partition has two entries, the last one applies, as in 0.8.2.2.
        """
        if self._is_stale(request.controller_epoch):
            return LeaderAndIsrResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
        entries = {state.topic_partition: state for state in request.partitions}
        leaders = {broker.broker: broker for broker in request.leaders}
        errors: dict[TopicPartition, int] = {}
        accepted: list[PartitionStateInfo] = []
        for tp, state in entries.items():
            if not is_legal(tp):
                errors[tp] = ErrorCode.INVALID_TOPIC
            elif self._is_known(state):
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
        """Stops or deletes each replica; an unknown partition gets 0 as well."""
        if self._is_stale(request.controller_epoch):
            return StopReplicaResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
        answers = []
        for tp in dict.fromkeys(request.partitions):
            if not is_legal(tp):
                answers.append(PartitionError(*tp, ErrorCode.INVALID_TOPIC))
                continue
            error = yield DeleteReplica(tp) if request.delete else StopReplica(tp)
            if error == ErrorCode.NONE:
                self._stopped(tp, request.delete)
            answers.append(PartitionError(*tp, error))
        return StopReplicaResponse(ErrorCode.NONE, tuple(answers))

    def update_metadata(self, request: UpdateMetadataRequest, now_ms: int) -> UpdateMetadataResponse:
        """Updates the metadata cache; performs no action.

        A lower controller epoch gets error 11. 0.8.2.2 answers -1, which is a bug.
        """
        if self._is_stale(request.controller_epoch):
            return UpdateMetadataResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
        self._cache.update(request, now_ms)
        return UpdateMetadataResponse(ErrorCode.NONE)

    def _is_stale(self, controller_epoch: int) -> bool:
        """Returns whether the sender is a former controller; stores the controller epoch otherwise."""
        if self.controller_epoch is not None and controller_epoch < self.controller_epoch:
            return True
        self.controller_epoch = controller_epoch
        return False

    def _is_known(self, state: PartitionStateInfo) -> bool:
        """Returns whether a request with this leader epoch or a later one was applied before."""
        known = self._replicas.get(state.topic_partition)
        if known is None:
            return False
        if state.leader_epoch == known.state.leader_epoch:
            is_failed_follower = known.error != ErrorCode.NONE and state.leader != self._broker
            return not (known.awaits_leader or is_failed_follower)
        return state.leader_epoch < known.state.leader_epoch

    def _known(self, state: PartitionStateInfo, controller_epoch: int) -> Generator[Action, int, int]:
        """Handles a partition with a known or earlier leader epoch; returns its error code."""
        if self._has_other_replicas(state, controller_epoch):
            self._replicas[state.topic_partition] = AssignedRole(state, leads=True)
            return (yield SetReplicas(state))
        return self._error_of(state) or ErrorCode.STALE_LEADER_EPOCH

    def _has_other_replicas(self, state: PartitionStateInfo, controller_epoch: int) -> bool:
        """Returns whether a later controller sends other replicas for the known leader epoch of a leader."""
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
        """The error of the action that this same leader epoch required; 0 without one."""
        known = self._replicas.get(state.topic_partition)
        is_same = known is not None and known.state.leader_epoch == state.leader_epoch
        return known.error if known is not None and is_same else ErrorCode.NONE

    def _lead(self, state: PartitionStateInfo) -> Generator[Action, int, int]:
        """Makes this broker the leader. The leader epoch is known even if the action fails.

        After a failure only a new leader epoch can give the replica a role.
        """
        error = yield BecomeLeader(state)
        self._replicas[state.topic_partition] = AssignedRole(
            state, leads=error == ErrorCode.NONE, error=error
        )
        return error

    def _follow(
        self, state: PartitionStateInfo, leader: BrokerEndPoint | None
    ) -> Generator[Action, int, int]:
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
