"""Replicas that a move has left behind, and whose broker could not delete them. Source: controller.md K16.

Kafka takes such a replica for deleted, so its log stays for ever. Here the move ends all the same, as its
replica list is right; the broker is asked again until it has done it, or holds the replica anew.
A broker that was down then, or died before it answered, is asked when it is back.

The transaction that ends a move also records what it leaves behind (`pending_deletes`), as a controller that
dies takes its own memory along. So one that takes over asks for what is recorded, and who has answered is
not asked again. Controllers of earlier versions left only the records of ended moves, which name all who had
a replica: these are asked once more, and what does not answer is recorded.

A topic that is deleted takes nothing of this along, and one that is made again under its name may give the
broker a place. So the deletion, which waits for no broker that is down or cannot, hands them over to
`abandoned` (K20).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from zkgroup.controller.machine.active import ActiveController
from zkgroup.controller.machine.deletion import decision
from zkgroup.controller.machine.deletion.pending_deletes import (
    Abandoned,
    Part,
    Place,
    RecordChange,
    RecordedStrays,
    RecordKey,
)
from zkgroup.controller.machine.event_queue import EventKind
from zkgroup.controller.machine.fenced_writes import Write
from zkgroup.controller.machine.requests.sender import BrokerResponse
from zkgroup.controller.machine.state_machines import Replica
from zkgroup.controller.machine.state_writes import commit, write_all
from zkgroup.model import TopicPartition
from zkgroup.model.requests import CreateMissing, Delete, ListChildren, SetData
from zkgroup.runtime.procedures import Procedure, Query, ask, list_done
from zkgroup.wire.control import StopReplicaRequest, StopReplicaResponse
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.paths import zkgroup_path
from zkgroup.znodes.reassignment_records import FinishedReassignment, finished_reassignments_path
from zkgroup.znodes.stray_replicas import (
    AbandonedReplicas,
    MovesBroughtOver,
    StrayReplicas,
    abandoned_replicas_path,
    stray_replicas_path,
)

AGAIN_MS: Final = 60_000
"""Between two attempts: what is wrong with a folder is seldom mended sooner."""


def on_stray_response(active: ActiveController, answer: BrokerResponse) -> None:
    """Takes the answer to a StopReplica with deletion, whoever has asked for it."""
    request, response = answer.request.request, answer.response
    if not (isinstance(request, StopReplicaRequest) and request.delete):
        return
    assert isinstance(response, StopReplicaResponse)
    deleted, failed, reason = decision.stop_replica_results(answer.broker, request.partitions, response)
    for replica in deleted:
        if replica in active.strays or active.pending_deletes.book.has(
            answer.broker, replica.topic_partition.topic
        ):
            active.enqueue(EventKind.STRAY_RECORDS)
        forget_stray(active, replica)
    for replica in failed:
        if _is_stray(active, replica) and not active.pending_deletes.is_abandoned(replica):
            active.strays[replica] = None
            active.wait(_stray_name(replica), reason)
            active.enqueue_later(EventKind.STRAYS, AGAIN_MS)
            active.enqueue(EventKind.STRAY_RECORDS)


def delete_stray_replicas(active: ActiveController, subject: str = "") -> Procedure[None]:
    """Asks again for what is still left behind; the first time for what former controllers have left."""
    yield from recall(active)
    asked = active.pending_deletes.all_deleting()
    batch = active.requests.batch()
    for replica in list(active.strays):
        topic_partition, broker = replica
        if not _is_stray(active, replica):
            forget_stray(active, replica)
            active.enqueue(EventKind.STRAY_RECORDS)
        elif broker not in asked.get(topic_partition, ()):
            batch.stop_replica([broker], topic_partition, delete=True)
    active.requests.send(batch)
    if active.strays:
        active.enqueue_later(EventKind.STRAYS, AGAIN_MS)


def recall(active: ActiveController) -> Procedure[None]:
    """What former controllers have recorded as left behind, where it has no place any more.

    Done once, as what this controller ends it knows itself; and again while a topic cannot be read, since
    nobody can tell who has a place there.
    """
    recalled, context = active.recall, active.context
    if recalled.all:
        return
    is_complete = True
    for owed in active.pending_deletes.book.owed():
        if Topic.path(owed.topic) in context.unreadable:
            is_complete = False
        elif active.context.topic_czxids.get(owed.topic) == owed.czxid:
            _recalled(active, (Replica(TopicPartition(owed.topic, n), owed.broker) for n in owed.partitions))
    if not recalled.moves:
        yield from _recall_moves(active)
    recalled.all = is_complete and recalled.moves


def _recall_moves(active: ActiveController) -> Procedure[None]:
    """What moves have left behind that controllers of earlier versions have ended.

    Their records say who had a replica, and nothing more: all of them are asked who have no place. Of topics
    that are gone nothing is asked. Records of this version say that what was left is recorded apart.
    """
    recalled, unreadable = active.recall, active.context.unreadable
    parent = yield from active.read_many([MovesBroughtOver.path()])
    znode = parent.get(MovesBroughtOver.path())
    done = active.decoded(znode, MovesBroughtOver.decode)
    (outcome,) = yield from ask(Query(ListChildren(finished_reassignments_path())))
    numbers = [FinishedReassignment.sequence_of(name) for name in list_done(outcome).children]
    new = [number for number in numbers if number is not None and (done is None or number > done.moves)]
    paths = [FinishedReassignment.path(number) for number in new]
    found = yield from active.read_many(paths)
    records = [active.decoded(each, FinishedReassignment.decode) for each in found.values()]
    earlier = [each for each in records if each and each.czxid is None and each.outcome != "dropped"]
    recalled.moves = True
    for record in earlier:
        recalled.moves &= Topic.path(record.topic_partition.topic) not in unreadable
        if record.topic_partition in active.context:
            _recalled(active, _replicas(record))
    recalled.version = None if znode is None else znode.stat.version
    recalled.last, recalled.read, recalled.of_earlier = max(new, default=-1), len(new), bool(earlier)


def _recalled(active: ActiveController, replicas: Iterable[Replica]) -> None:
    for replica in replicas:
        if _is_stray(active, replica) and not active.pending_deletes.is_abandoned(replica):
            active.strays[replica] = None


def _replicas(record: FinishedReassignment) -> list[Replica]:
    brokers = dict.fromkeys((*record.before, *record.target, *record.left))
    return [Replica(record.topic_partition, broker) for broker in brokers]


def of_topic(active: ActiveController, topic: str) -> list[Replica]:
    """Those of a topic that its deletion leaves behind.

    One may be recorded already, of a former topic of the name; a record from before a controller of Kafka
    does not count (`abandoned`).
    """
    recorded = {
        Replica(held, each.record.broker)
        for each in active.pending_deletes.abandoned.values()
        if each.record.topic == topic and each.record.epoch > active.foreign_epoch
        for held in each.held
    }
    return [
        replica
        for replica in active.strays
        if replica.topic_partition.topic == topic and replica not in recorded and _is_stray(active, replica)
    ]


def by_partition(active: ActiveController) -> dict[TopicPartition, tuple[int, ...]]:
    """Brokers that have not deleted theirs yet, for the records of moves."""
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for topic_partition, broker in active.strays:
        found[topic_partition] = (*found.get(topic_partition, ()), broker)
    return found


def topic_gone(active: ActiveController, topic: str) -> None:
    """What is recorded has what was left of it."""
    for replica in [each for each in active.strays if each.topic_partition.topic == topic]:
        forget_stray(active, replica)


def forget_stray(active: ActiveController, replica: Replica) -> None:
    """It is gone, or has a place again, or is not asked for any more."""
    active.strays.pop(replica, None)
    active.wait(_stray_name(replica), None)


def _is_stray(active: ActiveController, replica: Replica) -> bool:
    """Whether the partition has no place for it. Late in a move it has the target alone, and whom an unclean
    election has brought back."""
    topic_partition, broker = replica
    standing = active.context.standing(topic_partition)
    if standing is not None and broker in standing.isr:
        return False
    return broker not in active.reassignments.late.get(
        topic_partition, active.context.replicas(topic_partition)
    )


def _stray_name(replica: Replica) -> str:
    return f"removal of {replica}"


ABANDONED_AGAIN_MS: Final = 60_000
"""Between two attempts: what is wrong with a folder is seldom mended sooner."""


def read_abandoned_records(active: ActiveController) -> Procedure[None]:
    """Reads the records: what they name is held from here on. The answers so far still count.

    Those of `/zkgroup/abandoned` are of controllers of earlier versions; no more are made.
    """
    (outcome,) = yield from ask(Query(ListChildren(abandoned_replicas_path())))
    names = list_done(outcome).children
    active.only(abandoned_replicas_path(), names)
    numbers = [number for name in names if (number := AbandonedReplicas.sequence_of(name)) is not None]
    znodes = yield from active.read_many(AbandonedReplicas.path(number) for number in numbers)
    found: dict[RecordKey, Abandoned] = {}
    for number in sorted(numbers):
        znode = znodes.get(AbandonedReplicas.path(number))
        record = active.decoded(znode, AbandonedReplicas.decode)
        if znode is None or record is None:
            continue
        known = active.pending_deletes.abandoned.get(number)
        if known is None or known.version != znode.stat.version:
            all_ = record.topic_partitions
            known = Abandoned(record, znode.stat.version, set(all_), set(all_))
        found[number] = known
    for key, each in active.pending_deletes.abandoned.items():
        if not isinstance(key, int):
            found[key] = each
        elif key not in found:
            active.wait(_subject(each), None)
    active.pending_deletes.abandon(found)
    yield from read_records(active)
    _let_go_of_wanted(active)


def on_abandoned_replicas(active: ActiveController, subject: str = "") -> Procedure[None]:
    """Has brokers that are back delete what they still have, and takes off the records of what is deleted."""
    pending_deletes = active.pending_deletes
    _let_go_of_wanted(active)
    for number in [number for number, each in pending_deletes.abandoned.items() if not each.left]:
        if isinstance(number, int):
            yield from _clear_earlier(active, number)
    yield from _clear(active)
    asked = pending_deletes.all_deleting()
    batch = active.requests.batch()
    for topic_partition, broker in pending_deletes.released:
        if broker in active.context.replicas(topic_partition) and not active.context.is_going(
            topic_partition
        ):
            batch.leader_and_isr([broker], topic_partition)
    pending_deletes.released.clear()
    for each in pending_deletes.abandoned.values():
        broker = each.record.broker
        if broker not in active.context.reachable or not each.left:
            continue
        for topic_partition in each.left:
            if broker not in asked.get(topic_partition, ()) and not _is_unclear(active, topic_partition):
                batch.stop_replica([broker], topic_partition, delete=True)
        active.enqueue_later(EventKind.ABANDONED, ABANDONED_AGAIN_MS)
    active.requests.send(batch)


def on_abandoned_response(active: ActiveController, answer: BrokerResponse) -> None:
    """Takes the answer to a StopReplica with deletion, whoever has asked for it."""
    request, response = answer.request.request, answer.response
    mine = [each for each in active.pending_deletes.abandoned.values() if each.record.broker == answer.broker]
    if not mine or not (isinstance(request, StopReplicaRequest) and request.delete):
        return
    assert isinstance(response, StopReplicaResponse)
    deleted, failed, reason = decision.stop_replica_results(answer.broker, request.partitions, response)
    for each in mine:
        each.left.difference_update(replica.topic_partition for replica in deleted)
        if not each.left:
            active.wait(_subject(each), None)
            active.enqueue(EventKind.ABANDONED)
        elif not each.left.isdisjoint(replica.topic_partition for replica in failed):
            active.wait(_subject(each), reason)


def _clear(active: ActiveController) -> Procedure[None]:
    """Of what brokers have nothing any more the records go, and then they may have new replicas."""
    done = {key: each for key, each in active.pending_deletes.abandoned.items() if not each.left}
    gone = [
        RecordedStrays(*key, frozenset(each.record.partitions))
        for key, each in done.items()
        if not isinstance(key, int)
    ]
    if not gone:
        return
    is_overtaken, refused = yield from write_records(active, remove=gone)
    for each in [each for key, each in done.items() if key not in active.pending_deletes.abandoned]:
        active.wait(_subject(each), None)
        active.core.note("abandoned.deleted", topic=each.record.topic, broker=each.record.broker)
    for (broker, _), why in refused.items():
        active.back_off(why, [_subject(each) for each in done.values() if each.record.broker == broker])
    if is_overtaken:
        active.enqueue_later(EventKind.ABANDONED, ABANDONED_AGAIN_MS)
    _queue_followups(active)


def _clear_earlier(active: ActiveController, number: int) -> Procedure[None]:
    """The same for a record of an earlier version, which is a znode of its own."""
    each = active.pending_deletes.abandoned[number]
    record = each.record
    write = Write(f"abandoned replicas {number}", (Delete(AbandonedReplicas.path(number), each.version),))
    refusal = yield from commit(active, write)
    if refusal is not None and not refusal.is_conflict:
        active.back_off(str(refusal), [_subject(each)])
        return
    if refusal is not None:
        yield from read_abandoned_records(active)  # somebody else has taken it off, or written it
        active.enqueue_later(EventKind.ABANDONED, ABANDONED_AGAIN_MS)
    else:
        rest = {other: kept for other, kept in active.pending_deletes.abandoned.items() if other != number}
        active.pending_deletes.abandon(rest)
        active.wait(_subject(each), None)
        active.core.note("abandoned.deleted", topic=record.topic, broker=record.broker)
    _queue_followups(active)


def _let_go_of_wanted(active: ActiveController) -> None:
    """What a broker may have been given since by a controller that knows no records is not deleted."""
    context = active.context
    for number, each in list(active.pending_deletes.abandoned.items()):
        broker, is_old = each.record.broker, active.foreign_epoch > each.record.epoch
        wanted = [
            topic_partition
            for topic_partition in each.held
            if not context.is_going(topic_partition)
            and broker in context.replicas(topic_partition)
            and (standing := context.standing(topic_partition)) is not None
            and (is_old or broker in standing.isr)
        ]
        if wanted:
            active.core.note("abandoned.wanted", broker=broker, partitions=tuple(map(str, sorted(wanted))))
            active.pending_deletes.is_wanted(number, wanted)
            _queue_followups(active)


def _queue_followups(active: ActiveController) -> None:
    """For partitions that nobody could lead, and moves that have waited."""
    active.enqueue(EventKind.ELECTIONS)
    active.enqueue(EventKind.REASSIGNMENT)


def _is_unclear(active: ActiveController, topic_partition: TopicPartition) -> bool:
    """Whether there may be a new partition of this name of which nobody can read who has it."""
    paths = (Topic.path(topic_partition.topic), PartitionState.path(topic_partition))
    return not active.context.unreadable.keys().isdisjoint(paths)


def _subject(each: Abandoned) -> str:
    return f"removal of {each.record.topic} on broker {each.record.broker}"


CHANGED: Final = "others have changed what is recorded of stray replicas"
ATTEMPTS_MAX: Final = 10
"""So often an operator may come before the record of a deletion."""
MOVES_READ_AGAIN: Final = 100
"""So many records of moves each controller may read for nothing, before it is noted that they need not."""


class StrayRecordsWritten(NamedTuple):
    """What became of a change."""

    is_overtaken: bool
    """Others had written there; all was read again."""
    refused: Mapping[Place, str]
    """Znodes that may not be written, and why."""


def read_records(active: ActiveController) -> Procedure[None]:
    """Reads all of it. What is no more recorded, though this controller had it so, is forgotten."""
    (outcome,) = yield from ask(Query(ListChildren(stray_replicas_path())))
    names = list_done(outcome).children
    active.only(stray_replicas_path(), names)
    places = {StrayReplicas.path(*place): place for place in _places(names)}
    znodes = yield from active.read_many(places)
    parts: dict[Place, Part] = {}
    for path, znode in znodes.items():
        if (found := active.decoded(znode, StrayReplicas.decode)) is not None:
            parts[places[path]] = Part(znode.stat.version, found.topics)
    book = active.pending_deletes.book
    before = book.owed()
    book.found(parts, [place for path, place in places.items() if path in active.context.unreadable])
    left = {each.key: each.partitions for each in book.owed()}
    for owed in before:
        for number in owed.partitions - left.get(owed.key, frozenset()):
            forget_stray(active, Replica(TopicPartition(owed.topic, number), owed.broker))
    active.sort_strays()


def on_stray_records(active: ActiveController, subject: str = "") -> Procedure[None]:
    """Makes what is recorded what is known: without what brokers have deleted, with what they could not."""
    book = active.pending_deletes.book
    if book:
        (outcome,) = yield from ask(
            active.watched(ListChildren(stray_replicas_path()), EventKind.STRAY_RECORDS)
        )
        if frozenset(_places(list_done(outcome).children)) != book.places():
            yield from read_records(active)
    yield from recall(active)
    written = yield from write_records(active, *_differences(active))
    for why in written.refused.values():
        active.back_off(why, ["records of stray replicas"])
    if written.is_overtaken:
        active.enqueue(EventKind.STRAY_RECORDS)
    elif not written.refused:
        active.wait("records of stray replicas", None)
        yield from _brought_over(active)


def write_records(
    active: ActiveController, add: Iterable[RecordedStrays] = (), remove: Iterable[RecordedStrays] = ()
) -> Procedure[StrayRecordsWritten]:
    """Writes a change, in as few transactions as hold it. Raises as `states.carry_out`."""
    book = active.pending_deletes.book
    change = book.change(add, remove)
    if not change.operations:
        return StrayRecordsWritten(False, {})
    if not book:
        yield from ask(Query(CreateMissing((zkgroup_path(), stray_replicas_path()))))
    is_overtaken = False

    def make(place: Place) -> Write | str:
        return CHANGED if is_overtaken else change.write(place)

    def read_again(places: list[Place]) -> Procedure[None]:
        nonlocal is_overtaken
        if places:
            is_overtaken = True
            yield from read_records(active)

    refused = yield from write_all(active, change.operations, make, read_again)
    if is_overtaken:
        refused = {place: why for place, why in refused.items() if why != CHANGED}
    else:
        book.took(change, refused)
        active.sort_strays()
    return StrayRecordsWritten(is_overtaken, refused)


def ended_records(active: ActiveController, left: Iterable[Replica]) -> RecordChange:
    """What the end of moves adds: of these replicas no broker has said that they are gone."""
    return active.pending_deletes.book.change(_of_present(active, left))


def record_deletion(
    active: ActiveController, ends: Mapping[str, Collection[Replica]]
) -> Procedure[str | None]:
    """Before topics are deleted: of them these replicas stay. Returns why it may not be written, or None."""
    refused: Mapping[Place, str] = {}
    for _ in range(ATTEMPTS_MAX):
        add = _of_present(active, (replica for replicas in ends.values() for replica in replicas))
        stay = {each.key: each.partitions for each in add}
        add += _outdated(active, ends)
        remove = [
            owed._replace(partitions=owed.partitions - stay.get(owed.key, frozenset()))
            for owed in active.pending_deletes.book.owed()
            if owed.topic in ends and active.context.topic_czxids.get(owed.topic) == owed.czxid
        ]
        is_overtaken, refused = yield from write_records(active, add, remove)
        if not is_overtaken:
            return next(iter(refused.values()), None)
    return CHANGED


def _outdated(active: ActiveController, topics: Collection[str]) -> list[RecordedStrays]:
    """What is left of former topics of these names, from before a controller of Kafka: it has not made their
    brokers replicas of these, and what comes after these is known to come after it (K20)."""
    found = []
    for key, each in active.pending_deletes.abandoned.items():
        record = each.record
        if not isinstance(key, int) and record.topic in topics and record.epoch <= active.foreign_epoch:
            numbers = frozenset(topic_partition.partition for topic_partition in each.held)
            found.append(RecordedStrays(*key, numbers, active.epoch))
    return [each for each in found if each.partitions]


def _of_present(active: ActiveController, replicas: Iterable[Replica]) -> list[RecordedStrays]:
    """Replicas of topics that there are, by broker and topic."""
    numbers: dict[tuple[int, str], set[int]] = {}
    for (topic, number), broker in replicas:
        if topic in active.context.topic_czxids:
            numbers.setdefault((broker, topic), set()).add(number)
    return [
        RecordedStrays(broker, topic, active.context.topic_czxids[topic], frozenset(mine), active.epoch)
        for (broker, topic), mine in sorted(numbers.items())
    ]


def _differences(active: ActiveController) -> tuple[list[RecordedStrays], list[RecordedStrays]]:
    """What is to be added and taken off, of topics that there are.

    Moves that are open are recorded with their ends. An entry from before a controller of Kafka is renewed
    as long as its topic is there, so that what comes after it is known to be after it (K20).
    """
    recorded = active.pending_deletes.book.owed()
    add = _of_present(
        active, (each for each in active.strays if each.topic_partition not in active.reassignments)
    )
    remove = []
    for owed in recorded:
        is_present = active.context.topic_czxids.get(owed.topic) == owed.czxid
        if not is_present or Topic.path(owed.topic) in active.context.unreadable:
            continue
        gone = frozenset(
            number
            for number in owed.partitions
            if Replica(TopicPartition(owed.topic, number), owed.broker) not in active.strays
        )
        if gone:
            remove.append(owed._replace(partitions=gone))
    current = {
        each.key: each.partitions
        for each in active.pending_deletes.book.owed()
        if each.epoch > active.foreign_epoch
    }
    return [each for each in add if each.partitions - current.get(each.key, frozenset())], remove


def _brought_over(active: ActiveController) -> Procedure[None]:
    """What the records of moves by earlier versions have left is recorded; none of these is read again."""
    recalled = active.recall
    if not recalled.moves or recalled.is_noted:
        return
    recalled.is_noted = True
    if recalled.of_earlier or recalled.read >= MOVES_READ_AGAIN:
        if recalled.version is None:
            yield from ask(Query(CreateMissing((zkgroup_path(), stray_replicas_path()))))
        data = MovesBroughtOver(recalled.last).encode()
        operation = SetData(MovesBroughtOver.path(), data, recalled.version or 0)
        refusal = yield from commit(active, Write("records of moves that are brought over", (operation,)))
        recalled.is_noted = refusal is None or not recalled.of_earlier


def _places(names: Iterable[str]) -> Iterable[Place]:
    return [place for name in names if (place := StrayReplicas.place_of(name)) is not None]
