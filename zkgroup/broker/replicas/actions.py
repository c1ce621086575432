"""What follows from what a controller has made of a broker's replicas. Pure but for the host.

The broker's network and the simulated broker carry it out, each in its own way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from zkgroup.broker.machine.events import (
    BecameLeader,
    FollowersRead,
    ReadFollowers,
    SetMaximalIsrs,
    StoppedLeading,
)
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.replicas.min_insync import MinInsync
from zkgroup.broker.replicas.replica_view import Follower, Role
from zkgroup.broker.server.control_requests import (
    Action,
    AssignedRole,
    BecomeFollower,
    BecomeLeader,
    DeleteReplica,
    RoleAction,
    SetReplicas,
    StopReplica,
)
from zkgroup.model import TopicPartition
from zkgroup.wire.control import Broker, LeaderAndIsrRequest
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.replica_host import FailedReplica, FailedReplicasResponse


def perform(host: ReplicaManager, broker: int, action: Action) -> int:
    """Has the host do it; returns its error code."""
    match action:
        case BecomeLeader(state):
            isr = {*state.isr, broker}
            return host.become_leader(action.topic_partition, state.leader_epoch, state.replicas, isr)
        case SetReplicas(state):
            host.set_replicas(action.topic_partition, state.leader_epoch, state.replicas)
            return ErrorCode.NONE
        case BecomeFollower(state, _):
            return host.become_follower(action.topic_partition, state.leader_epoch)
        case StopReplica(tp):
            host.stop(tp)
            return ErrorCode.NONE
        case DeleteReplica(tp):
            return host.delete(tp)


@dataclass(frozen=True, slots=True)
class RoleChange:
    """The role of a replica from now on."""

    topic_partition: TopicPartition
    role: Role
    leader_epoch: int | None
    """None where it has no role."""
    event: BecameLeader | StoppedLeading
    """For the machine."""
    leader: Broker | None
    """The leader that it fetches from; None: it fetches no more."""

    def tell(self, min_insync: MinInsync) -> None:
        """With a term that begins here its ISR is known, and with any other role there is none."""
        if isinstance(self.event, BecameLeader):
            state = self.event.state
            min_insync.led(self.topic_partition, state.leader_epoch, state.isr)
        else:
            min_insync.left(self.topic_partition)


def role_change(action: RoleAction, error: int) -> RoleChange:
    """`error` is the host's: a role that it could not take is none."""
    tp, done = action.topic_partition, error == ErrorCode.NONE
    match action:
        case BecomeLeader(state) if done:
            return RoleChange(tp, Role.LEADER, state.leader_epoch, BecameLeader(state), None)
        case BecomeFollower(state, leader) if done:
            return RoleChange(tp, Role.FOLLOWER, state.leader_epoch, StoppedLeading(tp), leader)
        case _:
            return RoleChange(tp, Role.NONE, None, StoppedLeading(tp), None)


def followed_again(
    replicas: Mapping[TopicPartition, AssignedRole], request: LeaderAndIsrRequest
) -> set[TopicPartition]:
    """What is fetched on: a controller's word on a term that is known is one on what stands still, too."""
    return {
        tp
        for state in request.partitions
        if (known := replicas.get(tp := state.topic_partition)) is not None
        and not (known.leads or known.awaits_leader)
        and known.state.leader_epoch == state.leader_epoch
    }


def read_followers(host: ReplicaManager, order: ReadFollowers) -> FollowersRead:
    """How far the followers are of the partitions that are led here."""
    seen: dict[TopicPartition, tuple[int, Mapping[int, Follower]]] = {}
    for tp in order.partitions:
        view = host.view(tp)
        if view is not None and view.role is Role.LEADER:
            seen[tp] = view.leader_epoch, view.followers
    return FollowersRead(order.partitions, seen)


REASON_MAX: Final = 1_000
"""Characters of why a replica has failed: a path, and what is wrong with it."""


def partitions_without_role(host: ReplicaManager) -> list[TopicPartition]:
    """Partitions that only have lines here. One that has failed may have its place, and has said why."""
    views = {tp: host.view(tp) for tp in host.partitions()}
    return [
        tp
        for tp, view in views.items()
        if view is not None and view.role is Role.NONE and view.failure is None
    ]


def failed_replicas(host: ReplicaManager) -> FailedReplicasResponse:
    """Which cannot go on, since when and why."""
    return FailedReplicasResponse(
        tuple(
            FailedReplica(*tp, each.since_ms, each.reason[:REASON_MAX])
            for tp, each in host.failures().items()
        )
    )


def set_maximal_isrs(host: ReplicaManager, order: SetMaximalIsrs) -> frozenset[TopicPartition]:
    """Carries `SetMaximalIsrs` out.

    Returns the partitions of which a joining replica lacks lines below the high watermark, as it stands
    now that it waits for him: it may have risen since his fetch (Kafka decides and counts under one lock).
    """
    behind = set()
    for one in order.isrs:
        host.set_isr(one.topic_partition, one.leader_epoch, one.isr)
        view = host.view(one.topic_partition) if one.joining else None
        if view is None:
            continue
        for broker in one.joining:
            follower = view.followers.get(broker)
            end = None if follower is None else follower.log_end_offset
            if end is None or end < view.high_watermark:
                behind.add(one.topic_partition)
    return frozenset(behind)
