"""The controller context: the cluster as last read from or written to ZooKeeper, each value with its version.

ZooKeeper has the truth: every write carries the version of what its decision is based on. The context is
where decisions start, and what requests to brokers are built from.

A cluster has some hundred thousand partitions, so a partition costs little: states and lists of brokers are
shared by all that have the same, and indices are plain numbers, topic by topic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

from zkgroup.controller.machine.state_machines import (
    PARTITIONS,
    REPLICAS,
    PartitionAndReplica,
    PartitionPhase,
    PhaseTable,
    ReplicaPhase,
)
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import (
    NO_LEADER,
    PLAIN_LISTENER,
    BrokerRegistration,
    Endpoint,
    InterBrokerListener,
    PartitionState,
    Topic,
)
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC

Brokers = tuple[int, ...]
"""Broker ids in an order that matters."""


class LeaderIsrAndControllerEpoch(NamedTuple):
    """The state of a partition as it stands in its znode, and the znode's version."""

    state: PartitionState
    version: int
    """Data version of the znode: the fence of the next write."""

    @property
    def leader(self) -> int:
        return self.state.leader

    @property
    def leader_epoch(self) -> int:
        return self.state.leader_epoch

    @property
    def isr(self) -> Brokers:
        return self.state.isr

    @property
    def controller_epoch(self) -> int:
        """Of the controller that decided it."""
        return self.state.controller_epoch

    def is_of_later_controller(self, epoch: int) -> bool:
        """Returns whether a controller after this epoch has decided it: it must not be overwritten (fence
        F3)."""
        return self.controller_epoch > epoch

    def decided(self, leader: int, isr: Brokers, controller_epoch: int) -> PartitionState:
        """The next state by decision of a controller: the leader epoch grows by one, always.

        Whatever else the znode holds is kept. A leader of 0.8.2.2 takes a new version of the znode with a
        higher leader epoch only (stuck leaders, K9).
        """
        return replace(
            self.state,
            leader=leader,
            leader_epoch=self.leader_epoch + 1,
            isr=isr,
            controller_epoch=controller_epoch,
        )


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A registered broker."""

    registration: BrokerRegistration
    epoch: int
    """czxid of the registration: distinguishes one incarnation from the next (KIP-380)."""


class BrokerChange(NamedTuple):
    """The news in a list of registrations, bounced brokers left out."""

    new: frozenset[int]
    gone: frozenset[int]


Index = dict[int, set[int]]
"""Broker to the partitions of one topic that it has: a tuple with the topic's name for each would cost far
more. No set is empty."""


@dataclass(slots=True)
class TopicContext:
    """One topic: its znode, and the states of its partitions."""

    topic: Topic
    version: int
    """Data version of the topic's znode."""
    hosts: Index
    """By the replica lists."""
    leaderships: dict[int, LeaderIsrAndControllerEpoch] = field(default_factory=dict)
    leaders: Index = field(default_factory=dict)
    """By the states, whatever the replica lists say."""

    def led(self, partition: int, before: int, after: int) -> None:
        """The index follows a state whose leader has changed; -1 for none."""
        if before >= 0:
            led = self.leaders[before]
            led.discard(partition)
            if not led:
                del self.leaders[before]
        if after >= 0:
            self.leaders.setdefault(after, set()).add(partition)


