"""What follows from what a controller has made of a broker's replicas. Pure but for the host.

The broker's network and the simulated broker carry it out, each in its own way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zkgroup.broker.machine.effects import LookAtFollowers
from zkgroup.broker.machine.events import FollowersSeen, Led, Left
from zkgroup.broker.min_insync import MinInsync
from zkgroup.broker.receiver import (
    Action,
    BecomeFollower,
    BecomeLeader,
    Delete,
    Replica,
    RoleAction,
    SetReplicas,
    Stop,
)
from zkgroup.broker.replica_host import Follower, ReplicaHost, Role
from zkgroup.model import TopicPartition
from zkgroup.wire.control import Broker, LeaderAndIsrRequest
from zkgroup.wire.error_codes import ErrorCode


def perform(host: ReplicaHost, broker: int, action: Action) -> int:
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
        case Stop(tp):
            host.stop(tp)
            return ErrorCode.NONE
        case Delete(tp):
            return host.delete(tp)


@dataclass(frozen=True, slots=True)
class RoleChange:
    """The role of a replica from now on."""

    topic_partition: TopicPartition
    role: Role
    leader_epoch: int | None
    """None where it has no role."""
    event: Led | Left
    """For the machine."""
    leader: Broker | None
    """Whom it fetches from; None: it fetches no more."""

    def tell(self, min_insync: MinInsync) -> None:
        """With a term that begins here its ISR is known, and with any other role there is none."""
        if isinstance(self.event, Led):
            state = self.event.state
            min_insync.led(self.topic_partition, state.leader_epoch, state.isr)
        else:
            min_insync.left(self.topic_partition)


def role_change(action: RoleAction, error: int) -> RoleChange:
    """`error` is the host's: a role that it could not take is none."""
    tp, done = action.topic_partition, error == ErrorCode.NONE
    match action:
        case BecomeLeader(state) if done:
            return RoleChange(tp, Role.LEADER, state.leader_epoch, Led(state), None)
        case BecomeFollower(state, leader) if done:
            return RoleChange(tp, Role.FOLLOWER, state.leader_epoch, Left(tp), leader)
        case _:
            return RoleChange(tp, Role.NONE, None, Left(tp), None)


def followed_again(
    replicas: Mapping[TopicPartition, Replica], request: LeaderAndIsrRequest
) -> set[TopicPartition]:
    """What is fetched on: a controller's word on a term that is known is one on what stands still, too."""
    return {
        tp
        for state in request.partitions
        if (known := replicas.get(tp := state.topic_partition)) is not None
        and not known.leads
        and known.state.leader_epoch == state.leader_epoch
    }


def followers_seen(host: ReplicaHost, order: LookAtFollowers) -> FollowersSeen:
    """How far the followers are of the partitions that are led here."""
    seen: dict[TopicPartition, tuple[int, Mapping[int, Follower]]] = {}
    for tp in order.partitions:
        view = host.view(tp)
        if view is not None and view.role is Role.LEADER:
            seen[tp] = view.leader_epoch, view.followers
    return FollowersSeen(order.partitions, seen)
