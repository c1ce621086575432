"""The alert rules by promtool: each fires when its time is over, says what is wrong, and ends with it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.long.monitoring.prometheus import program
from zkgroup.exporter.alerts import ALERTS, Alert, rules

GOOD, BAD = 90, 30
"""Minutes at first, and of what is wrong then; the rest is good again."""
TARGET = {"job": "zkgroup", "instance": "e:1", "ensemble": "orders"}
"""With a label that the configuration adds."""


class Wrong(NamedTuple):
    """Series that are wrong for a while, and the labels and the summary of the alert."""

    series: dict[str, tuple[str, str]]
    """Each with its value while all is well, and while it is wrong; `_` is none."""
    labels: dict[str, str]
    summary: str


def one(name: str, good: str, bad: str, **labels: str) -> dict[str, tuple[str, str]]:
    text = ",".join(f'{label}="{value}"' for label, value in (TARGET | labels).items())
    return {f"{name}{{{text}}}": (good, bad)}


GROUP = {"group": "it's"}
"""A name that the shell does not take as it is: the command quotes it."""
LAG = {"topic": "t", "partition": "0", **GROUP}
WRONG = {
    "ZkgroupExporterAway": Wrong(
        one("up", "1", "0"), {}, "Prometheus does not reach the exporter e:1; no other alert can fire."
    ),
    "ZkgroupEnsembleAway": Wrong(
        one("zkgroup_exporter_read_seconds", "1", "9") | one("zkgroup_brokers", "3", "_"),
        {},
        "ZooKeeper does not answer e:1; nothing is known.",
    ),
    "ZkgroupZooKeeperServerAway": Wrong(
        one("zkgroup_zookeeper_serving", "3", "2") | one("zkgroup_zookeeper_servers", "3", "3"),
        {},
        "Only 2 of the ZooKeeper servers serve.",
    ),
    "ZkgroupReadsIncomplete": Wrong(
        one("zkgroup_exporter_errors_total", "5", "+"),
        {},
        "e:1 cannot read all; /api/snapshot says why, as `unknown`.",
    ),
    "ZkgroupControllerMissing": Wrong(
        one("zkgroup_brokers", "3", "3") | one("zkgroup_controller_broker", "1", "_"),
        {},
        "No broker is the controller.",
    ),
    "ZkgroupBrokerGone": Wrong(
        one("zkgroup_brokers", "3", "2"),
        {},
        "2 brokers are registered, fewer than within the last hour.",
    ),
    "ZkgroupPartitionOffline": Wrong(
        one("zkgroup_offline_partitions", "0", "4"), {}, "4 partitions have no live leader."
    ),
    "ZkgroupReplicaOutOfSync": Wrong(
        one("zkgroup_under_replicated_partitions", "0", "4"), {}, "4 partitions have replicas out of sync."
    ),
    "ZkgroupSlotWithoutLeader": Wrong(
        one("zkgroup_coordinator_slots_without_leader", "0", "7"),
        {},
        "7 slots of group coordinators have no live leader.",
    ),
    "ZkgroupMemberStopped": Wrong(
        one("zkgroup_group_members", "3", "2", **GROUP),
        GROUP,
        "it's has 2 members, fewer than within the last hour.",
    ),
    "ZkgroupPartitionUnowned": Wrong(
        one("zkgroup_group_unowned_partitions", "0", "2", **GROUP),
        GROUP,
        "2 partitions of it's have no owner.",
    ),
    "ZkgroupGroupInconsistent": Wrong(
        one("zkgroup_group_state", "0", "1", protocol="zookeeper", state="inconsistent", **GROUP),
        {"protocol": "zookeeper", "state": "inconsistent", **GROUP},
        "it's does not become what its members should make of it.",
    ),
    "ZkgroupConsumerStuck": Wrong(
        one("zkgroup_group_verdict", "_", "1", verdict="stop", **LAG)
        | one("zkgroup_group_verdict", "1", "_", verdict="ok", **LAG),
        {"topic": "t", "verdict": "stop", **GROUP},
        "it's does not advance in 1 partitions of t, which have lag: stop.",
    ),
    "ZkgroupLagGrows": Wrong(
        one("zkgroup_group_verdict", "_", "1", verdict="warn", **LAG)
        | one("zkgroup_group_verdict", "1", "_", verdict="ok", **LAG),
        {"topic": "t", **GROUP},
        "it's is too slow for 1 partitions of t.",
    ),
    "ZkgroupCertificateExpires": Wrong(
        one("zkgroup_certificate_expiry_timestamp_seconds", "2000000", "606000", server="broker 1"),
        {"server": "broker 1"},
        "The certificate of broker 1 is valid for 6d 22h 49m 0s only.",
    ),
}


def minutes(alert: Alert) -> int:
    matched = re.fullmatch(r"(\d+)m", alert.lasts)
    assert matched is not None
    return int(matched[1])


def values(good: str, bad: str) -> str:
    """In promtool's notation, a value a minute."""
    if bad == "+":  # a counter that grows while something is wrong
        return f"{good}x{GOOD - 1} {good}+1x{BAD - 1} {int(good) + BAD - 1}x120"
    parts = [(good, GOOD), (bad, BAD), (good, 120)]
    return " ".join(f"stale _x{n - 1}" if value == "_" else f"{value}x{n - 1}" for value, n in parts)


def test_each_alert_fires_and_ends(tmp_path: Path) -> None:
    """Not before its time is over."""
    (tmp_path / "rules.yml").write_text(rules())
    tests = []
    for alert in ALERTS:
        wrong = WRONG[alert.name]
        fires = {
            "exp_labels": {"severity": alert.severity, **TARGET, **wrong.labels},
            "exp_annotations": {
                "summary": wrong.summary,
                "command": re.sub("'{{.*}}'", shlex.quote("it's"), alert.command),
            },
        }
        ends = GOOD + BAD + 6  # the counter's window of five minutes
        times = [(GOOD - 1, False), (GOOD + minutes(alert) + 1, True), (ends, False)]
        if minutes(alert):
            times.append((GOOD + minutes(alert) - 1, False))
        tests.append(
            {
                "interval": "1m",
                "input_series": [
                    {"series": series, "values": values(*both)} for series, both in wrong.series.items()
                ],
                "alert_rule_test": [
                    {"eval_time": f"{at}m", "alertname": alert.name, "exp_alerts": [fires] if does else []}
                    for at, does in times
                ],
            }
        )
    file = tmp_path / "tests.yml"
    file.write_text(json.dumps({"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": tests}))

    ran = subprocess.run(
        [program("promtool"), "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
