"""First states of partitions. Source: controller.md 3.1, 5.3; recipes.md 13, 14."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from zkgroup.controller.machine import selectors
from zkgroup.controller.machine.agenda import Look
from zkgroup.controller.machine.fence import Denied, Write, create_state, state_parents
from zkgroup.controller.machine.picture import Brokers, Picture
from zkgroup.controller.machine.reign import Reign
from zkgroup.controller.machine.requests import Batch
from zkgroup.controller.machine.selectors import NoChoice
from zkgroup.controller.machine.states import Carried, state_read, write_all
from zkgroup.controller.machine.transitions import PartitionPhase, partition_at_start
from zkgroup.errors import ConfigError
from zkgroup.machinery.procedures import Procedure
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Operation, SetData
from zkgroup.znodes.brokers import PartitionState, Topic


def initialise(reign: Reign, partitions: Iterable[TopicPartition], batch: Batch) -> Procedure[Carried]:
    """Makes the first state of each: the first live replica leads, all live ones are in sync, epoch 0.

    The parents are made with it; `partitions` also where no replica lives, since tools list its children. A
    controller that hosts nothing gives way in the replica lists of these partitions (recipes 14). A state
    that is there already is left as it is and goes into the picture: that partition has failed here, and is
    looked at again (`Look.ELECTIONS`), which makes a foreign one ours. LeaderAndIsr to the live replicas goes
    into the batch; the caller tells it. Raises as `states.carry_out`.
    """
    births = _Births(reign, tuple(dict.fromkeys(partitions)))
    if not births.partitions:
        return Carried({}, {})
    yield from births.read(births.items)
    refused = yield from write_all(reign, births.items, births.write, births.read)
    reign.again(Look.ELECTIONS, refused.values())
    failed = {
        each: refused.get(each.topic, why) if isinstance(why, Denied) else why
        for each, why in refused.items()
        if isinstance(each, TopicPartition)
    }
    picture = reign.picture
    written = {
        each: standing
        for each in births.partitions
        if each not in failed and (standing := picture.standing(each)) is not None
    }
    for each, standing in written.items():
        batch.leader_and_isr(standing.isr, each)
    reign.move_partitions(written, PartitionPhase.ONLINE)
    for each in failed:
        if (found := picture.standing(each)) is not None:
            reign.partitions.begin(each, partition_at_start(found, picture.live))
            reign.core.note("state.exists", partition=str(each), controller_epoch=found.controller_epoch)
            reign.look(Look.ELECTIONS)
    return Carried(written, failed)


def hostless(reign: Reign) -> frozenset[int]:
    """Ids that stand for controllers without partitions: the registered ones, and this one if it is such."""
    found = {id_ for id_, broker in reign.picture.brokers.items() if broker.registration.role == "controller"}
    if reign.core.config.controller_only is not None:
        found.add(reign.broker)
    return frozenset(found)


def given_way(
    picture: Picture, replicas: Brokers, hostless: Collection[int], load: dict[int, int]
) -> Brokers:
    """The list with the least loaded data broker in place of each that hosts nothing, or without it.

    `load`, broker to the replicas that it has, is counted on.
    """
    told: list[int] = []
    for each in replicas:
        if each not in hostless:
            told.append(each)
            continue
        able = [id_ for id_ in load if id_ in picture.live and id_ not in replicas and id_ not in told]
        if able:
            chosen = min(able, key=lambda id_: (load[id_], id_))
            load[chosen] += 1
            told.append(chosen)
    return tuple(told)


class _Births:
    """The writes of one batch: a topic's own before those of its partitions."""

    def __init__(self, reign: Reign, partitions: tuple[TopicPartition, ...]) -> None:
        self._reign = reign
        self.partitions = partitions
        topics = dict.fromkeys(each.topic for each in partitions)
        self.items: list[str | TopicPartition] = [*topics, *partitions]
        self._to_write = set(topics)
        """Topics whose own write is still to be made; one that an ACL has refused is not made again."""
        self._found: set[str] = set()
        """Parents that exist."""
        self._blocked: set[str] = set()
        """Topics that others have changed meanwhile."""
        self._changed: dict[str, Topic] = {}
        """Topics with the lists that their write sets."""

    def read(self, items: list[str | TopicPartition]) -> Procedure[None]:
        """Which parents exist, and which states; states go into the picture."""
        reign, picture = self._reign, self._reign.picture
        partitions = [each for each in items if isinstance(each, TopicPartition)]
        topics = [each for each in items if isinstance(each, str)]
        self._to_write.intersection_update(topics)
        paths = [path for each in partitions for path in state_parents(each)]
        states = {PartitionState.path(each): each for each in partitions}
        paths += [path for each in topics for path in (Topic.partitions_path(each), Topic.path(each))]
        found = yield from reign.read_many([*paths, *states])
        self._found.difference_update(paths)
        self._found.update(found)
        for path, topic_partition in states.items():
            state_read(reign, topic_partition, found.get(path))
        for topic in topics:
            seen, znode = picture.topic(topic), found.get(Topic.path(topic))
            if seen is None or znode is None or znode.stat.version != seen.version:
                self._blocked.add(topic)
                reign.look(Look.TOPIC, topic)

    def write(self, item: str | TopicPartition) -> Write | str:
        """The write of a topic, or of the state of a partition."""
        if isinstance(item, str):
            return self._of_topic(item)
        reign, picture = self._reign, self._reign.picture
        path = PartitionState.path(item)
        if path in picture.unreadable:
            return picture.unreadable[path]
        if picture.standing(item) is not None:
            return "it has a state already"
        if item.topic in self._blocked:
            return "the topic has changed meanwhile"
        above = Topic.partitions_path(item.topic)
        if above not in self._found and item.topic not in self._to_write:
            return Denied(f"{above}: could not be made")
        held = reign.holding.of(picture, item)
        changed = self._changed.get(item.topic)
        replicas = changed.partitions[item.partition] if changed else picture.replicas(item)
        choice = selectors.initialise(replicas, picture.candidates(item, picture.live), held)
        if isinstance(choice, NoChoice):
            return choice.reason
        _, parent = state_parents(item)
        state = PartitionState(choice.leader, 0, choice.isr, reign.epoch)
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
        picture = self._reign.picture
        seen = picture.topic(name)
        empty = hostless(self._reign)
        mine = [each for each in self.partitions if each.topic == name]
        meant = [each for each in mine if empty.intersection(picture.replicas(each))]
        if seen is None or not meant:
            return None
        load = {id_: sum(1 for _ in picture.on_broker(id_)) for id_ in picture.live}
        topic = seen.topic
        for each in meant:
            told = given_way(picture, picture.replicas(each), empty, load)
            topic = topic.with_replicas(each.partition, told)
        self._reign.core.note("replicas.gave_way", topic=name, partitions=len(meant))
        try:
            data = topic.encode()
            self._changed[name] = topic
            return SetData(Topic.path(name), data, seen.version)
        except ConfigError as error:
            self._reign.report(Topic.path(name), str(error))
            return None
