"""Topics as znodes: create, list, describe, delete. What needs a broker to happen says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from zkgroup.admin.ensemble import AsOf, Ensemble
from zkgroup.admin.picture import Held, held
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
from zkgroup.znodes.brokers import (
    BrokerRegistration,
    PartitionState,
    Topic,
    broker_ids_path,
    brokers_path,
    topics_path,
)
from zkgroup.znodes.ids import validate_topic
from zkgroup.znodes.topics import TopicConfig, TopicDeletion, delete_topics_path, topic_configs_path

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})

PARTITIONS_MAX = 20_000
"""A topic znode with so many replica lists still fits one request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    partition: int
    replicas: tuple[int, ...]
    leader: int | None
    """-1: none (Kafka's word); None: no controller has written a state yet."""
    leader_epoch: int | None
    isr: tuple[int, ...] | None
    controller_epoch: int | None
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    topic: str
    partitions: tuple[PartitionDescription, ...]
    configs: Mapping[str, str]


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


@dataclass(frozen=True, slots=True)
class Brokers:
    """Live brokers, by what they can do."""

    data: tuple[int, ...]
    """Can hold replicas."""
    controllers_only: tuple[int, ...]
    unreadable: tuple[str, ...] = ()


def live_brokers(ensemble: Ensemble) -> Brokers:
    """Registered brokers; those that only take part in controller elections apart (recipes 14)."""
    data, controllers, unreadable = [], [], []
    for number, entry in _registrations(ensemble).items():
        if entry.value is None:
            unreadable.append(str(entry.error))
        elif is_controller_only(entry.value):
            controllers.append(number)
        else:
            data.append(number)
    return Brokers(tuple(data), tuple(controllers), tuple(unreadable))


