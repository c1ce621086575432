"""Creates a topic in one transaction, and waits for the leaders of its partitions.

The partitions of `__consumer_offsets` are the slots of group coordinators. Groups find their slot by the
number of slots, so it is written once, before the topic exists, and never changes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from zkgroup.admin.change import AdminChange, nothing, undo_record
from zkgroup.admin.cluster.brokers import Brokers, by_role, placeable, readable, registrations, states_of
from zkgroup.admin.cluster.controller import (
    ControllerHealth,
    hosts_topics,
    notes_on_settings,
    read_controller_health,
    read_controller_info,
    refuse_kraft,
)
from zkgroup.admin.guards import read_back
from zkgroup.errors import (
    ConfigError,
    ConflictError,
    OperationRefusedError,
    OutcomeUnknownError,
    RefusedError,
)
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.groups.snapshot import DecodedZnode
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete, Operation, SetData
from zkgroup.model.text import typed
from zkgroup.placement import RackMode, Start, spread
from zkgroup.placement.model import brokers_named
from zkgroup.znodes.admin_requests import TopicDeletion, delete_topics_path
from zkgroup.znodes.brokers import (
    NO_LEADER,
    BrokerRegistration,
    PartitionState,
    Topic,
    broker_ids_path,
    brokers_path,
    topics_path,
)
from zkgroup.znodes.config import TopicConfig, config_path, topic_configs_path
from zkgroup.znodes.config_settings import check_topic_settings
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC, SlotConfig
from zkgroup.znodes.ids import validate_new_topic
from zkgroup.znodes.paths import zkgroup_path
from zkgroup.znodes.stray_replicas import PLACEHOLDER, UnhostedTopic, may_be_unhosted, unhosted_topics_path

PARTITIONS_MAX = 20_000
"""A topic znode with so many replica lists still fits one request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """Holds what `topic create` would write. Nothing has been."""

    topic: str
    """The topic."""
    assignment: Mapping[int, tuple[int, ...]]
    """Partition number to replica list, the preferred leader first."""
    configs: Mapping[str, str] = field(default_factory=dict)
    """Its overrides, name to value."""
    notes: tuple[str, ...] = ()
    """Warnings for the operator, one sentence each; empty for none."""
    unhosted: bool = False
    """No broker shall host it: it is made without any, and a mark says so."""
    are_slots: bool = False
    """Its partitions are the slots of group coordinators."""

    @property
    def znodes(self) -> tuple[tuple[str, bytes], ...]:
        """Path and data."""
        config = TopicConfig.path(self.topic), TopicConfig(self.configs).encode()
        topic = Topic.path(self.topic), Topic(self.assignment).encode()
        mark = UnhostedTopic.path(self.topic), UnhostedTopic().encode()
        return (config, topic, mark) if self.unhosted else (config, topic)


def plan_topic(
    ensemble: Ensemble,
    topic: str,
    *,
    partitions: int | None,
    replication_factor: int = 1,
    replica_assignment: Sequence[Sequence[int]] | None = None,
    configs: Mapping[str, str] | None = None,
    rack_mode: RackMode = "enforced",
) -> NewTopic:
    """Checks names and numbers and decides where replicas go: as Kafka deals them, racks included.

    Kafka begins at a random broker; here the name of the topic decides, so that a preview shows what will
    be done, and topics of one partition do not all begin on the same broker.

    Raises ConfigError for what can never be, RefusedError where no live broker can hold the topic, and on a
    cluster that has moved to KRaft.
    """
    settings = dict(configs or {})
    validate_new_topic(topic)
    check_topic_settings(settings)
    info = read_controller_info(ensemble)
    refuse_kraft(info)
    entries = registrations(ensemble)
    if replica_assignment is not None:
        lists = given_lists(replica_assignment, partitions)
        assigned = _Assigned(lists, tuple(_notes_on_unregistered(lists, by_role(entries))))
    else:
        numbers = _checked_counts(partitions, replication_factor)
        assigned = _assigned_to_brokers(topic, *numbers, entries, rack_mode)
    if topic == OFFSETS_TOPIC and not assigned.unhosted and (slots := read_slots(ensemble)) is not None:
        check_slots(slots, len(assigned.replicas))
    notes = [*assigned.notes, *notes_on_settings(info, "topics", settings)]
    if by_role(entries).data and info.controller_znode is None:
        notes.insert(0, "there is no active controller: the topic has no leaders until there is one")
    return NewTopic(
        topic=topic,
        assignment=assigned.replicas,
        configs=settings,
        notes=tuple(notes),
        unhosted=assigned.unhosted,
        are_slots=topic == OFFSETS_TOPIC and hosts_topics(info.brokers),
    )


