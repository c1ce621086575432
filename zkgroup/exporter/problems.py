"""What is wrong in a reading of the exporter, the worst first, each with the command that helps. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from zkgroup.admin.coordinator_status import DoctorFinding
from zkgroup.admin.status import (
    diagnose_brokers,
    diagnose_groups,
    diagnose_partitions,
    diagnose_persistent,
)
from zkgroup.admin.topics.listing import missing_brokers
from zkgroup.exporter.reading import EnsembleReading
from zkgroup.groups.check import VERDICT_TEXTS
from zkgroup.groups.lag_verdict import LagVerdict
from zkgroup.model import TopicPartition
from zkgroup.model.text import named, typed

PARTITIONS_SHOWN = 3
"""Partitions that a finding names."""
SERVING = ("leader", "follower", "observer", "standalone")
"""The modes in which a ZooKeeper server answers clients."""


def problems_of(reading: EnsembleReading) -> tuple[DoctorFinding, ...]:
    """The findings of `zkgroup doctor` that a reading shows, and those of verdicts and of servers."""
    order = {"error": 0, "warning": 1, "info": 2}
    found = [*_of_cluster(reading), *_of_groups(reading), *_of_lag(reading), *_of_servers(reading)]
    return tuple(sorted(found, key=lambda finding: order[finding.severity]))


def _of_cluster(reading: EnsembleReading) -> Iterator[DoctorFinding]:
    if (cluster := reading.cluster) is not None:
        yield from diagnose_partitions(cluster.topics, cluster.brokers.data)
        missing = missing_brokers(cluster.topics, list(cluster.registered))
        yield from diagnose_brokers(cluster.brokers, cluster.controller, missing)
        for text in cluster.brokers.unreadable:
            yield DoctorFinding("error", "broker", text, "zkgroup doctor")


def _of_groups(reading: EnsembleReading) -> Iterator[DoctorFinding]:
    yield from diagnose_persistent([path for group in reading.summaries for path in group.persistent])
    yield from diagnose_groups(reading.summaries, reading.coordinator, {})


def _of_lag(reading: EnsembleReading) -> Iterator[DoctorFinding]:
    """A finding for each group and verdict; `warn` is a warning, the others are errors."""
    for name, rows in reading.partitions.items():
        found: dict[LagVerdict, list[TopicPartition]] = defaultdict(list)
        for row in rows:
            if row.verdict is not None and row.verdict is not LagVerdict.OK:
                found[row.verdict].append(row.topic_partition)
        for verdict, tps in found.items():
            detail = f"{verdict.value}: {VERDICT_TEXTS[verdict]}: {named(tps, PARTITIONS_SHOWN)}"
            describe = typed("group describe", name)
            is_slow = verdict is LagVerdict.WARN
            yield DoctorFinding("warning" if is_slow else "error", f"group {name}", detail, describe)


def _of_servers(reading: EnsembleReading) -> Iterator[DoctorFinding]:
    """Servers that do not serve. One that tells nothing is suspect where others tell."""
    tells = any(server.mode in SERVING for server in reading.servers)
    for server in reading.servers:
        subject = f"ZooKeeper server {server.server}"
        if server.mode is None:
            detail = f"its state is not known: {server.reason}"
            yield DoctorFinding("warning" if tells else "info", subject, detail)
        elif server.mode not in SERVING:
            yield DoctorFinding("error", subject, f"does not serve: {server.mode}")
