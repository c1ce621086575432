"""Replicas that a broker may still delete or keep, in memory and as records (reassignment, recipes 17).

A StopReplica with deletion carries no leader epoch on wire version 0, so it deletes any replica that the
broker has when it arrives: a replica with such a request on its way is left alone. What a broker has kept of
a topic that was deleted without it is left alone until it is deleted, too: with a LeaderAndIsr for another
topic of that name, the broker would bring the old records into it.

There is one znode for each broker, or several where it is large, with each replica once, under its topic's
czxid (docs/adr/0028). Pure: a change is a set of operations with versions, and applies once it is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from zkgroup.controller.machine.context import ControllerContext
from zkgroup.controller.machine.fenced_writes import Write
from zkgroup.controller.machine.state_machines import PartitionAndReplica
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete, Operation, SetData
from zkgroup.znodes.stray_replicas import AbandonedReplicas, StrayReplicas, StrayTopic

PART_BYTES: Final = 50_000
"""No more is added to a znode that has so much: a write that changes one replica carries the whole znode."""
_ENTRY_BYTES: Final = 64
_NUMBER_BYTES: Final = 11

Place = tuple[int, int]
"""Broker, and which of its znodes."""


class RecordedStrays(NamedTuple):
    """Partitions of one topic that one broker may still have."""

    broker: int
    topic: str
    czxid: int
    partitions: frozenset[int]
    epoch: int = 0

    @property
    def key(self) -> tuple[int, str, int]:
        return self.broker, self.topic, self.czxid


class Part(NamedTuple):
    """The records in one znode of a broker, and the version of that znode."""

    version: int
    topics: tuple[StrayTopic, ...]


class RecordChange(NamedTuple):
    """Changes of znodes, in operations that rest on their versions."""

    parts: Mapping[Place, Part | None]
    """As they are then; None: it goes."""
    operations: Mapping[Place, Operation]

    def write(self, place: Place) -> Write:
        """That of one znode by itself."""
        return Write(f"stray replicas of broker {place[0]}", (self.operations[place],))


class StrayRecords:
    """The records of all brokers' stray replicas, as they were last read or written."""

    def __init__(self, part_bytes: int = PART_BYTES) -> None:
        self._part_bytes = part_bytes
        self._parts: dict[Place, Part] = {}
        self._unreadable: frozenset[Place] = frozenset()

    def __bool__(self) -> bool:
        return bool(self._parts)

    def owed(self) -> list[RecordedStrays]:
        """All that is recorded, each topic of each broker once."""
        found: dict[tuple[int, str, int], RecordedStrays] = {}
        for (broker, _), part in sorted(self._parts.items()):
            for each in part.topics:
                key, numbers, epoch = (broker, each.topic, each.czxid), frozenset(each.partitions), each.epoch
                if (known := found.get(key)) is not None:
                    numbers, epoch = numbers | known.partitions, max(epoch, known.epoch)
                found[key] = RecordedStrays(*key, numbers, epoch)
        return list(found.values())

    def places(self) -> frozenset[Place]:
        """The znodes that there are, also those that cannot be read."""
        return self._unreadable.union(self._parts)

    def has(self, broker: int, topic: str) -> bool:
        """Returns whether something of a topic of this name is recorded of this broker."""
        return any(each.topic == topic for each in self._of(broker))

    def has_topic(self, topic: str) -> bool:
        """The same of any broker."""
        return any(each.topic == topic for part in self._parts.values() for each in part.topics)

    def found(self, parts: Mapping[Place, Part], unreadable: Iterable[Place] = ()) -> None:
        self._parts, self._unreadable = dict(parts), frozenset(unreadable)

    def change(
        self, add: Iterable[RecordedStrays] = (), remove: Iterable[RecordedStrays] = ()
    ) -> RecordChange:
        """Without the ones and with the others; what is recorded already stays where it is."""
        touched: dict[Place, dict[tuple[str, int], StrayTopic]] = {}
        for owed in remove:
            for place in self._places(owed.broker, touched):
                _take_off(self._topics(place, touched), owed)
        for owed in add:
            self._add(owed, touched)
        parts: dict[Place, Part | None] = {}
        operations: dict[Place, Operation] = {}
        for place, topics in touched.items():
            before, after = self._parts.get(place), tuple(topics.values())
            if (before.topics if before is not None else ()) == after:
                continue
            path = StrayReplicas.path(*place)
            if before is None:
                parts[place], operations[place] = Part(0, after), _create(path, after)
            elif not after:
                parts[place], operations[place] = None, Delete(path, before.version)
            else:
                parts[place] = Part(before.version + 1, after)
                operations[place] = SetData(path, StrayReplicas(after).encode(), before.version)
        return RecordChange(parts, operations)

    def took(self, change: RecordChange, refused: Collection[Place] = ()) -> None:
        for place, part in change.parts.items():
            if place in refused:
                continue
            if part is None:
                self._parts.pop(place, None)
            else:
                self._parts[place] = part

    def _add(self, owed: RecordedStrays, touched: dict[Place, dict[tuple[str, int], StrayTopic]]) -> None:
        key, missing = (owed.topic, owed.czxid), set(owed.partitions)
        places = self._places(owed.broker, touched)
        mine = [place for place in places if key in self._topics(place, touched)]
        for place in mine:
            topics = self._topics(place, touched)
            known = topics[key]
            missing.difference_update(known.partitions)
            topics[key] = known._replace(epoch=max(known.epoch, owed.epoch))
        if not missing:
            return
        more = _ENTRY_BYTES + len(owed.topic.encode()) + _NUMBER_BYTES * len(missing)
        roomy = (
            place
            for place in (*mine, *reversed(places))
            if _size(self._topics(place, touched).values()) + more <= self._part_bytes
        )
        place = next(roomy, None) or (owed.broker, _free(self.places().union(places), owed.broker))
        topics = self._topics(place, touched)
        numbers = missing.union(topics[key].partitions if key in topics else ())
        topics[key] = StrayTopic(owed.topic, owed.czxid, tuple(sorted(numbers)), owed.epoch)

    def _of(self, broker: int) -> Iterator[StrayTopic]:
        for place, part in self._parts.items():
            if place[0] == broker:
                yield from part.topics

    def _places(self, broker: int, touched: Mapping[Place, object]) -> list[Place]:
        return sorted(place for place in {*self._parts, *touched} if place[0] == broker)

    def _topics(
        self, place: Place, touched: dict[Place, dict[tuple[str, int], StrayTopic]]
    ) -> dict[tuple[str, int], StrayTopic]:
        if place not in touched:
            part = self._parts.get(place, Part(0, ()))
            touched[place] = {(each.topic, each.czxid): each for each in part.topics}
        return touched[place]


