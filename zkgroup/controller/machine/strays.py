"""Replicas that a move has left behind, and whose broker could not delete them. Source: controller.md K16.

Kafka takes such a replica for deleted, so its log stays for ever. Here the move ends all the same, as its
replica list is right; the broker is asked again until it has done it, or holds the replica anew. A controller
that takes over does not know of it.
"""

from __future__ import annotations

from typing import Final

from zkgroup.controller.machine import deleting
from zkgroup.controller.machine.agenda import Look
from zkgroup.controller.machine.reign import Reign
from zkgroup.controller.machine.rule_books import Answer
from zkgroup.controller.machine.transitions import Replica
from zkgroup.machinery.procedures import Procedure
from zkgroup.wire.control import StopReplicaRequest, StopReplicaResponse

AGAIN_MS: Final = 60_000
"""Between two attempts: what is wrong with a folder is seldom mended sooner."""


def heard(reign: Reign, answer: Answer) -> None:
    """Takes the answer to a StopReplica with deletion; topics that are being deleted have their own."""
    request, response = answer.request.request, answer.response
    if not (isinstance(request, StopReplicaRequest) and request.delete):
        return
    assert isinstance(response, StopReplicaResponse)
    asked = [each for each in request.partitions if not reign.picture.is_going(each)]
    deleted, failed, reason = deleting.answers(answer.broker, asked, response)
    for replica in deleted:
        _forget(reign, replica)
    for replica in failed:
        if _is_stray(reign, replica):
            reign.strays[replica] = None
            reign.wait(_name(replica), reason)
            reign.later(Look.STRAYS, AGAIN_MS)


def look(reign: Reign, subject: str = "") -> Procedure[None]:
    """Asks again for what is still left behind."""
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
    yield from ()


def _is_stray(reign: Reign, replica: Replica) -> bool:
    """Whether the partition has no place for it. Late in a move it has the target alone."""
    topic_partition, broker = replica
    return broker not in reign.late.get(topic_partition, reign.picture.replicas(topic_partition))


def _forget(reign: Reign, replica: Replica) -> None:
    reign.strays.pop(replica, None)
    reign.wait(_name(replica), None)


def _name(replica: Replica) -> str:
    return f"removal of {replica}"