class _Assigned(NamedTuple):
    """The replica lists of a new topic."""

    replicas: dict[int, tuple[int, ...]]
    notes: Sequence[str]
    unhosted: bool = False


def _assigned_to_brokers(
    topic: str,
    partitions: int,
    factor: int,
    entries: Mapping[int, DecodedZnode[BrokerRegistration]],
    rack_mode: RackMode,
) -> _Assigned:
    """Spreads replicas over the brokers that can hold some; a placeholder where none is registered."""
    able = placeable(readable(entries))
    if not able:
        return _without_brokers(by_role(entries), partitions, factor)
    start = starting_point(topic, len(able))
    dealt = spread(able, partitions, factor, start=start, rack_mode=rack_mode)
    return _Assigned(dict(dealt.replicas), dealt.notes)


def create_topic(ensemble: Ensemble, new: NewTopic) -> int | None:
    """One transaction for topic, configuration and mark (Kafka's tool needs two and can lose a race between).

    Its zxid. Raises ConflictError as `check_new` does, also where the topic has been created meanwhile.
    """
    check_new(ensemble, new.topic)
    parents = [brokers_path(), topics_path(), config_path(), topic_configs_path()]
    operations: list[Operation] = []
    if may_be_unhosted(Topic(new.assignment)):
        # There before the topic, so that one which is given to broker 0 is not taken for an old one.
        parents += [zkgroup_path(), unhosted_topics_path()]
        former = ensemble.zk.find(UnhostedTopic.path(new.topic)) if new.unhosted else None
        operations = [Delete(former.path, former.stat.version)] if former is not None else []
    ensemble.zk.create_missing(*parents)
    if new.are_slots:
        check_slots(claim_slots(ensemble, len(new.assignment)), len(new.assignment))
    operations += [Create(path, data) for path, data in new.znodes]
    try:
        return ensemble.zk.multi(*operations).zxid
    except OperationRefusedError as error:
        raise ConflictError(f"{error.path}: topic {new.topic!r} exists already ({error.code})") from error


def check_new(ensemble: Ensemble, topic: str) -> None:
    """Reads whether a topic of this name can be created.

    Raises ConflictError where it exists, is being deleted, has left its configuration behind, or collides
    with another one in metric names, where `.` and `_` are the same (kafka.common.Topic@2.8).
    """
    delete = typed("topic delete", topic, options="--execute")
    listed = ensemble.zk.list_many([topics_path(), delete_topics_path()])
    if topic in (listed[delete_topics_path()] or ()):
        raise ConflictError(
            f"{TopicDeletion.path(topic)}: topic {topic!r} is being deleted; wait until it is gone, or, "
            f"without an active controller, run `{delete}`"
        )
    if topic in (listed[topics_path()] or ()):
        raise ConflictError(
            f"{Topic.path(topic)}: topic {topic!r} exists already; "
            f"`{typed('topic describe', topic)}` shows it"
        )
    if ensemble.zk.exists(TopicConfig.path(topic)) is not None:
        raise ConflictError(
            f"{TopicConfig.path(topic)}: expected none, found the configuration of a topic that was deleted "
            f"in part; `{delete}` removes it"
        )
    for other in colliding(topic, listed[topics_path()] or ()):
        raise ConflictError(
            f"{Topic.path(other)}: collides with {topic!r}: '.' and '_' are the same in metric names"
        )


def colliding(topic: str, others: Iterable[str]) -> list[str]:
    """The other topics that have the same name in metrics, where `.` and `_` are the same."""
    in_metrics = topic.replace(".", "_")
    return sorted(other for other in others if other != topic and other.replace(".", "_") == in_metrics)


