"""Reads where the logs of partitions start, end and are at a time, as their leaders report it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from zkgroup.admin.cluster.brokers import ClusterReader
from zkgroup.admin.offsets.planning import SegmentOffset, Target, needs_log
from zkgroup.clients.addresses import Addresses, bootstrap_addresses
from zkgroup.clients.broker_queries import TIMEOUT_MS
from zkgroup.clients.kafka_python import DEFAULT_PORT
from zkgroup.clients.leaders import find_brokers, read_leaders
from zkgroup.clients.log_ends import read_end_offsets, read_start_offsets, read_time_offsets
from zkgroup.errors import NotFoundError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import broker_ids_path
from zkgroup.zookeeper.settings import parse_hosts

Places: TypeAlias = tuple[Addresses, Mapping[TopicPartition, int | str]]
"""Addresses of brokers by id, and for each partition the id of its leader, or why there is none."""


@dataclass(frozen=True, slots=True)
class BrokerPositions:
    """Implements `LogPositions`: each leader is asked about its partitions, all at the same time.

    What one broker does not answer in time is unknown for its partitions alone.
    """

    places: Callable[[Sequence[TopicPartition]], Places]
    """Finds the leaders; read anew for each question. What it raises, each question raises."""
    timeout_ms: int = TIMEOUT_MS
    """For each answer of a broker."""

    def earliest(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | str]:
        """See `LogPositions`."""
        return read_start_offsets(*self.places(partitions), self.timeout_ms)

    def latest(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | str]:
        """See `LogPositions`: the high watermarks."""
        return read_end_offsets(*self.places(partitions), self.timeout_ms)

    def at_time(
        self, partitions: Sequence[TopicPartition], time_ms: int
    ) -> Mapping[TopicPartition, int | SegmentOffset | str]:
        """See `LogPositions`; the log end where all records are older."""
        found = read_time_offsets(*self.places(partitions), time_ms, self.timeout_ms)
        return {
            tp: one if isinstance(one, str) else SegmentOffset(one.offset) if one.by_segment else one.offset
            for tp, one in found.items()
        }


def registered_positions(
    ensemble: Ensemble, *, zkgroup_only: bool = False, timeout_ms: int = TIMEOUT_MS
) -> BrokerPositions:
    """By the registered brokers that lead the partitions; of Kafka too, unless `zkgroup_only`.

    Each question raises NotFoundError where no broker is registered.
    """
    cluster = ClusterReader(ensemble)

    def places(partitions: Sequence[TopicPartition]) -> Places:
        registered, leaders = cluster.brokers(), cluster.leaders(partitions)
        if not registered:
            raise NotFoundError(f"{broker_ids_path()}: expected a broker to ask, found none")
        if zkgroup_only:
            others = {number for number, one in registered.items() if not one.is_zkgroup}
            leaders |= {
                tp: f"its leader, broker {leader}, is one of Kafka, which `--source kafka` asks"
                for tp, leader in leaders.items()
                if leader in others
            }
        return find_brokers(registered, ensemble.access), leaders

    return BrokerPositions(places, timeout_ms)


def positions_for(ensemble: Ensemble, target: Target) -> BrokerPositions | None:
    """Without a source: the registered brokers, for a target that only logs know; None where none is."""
    if not needs_log(target) or not ClusterReader(ensemble).brokers():
        return None
    return registered_positions(ensemble)


def bootstrap_positions(ensemble: Ensemble, bootstrap: str) -> BrokerPositions:
    """By the brokers that those at `HOST:PORT[,...]` name as leaders. Raises ConfigError for another text.

    They are asked by the protocol and user of the ensemble's access.
    """
    cluster, security = ClusterReader(ensemble), ensemble.access.security
    hosts = parse_hosts(bootstrap, DEFAULT_PORT, "address of a broker")

    def places(partitions: Sequence[TopicPartition]) -> Places:
        registered = cluster.brokers()
        found, leaders = read_leaders(bootstrap_addresses(hosts, registered, security), partitions)
        at = bootstrap_addresses([(one.host, one.port) for one in found.values()], registered, security)
        return dict(zip(found, at, strict=True)), leaders

    return BrokerPositions(places)
