"""Stray replicas: those that reassignments or deleted topics have left on brokers.

Kafka takes such a replica for deleted, so its log stays for ever. Here the move ends all the same, as its
replica list is right; the broker is asked again until it has done it, or holds the replica anew.
A broker that was down then, or died before it answered, is asked when it is back.

The transaction that ends a move also records what it leaves behind (`pending_deletes`), as a controller that
dies takes its own memory along. So one that takes over asks for what is recorded, and who has answered is
not asked again. Controllers of earlier versions left only the records of ended moves, which name all who had
a replica: these are asked once more, and what does not answer is recorded.

Deleting a topic does not remove these records; a new topic of that name may assign the same broker. So the
deletion, which waits for no broker that is down or cannot delete, makes them `of_deleted_topics`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from zkgroup.controller.machine import event_manager
from zkgroup.controller.machine.deletion import decision
from zkgroup.controller.machine.feature import Feature, SharedParts
from zkgroup.controller.machine.fenced_writes import Write
from zkgroup.controller.machine.pending_deletes import (
    DeletedTopicReplicas,
    Part,
    Place,
    RecordedStrays,
    RecordKey,
)
from zkgroup.controller.machine.requests.sender import BrokerResponse
from zkgroup.controller.machine.settings import StrayRecordsRead
from zkgroup.controller.machine.state_machines import PartitionAndReplica
from zkgroup.model import TopicPartition
from zkgroup.model.requests import CreateMissing, Delete, ListChildren, SetData
from zkgroup.runtime.procedures import Procedure, Query, ask, list_done
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
ABANDONED_AGAIN_MS: Final = 60_000
"""Milliseconds between two attempts: a broken log directory is seldom repaired sooner."""

CHANGED: Final = "others have changed what is recorded of stray replicas"
ATTEMPTS_MAX: Final = 10
"""So often an operator may come before the record of a deletion."""
MOVES_READ_AGAIN: Final = 100
"""So many records of moves each controller may read for nothing, before it is noted that they need not."""


class StrayRecordsWritten(NamedTuple):
    """The result of a write of stray replicas."""

    is_overtaken: bool
    """Others had written there; all was read again."""
    refused: Mapping[Place, str]
    """Znodes that may not be written, and why."""


class StrayReplicaDeletion(Feature):
    """Has brokers delete the replicas that reassignments and deleted topics have left behind."""

    def __init__(self, parts: SharedParts) -> None:
        super().__init__(parts)
        self._strays: dict[PartitionAndReplica, None] = {}
        """Replicas that a reassignment has left behind, and that their brokers have not deleted."""
        self._records_read = StrayRecordsRead()

    def loaded(self) -> None:
        self._events.enqueue(event_manager.STRAY_REPLICAS)
        self._events.enqueue(event_manager.REPLICAS_OF_DELETED_TOPICS)
        self._events.enqueue(event_manager.STRAY_RECORDS)

    @property
    def are_moves_brought_over(self) -> bool:
        """Returns whether all that the records of ended reassignments name is recorded elsewhere."""
        return self._records_read.is_noted

    def left_behind(self, replicas: Iterable[PartitionAndReplica]) -> None:
        self._strays.update(dict.fromkeys(replicas))

    def broker_started(self) -> None:
        """A broker is back: what it did not delete before may be deleted now."""
        if self._strays:
            self._events.enqueue(event_manager.STRAY_REPLICAS)
        if self._pending_deletes.of_deleted_topics:
            self._events.enqueue(event_manager.REPLICAS_OF_DELETED_TOPICS)

    def topic_forgotten(self, topic: str, partitions: Sequence[TopicPartition]) -> None:
        self.sort_records(topic)

    def sort_records(self, topic: str | None = None) -> None:
        """Sorts the records of a topic that is gone or new, or of all topics: the replicas of topics that are
        gone belong to `of_deleted_topics`, and are not stray replicas of reassignments.
        """
        pending_deletes = self._pending_deletes
        if topic is not None and not pending_deletes.records.has_topic(topic):
            return
        before = dict(pending_deletes.of_deleted_topics)
        pending_deletes.sort(self._context.topic_czxids)
        for gone in before.keys() - pending_deletes.of_deleted_topics.keys():
            self._events.set_blocked(_subject(before[gone]), None)
        for replica in [each for each in self._strays if pending_deletes.is_of_deleted_topic(each)]:
            self.forget_stray(replica)

    def on_response(self, answer: BrokerResponse) -> None:
        self._on_abandoned_response(answer)
        self._on_stray_response(answer)

    def _on_stray_response(self, answer: BrokerResponse) -> None:
        if (results := decision.deletion_results(answer)) is None:
            return
        deleted, failed, reason = results
        for replica in deleted:
            if replica in self._strays or self._pending_deletes.records.has(
                answer.broker, replica.topic_partition.topic
            ):
                self._events.enqueue(event_manager.STRAY_RECORDS)
            self.forget_stray(replica)
        for replica in failed:
            if self._is_stray(replica) and not self._pending_deletes.is_of_deleted_topic(replica):
                self._strays[replica] = None
                self._events.set_blocked(_stray_name(replica), reason)
                self._events.enqueue_later(event_manager.STRAY_REPLICAS, AGAIN_MS)
                self._events.enqueue(event_manager.STRAY_RECORDS)

    def delete_stray_replicas(self) -> Procedure[None]:
        """Asks again for what is still left behind; the first time for what former controllers have left."""
        yield from self.read_strays_of_earlier()
        asked = self._pending_deletes.all_deleting()
        batch = self._requests.batch()
        for replica in list(self._strays):
            topic_partition, broker = replica
            if not self._is_stray(replica):
                self.forget_stray(replica)
                self._events.enqueue(event_manager.STRAY_RECORDS)
            elif broker not in asked.get(topic_partition, ()):
                batch.stop_replica([broker], topic_partition, delete=True)
        self._requests.send(batch)
        if self._strays:
            self._events.enqueue_later(event_manager.STRAY_REPLICAS, AGAIN_MS)

    def read_strays_of_earlier(self) -> Procedure[None]:
        """Reads the stray replicas that former controllers recorded.

        Once, since this controller knows those that it leaves itself; and again while a topic cannot be read,
        since its replica lists are not known.
        """
        progress, context = self._records_read, self._context
        if progress.all:
            return
        is_complete = True
        for owed in self._pending_deletes.records.owed():
            if Topic.path(owed.topic) in context.unreadable:
                is_complete = False
            elif self._context.topic_czxids.get(owed.topic) == owed.czxid:
                self._queue_strays(
                    PartitionAndReplica(TopicPartition(owed.topic, n), owed.broker) for n in owed.partitions
                )
        if not progress.moves:
            yield from self._read_records_of_moves()
        progress.all = is_complete and progress.moves

    def _read_records_of_moves(self) -> Procedure[None]:
        """Reads the records of moves by controllers of earlier versions: they name all that had a replica, so
        all that have no place are asked. Records of this version have what was left recorded apart."""
        progress, unreadable = self._records_read, self._context.unreadable
        parent = yield from self._reader.read_many([MovesBroughtOver.path()])
        znode = parent.get(MovesBroughtOver.path())
        done = self._reader.decoded(znode, MovesBroughtOver.decode)
        (outcome,) = yield from ask(Query(ListChildren(finished_reassignments_path())))
        numbers = [FinishedReassignment.sequence_of(name) for name in list_done(outcome).children]
        new = [number for number in numbers if number is not None and (done is None or number > done.moves)]
        paths = [FinishedReassignment.path(number) for number in new]
        found = yield from self._reader.read_many(paths)
        records = [self._reader.decoded(each, FinishedReassignment.decode) for each in found.values()]
        earlier = [each for each in records if each and each.czxid is None and each.outcome != "dropped"]
        progress.moves = True
        for record in earlier:
            progress.moves &= Topic.path(record.topic_partition.topic) not in unreadable
            if record.topic_partition in self._context:
                self._queue_strays(_replicas(record))
        progress.version = None if znode is None else znode.stat.version
        progress.last, progress.read, progress.of_earlier = max(new, default=-1), len(new), bool(earlier)

    def _queue_strays(self, replicas: Iterable[PartitionAndReplica]) -> None:
        for replica in replicas:
            if self._is_stray(replica) and not self._pending_deletes.is_of_deleted_topic(replica):
                self._strays[replica] = None

    def of_topic(self, topic: str) -> list[PartitionAndReplica]:
        """Those of a topic that its deletion leaves behind.

        One may be recorded already, of a former topic of the name; a record from before a controller of Kafka
        does not count (`of_deleted_topics`).
        """
        recorded = {
            PartitionAndReplica(topic_partition, each.record.broker)
            for each in self._pending_deletes.of_deleted_topics.values()
            if each.record.topic == topic and each.record.epoch > self._identity.foreign_epoch
            for topic_partition in each.deleting
        }
        return [
            replica
            for replica in self._strays
            if replica.topic_partition.topic == topic and replica not in recorded and self._is_stray(replica)
        ]

    def by_partition(self) -> dict[TopicPartition, tuple[int, ...]]:
        """Brokers that have not deleted theirs yet, for the records of moves."""
        found: dict[TopicPartition, tuple[int, ...]] = {}
        for topic_partition, broker in self._strays:
            found[topic_partition] = (*found.get(topic_partition, ()), broker)
        return found

    def topic_gone(self, topic: str) -> None:
        """Forgets its strays: the records hold what was left of it."""
        for replica in [each for each in self._strays if each.topic_partition.topic == topic]:
            self.forget_stray(replica)

    def forget_stray(self, replica: PartitionAndReplica) -> None:
        """It is gone, or has a place again, or is not asked for any more."""
        self._strays.pop(replica, None)
        self._events.set_blocked(_stray_name(replica), None)

    def _is_stray(self, replica: PartitionAndReplica) -> bool:
        """Returns whether the partition has no place for it. Late in a reassignment the target has one, and
        so has a broker that an unclean election has brought back."""
        topic_partition, broker = replica
        leadership = self._context.leadership(topic_partition)
        if leadership is not None and broker in leadership.isr:
            return False
        return broker not in self._reassignments.late.get(
            topic_partition, self._context.replicas(topic_partition)
        )

    def read_abandoned_records(self) -> Procedure[None]:
        """Reads the records: the replicas that they name may be deleted from here on.

        The answers so far still count.

        Those of `/zkgroup/abandoned` are of controllers of earlier versions; no more are made.
        """
        (outcome,) = yield from ask(Query(ListChildren(abandoned_replicas_path())))
        names = list_done(outcome).children
        self._reader.only(abandoned_replicas_path(), names)
        numbers = [number for name in names if (number := AbandonedReplicas.sequence_of(name)) is not None]
        znodes = yield from self._reader.read_many(AbandonedReplicas.path(number) for number in numbers)
        found: dict[RecordKey, DeletedTopicReplicas] = {}
        for number in sorted(numbers):
            znode = znodes.get(AbandonedReplicas.path(number))
            record = self._reader.decoded(znode, AbandonedReplicas.decode)
            if znode is None or record is None:
                continue
            known = self._pending_deletes.of_deleted_topics.get(number)
            if known is None or known.version != znode.stat.version:
                all_ = record.topic_partitions
                known = DeletedTopicReplicas(record, znode.stat.version, set(all_), set(all_))
            found[number] = known
        for key, each in self._pending_deletes.of_deleted_topics.items():
            if not isinstance(key, int):
                found[key] = each
            elif key not in found:
                self._events.set_blocked(_subject(each), None)
        self._pending_deletes.set_of_deleted_topics(found)
        yield from self.read_records()
        self._forget_wanted()

    def on_abandoned_replicas(self) -> Procedure[None]:
        """Has brokers that are back delete what they still have, and takes off the records of what is
        deleted."""
        pending_deletes = self._pending_deletes
        self._forget_wanted()
        for number in [number for number, each in pending_deletes.of_deleted_topics.items() if not each.left]:
            if isinstance(number, int):
                yield from self._clear_earlier(number)
        yield from self._clear()
        asked = pending_deletes.all_deleting()
        batch = self._requests.batch()
        for topic_partition, broker in pending_deletes.released:
            if broker in self._context.replicas(topic_partition) and not self._context.is_going(
                topic_partition
            ):
                batch.leader_and_isr([broker], topic_partition)
        pending_deletes.released.clear()
        for each in pending_deletes.of_deleted_topics.values():
            broker = each.record.broker
            if broker not in self._context.live_or_shutting_down or not each.left:
                continue
            for topic_partition in each.left:
                if broker not in asked.get(topic_partition, ()) and not self._is_unclear(topic_partition):
                    batch.stop_replica([broker], topic_partition, delete=True)
            self._events.enqueue_later(event_manager.REPLICAS_OF_DELETED_TOPICS, ABANDONED_AGAIN_MS)
        self._requests.send(batch)

    def _on_abandoned_response(self, answer: BrokerResponse) -> None:
        mine = [
            each
            for each in self._pending_deletes.of_deleted_topics.values()
            if each.record.broker == answer.broker
        ]
        if not mine or (results := decision.deletion_results(answer)) is None:
            return
        deleted, failed, reason = results
        for each in mine:
            each.left.difference_update(replica.topic_partition for replica in deleted)
            if not each.left:
                self._events.set_blocked(_subject(each), None)
                self._events.enqueue(event_manager.REPLICAS_OF_DELETED_TOPICS)
            elif not each.left.isdisjoint(replica.topic_partition for replica in failed):
                self._events.set_blocked(_subject(each), reason)

    def _clear(self) -> Procedure[None]:
        """Of what brokers have nothing any more the records go, and then they may have new replicas."""
        done = {key: each for key, each in self._pending_deletes.of_deleted_topics.items() if not each.left}
        gone = [
            RecordedStrays(*key, frozenset(each.record.partitions))
            for key, each in done.items()
            if not isinstance(key, int)
        ]
        if not gone:
            return
        is_overtaken, refused = yield from self.write_records(remove=gone)
        for each in [
            each for key, each in done.items() if key not in self._pending_deletes.of_deleted_topics
        ]:
            self._events.set_blocked(_subject(each), None)
            self._core.note(
                "replicas_of_deleted_topic.deleted", topic=each.record.topic, broker=each.record.broker
            )
        for (broker, _), why in refused.items():
            self._events.back_off(
                why, [_subject(each) for each in done.values() if each.record.broker == broker]
            )
        if is_overtaken:
            self._events.enqueue_later(event_manager.REPLICAS_OF_DELETED_TOPICS, ABANDONED_AGAIN_MS)
        self._queue_followups()

    def _clear_earlier(self, number: int) -> Procedure[None]:
        """The same for a record of an earlier version, which is a znode of its own."""
        each = self._pending_deletes.of_deleted_topics[number]
        record = each.record
        write = Write(f"abandoned replicas {number}", (Delete(AbandonedReplicas.path(number), each.version),))
        refusal = yield from self._states.commit(write)
        if refusal is not None and not refusal.is_conflict:
            self._events.back_off(str(refusal), [_subject(each)])
            return
        if refusal is not None:
            yield from self.read_abandoned_records()  # another client has deleted or written it
            self._events.enqueue_later(event_manager.REPLICAS_OF_DELETED_TOPICS, ABANDONED_AGAIN_MS)
        else:
            rest = {
                other: kept
                for other, kept in self._pending_deletes.of_deleted_topics.items()
                if other != number
            }
            self._pending_deletes.set_of_deleted_topics(rest)
            self._events.set_blocked(_subject(each), None)
            self._core.note("replicas_of_deleted_topic.deleted", topic=record.topic, broker=record.broker)
        self._queue_followups()

    def _forget_wanted(self) -> None:
        """Spares what a broker may have been given since by a controller that knows no records."""
        context = self._context
        for number, each in list(self._pending_deletes.of_deleted_topics.items()):
            broker, is_old = each.record.broker, self._identity.foreign_epoch > each.record.epoch
            wanted = [
                topic_partition
                for topic_partition in each.deleting
                if not context.is_going(topic_partition)
                and broker in context.replicas(topic_partition)
                and (leadership := context.leadership(topic_partition)) is not None
                and (is_old or broker in leadership.isr)
            ]
            if wanted:
                self._core.note(
                    "replicas_of_deleted_topic.assigned",
                    broker=broker,
                    partitions=tuple(map(str, sorted(wanted))),
                )
                self._pending_deletes.is_wanted(number, wanted)
                self._queue_followups()

    def _queue_followups(self) -> None:
        """For partitions that no broker could lead, and reassignments that have waited."""
        self._events.enqueue(event_manager.ELECTIONS)
        self._events.enqueue(event_manager.REASSIGNMENT)

    def _is_unclear(self, topic_partition: TopicPartition) -> bool:
        """Returns whether there may be a new partition of this name whose replicas cannot be read."""
        paths = (Topic.path(topic_partition.topic), PartitionState.path(topic_partition))
        return not self._context.unreadable.keys().isdisjoint(paths)

    def read_records(self) -> Procedure[None]:
        """Reads all of it. What is no more recorded, though this controller had it so, is forgotten."""
        (outcome,) = yield from ask(Query(ListChildren(stray_replicas_path())))
        names = list_done(outcome).children
        self._reader.only(stray_replicas_path(), names)
        places = {StrayReplicas.path(*place): place for place in _places(names)}
        znodes = yield from self._reader.read_many(places)
        parts: dict[Place, Part] = {}
        for path, znode in znodes.items():
            if (found := self._reader.decoded(znode, StrayReplicas.decode)) is not None:
                parts[places[path]] = Part(znode.stat.version, found.topics)
        records = self._pending_deletes.records
        before = records.owed()
        records.found(parts, [place for path, place in places.items() if path in self._context.unreadable])
        left = {each.key: each.partitions for each in records.owed()}
        for owed in before:
            for number in owed.partitions - left.get(owed.key, frozenset()):
                self.forget_stray(PartitionAndReplica(TopicPartition(owed.topic, number), owed.broker))
        self.sort_records()

    def on_stray_records(self) -> Procedure[None]:
        """Makes the records match: without what brokers have deleted, with what they could not."""
        records = self._pending_deletes.records
        if records:
            (outcome,) = yield from ask(
                self._reader.watched(ListChildren(stray_replicas_path()), event_manager.STRAY_RECORDS)
            )
            if frozenset(_places(list_done(outcome).children)) != records.places():
                yield from self.read_records()
        yield from self.read_strays_of_earlier()
        written = yield from self.write_records(*self._differences())
        for why in written.refused.values():
            self._events.back_off(why, ["records of stray replicas"])
        if written.is_overtaken:
            self._events.enqueue(event_manager.STRAY_RECORDS)
        elif not written.refused:
            self._events.set_blocked("records of stray replicas", None)
            yield from self._brought_over()

    def write_records(
        self, add: Iterable[RecordedStrays] = (), remove: Iterable[RecordedStrays] = ()
    ) -> Procedure[StrayRecordsWritten]:
        """Writes a change, in as few transactions as hold it. Raises as `StateWriter.write_states`."""
        records = self._pending_deletes.records
        change = records.change(add, remove)
        if not change.operations:
            return StrayRecordsWritten(False, {})
        if not records:
            yield from ask(Query(CreateMissing((zkgroup_path(), stray_replicas_path()))))
        is_overtaken = False

        def make(place: Place) -> Write | str:
            return CHANGED if is_overtaken else change.write(place)

        def read_again(places: list[Place]) -> Procedure[None]:
            nonlocal is_overtaken
            if places:
                is_overtaken = True
                yield from self.read_records()

        refused = yield from self._states.write_all(change.operations, make, read_again)
        if is_overtaken:
            refused = {place: why for place, why in refused.items() if why != CHANGED}
        else:
            records.took(change, refused)
            self.sort_records()
        return StrayRecordsWritten(is_overtaken, refused)

    def record_deletion(self, ends: Mapping[str, Collection[PartitionAndReplica]]) -> Procedure[str | None]:
        """Records the replicas that stay, before their topics are deleted. Returns why it may not be written,
        or None."""
        refused: Mapping[Place, str] = {}
        for _ in range(ATTEMPTS_MAX):
            add = self.of_present(replica for replicas in ends.values() for replica in replicas)
            stay = {each.key: each.partitions for each in add}
            add += self._outdated(ends)
            remove = [
                owed._replace(partitions=owed.partitions - stay.get(owed.key, frozenset()))
                for owed in self._pending_deletes.records.owed()
                if owed.topic in ends and self._context.topic_czxids.get(owed.topic) == owed.czxid
            ]
            is_overtaken, refused = yield from self.write_records(add, remove)
            if not is_overtaken:
                return next(iter(refused.values()), None)
        return CHANGED

    def _outdated(self, topics: Collection[str]) -> list[RecordedStrays]:
        """Returns what is left of former topics of these names, from before a controller of Kafka: it has not
        made their brokers replicas of these, and what comes after these is known to come after it."""
        found = []
        for key, each in self._pending_deletes.of_deleted_topics.items():
            record = each.record
            if (
                not isinstance(key, int)
                and record.topic in topics
                and record.epoch <= self._identity.foreign_epoch
            ):
                numbers = frozenset(topic_partition.partition for topic_partition in each.deleting)
                found.append(RecordedStrays(*key, numbers, self._identity.epoch))
        return [each for each in found if each.partitions]

    def of_present(self, replicas: Iterable[PartitionAndReplica]) -> list[RecordedStrays]:
        """Records of replicas of topics that there are: no broker has said that they are gone."""
        numbers: dict[tuple[int, str], set[int]] = {}
        for (topic, number), broker in replicas:
            if topic in self._context.topic_czxids:
                numbers.setdefault((broker, topic), set()).add(number)
        return [
            RecordedStrays(
                broker, topic, self._context.topic_czxids[topic], frozenset(mine), self._identity.epoch
            )
            for (broker, topic), mine in sorted(numbers.items())
        ]

    def _differences(self) -> tuple[list[RecordedStrays], list[RecordedStrays]]:
        """Returns what is to be added and removed, of topics that exist. An entry from before a controller of
        Kafka is renewed as long as its topic exists, so that later entries are known to be later."""
        recorded = self._pending_deletes.records.owed()
        add = self.of_present(
            each for each in self._strays if each.topic_partition not in self._reassignments
        )
        remove = []
        for owed in recorded:
            is_present = self._context.topic_czxids.get(owed.topic) == owed.czxid
            if not is_present or Topic.path(owed.topic) in self._context.unreadable:
                continue
            gone = frozenset(
                number
                for number in owed.partitions
                if PartitionAndReplica(TopicPartition(owed.topic, number), owed.broker) not in self._strays
            )
            if gone:
                remove.append(owed._replace(partitions=gone))
        current = {
            each.key: each.partitions
            for each in self._pending_deletes.records.owed()
            if each.epoch > self._identity.foreign_epoch
        }
        return [each for each in add if each.partitions - current.get(each.key, frozenset())], remove

    def _brought_over(self) -> Procedure[None]:
        """Notes that the records of moves by earlier versions need not be read again."""
        progress = self._records_read
        if not progress.moves or progress.is_noted:
            return
        progress.is_noted = True
        if progress.of_earlier or progress.read >= MOVES_READ_AGAIN:
            if progress.version is None:
                yield from ask(Query(CreateMissing((zkgroup_path(), stray_replicas_path()))))
            data = MovesBroughtOver(progress.last).encode()
            operation = SetData(MovesBroughtOver.path(), data, progress.version or 0)
            refusal = yield from self._states.commit(
                Write("records of moves that are brought over", (operation,))
            )
            progress.is_noted = refusal is None or not progress.of_earlier


def _replicas(record: FinishedReassignment) -> list[PartitionAndReplica]:
    brokers = dict.fromkeys((*record.before, *record.target, *record.left))
    return [PartitionAndReplica(record.topic_partition, broker) for broker in brokers]


def _stray_name(replica: PartitionAndReplica) -> str:
    return f"removal of {replica}"


def _subject(each: DeletedTopicReplicas) -> str:
    return f"removal of {each.record.topic} on broker {each.record.broker}"


def _places(names: Iterable[str]) -> Iterable[Place]:
    return [place for name in names if (place := StrayReplicas.place_of(name)) is not None]
