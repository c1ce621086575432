"""Brokers and partitions of a reading for people: loads, what is out of sync, what moves. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from zkgroup.admin.status import ill
from zkgroup.admin.topics.listing import TopicPartitionDescription
from zkgroup.exporter.cluster import ClusterReading
from zkgroup.exporter.history import ReadingHistory
from zkgroup.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDuties:
    """A broker that is registered, or that a replica list names."""

    broker: int
    """Its id."""
    address: str | None
    """`HOST:PORT` of its plain listener; None without one, and where it is not registered."""
    registered: bool
    """Whether it is registered, as far as that can be read."""
    leaders: int
    """Partitions that it leads."""
    replicas: int
    """Partitions with a replica on it."""
    out_of_sync: int
    """Those of them whose ISR it is missing from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHealth:
    """A partition that has no live leader, has replicas out of sync, or is being moved."""

    topic: str
    """The topic."""
    row: TopicPartitionDescription
    """Its replicas, leader and ISR."""
    since_ms: int | None
    """The last write of its state, by the servers' clock; of a move the first reading that saw it."""
    target: tuple[int, ...] | None = None
    """The replicas that it is moved to; None where it is not moved."""


def broker_loads(cluster: ClusterReading) -> tuple[BrokerDuties, ...]:
    """The loads of all brokers, by id."""
    leaders, replicas, missing = Counter[int](), Counter[int](), Counter[int]()
    for row in chain.from_iterable(topic.partitions for topic in cluster.topics if not topic.unhosted):
        replicas.update(row.replicas)
        if row.leader is not None:
            leaders[row.leader] += 1
        if row.isr is not None and len(row.isr) < len(row.replicas):
            missing.update(set(row.replicas).difference(row.isr))
    registered = cluster.registered
    return tuple(
        BrokerDuties(
            broker=broker,
            address=f"{one.host}:{one.port}" if (one := registered.get(broker)) and one.host else None,
            registered=broker in registered,
            leaders=leaders[broker],
            replicas=replicas[broker],
            out_of_sync=missing[broker],
        )
        for broker in sorted(replicas.keys() | registered.keys())
    )


def ill_partitions(cluster: ClusterReading) -> Iterator[PartitionHealth]:
    """Partitions without a live leader, then those with replicas out of sync, by topic and number."""
    offline, late = dict[str, list[int]](), dict[str, list[int]]()
    for topic in cluster.topics:
        name, offline[name], late[name] = ill(topic, cluster.brokers.data)
    yield from _rows(cluster, offline)
    yield from _rows(cluster, late)


def moving_partitions(cluster: ClusterReading, history: ReadingHistory) -> Iterator[PartitionHealth]:
    """Partitions under way to other replicas, by topic and number."""
    numbers: dict[str, list[int]] = {}
    for tp in cluster.moving:
        numbers.setdefault(tp.topic, []).append(tp.partition)
    for one in _rows(cluster, numbers):
        tp = TopicPartition(one.topic, one.row.partition)
        yield replace(one, since_ms=history.moving_since_ms(tp), target=cluster.moving[tp])


def _rows(cluster: ClusterReading, numbers: dict[str, list[int]]) -> Iterator[PartitionHealth]:
    for topic in cluster.topics:
        wanted = set(numbers.get(topic.topic, ()))
        for row in topic.partitions if wanted else ():
            if row.partition in wanted:
                yield PartitionHealth(topic=topic.topic, row=row, since_ms=row.state_written_ms)
