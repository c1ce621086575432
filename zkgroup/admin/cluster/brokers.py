"""Brokers, registered or lost: what they hold, topics that no broker hosts (ADR 0029), and forgetting one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from zkgroup.admin.change import AdminChange, ChangePlan
from zkgroup.admin.guards import Guard, are_gone, changed_error, transact
from zkgroup.errors import (
    CorruptZnodeError,
    NotFoundError,
    OperationRefusedError,
    PersistentZnodeError,
    RefusedError,
)
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.groups.snapshot import DecodedZnode, decode_ephemeral, decode_or_error, value_of
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Code, Create, Delete
from zkgroup.placement import Broker
from zkgroup.znodes.brokers import (
    NO_LEADER,
    BrokerRegistration,
    PartitionState,
    Topic,
    broker_ids_path,
    brokers_path,
    topics_path,
)
from zkgroup.znodes.controller import ControllerRegistration
from zkgroup.znodes.sessions import is_leftover
from zkgroup.znodes.stray_replicas import (
    PLACEHOLDER,
    AbandonedReplicas,
    Signs,
    StrayReplicas,
    StrayTopic,
    UnhostedTopic,
    abandoned_replicas_path,
    is_unhosted,
    may_be_unhosted,
    stray_replicas_path,
    unhosted_topics_path,
)

NAMED = 5
"""States that cannot be read which notes name."""


@dataclass(frozen=True, slots=True)
class Brokers:
    """Live brokers, by what they can do."""

    data: tuple[int, ...]
    """Can hold replicas."""
    controllers_only: tuple[int, ...]
    """Ids of the brokers that only take part in controller elections."""
    unreadable: tuple[str, ...] = ()
    """The faults of each registration that cannot be read, with its path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSummary:
    """One row of `broker list`."""

    broker: int
    """The broker id."""
    host: str | None
    """The host of its plaintext listener; None if it has no such listener."""
    port: int
    """The port of its plaintext listener; -1 if it has no such listener."""
    registered_at_ms: int
    """The moment at which the registration was made, by the server's clock."""
    version: int
    """Of the registration's format: 1 is Kafka 0.8, 4 is 0.10.2 to 2.6."""
    epoch: int
    """The `czxid` of the registration: one for each start of the broker."""
    kind: str
    """`zkgroup` or `kafka`."""
    role: str
    """`data`, or `controller` for one that hosts nothing."""
    controller: bool
    """True if `/controller` names this broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDescription:
    """Holds what `broker describe` shows beyond its row."""

    summary: BrokerSummary
    """The row of this broker in `broker list`."""
    session: int
    """Id of the ZooKeeper session that owns the registration."""
    rack: str | None
    """The rack that it registered; None for none."""
    jmx_port: int
    """The JMX port that it registered; -1 for none."""
    endpoints: tuple[str, ...]
    """Its listeners, each as `PROTOCOL://HOST:PORT`."""
    hosted: tuple[TopicPartition, ...]
    """Partitions with a replica on it."""
    replicas: int
    """The number of these."""
    leaders: int
    """Partitions that it leads."""
    preferred: int
    """Partitions whose first replica it is."""
    out_of_sync: tuple[TopicPartition, ...]
    """Partitions with a replica on it that is not in the ISR."""
    unreadable: tuple[CorruptZnodeError, ...] = ()
    """Topics, and states of what is on it, that cannot be read and so are not counted."""


class ClusterReader:
    """Brokers and topics as ZooKeeper has them, for record sources that ask brokers; read anew each time."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._ensemble = ensemble

    def brokers(self) -> Mapping[int, BrokerRegistration]:
        """Every registered broker whose znode can be read, by id."""
        return readable(registrations(self._ensemble))

    def partitions(self, topic: str) -> tuple[int, ...]:
        """Partition numbers, ascending; none where the topic does not exist. Raises CorruptZnodeError."""
        znode = self._ensemble.zk.find(Topic.path(topic))
        return Topic.decode(znode.path, znode.data).numbers if znode else ()

    def leaders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | str]:
        """The broker that leads each of the partitions, or why there is none; registered or not."""
        paths = {tp: PartitionState.path(tp) for tp in partitions}
        found = self._ensemble.zk.read_each(list(paths.values()))
        return {tp: leader_of(path, found[path]) for tp, path in paths.items()}


def leader_of(path: str, znode: Znode | Code | None) -> int | str:
    """The broker that leads a partition by the znode of its state, or why none is known."""
    if znode is None:
        return "there is no such partition, or no broker has led it yet"
    if isinstance(znode, Code):
        return f"{path}: ZooKeeper refuses to read it ({znode.value})"
    state = decode_or_error(znode, PartitionState.decode)
    if state.value is None:
        return str(state.error)
    return "no broker leads it" if state.value.leader == NO_LEADER else state.value.leader


