"""The metadata cache of a broker: the content of UpdateMetadata requests, as answers for clients. Pure.

Only UpdateMetadata changes it, so it answers without a connection to ZooKeeper.
Source: kafka/server/MetadataCache.scala, KafkaApis.scala and OffsetManager.scala @0.8.2.2 for version 0, the
first two @2.8.2 for later versions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from zkgroup.coordinator.group_ids import slot_of
from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition
from zkgroup.model.values import PLAINTEXT
from zkgroup.wire.control import (
    LEADER_DURING_DELETE,
    BrokerEndPoint,
    PartitionStateInfo,
    UpdateMetadataBroker,
    UpdateMetadataRequest,
)
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.metadata import (
    PIECE,
    FindCoordinatorResponse,
    MetadataResponse,
    PartitionMetadata,
    TopicMetadata,
)
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC
from zkgroup.znodes.ids import validate_new_topic

TRANSACTIONS_TOPIC = "__transaction_state"
"""Kafka's topic of transactions, which are not served."""
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})
"""Topics that Metadata marks as internal."""
_NO_COORDINATOR = FindCoordinatorResponse(ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1)


class MetadataCache:
    """The live brokers, and the leader, ISR and replicas of each partition, as the controller sent them last.

    Not thread-safe: control requests and answers to clients use one thread.
    """

    def __init__(
        self,
        on_update: Callable[[frozenset[str]], None] = lambda deleted: None,
        inter_broker: str = PLAINTEXT,
    ) -> None:
        """
        Args:
            on_update: is called after each update, with the topics that the controller deletes.
            inter_broker: the listener by which brokers reach each other.
        """
        self._on_update = on_update
        self._inter_broker = inter_broker
        self._brokers: dict[int, UpdateMetadataBroker] = {}
        self._nodes: dict[str, Mapping[int, BrokerEndPoint]] = {}
        """What `nodes` has returned since the last update."""
        self._live: dict[str, frozenset[int]] = {}
        """The brokers of `nodes`."""
        self._topics: dict[str, dict[int, PartitionStateInfo]] = {}
        self._answers: dict[Collection[int], dict[str, TopicMetadata]] = {}
        """Answers in version 0 by topic, made on demand, for each set of brokers that have a listener.
        Removed when the topic or the live brokers change."""
        self._later_answers: dict[Collection[int], dict[str, TopicMetadata]] = {}
        """The same for versions from 1 on."""
        self._unconfirmed: set[TopicPartition] = set()
        """Partitions whose states are from before the present registration."""
        self._controller: tuple[int, int] | None = None
        self._updated_ms: int | None = None

    def update(self, request: UpdateMetadataRequest, now_ms: int) -> None:
        """Applies a request whose controller epoch was accepted by `ControlRequestHandler`.

        The request's brokers replace the live brokers. A partition with leader -2 is removed, and its topic
        with the last partition. Any other state replaces the known one, unless the known state has a higher
        leader epoch and no lower controller epoch: a request that is sent again can arrive after later ones
        (disorder of UpdateMetadata: K29). 0.8.2.2 does not compare them.
        """
        brokers = {broker.broker: broker for broker in request.brokers}
        if {id_: {*one.listeners} for id_, one in brokers.items()} != {
            id_: {*one.listeners} for id_, one in self._brokers.items()
        }:
            self._answers.clear()
            self._later_answers.clear()
        self._brokers = brokers
        self._nodes.clear()
        self._live.clear()
        self._controller = request.controller_id, request.controller_epoch
        self._updated_ms = now_ms
        going = set()
        for state in request.partitions:
            tp = state.topic_partition
            known = self.partition(tp)
            if state.leader == LEADER_DURING_DELETE:
                self._forget(tp)
                going.add(state.topic)
            elif known is None or tp in self._unconfirmed or not _is_older(state, known):
                self._topics.setdefault(state.topic, {})[state.partition] = state
                self._changed(state.topic)
                self._unconfirmed.discard(tp)
        self._on_update(frozenset(going - self._topics.keys()))

    def mark_unconfirmed(self) -> None:
        """Accepts any leader epoch in the next state of each partition; call it after a new registration.

        Without a registration the broker received no control requests: a topic may have been deleted and
        created again, with lower leader epochs. The known states are served until the next ones arrive.
        """
        self._unconfirmed = {
            TopicPartition(topic, partition)
            for topic, partitions in self._topics.items()
            for partition in partitions
        }

    def _forget(self, tp: TopicPartition) -> None:
        self._unconfirmed.discard(tp)
        partitions = self._topics.get(tp.topic)
        if partitions is None:
            return
        partitions.pop(tp.partition, None)
        self._changed(tp.topic)
        if not partitions:
            del self._topics[tp.topic]

    def _changed(self, topic: str) -> None:
        for answers in (*self._answers.values(), *self._later_answers.values()):
            answers.pop(topic, None)

    @property
    def controller_id(self) -> int | None:
        """The broker that sent the last update; None before the first."""
        return None if self._controller is None else self._controller[0]

    @property
    def controller_epoch(self) -> int | None:
        """The controller epoch of the last update; None before the first."""
        return None if self._controller is None else self._controller[1]

    def age_ms(self, now_ms: int) -> int | None:
        """The time since the last update, by the clock of `update`; None before the first."""
        return None if self._updated_ms is None else now_ms - self._updated_ms

    @property
    def brokers(self) -> Mapping[int, UpdateMetadataBroker]:
        """The live brokers by id, including brokers in a controlled shutdown."""
        return MappingProxyType(self._brokers)

    def nodes(self, listener: str) -> Mapping[int, BrokerEndPoint]:
        """The addresses of the live brokers that have this listener, by id and in its order."""
        found = self._nodes.get(listener)
        if found is None:
            found = self._nodes[listener] = {
                id_: BrokerEndPoint(id_, *address, one.rack)
                for id_, one in sorted(self._brokers.items())
                if (address := one.listeners.get(listener)) is not None
            }
        return found

    @property
    def peers(self) -> Mapping[int, BrokerEndPoint]:
        """The addresses by which this broker reaches the others, by id; without their racks."""
        return {id_: replace(one, rack=None) for id_, one in self.nodes(self._inter_broker).items()}

    def peer(self, named: BrokerEndPoint) -> BrokerEndPoint:
        """The address of a broker by the inter-broker listener of this one.

        A controller with another inter-broker listener names that one: so it is between the restarts that
        change it.
        """
        one = self._brokers.get(named.broker)
        if one is None or (named.host, named.port) not in one.listeners.values():
            return named
        return self.peers.get(named.broker, named)

    @property
    def controller(self) -> BrokerEndPoint | None:
        """The address of the sender of the last update; None if it is not a live broker."""
        return None if self._controller is None else self.peers.get(self._controller[0])

    def partition(self, tp: TopicPartition) -> PartitionStateInfo | None:
        """The last state of a partition; None if it is unknown."""
        return self._topics.get(tp.topic, {}).get(tp.partition)

    def knows(self, tp: TopicPartition) -> bool:
        """Returns whether a partition exists."""
        states = self._topics.get(tp.topic)
        return states is not None and tp.partition in states

    def named_controller(self, listener: str = PLAINTEXT) -> int:
        """The broker to which clients of a listener send requests that change the cluster; -1 without one.

        The active controller, or the live broker with the lowest id if the controller has no replicas: every
        broker answers these requests.
        """
        nodes = self.nodes(listener)
        if self._controller is not None and self._controller[0] in nodes:
            return self._controller[0]
        return min(nodes, default=-1)

    def leaders(self, topic: str) -> Mapping[int, int] | None:
        """The live leader of each partition, -1 for none; None for an unknown topic."""
        partitions = self._topics.get(topic)
        if partitions is None:
            return None
        return {
            number: state.leader if state.leader in self._brokers else -1
            for number, state in partitions.items()
        }

    def metadata(
        self, topics: Iterable[str] | None, version: int = 0, listener: str = PLAINTEXT
    ) -> MetadataResponse:
        """The answer to Metadata: each named topic once, in the request's order, or all topics for None.

        It names the brokers that have the listener, by which the client came, and only these are live in it.

        In version 0 no topic stands for all. An unknown topic has error 3, an invalid name 17. If one name is
        invalid in version 0, every topic of the answer has error 17 and the answer has no brokers, as at
        0.8.2.2, which rejects the whole request.
        """
        asked = None if topics is None else tuple(dict.fromkeys(topics))
        nodes = self.nodes(listener)
        brokers = tuple(nodes.values())
        if version > 0:
            names = sorted(self._topics) if asked is None else asked
            answers = tuple(self._later_topic(topic, listener) for topic in names)
            return MetadataResponse(brokers, answers, controller_id=self.named_controller(listener))
        if asked and not all(topic in self._topics or _can_exist(topic) for topic in asked):
            refused = tuple(TopicMetadata(ErrorCode.INVALID_TOPIC, topic, ()) for topic in asked)
            return MetadataResponse((), refused)
        names = asked or sorted(self._topics)
        return MetadataResponse(brokers, tuple(self._topic(topic, listener) for topic in names))

    def prepare(
        self, topics: Iterable[str] | None, version: int = 0, listener: str = PLAINTEXT
    ) -> Iterator[None]:
        """Makes the answers of these topics, or of all, in batches of partitions; yields after each batch.

        An event loop can do other work at each yield. `metadata` then makes only the answers of topics that
        changed in between.
        """
        made = 0
        make, kept = (
            (self._topic, self._answers) if version == 0 else (self._later_topic, self._later_answers)
        )
        named = () if topics is None else tuple(topics)
        is_all = topics is None or (version == 0 and not named)
        for topic in sorted(self._topics) if is_all else named:
            if topic in kept.get(self._having(listener), ()):
                continue
            made += max(1, len(make(topic, listener).partitions))
            if made >= PIECE:
                made = 0
                yield

    def coordinator(self, group: str, slots: int, listener: str = PLAINTEXT) -> FindCoordinatorResponse:
        """The answer to FindCoordinator version 0: the leader of the group's slot.

        Error 15 if its partition is unknown or has no live leader. `slots`: their number, which was written
        once; never the number of partitions known so far. 0: it is not known.
        """
        partitions = self._topics.get(OFFSETS_TOPIC)
        if not partitions or not slots:
            return _NO_COORDINATOR
        state = partitions.get(slot_of(group, slots))
        leader = None if state is None else self.nodes(listener).get(state.leader)
        if leader is None:
            return _NO_COORDINATOR
        return FindCoordinatorResponse(ErrorCode.NONE, leader.broker, leader.host, leader.port)

    def _having(self, listener: str) -> frozenset[int]:
        found = self._live.get(listener)
        if found is None:
            found = self._live[listener] = frozenset(self.nodes(listener))
        return found

    def _topic(self, topic: str, listener: str) -> TopicMetadata:
        partitions = self._topics.get(topic)
        if partitions is None:
            return TopicMetadata(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic, ())
        live = self._having(listener)
        answers = self._answers.setdefault(live, {})
        answer = answers.get(topic)
        if answer is None:
            entries = tuple(_partition(partitions[number], live) for number in sorted(partitions))
            answer = answers[topic] = TopicMetadata(ErrorCode.NONE, topic, entries)
        return answer

    def _later_topic(self, topic: str, listener: str) -> TopicMetadata:
        partitions, is_internal = self._topics.get(topic), topic in INTERNAL_TOPICS
        if partitions is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if _can_exist(topic) else ErrorCode.INVALID_TOPIC
            return TopicMetadata(error, topic, (), is_internal=is_internal)
        live = self._having(listener)
        answers = self._later_answers.setdefault(live, {})
        answer = answers.get(topic)
        if answer is None:
            entries = tuple(_later_partition(partitions[number], live) for number in sorted(partitions))
            answer = answers[topic] = TopicMetadata(ErrorCode.NONE, topic, entries, is_internal=is_internal)
        return answer


