"""The first states of partitions. Source: new topics (controller.md 3.1, 5.3), elections (recipes 13, 14)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from zkgroup.controller.machine import event_manager
from zkgroup.controller.machine.context import Brokers, ControllerContext
from zkgroup.controller.machine.feature import Feature, SharedParts
from zkgroup.controller.machine.fenced_writes import Denied, Write, create_state, state_parents
from zkgroup.controller.machine.leadership import selectors
from zkgroup.controller.machine.leadership.selectors import NoChoice
from zkgroup.controller.machine.requests.batch import RequestBatch
from zkgroup.controller.machine.state_machines import PartitionPhase, partition_at_start
from zkgroup.controller.machine.state_writes import Written
from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Operation, SetData
from zkgroup.runtime.procedures import Procedure
from zkgroup.znodes.brokers import PartitionState, Topic


class InitialStates(Feature):
    """Creates the first states of partitions."""

    def initialise(self, partitions: Iterable[TopicPartition], batch: RequestBatch) -> Procedure[Written]:
        """Creates the first state of each: the first live replica leads, all live ones are in sync, epoch 0.

        The parents are made with it; `partitions` also where no replica lives, since tools list its children.
        A controller that hosts nothing gives way in the replica lists of these partitions. A state that is
        there already is left as it is and goes into the context: that partition has failed here, and is
        handled by `event_manager.ELECTIONS`, which takes over one of Kafka. LeaderAndIsr to the live replicas
        goes into the batch; the caller sends it. Raises as `StateWriter.write_states`.
        """
        initial = _InitialStates(self._parts, self._hostless(), tuple(dict.fromkeys(partitions)))
        if not initial.partitions:
            return Written({}, {})
        yield from initial.read(initial.items)
        refused = yield from self._states.write_all(initial.items, initial.write, initial.read)
        self._events.retry_denied(event_manager.ELECTIONS, refused.values())
        failed = {
            each: refused.get(each.topic, why) if isinstance(why, Denied) else why
            for each, why in refused.items()
            if isinstance(each, TopicPartition)
        }
        context = self._context
        written = {
            each: leadership
            for each in initial.partitions
            if each not in failed and (leadership := context.leadership(each)) is not None
        }
        for each, leadership in written.items():
            batch.leader_and_isr(leadership.isr, each)
        self._set_partition_phase(written, PartitionPhase.ONLINE)
        for each in failed:
            if (found := context.leadership(each)) is not None:
                self._context.partition_phases.begin(each, partition_at_start(found.leader, context.live))
                self._core.note("state.exists", partition=str(each), controller_epoch=found.controller_epoch)
                self._events.enqueue(event_manager.ELECTIONS)
        return Written(written, failed)

    def _hostless(self) -> frozenset[int]:
        """Ids of controllers without partitions: the registered ones, and this one if it is such."""
        found = {
            id_ for id_, broker in self._context.brokers.items() if broker.registration.role == "controller"
        }
        if self._core.config.controller_only is not None:
            found.add(self._identity.broker)
        return frozenset(found)


def without_stray_replicas(
    context: ControllerContext, replicas: Brokers, hostless: Collection[int], load: dict[int, int]
) -> Brokers:
    """The list with the least loaded data broker in place of each that hosts nothing, or without it.

    `load`, broker to the replicas that it has, is counted on.
    """
    changed: list[int] = []
    for each in replicas:
        if each not in hostless:
            changed.append(each)
            continue
        able = [id_ for id_ in load if id_ in context.live and id_ not in replicas and id_ not in changed]
        if able:
            chosen = min(able, key=lambda id_: (load[id_], id_))
            load[chosen] += 1
            changed.append(chosen)
    return tuple(changed)


class _InitialStates:
    """The writes of one batch: a topic's own before those of its partitions."""

    def __init__(
        self, parts: SharedParts, hostless: frozenset[int], partitions: tuple[TopicPartition, ...]
    ) -> None:
        self._parts = parts
        self._hostless = hostless
        self.partitions = partitions
        topics = dict.fromkeys(each.topic for each in partitions)
        self.items: list[str | TopicPartition] = [*topics, *partitions]
        self._to_write = set(topics)
        """Topics whose own write is still to be made; one that an ACL has refused is not made again."""
        self._found: set[str] = set()
        self._blocked: set[str] = set()
        """Topics that others have changed meanwhile."""
        self._changed: dict[str, Topic] = {}
        """Topics with the lists that their write sets."""

    def read(self, items: list[str | TopicPartition]) -> Procedure[None]:
        """Reads which parents exist, and which states; states go into the context."""
        context = self._parts.context
        partitions = [each for each in items if isinstance(each, TopicPartition)]
        topics = [each for each in items if isinstance(each, str)]
        self._to_write.intersection_update(topics)
        paths = [path for each in partitions for path in state_parents(each)]
        states = {PartitionState.path(each): each for each in partitions}
        paths += [path for each in topics for path in (Topic.partitions_path(each), Topic.path(each))]
        found = yield from self._parts.reader.read_many([*paths, *states])
        self._found.difference_update(paths)
        self._found.update(found)
        for path, topic_partition in states.items():
            self._parts.states.state_read(topic_partition, found.get(path))
        for topic in topics:
            seen, znode = context.topic(topic), found.get(Topic.path(topic))
            if seen is None or znode is None or znode.stat.version != seen.version:
                self._blocked.add(topic)
                self._parts.events.enqueue(event_manager.TOPIC, topic)

    def write(self, item: str | TopicPartition) -> Write | str:
        if isinstance(item, str):
            return self._of_topic(item)
        context = self._parts.context
        path = PartitionState.path(item)
        if path in context.unreadable:
            return context.unreadable[path]
        if context.leadership(item) is not None:
            return "it has a state already"
        if item.topic in self._blocked:
            return "the topic has changed meanwhile"
        above = Topic.partitions_path(item.topic)
        if above not in self._found and item.topic not in self._to_write:
            return Denied(f"{above}: could not be made")
        deleting = self._parts.pending_deletes.of(context, item)
        changed = self._changed.get(item.topic)
        replicas = changed.partitions[item.partition] if changed else context.replicas(item)
        choice = selectors.initialise(replicas, context.with_online_replica(item, context.live), deleting)
        if isinstance(choice, NoChoice):
            return choice.reason
        _, parent = state_parents(item)
        state = PartitionState(choice.leader, 0, choice.isr, self._parts.identity.epoch)
        return create_state(item, state, [] if parent in self._found else [parent])

    def _of_topic(self, name: str) -> Write | str:
        operations: list[Operation] = []
        if (parent := Topic.partitions_path(name)) not in self._found:
            operations.append(Create(parent, None))
        if name not in self._blocked and (change := self._change(name)) is not None:
            operations.append(change)
        return Write(name, tuple(operations)) if operations else "nothing is to be written"

    def _change(self, name: str) -> SetData | None:
        """The replica lists in which this controller, or another that hosts nothing, gives way."""
        context = self._parts.context
        seen = context.topic(name)
        mine = [each for each in self.partitions if each.topic == name]
        meant = [each for each in mine if self._hostless.intersection(context.replicas(each))]
        if seen is None or not meant:
            return None
        load = {id_: sum(1 for _ in context.on_broker(id_)) for id_ in context.live}
        topic = seen.topic
        for each in meant:
            replicas = without_stray_replicas(context, context.replicas(each), self._hostless, load)
            topic = topic.with_replicas(each.partition, replicas)
        self._parts.core.note("replicas.gave_way", topic=name, partitions=len(meant))
        try:
            data = topic.encode()
            self._changed[name] = topic
            return SetData(Topic.path(name), data, seen.version)
        except ConfigError as error:
            self._parts.reader.report(Topic.path(name), str(error))
            return None
