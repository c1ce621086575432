"""What is written down of replicas that brokers may still have and have no place for. Source: K16, K20.

Theory of operation
-------------------
`Holding.book` is what stands in `/zkgroup/strays`, one znode for each broker (docs/adr/0028). An entry whose
topic is there, with the czxid of the entry, is a stray (`strays`); any other is of a topic that is gone
(`abandoned`). So the end of a topic, whoever deletes it, makes the one of the other.

    the end of a move      the transaction that ends it also adds what no broker has said to be gone
    before a deletion      `record_deletion`, under the same fence: nothing is deleted before it stands
    look                   what was answered meanwhile goes, in one write for many answers
    read                   by who takes over, and where a write has met another one: an operator's
                           (`zkgroup broker forget`)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from zkgroup.controller.machine import strays
from zkgroup.controller.machine.agenda import Look
from zkgroup.controller.machine.fence import Write
from zkgroup.controller.machine.reign import Reign
from zkgroup.controller.machine.states import commit, write_all
from zkgroup.controller.machine.stray_book import Change, Owed, Part, Place
from zkgroup.controller.machine.transitions import Replica
from zkgroup.machinery.procedures import Procedure, Query, ask, list_done
from zkgroup.model import TopicPartition
from zkgroup.model.requests import CreateMissing, ListChildren, SetData
from zkgroup.znodes.audit import zkgroup_path
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.stray_replicas import MovesBroughtOver, StrayReplicas, stray_replicas_path

CHANGED: Final = "others have changed what is recorded of stray replicas"
ATTEMPTS_MAX: Final = 10
"""So often an operator may come before the record of a deletion."""
MOVES_READ_AGAIN: Final = 100
"""So many records of moves each controller may read for nothing, before it is noted that they need not."""


class Written(NamedTuple):
    """What became of a change."""

    is_overtaken: bool
    """Others had written there; all was read again."""
    refused: Mapping[Place, str]
    """Znodes that may not be written, and why."""


def read(reign: Reign) -> Procedure[None]:
    """Reads all of it. What is no more recorded, though this controller had it so, is forgotten."""
    (outcome,) = yield from ask(Query(ListChildren(stray_replicas_path())))
    names = list_done(outcome).children
    reign.only(stray_replicas_path(), names)
    places = {StrayReplicas.path(*place): place for place in _places(names)}
    znodes = yield from reign.read_many(places)
    parts: dict[Place, Part] = {}
    for path, znode in znodes.items():
        if (found := reign.decoded(znode, StrayReplicas.decode)) is not None:
            parts[places[path]] = Part(znode.stat.version, found.topics)
    book = reign.holding.book
    before = book.owed()
    book.found(parts, [place for path, place in places.items() if path in reign.picture.unreadable])
    left = {each.key: each.partitions for each in book.owed()}
    for owed in before:
        for number in owed.partitions - left.get(owed.key, frozenset()):
            strays.forget(reign, Replica(TopicPartition(owed.topic, number), owed.broker))
    reign.sort_strays()


def look(reign: Reign, subject: str = "") -> Procedure[None]:
    """Makes what is recorded what is known: without what brokers have deleted, with what they could not."""
    book = reign.holding.book
    if book:
        (outcome,) = yield from ask(reign.watched(ListChildren(stray_replicas_path()), Look.STRAY_RECORDS))
        if frozenset(_places(list_done(outcome).children)) != book.places():
            yield from read(reign)
    yield from strays.recall(reign)
    written = yield from write(reign, *_differences(reign))
    for why in written.refused.values():
        reign.rest(why, ["records of stray replicas"])
    if written.is_overtaken:
        reign.look(Look.STRAY_RECORDS)
    elif not written.refused:
        reign.wait("records of stray replicas", None)
        yield from _brought_over(reign)


def write(reign: Reign, add: Iterable[Owed] = (), remove: Iterable[Owed] = ()) -> Procedure[Written]:
    """Writes a change, in as few transactions as hold it. Raises as `states.carry_out`."""
    book = reign.holding.book
    change = book.change(add, remove)
    if not change.operations:
        return Written(False, {})
    if not book:
        yield from ask(Query(CreateMissing((zkgroup_path(), stray_replicas_path()))))
    is_overtaken = False

    def make(place: Place) -> Write | str:
        return CHANGED if is_overtaken else change.write(place)

    def read_again(places: list[Place]) -> Procedure[None]:
        nonlocal is_overtaken
        if places:
            is_overtaken = True
            yield from read(reign)

    refused = yield from write_all(reign, change.operations, make, read_again)
    if is_overtaken:
        refused = {place: why for place, why in refused.items() if why != CHANGED}
    else:
        book.took(change, refused)
        reign.sort_strays()
    return Written(is_overtaken, refused)


def ended(reign: Reign, left: Iterable[Replica]) -> Change:
    """What the end of moves adds: of these replicas no broker has said that they are gone."""
    return reign.holding.book.change(_of_present(reign, left))


def record_deletion(reign: Reign, ends: Mapping[str, Collection[Replica]]) -> Procedure[str | None]:
    """Before topics are deleted: of them these replicas stay. Returns why it may not be written, or None."""
    refused: Mapping[Place, str] = {}
    for _ in range(ATTEMPTS_MAX):
        add = _of_present(reign, (replica for replicas in ends.values() for replica in replicas))
        stay = {each.key: each.partitions for each in add}
        add += _outdated(reign, ends)
        remove = [
            owed._replace(partitions=owed.partitions - stay.get(owed.key, frozenset()))
            for owed in reign.holding.book.owed()
            if owed.topic in ends and reign.births.get(owed.topic) == owed.czxid
        ]
        is_overtaken, refused = yield from write(reign, add, remove)
        if not is_overtaken:
            return next(iter(refused.values()), None)
    return CHANGED


def _outdated(reign: Reign, topics: Collection[str]) -> list[Owed]:
    """What is left of former topics of these names, from before a controller of Kafka: it has not made their
    brokers replicas of these, and what comes after these is known to come after it (K20)."""
    found = []
    for key, each in reign.holding.abandoned.items():
        record = each.record
        if not isinstance(key, int) and record.topic in topics and record.epoch <= reign.foreign_epoch:
            numbers = frozenset(topic_partition.partition for topic_partition in each.held)
            found.append(Owed(*key, numbers, reign.epoch))
    return [each for each in found if each.partitions]


def _of_present(reign: Reign, replicas: Iterable[Replica]) -> list[Owed]:
    """Replicas of topics that there are, by broker and topic."""
    numbers: dict[tuple[int, str], set[int]] = {}
    for (topic, number), broker in replicas:
        if topic in reign.births:
            numbers.setdefault((broker, topic), set()).add(number)
    return [
        Owed(broker, topic, reign.births[topic], frozenset(mine), reign.epoch)
        for (broker, topic), mine in sorted(numbers.items())
    ]


def _differences(reign: Reign) -> tuple[list[Owed], list[Owed]]:
    """What is to be added and taken off, of topics that there are.

    Moves that are open are recorded with their ends. An entry from before a controller of Kafka is renewed
    as long as its topic is there, so that what comes after it is known to be after it (K20).
    """
    recorded = reign.holding.book.owed()
    add = _of_present(reign, (each for each in reign.strays if each.topic_partition not in reign.moves))
    remove = []
    for owed in recorded:
        is_present = reign.births.get(owed.topic) == owed.czxid
        if not is_present or Topic.path(owed.topic) in reign.picture.unreadable:
            continue
        gone = frozenset(
            number
            for number in owed.partitions
            if Replica(TopicPartition(owed.topic, number), owed.broker) not in reign.strays
        )
        if gone:
            remove.append(owed._replace(partitions=gone))
    current = {
        each.key: each.partitions for each in reign.holding.book.owed() if each.epoch > reign.foreign_epoch
    }
    return [each for each in add if each.partitions - current.get(each.key, frozenset())], remove


def _brought_over(reign: Reign) -> Procedure[None]:
    """What the records of moves by earlier versions have left is recorded; none of these is read again."""
    recalled = reign.recalled
    if not recalled.moves or recalled.is_noted:
        return
    recalled.is_noted = True
    if recalled.of_earlier or recalled.read >= MOVES_READ_AGAIN:
        if recalled.version is None:
            yield from ask(Query(CreateMissing((zkgroup_path(), stray_replicas_path()))))
        data = MovesBroughtOver(recalled.last).encode()
        operation = SetData(MovesBroughtOver.path(), data, recalled.version or 0)
        refusal = yield from commit(reign, Write("records of moves that are brought over", (operation,)))
        recalled.is_noted = refusal is None or not recalled.of_earlier


def _places(names: Iterable[str]) -> Iterable[Place]:
    return [place for name in names if (place := StrayReplicas.place_of(name)) is not None]
