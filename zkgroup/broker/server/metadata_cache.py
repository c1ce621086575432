"""The metadata cache of a broker: the content of UpdateMetadata requests, as answers for clients. Pure.

Only UpdateMetadata changes it, so it answers without a connection to ZooKeeper.
Source: kafka/server/MetadataCache.scala, KafkaApis.scala and OffsetManager.scala @0.8.2.2 for version 0, the
first two @2.8.2 for later versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from zkgroup.coordinator.group_ids import slot_of
from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition
from zkgroup.wire.control import (
    LEADER_DURING_DELETE,
    BrokerEndPoint,
    PartitionStateInfo,
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

    def __init__(self, on_update: Callable[[frozenset[str]], None] = lambda deleted: None) -> None:
        """`on_update` is called after each update, with the topics that the controller deletes."""
        self._on_update = on_update
        self._brokers: dict[int, BrokerEndPoint] = {}
        self._topics: dict[str, dict[int, PartitionStateInfo]] = {}
        self._answers: dict[str, TopicMetadata] = {}
        """Answers in version 0 by topic, made on demand; removed when topic or live brokers change."""
        self._later_answers: dict[str, TopicMetadata] = {}
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
        if brokers.keys() != self._brokers.keys():
            self._answers.clear()
            self._later_answers.clear()
        self._brokers = brokers
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
        self._answers.pop(topic, None)
        self._later_answers.pop(topic, None)

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
    def brokers(self) -> Mapping[int, BrokerEndPoint]:
        """The live brokers by id, including brokers in a controlled shutdown."""
        return MappingProxyType(self._brokers)

    @property
    def controller(self) -> BrokerEndPoint | None:
        """The address of the sender of the last update; None if it is not a live broker."""
        return None if self._controller is None else self._brokers.get(self._controller[0])

    def partition(self, tp: TopicPartition) -> PartitionStateInfo | None:
        """The last state of a partition; None if it is unknown."""
        return self._topics.get(tp.topic, {}).get(tp.partition)

    def knows(self, tp: TopicPartition) -> bool:
        """Returns whether a partition exists."""
        states = self._topics.get(tp.topic)
        return states is not None and tp.partition in states

    @property
    def named_controller(self) -> int:
        """The broker to which clients send requests that change the cluster; -1 without a live broker.

        The active controller, or the live broker with the lowest id if the controller has no replicas: every
        broker answers these requests.
        """
        if self._controller is not None and self._controller[0] in self._brokers:
            return self._controller[0]
        return min(self._brokers, default=-1)

    def leaders(self, topic: str) -> Mapping[int, int] | None:
        """The live leader of each partition, -1 for none; None for an unknown topic."""
        partitions = self._topics.get(topic)
        if partitions is None:
            return None
        return {
            number: state.leader if state.leader in self._brokers else -1
            for number, state in partitions.items()
        }

    def metadata(self, topics: Iterable[str] | None, version: int = 0) -> MetadataResponse:
        """The answer to Metadata: each named topic once, in the request's order, or all topics for None.

        In version 0 no topic stands for all. An unknown topic has error 3, an invalid name 17. If one name is
        invalid in version 0, every topic of the answer has error 17 and the answer has no brokers, as at
        0.8.2.2, which rejects the whole request.
        """
        asked = None if topics is None else tuple(dict.fromkeys(topics))
        brokers = tuple(self._brokers[broker] for broker in sorted(self._brokers))
        if version > 0:
            names = sorted(self._topics) if asked is None else asked
            answers = tuple(self._later_topic(topic) for topic in names)
            return MetadataResponse(brokers, answers, controller_id=self.named_controller)
        if asked and not all(topic in self._topics or _can_exist(topic) for topic in asked):
            refused = tuple(TopicMetadata(ErrorCode.INVALID_TOPIC, topic, ()) for topic in asked)
            return MetadataResponse((), refused)
        return MetadataResponse(brokers, tuple(self._topic(topic) for topic in asked or sorted(self._topics)))

    def prepare(self, topics: Iterable[str] | None, version: int = 0) -> Iterator[None]:
        """Makes the answers of these topics, or of all, in batches of partitions; yields after each batch.

        An event loop can do other work at each yield. `metadata` then makes only the answers of topics that
        changed in between.
        """
        made = 0
        make, answers = (
            (self._topic, self._answers) if version == 0 else (self._later_topic, self._later_answers)
        )
        named = () if topics is None else tuple(topics)
        is_all = topics is None or (version == 0 and not named)
        for topic in sorted(self._topics) if is_all else named:
            if topic in answers:
                continue
            made += max(1, len(make(topic).partitions))
            if made >= PIECE:
                made = 0
                yield

    def coordinator(self, group: str, slots: int) -> FindCoordinatorResponse:
        """The answer to FindCoordinator version 0: the leader of the group's slot.

        Error 15 if its partition is unknown or has no live leader. `slots`: their number, which was written
        once; never the number of partitions known so far. 0: it is not known.
        """
        partitions = self._topics.get(OFFSETS_TOPIC)
        if not partitions or not slots:
            return _NO_COORDINATOR
        state = partitions.get(slot_of(group, slots))
        leader = None if state is None else self._brokers.get(state.leader)
        if leader is None:
            return _NO_COORDINATOR
        return FindCoordinatorResponse(ErrorCode.NONE, leader.broker, leader.host, leader.port)

    def _topic(self, topic: str) -> TopicMetadata:
        partitions = self._topics.get(topic)
        if partitions is None:
            return TopicMetadata(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic, ())
        answer = self._answers.get(topic)
        if answer is None:
            entries = tuple(self._partition(partitions[number]) for number in sorted(partitions))
            answer = self._answers[topic] = TopicMetadata(ErrorCode.NONE, topic, entries)
        return answer

    def _partition(self, state: PartitionStateInfo) -> PartitionMetadata:
        replicas = self._living(state.replicas)
        if state.leader not in self._brokers:
            return PartitionMetadata(ErrorCode.LEADER_NOT_AVAILABLE, state.partition, -1, replicas, ())
        isr = self._living(state.isr)
        all_live = len(replicas) == len(state.replicas) and len(isr) == len(state.isr)
        error = ErrorCode.NONE if all_live else ErrorCode.REPLICA_NOT_AVAILABLE
        return PartitionMetadata(error, state.partition, state.leader, replicas, isr)

    def _later_topic(self, topic: str) -> TopicMetadata:
        partitions, is_internal = self._topics.get(topic), topic in INTERNAL_TOPICS
        if partitions is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if _can_exist(topic) else ErrorCode.INVALID_TOPIC
            return TopicMetadata(error, topic, (), is_internal=is_internal)
        answer = self._later_answers.get(topic)
        if answer is None:
            entries = tuple(self._later_partition(partitions[number]) for number in sorted(partitions))
            answer = TopicMetadata(ErrorCode.NONE, topic, entries, is_internal=is_internal)
            self._later_answers[topic] = answer
        return answer

    def _later_partition(self, state: PartitionStateInfo) -> PartitionMetadata:
        """A partition with all its replicas and its whole ISR, whether they are live or not."""
        has_leader = state.leader in self._brokers
        return PartitionMetadata(
            ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
            state.partition,
            state.leader if has_leader else -1,
            state.replicas,
            state.isr,
            leader_epoch=state.leader_epoch,
            offline=tuple(broker for broker in state.replicas if broker not in self._brokers),
        )

    def _living(self, brokers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(broker for broker in brokers if broker in self._brokers)


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
