"""CreateTopics, DeleteTopics and CreatePartitions; blocking, on a connected ensemble.

What each error code is for: kafka/server/AdminManager.scala and KafkaApis.scala @2.8.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from zkgroup.admin.change import AdminChange
from zkgroup.admin.cluster.brokers import placeable, readable, registrations
from zkgroup.admin.cluster.controller import ControllerInfo, read_controller_info
from zkgroup.admin.topics.alteration import (
    AddedPartitions,
    AlterationPlan,
    alter_topic_change,
    plan_alteration,
)
from zkgroup.admin.topics.creation import (
    PARTITIONS_MAX,
    LeadersSeen,
    NewTopic,
    claim_slots,
    colliding,
    create_topic_change,
    plan_topic,
    read_slots,
)
from zkgroup.admin.topics.deletion import DeletionSeen, delete_topic_change, plan_topic_deletion
from zkgroup.admin.topics.listing import INTERNAL_TOPICS
from zkgroup.admin.undo_records import ChangeRecord
from zkgroup.broker.admin.failures import Failure, RequestPartError, failure_of, refused_as
from zkgroup.errors import (
    ConfigError,
    ConflictError,
    NotFoundError,
    PlacementError,
    RefusedError,
    ZkGroupError,
)
from zkgroup.groups.ensemble import Ensemble
from zkgroup.wire.admin_apis import CreatableTopic, CreatePartitionsRequest, CreateTopicsRequest, GrownTopic
from zkgroup.wire.messages import ErrorCode
from zkgroup.znodes.brokers import Topic, topics_path
from zkgroup.znodes.config_settings import check_topic_settings
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC
from zkgroup.znodes.ids import validate_new_topic, validate_topic

Permit = Callable[[int], None]
"""Counts partitions that are about to be created or deleted. Raises RequestPartError beyond a quota."""
UNSET = -1
"""A number that the sender leaves to the broker."""


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """The defaults for a topic whose creator leaves them out."""

    partitions: int
    """`num.partitions`."""
    replication_factor: int
    """`default.replication.factor`."""
    slots: int = 50
    """`offsets.topic.num.partitions`."""
    slot_replicas: int = 3
    """`offsets.topic.replication.factor`."""


@dataclass(frozen=True, slots=True)
class Created:
    """A topic as it was created, or as it would be."""

    replicas: Mapping[int, tuple[int, ...]]
    configs: Mapping[str, str]

    @property
    def replication_factor(self) -> int:
        return len(next(iter(self.replicas.values()), ()))


def no_quota(partitions: int) -> None:
    """Permits any number."""


def create_topics(
    ensemble: Ensemble,
    request: CreateTopicsRequest,
    defaults: TopicDefaults,
    by: ChangeRecord,
    permit: Permit = no_quota,
) -> dict[str, Created | Failure]:
    """Creates each topic in a transaction of its own; nothing is written if `validate_only` is set."""
    repeated = _repeated(topic.topic for topic in request.topics)
    found: dict[str, Created | Failure] = {}
    for topic in request.topics:
        if topic.topic in repeated:
            found[topic.topic] = Failure(ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic.")
            continue
        try:
            new, change = _planned(ensemble, topic, defaults)
            if not request.validate_only:
                permit(len(new.replicas))
                with refused_as(ErrorCode.TOPIC_ALREADY_EXISTS, ConflictError):
                    change.write(by)
            found[topic.topic] = new
        except ZkGroupError as error:
            found[topic.topic] = failure_of(error)
    return found


def _planned(
    ensemble: Ensemble, topic: CreatableTopic, defaults: TopicDefaults
) -> tuple[Created, AdminChange[NewTopic, int | None, LeadersSeen]]:
    """A new topic, and the change that creates it."""
    with refused_as(ErrorCode.INVALID_TOPIC, ConfigError):
        validate_new_topic(topic.topic)
    configs = {one.name: _value(one.name, one.value) for one in topic.configs}
    with refused_as(ErrorCode.INVALID_CONFIG, ConfigError):
        check_topic_settings(configs)
    partitions, factor = _counts(ensemble, topic, defaults)
    _check_names(ensemble, topic.topic)
    with (
        refused_as(ErrorCode.TOPIC_ALREADY_EXISTS, ConflictError),
        refused_as(ErrorCode.INVALID_REPLICA_ASSIGNMENT, ConfigError),
        refused_as(ErrorCode.INVALID_REPLICATION_FACTOR, PlacementError),  # fewer brokers than replicas
    ):
        new = plan_topic(
            ensemble,
            topic.topic,
            partitions=partitions,
            replication_factor=factor,
            replica_assignment=_replica_lists(topic) if topic.replicas else None,
            configs=configs,
        )
        change = create_topic_change(ensemble, new)
    if new.unhosted:
        raise RequestPartError(ErrorCode.INVALID_REPLICATION_FACTOR, "no broker that hosts replicas is live")
    return Created(new.assignment, new.configs), change


def _check_names(ensemble: Ensemble, topic: str) -> None:
    """Refuses a topic that exists, or collides with another, in Kafka's words, which scripts look for."""
    others = ensemble.names_below(topics_path())
    if topic in others:
        raise RequestPartError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' already exists.")
    if found := colliding(topic, others):
        text = f"Topic '{topic}' collides with existing topics: {', '.join(found)}"
        raise RequestPartError(ErrorCode.INVALID_TOPIC, text)


