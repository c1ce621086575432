"""The metrics of the exporter in Prometheus's text format. Unknown is an absent sample, never 0.

Metrics with a partition as label are written here, all others by prometheus-client: it takes 190 ms for
40,000 samples, which are written here in 10 (ADR 0049).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from zkgroup.errors import ConfigError
from zkgroup.exporter.group_cache import GroupReading
from zkgroup.exporter.reading import EnsembleReading, PartitionReading
from zkgroup.groups.descriptions import GroupState
from zkgroup.zookeeper.four_letter_words import ServerStatus

try:
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector
except ImportError as error:  # pragma: no cover - depends on the installation
    raise ConfigError("the exporter needs: pip install 'zkgroup[metrics]'") from error

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Of what `render` returns."""

HELP: Final[Mapping[str, str]] = {
    "zkgroup_group_state": "1 for the present state of the group, 0 for the others.",
    "zkgroup_group_members": "Members of the group.",
    "zkgroup_group_unowned_partitions": "Partitions of subscribed topics with no owner, present or away.",
    "zkgroup_group_problems": "Problems of the group that group verify finds, by kind.",
    "zkgroup_group_committed_offset": "Committed offset.",
    "zkgroup_group_log_end_offset": "Offset of the next record of the partition.",
    "zkgroup_group_lag": "Log end offset less committed offset.",
    "zkgroup_group_seconds_since_commit": "Time since the last commit.",
    "zkgroup_group_verdict": "1 for the verdict on the lag: ok, warn, stop, stall or rewind.",
    "zkgroup_brokers": "Registered brokers that can hold replicas.",
    "zkgroup_controller_broker": "Id of the broker that is the controller.",
    "zkgroup_offline_partitions": "Partitions without a live leader.",
    "zkgroup_under_replicated_partitions": "Partitions that are led, with replicas out of sync.",
    "zkgroup_reassignments": "Partitions under way to other replicas.",
    "zkgroup_coordinator_slots": "Slots of group coordinators.",
    "zkgroup_coordinator_slots_without_leader": "Slots that no live broker leads.",
    "zkgroup_znodes": "Znodes of the whole ensemble.",
    "zkgroup_zookeeper_data_bytes": "Bytes of paths and data of all znodes, as servers estimate them.",
    "zkgroup_zookeeper_servers": "ZooKeeper servers of the address.",
    "zkgroup_zookeeper_serving": "Those of them that are leader, follower, observer or standalone.",
    "zkgroup_zookeeper_synced_followers": "Followers that are in sync with the leader.",
    "zkgroup_zookeeper_watches": "Watches of the server's clients.",
    "zkgroup_zookeeper_connections": "Client connections of the server.",
    "zkgroup_zookeeper_latency_seconds": "From a request to its reply, on average since the server's start.",
    "zkgroup_certificate_expiry_timestamp_seconds": "End of the validity of the server's certificate.",
    "zkgroup_exporter_read_seconds": "Time that the last read of the ensemble took.",
    "zkgroup_exporter_read_packets": "Requests to ZooKeeper of the last read.",
    "zkgroup_exporter_errors_total": "Reads that failed, and parts of reads that are not known.",
}
"""Name of each metric to its help text."""


