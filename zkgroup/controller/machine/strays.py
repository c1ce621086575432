"""Replicas that a move has left behind, and whose broker could not delete them. Source: controller.md K16.

Kafka takes such a replica for deleted, so its log stays for ever. Here the move ends all the same, as its
replica list is right; the broker is asked again until it has done it, or holds the replica anew.
A broker that was down then, or died before it answered, is asked when it is back.

A controller that dies between the record of an end and the last StopReplica leaves some behind of which no
answer tells. So one that takes over asks for all of which the records of former controllers say that they
were left: a broker that has none of it answers all the same. The records are few: the last `FINISHED_KEPT`,
and older ones that name a replica of which no broker has said that it is gone (`told_of`).

A topic that is deleted takes nothing of this along, and one that is made again under its name may give the
broker a place. So the deletion, which waits for no broker that is down or cannot, hands them over to
`abandoned` (K20).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from zkgroup.controller.machine import deleting
from zkgroup.controller.machine.agenda import Look
from zkgroup.controller.machine.reign import Reign
from zkgroup.controller.machine.rule_books import Answer
from zkgroup.controller.machine.transitions import Replica
from zkgroup.machinery.procedures import Procedure, Query, ask, list_done
from zkgroup.model import TopicPartition
from zkgroup.model.requests import ListChildren
from zkgroup.wire.control import StopReplicaRequest, StopReplicaResponse
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.reassignment_records import FinishedReassignment, finished_reassignments_path

AGAIN_MS: Final = 60_000
"""Between two attempts: what is wrong with a folder is seldom mended sooner."""


def heard(reign: Reign, answer: Answer) -> None:
    """Takes the answer to a StopReplica with deletion, whoever has asked for it."""
    request, response = answer.request.request, answer.response
    if not (isinstance(request, StopReplicaRequest) and request.delete):
        return
    assert isinstance(response, StopReplicaResponse)
    deleted, failed, reason = deleting.answers(answer.broker, request.partitions, response)
    for replica in deleted:
        _forget(reign, replica)
    for replica in failed:
        if _is_stray(reign, replica) and not reign.holding.is_abandoned(replica):
            reign.strays[replica] = None
            reign.wait(_name(replica), reason)
            reign.later(Look.STRAYS, AGAIN_MS)


def look(reign: Reign, subject: str = "") -> Procedure[None]:
    """Asks again for what is still left behind; the first time for what former controllers have left."""
    yield from recall(reign)
    asked = reign.holding.all_deleting()
    batch = reign.batch()
    for replica in list(reign.strays):
        topic_partition, broker = replica
        if not _is_stray(reign, replica):
            _forget(reign, replica)
        elif broker not in asked.get(topic_partition, ()):
            batch.stop_replica([broker], topic_partition, delete=True)
    reign.tell(batch)
    if reign.strays:
        reign.later(Look.STRAYS, AGAIN_MS)


def recall(reign: Reign) -> Procedure[None]:
    """Replicas of the moves that former controllers have ended, where they have no place any more.

    Of topics that are gone nothing is asked. Done once, as what this controller ends it knows itself; and
    again while a topic cannot be read, since nobody can tell who has a place there.
    """
    if reign.strays_recalled:
        return
    unreadable = reign.picture.unreadable
    is_complete = True
    (outcome,) = yield from ask(Query(ListChildren(finished_reassignments_path())))
    numbers = [FinishedReassignment.sequence_of(name) for name in list_done(outcome).children]
    found = yield from _read(reign, [number for number in numbers if number is not None])
    for record in found.values():
        if record.epoch >= reign.epoch:
            continue
        is_complete &= Topic.path(record.topic_partition.topic) not in unreadable
        for replica in _replicas(record):
            if replica.topic_partition in reign.picture and _is_stray(reign, replica):
                reign.strays[replica] = None
    reign.strays_recalled = is_complete


def _read(reign: Reign, numbers: Iterable[int]) -> Procedure[dict[int, FinishedReassignment]]:
    """Records of moves by number, of those that were carried out."""
    paths = {FinishedReassignment.path(number): number for number in numbers}
    znodes = yield from reign.read_many(paths)
    read = {paths[path]: reign.decoded(znode, FinishedReassignment.decode) for path, znode in znodes.items()}
    return {number: each for number, each in read.items() if each is not None and each.outcome != "dropped"}


def _replicas(record: FinishedReassignment) -> list[Replica]:
    brokers = dict.fromkeys((*record.before, *record.target, *record.left))
    return [Replica(record.topic_partition, broker) for broker in brokers]


def of_topic(reign: Reign, topic: str) -> list[Replica]:
    """Those of a topic of which a deletion has to make a record.

    There may be one already, of a former topic of the name; one from before a real controller does not count
    (`abandoned`).
    """
    recorded = {
        Replica(held, each.record.broker)
        for each in reign.holding.abandoned.values()
        if each.record.topic == topic and each.record.epoch > reign.foreign_epoch
        for held in each.held
    }
    return [
        replica
        for replica in reign.strays
        if replica.topic_partition.topic == topic and replica not in recorded and _is_stray(reign, replica)
    ]


def by_partition(reign: Reign) -> dict[TopicPartition, tuple[int, ...]]:
    """Brokers that have not deleted theirs yet, for the records of moves."""
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for topic_partition, broker in reign.strays:
        found[topic_partition] = (*found.get(topic_partition, ()), broker)
    return found


def told_of(reign: Reign, numbers: Iterable[int]) -> Procedure[set[int]]:
    """Those of the records of moves that name what a broker has not deleted yet, or may not have."""
    yield from recall(reign)
    found = yield from _read(reign, numbers)
    return {
        number
        for number, record in found.items()
        if Topic.path(record.topic_partition.topic) in reign.picture.unreadable
        or any(replica in reign.strays for replica in _replicas(record))
    }


def topic_gone(reign: Reign, topic: str) -> None:
    """The records of its deletion have what was left of it."""
    for replica in [each for each in reign.strays if each.topic_partition.topic == topic]:
        _forget(reign, replica)


def _is_stray(reign: Reign, replica: Replica) -> bool:
    """Whether the partition has no place for it. Late in a move it has the target alone, and whom an unclean
    election has brought back."""
    topic_partition, broker = replica
    standing = reign.picture.standing(topic_partition)
    if standing is not None and broker in standing.isr:
        return False
    return broker not in reign.late.get(topic_partition, reign.picture.replicas(topic_partition))


def _forget(reign: Reign, replica: Replica) -> None:
    reign.strays.pop(replica, None)
    reign.wait(_name(replica), None)


def _name(replica: Replica) -> str:
    return f"removal of {replica}"
