"""`MetricsSink` on prometheus-client (extra `metrics`).

Metrics are made on first use in the registry given (the process-wide one by default), one for each
name and registry; several members may share a sink, and several sinks a registry.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from math import isnan
from weakref import WeakKeyDictionary

from zkgroup.errors import ConfigError

try:
    from prometheus_client import CONTENT_TYPE_LATEST as CONTENT_TYPE
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
except ImportError as error:  # pragma: no cover - depends on the installation
    raise ConfigError("zkgroup.metrics.prometheus needs: pip install 'zkgroup[metrics]'") from error

HELP = {
    "zkgroup_rebalance_total": "Rebalances that this process took part in, by reason.",
    "zkgroup_rebalance_seconds": "From the first change noticed to the last claim.",
    "zkgroup_partitions_owned": "Partitions owned by the member now.",
    "zkgroup_commit_total": "Commits by outcome: ok, refused, unknown.",
    "zkgroup_lease_remaining_seconds": "Time for which delivery is allowed without a reply from ZooKeeper.",
    "zkgroup_watch_gap_total": "Changes found by the periodic check for which no watch had fired.",
    "zkgroup_session_state": "1 for the present state of the member, 0 for the others.",
    "zkgroup_callback_overdue_total": "Callbacks of the application that did not end by their deadline.",
    "zkgroup_ack_ignored_total": "Acknowledgements that came after the partition was given up.",
    "zkgroup_history_lost_total": "Records that are missing in a history that raised.",
    "zkgroup_controller_active_controller_count": "1 while this process is the controller, else 0.",
    "zkgroup_controller_global_topic_count": "Topics, as the controller knows them.",
    "zkgroup_controller_global_partition_count": "Partitions, as the controller knows them.",
    "zkgroup_controller_offline_partitions_count": "Partitions without a leader.",
    "zkgroup_controller_preferred_replica_imbalance_count": "Partitions not led by their first replica.",
    "zkgroup_controller_event_queue_size": "Events in the controller's queue.",
    "zkgroup_controller_event_queue_oldest_seconds": "How long the oldest event in the queue has waited.",
    "zkgroup_controller_leader_election_seconds": "Duration of events that elected leaders.",
    "zkgroup_controller_unclean_leader_elections_total": "Leaders elected outside the ISR.",
    "zkgroup_broker_partition_count": "Replicas on the broker.",
    "zkgroup_broker_leader_count": "Replicas that lead.",
    "zkgroup_broker_under_replicated_partitions": "Partitions led by the broker with replicas not in sync.",
    "zkgroup_broker_isr_shrinks_total": "ISR writes that removed a replica.",
    "zkgroup_broker_isr_expands_total": "ISR writes that added a replica.",
    "zkgroup_broker_connection_count": "Connections to the port.",
    "zkgroup_broker_requests_total": "Requests answered.",
    "zkgroup_broker_request_seconds": "Time to the response, with waits that the request asked for.",
    "zkgroup_broker_bytes_in_total": "Bytes of record batches appended at their leader.",
    "zkgroup_broker_bytes_out_total": "Bytes of record batches sent to followers and consumers.",
    "zkgroup_broker_connections_refused_total": "Clients that a limit of their address keeps out.",
    "zkgroup_broker_acl_age_seconds": "How long the ACLs may be out of date; 0 while ZooKeeper is connected.",
    "zkgroup_broker_quota_usage": "What the clients of a quota use: a rate, or tokens that are left.",
    "zkgroup_broker_throttle_seconds_total": "Time that clients had to wait for a quota.",
    "zkgroup_broker_log_end_offset": "Offset of the next record of a replica.",
    "zkgroup_broker_group_count": "Groups that the broker coordinates, by state.",
    "zkgroup_broker_group_member_count": "Members of these groups.",
    "zkgroup_broker_group_rebalances_total": "Rebalances that began, by reason.",
    "zkgroup_broker_group_join_seconds": "From the beginning of a rebalance to its generation.",
    "zkgroup_broker_group_sync_seconds": "From a generation to its stored assignment.",
    "zkgroup_broker_group_members_removed_total": "Members removed, by what they did not do in time.",
    "zkgroup_broker_group_commits_total": "Partitions of commits, by outcome.",
    "zkgroup_broker_group_offset_count": "Committed offsets of these groups.",
    "zkgroup_broker_group_offset_metadata_bytes": "Bytes of the metadata of these offsets.",
    "zkgroup_broker_group_slot_used_ratio_max": "How much of its bounds the fullest slot has used.",
    "zkgroup_broker_group_offsets_expired_total": "Offsets deleted as expired, or with their topic.",
    "zkgroup_broker_group_load_seconds": "Loads of the groups of a partition of __consumer_offsets.",
}
"""Name of each metric to its help text."""


class _Made:
    """The metrics made in one registry, which refuses a second metric of the same name."""

    def __init__(self) -> None:
        self.counters: dict[str, Counter] = {}
        self.gauges: dict[str, Gauge] = {}
        self.histograms: dict[str, Histogram] = {}


_lock = threading.Lock()
_made: WeakKeyDictionary[CollectorRegistry, _Made] = WeakKeyDictionary()


class PrometheusMetrics:
    """Thread-safe `MetricsSink`."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        """Makes no metric yet: each is made at its first value.

        Args:
            registry: the registry of the metrics; by default that of the process.
        """
        self._registry = registry
        with _lock:
            made = _made.setdefault(registry, _Made())
        self._counters, self._gauges, self._histograms = made.counters, made.gauges, made.histograms

    def count(self, name: str, labels: Mapping[str, str], amount: float = 1.0) -> None:
        """Adds to a counter."""
        with _lock:
            if name not in self._counters:
                # The client adds "_total" itself.
                self._counters[name] = Counter(
                    name.removesuffix("_total"), _help(name), sorted(labels), registry=self._registry
                )
        self._counters[name].labels(**labels).inc(amount)

    def gauge(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Sets a gauge. NaN removes the sample: client ids, for one, are as many as clients like."""
        with _lock:
            if name not in self._gauges:
                self._gauges[name] = Gauge(name, _help(name), sorted(labels), registry=self._registry)
        if not isnan(value):
            self._gauges[name].labels(**labels).set(value)
        elif labels:
            with suppress(KeyError):  # of earlier releases, where there is no such sample
                self._gauges[name].remove(*(labels[each] for each in sorted(labels)))

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Adds an observation to a histogram."""
        with _lock:
            if name not in self._histograms:
                self._histograms[name] = Histogram(name, _help(name), sorted(labels), registry=self._registry)
        self._histograms[name].labels(**labels).observe(value)


def _help(name: str) -> str:
    return HELP.get(name, name)


def process_metrics(registry: CollectorRegistry | None = None) -> tuple[str, bytes]:
    """The content type and the text of the metrics in a registry, by default that of the process."""
    return CONTENT_TYPE, generate_latest(REGISTRY if registry is None else registry)
