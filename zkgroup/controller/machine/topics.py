"""Topics that come, grow and go. Source: controller.md 5.3, 5.4; recipes.md 15.

Kafka's tool grows a topic by writing all its replica lists from an old reading. So for partitions that are
known the picture wins and is written back; what is new is kept.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping

from zkgroup.controller.machine import unhosted
from zkgroup.controller.machine.agenda import Look
from zkgroup.controller.machine.fence import Write
from zkgroup.controller.machine.leading import elect_leaderless, end_terms, recover
from zkgroup.controller.machine.picture import Brokers
from zkgroup.controller.machine.reign import Reign
from zkgroup.controller.machine.states import ATTEMPTS_MAX, commit, holds_lists, read_states
from zkgroup.controller.machine.transitions import (
    PartitionPhase,
    Replica,
    partition_at_start,
    replica_at_start,
)
from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.machinery.procedures import Procedure, Query, ask, list_done, read_done
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import ListChildren, Read, SetData
from zkgroup.znodes.brokers import Topic, topics_path


def look(reign: Reign, subject: str = "") -> Procedure[None]:
    """The list of topics: new ones get their states, those that are gone are forgotten."""
    (outcome,) = yield from ask(reign.watched(ListChildren(topics_path()), Look.TOPICS))
    listed = set(list_done(outcome).children)
    reign.only(topics_path(), listed)
    forget_missing(reign, listed)
    new = sorted(name for name in listed if name not in reign.picture.topics)
    unreadable = [name for name in new if Topic.path(name) in reign.picture.unreadable]
    fresh = yield from read_topics(reign, new)
    if any(name in reign.picture.topics for name in unreadable):
        reign.look(Look.REASSIGNMENT)  # its moves have waited for it
    yield from begin(reign, fresh)


def look_at_one(reign: Reign, subject: str) -> Procedure[None]:
    """The replica lists of one topic: growth, and lists that others have overwritten."""
    if subject not in reign.picture.topics:
        reign.look(Look.TOPICS)
        return
    fresh: list[TopicPartition] = []
    was_unreadable = Topic.path(subject) in reign.picture.unreadable
    for _ in range(ATTEMPTS_MAX):
        (outcome,) = yield from ask(reign.watched(Read(Topic.path(subject)), Look.TOPIC, subject))
        znode = read_done(outcome)
        found = reign.decoded(znode, lists_of)
        if znode is None or found is None:
            if znode is None:
                reign.look(Look.TOPICS)
            return
        _recognise(reign, subject, znode)
        fresh += _named(subject, take_in(reign, subject, found, znode.stat.version))
        back = _write_back(reign, subject, found, znode)
        if back is None or (refusal := (yield from commit(reign, back))) is None:
            break
        if not refusal.is_conflict:
            reign.rest(str(refusal))
            break
    else:
        reign.later(Look.TOPIC, 1000, subject)
    if was_unreadable:
        reign.look(Look.REASSIGNMENT)  # its moves have waited for it
    unborn = [
        each
        for each in reign.picture.partitions(subject)
        if reign.partitions.phase(each) is PartitionPhase.NEW and each not in fresh
    ]
    yield from begin(reign, [*fresh, *unborn])


def read_topics(reign: Reign, names: Iterable[str]) -> Procedure[list[TopicPartition]]:
    """Reads these topics, each with a watch, into the picture. Returns the partitions that are new to it."""
    asked = list(names)
    queries: list[Query] = [reign.watched(Read(Topic.path(name)), Look.TOPIC, name) for name in asked]
    if not queries:
        return []
    outcomes = yield from ask(*queries)
    fresh: list[TopicPartition] = []
    for name, outcome in zip(asked, outcomes, strict=True):
        fresh += _named(name, topic_read(reign, name, read_done(outcome)))
    return fresh


def topic_read(reign: Reign, name: str, znode: Znode | None) -> tuple[int, ...]:
    """A topic as just read, None where there is none, into the picture. Returns what is new, by number."""
    found = reign.decoded(znode, lists_of)
    if znode is None:
        return ()
    if found is None:
        # Seen again when somebody mends it: the watch is armed on a topic that is not known.
        reign.core.note("topic.passed_over", topic=name)
        return ()
    _recognise(reign, name, znode)
    fresh = take_in(reign, name, found, znode.stat.version)
    if _write_back(reign, name, found, znode) is not None:
        reign.look(Look.TOPIC, name)
    return fresh


def lists_of(path: str, data: bytes | None) -> Topic:
    """The topic, with replica lists that partitions can have.

    Kafka's tools refuse the others, its controllers do not look. No state could be made of such a list, nor
    the topic ever be written again. Raises CorruptZnodeError.
    """
    topic = Topic.decode(path, data)
    odd = {
        replicas
        for replicas in set(topic.partitions.values())
        if len(set(replicas)) < len(replicas) or (replicas and min(replicas) < 0)
    }
    if odd:
        number, replicas = next(each for each in topic.partitions.items() if each[1] in odd)
        raise CorruptZnodeError(
            path, "different brokers from 0 on in each list", f"{number}: {list(replicas)}"
        )
    return topic


def take_in(reign: Reign, name: str, found: Topic, version: int) -> tuple[int, ...]:
    """A topic as read, into the picture: what is known of it stays, what is new is added and returned.

    Lists that this controller wrote without an answer are known ones once they are found.
    """
    for mine in reign.lists_in_doubt.get(name, ()):
        if holds_lists(found, mine):
            reign.picture.topic_seen(name, mine, version)
            del reign.lists_in_doubt[name]
            break
    return reign.picture.topic_seen(name, _merged(reign, name, found), version)


def forget_missing(reign: Reign, listed: Collection[str]) -> None:
    """Topics that are known and not among those listed just now."""
    gone = [name for name in reign.picture.topics if name not in listed]
    reign.forget_topics(gone)
    forget(reign, gone)


def forget(reign: Reign, names: Iterable[str]) -> None:
    """Topics that are gone without having been deleted by this controller."""
    for name in list(names):
        reign.forget(name)
        reign.core.note("topic.gone", topic=name)
        reign.look(Look.DELETIONS)


def _recognise(reign: Reign, name: str, znode: Znode) -> None:
    """Another topic of the same name has not grown: what was known of the former one is forgotten (K21)."""
    if reign.births.get(name) == znode.stat.czxid:
        return
    if name in reign.births:
        forget(reign, [name])
    reign.births[name] = znode.stat.czxid
    reign.sort_strays(name)


def enter(reign: Reign, partitions: Iterable[TopicPartition]) -> None:
    """Gives these partitions and their replicas the phases that follow from what was read of them."""
    picture, mine = reign.picture, list(partitions)
    live, reachable = picture.live, picture.reachable
    reign.partitions.forget(mine)
    for each in mine:
        standing = picture.standing(each)
        phase = partition_at_start(standing, picture.candidates(each, live) if picture.unfit else live)
        if standing is None and _is_unreadable(reign, each):
            phase = PartitionPhase.OFFLINE
        if phase is not PartitionPhase.ONLINE:
            reign.partitions.begin(each, phase)
    if gone := picture.hosts({each.topic for each in mine}) - reachable:
        for each in mine:
            for broker in picture.replicas(each):
                if broker in gone:
                    reign.replicas.begin(Replica(each, broker), replica_at_start(broker, reachable))


def enter_all(reign: Reign) -> None:
    """The same for every partition, once all is read. Topics in which nothing is unusual cost a glance."""
    picture = reign.picture
    live, reachable = picture.live, picture.reachable
    reign.partitions.forget(picture.partitions())
    unusual = [
        name
        for name in sorted(picture.topics)
        if picture.unfit or not picture.is_in_order(name, live, reachable)
    ]
    enter(reign, [each for name in unusual for each in picture.partitions(name)])


def begin(reign: Reign, fresh: Iterable[TopicPartition]) -> Procedure[None]:
    """New partitions: their states are read or made, and their replicas told."""
    mine = [each for each in dict.fromkeys(fresh) if not reign.picture.is_going(each)]
    if not mine:
        return
    yield from read_states(reign, mine)
    yield from unhosted.judge(reign, dict.fromkeys(each.topic for each in mine))
    enter(reign, mine)
    batch = reign.batch()
    reign.to_replicas(batch, [each for each in mine if reign.picture.standing(each) is not None])
    yield from elect_leaderless(reign, batch)
    yield from recover(reign, batch)
    yield from end_terms(reign, batch)
    reign.tell(batch)


def _named(topic: str, numbers: Iterable[int]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


def _is_unreadable(reign: Reign, topic_partition: TopicPartition) -> bool:
    return f"{Topic.partition_path(topic_partition)}/state" in reign.picture.unreadable


def _merged(reign: Reign, name: str, found: Topic) -> Topic:
    """For partitions that are known, the lists and moves that are known; a topic being deleted grows not.

    Of a topic that nobody hosts there is nothing to be kept.
    """
    seen = reign.picture.topic(name)
    if seen is None or name in reign.picture.unhosted:
        return found
    known = seen.topic
    if name in reign.picture.deletions:
        grown: dict[int, Brokers] = {}
    else:
        grown = {number: told for number, told in found.partitions.items() if number not in known.partitions}
    return dataclasses.replace(
        found,
        partitions={**known.partitions, **grown},
        version=max(found.version, known.version),
        adding=_moves(known.adding, found.adding, grown),
        removing=_moves(known.removing, found.removing, grown),
        topic_id=found.topic_id or known.topic_id,
        extensions={**known.extensions, **found.extensions},
    )


def _moves(
    known: Mapping[int, Brokers], found: Mapping[int, Brokers], grown: Mapping[int, Brokers]
) -> dict[int, Brokers]:
    return {**known, **{number: found[number] for number in grown if number in found}}


def _write_back(reign: Reign, name: str, found: Topic, znode: Znode) -> Write | None:
    """The write that makes the znode what the picture has, where they differ."""
    seen = reign.picture.topic(name)
    assert seen is not None
    if _same(seen.topic, found):
        return None
    path = Topic.path(name)
    try:
        write = Write(name, (SetData(path, seen.topic.encode(), znode.stat.version),))
    except ConfigError as error:
        reign.report(path, str(error))
        return None
    reign.core.note("topic.written_back", topic=name)
    return write


def _same(mine: Topic, found: Topic) -> bool:
    return (mine.partitions, mine.adding, mine.removing, mine.topic_id, mine.extensions) == (
        found.partitions,
        found.adding,
        found.removing,
        found.topic_id,
        found.extensions,
    )
