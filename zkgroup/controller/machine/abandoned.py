"""Replicas that a deletion has not waited for, until their brokers have deleted them. Source: K20.

Theory of operation
-------------------
An operator who knows that a broker is lost can have a topic deleted without it. Should it come back after
all, it still has the records, and nothing in them tells one topic from the next of that name. So before the
topic is deleted each such broker is recorded, and each on which a move has left a replica that nobody has
seen deleted (`strays`, `stray_records`). While that stands `Holding` keeps the broker from being made a
replica of a new topic of the name: it is not told of it, and not elected. The others are told the whole
replica list, so that nothing is left to be said to them when the record is gone.

    read      the records, before anything is decided
    look      StopReplica with deletion to the brokers that are there; a record of which all is answered goes
    heard     the answers

The record goes before the replica is let in, never after: a controller that dies in between has the broker
delete again what is empty, and nothing that it was given since. A real controller knows no records. Where
one has ruled since and the broker is a replica of a new topic, what it has may be that topic's, and stays.
"""

from __future__ import annotations

from typing import Final

from zkgroup.controller.machine import deleting, stray_records
from zkgroup.controller.machine.agenda import Look
from zkgroup.controller.machine.fence import Write
from zkgroup.controller.machine.holding import Abandoned, RecordKey
from zkgroup.controller.machine.reign import Reign
from zkgroup.controller.machine.rule_books import Answer
from zkgroup.controller.machine.states import commit
from zkgroup.controller.machine.stray_book import Owed
from zkgroup.machinery.procedures import Procedure, Query, ask, list_done
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Delete, ListChildren
from zkgroup.wire.control import StopReplicaRequest, StopReplicaResponse
from zkgroup.znodes.abandoned_replicas import AbandonedReplicas, abandoned_replicas_path
from zkgroup.znodes.brokers import PartitionState, Topic

AGAIN_MS: Final = 60_000
"""Between two attempts: what is wrong with a folder is seldom mended sooner."""


def read(reign: Reign) -> Procedure[None]:
    """Reads the records: what they name is held from here on. The answers so far still count.

    Those of `/zkgroup/abandoned` are of controllers of earlier versions; no more are made.
    """
    (outcome,) = yield from ask(Query(ListChildren(abandoned_replicas_path())))
    names = list_done(outcome).children
    reign.only(abandoned_replicas_path(), names)
    numbers = [number for name in names if (number := AbandonedReplicas.sequence_of(name)) is not None]
    znodes = yield from reign.read_many(AbandonedReplicas.path(number) for number in numbers)
    found: dict[RecordKey, Abandoned] = {}
    for number in sorted(numbers):
        znode = znodes.get(AbandonedReplicas.path(number))
        record = reign.decoded(znode, AbandonedReplicas.decode)
        if znode is None or record is None:
            continue
        known = reign.holding.abandoned.get(number)
        if known is None or known.version != znode.stat.version:
            all_ = record.topic_partitions
            known = Abandoned(record, znode.stat.version, set(all_), set(all_))
        found[number] = known
    for key, each in reign.holding.abandoned.items():
        if not isinstance(key, int):
            found[key] = each
        elif key not in found:
            reign.wait(_name(each), None)
    reign.holding.abandon(found)
    yield from stray_records.read(reign)
    _let_go_of_wanted(reign)


def look(reign: Reign, subject: str = "") -> Procedure[None]:
    """Has brokers that are back delete what they still have, and takes off the records of what is deleted."""
    holding = reign.holding
    _let_go_of_wanted(reign)
    for number in [number for number, each in holding.abandoned.items() if not each.left]:
        if isinstance(number, int):
            yield from _settle_earlier(reign, number)
    yield from _settle(reign)
    asked = holding.all_deleting()
    batch = reign.batch()
    for topic_partition, broker in holding.let_in:
        if broker in reign.picture.replicas(topic_partition) and not reign.picture.is_going(topic_partition):
            batch.leader_and_isr([broker], topic_partition)
    holding.let_in.clear()
    for each in holding.abandoned.values():
        broker = each.record.broker
        if broker not in reign.picture.reachable or not each.left:
            continue
        for topic_partition in each.left:
            if broker not in asked.get(topic_partition, ()) and not _is_unclear(reign, topic_partition):
                batch.stop_replica([broker], topic_partition, delete=True)
        reign.later(Look.ABANDONED, AGAIN_MS)
    reign.tell(batch)