def _value(name: str, value: str | None) -> str:
    if value is None:
        raise RequestPartError(ErrorCode.INVALID_REQUEST, f"{name}: expected a value, found null")
    return value


def _counts(ensemble: Ensemble, topic: CreatableTopic, defaults: TopicDefaults) -> tuple[int | None, int]:
    """Partitions (None beside replica lists) and replication factor."""
    if topic.topic == OFFSETS_TOPIC:
        defaults = _of_slots(ensemble, defaults)
    if topic.replicas:
        if topic.partitions != UNSET or topic.replication_factor != UNSET:
            text = "both replica lists and a number of partitions or replicas are given"
            raise RequestPartError(ErrorCode.INVALID_REQUEST, text)
        return None, 1
    partitions = defaults.partitions if topic.partitions == UNSET else topic.partitions
    factor = defaults.replication_factor if topic.replication_factor == UNSET else topic.replication_factor
    if not 1 <= partitions <= PARTITIONS_MAX:
        text = f"partitions: expected 1 to {PARTITIONS_MAX}, found {partitions}"
        raise RequestPartError(ErrorCode.INVALID_PARTITIONS, text)
    if factor < 1:
        text = f"replication factor: expected at least 1, found {factor}"
        raise RequestPartError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    return partitions, factor


def _of_slots(ensemble: Ensemble, defaults: TopicDefaults) -> TopicDefaults:
    """Returns the defaults for the topic of the slots: at most as many replicas as there are brokers."""
    brokers = len(placeable(readable(registrations(ensemble))))
    return replace(
        defaults,
        partitions=read_slots(ensemble) or defaults.slots,
        replication_factor=max(1, min(defaults.slot_replicas, brokers)),
    )


def create_offsets_topic(ensemble: Ensemble, defaults: TopicDefaults, by: ChangeRecord) -> Failure | None:
    """Writes the number of slots, unless it is stored, and then creates their topic, unless it exists.

    Returns why it cannot be created. A controller of Kafka would create it with a log that is needed.
    """
    try:
        if read_controller_info(ensemble).kind == "kafka":
            raise RefusedError("the active controller is Kafka's, which serves no groups by slots")
        slots = claim_slots(ensemble, defaults.slots)
        if ensemble.zk.exists(Topic.path(OFFSETS_TOPIC)) is not None:
            return None
        new = CreatableTopic(topic=OFFSETS_TOPIC, partitions=slots, replication_factor=UNSET)
        with refused_as(ErrorCode.TOPIC_ALREADY_EXISTS, ConflictError):
            _planned(ensemble, new, defaults)[1].write(by)
    except ZkGroupError as error:
        failure = failure_of(error)
        return None if failure.error == ErrorCode.TOPIC_ALREADY_EXISTS else failure
    return None