def registrations(ensemble: Ensemble) -> dict[int, DecodedZnode[BrokerRegistration]]:
    """Every child of `/brokers/ids` that is a broker id, ascending; unreadable and persistent ones too."""
    found = ensemble.find_each(ensemble.numbers_below(broker_ids_path()), BrokerRegistration.path)
    return {number: decode_ephemeral(znode, BrokerRegistration.decode) for number, znode in found.items()}


def readable(entries: Mapping[int, DecodedZnode[BrokerRegistration]]) -> dict[int, BrokerRegistration]:
    """The registrations that can be read."""
    return {number: entry.value for number, entry in entries.items() if entry.value}


def by_role(entries: Mapping[int, DecodedZnode[BrokerRegistration]]) -> Brokers:
    """Registered brokers; those that only take part in controller elections apart."""
    known = readable(entries)
    return Brokers(
        data=tuple(number for number, one in known.items() if not is_controller_only(one)),
        controllers_only=tuple(number for number, one in known.items() if is_controller_only(one)),
        unreadable=tuple(str(entry.error) for entry in entries.values() if entry.error),
    )


def placeable(known: Mapping[int, BrokerRegistration]) -> tuple[Broker, ...]:
    """The brokers that can be given replicas, with their racks."""
    return tuple(Broker(number, one.rack) for number, one in known.items() if not is_controller_only(one))


def is_controller_only(registration: BrokerRegistration) -> bool:
    """Returns whether the broker hosts nothing: registered with `"zkgroup":{"role":"controller"}`."""
    return registration.role == "controller"


def oldest_format(known: Iterable[BrokerRegistration]) -> int | None:
    """The lowest version among registrations of brokers of Kafka; None where no broker of Kafka is
    registered.
    """
    return min((one.version for one in known if not one.is_zkgroup), default=None)


def list_brokers(
    ensemble: Ensemble,
) -> tuple[AsOf, tuple[BrokerSummary, ...], tuple[CorruptZnodeError, ...]]:
    """Every registered broker, and why others cannot be listed."""
    entries = registrations(ensemble)
    controller = ensemble.zk.find(ControllerRegistration.path())
    info = decode_ephemeral(controller, ControllerRegistration.decode).value if controller else None
    rows = tuple(
        _summary(number, entry, entry.value, info)
        for number, entry in entries.items()
        if entry.value is not None
    )
    errors = tuple(entry.error for entry in entries.values() if entry.error)
    return ensemble.as_of(), rows, errors


def describe_broker(ensemble: Ensemble, broker: int) -> tuple[AsOf, BrokerDescription]:
    """One broker and what it hosts.

    Raises NotFoundError where it is not registered, PersistentZnodeError, CorruptZnodeError.
    """
    found = ensemble.zk.read_many([BrokerRegistration.path(broker), ControllerRegistration.path()])
    znode, controller = found[BrokerRegistration.path(broker)], found[ControllerRegistration.path()]
    if znode is None:
        raise NotFoundError(
            f"{BrokerRegistration.path(broker)}: broker {broker} is not registered; "
            "`zkgroup broker list` shows those that are"
        )
    entry = decode_ephemeral(znode, BrokerRegistration.decode)
    if entry.error:
        raise entry.error
    assert entry.value is not None
    topics, broken = held_topics(ensemble)
    states = states_of(ensemble, partitions_of(topics))
    unhosted = unhosted_topics(ensemble, topics, states)
    replicas = [
        (tp, lists[0] == broker)
        for topic, one in topics.items()
        if topic not in unhosted
        for number, lists in one.partitions.items()
        if broker in lists and (tp := TopicPartition(topic, number))
    ]
    known = {tp: state.value for tp, state in states.items() if state and state.value}
    here = [states[tp] for tp, _ in replicas]
    odd = [state.error for state in here if state and state.error]
    return ensemble.as_of(), BrokerDescription(
        summary=_summary(
            broker,
            entry,
            entry.value,
            decode_ephemeral(controller, ControllerRegistration.decode).value if controller else None,
        ),
        session=znode.stat.ephemeral_owner,
        rack=entry.value.rack,
        jmx_port=entry.value.jmx_port,
        endpoints=tuple(endpoint.text for endpoint in entry.value.listeners),
        replicas=len(replicas),
        hosted=tuple(tp for tp, _ in sorted(replicas)),
        leaders=sum(state.leader == broker for state in known.values()),
        preferred=sum(first for _, first in replicas),
        out_of_sync=tuple(tp for tp, _ in sorted(replicas) if tp in known and broker not in known[tp].isr),
        unreadable=(*broken.values(), *odd),
    )