def _take_off(topics: dict[tuple[str, int], StrayTopic], owed: RecordedStrays) -> None:
    key = owed.topic, owed.czxid
    if (known := topics.get(key)) is None:
        return
    if left := tuple(number for number in known.partitions if number not in owed.partitions):
        topics[key] = known._replace(partitions=left)
    else:
        del topics[key]


def _create(path: str, topics: tuple[StrayTopic, ...]) -> Operation:
    return Create(path, StrayReplicas(topics).encode())


def _size(topics: Iterable[StrayTopic]) -> int:
    return sum(
        _ENTRY_BYTES + len(each.topic.encode()) + _NUMBER_BYTES * len(each.partitions) for each in topics
    )


def _free(places: Iterable[Place], broker: int) -> int:
    taken = {part for other, part in places if other == broker}
    return next(number for number in range(len(taken) + 1) if number not in taken)


RecordKey = int | tuple[int, str, int]
"""Broker, topic and its czxid; the number of the record that a controller of an earlier version has made."""
_NO_BROKERS: Final[frozenset[int]] = frozenset()


@dataclass(slots=True)
class DeletedTopicReplicas:
    """Replicas that one broker may still have of a topic that was deleted without it."""

    record: AbandonedReplicas
    version: int
    """Data version of a record that a controller of an earlier version has made."""
    deleting: set[TopicPartition]
    """Partitions of the record whose replica may still be deleted."""
    left: set[TopicPartition]
    """Those of them that the broker has not deleted yet."""