def given_lists(lists: Sequence[Sequence[int]], partitions: int | None) -> dict[int, tuple[int, ...]]:
    """The replica lists that a user gives, one for each partition. Raises ConfigError."""
    if partitions is not None and partitions != len(lists):
        raise ConfigError(
            f"--partitions {partitions}, but the replica assignment names {len(lists)}: give one of them"
        )
    if len({len(replicas) for replicas in lists}) != 1:
        raise ConfigError("every partition needs the same number of replicas")
    for number, replicas in enumerate(lists):
        if len(set(replicas)) != len(replicas):
            raise ConfigError(f"partition {number}: a broker is named twice: {':'.join(map(str, replicas))}")
    return {number: tuple(replicas) for number, replicas in enumerate(lists)}


def _notes_on_unregistered(assignment: Mapping[int, Sequence[int]], brokers: Brokers) -> Iterator[str]:
    """Brokers in replica lists that hold none now; Kafka's tools take them as well."""
    asked = {broker for replicas in assignment.values() for broker in replicas} - set(brokers.data)
    idle = asked & set(brokers.controllers_only)
    if absent := sorted(asked - idle):
        then = "it starts" if len(absent) == 1 else "they start"
        named = brokers_named(absent, "is", "are")
        yield f"{named} not registered now: replicas there are created when {then}"
    if idle:
        named = brokers_named(sorted(idle), "is", "are")
        yield f"{named} registered to host nothing: no replica is created there"


