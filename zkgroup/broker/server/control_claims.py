"""What a control request claims of partitions, compared with what ZooKeeper says of them. Pure.

A controller writes the state of a partition before it sends LeaderAndIsr, so no request has a leader epoch
above the stored one, or another leader in it. It stops no leader, and deletes no replica that is in sync,
unless the topic is to be deleted. So a request that anybody sends in the name of the controller cannot shut
out the controller's own requests, or remove records that are committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from zkgroup.broker.replica_view import AssignedRole
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Code
from zkgroup.wire.control import LeaderAndIsrRequest, PartitionStateInfo, StopReplicaRequest
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import PartitionState
from zkgroup.znodes.ids import is_legal

Claiming = LeaderAndIsrRequest | StopReplicaRequest
"""The requests that change replicas."""


@dataclass(frozen=True, slots=True)
class StoredStates:
    """What ZooKeeper has of partitions and their topics."""

    states: Mapping[TopicPartition, PartitionState]
    """Without those that are missing or cannot be read."""
    unreadable: frozenset[TopicPartition]
    to_be_deleted: frozenset[str]
    """Topics with a request to delete them."""


def claimed(
    request: Claiming, broker: int, replicas: Mapping[TopicPartition, AssignedRole]
) -> tuple[TopicPartition, ...]:
    """The partitions that are to be compared: those that the request may change here.

    `replicas`: the present roles of this broker; a leader epoch that is not above them changes nothing.
    """
    if isinstance(request, StopReplicaRequest):
        return tuple(tp for tp in dict.fromkeys(request.partitions) if is_legal(tp))

    def is_new(state: PartitionStateInfo) -> bool:
        known = replicas.get(state.topic_partition)
        return known is None or state.leader_epoch > known.state.leader_epoch

    return tuple(
        dict.fromkeys(
            state.topic_partition
            for state in request.partitions
            if broker in state.replicas and is_legal(state.topic_partition) and is_new(state)
        )
    )


def paths_of(request: Claiming, partitions: Iterable[TopicPartition]) -> tuple[str, ...]:
    """The znodes to read: the states, and for StopReplica the requests to delete the topics."""
    states = PartitionState.paths(tuple(partitions))
    if isinstance(request, LeaderAndIsrRequest):
        return tuple(states)
    topics = dict.fromkeys(tp.topic for tp in partitions)
    return (*states, *map(TopicDeletion.path, topics))


def stored_states(
    partitions: tuple[TopicPartition, ...], znodes: tuple[Znode | Code | None, ...]
) -> StoredStates:
    """What a read of `paths_of` has found."""
    states: dict[TopicPartition, PartitionState] = {}
    unreadable = set()
    for tp, znode in zip(partitions, znodes, strict=False):
        if isinstance(znode, Code):
            unreadable.add(tp)
        elif znode is not None:
            try:
                states[tp] = PartitionState.decode(znode.path, znode.data)
            except CorruptZnodeError:
                unreadable.add(tp)
    deletions = znodes[len(partitions) :]
    going = frozenset(each.path.rpartition("/")[2] for each in deletions if isinstance(each, Znode))
    return StoredStates(states, frozenset(unreadable), going)


def impossible(
    request: Claiming, broker: int, partitions: Iterable[TopicPartition], stored: StoredStates
) -> frozenset[TopicPartition]:
    """Those of the compared partitions of which no controller can have sent this; nothing is done with them.

    One whose state cannot be read is possible. LeaderAndIsr of a partition without a state may be late: its
    topic was deleted.
    """
    compared = [tp for tp in partitions if tp not in stored.unreadable]
    if isinstance(request, LeaderAndIsrRequest):
        sent = {state.topic_partition: state for state in request.partitions}
        return frozenset(tp for tp in compared if not _may_lead(sent[tp], stored.states.get(tp)))
    return frozenset(
        tp
        for tp in compared
        if tp.topic not in stored.to_be_deleted
        and (state := stored.states.get(tp)) is not None
        and (state.leader == broker or (request.delete and broker in state.isr))
    )


def _may_lead(sent: PartitionStateInfo, stored: PartitionState | None) -> bool:
    if stored is None or sent.leader_epoch > stored.leader_epoch:
        return False
    return sent.leader_epoch < stored.leader_epoch or sent.leader == stored.leader


def without(request: Claiming, refused: frozenset[TopicPartition]) -> Claiming:
    """The request without these partitions."""
    if isinstance(request, LeaderAndIsrRequest):
        states = tuple(each for each in request.partitions if each.topic_partition not in refused)
        return replace(request, partitions=states)
    return replace(request, partitions=tuple(tp for tp in request.partitions if tp not in refused))