class PendingDeletes:
    """The replicas that get no LeaderAndIsr, and are not elected.

    Two kinds stand in no replica list that is sent either: those whose StopReplica with deletion is
    unanswered, on any connection; and, while a move of their partition is open, those that are not in sync on
    a broker that has not answered a request of this controller's epoch, as the request of a predecessor may
    still be on its way to it. The third kind is what a forced deletion has not waited for, while the record
    of it stands: its broker has started since and got no LeaderAndIsr for the partition, so it fetches from
    no leader.
    """

    def __init__(self, record_bytes: int = PART_BYTES) -> None:
        """record_bytes: about how many bytes of records one znode may have."""
        self.records = StrayRecords(record_bytes)
        """The records of all that brokers may still have."""
        self.of_deleted_topics: dict[RecordKey, DeletedTopicReplicas] = {}
        """Those of topics that are gone; `set_of_deleted_topics` and `is_wanted` change them."""
        self._owed: dict[TopicPartition, set[int]] = {}
        """Partition to the brokers that `of_deleted_topics` names."""
        self.released: dict[PartitionAndReplica, None] = {}
        """Replicas that were named so and are no longer: LeaderAndIsr has to be sent to them."""
        self._deleting: dict[TopicPartition, set[int]] = {}
        self._answered: dict[int, int] = {}
        """Broker to the incarnation that has answered a request of this epoch."""

    def delete_asked(self, topic_partition: TopicPartition, brokers: Iterable[int]) -> None:
        self._deleting.setdefault(topic_partition, set()).update(brokers)

    def delete_answered(
        self, broker: int, partitions: Iterable[TopicPartition]
    ) -> tuple[TopicPartition, ...]:
        """The only copy was answered, or will never be sent. Returns its partitions."""
        freed = []
        for topic_partition in partitions:
            brokers = self._deleting.get(topic_partition, set())
            if broker in brokers:
                freed.append(topic_partition)
                brokers.discard(broker)
            if not brokers:
                self._deleting.pop(topic_partition, None)
        return tuple(freed)

    def answered(self, broker: int, incarnation: int) -> bool:
        """This incarnation of the broker answered a request of the present epoch: it obeys no older one.

        Returns whether that is news: its replicas of partitions that are moved might have been deleted until
        now.
        """
        is_first = self._answered.get(broker) != incarnation
        self._answered[broker] = incarnation
        return is_first

    def epoch_raised(self) -> None:
        """The controller's epoch is a new one: no broker has answered it yet."""
        self._answered.clear()

    def restarted(self, broker: int) -> tuple[TopicPartition, ...]:
        """A new incarnation, or none: its old connections are dead. Returns the partitions it sets free."""
        self._answered.pop(broker, None)
        return self.delete_answered(broker, list(self._deleting))

    def of(self, context: ControllerContext, topic_partition: TopicPartition) -> frozenset[int]:
        """Brokers that may still delete their replica of a partition."""
        deleting = self.left_out(context, topic_partition)
        owed = self._owed.get(topic_partition)
        return deleting if owed is None else deleting | owed

    def left_out(self, context: ControllerContext, topic_partition: TopicPartition) -> frozenset[int]:
        """Those of them that no replica list names."""
        deleting = self._deleting.get(topic_partition)
        if deleting and (owed := self._owed.get(topic_partition)) is not None:
            deleting = deleting - owed
        if topic_partition not in context.moves:
            return frozenset(deleting) if deleting else _NO_BROKERS
        leadership = context.leadership(topic_partition)
        in_sync = leadership.isr if leadership else ()
        return frozenset(deleting or ()) | {
            id_
            for id_ in context.live_or_shutting_down
            if id_ not in in_sync and not self._has_answered(context, id_)
        }

    def topics(self, context: ControllerContext) -> set[str]:
        """The topics of which replicas may still be deleted."""
        return {topic for topic, _ in (*self._deleting, *self._owed, *context.moves)}

    def is_empty(self, context: ControllerContext) -> bool:
        """Returns whether no replica of any partition can be left out."""
        return not self._deleting and not context.moves

    def sort(self, topic_czxids: Mapping[str, int]) -> None:
        """All that is recorded of topics that are gone, or that others of their name have followed, may
        still be deleted.

        topic_czxids: topic to the czxid of its znode.
        """
        found: dict[RecordKey, DeletedTopicReplicas] = {
            key: each for key, each in self.of_deleted_topics.items() if isinstance(key, int)
        }
        for owed in self.records.owed():
            if topic_czxids.get(owed.topic) == owed.czxid:
                continue
            record = AbandonedReplicas(owed.topic, owed.broker, tuple(sorted(owed.partitions)), owed.epoch)
            known = self.of_deleted_topics.get(owed.key)
            if known is None or known.record != record:
                all_ = record.topic_partitions
                known = DeletedTopicReplicas(record, 0, set(all_), set(all_))
            found[owed.key] = known
        self.set_of_deleted_topics(found)

    def set_of_deleted_topics(self, found: Mapping[RecordKey, DeletedTopicReplicas]) -> None:
        """The records of forced deletions as there are now."""
        before = self._owed
        self.of_deleted_topics, self._owed = dict(found), {}
        for each in found.values():
            for topic_partition in each.deleting:
                self._owed.setdefault(topic_partition, set()).add(each.record.broker)
        for topic_partition, brokers in before.items():
            for broker in brokers.difference(self._owed.get(topic_partition, ())):
                self.released[PartitionAndReplica(topic_partition, broker)] = None

    def is_wanted(self, number: RecordKey, partitions: Iterable[TopicPartition]) -> None:
        """Notes that what the broker has of these is another topic's: no record holds them any more."""
        self.of_deleted_topics[number].deleting.difference_update(partitions)
        self.of_deleted_topics[number].left.difference_update(partitions)
        self.set_of_deleted_topics(self.of_deleted_topics)

    def is_of_deleted_topic(self, replica: PartitionAndReplica) -> bool:
        """Returns whether a forced deletion has not waited for it, and its record stands."""
        return replica.broker in self._owed.get(replica.topic_partition, ())

    def all_deleting(self) -> Mapping[TopicPartition, frozenset[int]]:
        """Partition to the brokers whose StopReplica with deletion is unanswered."""
        return {each: frozenset(brokers) for each, brokers in self._deleting.items()}

    def _has_answered(self, context: ControllerContext, broker: int) -> bool:
        return self._answered.get(broker) == context.brokers[broker].epoch
