"""Deletes topics, as `decision` decides it. Source: topic deletion (controller.md 5.5, 5.6), moves (recipes
17).

Theory of operation
-------------------
A marker below `/admin/delete_topics` queues its topic: from then on clients do not see it, and it takes part
in nothing else. The next step comes from `decision.decide`, for all topics, until each waits or is gone; a
broker's response and every other change make the handler run again.

    DeletionStart   ISR and leader go from the states, then StopReplica without and with deletion: one batch
    responses       `on_response`: deleted, or ineligible until a broker starts or a reassignment ends
    DeletionFinish  the znodes; the last transaction has the topic, its configuration and the marker

A marker may name brokers that an operator does not wait for. While such a one is not registered the topic is
deleted without it, and `stray_replicas` deletes what the broker has kept, and what reassignments have left
behind: no replica list names that, so only an answer that is on its way is waited for.

Nothing else is remembered that another controller would need: it finds the marker and begins anew, and
brokers answer success for what they no longer have. A marker that is taken off by hand ends a deletion that
has not begun; one that has begun is finished, as its records are gone already.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from zkgroup.controller.machine import event_manager
from zkgroup.controller.machine.controller_election.elector import FENCE_PATHS
from zkgroup.controller.machine.deletion import decision
from zkgroup.controller.machine.deletion.decision import (
    DeletionFinish,
    DeletionStart,
    DeletionState,
    DeletionWait,
    GiveUp,
)
from zkgroup.controller.machine.deletion.stray_replicas import StrayReplicaDeletion
from zkgroup.controller.machine.feature import AGAIN_MS, Feature, SharedParts
from zkgroup.controller.machine.fenced_writes import Fence, Write
from zkgroup.controller.machine.leadership.leader_election import LeaderElections
from zkgroup.controller.machine.requests.sender import BrokerResponse
from zkgroup.controller.machine.state_machines import PartitionAndReplica, ReplicaPhase
from zkgroup.controller.machine.state_writes import BUSY
from zkgroup.controller.machine.znode_reader import ZnodeReader
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Create, Delete, ListChildren, ListMany, ListManyDone, MultiDone, SetData
from zkgroup.runtime.procedures import GuardRefusedError, Procedure, Query, ask, list_done, write
from zkgroup.znodes.admin_requests import TopicDeletion, delete_topics_path
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.controller import ControllerEpoch, ControllerRecord
from zkgroup.znodes.stray_replicas import UnhostedTopic

ROUNDS_MAX: Final = 10
"""Steps of one topic in one run; more follow only where another client keeps writing its znodes."""

_Phase = ReplicaPhase
_BEGUN: Final = frozenset({_Phase.DELETION_STARTED, _Phase.DELETION_SUCCESSFUL})


CHANGED_MEANWHILE = "its znodes have changed"


class TopicDeletions(Feature):
    """Deletes the topics that are queued for deletion."""

    def __init__(self, parts: SharedParts, elections: LeaderElections, strays: StrayReplicaDeletion) -> None:
        super().__init__(parts)
        self._elections = elections
        self._strays = strays
        self._requested: dict[str, int] = {}
        """Topic to the czxid of the request to delete it: a younger topic of that name is not meant."""

    def loaded(self) -> None:
        self._events.enqueue(event_manager.DELETIONS)

    def topic_forgotten(self, topic: str, partitions: Sequence[TopicPartition]) -> None:
        self._events.set_blocked(_name(topic), None)

    def on_deletions(self) -> Procedure[None]:
        """Brings every queued topic as far as it goes now."""
        markers = yield from self._read_requests()
        for what in [each for each in self._events.blocked if each.startswith(_name(""))]:
            if what.removeprefix(_name("")) not in markers:
                self._events.set_blocked(what, None)
        yield from self._queue(markers)
        self._give_up(markers)
        if self._context.deletions:
            yield from self._strays.read_strays_of_earlier()
        yield from self._advance()

    def has_begun(self, topic: str) -> bool:
        """Returns whether a replica of the topic is deleted, or was asked to be, by this controller."""
        return not _BEGUN.isdisjoint(self._phases(topic).values())

    def on_response(self, answer: BrokerResponse) -> None:
        """Takes the response to a StopReplica with deletion, for queued topics."""
        context = self._context
        results = decision.deletion_results(
            answer, lambda each: context.is_going(each) and answer.broker in context.replicas(each)
        )
        if results is None or not (results.deleted or results.failed):
            return
        deleted, failed, reason = results
        self._set_replica_phase(self._started(deleted), _Phase.DELETION_SUCCESSFUL)
        self._set_replica_phase(self._started(failed), _Phase.DELETION_INELIGIBLE)
        if reason is not None:
            for topic in {replica.topic_partition.topic for replica in failed}:
                context.ineligible[topic] = reason
            self._core.note("deletion.refused", broker=answer.broker, detail=reason)
        self._events.enqueue(event_manager.DELETIONS)

    def _read_requests(self) -> Procedure[Mapping[str, Znode]]:
        query = self._reader.watched(ListChildren(delete_topics_path()), event_manager.DELETIONS)
        (outcome,) = yield from ask(query)
        names = list_done(outcome).children
        self._reader.only(delete_topics_path(), names)
        found = yield from self._reader.read_many(TopicDeletion.path(name) for name in names)
        return {name: znode for name in sorted(names) if (znode := found.get(TopicDeletion.path(name)))}

    def _queue(self, markers: Mapping[str, Znode]) -> Procedure[None]:
        """Queues what is asked for now and was not, and drops what was and is no more."""
        context, enabled = self._context, self._settings.delete_topics
        unknown = {topic: Topic.path(topic) for topic in markers if topic not in context.topics}
        there = yield from self._reader.read_many(unknown.values())
        yield from self._pass_over_younger(markers)
        for topic, marker in markers.items():
            if enabled and topic in unknown and unknown[topic] in there:
                # It was made a moment ago, or its znode cannot be read: what it has is not known.
                self._events.set_blocked(_name(topic), "waits for its znode to be readable")
                self._events.enqueue(event_manager.TOPICS)
                self._events.enqueue_later(event_manager.DELETIONS, AGAIN_MS)
            elif (why := self._why_void(topic)) is not None:
                yield from self._drop(topic, marker, why)
        batch = self._requests.batch()
        mine = [each for each in markers if each in self._requested and self._why_void(each) is None]
        fresh = [each for each in mine if each not in context.deletions]
        for topic in fresh:
            context.deletions.add(topic)
            self._core.note("deletion.queued", topic=topic)
            batch.update_metadata()
        if any(
            each.topic in fresh for each in context.moves
        ):  # one that no broker can lead is not waited for
            self._events.enqueue(event_manager.REASSIGNMENT)
        for topic in sorted(context.deletions - markers.keys()):
            if topic not in context.topics:
                self._forget(topic)
            elif not self.has_begun(topic):
                self._forget(topic)
                self._core.note("deletion.withdrawn", topic=topic)
                batch.update_metadata(context.partitions(topic))
                self._events.enqueue(event_manager.ELECTIONS)
        self._requests.send(batch)

    def _give_up(self, markers: Mapping[str, Znode]) -> None:
        """Notes the brokers that the markers name as lost; a reassignment to one of them will not end."""
        read = {
            topic: self._reader.decoded(marker, TopicDeletion.decode) for topic, marker in markers.items()
        }
        named = {
            topic: asked.without_brokers for topic, asked in read.items() if asked and asked.without_brokers
        }
        if named != self._context.given_up:
            self._context.given_up = named
            self._events.enqueue(event_manager.REASSIGNMENT)

    def _pass_over_younger(self, markers: Mapping[str, Znode]) -> Procedure[None]:
        """Markers seen for the first time. One that is older than its topic was meant for an earlier topic,
        whose marker was left (topics created again, K21)."""
        context = self._context
        new = [each for each in markers if self._requested.get(each) != markers[each].stat.czxid]
        topics = yield from self._reader.read_many(Topic.path(each) for each in new)
        batch = self._requests.batch()
        for topic in new:
            found, marker = topics.get(Topic.path(topic)), markers[topic]
            if found is None or found.stat.czxid <= marker.stat.czxid:
                self._requested[topic] = marker.stat.czxid
                continue
            batch.update_metadata(context.partitions(topic))
            self._events.enqueue(event_manager.ELECTIONS)
            yield from self._drop(topic, marker, "the topic was made after it")
        self._requests.send(batch)

    def _why_void(self, topic: str) -> str | None:
        """Returns why a request to delete the topic comes to nothing, or None (disabled deletion, K19)."""
        if not self._settings.delete_topics:
            return "deletion of topics is disabled"
        if topic not in self._context.topics:
            return "there is no such topic"
        if self._context.is_slots(topic):
            return "its partitions are the slots of group coordinators"
        return None

    def _drop(self, topic: str, marker: Znode, why: str) -> Procedure[None]:
        self._core.note("deletion.dropped", topic=topic, detail=why)
        self._forget(topic)
        write = Write(topic, (Delete(TopicDeletion.path(topic), marker.stat.version),))
        refusal = yield from self._states.commit(write)
        if self._is_settled(refusal, event_manager.DELETIONS, [_name(topic)]):
            self._events.set_blocked(_name(topic), None)

    def _advance(self) -> Procedure[None]:
        """All topics together: one batch to the brokers, one bulk read, few writes, however many they are."""
        left = sorted(self._context.deletions)
        for _ in range(ROUNDS_MAX):
            starts: dict[str, DeletionStart] = {}
            ends: dict[str, tuple[PartitionAndReplica, ...]] = {}
            given_up = []
            for topic in [each for each in left if each in self._context.topics]:
                step = decision.decide(self._state_of(topic))
                match step:
                    case DeletionStart():
                        starts[topic] = step
                    case GiveUp(replicas):
                        self._set_replica_phase(replicas, _Phase.DELETION_INELIGIBLE)
                        given_up.append(topic)
                    case DeletionFinish(lost):
                        ends[topic] = (*lost, *self._strays.of_topic(topic))
                    case DeletionWait(reason):
                        self._events.set_blocked(_name(topic), reason)
            if starts:
                yield from self._start(starts)
            done = (yield from self._finish(ends)) if ends else ends.keys()
            left = [*given_up, *starts, *(topic for topic in ends if topic not in done)]
            if not left:
                return
        for topic in left:
            self._events.set_blocked(_name(topic), "its znodes keep changing")
        self._events.enqueue_later(event_manager.DELETIONS, AGAIN_MS)

    def _state_of(self, topic: str) -> DeletionState:
        context = self._context
        phases = self._phases(topic)
        asked = self._pending_deletes.all_deleting()
        lost = [
            replica
            for replica, phase in phases.items()
            if phase is _Phase.DELETION_STARTED
            and replica.broker not in asked.get(replica.topic_partition, ())
        ]
        if lost:
            # The broker has bounced, or the request was never sent: no response will come (5.6).
            self._set_replica_phase(lost, _Phase.DELETION_INELIGIBLE)
            self._set_replica_phase(
                [each for each in lost if each.broker in context.live_or_shutting_down], _Phase.OFFLINE
            )
            phases = self._phases(topic)
        moving = [each for each in context.partitions(topic) if each in context.moves]
        if moving:
            # What was refused is asked again once the reassignment is over; the start of a broker does the
            # same.
            context.ineligible.pop(topic, None)
        refused = context.ineligible.get(topic)
        left = [
            replica
            for each in context.partitions(topic)
            for broker in asked.get(each, ())
            if (replica := PartitionAndReplica(each, broker)) not in phases
        ]
        without, live_or_shutting_down = context.given_up.get(topic, ()), context.live_or_shutting_down
        return DeletionState(topic, phases, live_or_shutting_down, moving, refused, without, left)

    def _start(self, steps: Mapping[str, DeletionStart]) -> Procedure[None]:
        replicas = [each for step in steps.values() for each in step.replicas]
        blocked = [each for step in steps.values() for each in step.blocked]
        fresh = [each for each in (*replicas, *blocked) if self._phase(each) is _Phase.NON_EXISTENT]
        self._set_replica_phase(fresh, _Phase.NEW)
        self._set_replica_phase((*blocked, *replicas), _Phase.OFFLINE)
        self._set_replica_phase(blocked, _Phase.DELETION_INELIGIBLE)
        batch = self._requests.batch()
        batch.update_metadata()
        # A partition that never got a state has no ISR (stateless replicas, K24).
        in_isr = [each for each in replicas if self._context.leadership(each.topic_partition) is not None]
        yield from self._elections.remove_from_isr(in_isr, batch)
        for topic_partition, broker in replicas:
            batch.stop_replica([broker], topic_partition, delete=False)
            batch.stop_replica([broker], topic_partition, delete=True)
        self._set_replica_phase(replicas, _Phase.DELETION_STARTED)
        for topic, step in steps.items():
            counts = {"replicas": len(step.replicas), "waits": len(step.blocked)}
            self._core.note("deletion.started", topic=topic, **counts)
        self._requests.send(batch)

    def _finish(self, ends: Mapping[str, Collection[PartitionAndReplica]]) -> Procedure[Collection[str]]:
        """Deletes these topics; `ends` are the replicas that stay, which are recorded first. Returns the
        topics that are gone, or wait for what refuses it. Raises as `StateWriter.write_states`."""
        removal = _Removal(self._parts, self._strays, self._requested, ends)
        yield from removal.read(ends)
        for topic in ends:
            yield from removal.all_but_last(topic)
        whys = yield from self._states.write_all(ends, removal.last, removal.read)
        gone = [topic for topic in ends if topic not in whys or topic in removal.made_again]
        refused = [each for each in whys if each not in gone and whys[each] not in (CHANGED_MEANWHILE, BUSY)]
        for topic in refused:
            self._events.back_off(whys[topic], [_name(topic)])
        self._reader.forget_topics(gone)
        for topic in gone:
            self._gone(topic, ends[topic])
        if any(ends[topic] for topic in gone):
            self._events.enqueue(event_manager.REPLICAS_OF_DELETED_TOPICS)
        return {*gone, *refused}

    def _gone(self, topic: str, left: Collection[PartitionAndReplica]) -> None:
        """The topic is forgotten, but for the replicas of which a record was made."""
        self._forget(topic)
        self._strays.topic_gone(topic)
        self._hooks.forget_topic(topic)
        brokers = tuple(sorted({each.broker for each in left}))
        self._core.note("deletion.finished", topic=topic, **({"without": brokers} if brokers else {}))

    def _phases(self, topic: str) -> dict[PartitionAndReplica, ReplicaPhase]:
        """Of its replicas; an unhosted topic has none."""
        context = self._context
        if topic in context.unhosted:
            return {}
        return {
            replica: self._phase(replica)
            for each in context.partitions(topic)
            for replica in (PartitionAndReplica(each, broker) for broker in context.replicas(each))
        }

    def _phase(self, replica: PartitionAndReplica) -> ReplicaPhase:
        return self._context.replica_phases.phase(replica)

    def _started(self, replicas: Iterable[PartitionAndReplica]) -> list[PartitionAndReplica]:
        """Those that are being deleted: an answer can come when its replica was given up."""
        return [each for each in replicas if self._phase(each) is _Phase.DELETION_STARTED]

    def _forget(self, topic: str) -> None:
        self._context.deletions.discard(topic)
        if self._pending_deletes.records.has_topic(topic):
            self._events.enqueue(event_manager.STRAY_RECORDS)
        self._requested.pop(topic, None)
        self._context.ineligible.pop(topic, None)
        self._events.set_blocked(_name(topic), None)


def _name(topic: str) -> str:
    return f"deletion of {topic}"


class _Removal:
    """The znodes that are left of each topic, as they were read last."""

    def __init__(
        self,
        parts: SharedParts,
        strays: StrayReplicaDeletion,
        requested: Mapping[str, int],
        ends: Mapping[str, Collection[PartitionAndReplica]],
    ) -> None:
        self._parts = parts
        self._strays = strays
        self._requested = requested
        self._ends = ends
        self._znodes: dict[str, dict[str, Znode]] = {}
        self._refused: dict[str, str] = {}
        """The reason why a write before the last one cannot be made."""
        self._unrecorded: str | None = None
        """The reason why the replicas that stay cannot be recorded."""
        self.made_again: set[str] = set()
        """The last write got no answer, and was executed: these are other topics of the same names."""

    def read(self, topics: Collection[str]) -> Procedure[None]:
        """Reads all znodes of these topics, of whatever client; they may have more partitions now."""
        is_again = not self._znodes.keys().isdisjoint(topics)
        if is_again:
            yield from self._strays.read_records()
        ends = {topic: self._ends[topic] for topic in topics}
        self._unrecorded = yield from self._strays.record_deletion(ends)
        self._znodes.update((yield from _read_znodes(self._parts.reader, topics)))
        for topic in topics if is_again else ():
            self._parts.events.enqueue(event_manager.TOPIC, topic)

    def all_but_last(self, topic: str) -> Procedure[None]:
        """Of a topic that is too big for one transaction."""
        if self._unrecorded is not None:
            return
        for each in self._writes(topic)[:-1]:
            if (refusal := (yield from self._parts.states.commit(each))) is not None:
                if not refusal.is_conflict:
                    self._refused[topic] = str(refusal)
                return
            for operation in each.operations:
                self._znodes[topic].pop(operation.path, None)

    def last(self, topic: str) -> Write | str:
        """The write after which nothing is left, or why it is not this one yet."""
        if self._unrecorded is not None:
            return self._unrecorded
        writes = self._writes(topic)
        return writes[0] if len(writes) == 1 else self._refused.get(topic, CHANGED_MEANWHILE)

    def _writes(self, topic: str) -> Sequence[Write]:
        there = self._znodes[topic].get(Topic.path(topic))
        if there is not None and there.stat.czxid > self._requested.get(topic, there.stat.czxid):
            self.made_again.add(topic)
            self._parts.events.enqueue(event_manager.TOPICS)
            return ()
        numbers = [each.partition for each in self._parts.context.partitions(topic)]
        found = {path: znode.stat.version for path, znode in self._znodes[topic].items()}
        bytes_max = self._parts.core.config.request_bytes_max // 2
        return decision.remove_topic(topic, numbers, found, bytes_max)


def _read_znodes(reader: ZnodeReader, topics: Iterable[str]) -> Procedure[Mapping[str, dict[str, Znode]]]:
    paths = {
        topic: [
            TopicConfig.path(topic),
            TopicDeletion.path(topic),
            UnhostedTopic.path(topic),
            Topic.path(topic),
        ]
        for topic in topics
    }
    level = [(topic, Topic.path(topic)) for topic in paths]
    while level:
        (outcome,) = yield from ask(Query(ListMany(tuple(path for _, path in level))))
        assert isinstance(outcome, ListManyDone), outcome
        level = [
            (topic, f"{parent}/{name}")
            for (topic, parent), names in zip(level, outcome.children, strict=True)
            for name in (names if isinstance(names, tuple) else ())
        ]
        for topic, path in level:
            paths[topic].append(path)
        leaves = _leaves(path for _, path in level)
        level = [(topic, path) for topic, path in level if path not in leaves]
    found = yield from reader.read_many(path for mine in paths.values() for path in mine)
    return {topic: {path: found[path] for path in mine if path in found} for topic, mine in paths.items()}


def _leaves(paths: Iterable[str]) -> frozenset[str]:
    example = PartitionState.path(TopicPartition("t", 0))
    state, depth = example.rpartition("/")[2], example.count("/")
    return frozenset(path for path in paths if path.count("/") == depth and path.rpartition("/")[2] == state)


BUMP_REASON: Final = "a deletion was sent twice, and the first copy may still be on its way"


class EpochBump(Feature):
    """Raises the controller epoch where copies of a deletion may still arrive; the controller stays active.

    A connection broke with a StopReplica(delete) unanswered, and the copy on the next connection was
    answered: the first copy may still arrive, and deletes whatever it meets. A broker that has answered
    a request of a higher epoch obeys it no more.
    """

    def bump_epoch(self) -> Procedure[None]:
        """Raises the epoch for the deletions that need it, and sends all brokers a request of the new one."""
        unresolved = [each for each in self._requests.unresolved.values() if each.epoch is None]
        election = self._identity.election
        won = election.won
        if not unresolved or won is None:
            return
        raised = Fence(won.fence.epoch + 1, won.fence.version + 1)
        wall_ms = self._core.now.wall_ms
        before = won.record
        record = ControllerRecord(before.broker, before.session, BUMP_REASON, wall_ms).after(
            won.foreign_epoch
        )
        operations = (
            *won.fence.checks(),
            SetData(ControllerEpoch.path(), ControllerEpoch(raised.epoch).encode(), won.fence.version),
            Create(ControllerRecord.path(raised.epoch), record.encode()),
            SetData(
                ControllerRecord.path(won.fence.epoch),
                before.over(wall_ms, BUMP_REASON).encode(),
                won.record_version,
            ),
        )
        # Without a reply the elector finds a version that is not its own and resigns, which is as good.
        reply = yield from write(operations, FENCE_PATHS)
        if not isinstance(reply, MultiDone):
            raise GuardRefusedError(operations[reply.index].path)
        election.epoch_raised(raised, record)
        self._pending_deletes.epoch_raised()
        for each in unresolved:
            each.epoch = raised.epoch
        self._core.note("epoch.raised", epoch=raised.epoch)
        batch = self._requests.batch()
        batch.update_metadata()
        self._requests.send(batch)
        self._events.enqueue(event_manager.REASSIGNMENT)