def heard(reign: Reign, answer: Answer) -> None:
    """Takes the answer to a StopReplica with deletion, whoever has asked for it."""
    request, response = answer.request.request, answer.response
    mine = [each for each in reign.holding.abandoned.values() if each.record.broker == answer.broker]
    if not mine or not (isinstance(request, StopReplicaRequest) and request.delete):
        return
    assert isinstance(response, StopReplicaResponse)
    deleted, failed, reason = deleting.answers(answer.broker, request.partitions, response)
    for each in mine:
        each.left.difference_update(replica.topic_partition for replica in deleted)
        if not each.left:
            reign.wait(_name(each), None)
            reign.look(Look.ABANDONED)
        elif not each.left.isdisjoint(replica.topic_partition for replica in failed):
            reign.wait(_name(each), reason)


def _settle(reign: Reign) -> Procedure[None]:
    """Of what brokers have nothing any more the records go, and then they may have new replicas."""
    done = {key: each for key, each in reign.holding.abandoned.items() if not each.left}
    gone = [
        Owed(*key, frozenset(each.record.partitions))
        for key, each in done.items()
        if not isinstance(key, int)
    ]
    if not gone:
        return
    is_overtaken, refused = yield from stray_records.write(reign, remove=gone)
    for each in [each for key, each in done.items() if key not in reign.holding.abandoned]:
        reign.wait(_name(each), None)
        reign.core.note("abandoned.deleted", topic=each.record.topic, broker=each.record.broker)
    for (broker, _), why in refused.items():
        reign.rest(why, [_name(each) for each in done.values() if each.record.broker == broker])
    if is_overtaken:
        reign.later(Look.ABANDONED, AGAIN_MS)
    _others_look(reign)


def _settle_earlier(reign: Reign, number: int) -> Procedure[None]:
    """The same for a record of an earlier version, which is a znode of its own."""
    each = reign.holding.abandoned[number]
    record = each.record
    write = Write(f"abandoned replicas {number}", (Delete(AbandonedReplicas.path(number), each.version),))
    refusal = yield from commit(reign, write)
    if refusal is not None and not refusal.is_conflict:
        reign.rest(str(refusal), [_name(each)])
        return
    if refusal is not None:
        yield from read(reign)  # somebody else has taken it off, or written it
        reign.later(Look.ABANDONED, AGAIN_MS)
    else:
        rest = {other: kept for other, kept in reign.holding.abandoned.items() if other != number}
        reign.holding.abandon(rest)
        reign.wait(_name(each), None)
        reign.core.note("abandoned.deleted", topic=record.topic, broker=record.broker)
    _others_look(reign)


def _let_go_of_wanted(reign: Reign) -> None:
    """What a broker may have been given since by a controller that knows no records is not deleted."""
    picture = reign.picture
    for number, each in list(reign.holding.abandoned.items()):
        broker, is_old = each.record.broker, reign.foreign_epoch > each.record.epoch
        wanted = [
            topic_partition
            for topic_partition in each.held
            if not picture.is_going(topic_partition)
            and broker in picture.replicas(topic_partition)
            and (standing := picture.standing(topic_partition)) is not None
            and (is_old or broker in standing.isr)
        ]
        if wanted:
            reign.core.note("abandoned.wanted", broker=broker, partitions=tuple(map(str, sorted(wanted))))
            reign.holding.is_wanted(number, wanted)
            _others_look(reign)


def _others_look(reign: Reign) -> None:
    """For partitions that nobody could lead, and moves that have waited."""
    reign.look(Look.ELECTIONS)
    reign.look(Look.REASSIGNMENT)


def _is_unclear(reign: Reign, topic_partition: TopicPartition) -> bool:
    """Whether there may be a new partition of this name of which nobody can read who has it."""
    paths = (Topic.path(topic_partition.topic), PartitionState.path(topic_partition))
    return not reign.picture.unreadable.keys().isdisjoint(paths)


def _name(each: Abandoned) -> str:
    return f"removal of {each.record.topic} on broker {each.record.broker}"
