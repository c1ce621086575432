"""The znodes of brokers, topics and the controller after each change of a server's log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from zkgroup.history.transactions import Change, ServerTransaction, decoded
from zkgroup.model import TopicPartition
from zkgroup.znodes.admin_requests import PreferredElection, Reassignment, delete_topics_path
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic, broker_ids_path, topics_path
from zkgroup.znodes.controller import (
    ControllerEpoch,
    ControllerRecord,
    ControllerRegistration,
    controller_history_path,
)
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC, SlotConfig
from zkgroup.znodes.ids import number_of
from zkgroup.znodes.reassignment_records import FinishedReassignment
from zkgroup.znodes.stray_replicas import (
    PLACEHOLDER,
    Signs,
    is_unhosted,
    may_be_unhosted,
    unhosted_topics_path,
)

ClusterZnodeKind = Literal[
    "controller",
    "epoch",
    "history",
    "broker",
    "topic",
    "state",
    "moves",
    "preferred",
    "deletion",
    "ended",
    "mark",
    "marks",
]
NO_PARTITION = TopicPartition("", -1)


@dataclass(frozen=True, slots=True)
class ClusterZnode:
    """The cluster's znode at a path: its kind, and its broker, epoch, topic or partition."""

    kind: ClusterZnodeKind
    number: int = -1
    """A broker's id, or the epoch of a record."""
    topic: str = ""
    topic_partition: TopicPartition = NO_PARTITION


@dataclass(frozen=True, slots=True)
class EphemeralZnode:
    """An ephemeral znode: its session, and its czxid."""

    session: int
    czxid: int
    by_zkgroup: bool = False
    hosts: bool = True
    """False for a controller that hosts nothing."""


@dataclass(frozen=True, slots=True)
class StateZnode:
    """A partition's state."""

    state: PartitionState | None
    """None where it is not readable."""
    version: int
    czxid: int


@dataclass(slots=True)
class ReplayedCluster:
    """The znodes of a cluster. `apply` takes one change at a time, in the order of the log."""

    controller: EphemeralZnode | None = None
    epoch: int | None = None
    epoch_session: int = 0
    """The session that wrote the present epoch."""
    brokers: dict[int, EphemeralZnode] = field(default_factory=dict)
    topics: dict[str, Topic | None] = field(default_factory=dict)
    """None for one that is not readable."""
    states: dict[TopicPartition, StateZnode] = field(default_factory=dict)
    moves: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    """The entries of the reassignment znode; none where it is not readable."""
    preferred: bool = False
    """True if a preferred election is requested."""
    deletions: set[str] = field(default_factory=set)
    has_slots: bool = False
    """True if `__consumer_offsets` is the topic of the slots: its number of partitions is stored."""
    _written: dict[str, tuple[int, int]] = field(default_factory=dict)
    """czxid and mzxid of each topic."""
    _marks: dict[str, int] = field(default_factory=dict)
    """Topic to the czxid of the mark that no broker hosts it."""
    _marks_since: int | None = None
    """czxid of their parent."""
    _places: dict[str, ClusterZnode | None] = field(default_factory=dict)

    def place(self, path: str) -> ClusterZnode | None:
        """The cluster's znode at a path, or None."""
        if path not in self._places:
            self._places[path] = _znode_of(path)
        return self._places[path]

    def replicas(self, topic_partition: TopicPartition) -> tuple[int, ...] | None:
        """The replica list, None where there is none or it cannot be read."""
        topic = self.topics.get(topic_partition.topic)
        return None if topic is None else topic.partitions.get(topic_partition.partition)

    def state(self, topic_partition: TopicPartition) -> PartitionState | None:
        seen = self.states.get(topic_partition)
        return None if seen is None else seen.state

    def is_unhosted(self, topic: str) -> bool:
        """Returns whether the topic, created without brokers, has had none assigned since (ADR 0029)."""
        found = self.topics.get(topic)
        if found is None or not may_be_unhosted(found):
            return False
        if any(TopicPartition(topic, number) in self.states for number in found.numbers):
            return False
        made, written = self._written[topic]
        broker = self.brokers.get(PLACEHOLDER[0])
        return is_unhosted(
            Signs(made, written, self._marks.get(topic), self._marks_since, broker.czxid if broker else None)
        )

    def partitions(self) -> Iterable[TopicPartition]:
        """Every partition that a replica list names."""
        for name, topic in self.topics.items():
            for number in () if topic is None else topic.numbers:
                yield TopicPartition(name, number)

    def is_slot(self, tp: TopicPartition) -> bool:
        """Returns whether the partition is a slot of group coordinators, whose log is empty."""
        return self.has_slots and tp.topic == OFFSETS_TOPIC

    def apply(self, transaction: ServerTransaction, change: Change) -> None:
        """Applies one accepted change."""
        if change.path == SlotConfig.path() and change.action != "check":
            self.has_slots = change.action != "delete"
        place = self.place(change.path)
        if place is None or change.action == "check":
            return
        gone = change.action == "delete"
        match place.kind:
            case "controller":
                self._hold_controller(transaction, change)
            case "epoch":
                written = None if gone else decoded(ControllerEpoch.decode, change)
                self.epoch = None if written is None else written.epoch
                self.epoch_session = transaction.session
            case "broker":
                self._register(transaction, change, place.number)
            case "topic":
                self._set_topic(transaction, change, place.topic)
            case "mark" | "marks":
                self._mark(transaction, change, place)
            case "state":
                self._set_state(transaction, change, place.topic_partition)
            case "moves":
                request = None if gone else decoded(Reassignment.decode, change)
                self.moves = {} if request is None else dict(request.targets)
            case "preferred":
                self.preferred = not gone
            case "deletion":
                (self.deletions.discard if gone else self.deletions.add)(place.topic)
            case _:
                pass  # history and ended: read where they are created

    def _hold_controller(self, transaction: ServerTransaction, change: Change) -> None:
        if change.action == "delete":
            self.controller = None
        elif change.action == "create":
            self.controller = EphemeralZnode(change.ephemeral_owner, transaction.zxid)

    def _register(self, transaction: ServerTransaction, change: Change, broker: int) -> None:
        if change.action == "delete":
            self.brokers.pop(broker, None)
            return
        written = decoded(BrokerRegistration.decode, change)
        before = self.brokers.get(broker)
        is_new = change.action == "create" or before is None
        self.brokers[broker] = EphemeralZnode(
            change.ephemeral_owner if before is None or is_new else before.session,
            transaction.zxid if before is None or is_new else before.czxid,
            written is not None and written.is_zkgroup,
            written is None or written.role != "controller",
        )

    def _set_topic(self, transaction: ServerTransaction, change: Change, topic: str) -> None:
        if change.action == "delete":
            self.topics.pop(topic, None)
            self._written.pop(topic, None)
            return
        self.topics[topic] = decoded(Topic.decode, change)
        made, _ = self._written.get(topic, (transaction.zxid, 0))
        self._written[topic] = made, transaction.zxid

    def _mark(self, transaction: ServerTransaction, change: Change, place: ClusterZnode) -> None:
        gone = change.action == "delete"
        if place.kind == "marks":
            self._marks_since = None if gone else self._marks_since or transaction.zxid
        elif gone:
            self._marks.pop(place.topic, None)
        else:
            self._marks.setdefault(place.topic, transaction.zxid)

    def _set_state(
        self, transaction: ServerTransaction, change: Change, topic_partition: TopicPartition
    ) -> None:
        if change.action == "delete":
            self.states.pop(topic_partition, None)
            return
        before = self.states.get(topic_partition)
        czxid = transaction.zxid if change.action == "create" or before is None else before.czxid
        state = decoded(PartitionState.decode, change)
        self.states[topic_partition] = StateZnode(state, change.version or 0, czxid)


