"""An operator says that a broker never comes back: what is recorded of its replicas goes (docs/adr/0028).

Only where the broker is not registered, which the transaction makes sure of.
"""

from __future__ import annotations

from dataclasses import dataclass

from zkgroup.admin.guards import Guard, read_back
from zkgroup.errors import (
    ConflictError,
    NotFoundError,
    OperationRefusedError,
    OutcomeUnknownError,
    RefusedError,
)
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.groups.snapshot import decode_or_error
from zkgroup.model import Znode
from zkgroup.model.requests import Code, Create, Delete
from zkgroup.znodes.brokers import BrokerRegistration, Topic, broker_ids_path, brokers_path
from zkgroup.znodes.stray_replicas import (
    AbandonedReplicas,
    StrayReplicas,
    StrayTopic,
    abandoned_replicas_path,
    stray_replicas_path,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftReplicas:
    """What a broker may still have of one topic."""

    topic: str
    czxid: int | None
    """None where a controller of an earlier version has recorded it."""
    partitions: tuple[int, ...]
    is_there: bool
    """The topic is there; else it was deleted, and may have been made again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgettingPlan:
    """What would be forgotten. Nothing has been."""

    as_of: AsOf
    broker: int
    left: tuple[LeftReplicas, ...]
    znodes: tuple[Znode, ...]
    """Those that go."""
    unreadable: tuple[str, ...]
    """Paths of those of them that cannot be read."""


def plan_forgetting(ensemble: Ensemble, broker: int) -> ForgettingPlan:
    """Finds what is recorded of a broker.

    Raises RefusedError where it is registered, NotFoundError where nothing is recorded of it.
    """
    ensemble.zk.sync("/")
    if ensemble.zk.find(BrokerRegistration.path(broker)) is not None:
        raise _registered(broker)
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
        record = decode_or_error(znode, AbandonedReplicas.decode).value if znode is not None else None
        if znode is not None and record is not None and record.broker == broker:
            znodes.append(znode)
            topics.append(StrayTopic(record.topic, 0, record.partitions, record.epoch))
    if not znodes:
        raise NotFoundError(f"{StrayReplicas.path(broker)}: nothing is recorded of broker {broker}")
    there = ensemble.zk.read_many([Topic.path(each.topic) for each in topics])
    left = [
        LeftReplicas(
            topic=each.topic,
            czxid=each.czxid or None,
            partitions=each.partitions,
            is_there=(now := there[Topic.path(each.topic)]) is not None and now.stat.czxid == each.czxid,
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
    try:
        ensemble.zk.multi(*guard.operations, *deletions)
    except OutcomeUnknownError as error:
        read_back(error, lambda: _is_gone(ensemble, plan))
    except OperationRefusedError as error:
        if guard.refused_by(error) and error.code == Code.NODE_EXISTS.value:
            raise _registered(plan.broker) from error
        raise ConflictError(
            f"{error.path}: changed since it was read ({error.code}); run the command again"
        ) from error


def _is_gone(ensemble: Ensemble, plan: ForgettingPlan) -> bool:
    ensemble.zk.sync("/")
    found = ensemble.zk.read_many([each.path for each in plan.znodes])
    return all((now := found[each.path]) is None or now.stat.czxid != each.stat.czxid for each in plan.znodes)


def _registered(broker: int) -> RefusedError:
    return RefusedError(
        f"{BrokerRegistration.path(broker)}: broker {broker} is registered: what is recorded of it goes"
        " when it has deleted it; `zkgroup controller describe` shows what a zkgroup controller waits for"
    )
