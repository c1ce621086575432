"""Replicas that a move has left behind, and whose broker could not delete them. Source: controller.md K16.

Kafka takes such a replica for deleted, so its log stays for ever. Here the move ends all the same, as its
replica list is right; the broker is asked again until it has done it, or holds the replica anew.
A broker that was down then, or died before it answered, is asked when it is back.

A controller that dies between the record of an end and the last StopReplica leaves some behind of which no
answer tells. So one that takes over asks for all of which the records of former controllers say that they
were left: a broker that has none of it answers all the same, and the records are few (`FINISHED_KEPT`).
"""

from __future__ import annotations

from typing import Final

from zkgroup.controller.machine import deleting
from zkgroup.controller.machine.agenda import Look
from zkgroup.controller.machine.reign import Reign
from zkgroup.controller.machine.rule_books import Answer
from zkgroup.controller.machine.transitions import Replica
from zkgroup.machinery.procedures import Procedure, Query, ask, list_done
from zkgroup.model.requests import ListChildren
from zkgroup.wire.control import StopReplicaRequest, StopReplicaResponse
from zkgroup.znodes.reassignment_records import FinishedReassignment, finished_reassignments_path

AGAIN_MS: Final = 60_000
"""Between two attempts: what is wrong with a folder is seldom mended sooner."""


def heard(reign: Reign, answer: Answer) -> None:
    """Takes the answer to a StopReplica with deletion; deletions, forced ones too, have their own."""
    request, response = answer.request.request, answer.response
    if not (isinstance(request, StopReplicaRequest) and request.delete):
        return
    assert isinstance(response, StopReplicaResponse)
    asked = [
        each
        for each in request.partitions
        if not reign.picture.is_going(each) and not reign.holding.is_abandoned(Replica(each, answer.broker))
    ]
    deleted, failed, reason = deleting.answers(answer.broker, asked, response)
    for replica in deleted:
        _forget(reign, replica)
    for replica in failed:
        if _is_stray(reign, replica):
            reign.strays[replica] = None
            reign.wait(_name(replica), reason)
            reign.later(Look.STRAYS, AGAIN_MS)


def look(reign: Reign, subject: str = "") -> Procedure[None]:
    """Asks again for what is still left behind; the first time for what former controllers have left."""
    if not reign.strays_recalled:
        yield from _recall(reign)
        reign.strays_recalled = True
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


def _recall(reign: Reign) -> Procedure[None]:
    """Replicas of the moves that former controllers have ended, where they have no place any more.

    Partitions that are being moved or deleted are left to that; of topics that are gone nothing is asked.
    """
    (outcome,) = yield from ask(Query(ListChildren(finished_reassignments_path())))
    numbers = [FinishedReassignment.sequence_of(name) for name in list_done(outcome).children]
    paths = [FinishedReassignment.path(number) for number in numbers if number is not None]
    found = yield from reign.read_many(paths)
    for znode in found.values():
        record = reign.decoded(znode, FinishedReassignment.decode)
        if record is None or record.outcome == "dropped" or record.epoch >= reign.epoch:
            continue
        each = record.topic_partition
        if each not in reign.picture or each in reign.picture.moves or reign.picture.is_going(each):
            continue
        for broker in dict.fromkeys((*record.before, *record.target)):
            if _is_stray(reign, replica := Replica(each, broker)):
                reign.strays[replica] = None


def _is_stray(reign: Reign, replica: Replica) -> bool:
    """Whether the partition has no place for it. Late in a move it has the target alone."""
    topic_partition, broker = replica
    return broker not in reign.late.get(topic_partition, reign.picture.replicas(topic_partition))


def _forget(reign: Reign, replica: Replica) -> None:
    reign.strays.pop(replica, None)
    reign.wait(_name(replica), None)


def _name(replica: Replica) -> str:
    return f"removal of {replica}"
