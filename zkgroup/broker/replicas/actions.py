"""Performs a controller's actions on a `ReplicaManager` and returns their results.

The broker's network and the simulated broker both use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zkgroup.broker.machine.events import (
    BecameLeader,
    FollowersRead,
    ReadFollowers,
    SetMaximalIsrs,
    StoppedLeading,
)
from zkgroup.broker.replica_view import (
    Action,
    AssignedRole,
    BecomeFollower,
    BecomeLeader,
    DeleteReplica,
    Follower,
    Role,
    RoleAction,
    SetReplicas,
    StopReplica,
)
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.replicas.min_insync import MinInsync
from zkgroup.model import TopicPartition
from zkgroup.wire.control import BrokerEndPoint, LeaderAndIsrRequest
from zkgroup.wire.messages import ErrorCode


def perform(host: ReplicaManager, broker: int, action: Action) -> int:
    """Performs an action on the replica manager; returns its error code."""
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
    """The leader epoch of the role; None without a role."""
    event: BecameLeader | StoppedLeading
    """The event for the machine."""
    leader: BrokerEndPoint | None
    """The leader to fetch from; None: the replica does not fetch. A follower whose files cannot be used has
    one: the fetcher opens the files again (`ReplicaManager.reopen`)."""

    def apply_to(self, min_insync: MinInsync) -> None:
        """Sets the ISR of a leader that begins a leader epoch; removes it for any other role."""
        if isinstance(self.event, BecameLeader):
            state = self.event.state
            min_insync.led(self.topic_partition, state.leader_epoch, state.isr)
        else:
            min_insync.left(self.topic_partition)


def role_change(action: RoleAction, error: int) -> RoleChange:
    """The change of the role by an action with this error code; after an error the replica has no role."""
    tp, done = action.topic_partition, error == ErrorCode.NONE
    match action:
        case BecomeLeader(state) if done:
            return RoleChange(tp, Role.LEADER, state.leader_epoch, BecameLeader(state), None)
        case BecomeFollower(state, leader) if done:
            return RoleChange(tp, Role.FOLLOWER, state.leader_epoch, StoppedLeading(tp), leader)
        case BecomeFollower(_, leader) if error == ErrorCode.KAFKA_STORAGE_ERROR:
            return RoleChange(tp, Role.NONE, None, StoppedLeading(tp), leader)
        case _:
            return RoleChange(tp, Role.NONE, None, StoppedLeading(tp), None)


def followed_again(
    replicas: Mapping[TopicPartition, AssignedRole], request: LeaderAndIsrRequest
) -> set[TopicPartition]:
    """The followed partitions that a LeaderAndIsr names with their known leader epoch.

    Their paused fetches resume.
    """
    return {
        tp
        for state in request.partitions
        if (known := replicas.get(tp := state.topic_partition)) is not None
        and not (known.leads or known.awaits_leader)
        and known.state.leader_epoch == state.leader_epoch
    }


def read_followers(host: ReplicaManager, order: ReadFollowers) -> FollowersRead:
    """The progress of the followers, for each partition that this broker leads."""
    seen: dict[TopicPartition, tuple[int, Mapping[int, Follower]]] = {}
    for tp in order.partitions:
        view = host.view(tp)
        if view is not None and view.role is Role.LEADER:
            seen[tp] = view.leader_epoch, view.followers
    return FollowersRead(order.partitions, seen)


def partitions_without_role(host: ReplicaManager) -> list[TopicPartition]:
    """The stray replicas: partitions with a log on this broker, but without a role or a failure."""
    views = {tp: host.view(tp) for tp in host.partitions()}
    return [
        tp
        for tp, view in views.items()
        if view is not None and view.role is Role.NONE and view.failure is None
    ]


def set_maximal_isrs(host: ReplicaManager, order: SetMaximalIsrs) -> frozenset[TopicPartition]:
    """Performs `SetMaximalIsrs`.

    Returns the partitions with a joining replica that lacks records below the high watermark: it may have
    risen since the replica's last fetch. It waits for the replica from now on. (Kafka checks and sets under
    one lock.)
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