def render(
    reading: EnsembleReading | None, errors: int, now_ms: int, certificate_ends_s: float | None = None
) -> bytes:
    """The samples of a reading, or of none yet.

    Args:
        reading: the last one.
        errors: so far.
        now_ms: in epoch milliseconds.
        certificate_ends_s: the end of the exporter's own certificate in epoch seconds; None without TLS.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(reading, errors, certificate_ends_s))
    return generate_latest(registry) + (_partitions(reading, now_ms) if reading else b"")


class _Collected(Collector):
    """The metrics without partitions."""

    def __init__(
        self, reading: EnsembleReading | None, errors: int, certificate_ends_s: float | None
    ) -> None:
        self._reading, self._errors, self._certificate_ends_s = reading, errors, certificate_ends_s

    def collect(self) -> Iterator[Metric]:
        name = "zkgroup_exporter_errors_total"
        yield CounterMetricFamily(name, HELP[name], value=self._errors)
        yield self._certificates()
        if (reading := self._reading) is not None:
            yield _one("zkgroup_exporter_read_seconds", reading.took_s)
            yield from _of_cluster(reading)
            yield from _of_servers(reading.servers)
            yield from _of_groups(reading.groups)

    def _certificates(self) -> Metric:
        own, asked = self._certificate_ends_s, self._reading.certificates if self._reading else {}
        ends = [] if own is None else [(("exporter",), own)]
        ends += [((f"broker {broker}",), ends_s) for broker, ends_s in asked.items()]
        return _gauge("zkgroup_certificate_expiry_timestamp_seconds", ("server",), ends)


def _one(name: str, value: float | None) -> Metric:
    """A gauge without labels; without a sample where the value is unknown."""
    return _gauge(name, (), [] if value is None else [((), value)])


def _gauge(name: str, labels: Iterable[str], samples: Iterable[tuple[Iterable[str], float]]) -> Metric:
    family = GaugeMetricFamily(name, HELP[name], labels=tuple(labels))
    for values, value in samples:
        family.add_metric(tuple(values), value)
    return family


def _of_cluster(reading: EnsembleReading) -> Iterator[Metric]:
    yield _one("zkgroup_exporter_read_packets", reading.packets)
    if (cluster := reading.cluster) is not None:
        yield _one("zkgroup_brokers", len(cluster.brokers.data))
        yield _one("zkgroup_controller_broker", cluster.controller)
        yield _one("zkgroup_offline_partitions", cluster.offline)
        yield _one("zkgroup_under_replicated_partitions", cluster.under_replicated)
        yield _one("zkgroup_reassignments", len(cluster.moving))
    if (coordinator := reading.coordinator) is not None:
        yield _one("zkgroup_coordinator_slots", coordinator.slots)
        yield _one("zkgroup_coordinator_slots_without_leader", len(coordinator.slots_without_leader))


_OF_ENSEMBLE: Final[Mapping[str, Callable[[ServerStatus], float | None]]] = {
    "zkgroup_znodes": lambda one: one.znodes,
    "zkgroup_zookeeper_data_bytes": lambda one: one.data_bytes,
    "zkgroup_zookeeper_synced_followers": lambda one: one.synced_followers,
}
"""Each server counts the whole ensemble; one that lags behind has fewer."""
_OF_SERVER: Final[Mapping[str, Callable[[ServerStatus], float | None]]] = {
    "zkgroup_zookeeper_watches": lambda one: one.watches,
    "zkgroup_zookeeper_connections": lambda one: one.connections,
    "zkgroup_zookeeper_latency_seconds": lambda one: (
        None if one.average_latency is None else one.average_latency / 1000
    ),
}


def _of_servers(servers: tuple[ServerStatus, ...]) -> Iterator[Metric]:
    if not servers:
        return
    yield _one("zkgroup_zookeeper_servers", len(servers))
    modes = ("leader", "follower", "observer", "standalone")
    yield _one("zkgroup_zookeeper_serving", sum(one.mode in modes for one in servers))
    for name, of in _OF_ENSEMBLE.items():
        yield _one(name, max((value for one in servers if (value := of(one)) is not None), default=None))
    for name, of_server in _OF_SERVER.items():
        known = [((one.server,), value) for one in servers if (value := of_server(one)) is not None]
        yield _gauge(name, ("server",), known)


def _of_groups(groups: Mapping[str, GroupReading]) -> Iterator[Metric]:
    states = [
        (
            (name, "coordinator" if group.snapshot.is_coordinated else "zookeeper", state.value),
            state is group.state,
        )
        for name, group in groups.items()
        for state in GroupState
    ]
    yield _gauge("zkgroup_group_state", ("group", "protocol", "state"), states)
    members = [((name,), group.members) for name, group in groups.items()]
    yield _gauge("zkgroup_group_members", ("group",), members)
    unowned = [((name,), group.unowned) for name, group in groups.items()]
    yield _gauge("zkgroup_group_unowned_partitions", ("group",), unowned)
    problems = [
        ((name, kind), count)
        for name, group in groups.items()
        for kind, count in Counter(problem.kind.value for problem in group.problems).items()
    ]
    yield _gauge("zkgroup_group_problems", ("group", "kind"), problems)


_OF_PARTITION: Final[Mapping[str, Callable[[PartitionReading, int], float | None]]] = {
    "zkgroup_group_committed_offset": lambda row, now_ms: row.offset,
    "zkgroup_group_log_end_offset": lambda row, now_ms: row.log_end_offset,
    "zkgroup_group_lag": lambda row, now_ms: row.lag,
    "zkgroup_group_seconds_since_commit": lambda row, now_ms: (
        None if row.committed_at_ms is None else max(0, now_ms - row.committed_at_ms) / 1000
    ),
}


def _partitions(reading: EnsembleReading, now_ms: int) -> bytes:
    rows = [
        (f'{{group="{_escaped(name)}",topic="{_escaped(row[0].topic)}",partition="{row[0].partition}"}}', row)
        for name, partitions in reading.partitions.items()
        for row in partitions
    ]
    parts = []
    for name, of in _OF_PARTITION.items():
        parts.append(f"# HELP {name} {HELP[name]}\n# TYPE {name} gauge\n")
        parts += [
            f"{name}{labels} {value}\n" for labels, row in rows if (value := of(row, now_ms)) is not None
        ]
    name = "zkgroup_group_verdict"
    parts.append(f"# HELP {name} {HELP[name]}\n# TYPE {name} gauge\n")
    parts += [
        f'{name}{labels[:-1]},verdict="{row.verdict.value}"}} 1\n' for labels, row in rows if row.verdict
    ]
    return "".join(parts).encode()


def _escaped(label: str) -> str:
    """The text of a label in quotes (Prometheus, exposition formats)."""
    return label.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