def _replica_lists(topic: CreatableTopic) -> list[tuple[int, ...]]:
    lists = {one.partition: one.brokers for one in topic.replicas}
    if len(lists) != len(topic.replicas) or sorted(lists) != list(range(len(lists))):
        numbers = ", ".join(str(one.partition) for one in topic.replicas)
        text = f"expected one replica list for each partition from 0 on, found those of {numbers}"
        raise RequestPartError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    return [lists[number] for number in range(len(lists))]


def delete_topics(
    ensemble: Ensemble,
    topics: Sequence[str],
    by: ChangeRecord,
    permit: Callable[[str], None] = lambda topic: None,
) -> dict[str, Failure | RequestedDeletion]:
    """Marks each topic for deletion by the controller, whoever uses it. Brokers are read once for all.

    `permit`: counts the partitions of a topic, as `Permit`.
    """
    found: dict[str, Failure | RequestedDeletion] = {}
    info: ControllerInfo | None = None
    for topic in dict.fromkeys(topics):
        try:
            with refused_as(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ConfigError):
                validate_topic(topic)
            if info is None:
                ensemble.zk.sync("/")
                info = read_controller_info(ensemble)
            with refused_as(ErrorCode.INVALID_TOPIC, *_refusals_of(topic)):
                plan = plan_topic_deletion(ensemble, topic, for_client=info)
                change = delete_topic_change(ensemble, plan, for_client=True)
                permit(topic)
                change.write(by)
        except ZkGroupError as error:
            found[topic] = failure_of(error)
        else:
            assert change.wait is not None
            found[topic] = RequestedDeletion(change.wait)
    return found


@dataclass(frozen=True, slots=True)
class RequestedDeletion:
    """A deletion that was requested."""

    _wait: Callable[[None, float], DeletionSeen]

    def read(self) -> DeletionSeen:
        """Returns the remains of the topic."""
        return self._wait(None, 0.0)


def create_partitions(
    ensemble: Ensemble, request: CreatePartitionsRequest, by: ChangeRecord, permit: Permit = no_quota
) -> dict[str, Collection[int] | Failure]:
    """Adds partitions to each topic; the numbers of the new partitions."""
    repeated = _repeated(topic.topic for topic in request.topics)
    found: dict[str, Collection[int] | Failure] = {}
    for topic in request.topics:
        if topic.topic in repeated:
            found[topic.topic] = Failure(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
            continue
        try:
            change = _growth(ensemble, topic)
            if not request.validate_only:
                permit(len(change.plan.added))
                change.write(by)
            found[topic.topic] = tuple(change.plan.added)
        except ZkGroupError as error:
            found[topic.topic] = failure_of(error)
    return found


def _growth(ensemble: Ensemble, topic: GrownTopic) -> AdminChange[AlterationPlan, None, LeadersSeen]:
    with refused_as(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ConfigError):
        validate_topic(topic.topic)
    znode = ensemble.zk.find(Topic.path(topic.topic))
    if znode is None:
        raise NotFoundError(f"there is no topic {topic.topic!r}")
    now = Topic.decode(znode.path, znode.data).partitions
    if topic.count <= len(now):
        text = f"topic {topic.topic!r} has {len(now)} partitions, and {topic.count} are asked for"
        raise RequestPartError(ErrorCode.INVALID_PARTITIONS, text)
    lists = None
    if topic.replicas is not None:
        if len(topic.replicas) != topic.count - len(now):
            text = (
                f"{topic.count - len(now)} partitions are new, and {len(topic.replicas)} have replica lists"
            )
            raise RequestPartError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        lists = [now[number] for number in sorted(now)] + [one.brokers for one in topic.replicas]
    added = AddedPartitions(partitions=topic.count, replica_assignment=lists)
    kind = ErrorCode.INVALID_PARTITIONS if lists is None else ErrorCode.INVALID_REPLICA_ASSIGNMENT
    with refused_as(kind, ConfigError), refused_as(ErrorCode.INVALID_TOPIC, *_refusals_of(topic.topic)):
        return alter_topic_change(ensemble, plan_alteration(ensemble, topic.topic, added))


def _refusals_of(topic: str) -> tuple[type[ZkGroupError], ...]:
    """The errors that mean that the topic is one of the brokers' own."""
    return (RefusedError,) if topic in INTERNAL_TOPICS else ()


def _repeated(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}