def starting_point(topic: str, brokers: int) -> Start:
    """Returns where the replicas of a new topic begin, the same each time it is asked."""
    digest = zlib.crc32(topic.encode("ascii"))
    return Start(digest % brokers, digest // brokers % brokers)


def _checked_counts(partitions: int | None, factor: int) -> tuple[int, int]:
    if partitions is None:
        raise ConfigError("say how many partitions: --partitions N, or --replica-assignment")
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise ConfigError(f"partitions: expected 1 to {PARTITIONS_MAX}, found {partitions}")
    if factor < 1:
        raise ConfigError(f"replication factor: expected at least 1, found {factor}")
    return partitions, factor


def _without_brokers(brokers: Brokers, partitions: int, factor: int) -> _Assigned:
    if brokers.controllers_only or brokers.unreadable:
        found = ", ".join(map(str, brokers.controllers_only)) or brokers.unreadable[0]
        raise RefusedError(
            f"{broker_ids_path()}: expected a broker that can hold replicas, found only {found}"
        )
    if factor > 1:
        raise ConfigError(f"replication factor {factor}, but no broker is registered")
    note = (
        "no broker is registered: every replica list is [0]: groups can share its partitions; "
        "no broker hosts it until you name replicas"
    )
    return _Assigned(dict.fromkeys(range(partitions), PLACEHOLDER), (note,), unhosted=True)


POLL_S = 0.5
"""Seconds between two reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadersSeen:
    """Holds what the last read found."""

    as_of: AsOf
    """The moment at which the partitions were last read."""
    leaderless: Mapping[TopicPartition, str]
    """Partitions without a live leader, each with why; with none, the wait was not in vain."""


def wait_for_leaders(
    ensemble: Ensemble,
    replicas: Mapping[TopicPartition, Collection[int]],
    timeout_s: float,
    on_progress: Callable[[int, int], object],
) -> LeadersSeen:
    """Waits until each of these partitions has a leader that is registered.

    `on_progress` is called after every read: how many are led, of how many.
    """
    states: dict[TopicPartition, DecodedZnode[PartitionState] | None] = {}
    able: Collection[int] = ()

    def read() -> list[TopicPartition]:
        nonlocal states, able
        ensemble.zk.sync("/")
        states = states_of(ensemble, replicas)
        able = by_role(registrations(ensemble)).data
        unled = [tp for tp, entry in states.items() if not _is_led(entry, able)]
        on_progress(len(replicas) - len(unled), len(replicas))
        return unled

    unled = ensemble.read_until(read, lambda found: not found, timeout_s, POLL_S)
    info = read_controller_health(ensemble) if unled else None
    reasons = {tp: "; ".join(_why_unled(tp, replicas[tp], states[tp], able, info)) for tp in unled if info}
    return LeadersSeen(as_of=ensemble.as_of(), leaderless=reasons)


def _is_led(entry: DecodedZnode[PartitionState] | None, able: Collection[int]) -> bool:
    return entry is not None and entry.value is not None and entry.value.leader in able


def _why_unled(
    tp: TopicPartition,
    replicas: Collection[int],
    entry: DecodedZnode[PartitionState] | None,
    able: Collection[int],
    info: ControllerHealth,
) -> Iterator[str]:
    """Says what the znodes show, and what the active controller says."""
    if entry is not None and entry.error:
        yield str(entry.error)
        return
    if info.kind is None:
        yield "there is no active controller"
    state = entry.value if entry else None
    candidates = state.isr if state and state.isr else replicas
    if set(candidates).isdisjoint(able):
        yield f"{brokers_named(sorted(candidates), 'is', 'are')} not registered, or hosting nothing"
    elif why := info.waiting.get(f"leader of {tp}"):
        yield why
    elif state is not None and state.leader != NO_LEADER:
        yield f"its leader {state.leader} is not registered"
    elif info.kind is not None:
        yield "the controller has not elected a leader yet"


def read_slots(ensemble: Ensemble) -> int | None:
    """The number of slots; None before it is written. Raises CorruptZnodeError."""
    znode = ensemble.zk.find(SlotConfig.path())
    return None if znode is None else SlotConfig.decode(znode.path, znode.data).slots


def claim_slots(ensemble: Ensemble, slots: int) -> int:
    """The number of slots: the one that is stored, else this one, which is then stored.

    Where the topic exists already, as in a cluster that was Kafka's, its partitions are the slots. It is set
    to the same data then, so that a controller reads both again.

    Raises CorruptZnodeError.
    """
    path = SlotConfig.path()
    ensemble.zk.create_missing(zkgroup_path())
    while (stored := read_slots(ensemble)) is None:
        operations: list[Operation] = [Create(path, SlotConfig(slots).encode())]
        topic = ensemble.zk.find(Topic.path(OFFSETS_TOPIC))
        if topic is not None:
            there = len(Topic.decode(topic.path, topic.data).partitions)
            touch = SetData(topic.path, topic.data or b"", topic.stat.version)
            operations = [touch, Create(path, SlotConfig(there).encode())]
        try:
            ensemble.zk.multi(*operations)
        except OperationRefusedError:
            continue  # another broker was faster, or the topic has changed
        except OutcomeUnknownError as error:
            read_back(error, lambda: ensemble.zk.find(path) is not None)
    return stored


def check_slots(slots: int, partitions: int) -> None:
    """Raises ConfigError unless the topic would have one partition for each slot."""
    if partitions != slots:
        raise ConfigError(
            f"{SlotConfig.path()}: the groups of this cluster are divided among {slots} slots for ever: "
            f"expected {slots} partitions of {OFFSETS_TOPIC}, found {partitions}"
        )


NO_SLOTS_DELETED = "the slots of group coordinators are not deleted"


def create_topic_change(ensemble: Ensemble, new: NewTopic) -> AdminChange[NewTopic, int | None, LeadersSeen]:
    """Creates a topic; what is written is the zxid. The wait is for leaders.

    Raises ConflictError where the topic exists.
    """
    topic = new.topic
    return AdminChange(
        ensemble=ensemble,
        subject=f"topic create {topic}",
        question=f"Create topic {topic}?",
        plan=new,
        notes=new.notes,
        no_undo=NO_SLOTS_DELETED if new.are_slots else None,
        undo=undo_record(no_undo=NO_SLOTS_DELETED)
        if new.are_slots
        else undo_record(undo_command=("topic", "delete", topic), left=new.znodes),
        undo_is_required=False,
        check=lambda: check_new(ensemble, topic),
        write=lambda by: create_topic(ensemble, new),
        made_at=lambda zxid: zxid,
        wait=None if new.unhosted else until_led(ensemble, topic, new.assignment, nothing),
    )


def until_led(
    ensemble: Ensemble,
    topic: str,
    replicas: Mapping[int, Collection[int]],
    progress: Callable[[int, int], object],
) -> Callable[[object, float], LeadersSeen]:
    """The wait of a change until these partitions, given with their replicas, have leaders."""
    lists = {TopicPartition(topic, number): brokers for number, brokers in replicas.items()}
    return lambda _, longest_s: wait_for_leaders(ensemble, lists, longest_s, progress)
