"""Reads and writes the states of partitions: packed, fenced, conflicts repeated one by one. Source: batches
(recipes 16).

The context follows each write and each read. A state with a greater leader epoch is noted as unsent until a
LeaderAndIsr has carried it (`RequestSender.send`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from zkgroup.controller.machine import event_manager
from zkgroup.controller.machine.context import ControllerContext, LeaderIsrAndControllerEpoch
from zkgroup.controller.machine.controller_election.elector import ControllerIdentity
from zkgroup.controller.machine.event_manager import EventManager
from zkgroup.controller.machine.fenced_writes import (
    Denied,
    Packet,
    Refusal,
    Write,
    changing,
    pack,
    set_state,
    single,
    was_applied,
    why_deposed,
)
from zkgroup.controller.machine.requests.sender import RequestSender
from zkgroup.controller.machine.settings import ElectorContext
from zkgroup.controller.machine.znode_reader import ZnodeReader
from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition, Znode, ZnodeStat
from zkgroup.model.requests import Code, Create, MultiDone, MultiRefused, NotSent, SetData, Sync
from zkgroup.runtime.procedures import ConnectionLossError, GuardRefusedError, Procedure, Query, ask
from zkgroup.znodes.brokers import PartitionState, Topic, topics_path
from zkgroup.znodes.controller import ControllerRegistration

ATTEMPTS_MAX: Final = 20
"""So many times others may write a znode before this controller; then it gives up for now."""

BUSY: Final = "other writers keep changing it"

_STATE: Final = re.compile(re.escape(topics_path()) + r"/([^/]+)/partitions/([0-9]+)/state")
_TOPIC: Final = re.compile(re.escape(topics_path()) + r"/([^/]+)")

Decide = Callable[[TopicPartition, LeaderIsrAndControllerEpoch], PartitionState | Write | str]
"""The next state, or a write that holds it with more conditions, or why there is none. Called again with
the new state after a conflict, so its notes must allow repetition."""
Alike = dict[tuple[bytes | None, int], LeaderIsrAndControllerEpoch]
"""Bytes and version of a state to what they say."""
ItemT = TypeVar("ItemT", bound=Hashable)


class Written(NamedTuple):
    written: dict[TopicPartition, LeaderIsrAndControllerEpoch]
    """The states as they stand now, with the versions that LeaderAndIsr carries."""
    refused: dict[TopicPartition, str]
    """The reasons why the others were not written."""


class StateWriter:
    """Reads and writes the states of partitions; the context follows each write and each read."""

    def __init__(
        self,
        core: ElectorContext,
        context: ControllerContext,
        identity: ControllerIdentity,
        events: EventManager,
        reader: ZnodeReader,
        requests: RequestSender,
    ) -> None:
        self._core = core
        self._context = context
        self._identity = identity
        self._events = events
        self._reader = reader
        self._requests = requests
        self.readable_again: dict[TopicPartition, None] = {}
        """Partitions whose state was unreadable until a handler has just read it."""

    def topic_forgotten(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            self.readable_again.pop(each, None)

    def write_states(self, partitions: Iterable[TopicPartition], decide: Decide) -> Procedure[Written]:
        """Decides each partition on its state as the context has it, and writes what was decided.

        The version of that state is a condition of the write, so a decision that is based on an old one is
        refused; then all of its packet are read, decided again and sent singly, later only the conflicting
        ones. A state of a later controller is left alone (fence F3). Sends nothing: the caller does, and the
        processor where the caller does not. Raises GuardRefusedError when deposed, ConnectionLossError where
        what was written cannot be read back now.
        """
        context = self._context

        def make(topic_partition: TopicPartition) -> Write | str:
            leadership = context.leadership(topic_partition)
            path = PartitionState.path(topic_partition)
            if leadership is None:
                return context.unreadable.get(path, "it has no state")
            if leadership.is_of_later_controller(self._identity.epoch):
                return f"a later controller has decided it, in epoch {leadership.controller_epoch}"
            decided = decide(topic_partition, leadership)
            if not isinstance(decided, PartitionState):
                return decided
            try:
                return set_state(topic_partition, leadership, decided)
            except ConfigError as error:
                self._reader.report(path, str(error))
                return str(error)

        refused = yield from self.write_all(partitions, make, lambda items: self.read_states(items))
        written = {
            each: leadership
            for each in dict.fromkeys(partitions)
            if each not in refused and (leadership := context.leadership(each)) is not None
        }
        return Written(written, refused)

    def write_all(
        self,
        items: Iterable[ItemT],
        make: Callable[[ItemT], Write | str],
        read_again: Callable[[list[ItemT]], Procedure[None]],
    ) -> Procedure[dict[ItemT, str]]:
        """Writes for all items, in their order: as few packets as possible, all on the way at once.

        make: the write of an item, or why there is none; asked again after `read_again`, which reads what the
        writes of these items rest on. Returns why, for the items without a write. Raises as `write_states`.
        """
        refused: dict[ItemT, str] = {}
        left = list(dict.fromkeys(items))
        for attempt in range(ATTEMPTS_MAX):
            made = _made(left, make, refused)
            packed = pack(self._identity.fence, made.values(), self._core.config.request_bytes_max)
            owner = {id(write): item for item, write in made.items()}
            refused.update((owner[id(write)], why) for write, why in packed.too_big)
            packets = packed.packets
            if attempt:
                packets = tuple(
                    single(self._identity.fence, each) for packet in packets for each in packet.writes
                )
            if not packets:
                return refused
            conflicts = yield from self._send(packets)
            if not conflicts:
                return refused
            left = []
            for each in conflicts:
                mine = [owner[id(write)] for write in each.packet.writes]
                if each.is_conflict or len(mine) > 1:
                    left += mine
                else:
                    refused.update((item, Denied(each)) for item in mine)
            yield from read_again(left)
        refused.update(dict.fromkeys(left, BUSY))
        return refused

    def commit(self, write: Write) -> Procedure[Refusal | None]:
        """One fenced write by itself. Returns None once it is applied, else what was in the way.

        The context follows: states and topics that it sets, and after a conflict the states that it names as
        they are now (of topics that have changed, `event_manager.TOPIC` is added). Raises as `write_states`.
        """
        packet = single(self._identity.fence, write)
        refusals = yield from self._send((packet,))
        if not refusals:
            return None
        if refusals[0].is_conflict:
            yield from self._read_named(packet)
        return refusals[0]

    def read_states(self, partitions: Iterable[TopicPartition]) -> Procedure[None]:
        """Reads these states in bulk into the context; unreadable ones are reported."""
        asked = list(dict.fromkeys(partitions))
        found = yield from self._reader.read_each(PartitionState.paths(asked))
        alike: Alike = {}
        for topic_partition, znode in zip(asked, found, strict=True):
            self.state_read(topic_partition, znode, alike)

    def state_read(
        self, topic_partition: TopicPartition, znode: Znode | None, alike: Alike | None = None
    ) -> None:
        """A state as just read, None where there is none, into the context; an unreadable one is watched.

        `alike` are those that were decoded: many partitions have the same brokers, epochs and version.
        """
        context = self._context
        was_unreadable = (
            bool(context.unreadable) and PartitionState.path(topic_partition) in context.unreadable
        )
        leadership = self._decoded(znode, {} if alike is None else alike) if znode is not None else None
        if was_unreadable and leadership is not None:
            self.readable_again[topic_partition] = None
            self._events.enqueue(event_manager.UNREADABLE_STATES)
        if znode is None or leadership is None:
            if PartitionState.path(topic_partition) in context.unreadable:
                self._events.enqueue(event_manager.UNREADABLE_STATES)
            context.state_seen(topic_partition, None)
            return
        stat = znode.stat
        self.state_seen(topic_partition, leadership)
        if has_restarted := context.has_restarted_since(leadership.leader, stat.mzxid):
            self._context.restarted_leaders[topic_partition] = None
        if not (stat.version or self._context.was_loaded) and (
            has_restarted or leadership.leader not in context.brokers
        ):
            context.first_states[topic_partition] = stat.czxid

    def states_read(
        self, topic: str, numbers: Sequence[int], znodes: Iterable[Znode | None], alike: Alike
    ) -> None:
        """The same for partitions of one topic. What is seen for the first time is taken in at once."""
        context, seen = self._context, self._context.topic(topic)
        brokers, started = context.brokers, context.started
        first: dict[int, LeaderIsrAndControllerEpoch] = {}
        for number, znode in zip(numbers, znodes, strict=True):
            is_first = seen is not None and number in seen.topic.partitions and number not in seen.leaderships
            leadership = self._decoded(znode, alike) if znode is not None and is_first else None
            if znode is None or leadership is None:
                self.state_read(TopicPartition(topic, number), znode, alike)
                continue
            first[number] = leadership
            leader, stat = leadership.leader, znode.stat
            has_restarted = started.get(leader, 0) > stat.mzxid
            if has_restarted:
                self._context.restarted_leaders[TopicPartition(topic, number)] = None
            elif self._context.restarted_leaders:
                self._context.restarted_leaders.pop(TopicPartition(topic, number), None)
            if not (stat.version or self._context.was_loaded) and (has_restarted or leader not in brokers):
                context.first_states[TopicPartition(topic, number)] = stat.czxid
        if first:
            context.first_seen(topic, first)
            self._requests.unsent.add_all(topic, first)

    def _decoded(self, znode: Znode, alike: Alike) -> LeaderIsrAndControllerEpoch | None:
        key = znode.data, znode.stat.version
        leadership = alike.get(key)
        if leadership is not None:
            self._context.unreadable.pop(znode.path, None)
        elif (state := self._reader.decoded(znode, PartitionState.decode)) is not None:
            leadership = alike[key] = self._context.shared(
                LeaderIsrAndControllerEpoch(state, znode.stat.version)
            )
        return leadership

    def state_seen(self, topic_partition: TopicPartition, leadership: LeaderIsrAndControllerEpoch) -> None:
        """A state as read or written; with a new leader epoch LeaderAndIsr has to be sent."""
        context = self._context
        before = context.leadership(topic_partition)
        is_known = context.state_seen(topic_partition, leadership)
        if is_known and (before is None or before.leader_epoch < leadership.leader_epoch):
            self._requests.unsent.add(topic_partition)
            self._context.restarted_leaders.pop(topic_partition, None)
            if before is not None or leadership.controller_epoch == self._identity.epoch:
                self._note_change(topic_partition, before, leadership)
        if before is None:
            return
        for broker in list(context.offline_replicas.get(topic_partition, ())):
            if broker in leadership.isr and broker not in before.isr:
                context.replica_online(topic_partition, broker)

    def _note_change(
        self,
        topic_partition: TopicPartition,
        before: LeaderIsrAndControllerEpoch | None,
        leadership: LeaderIsrAndControllerEpoch,
    ) -> None:
        self._events.leaders_changed += 1
        self._core.note(
            "leader.changed",
            partition=str(topic_partition),
            leader=leadership.leader,
            was=None if before is None else before.leader,
            leader_epoch=leadership.leader_epoch,
            isr=leadership.isr,
            controller_epoch=leadership.controller_epoch,
            reason=self._events.reason,
        )

    def unreadable_states(self) -> dict[str, TopicPartition]:
        """Paths of the states that could not be read when they were read last."""
        matches = {path: _STATE.fullmatch(path) for path in self._context.unreadable}
        return {path: TopicPartition(match[1], int(match[2])) for path, match in matches.items() if match}

    def _send(self, packets: tuple[Packet, ...]) -> Procedure[list[Refusal]]:
        """Sends all at once; returns those that changed nothing, with what was in the way."""
        outcomes = yield tuple(Query(packet.request) for packet in packets)
        refusals: list[Refusal] = []
        unknown: list[Packet] = []
        deposed = missing = None
        for packet, outcome in zip(packets, outcomes, strict=True):
            match outcome:
                case MultiDone(stats, zxid):
                    self._reader.saw(zxid)
                    self._follow(packet, stats)
                case MultiRefused(index, code):
                    deposed = why_deposed(packet, outcome) or deposed
                    refusals.append(Refusal(packet, code, packet.request.operations[index].path))
                case NotSent():
                    missing = outcome
                case _:
                    unknown.append(packet)
        if deposed is not None:
            raise GuardRefusedError(deposed)
        if missing is not None:
            raise ConnectionLossError(missing)
        if unknown:
            refusals += yield from self._read_back(unknown)
        return refusals

    def _read_back(self, unknown: list[Packet]) -> Procedure[list[Refusal]]:
        """Reads back packets without an answer. Raises ConnectionLossError where nothing can be found."""
        yield from ask(Query(Sync(ControllerRegistration.path())))
        found = yield from self._reader.read_many(
            each.path for packet in unknown for each in changing(packet)
        )
        refusals = []
        for packet in unknown:
            is_applied = was_applied(packet, found)
            if not is_applied:
                refusals.append(Refusal(packet, Code.BAD_VERSION, None))
            self._lists_applied(packet, found, certainly=is_applied)
            for each in changing(packet):
                self._take_in(each.path, found.get(each.path))
        return refusals

    def _lists_applied(self, packet: Packet, found: Mapping[str, Znode], *, certainly: bool) -> None:
        """Replica lists that were written after all are known ones; else older ones would be written back.
        Where another client has changed the topic since, the lists that are found decide: those written,
        perhaps grown. `event_manager.TOPIC` compares them with what is there."""
        for operation in packet.request.operations:
            if not isinstance(operation, SetData) or (topic := _TOPIC.fullmatch(operation.path)) is None:
                continue
            if operation.path in found:
                lists = Topic.decode(operation.path, operation.data)
                now = None if certainly else self._reader.decoded(found[operation.path], Topic.decode)
                if certainly or (now is not None and holds_lists(now, lists)):
                    self._context.topic_seen(topic[1], lists, operation.version + 1)

    def _follow(self, packet: Packet, stats: Sequence[ZnodeStat | None]) -> None:
        """Takes what an applied packet has set into the context."""
        for operation, stat in zip(packet.request.operations, stats, strict=True):
            if isinstance(operation, Create) and (match := _STATE.fullmatch(operation.path)):
                version = 0
            elif isinstance(operation, SetData) and stat is not None:
                version = stat.version
                match = _STATE.fullmatch(operation.path)
                if match is None and (topic := _TOPIC.fullmatch(operation.path)):
                    self._context.topic_seen(topic[1], Topic.decode(operation.path, operation.data), version)
            else:
                continue
            if match is not None:
                state = PartitionState.decode(operation.path, operation.data)
                self.state_seen(
                    TopicPartition(match[1], int(match[2])),
                    LeaderIsrAndControllerEpoch(state, version),
                )

    def _read_named(self, packet: Packet) -> Procedure[None]:
        """The states that a refused packet names, as they are now."""
        named = [each.path for each in packet.request.operations]
        paths = [path for path in named if _STATE.fullmatch(path) or _TOPIC.fullmatch(path)]
        found = yield from self._reader.read_many(paths)
        for path in paths:
            self._take_in(path, found.get(path))

    def _take_in(self, path: str, znode: Znode | None) -> None:
        """Takes a state into the context; a topic is compared with it by an event of its own."""
        if match := _STATE.fullmatch(path):
            self.state_read(TopicPartition(match[1], int(match[2])), znode)
        elif match := _TOPIC.fullmatch(path):
            self._events.enqueue(event_manager.TOPIC, match[1])


def _made(
    items: Iterable[ItemT], make: Callable[[ItemT], Write | str], refused: dict[ItemT, str]
) -> dict[ItemT, Write]:
    made: dict[ItemT, Write] = {}
    for item in items:
        write = make(item)
        if isinstance(write, str):
            refused[item] = write
        else:
            made[item] = write
    return made


def holds_lists(found: Topic, mine: Topic) -> bool:
    """Returns whether a topic has these lists, beside others."""
    return all(
        found.partitions.get(number) == replicas
        and found.adding.get(number) == mine.adding.get(number)
        and found.removing.get(number) == mine.removing.get(number)
        for number, replicas in mine.partitions.items()
    )
