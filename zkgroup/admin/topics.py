"""Topics as znodes: create, list, describe, delete. What needs a broker to happen says so."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from zkgroup.admin.brokers import (
    Brokers,
    by_role,
    held_states,
    partitions_of,
    placeable,
    readable,
    registrations,
)
from zkgroup.admin.ensemble import AsOf, Ensemble
from zkgroup.admin.pending_deletions import PendingDeletion, read_pending_deletions
from zkgroup.admin.picture import Held, held
from zkgroup.admin.ruling import notes_on_settings, read_ruling, refuse_kraft
from zkgroup.errors import (
    ConfigError,
    ConflictError,
    CorruptZnodeError,
    NotFoundError,
    OperationRefusedError,
    RefusedError,
)
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Create
from zkgroup.placement import RackMode, Start, spread
from zkgroup.placement.words import brokers_named
from zkgroup.znodes.brokers import (
    PartitionState,
    Topic,
    broker_ids_path,
    brokers_path,
    topics_path,
)
from zkgroup.znodes.ids import validate_topic
from zkgroup.znodes.topic_settings import check_topic_settings
from zkgroup.znodes.topics import TopicConfig, TopicDeletion, delete_topics_path, topic_configs_path

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})

PARTITIONS_MAX = 20_000
"""A topic znode with so many replica lists still fits one request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    partition: int
    replicas: tuple[int, ...]
    leader: int | None
    """-1: none (Kafka's word); None: no controller has written a state yet, or it cannot be read."""
    leader_epoch: int | None
    isr: tuple[int, ...] | None
    controller_epoch: int | None
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    topic: str
    partitions: tuple[PartitionDescription, ...]
    configs: Mapping[str, str] | None
    """None where the znode cannot be read."""
    deletion: PendingDeletion | None = None
    """It is to be deleted; clients may see it no more."""
    unreadable: tuple[CorruptZnodeError, ...] = ()
    """What is wrong with its configuration and with states of its partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSummary:
    """One row of `topic list`."""

    topic: str
    partitions: int | None
    """None where the znode cannot be read."""
    replication_factor: int | None
    internal: bool
    marked_for_deletion: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """What `topic create` would write. Nothing has been."""

    topic: str
    assignment: Mapping[int, tuple[int, ...]]
    configs: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def znodes(self) -> tuple[tuple[str, bytes], ...]:
        """Path and data."""
        config = TopicConfig.path(self.topic), TopicConfig(self.configs).encode()
        return config, (Topic.path(self.topic), Topic(self.assignment).encode())


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
    validate_topic(topic)
    check_topic_settings(configs or {})
    ruling = read_ruling(ensemble)
    refuse_kraft(ruling)
    entries = registrations(ensemble)
    brokers = by_role(entries)
    notes: list[str] = []
    if brokers.data and ruling.controller_znode is None:
        notes.append("no controller lives: the topic has no leaders until there is one")
    if replica_assignment is not None:
        assignment = _explicit(replica_assignment, partitions)
        notes += _strangers(assignment, brokers)
    else:
        _check_counts(partitions, replication_factor)
        assert partitions is not None
        able = placeable(readable(entries))
        if able:
            dealt = spread(
                able,
                partitions,
                replication_factor,
                start=starting_point(topic, len(able)),
                rack_mode=rack_mode,
            )
            assignment = dict(dealt.replicas)
            notes += dealt.notes
        else:
            assignment = _without_brokers(brokers, partitions, replication_factor, notes)
    notes += notes_on_settings(ruling, "topics", configs or {})
    return NewTopic(topic=topic, assignment=assignment, configs=dict(configs or {}), notes=tuple(notes))


def create_topic(ensemble: Ensemble, new: NewTopic) -> int | None:
    """One transaction for topic and configuration (Kafka's tool needs two and can lose a race between).

    Its zxid. Raises ConflictError as `check_new` does, also where the topic has been created meanwhile.
    """
    check_new(ensemble, new.topic)
    ensemble.zk.create_missing(
        brokers_path(), topics_path(), _parent(topic_configs_path()), topic_configs_path()
    )
    try:
        return ensemble.zk.multi(*(Create(path, data) for path, data in new.znodes)).zxid
    except OperationRefusedError as error:
        raise ConflictError(f"{error.path}: topic {new.topic!r} exists already ({error.code})") from error


def list_topics(ensemble: Ensemble) -> tuple[AsOf, tuple[TopicSummary, ...]]:
    """Every topic with its size; unreadable ones are listed too."""
    listed = ensemble.zk.list_many([topics_path(), delete_topics_path()])
    names = sorted(listed[topics_path()] or ())
    marked = set(listed[delete_topics_path()] or ())
    znodes = ensemble.zk.read_many([Topic.path(name) for name in names])
    rows = []
    for name in names:
        znode = znodes[Topic.path(name)]
        if znode is None:
            continue
        topic = held(znode, Topic.decode).value
        sizes = {len(replicas) for replicas in topic.partitions.values()} if topic else set()
        rows.append(
            TopicSummary(
                topic=name,
                partitions=len(topic.partitions) if topic else None,
                replication_factor=max(sizes) if sizes else None,
                internal=name in INTERNAL_TOPICS,
                marked_for_deletion=name in marked,
            )
        )
    return ensemble.as_of(), tuple(rows)


def topic_names(ensemble: Ensemble) -> tuple[str, ...]:
    """Names of all topics, sorted."""
    return tuple(sorted(ensemble.zk.list_many([topics_path()])[topics_path()] or ()))


def topic_exists(ensemble: Ensemble, topic: str) -> bool:
    """Whether there is a topic of this name."""
    return ensemble.zk.exists(Topic.path(topic)) is not None


def describe_topics(
    ensemble: Ensemble, topics: Sequence[str] = ()
) -> tuple[AsOf, tuple[TopicDescription, ...], tuple[CorruptZnodeError, ...]]:
    """These topics, or all, and why others cannot be described.

    Raises NotFoundError for one that does not exist.
    """
    for name in topics:
        validate_topic(name)
    names = list(topics) or sorted(ensemble.zk.list_many([topics_path()])[topics_path()] or ())
    found = ensemble.zk.read_many(
        [path for name in names for path in (Topic.path(name), TopicConfig.path(name))]
    )
    unreadable: list[CorruptZnodeError] = []
    decoded: dict[str, Topic] = {}
    for name in names:
        znode = found[Topic.path(name)]
        if znode is None and name in topics:
            raise NotFoundError(
                f"{Topic.path(name)}: there is no topic {name!r}; `zkgroup topic list` shows those there are"
            )
        if znode is None:
            continue  # deleted since the names were read
        try:
            decoded[name] = Topic.decode(znode.path, znode.data)
        except CorruptZnodeError as error:
            unreadable.append(error)
    states = held_states(ensemble, partitions_of(decoded))
    pending = read_pending_deletions(ensemble, decoded)
    described = [
        _described(name, topic, found[TopicConfig.path(name)], states, pending.get(name))
        for name, topic in decoded.items()
    ]
    return ensemble.as_of(), tuple(described), tuple(unreadable)


def describe_new(new: NewTopic) -> TopicDescription:
    """The topic as it would be described, before any controller has seen it."""
    rows = tuple(
        PartitionDescription(
            partition=number,
            replicas=tuple(replicas),
            leader=None,
            leader_epoch=None,
            isr=None,
            controller_epoch=None,
            adding=(),
            removing=(),
        )
        for number, replicas in sorted(new.assignment.items())
    )
    return TopicDescription(topic=new.topic, partitions=rows, configs=new.configs)


def only(
    described: Sequence[TopicDescription], wanted: Callable[[PartitionDescription], bool]
) -> tuple[TopicDescription, ...]:
    """The wanted partitions, and the topics that have any."""
    kept = (replace(one, partitions=tuple(row for row in one.partitions if wanted(row))) for one in described)
    return tuple(one for one in kept if one.partitions)


def is_under_replicated(partition: PartitionDescription) -> bool:
    """A known ISR is smaller than the replica list."""
    return partition.isr is not None and len(partition.isr) < len(partition.replicas)


def is_unavailable(partition: PartitionDescription, live: Sequence[int]) -> bool:
    """No leader, or one that is not registered (as TopicCommand@0.8.2.2 counts)."""
    return partition.leader is None or partition.leader not in live


def _described(
    name: str,
    topic: Topic,
    config: Znode | None,
    states: Mapping[TopicPartition, Held[PartitionState] | None],
    deletion: PendingDeletion | None,
) -> TopicDescription:
    overrides = held(config, TopicConfig.decode) if config else None
    entries = [states[TopicPartition(name, number)] for number in topic.numbers]
    errors = [entry.error for entry in (overrides, *entries) if entry and entry.error]
    if overrides is None:
        configs: Mapping[str, str] | None = {}
    else:
        configs = overrides.value.overrides if overrides.value else None
    rows = [
        _partition(topic, number, entry.value if entry else None)
        for number, entry in zip(topic.numbers, entries, strict=True)
    ]
    return TopicDescription(
        topic=name, partitions=tuple(rows), configs=configs, deletion=deletion, unreadable=tuple(errors)
    )


def _partition(topic: Topic, number: int, state: PartitionState | None) -> PartitionDescription:
    return PartitionDescription(
        partition=number,
        replicas=topic.partitions[number],
        leader=state.leader if state else None,
        leader_epoch=state.leader_epoch if state else None,
        isr=state.isr if state else None,
        controller_epoch=state.controller_epoch if state else None,
        adding=tuple(topic.adding.get(number, ())),
        removing=tuple(topic.removing.get(number, ())),
    )


def _explicit(lists: Sequence[Sequence[int]], partitions: int | None) -> dict[int, tuple[int, ...]]:
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


def _strangers(assignment: Mapping[int, Sequence[int]], brokers: Brokers) -> Iterator[str]:
    """Brokers in replica lists that hold none now; Kafka's tools take them as well."""
    asked = {broker for replicas in assignment.values() for broker in replicas} - set(brokers.data)
    idle = asked & set(brokers.controllers_only)
    if absent := sorted(asked - idle):
        then = "it starts" if len(absent) == 1 else "they start"
        yield f"{brokers_named(absent, 'is', 'are')} not registered now: replicas there come when {then}"
    if idle:
        yield f"{brokers_named(sorted(idle), 'is', 'are')} registered to host nothing: no replica comes there"


def starting_point(topic: str, brokers: int) -> Start:
    """Where the replicas of a new topic begin, the same each time it is asked."""
    digest = zlib.crc32(topic.encode("ascii"))
    return Start(digest % brokers, digest // brokers % brokers)


def _check_counts(partitions: int | None, factor: int) -> None:
    if partitions is None:
        raise ConfigError("say how many partitions: --partitions N, or --replica-assignment")
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise ConfigError(f"partitions: expected 1 to {PARTITIONS_MAX}, found {partitions}")
    if factor < 1:
        raise ConfigError(f"replication factor: expected at least 1, found {factor}")


def _without_brokers(
    brokers: Brokers, partitions: int, factor: int, notes: list[str]
) -> dict[int, tuple[int, ...]]:
    if brokers.controllers_only or brokers.unreadable:
        found = ", ".join(map(str, brokers.controllers_only)) or brokers.unreadable[0]
        raise RefusedError(
            f"{broker_ids_path()}: expected a broker that can hold replicas, found only {found}"
        )
    if factor > 1:
        raise ConfigError(f"replication factor {factor}, but no broker is registered")
    notes.append(
        "no broker is registered: every replica list is [0], good for sharing partitions without brokers"
    )
    return dict.fromkeys(range(partitions), (0,))


def check_new(ensemble: Ensemble, topic: str) -> None:
    """Reads whether a topic of this name can be created.

    Raises ConflictError where it exists, is being deleted, has left its configuration behind, or collides
    with another one in metric names, where `.` and `_` are the same (kafka.common.Topic@2.8).
    """
    listed = ensemble.zk.list_many([topics_path(), delete_topics_path()])
    if topic in (listed[delete_topics_path()] or ()):
        raise ConflictError(
            f"{TopicDeletion.path(topic)}: topic {topic!r} is being deleted; wait until it is gone, or, "
            f"where no controller lives, run `zkgroup topic delete {topic} --execute`"
        )
    if topic in (listed[topics_path()] or ()):
        raise ConflictError(
            f"{Topic.path(topic)}: topic {topic!r} exists already; `zkgroup topic describe {topic}` shows it"
        )
    if ensemble.zk.exists(TopicConfig.path(topic)) is not None:
        raise ConflictError(
            f"{TopicConfig.path(topic)}: expected none, found the configuration of a topic that was deleted "
            f"in part; `zkgroup topic delete {topic} --execute` removes it"
        )
    for other in listed[topics_path()] or ():
        if other.replace(".", "_") == topic.replace(".", "_"):
            raise ConflictError(
                f"{Topic.path(other)}: collides with {topic!r}: '.' and '_' are the same in metric names"
            )


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