def topic_names(ensemble: Ensemble) -> tuple[str, ...]:
    """Names of all topics, sorted."""
    return tuple(sorted(ensemble.names_below(topics_path())))


def read_topics(ensemble: Ensemble, names: Sequence[str]) -> dict[str, DecodedZnode[Topic]]:
    """Those of these topics that exist, in one bulk read."""
    found = ensemble.find_each(names, Topic.path)
    return {name: decode_or_error(znode, Topic.decode) for name, znode in found.items()}


def readable_topics(ensemble: Ensemble, names: Sequence[str]) -> dict[str, Topic]:
    """Those of these topics that exist and can be read."""
    return {name: entry.value for name, entry in read_topics(ensemble, names).items() if entry.value}


def held_topics(ensemble: Ensemble) -> tuple[dict[str, Topic], dict[str, CorruptZnodeError]]:
    """Every readable topic, and what is wrong with each of the others, by name."""
    entries = read_topics(ensemble, topic_names(ensemble))
    topics = {name: entry.value for name, entry in entries.items() if entry.value}
    return topics, {name: entry.error for name, entry in entries.items() if entry.error}


def partitions_of(topics: Mapping[str, Topic]) -> list[TopicPartition]:
    """Every partition of these topics, in order."""
    return [TopicPartition(name, number) for name, topic in topics.items() for number in topic.numbers]


def read_states(
    ensemble: Ensemble, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, PartitionState | None]:
    """The states of partitions in one bulk read; None where there is none or it cannot be read."""
    return {tp: entry.value if entry else None for tp, entry in states_of(ensemble, partitions).items()}


def states_of(
    ensemble: Ensemble, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, DecodedZnode[PartitionState] | None]:
    """The same with what is wrong with each that cannot be read; None only where there is none."""
    paths = {tp: PartitionState.path(tp) for tp in partitions}
    znodes = ensemble.zk.read_many(list(paths.values()))
    return {
        tp: decode_or_error(znode, PartitionState.decode) if (znode := znodes[path]) else None
        for tp, path in paths.items()
    }


def notes_on_unreadable(entries: Iterable[DecodedZnode[PartitionState] | None]) -> list[str]:
    """States that cannot be read: what is wrong with the first few, with paths, and how many more."""
    errors = [entry.error for entry in entries if entry and entry.error]
    notes = [f"cannot be read: {error}" for error in errors[:NAMED]]
    if more := len(errors) - len(notes):
        notes.append(f"{more} more states cannot be read" if more > 1 else "1 more state cannot be read")
    return notes


def _summary(
    number: int,
    entry: DecodedZnode[BrokerRegistration],
    one: BrokerRegistration,
    info: ControllerRegistration | None,
) -> BrokerSummary:
    return BrokerSummary(
        broker=number,
        host=one.host,
        port=one.port,
        registered_at_ms=entry.stat.ctime,
        version=one.version,
        epoch=entry.stat.czxid,
        kind="zkgroup" if one.is_zkgroup else "kafka",
        role=one.role,
        controller=info is not None and info.broker == number,
    )


def unhosted_topics(
    ensemble: Ensemble, topics: Mapping[str, Topic], states: Mapping[TopicPartition, object] | None = None
) -> frozenset[str]:
    """Those of these topics that no broker hosts. Nothing is read where no topic can be one.

    `states` are what is known of those of their partitions, None for one that has none yet; not given, they
    are read.
    """
    alike = {name: topic for name, topic in topics.items() if may_be_unhosted(topic)}
    if not alike:
        return frozenset()
    known = states_of(ensemble, partitions_of(alike)) if states is None else states
    bare = [
        name
        for name, topic in alike.items()
        if all(known.get(TopicPartition(name, number)) is None for number in topic.numbers)
    ]
    if not bare:
        return frozenset()
    parent, broker = unhosted_topics_path(), BrokerRegistration.path(PLACEHOLDER[0])
    paths = [path for name in bare for path in (Topic.path(name), UnhostedTopic.path(name))]
    found = ensemble.zk.read_many([parent, broker, *paths])
    return frozenset(
        name
        for name in bare
        if (topic := found[Topic.path(name)]) is not None
        and is_unhosted(
            Signs(
                made=topic.stat.czxid,
                written=topic.stat.mzxid,
                mark=_topic_czxid(found[UnhostedTopic.path(name)]),
                marks=_topic_czxid(found[parent]),
                broker=_topic_czxid(found[broker]),
            )
        )
    )