class ControllerContext:
    """The cluster as one controller knows it. A controller that resigns drops it whole (KAFKA-5310)."""

    def __init__(self, inter_broker: InterBrokerListener = PLAIN_LISTENER) -> None:
        """`inter_broker`: the listener by which brokers are reached."""
        self._inter_broker = inter_broker
        self.is_loaded = False
        """Everything was read since the last connection, and no reply was missing."""
        self.was_loaded = False
        """Everything was read at least once: what is read now is compared with it."""
        self.brokers: dict[int, LiveBroker] = {}
        """All registered brokers; `set_brokers` changes it."""
        self.live_or_shutting_down: frozenset[int] = frozenset()
        """Brokers that requests can be sent to: data brokers that have the inter-broker listener."""
        self.endpoints: dict[int, Endpoint] = {}
        """The address of that listener of each of them."""
        self.are_plain = True
        """True if each of them has one plain listener and no other."""
        self.shutting_down: set[int] = set()
        """Brokers that asked for a controlled shutdown: they get every request, and are not elected."""
        self.deletions: set[str] = set()
        """Topics that are queued for deletion, known or not."""
        self.given_up: dict[str, Brokers] = {}
        """Brokers that the deletions of these topics do not wait for (blocked deletions, K20)."""
        self.ineligible: dict[str, str] = {}
        """Topic to why its deletion waits."""
        self.unhosted: set[str] = set()
        """Known topics without brokers: created so, and without a reassignment that names one."""
        self.moves: set[TopicPartition] = set()
        """Partitions with an open reassignment."""
        self.offline_replicas: dict[TopicPartition, set[int]] = {}
        """Replicas whose live broker cannot serve them (storage error 56): offline to every election."""
        self.first_states: dict[TopicPartition, int] = {}
        """Partitions that were found, while loading, in the state that was made first, their leaders gone or
        started since, to the czxid of that state."""
        self.unreadable: dict[str, str] = {}
        """Path of each znode that could not be read, and what was wrong with it."""
        self.first_request_sent: dict[int, int] = {}
        """Broker to the incarnation whose first LeaderAndIsr was made (leading Kafka brokers, recipes 15)."""
        self.partition_phases: PhaseTable[TopicPartition, PartitionPhase] = PhaseTable(
            PARTITIONS, PartitionPhase.ONLINE
        )
        """Phase of each partition; those not mentioned are online."""
        self.replica_phases: PhaseTable[PartitionAndReplica, ReplicaPhase] = PhaseTable(
            REPLICAS, ReplicaPhase.ONLINE
        )
        """Phase of each replica; those not mentioned are online."""
        self.restarted_leaders: dict[TopicPartition, None] = {}
        """Partitions led by a zkgroup broker that has started since their state was written."""
        self.topic_czxids: dict[str, int] = {}
        """Topic to the czxid of its znode: distinguishes it from another topic of the same name."""
        self.slots: int | None = None
        """The number of slots of group coordinators: the partitions of `__consumer_offsets` are slots. None
        where zkgroup's brokers coordinate no groups: then it is a topic like any other."""
        self._topics: dict[str, TopicContext] = {}
        self._lists: dict[Brokers, Brokers] = {}

    def set_brokers(self, found: Mapping[int, LiveBroker]) -> BrokerChange:
        """All registrations as just read. What a former incarnation asked for or broke is forgotten."""
        now, before = set(found), set(self.brokers)
        bounced = {id_ for id_ in now & before if found[id_].epoch != self.brokers[id_].epoch}
        self.brokers = dict(found)
        self.endpoints = {
            id_: endpoint
            for id_, broker in found.items()
            if id_ >= 0
            and broker.registration.role == "data"
            and (endpoint := broker.registration.endpoint(self._inter_broker)) is not None
        }
        self.live_or_shutting_down = frozenset(self.endpoints)
        self.are_plain = all(
            len(listeners := found[id_].registration.listeners) == 1 and listeners[0].is_plain
            for id_ in self.endpoints
        )
        for id_ in (before - now) | bounced:
            self.shutting_down.discard(id_)
            self.first_request_sent.pop(id_, None)
            for topic_partition in [
                each for each, brokers in self.offline_replicas.items() if id_ in brokers
            ]:
                self.replica_online(topic_partition, id_)
        return BrokerChange(frozenset(now - before), frozenset(before - now))

    @property
    def live(self) -> frozenset[int]:
        """Brokers that may be elected: those that are not shutting down."""
        return self.live_or_shutting_down - self.shutting_down

    @property
    def started(self) -> dict[int, int]:
        """Each zkgroup broker with the zxid of its start."""
        return {id_: each.epoch for id_, each in self.brokers.items() if each.registration.is_zkgroup}

    def has_restarted_since(self, broker: int, zxid: int) -> bool:
        """Returns whether this zkgroup broker has started after a change with that zxid."""
        found = self.brokers.get(broker)
        return found is not None and found.epoch > zxid and found.registration.is_zkgroup

    def with_online_replica(self, topic_partition: TopicPartition, live: frozenset[int]) -> frozenset[int]:
        """Those of `live` that can serve this partition."""
        offline = self.offline_replicas.get(topic_partition)
        return live - offline if offline else live

    def replica_offline(self, topic_partition: TopicPartition, broker: int) -> None:
        """The broker answered that its folder of this partition is broken or empty."""
        self.offline_replicas.setdefault(topic_partition, set()).add(broker)

    def replica_online(self, topic_partition: TopicPartition, broker: int) -> None:
        """Ends what `replica_offline` began: a new incarnation, or the leader has added it to the ISR."""
        brokers = self.offline_replicas.get(topic_partition, set())
        brokers.discard(broker)
        if not brokers:
            self.offline_replicas.pop(topic_partition, None)

    @property
    def topics(self) -> Collection[str]:
        return self._topics.keys()

    @property
    def size(self) -> int:
        return sum(len(each.topic.partitions) for each in self._topics.values())

    def topic(self, name: str) -> TopicContext | None:
        """A topic as it was last seen, or None where there is none. Not to be changed by the caller."""
        return self._topics.get(name)

    def topic_seen(self, name: str, topic: Topic, version: int) -> tuple[int, ...]:
        """A topic's znode as read or written. Returns the numbers that were not known, ascending."""
        share = self._lists.setdefault
        shared = {number: share(replicas, replicas) for number, replicas in topic.partitions.items()}
        kept = Topic(shared, topic.version, topic.adding, topic.removing, topic.topic_id, topic.extensions)
        known = self._topics.get(name)
        if known is None:
            self._topics[name] = TopicContext(kept, version, _hosts(shared))
            return tuple(sorted(shared))
        before = known.topic.partitions
        for number in before.keys() - shared.keys():
            self._set_leadership(known, number, None)
        known.topic, known.version, known.hosts = kept, version, _hosts(shared)
        return tuple(sorted(shared.keys() - before.keys()))

    def forget_topic(self, name: str) -> None:
        """The topic is gone. Its place in `deletions` is the caller's to clear."""
        self.topic_czxids.pop(name, None)
        known = self._topics.get(name)
        if known is None:
            return
        for number, replicas in known.topic.partitions.items():
            topic_partition = TopicPartition(name, number)
            self.offline_replicas.pop(topic_partition, None)
            self.moves.discard(topic_partition)
            self.restarted_leaders.pop(topic_partition, None)
            self.partition_phases.forget([topic_partition])
            self.replica_phases.forget(PartitionAndReplica(topic_partition, broker) for broker in replicas)
        del self._topics[name]
        self.unhosted.discard(name)
        self.ineligible.pop(name, None)

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        known = self._topics.get(topic_partition.topic)
        return known is not None and topic_partition.partition in known.topic.partitions

    def replicas(self, topic_partition: TopicPartition) -> Brokers:
        """The replica list, preferred leader first; empty for an unknown partition."""
        known = self._topics.get(topic_partition.topic)
        return known.topic.partitions.get(topic_partition.partition, ()) if known else ()

    def leadership(self, topic_partition: TopicPartition) -> LeaderIsrAndControllerEpoch | None:
        """The state as last read or written; None where it has none yet or it could not be read."""
        known = self._topics.get(topic_partition.topic)
        return known.leaderships.get(topic_partition.partition) if known else None

    def state_seen(
        self, topic_partition: TopicPartition, leadership: LeaderIsrAndControllerEpoch | None
    ) -> bool:
        """A state as read or written; None for a znode that is not there. Unknown partitions are passed over.

        An older version than the one known is passed over too: reads can overtake each other's answers.
        Returns whether the partition is known.
        """
        name, partition = topic_partition
        known = self._topics.get(name)
        if known is None or partition not in known.topic.partitions:
            return False
        before = known.leaderships.get(partition)
        if before is None or leadership is None or leadership.version >= before.version:
            self._set_leadership(known, partition, leadership)
        return True

    def first_seen(self, topic: str, found: Mapping[int, LeaderIsrAndControllerEpoch]) -> None:
        """States of partitions of a known topic that had none, as read. Their lists are `shared` already."""
        known = self._topics[topic]
        known.leaderships.update(found)
        leaders = known.leaders
        for number, leadership in found.items():
            leader = leadership.leader
            if leader in leaders:
                leaders[leader].add(number)
            elif leader >= 0:
                leaders[leader] = {number}

    def is_in_order(self, topic: str, live: frozenset[int], live_or_shutting_down: frozenset[int]) -> bool:
        """Returns whether live brokers lead all partitions, and all replicas are on registered brokers."""
        known = self._topics[topic]
        led = sum(map(len, known.leaders.values()))
        return (
            led == len(known.topic.partitions)
            and known.leaders.keys() <= live
            and known.hosts.keys() <= live_or_shutting_down
        )

    def shared(self, leadership: LeaderIsrAndControllerEpoch) -> LeaderIsrAndControllerEpoch:
        """The same, with the one list of brokers for all; to be given to every partition in that state."""
        isr = self._lists.setdefault(leadership.isr, leadership.isr)
        return (
            leadership
            if isr is leadership.isr
            else leadership._replace(state=replace(leadership.state, isr=isr))
        )

    def partitions(self, topic: str | None = None) -> Iterator[TopicPartition]:
        """All partitions, or those of one topic, by topic and number."""
        for name in sorted(self._topics) if topic is None else (topic,) if topic in self._topics else ():
            for number in sorted(self._topics[name].topic.partitions):
                yield TopicPartition(name, number)

    def on_broker(self, broker: int) -> Iterator[TopicPartition]:
        """Partitions whose replica list holds the broker, but for those of unhosted topics."""
        for name, numbers in self.topics_on(broker):
            for number in numbers:
                yield TopicPartition(name, number)

    def topics_on(self, broker: int) -> Iterator[tuple[str, list[int]]]:
        """The same: each topic with the partitions, both ascending."""
        for name in sorted(self._topics):
            if (numbers := self._topics[name].hosts.get(broker)) and name not in self.unhosted:
                yield name, sorted(numbers)

    def hosts(self, topics: Iterable[str]) -> frozenset[int]:
        """All brokers in the replica lists of these topics."""
        known = [self._topics[name].hosts for name in topics if name in self._topics]
        return frozenset(chain.from_iterable(known))

    def led_by(self, broker: int) -> Iterator[TopicPartition]:
        """Partitions whose state names the broker as leader, whatever the replica list says."""
        for name in sorted(self._topics):
            for number in sorted(self._topics[name].leaders.get(broker, ())):
                yield TopicPartition(name, number)

    def is_slots(self, topic: str) -> bool:
        """Returns whether the partitions of the topic are slots, whose logs are empty."""
        return topic == OFFSETS_TOPIC and self.slots is not None

    def is_going(self, topic_partition: TopicPartition) -> bool:
        """Returns whether its topic is queued for deletion, and so takes part in nothing else."""
        return topic_partition.topic in self.deletions and topic_partition not in self.moves

    def is_unhosted(self, topic_partition: TopicPartition) -> bool:
        """Returns whether no broker hosts it, nor shall: it needs no state and no leader."""
        return topic_partition.topic in self.unhosted

    def _set_leadership(
        self, known: TopicContext, partition: int, leadership: LeaderIsrAndControllerEpoch | None
    ) -> None:
        old = known.leaderships.get(partition)
        before = old.leader if old else NO_LEADER
        after = leadership.leader if leadership else NO_LEADER
        if before != after:
            known.led(partition, before, after)
        if leadership is None:
            known.leaderships.pop(partition, None)
        else:
            known.leaderships[partition] = self.shared(leadership)