def _partition(state: PartitionStateInfo, live: Container[int]) -> PartitionMetadata:
    replicas = _living(state.replicas, live)
    if state.leader not in live:
        return PartitionMetadata(ErrorCode.LEADER_NOT_AVAILABLE, state.partition, -1, replicas, ())
    isr = _living(state.isr, live)
    all_live = len(replicas) == len(state.replicas) and len(isr) == len(state.isr)
    error = ErrorCode.NONE if all_live else ErrorCode.REPLICA_NOT_AVAILABLE
    return PartitionMetadata(error, state.partition, state.leader, replicas, isr)


def _later_partition(state: PartitionStateInfo, live: Container[int]) -> PartitionMetadata:
    """A partition with all its replicas and its whole ISR, whether they are live or not."""
    has_leader = state.leader in live
    return PartitionMetadata(
        ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        state.partition,
        state.leader if has_leader else -1,
        state.replicas,
        state.isr,
        leader_epoch=state.leader_epoch,
        offline=tuple(broker for broker in state.replicas if broker not in live),
    )


def _living(brokers: tuple[int, ...], live: Container[int]) -> tuple[int, ...]:
    return tuple(broker for broker in brokers if broker in live)


def _is_older(state: PartitionStateInfo, known: PartitionStateInfo) -> bool:
    """Returns whether the leader epoch is lower and the controller epoch is not higher.

    A state of a later controller is never stale: it may be of a topic that was created again.
    """
    return state.leader_epoch < known.leader_epoch and state.controller_epoch <= known.controller_epoch


def _can_exist(topic: str) -> bool:
    """Returns whether a topic that is not known may be created."""
    try:
        validate_new_topic(topic)
    except ConfigError:
        return False
    return True