def finished_reassignments(transaction: ServerTransaction) -> Iterable[FinishedReassignment]:
    """The terminal records that a transaction makes."""
    for change in transaction.changes:
        if change.action == "create" and change.path.startswith(FinishedReassignment.prefix()):
            ended = decoded(FinishedReassignment.decode, change)
            if ended is not None:
                yield ended


def recorded_epochs(transaction: ServerTransaction) -> set[int]:
    """The epochs whose history record a transaction makes."""
    prefix = f"{controller_history_path()}/"
    names = (c.path.removeprefix(prefix) for c in transaction.changes if c.action == "create")
    return {epoch for name in names if (epoch := ControllerRecord.epoch_of(name)) is not None}


def zkgroup_sessions(transactions: Iterable[ServerTransaction]) -> frozenset[int]:
    """Sessions of zkgroup's controllers and brokers, by what they wrote."""
    found = set()
    replayed = ReplayedCluster()
    for transaction in transactions:
        for change in transaction.changes if transaction.refusal is None else ():
            place = replayed.place(change.path)
            if change.action == "check" or place is None:
                continue
            if place.kind == "history":
                found.add(transaction.session)
            elif place.kind == "broker" and change.action != "delete":
                written = decoded(BrokerRegistration.decode, change)
                if written is not None and written.is_zkgroup:
                    found.add(transaction.session)
    return frozenset(found - {0})


_FIXED: dict[str, ClusterZnodeKind] = {
    ControllerRegistration.path(): "controller",
    ControllerEpoch.path(): "epoch",
    Reassignment.path(): "moves",
    PreferredElection.path(): "preferred",
    unhosted_topics_path(): "marks",
}


def _znode_of(path: str) -> ClusterZnode | None:
    if path in _FIXED:
        return ClusterZnode(_FIXED[path])
    parent, _, name = path.rpartition("/")
    if parent == broker_ids_path() and (number := number_of(name)) is not None:
        return ClusterZnode("broker", number=number)
    if parent == controller_history_path() and (epoch := ControllerRecord.epoch_of(name)) is not None:
        return ClusterZnode("history", number=epoch)
    if parent == topics_path():
        return ClusterZnode("topic", topic=name)
    if parent == delete_topics_path():
        return ClusterZnode("deletion", topic=name)
    if parent == unhosted_topics_path():
        return ClusterZnode("mark", topic=name)
    if path.startswith(FinishedReassignment.prefix()):
        return ClusterZnode("ended")
    prefix = f"{topics_path()}/"
    if path.startswith(prefix) and name == "state":
        topic, _, rest = path.removeprefix(prefix).partition("/partitions/")
        number = number_of(rest.removesuffix("/state"))
        if number is not None:
            return ClusterZnode("state", topic=topic, topic_partition=TopicPartition(topic, number))
    return None
