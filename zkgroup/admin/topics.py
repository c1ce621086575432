"""Topics as znodes: create, list, describe, delete. What needs a broker to happen says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from zkgroup.admin.brokers import (
    held_states,
    partitions_of,
)
from zkgroup.admin.ensemble import AsOf, Ensemble
from zkgroup.admin.pending_deletions import PendingDeletion, read_pending_deletions
from zkgroup.admin.picture import Held, held
from zkgroup.admin.unhosted import unhosted_topics
from zkgroup.errors import (
    CorruptZnodeError,
    NotFoundError,
)
from zkgroup.model import TopicPartition, Znode
from zkgroup.znodes.brokers import (
    PartitionState,
    Topic,
    topics_path,
)
from zkgroup.znodes.ids import validate_topic
from zkgroup.znodes.topics import TopicConfig, delete_topics_path

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})


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
    unhosted: bool = False
    """No broker hosts it, nor shall one: it was made without brokers, for sharing its partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSummary:
    """One row of `topic list`."""

    topic: str
    partitions: int | None
    """None where the znode cannot be read."""
    replication_factor: int | None
    internal: bool
    marked_for_deletion: bool


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
    unhosted = unhosted_topics(ensemble, decoded, states)
    described = [
        replace(
            _described(name, topic, found[TopicConfig.path(name)], states, pending.get(name)),
            unhosted=name in unhosted,
        )
        for name, topic in decoded.items()
    ]
    return ensemble.as_of(), tuple(described), tuple(unreadable)


def only(
    described: Sequence[TopicDescription], wanted: Callable[[PartitionDescription], bool]
) -> tuple[TopicDescription, ...]:
    """The wanted partitions, and the topics that have any. Of one without brokers nothing is amiss."""
    hosted = (one for one in described if not one.unhosted)
    kept = (replace(one, partitions=tuple(row for row in one.partitions if wanted(row))) for one in hosted)
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
