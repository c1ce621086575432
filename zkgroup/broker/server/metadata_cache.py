"""The metadata cache: what the controller's UpdateMetadata said, as answers for clients.

Filled by the controller's UpdateMetadata and by nothing else, so it keeps answering while ZooKeeper is away.
Pure.
Source: kafka/server/MetadataCache.scala, KafkaApis.scala and OffsetManager.scala @0.8.2.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from zkgroup.assignment.order import java_hash
from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition
from zkgroup.wire.control import LEADER_DURING_DELETE, Broker, PartitionStateInfo, UpdateMetadataRequest
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.metadata import (
    PIECE,
    FindCoordinatorResponse,
    MetadataResponse,
    PartitionMetadata,
    TopicMetadata,
)
from zkgroup.znodes.ids import validate_topic

OFFSETS_TOPIC = "__consumer_offsets"
"""Where Kafka keeps offsets of groups; who leads a partition of it coordinates the groups that fall there."""
_NO_COORDINATOR = FindCoordinatorResponse(ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1)


class MetadataCache:
    """Live brokers, and leader, ISR and replicas of each partition, as the controller sent them last.

    Not thread-safe: control requests and the answers to clients are on one thread.
    """

    def __init__(self) -> None:
        self._brokers: dict[int, Broker] = {}
        self._topics: dict[str, dict[int, PartitionStateInfo]] = {}
        self._answers: dict[str, TopicMetadata] = {}
        """Made when first asked for, until something of the topic or the live brokers change."""
        self._doubted: set[TopicPartition] = set()
        self._controller: tuple[int, int] | None = None
        self._updated_ms: int | None = None

    # --- filled by the controller ---------------------------------------------------------------

    def update(self, request: UpdateMetadataRequest, now_ms: int) -> tuple[TopicPartition, ...]:
        """Takes in a request that passed the controller epoch's fence (`ControlRequestHandler`).

        The brokers replace those known. A partition with leader -2 is forgotten, its topic with the last
        one. Any other replaces what is known of the partition, except where that is later by the leader's
        epoch and not earlier by the epoch of the controller that decided: a request that was sent again
        can arrive behind later ones (K29). 0.8.2.2 compares nothing.

        Returns:
            the partitions whose entry was too old and is left as it was.
        """
        brokers = {broker.broker: broker for broker in request.brokers}
        if brokers.keys() != self._brokers.keys():
            self._answers.clear()
        self._brokers = brokers
        self._controller = request.controller_id, request.controller_epoch
        self._updated_ms = now_ms
        old = []
        for state in request.partitions:
            known = self._topics.get(state.topic, {}).get(state.partition)
            if state.leader == LEADER_DURING_DELETE:
                self._forget(state.topic_partition)
            elif known is not None and _is_older(state, known) and not self._is_doubted(state):
                old.append(state.topic_partition)
            else:
                self._topics.setdefault(state.topic, {})[state.partition] = state
                self._answers.pop(state.topic, None)
                self._doubted.discard(state.topic_partition)
        return tuple(old)

    def doubt(self) -> None:
        """The broker was away from `/brokers/ids` and is registered anew.

        Meanwhile it got nothing from the controller: a topic may have been deleted and made again, and its
        leader epochs with it. What is known is served on, and the next word on each partition is believed.
        """
        self._doubted = {
            TopicPartition(topic, partition)
            for topic, partitions in self._topics.items()
            for partition in partitions
        }

    def _is_doubted(self, state: PartitionStateInfo) -> bool:
        return state.topic_partition in self._doubted

    def _forget(self, tp: TopicPartition) -> None:
        self._doubted.discard(tp)
        partitions = self._topics.get(tp.topic)
        if partitions is None:
            return
        partitions.pop(tp.partition, None)
        self._answers.pop(tp.topic, None)
        if not partitions:
            del self._topics[tp.topic]

    # --- what is known --------------------------------------------------------------------------

    @property
    def controller_id(self) -> int | None:
        """The broker that sent the last update; None before the first."""
        return None if self._controller is None else self._controller[0]

    @property
    def controller_epoch(self) -> int | None:
        """Of the last update; None before the first."""
        return None if self._controller is None else self._controller[1]

    def age_ms(self, now_ms: int) -> int | None:
        """How long ago the last update came, by the clock of `update`; None before the first."""
        return None if self._updated_ms is None else now_ms - self._updated_ms

    @property
    def brokers(self) -> Mapping[int, Broker]:
        """Live brokers, those that shut down among them, by id."""
        return MappingProxyType(self._brokers)

    @property
    def controller(self) -> Broker | None:
        """Where the sender of the last update can be reached; None where it is no live broker."""
        return None if self._controller is None else self._brokers.get(self._controller[0])

    def partition(self, tp: TopicPartition) -> PartitionStateInfo | None:
        """What the controller sent last about a partition."""
        return self._topics.get(tp.topic, {}).get(tp.partition)

    # --- answers to clients ---------------------------------------------------------------------

    def metadata(self, topics: Iterable[str]) -> MetadataResponse:
        """The answer to Metadata version 0: each topic once, in the order asked for; all where none is named.

        A topic that is not known has error 3: topics are not made by asking. Where one name is no legal
        topic name, every topic of the answer has error 17 and no broker is named, as at 0.8.2.2, whose
        handler gives up on the whole request.
        """
        asked = tuple(dict.fromkeys(topics))
        if not all(map(_is_legal, asked)):
            refused = tuple(TopicMetadata(ErrorCode.INVALID_TOPIC, topic, ()) for topic in asked)
            return MetadataResponse((), refused)
        return MetadataResponse(
            tuple(self._brokers[broker] for broker in sorted(self._brokers)),
            tuple(self._topic(topic) for topic in asked or sorted(self._topics)),
        )

    def prepare(self, topics: Iterable[str]) -> Iterator[None]:
        """Makes what `metadata` answers of these topics, or of all, in bounded pieces: nothing is to be made
        any more then, but for what was changed in between. For an event loop that must not be blocked for
        long.
        """
        made = 0
        for topic in tuple(topics) or sorted(self._topics):
            if topic in self._answers:
                continue
            made += max(1, len(self._topic(topic).partitions))
            if made >= PIECE:
                made = 0
                yield

    def coordinator(self, group: str) -> FindCoordinatorResponse:
        """The answer to FindCoordinator version 0: who leads the group's partition of Kafka's offsets topic.

        Error 15 where that topic is not known, or the partition has no live leader. 0.8.2.2 takes the
        number of partitions from its own settings; here it is the number that the controller has named.
        """
        partitions = self._topics.get(OFFSETS_TOPIC, {})
        if not partitions:
            return _NO_COORDINATOR
        state = partitions.get(_distance_from_zero(java_hash(group)) % len(partitions))
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
            told = tuple(self._partition(partitions[number]) for number in sorted(partitions))
            answer = self._answers[topic] = TopicMetadata(ErrorCode.NONE, topic, told)
        return answer

    def _partition(self, state: PartitionStateInfo) -> PartitionMetadata:
        replicas = self._living(state.replicas)
        if state.leader not in self._brokers:
            return PartitionMetadata(ErrorCode.LEADER_NOT_AVAILABLE, state.partition, -1, replicas, ())
        isr = self._living(state.isr)
        all_live = len(replicas) == len(state.replicas) and len(isr) == len(state.isr)
        error = ErrorCode.NONE if all_live else ErrorCode.REPLICA_NOT_AVAILABLE
        return PartitionMetadata(error, state.partition, state.leader, replicas, isr)

    def _living(self, brokers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(broker for broker in brokers if broker in self._brokers)


def _is_older(state: PartitionStateInfo, known: PartitionStateInfo) -> bool:
    """By the leader's epoch. A later controller is believed: it may speak of a topic that was made again."""
    return state.leader_epoch < known.leader_epoch and state.controller_epoch <= known.controller_epoch


def _is_legal(topic: str) -> bool:
    try:
        validate_topic(topic)
    except ConfigError:
        return False
    return True


def _distance_from_zero(number: int) -> int:
    """`Utils.abs` of 0.8.2.2: the smallest int of Java has none and counts as 0."""
    return 0 if number == -(2**31) else abs(number)
