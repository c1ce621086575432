"""List and describe topics; missing brokers, and what pending deletions wait for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from zkgroup.admin.cluster.brokers import (
    partitions_of,
    read_topics,
    readable,
    registrations,
    states_of,
    topic_names,
    unhosted_topics,
)
from zkgroup.admin.cluster.controller import read_controller_health
from zkgroup.admin.guards import no_topic_error
from zkgroup.errors import CorruptZnodeError
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.groups.snapshot import DecodedZnode, decode_or_error, value_of
from zkgroup.model import TopicPartition, Znode
from zkgroup.znodes.admin_requests import Reassignment, TopicDeletion, delete_topics_path
from zkgroup.znodes.brokers import NO_LEADER, PartitionState, Topic, topics_path
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.config_settings import without_compaction
from zkgroup.znodes.ids import validate_topic

NOT_REPORTED = "the controller has not reported yet what it waits for"
"""Of a request that is newer than the status which a controller of zkgroup has published."""

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitionDescription:
    """Replicas, leader and ISR of one partition."""

    partition: int
    """The partition number."""
    replicas: tuple[int, ...]
    """The replica list, the preferred leader first."""
    leader: int | None
    """-1: none (Kafka's word); None: no controller has written a state yet, or it cannot be read."""
    leader_epoch: int | None
    """The leader epoch; None if there is no state or it cannot be read."""
    isr: tuple[int, ...] | None
    """The in-sync replicas; None if there is no state or it cannot be read."""
    controller_epoch: int | None
    """Epoch of the controller that wrote the state; None if there is no state or it cannot be read."""
    adding: tuple[int, ...]
    """Replicas that a running reassignment adds."""
    removing: tuple[int, ...]
    """Replicas that a running reassignment removes at its end."""
    state_written_ms: int | None = None
    """The moment at which the state was last written, by the servers' clock; None if there is no state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic with its partitions and overrides."""

    topic: str
    """The topic."""
    partitions: tuple[TopicPartitionDescription, ...]
    """Its partitions, by number."""
    configs: Mapping[str, str] | None
    """None where the znode cannot be read."""
    deletion: PendingDeletion | None = None
    """It is to be deleted; clients may see it no more."""
    unreadable: tuple[CorruptZnodeError, ...] = ()
    """The faults of its configuration and with states of its partitions."""
    unhosted: bool = False
    """No broker hosts it, nor shall one: it was made without brokers, for sharing its partitions."""

    @property
    def assignment(self) -> dict[int, tuple[int, ...]]:
        """Partition number to replica list."""
        return {row.partition: row.replicas for row in self.partitions}

    @property
    def without_compaction(self) -> str | None:
        """A note that zkgroup's brokers keep every record, where its `cleanup.policy` asks for compaction."""
        return without_compaction(self.configs or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSummary:
    """One row of `topic list`."""

    topic: str
    """The topic."""
    partitions: int | None
    """None where the znode cannot be read."""
    replication_factor: int | None
    """Length of the longest replica list; None if there are no partitions, or the znode cannot be read."""
    internal: bool
    """True if it is a topic of Kafka itself, as `__consumer_offsets`."""
    marked_for_deletion: bool
    """True if `/admin/delete_topics` has a request for it."""


def list_topics(ensemble: Ensemble) -> tuple[AsOf, tuple[TopicSummary, ...]]:
    """Every topic with its size; unreadable ones are listed too."""
    listed = ensemble.zk.list_many([topics_path(), delete_topics_path()])
    names = sorted(listed[topics_path()] or ())
    marked = set(listed[delete_topics_path()] or ())
    rows = []
    for name, entry in read_topics(ensemble, names).items():
        topic = entry.value
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


def partitions_named(
    ensemble: Ensemble, selection: Sequence[tuple[str, Sequence[int]]]
) -> list[TopicPartition]:
    """The partitions of topics with their numbers; without numbers all of the topic. Raises NotFoundError."""
    _, described, unreadable = describe_topics(ensemble, [name for name, _ in selection])
    if unreadable:
        raise unreadable[0]
    numbers = {one.topic: [row.partition for row in one.partitions] for one in described}
    return [TopicPartition(name, number) for name, parts in selection for number in parts or numbers[name]]


def topic_exists(ensemble: Ensemble, topic: str) -> bool:
    """Returns whether there is a topic of this name."""
    return ensemble.zk.exists(Topic.path(topic)) is not None


def describe_topics(
    ensemble: Ensemble, topics: Sequence[str] = ()
) -> tuple[AsOf, tuple[TopicDescription, ...], tuple[CorruptZnodeError, ...]]:
    """These topics, or all, and why others cannot be described.

    Raises NotFoundError for one that does not exist.
    """
    for name in topics:
        validate_topic(name)
    names = list(topics) or topic_names(ensemble)
    found = ensemble.zk.read_many(
        [path for name in names for path in (Topic.path(name), TopicConfig.path(name))]
    )
    unreadable: list[CorruptZnodeError] = []
    decoded: dict[str, Topic] = {}
    for name in names:
        znode = found[Topic.path(name)]
        if znode is None and name in topics:
            raise no_topic_error(name)
        if znode is None:
            continue  # deleted since the names were read
        try:
            decoded[name] = Topic.decode(znode.path, znode.data)
        except CorruptZnodeError as error:
            unreadable.append(error)
    states = states_of(ensemble, partitions_of(decoded))
    pending = read_pending_deletions(ensemble, decoded)
    unhosted = unhosted_topics(ensemble, decoded, states)
    described = [
        replace(
            describe_topic(name, topic, found[TopicConfig.path(name)], states, pending.get(name)),
            unhosted=name in unhosted,
        )
        for name, topic in decoded.items()
    ]
    return ensemble.as_of(), tuple(described), tuple(unreadable)


def only(
    described: Sequence[TopicDescription], wanted: Callable[[TopicPartitionDescription], bool]
) -> tuple[TopicDescription, ...]:
    """The wanted partitions, and the topics that have any. Of one without brokers nothing is amiss."""
    hosted = (one for one in described if not one.unhosted)
    chosen = (replace(one, partitions=tuple(row for row in one.partitions if wanted(row))) for one in hosted)
    return tuple(one for one in chosen if one.partitions)


def is_under_replicated(partition: TopicPartitionDescription) -> bool:
    """A known ISR is smaller than the replica list."""
    return partition.isr is not None and len(partition.isr) < len(partition.replicas)


def is_unavailable(partition: TopicPartitionDescription, live: Sequence[int]) -> bool:
    """No leader, or one that is not registered (as TopicCommand@0.8.2.2 counts)."""
    return partition.leader is None or partition.leader not in live


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingBroker:
    """A broker that is not registered, and what is to be on it."""

    broker: int
    """The broker id."""
    partitions: tuple[TopicPartition, ...]
    """Partitions whose replica list names it, in order."""
    out_of_sync_since_ms: int | None
    """The oldest write of a state that has it out of sync, or no leader; None where none has.

    It has been missing for no longer, unless it had fallen behind before it ended."""


def missing_brokers(
    topics: Sequence[TopicDescription], registered: Collection[int]
) -> tuple[MissingBroker, ...]:
    """Every broker that has a replica by the replica lists and is not registered, by id.

    A topic that no broker hosts names none; one without states does so only where brokers are registered.
    """
    partitions: dict[int, list[TopicPartition]] = {}
    since: dict[int, int] = {}
    for topic in topics:
        for row in () if topic.unhosted else topic.partitions:
            if row.leader is None and not registered:
                continue
            for broker in set(row.replicas) - set(registered):
                partitions.setdefault(broker, []).append(TopicPartition(topic.topic, row.partition))
                is_out = row.leader == NO_LEADER or (row.isr is not None and broker not in row.isr)
                if is_out and broker not in row.adding and row.state_written_ms is not None:
                    since[broker] = min(since.get(broker, row.state_written_ms), row.state_written_ms)
    return tuple(
        MissingBroker(broker=broker, partitions=tuple(sorted(found)), out_of_sync_since_ms=since.get(broker))
        for broker, found in sorted(partitions.items())
    )


def describe_topic(
    name: str,
    topic: Topic,
    config: Znode | None,
    states: Mapping[TopicPartition, DecodedZnode[PartitionState] | None],
    deletion: PendingDeletion | None,
) -> TopicDescription:
    """A topic from its znodes. `states` has all of its partitions, None for one without a state."""
    overrides = decode_or_error(config, TopicConfig.decode) if config else None
    entries = [states[TopicPartition(name, number)] for number in topic.numbers]
    errors = [entry.error for entry in (overrides, *entries) if entry and entry.error]
    if overrides is None:
        configs: Mapping[str, str] | None = {}
    else:
        configs = overrides.value.overrides if overrides.value else None
    rows = [
        _partition_description(topic, number, entry)
        for number, entry in zip(topic.numbers, entries, strict=True)
    ]
    return TopicDescription(
        topic=name, partitions=tuple(rows), configs=configs, deletion=deletion, unreadable=tuple(errors)
    )


def _partition_description(
    topic: Topic, number: int, entry: DecodedZnode[PartitionState] | None
) -> TopicPartitionDescription:
    state = entry.value if entry else None
    return TopicPartitionDescription(
        partition=number,
        replicas=topic.partitions[number],
        leader=state.leader if state else None,
        leader_epoch=state.leader_epoch if state else None,
        isr=state.isr if state else None,
        controller_epoch=state.controller_epoch if state else None,
        adding=tuple(topic.adding.get(number, ())),
        removing=tuple(topic.removing.get(number, ())),
        state_written_ms=entry.stat.mtime if entry else None,
    )


@dataclass(frozen=True, slots=True)
class PendingDeletion:
    """One topic's."""

    asked_ms: int
    """Epoch milliseconds of the request, by the servers' clock."""
    detail: str | None
    """The reason why it waits, as a controller of zkgroup says (`NOT_REPORTED` before it does), else as far
    as the znodes show; None where nothing is known to block it."""
    without_brokers: tuple[int, ...] = ()
    """Brokers that an operator has said not to wait for (lost brokers, K20)."""


def read_pending_deletions(ensemble: Ensemble, topics: Mapping[str, Topic]) -> dict[str, PendingDeletion]:
    """Those of the topics that are to be deleted. One request where none is."""
    listed = ensemble.names_below(delete_topics_path())
    markers = ensemble.find_each(sorted(topics.keys() & set(listed)), TopicDeletion.path)
    if not markers:
        return {}
    info = read_controller_health(ensemble)
    live = readable(registrations(ensemble)).keys()
    asked = value_of(ensemble.zk.find(Reassignment.path()), Reassignment.decode)
    moving = {each.topic for each in asked.targets} if asked else set()
    pending = {}
    for name, marker in markers.items():
        detail = info.waiting.get(f"deletion of {name}")
        if detail is None and (info.last_processed_zxid or 0) < marker.stat.mzxid:
            detail = NOT_REPORTED
        if info.kind is None:
            detail = "waits for an active controller"
        elif info.kind == "kafka":
            detail = "; ".join(_in_the_way(topics[name], live, is_asked=name in moving)) or None
        deletion = decode_or_error(marker, TopicDeletion.decode).value
        without = deletion.without_brokers if deletion else ()
        pending[name] = PendingDeletion(marker.stat.ctime, detail, without)
    return pending


def _in_the_way(topic: Topic, live: Collection[int], *, is_asked: bool) -> Iterator[str]:
    """Everything that any controller waits for before it deletes a topic."""
    replicas = {broker for brokers in topic.partitions.values() for broker in brokers}
    if dead := sorted(replicas - set(live)):
        named = ", ".join(map(str, dead))
        yield f"waits for {'broker' if len(dead) == 1 else 'brokers'} {named} to be back"
    if is_asked or topic.moving:
        yield "waits for the reassignment of its partitions"
