"""Changes of topics: new ones, new partitions, topics that are gone, and states that were unreadable.

Source: topic creation and added partitions (controller.md 5.3, 5.4); leading Kafka brokers (recipes 15).

Kafka's tool adds partitions by writing all replica lists of the topic from an old read. So for known
partitions the context wins and is written back; new ones are kept.

A state that cannot be read is watched, as no other event need follow once it was repaired.
Source: reading rules (controller.md 1.4).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from zkgroup.controller.machine import event_manager
from zkgroup.controller.machine.context import Brokers, TopicContext
from zkgroup.controller.machine.deletion.stray_replicas import StrayReplicaDeletion
from zkgroup.controller.machine.failover.slots import Slots
from zkgroup.controller.machine.feature import AGAIN_MS, Feature, SharedParts
from zkgroup.controller.machine.fenced_writes import Write
from zkgroup.controller.machine.leadership.leader_election import LeaderElections
from zkgroup.controller.machine.requests.sender import BrokerResponse
from zkgroup.controller.machine.state_machines import (
    PartitionAndReplica,
    PartitionPhase,
    ReplicaPhase,
    partition_at_start,
)
from zkgroup.controller.machine.state_writes import (
    ATTEMPTS_MAX,
    holds_lists,
)
from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Check, Delete, Exists, ListChildren, Operation, Read, Refused, SetData
from zkgroup.runtime.procedures import Procedure, Query, ask, ask_allowed, list_done, read_done
from zkgroup.wire.control import LeaderAndIsrResponse
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.brokers import PartitionState, Topic, topics_path
from zkgroup.znodes.stray_replicas import (
    PLACEHOLDER,
    Signs,
    UnhostedTopic,
    is_unhosted,
    may_be_unhosted,
    unhosted_topics_path,
)

HIDDEN_MS: Final = 5_000
"""Pause before a state that an ACL hides is read again: no watch reports a change of the ACL."""


class TopicChanges(Feature):
    """Follows the topics: new ones, grown ones, those that are gone."""

    def __init__(
        self,
        parts: SharedParts,
        elections: LeaderElections,
        strays: StrayReplicaDeletion,
        slots: Slots,
    ) -> None:
        super().__init__(parts)
        self._elections = elections
        self._strays = strays
        self._slots = slots

    def on_topic_list_change(self) -> Procedure[None]:
        """The list of topics: new ones get their states, those that are gone are forgotten."""
        (outcome,) = yield from ask(self._reader.watched(ListChildren(topics_path()), event_manager.TOPICS))
        listed = set(list_done(outcome).children)
        unreadable = set(self._context.unreadable)
        self._reader.only(topics_path(), listed)
        self.forget_missing(listed)
        new = sorted(name for name in listed if name not in self._context.topics)
        fresh = yield from self.read_topics(new)
        yield from self._slots.find()
        if not unreadable <= self._context.unreadable.keys():
            # The moves of a topic wait until it can be read, or is gone.
            self._events.enqueue(event_manager.REASSIGNMENT)
        yield from self.on_new_partitions(fresh)

    def on_topic_change(self, subject: str) -> Procedure[None]:
        """The replica lists of one topic: growth, and lists that others have overwritten."""
        if subject not in self._context.topics:
            self._events.enqueue(event_manager.TOPICS)
            return
        fresh: list[TopicPartition] = []
        was_unreadable = Topic.path(subject) in self._context.unreadable
        for _ in range(ATTEMPTS_MAX):
            (outcome,) = yield from ask(
                self._reader.watched(Read(Topic.path(subject)), event_manager.TOPIC, subject)
            )
            znode = read_done(outcome)
            found = self._reader.decoded(znode, lists_of)
            if znode is None or found is None:
                if znode is None:
                    self._events.enqueue(event_manager.TOPICS)
                return
            self._identify(subject, znode)
            fresh += _named(subject, self.take_in(subject, found, znode.stat.version))
            back = self._write_back(subject, found, znode)
            if back is None or (refusal := (yield from self._states.commit(back))) is None:
                break
            if not refusal.is_conflict:
                self._events.back_off(str(refusal))
                break
        else:
            self._events.enqueue_later(event_manager.TOPIC, AGAIN_MS, subject)
        yield from self._slots.find()
        if was_unreadable:
            self._events.enqueue(event_manager.REASSIGNMENT)  # its moves have waited for it
        without_state = [
            each
            for each in self._context.partitions(subject)
            if self._context.partition_phases.phase(each) is PartitionPhase.NEW and each not in fresh
        ]
        yield from self.on_new_partitions([*fresh, *without_state])

    def read_topics(self, names: Iterable[str]) -> Procedure[list[TopicPartition]]:
        """Reads these topics, each with a watch, into the context. Returns the partitions that are new to
        it."""
        asked = list(names)
        queries: list[Query] = [
            self._reader.watched(Read(Topic.path(name)), event_manager.TOPIC, name) for name in asked
        ]
        if not queries:
            return []
        outcomes = yield from ask(*queries)
        fresh: list[TopicPartition] = []
        for name, outcome in zip(asked, outcomes, strict=True):
            fresh += _named(name, self.topic_read(name, read_done(outcome)))
        return fresh

    def topic_read(self, name: str, znode: Znode | None) -> tuple[int, ...]:
        """Takes a topic as just read, None where there is none, into the context. Returns the new numbers."""
        found = self._reader.decoded(znode, lists_of)
        if znode is None:
            return ()
        if found is None:
            # Read again once it is repaired: the watch is armed also on a topic that is not known.
            self._core.note("topic.passed_over", topic=name)
            return ()
        self._identify(name, znode)
        fresh = self.take_in(name, found, znode.stat.version)
        if self._write_back(name, found, znode) is not None:
            self._events.enqueue(event_manager.TOPIC, name)
        return fresh

    def take_in(self, name: str, found: Topic, version: int) -> tuple[int, ...]:
        """Takes a topic as read into the context: known partitions stay, new ones are added and returned.

        Lists that this controller wrote without an answer are known ones once they are found.
        """
        for mine in self._reassignments.unconfirmed_lists.get(name, ()):
            if holds_lists(found, mine):
                self._context.topic_seen(name, mine, version)
                del self._reassignments.unconfirmed_lists[name]
                break
        return self._context.topic_seen(name, self._merged(name, found), version)

    def forget_missing(self, listed: Collection[str]) -> None:
        """Topics that are known and not among those listed just now."""
        gone = [name for name in self._context.topics if name not in listed]
        self._reader.forget_topics(gone)
        self.forget_topics(gone)

    def forget_topics(self, names: Iterable[str]) -> None:
        """Topics that are gone without having been deleted by this controller."""
        for name in list(names):
            self._hooks.forget_topic(name)
            self._core.note("topic.gone", topic=name)
            self._events.enqueue(event_manager.DELETIONS)

    def _identify(self, name: str, znode: Znode) -> None:
        """Another topic of the same name has not grown: what was known of the former one is forgotten (topics
        created again, K21)."""
        if self._context.topic_czxids.get(name) == znode.stat.czxid:
            return
        if name in self._context.topic_czxids:
            self.forget_topics([name])
        self._context.topic_czxids[name] = znode.stat.czxid
        self._strays.sort_records(name)

    def enter_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Gives these partitions and their replicas the phases that follow from what was read of them."""
        context, mine = self._context, list(partitions)
        live = context.live
        context.partition_phases.forget(mine)
        for each in mine:
            leadership = context.leadership(each)
            leader = None if leadership is None else leadership.leader
            phase = partition_at_start(
                leader, context.with_online_replica(each, live) if context.offline_replicas else live
            )
            if leadership is None and self._is_unreadable(each):
                phase = PartitionPhase.OFFLINE
            if phase is not PartitionPhase.ONLINE:
                context.partition_phases.begin(each, phase)
        if gone := context.hosts({each.topic for each in mine}) - context.live_or_shutting_down:
            for each in mine:
                for replica in [
                    PartitionAndReplica(each, id_) for id_ in context.replicas(each) if id_ in gone
                ]:
                    context.replica_phases.begin(replica, ReplicaPhase.DELETION_INELIGIBLE)

    def enter_all_partitions(self) -> None:
        """Does so for every partition, once all is read. Topics in which nothing is unusual cost a glance."""
        context = self._context
        live, live_or_shutting_down = context.live, context.live_or_shutting_down
        self._context.partition_phases.forget(context.partitions())
        unusual = [
            name
            for name in sorted(context.topics)
            if context.offline_replicas or not context.is_in_order(name, live, live_or_shutting_down)
        ]
        self.enter_partitions([each for name in unusual for each in context.partitions(name)])

    def on_new_partitions(self, fresh: Iterable[TopicPartition]) -> Procedure[None]:
        """New partitions: reads or creates their states, and sends them to the replicas."""
        mine = [each for each in dict.fromkeys(fresh) if not self._context.is_going(each)]
        if not mine:
            return
        yield from self._states.read_states(mine)
        yield from self.find_unhosted(dict.fromkeys(each.topic for each in mine))
        self.enter_partitions(mine)
        batch = self._requests.batch()
        self._requests.to_replicas(
            batch, [each for each in mine if self._context.leadership(each) is not None]
        )
        yield from self._elections.elect_where_needed(batch)
        self._requests.send(batch)

    def _is_unreadable(self, topic_partition: TopicPartition) -> bool:
        return f"{Topic.partition_path(topic_partition)}/state" in self._context.unreadable

    def _merged(self, name: str, found: Topic) -> Topic:
        """The lists and moves that are known, with those of new partitions. A topic being deleted grows not,
        nor do the slots; nothing of an unhosted topic is kept."""
        seen = self._context.topic(name)
        if seen is None or name in self._context.unhosted:
            return found
        known = seen.topic
        if name in self._context.deletions or self._context.is_slots(name):
            grown: dict[int, Brokers] = {}
        else:
            grown = {
                number: replicas
                for number, replicas in found.partitions.items()
                if number not in known.partitions
            }
        return dataclasses.replace(
            found,
            partitions={**known.partitions, **grown},
            version=max(found.version, known.version),
            adding=_moves(known.adding, found.adding, grown),
            removing=_moves(known.removing, found.removing, grown),
            topic_id=found.topic_id or known.topic_id,
            extensions={**known.extensions, **found.extensions},
        )

    def _write_back(self, name: str, found: Topic, znode: Znode) -> Write | None:
        """The write that sets the znode to what the context has, where they differ."""
        seen = self._context.topic(name)
        assert seen is not None
        if dataclasses.replace(seen.topic, version=found.version) == found:
            return None
        path = Topic.path(name)
        try:
            write = Write(name, (SetData(path, seen.topic.encode(), znode.stat.version),))
        except ConfigError as error:
            self._reader.report(path, str(error))
            return None
        self._core.note("topic.written_back", topic=name)
        return write

    def find_unhosted(self, names: Iterable[str]) -> Procedure[None]:
        """Notes in the context which of these topics are unhosted. Their states have just been read.

        Nothing is read where no topic can be one. A mark that an ACL hides counts as a mark.
        """
        context = self._context
        asked = list(names)
        bare = {name: seen for name in asked if (seen := self._unhosted_topic(name)) is not None}
        if not bare:
            context.unhosted.difference_update(asked)
            return
        parent = unhosted_topics_path()
        paths = [path for name in bare for path in (Topic.path(name), UnhostedTopic.path(name))]
        found = yield from self._reader.read_many([parent, *paths])
        broker = context.brokers.get(PLACEHOLDER[0])
        context.unhosted.difference_update(asked)
        for name, seen in bare.items():
            topic, mark = found.get(Topic.path(name)), found.get(UnhostedTopic.path(name))
            if topic is None:
                continue
            signs = Signs(
                made=topic.stat.czxid,
                written=topic.stat.mzxid,
                mark=mark.stat.czxid if mark else None,
                marks=found[parent].stat.czxid if parent in found else None,
                broker=broker.epoch if broker else None,
            )
            is_changed = topic.stat.version != seen.version
            if is_changed:  # perhaps by a tool that has named brokers: the lists have to be read first
                self._events.enqueue(event_manager.TOPIC, name)
            if is_changed or is_unhosted(signs) or UnhostedTopic.path(name) in context.unreadable:
                context.unhosted.add(name)

    def host_topics(self) -> Procedure[None]:
        """Gives unhosted topics the brokers that reassignments of their partitions name.

        The others of their partitions are broker 0's from then on, as their lists say. Nothing is copied:
        their first states are made as those of new topics are (`event_manager.TOPIC`), and then the moves are
        checked again.
        """
        context, wanted = self._context, dict[str, dict[int, Brokers]]()
        for each, move in self._reassignments.items():
            if context.is_unhosted(each):
                wanted.setdefault(each.topic, {})[each.partition] = move.target
        if not wanted or self._reassignments.request is None:
            return
        marks = yield from self._reader.read_many(map(UnhostedTopic.path, wanted))
        for name, targets in wanted.items():
            seen, mark = context.topic(name), marks.get(UnhostedTopic.path(name))
            assert seen is not None
            operations: list[Operation] = [Check(Reassignment.path(), self._reassignments.request.version)]
            if mark is not None:
                operations.append(Delete(mark.path, mark.stat.version))
            topic = seen.topic.with_all_replicas(
                {number: (target, (), ()) for number, target in targets.items()}
            )
            try:
                operations.append(SetData(Topic.path(name), topic.encode(), seen.version))
            except ConfigError as error:
                self._reader.report(Topic.path(name), str(error))
                continue
            refusal = yield from self._states.commit(Write(name, tuple(operations)))
            waiting = [f"move of {name}-{number}" for number in targets]
            if self._is_settled(refusal, event_manager.REASSIGNMENT, waiting):
                context.unhosted.discard(name)
                self._events.enqueue(event_manager.TOPIC, name)
                self._events.enqueue(event_manager.REASSIGNMENT)
                self._core.note("topic.hosted", topic=name, partitions=len(targets))

    def _unhosted_topic(self, name: str) -> TopicContext | None:
        """The topic, if its lists are those of one without brokers, and it has no state, readable or not."""
        seen, unreadable = self._context.topic(name), self._context.unreadable
        if seen is None or seen.leaderships or seen.hosts.keys() != set(PLACEHOLDER):
            return None
        paths = PartitionState.paths_of(name, seen.topic.numbers)
        return seen if may_be_unhosted(seen.topic) and unreadable.keys().isdisjoint(paths) else None

    def on_unreadable_states(self) -> Procedure[None]:
        """Handles `event_manager.UNREADABLE_STATES`. Another handler may have read the new state before."""
        if paths := self._states.unreadable_states():
            yield from self._read_again(paths)
        readable = [each for each in self._states.readable_again if each in self._context]
        yield from self.on_new_partitions(readable)
        for each in readable:
            self._states.readable_again.pop(each, None)
        if any(each in self._reassignments for each in readable):
            self._events.enqueue(event_manager.REASSIGNMENT)

    def _read_again(self, paths: Mapping[str, TopicPartition]) -> Procedure[None]:
        """Watches and reads these states. Those that can be read now are in `StateWriter.readable_again`."""
        seen = yield from ask_allowed(
            *(self._reader.watched(Exists(path), event_manager.UNREADABLE_STATES) for path in paths)
        )
        for path, outcome in zip(paths, seen, strict=True):
            if isinstance(outcome, Refused):  # from 3.8.4 on a server refuses watches of what an ACL hides
                self._reader.forget_watch(path)
        found = yield from self._reader.read_many(list(paths))
        if len(found) < len(paths):
            self._events.enqueue_later(event_manager.UNREADABLE_STATES, HIDDEN_MS)
        for path, each in paths.items():
            if self._reader.decoded(found.get(path), PartitionState.decode) is not None:
                self._states.readable_again[each] = None

    def on_response(self, answer: BrokerResponse) -> None:
        """Partitions that a broker has got after all are no longer omitted from its first LeaderAndIsr."""
        if (
            not isinstance(answer.response, LeaderAndIsrResponse)
            or answer.broker not in self._requests.omitted_partitions
        ):
            return
        sent = {each.topic_partition for each in answer.response.partitions}
        left = tuple(
            each for each in self._requests.omitted_partitions.pop(answer.broker) if each not in sent
        )
        if left:
            self._requests.omitted_partitions[answer.broker] = left


def lists_of(path: str, data: bytes | None) -> Topic:
    """The topic, with replica lists that partitions can have.

    Kafka's tools refuse the others, its controllers do not check. No state could be made of such a list, nor
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


def _named(topic: str, numbers: Iterable[int]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


def _moves(
    known: Mapping[int, Brokers], found: Mapping[int, Brokers], grown: Mapping[int, Brokers]
) -> dict[int, Brokers]:
    return {**known, **{number: found[number] for number in grown if number in found}}
