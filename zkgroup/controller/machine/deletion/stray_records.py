"""What brokers may still have and have no place for, as it stands in ZooKeeper, and how that is changed.

One znode for each broker, each replica once, with its topic's czxid (docs/adr/0028). Pure: a change is a set
of operations with versions, and is taken into the book once it is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from zkgroup.controller.machine.fenced_writes import Write
from zkgroup.model.requests import Create, Delete, Operation, SetData
from zkgroup.znodes.stray_replicas import StrayReplicas, StrayTopic

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
    """One znode."""

    version: int
    topics: tuple[StrayTopic, ...]


class RecordChange(NamedTuple):
    """What becomes of znodes, in operations that rest on their versions."""

    parts: Mapping[Place, Part | None]
    """As they are then; None: it goes."""
    operations: Mapping[Place, Operation]

    def write(self, place: Place) -> Write:
        """That of one znode by itself."""
        return Write(f"stray replicas of broker {place[0]}", (self.operations[place],))


class StrayRecords:
    """All of it."""

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
        """Whether something of a topic of this name is recorded of this broker."""
        return any(each.topic == topic for each in self._of(broker))

    def has_topic(self, topic: str) -> bool:
        """The same of any broker."""
        return any(each.topic == topic for part in self._parts.values() for each in part.topics)

    def found(self, parts: Mapping[Place, Part], unreadable: Iterable[Place] = ()) -> None:
        """As it was just read."""
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
        """The change is written."""
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
    """About the bytes of a znode of these."""
    return sum(
        _ENTRY_BYTES + len(each.topic.encode()) + _NUMBER_BYTES * len(each.partitions) for each in topics
    )


def _free(places: Iterable[Place], broker: int) -> int:
    """The first number that no znode of the broker has."""
    taken = {part for other, part in places if other == broker}
    return next(number for number in range(len(taken) + 1) if number not in taken)
