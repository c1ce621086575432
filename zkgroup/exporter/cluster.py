"""Brokers, controller, topics and moves of an ensemble, as the exporter reads them once an interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from zkgroup.admin.cluster.brokers import (
    Brokers,
    by_role,
    leader_of,
    partitions_of,
    readable,
    unhosted_topics,
)
from zkgroup.admin.reassign.progress import target_of
from zkgroup.admin.status import ill
from zkgroup.admin.topics.listing import TopicDescription, describe_topic
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.snapshot import decode_ephemeral, decode_or_error, mark_of, value_of
from zkgroup.model import TopicPartition, Znode
from zkgroup.znodes.admin_requests import Reassignment, delete_topics_path
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic, broker_ids_path, topics_path
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.controller import ControllerRegistration
from zkgroup.znodes.ids import number_of

Leaders = Mapping[TopicPartition, int | str]
"""Partition to the broker that leads it, or to the reason why none is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReading:
    """The cluster at one moment."""

    brokers: Brokers
    """The registered brokers."""
    registered: Mapping[int, BrokerRegistration]
    """The readable registrations, by broker."""
    controller: int | None
    """Broker id of the controller; None if there is none, or it cannot be read."""
    topics: tuple[TopicDescription, ...]
    """Topics that can be read and are not being deleted, by name."""
    leaders: Leaders
    """Of every partition of these topics."""
    moving: Mapping[TopicPartition, tuple[int, ...]]
    """Partitions under way to other replicas, in order, with these."""

    @property
    def offline(self) -> int:
        """Partitions without a live leader."""
        return sum(len(ill(topic, self.brokers.data)[1]) for topic in self.topics)

    @property
    def under_replicated(self) -> int:
        """Partitions that are led, with replicas missing from the ISR."""
        return sum(len(ill(topic, self.brokers.data)[2]) for topic in self.topics)


@dataclass(slots=True)
class _Known:
    """A topic as it was described, and the marks of the znodes from which it was."""

    marks: tuple[object, ...]
    described: TopicDescription
    leaders: Leaders


@dataclass(slots=True)
class ClusterCache:
    """Reads the cluster; describes only the topics that have changed since the last read."""

    _topics: dict[str, _Known] = field(default_factory=dict)

    def read(self, ensemble: Ensemble) -> ClusterReading:
        """The cluster now. Raises what reads raise."""
        zk = ensemble.zk
        listed = zk.list_many([broker_ids_path(), topics_path(), delete_topics_path()])
        numbers = sorted(
            number for name in listed[broker_ids_path()] or () if (number := number_of(name)) is not None
        )
        leaving = set(listed[delete_topics_path()] or ())
        names = sorted(set(listed[topics_path()] or ()) - leaving)
        paths = [path for name in names for path in (Topic.path(name), TopicConfig.path(name))]
        found = zk.read_many(
            [*map(BrokerRegistration.path, numbers), *_SINGLE, *paths],
        )
        entries = {
            number: decode_ephemeral(znode, BrokerRegistration.decode)
            for number in numbers
            if (znode := found[BrokerRegistration.path(number)])
        }
        controller = found[ControllerRegistration.path()]
        info = decode_ephemeral(controller, ControllerRegistration.decode).value if controller else None
        topics = self._decoded({name: znode for name in names if (znode := found[Topic.path(name)])})
        known = self._describe(ensemble, topics, found)
        request = value_of(found[Reassignment.path()], Reassignment.decode)
        moving = {
            TopicPartition(name, number): target_of(topic, number)
            for name, topic in topics.items()
            for number in topic.moving
        }
        return ClusterReading(
            brokers=by_role(entries),
            registered=readable(entries),
            controller=info.broker if info else None,
            topics=tuple(each.described for each in known.values()),
            leaders={tp: leader for each in known.values() for tp, leader in each.leaders.items()},
            moving=dict(sorted({**moving, **(request.targets if request else {})}.items())),
        )

    def _decoded(self, znodes: Mapping[str, Znode]) -> dict[str, Topic]:
        return {name: topic for name, znode in znodes.items() if (topic := value_of(znode, Topic.decode))}

    def _describe(
        self, ensemble: Ensemble, topics: Mapping[str, Topic], found: Mapping[str, Znode | None]
    ) -> dict[str, _Known]:
        paths = {tp: PartitionState.path(tp) for tp in partitions_of(topics)}
        read = ensemble.zk.read_many(list(paths.values()))
        states = {tp: read[path] for tp, path in paths.items()}
        unhosted = unhosted_topics(ensemble, topics, states)
        known: dict[str, _Known] = {}
        for name, topic in topics.items():
            own = {(tp := TopicPartition(name, number)): states[tp] for number in topic.numbers}
            config = found[TopicConfig.path(name)]
            marks = (mark_of(found[Topic.path(name)]), mark_of(config), *map(mark_of, own.values()))
            before = self._topics.get(name)
            if before is not None and before.marks == marks:
                before.described = replace(before.described, unhosted=name in unhosted)
                known[name] = before
                continue
            decoded = {
                tp: decode_or_error(each, PartitionState.decode) if each else None for tp, each in own.items()
            }
            described = describe_topic(name, topic, config, decoded, None)
            leaders = {tp: leader_of(paths[tp], own[tp]) for tp in own}
            known[name] = _Known(marks, replace(described, unhosted=name in unhosted), leaders)
        self._topics = known
        return known


_SINGLE = (ControllerRegistration.path(), Reassignment.path())