def _topic_czxid(znode: Znode | None) -> int | None:
    return None if znode is None else znode.stat.czxid


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftReplicas:
    """Names what a broker may still have of one topic."""

    topic: str
    """The topic of the replicas."""
    czxid: int | None
    """None where a controller of an earlier version has recorded it."""
    partitions: tuple[int, ...]
    """The partition numbers, ascending."""
    is_there: bool
    """The topic is there; else it was deleted, and may have been made again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgettingPlan(ChangePlan):
    """The plan of a change: nothing has been forgotten yet."""

    broker: int
    """The broker whose stray replicas are forgotten."""
    left: tuple[LeftReplicas, ...]
    """The replicas that the broker may still have, by topic."""
    znodes: tuple[Znode, ...]
    """Those that go."""
    unreadable: tuple[str, ...]
    """Paths of those of them that cannot be read."""


def plan_forgetting(ensemble: Ensemble, broker: int) -> ForgettingPlan:
    """Finds what is recorded of a broker.

    Raises RefusedError where it is registered, PersistentZnodeError where no session holds that,
    NotFoundError where nothing is recorded of it.
    """
    ensemble.zk.sync("/")
    registration = ensemble.zk.find(BrokerRegistration.path(broker))
    if registration is not None:
        raise PersistentZnodeError(registration.path) if is_leftover(registration) else _registered(broker)
    parents = stray_replicas_path(), abandoned_replicas_path()
    names = ensemble.zk.list_many(parents)
    mine = [
        f"{parents[0]}/{name}"
        for name in names[parents[0]] or ()
        if (place := StrayReplicas.place_of(name)) is not None and place[0] == broker
    ]
    earlier = [
        f"{parents[1]}/{name}"
        for name in names[parents[1]] or ()
        if AbandonedReplicas.sequence_of(name) is not None
    ]
    found = ensemble.zk.read_many([*mine, *earlier])
    topics: list[StrayTopic] = []
    znodes: list[Znode] = []
    unreadable: list[str] = []
    for path in mine:
        if (znode := found[path]) is not None:
            value = decode_or_error(znode, StrayReplicas.decode).value
            znodes.append(znode)
            topics += value.topics if value is not None else ()
            unreadable += [] if value is not None else [path]
    for path in earlier:
        znode = found[path]
        record = value_of(znode, AbandonedReplicas.decode)
        if znode is not None and record is not None and record.broker == broker:
            znodes.append(znode)
            topics.append(StrayTopic(record.topic, 0, record.partitions, record.epoch))
    if not znodes:
        raise NotFoundError(f"{StrayReplicas.path(broker)}: nothing is recorded of broker {broker}")
    there = ensemble.find_each((each.topic for each in topics), Topic.path)
    left = [
        LeftReplicas(
            topic=each.topic,
            czxid=each.czxid or None,
            partitions=each.partitions,
            is_there=each.topic in there and there[each.topic].stat.czxid == each.czxid,
        )
        for each in sorted(topics)
    ]
    return ForgettingPlan(
        as_of=ensemble.as_of(),
        broker=broker,
        left=tuple(left),
        znodes=tuple(znodes),
        unreadable=tuple(unreadable),
    )


def forget(ensemble: Ensemble, plan: ForgettingPlan) -> None:
    """Deletes the records, if they are as they were and the broker is not registered.

    Raises RefusedError where it has come back, ConflictError where a record has changed, since the plan.
    """
    path = BrokerRegistration.path(plan.broker)
    ensemble.zk.create_missing(brokers_path(), broker_ids_path())
    guard = Guard(path, (Create(path, None), Delete(path, 0)))
    deletions = [Delete(each.path, each.stat.version) for each in plan.znodes]

    def refusal(error: OperationRefusedError) -> Exception:
        if guard.refused_by(error) and error.code == Code.NODE_EXISTS.value:
            return _registered(plan.broker)
        return changed_error(error)

    operations = [*guard.operations, *deletions]
    transact(ensemble, operations, lambda: are_gone(ensemble, plan.znodes), refusal)


def _registered(broker: int) -> RefusedError:
    return RefusedError(
        f"{BrokerRegistration.path(broker)}: broker {broker} is registered: its records are removed when "
        "it has deleted its stray replicas; `zkgroup controller describe` shows what a zkgroup controller "
        "waits for"
    )


def forget_broker_change(ensemble: Ensemble, plan: ForgettingPlan) -> AdminChange[ForgettingPlan, None, None]:
    """Removes the records of a lost broker's stray replicas."""
    return AdminChange(
        ensemble=ensemble,
        subject=f"broker forget {plan.broker}",
        question=f"Forget what broker {plan.broker} may still have?",
        plan=plan,
        notes=tuple(f"{path} cannot be read; it is removed as it is" for path in plan.unreadable),
        no_undo="if the broker returns, no controller deletes its leftover replicas",
        write=lambda by: forget(ensemble, plan),
    )
