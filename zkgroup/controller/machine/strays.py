"""Replicas that a move has left behind, and whose broker could not delete them. Source: controller.md K16.

Kafka takes such a replica for deleted, so its log stays for ever. Here the move ends all the same, as its
replica list is right; the broker is asked again until it has done it, or holds the replica anew.
A broker that was down then, or died before it answered, is asked when it is back.

The transaction that ends a move also records what it leaves behind (`stray_records`), as a controller that
dies takes its own memory along. So one that takes over asks for what is recorded, and who has answered is
not asked again. Controllers of earlier versions left only the records of ended moves, which name all who had
a replica: these are asked once more, and what does not answer is recorded.

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
from zkgroup.znodes.stray_replicas import MovesBroughtOver

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
        if replica in reign.strays or reign.holding.book.has(answer.broker, replica.topic_partition.topic):
            reign.look(Look.STRAY_RECORDS)
        forget(reign, replica)
    for replica in failed:
        if _is_stray(reign, replica) and not reign.holding.is_abandoned(replica):
            reign.strays[replica] = None
            reign.wait(_name(replica), reason)
            reign.later(Look.STRAYS, AGAIN_MS)
            reign.look(Look.STRAY_RECORDS)


def look(reign: Reign, subject: str = "") -> Procedure[None]:
    """Asks again for what is still left behind; the first time for what former controllers have left."""
    yield from recall(reign)
    asked = reign.holding.all_deleting()
    batch = reign.batch()
    for replica in list(reign.strays):
        topic_partition, broker = replica
        if not _is_stray(reign, replica):
            forget(reign, replica)
            reign.look(Look.STRAY_RECORDS)
        elif broker not in asked.get(topic_partition, ()):
            batch.stop_replica([broker], topic_partition, delete=True)
    reign.tell(batch)
    if reign.strays:
        reign.later(Look.STRAYS, AGAIN_MS)


def recall(reign: Reign) -> Procedure[None]:
    """What former controllers have recorded as left behind, where it has no place any more.

    Done once, as what this controller ends it knows itself; and again while a topic cannot be read, since
    nobody can tell who has a place there.
    """
    recalled, picture = reign.recalled, reign.picture
    if recalled.all:
        return
    is_complete = True
    for owed in reign.holding.book.owed():
        if Topic.path(owed.topic) in picture.unreadable:
            is_complete = False
        elif reign.births.get(owed.topic) == owed.czxid:
            _recalled(reign, (Replica(TopicPartition(owed.topic, n), owed.broker) for n in owed.partitions))
    if not recalled.moves:
        yield from _recall_moves(reign)
    recalled.all = is_complete and recalled.moves


def _recall_moves(reign: Reign) -> Procedure[None]:
    """What moves have left behind that controllers of earlier versions have ended.

    Their records say who had a replica, and nothing more: all of them are asked who have no place. Of topics
    that are gone nothing is asked. Records of this version say that what was left is recorded apart.
    """
    recalled, unreadable = reign.recalled, reign.picture.unreadable
    parent = yield from reign.read_many([MovesBroughtOver.path()])
    znode = parent.get(MovesBroughtOver.path())
    done = reign.decoded(znode, MovesBroughtOver.decode)
    (outcome,) = yield from ask(Query(ListChildren(finished_reassignments_path())))
    numbers = [FinishedReassignment.sequence_of(name) for name in list_done(outcome).children]
    new = [number for number in numbers if number is not None and (done is None or number > done.moves)]
    paths = [FinishedReassignment.path(number) for number in new]
    found = yield from reign.read_many(paths)
    records = [reign.decoded(each, FinishedReassignment.decode) for each in found.values()]
    earlier = [each for each in records if each and each.czxid is None and each.outcome != "dropped"]
    recalled.moves = True
    for record in earlier:
        recalled.moves &= Topic.path(record.topic_partition.topic) not in unreadable
        if record.topic_partition in reign.picture:
            _recalled(reign, _replicas(record))
    recalled.version = None if znode is None else znode.stat.version
    recalled.last, recalled.read, recalled.of_earlier = max(new, default=-1), len(new), bool(earlier)


def _recalled(reign: Reign, replicas: Iterable[Replica]) -> None:
    for replica in replicas:
        if _is_stray(reign, replica) and not reign.holding.is_abandoned(replica):
            reign.strays[replica] = None


def _replicas(record: FinishedReassignment) -> list[Replica]:
    brokers = dict.fromkeys((*record.before, *record.target, *record.left))
    return [Replica(record.topic_partition, broker) for broker in brokers]


def of_topic(reign: Reign, topic: str) -> list[Replica]:
    """Those of a topic that its deletion leaves behind.

    One may be recorded already, of a former topic of the name; a record from before a controller of Kafka
    does not count (`abandoned`).
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


def topic_gone(reign: Reign, topic: str) -> None:
    """What is recorded has what was left of it."""
    for replica in [each for each in reign.strays if each.topic_partition.topic == topic]:
        forget(reign, replica)


def forget(reign: Reign, replica: Replica) -> None:
    """It is gone, or has a place again, or is not asked for any more."""
    reign.strays.pop(replica, None)
    reign.wait(_name(replica), None)


def _is_stray(reign: Reign, replica: Replica) -> bool:
    """Whether the partition has no place for it. Late in a move it has the target alone, and whom an unclean
    election has brought back."""
    topic_partition, broker = replica
    standing = reign.picture.standing(topic_partition)
    if standing is not None and broker in standing.isr:
        return False
    return broker not in reign.late.get(topic_partition, reign.picture.replicas(topic_partition))


def _name(replica: Replica) -> str:
    return f"removal of {replica}"