class Cluster:
    """Brokers and topics as ZooKeeper has them, for record sources that ask brokers; read anew each time."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._ensemble = ensemble

    def brokers(self) -> Mapping[int, BrokerRegistration]:
        """Every registered broker whose znode can be read, by id."""
        entries = _registrations(self._ensemble)
        return {number: entry.value for number, entry in entries.items() if entry.value}

    def partitions(self, topic: str) -> tuple[int, ...]:
        """Partition numbers, ascending; none where the topic does not exist. Raises CorruptZnodeError."""
        znode = self._ensemble.zk.find(Topic.path(topic))
        return Topic.decode(znode.path, znode.data).numbers if znode else ()


def _registrations(ensemble: Ensemble) -> dict[int, Held[BrokerRegistration]]:
    names = ensemble.zk.list_many([broker_ids_path()])[broker_ids_path()] or ()
    numbers = sorted(int(name) for name in names if name.isdigit())
    znodes = ensemble.zk.read_many([BrokerRegistration.path(number) for number in numbers])
    found = {number: znodes[BrokerRegistration.path(number)] for number in numbers}
    return {number: held(znode, BrokerRegistration.decode) for number, znode in found.items() if znode}


def is_controller_only(registration: BrokerRegistration) -> bool:
    """Whether the broker hosts nothing: registered with `"zkgroup":{"role":"controller"}`."""
    return registration.role == "controller"


def plan_topic(
    ensemble: Ensemble,
    topic: str,
    *,
    partitions: int | None,
    replication_factor: int = 1,
    replica_assignment: Sequence[Sequence[int]] | None = None,
    configs: Mapping[str, str] | None = None,
) -> NewTopic:
    """Checks names and numbers and decides where replicas go.

    Raises ConfigError for what can never be, RefusedError where no live broker can hold the topic.
    """
    validate_topic(topic)
    brokers = live_brokers(ensemble)
    notes: list[str] = []
    if replica_assignment is not None:
        assignment = _explicit(replica_assignment, partitions)
        strangers = sorted({b for replicas in assignment.values() for b in replicas} - set(brokers.data))
        if strangers:
            notes.append(f"not registered now: broker {', '.join(map(str, strangers))}")
    else:
        assignment = _placed(brokers, partitions, replication_factor, notes)
    return NewTopic(topic=topic, assignment=assignment, configs=dict(configs or {}), notes=tuple(notes))


def spread(brokers: Sequence[int], partitions: int, factor: int) -> dict[int, tuple[int, ...]]:
    """Kafka's initial placement with start 0: leaders in turn, followers shifted by one more each round.

    Source: kafka.admin.AdminUtils.assignReplicasToBrokers@0.8.2.2, which starts at a random broker.
    """
    assignment = {}
    for partition in range(partitions):
        first = partition % len(brokers)
        shift = partition // len(brokers)
        replicas = [brokers[first]]
        for replica in range(factor - 1):
            step = 1 + (shift + replica) % (len(brokers) - 1)
            replicas.append(brokers[(first + step) % len(brokers)])
        assignment[partition] = tuple(replicas)
    return assignment


def create_topic(ensemble: Ensemble, new: NewTopic) -> None:
    """One transaction for topic and configuration (Kafka's tool needs two and can lose a race between).

    Raises ConflictError as `check_new` does, also where the topic has been created meanwhile.
    """
    check_new(ensemble, new.topic)
    ensemble.zk.create_missing(
        brokers_path(), topics_path(), _parent(topic_configs_path()), topic_configs_path()
    )
    try:
        ensemble.zk.multi(
            Create(TopicConfig.path(new.topic), TopicConfig(new.configs).encode()),
            Create(Topic.path(new.topic), Topic(new.assignment).encode()),
        )
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
    described, unreadable = [], []
    for name in names:
        znode = found[Topic.path(name)]
        if znode is None and name in topics:
            raise NotFoundError(
                f"{Topic.path(name)}: there is no topic {name!r}; `zkgroup topic list` shows those there are"
            )
        if znode is None:
            continue  # deleted since the names were read
        try:
            described.append(_described(ensemble, name, znode, found[TopicConfig.path(name)]))
        except CorruptZnodeError as error:
            unreadable.append(error)
    return ensemble.as_of(), tuple(described), tuple(unreadable)


def _described(ensemble: Ensemble, name: str, znode: Znode, config: Znode | None) -> TopicDescription:
    return TopicDescription(
        topic=name,
        partitions=_partitions(ensemble, name, Topic.decode(znode.path, znode.data)),
        configs=TopicConfig.decode(config.path, config.data).overrides if config else {},
    )


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


def _partitions(ensemble: Ensemble, name: str, topic: Topic) -> tuple[PartitionDescription, ...]:
    paths = {number: PartitionState.path(TopicPartition(name, number)) for number in topic.numbers}
    states = ensemble.zk.read_many(list(paths.values()))
    rows = []
    for number in topic.numbers:
        znode = states[paths[number]]
        state = held(znode, PartitionState.decode).value if znode else None
        rows.append(
            PartitionDescription(
                partition=number,
                replicas=topic.partitions[number],
                leader=state.leader if state else None,
                leader_epoch=state.leader_epoch if state else None,
                isr=state.isr if state else None,
                controller_epoch=state.controller_epoch if state else None,
                adding=tuple(topic.adding.get(number, ())),
                removing=tuple(topic.removing.get(number, ())),
            )
        )
    return tuple(rows)


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


def _placed(
    brokers: Brokers, partitions: int | None, factor: int, notes: list[str]
) -> dict[int, tuple[int, ...]]:
    if partitions is None:
        raise ConfigError("say how many partitions: --partitions N, or --replica-assignment")
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise ConfigError(f"partitions: expected 1 to {PARTITIONS_MAX}, found {partitions}")
    if factor < 1:
        raise ConfigError(f"replication factor: expected at least 1, found {factor}")
    if brokers.data:
        if factor > len(brokers.data):
            raise ConfigError(
                f"replication factor {factor}, but only {len(brokers.data)} live brokers can hold replicas"
            )
        return spread(brokers.data, partitions, factor)
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
