"""Alert rules for Prometheus, of the metrics of the exporter. They are those of a job `zkgroup`."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Severity = Literal["critical", "warning"]


class Alert(NamedTuple):
    """An alert rule. `command` is what to run next."""

    name: str
    expression: str
    """In PromQL: the series for which it is true."""
    lasts: str
    """The time for which it has to be true, as `5m`."""
    severity: Severity
    summary: str
    command: str


_GROUP: Final = r"""'{{ $labels.group | reReplaceAll "'" "'\"'\"'" }}'"""
"""A group as a word of the shell: who registers a group chooses its name."""
_DAY_S: Final = 86_400
EXPIRES_S: Final = 14 * _DAY_S
"""A certificate that is valid for less is an alert."""

ALERTS: Final = (
    Alert(
        "ZkgroupExporterAway",
        'up{job="zkgroup"} == 0 or absent(up{job="zkgroup"})',
        *("2m", "critical"),
        "Prometheus does not reach the exporter{{ with $labels.instance }} {{ . }}{{ end }}; no other alert"
        " can fire.",
        "zkgroup exporter",
    ),
    Alert(
        "ZkgroupEnsembleAway",
        "zkgroup_exporter_read_seconds unless on (job, instance) zkgroup_brokers",
        *("2m", "critical"),
        "ZooKeeper does not answer {{ $labels.instance }}; nothing is known.",
        "zkgroup doctor",
    ),
    Alert(
        "ZkgroupZooKeeperServerAway",
        "zkgroup_zookeeper_serving > 0 and zkgroup_zookeeper_serving < zkgroup_zookeeper_servers",
        *("2m", "warning"),
        "Only {{ $value }} of the ZooKeeper servers serve.",
        "zkgroup doctor",
    ),
    Alert(
        "ZkgroupReadsIncomplete",
        "increase(zkgroup_exporter_errors_total[5m]) > 0",
        *("15m", "warning"),
        "{{ $labels.instance }} cannot read all; /api/snapshot says why, as `unknown`.",
        "zkgroup status",
    ),
    Alert(
        "ZkgroupControllerMissing",
        "zkgroup_brokers > 0 unless on (job, instance) zkgroup_controller_broker",
        *("1m", "critical"),
        "No broker is the controller.",
        "zkgroup controller describe",
    ),
    Alert(
        "ZkgroupBrokerGone",
        "zkgroup_brokers < max_over_time(zkgroup_brokers[1h])",
        *("2m", "critical"),
        "{{ $value }} brokers are registered, fewer than within the last hour.",
        "zkgroup broker list",
    ),
    Alert(
        "ZkgroupPartitionOffline",
        "zkgroup_offline_partitions > 0",
        *("1m", "critical"),
        "{{ $value }} partitions have no live leader.",
        "zkgroup status",
    ),
    Alert(
        "ZkgroupReplicaOutOfSync",
        "zkgroup_under_replicated_partitions > 0",
        *("10m", "warning"),
        "{{ $value }} partitions have replicas out of sync.",
        "zkgroup status",
    ),
    Alert(
        "ZkgroupSlotWithoutLeader",
        "zkgroup_coordinator_slots_without_leader > 0",
        *("1m", "critical"),
        "{{ $value }} slots of group coordinators have no live leader.",
        "zkgroup coordinator describe",
    ),
    Alert(
        "ZkgroupMemberStopped",
        "zkgroup_group_members < max_over_time(zkgroup_group_members[1h])",
        *("5m", "warning"),
        "{{ $labels.group }} has {{ $value }} members, fewer than within the last hour.",
        f"zkgroup group describe {_GROUP}",
    ),
    Alert(
        "ZkgroupPartitionUnowned",
        "zkgroup_group_unowned_partitions > 0",
        *("5m", "critical"),
        "{{ $value }} partitions of {{ $labels.group }} have no owner.",
        f"zkgroup group verify {_GROUP}",
    ),
    Alert(
        "ZkgroupGroupInconsistent",
        'zkgroup_group_state{state="inconsistent"} == 1',
        *("5m", "warning"),
        "{{ $labels.group }} does not become what its members should make of it.",
        f"zkgroup group verify {_GROUP}",
    ),
    Alert(
        "ZkgroupConsumerStuck",
        'count without (partition) (zkgroup_group_verdict{verdict=~"stop|stall|rewind"})',
        *("5m", "critical"),
        "{{ $labels.group }} does not advance in {{ $value }} partitions of {{ $labels.topic }}, which have"
        " lag: {{ $labels.verdict }}.",
        f"zkgroup group describe {_GROUP}",
    ),
    Alert(
        "ZkgroupLagGrows",
        'count without (partition, verdict) (zkgroup_group_verdict{verdict="warn"})',
        *("5m", "warning"),
        "{{ $labels.group }} is too slow for {{ $value }} partitions of {{ $labels.topic }}.",
        f"zkgroup group describe {_GROUP}",
    ),
    Alert(
        "ZkgroupCertificateExpires",
        f"zkgroup_certificate_expiry_timestamp_seconds - time() < {EXPIRES_S}",
        *("0m", "warning"),
        "The certificate of {{ $labels.server }} is valid for {{ $value | humanizeDuration }} only.",
        "zkgroup broker run --dry-run",
    ),
)


def rules() -> str:
    """The alert rules as a file of Prometheus (YAML)."""
    lines = ["groups:", "  - name: zkgroup", "    rules:"]
    for alert in ALERTS:
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {_quoted(alert.expression)}",
            f"        for: {alert.lasts}",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            f"          summary: {_quoted(alert.summary)}",
            f"          command: {_quoted(alert.command)}",
        ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A scalar of YAML in single quotes."""
    return "'" + text.replace("'", "''") + "'"