def _hosts(partitions: Mapping[int, Brokers]) -> Index:
    """Whole lists at a time: those of a topic are few."""
    alike: dict[Brokers, list[int]] = {}
    for number, replicas in partitions.items():
        same = alike.get(replicas)
        if same is None:
            alike[replicas] = [number]
        else:
            same.append(number)
    hosts: Index = {}
    for replicas, numbers in alike.items():
        for broker in replicas:
            hosts.setdefault(broker, set()).update(numbers)
    return hosts


class PartitionSet:
    """A set of partitions, as numbers by topic: a tuple with the name for each would cost far more."""

    def __init__(self, partitions: Iterable[TopicPartition] = ()) -> None:
        self._numbers: dict[str, set[int]] = {}
        """No set is empty."""
        for each in partitions:
            self.add(each)

    def __bool__(self) -> bool:
        return bool(self._numbers)

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return topic_partition.partition in self._numbers.get(topic_partition.topic, ())

    def __iter__(self) -> Iterator[TopicPartition]:
        return self.of(self._numbers)

    def of(self, topics: Iterable[str]) -> Iterator[TopicPartition]:
        for topic in topics:
            for number in self._numbers.get(topic, ()):
                yield TopicPartition(topic, number)

    def add(self, topic_partition: TopicPartition) -> None:
        self._numbers.setdefault(topic_partition.topic, set()).add(topic_partition.partition)

    def add_all(self, topic: str, numbers: Collection[int]) -> None:
        if numbers:
            self._numbers.setdefault(topic, set()).update(numbers)

    def discard(self, topic_partition: TopicPartition) -> None:
        topic, number = topic_partition
        numbers = self._numbers.get(topic)
        if numbers is not None:
            numbers.discard(number)
            if not numbers:
                del self._numbers[topic]

    def clear(self) -> None:
        self._numbers.clear()
