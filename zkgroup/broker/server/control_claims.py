"""Compares the claims of a control request about partitions and brokers with ZooKeeper. Pure.

A controller writes the state of a partition before it sends it, so no request has a leader epoch above the
stored one, or another leader in it. It stops no leader, and deletes no replica that is in sync, unless the
topic is to be deleted. It has brokers and their addresses from their registrations. So a request that anybody
sends in the name of the controller cannot shut out the controller's own requests, remove records that are
committed, or lead clients and followers elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from zkgroup.errors import CorruptZnodeError
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Code
from zkgroup.wire.control import (
    LEADER_DURING_DELETE,
    LeaderAndIsrRequest,
    PartitionStateInfo,
    StopReplicaRequest,
    UpdateMetadataBroker,
    UpdateMetadataRequest,
)
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic
from zkgroup.znodes.ids import is_legal

Claiming = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest
Known = Callable[[TopicPartition], PartitionStateInfo | None]
"""The state of a partition in the last request that was obeyed; None without one."""
ZnodeOrCode = Znode | Code | None


@dataclass(frozen=True, slots=True)
class StoredStates:
    """The partitions and their topics as ZooKeeper has them."""

    states: Mapping[TopicPartition, PartitionState]
    """Without those that are missing or cannot be read."""
    unreadable: frozenset[TopicPartition]
    to_be_deleted: frozenset[str] = frozenset()
    """Topics with a request to delete them. Not read for LeaderAndIsr."""
    topics: Mapping[str, Topic] = field(default_factory=dict)
    """The readable ones. Read for LeaderAndIsr only."""


def claimed(request: Claiming, broker: int, known: Known) -> tuple[TopicPartition, ...]:
    """The partitions that are to be compared: those that the request may change here."""
    if isinstance(request, StopReplicaRequest):
        return tuple(tp for tp in dict.fromkeys(request.partitions) if is_legal(tp))
    is_role = isinstance(request, LeaderAndIsrRequest)

    def is_new(state: PartitionStateInfo) -> bool:
        before = known(state.topic_partition)
        if before is None or (state.leader, state.leader_epoch) != (before.leader, before.leader_epoch):
            return True
        return is_role and {*state.replicas} != {*before.replicas}

    return tuple(
        dict.fromkeys(
            state.topic_partition
            for state in request.partitions
            if (not is_role or broker in state.replicas) and is_new(state) and is_legal(state.topic_partition)
        )
    )


def paths_of(request: Claiming, partitions: Iterable[TopicPartition]) -> tuple[str, ...]:
    """The znodes to read: the states, and of each topic its own one, or the request to delete it."""
    of_topic = Topic.path if isinstance(request, LeaderAndIsrRequest) else TopicDeletion.path
    return (*PartitionState.paths(tuple(partitions)), *map(of_topic, _topics(partitions)))


def stored_states(
    request: Claiming, partitions: tuple[TopicPartition, ...], znodes: tuple[ZnodeOrCode, ...]
) -> StoredStates:
    """The result of a read of `paths_of`."""
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
    of_topics = {
        topic: znode
        for topic, znode in zip(_topics(partitions), znodes[len(partitions) :], strict=True)
        if isinstance(znode, Znode)
    }
    if not isinstance(request, LeaderAndIsrRequest):
        return StoredStates(states, frozenset(unreadable), to_be_deleted=frozenset(of_topics))
    topics = {}
    for topic, znode in of_topics.items():
        with suppress(CorruptZnodeError):
            topics[topic] = Topic.decode(znode.path, znode.data)
    return StoredStates(states, frozenset(unreadable), topics=topics)


def impossible(
    request: Claiming,
    broker: int,
    partitions: Iterable[TopicPartition],
    known: Known,
    stored: StoredStates,
) -> frozenset[TopicPartition]:
    """Those of the compared partitions of which no controller can have sent this; nothing is done with them.

    One whose state cannot be read is possible. A role of a partition without a state may be late: its topic
    was deleted.
    """
    compared = [tp for tp in partitions if tp not in stored.unreadable]
    if isinstance(request, StopReplicaRequest):
        return frozenset(
            tp
            for tp in compared
            if not _is_going(tp, stored)
            and (stored.states[tp].leader == broker or (request.delete and broker in stored.states[tp].isr))
        )
    sent = {state.topic_partition: state for state in request.partitions}
    return frozenset(
        tp
        for tp in compared
        if not _is_stored(sent[tp], stored) or _has_made_up_replicas(sent[tp], known, stored)
    )


def _is_going(tp: TopicPartition, stored: StoredStates) -> bool:
    """Returns whether the topic is to be deleted, or is gone."""
    return tp.topic in stored.to_be_deleted or tp not in stored.states


def _is_stored(sent: PartitionStateInfo, stored: StoredStates) -> bool:
    """Returns whether the leader of a partition is or was as sent."""
    tp = sent.topic_partition
    if sent.leader == LEADER_DURING_DELETE:
        return _is_going(tp, stored)
    found = stored.states.get(tp)
    if found is None or sent.leader_epoch > found.leader_epoch:
        return False
    return sent.leader_epoch < found.leader_epoch or sent.leader == found.leader


def _has_made_up_replicas(sent: PartitionStateInfo, known: Known, stored: StoredStates) -> bool:
    """Returns whether a known role comes again with other replicas than the topic has.

    With a new leader epoch it may have others: a reassignment sends its target before it writes it.
    """
    tp = sent.topic_partition
    before, topic = known(tp), stored.topics.get(tp.topic)
    if before is None or topic is None or sent.leader_epoch != before.leader_epoch:
        return False
    return {*sent.replicas} not in ({*before.replicas}, {*topic.partitions.get(tp.partition, ())})


def without(request: Claiming, refused: frozenset[TopicPartition]) -> Claiming:
    """The request without these partitions."""
    if isinstance(request, StopReplicaRequest):
        return replace(request, partitions=tuple(tp for tp in request.partitions if tp not in refused))
    states = tuple(each for each in request.partitions if each.topic_partition not in refused)
    return replace(request, partitions=states)


def _topics(partitions: Iterable[TopicPartition]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tp.topic for tp in partitions))


def claimed_brokers(request: Claiming, live: Mapping[int, UpdateMetadataBroker]) -> tuple[int, ...]:
    """The brokers that UpdateMetadata changes, adds, or takes away from the live ones."""
    if not isinstance(request, UpdateMetadataRequest):
        return ()
    sent = {each.broker: each for each in request.brokers}
    return tuple(
        sorted(
            id_ for id_ in sent.keys() | live.keys() if _listeners(sent.get(id_)) != _listeners(live.get(id_))
        )
    )


def registered_brokers(
    request: UpdateMetadataRequest,
    live: Mapping[int, UpdateMetadataBroker],
    compared: tuple[int, ...],
    znodes: tuple[ZnodeOrCode, ...],
) -> tuple[UpdateMetadataBroker, ...]:
    """The live brokers by this request, as far as it agrees with their registrations.

    A live broker that is registered as before stays as it is. Another one that is not registered, or at
    another address, is left out. Where the request is only late, the controller sends the next one.
    """
    brokers = {each.broker: each for each in request.brokers}
    for number, znode in zip(compared, znodes, strict=True):
        if isinstance(znode, Code):
            continue
        found = None if znode is None else _registered(znode)
        if _listeners(brokers.get(number)) != found:
            brokers.pop(number, None)
            if found is not None and (known := live.get(number)) and known.listeners == found:
                brokers[number] = known
    return tuple(brokers.values())


_Listeners = Mapping[str, tuple[str | None, int]]
"""Host and port of each listener by its name."""


def _listeners(broker: UpdateMetadataBroker | None) -> _Listeners | None:
    return None if broker is None else broker.listeners


def _registered(znode: Znode) -> _Listeners | None:
    try:
        found = BrokerRegistration.decode(znode.path, znode.data)
    except CorruptZnodeError:
        return None
    return {each.listener: (each.host, each.port) for each in found.listeners}
