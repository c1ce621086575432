"""`zkgroup demo brokers` as a user runs it: its process, its exit code, its output, and nothing left."""

from __future__ import annotations

import json
from pathlib import Path

from zkgroup_cli.schemas import SCHEMAS

from tests.long.demos.demo_runs import demo, kafka_tools_are_there
from tests.worlds.processes import violations
from zkgroup.demo.cluster import values_in
from zkgroup.demo.flight_data import bundled_lines
from zkgroup.demo.kafka_clients import CONSOLE
from zkgroup.history import check_cluster
from zkgroup.history.transactions import read_transactions
from zkgroup.model import TopicPartition


def test_demo_proves_that_no_record_was_lost(tmp_path: Path) -> None:
    """Every check of the whole demo holds, the exit code is 0, and --keep keeps the files of the proof."""
    java = kafka_tools_are_there()
    done = demo("demo", "brokers", "--keep", "--format", "json", folder=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert violations(report, SCHEMAS["zkgroup.demo_brokers/1"]) == []
    assert report["passed"] is True
    assert len(report["checks"]) == (17 if java else 16)
    assert [check["statement"] for check in report["checks"] if not check["holds"]] == []
    assert report["acknowledged"] == 20_000
    names = ["kafka-python", "confluent-kafka", "aiokafka", *([CONSOLE] if java else [])]
    assert [one["client"] for one in report["clients"]] == names
    assert {(one["produced"], one["read"]) for one in report["clients"]} == {(250, 250 * len(names))}
    assert len(report["clients_left_out"]) == (0 if java else 1)
    assert (report["segment"] is not None) == java
    assert report["consumed"] >= 20_000
    assert report["replicas_moved"] == report["history"]["moves_ended"] == 48
    assert report["controller_epochs"] == report["history"]["elections"] >= 3
    assert len(report["failovers_ms"]) == 2
    assert done.stderr.count("SIGKILL to ") == 3
    kept = Path(report["kept"])
    assert f"zkgroup zookeeper start --servers 3 --data {kept / 'zookeeper'}" in done.stderr
    assert check_cluster(read_transactions(sorted(kept.glob("zookeeper/server-*/version-2")))).holds
    held = {
        one.value
        for broker in (1, 3, 4)
        for n in range(24)
        for one in values_in(kept / f"broker-{broker}", TopicPartition("flights", n))
    }
    assert held == set(bundled_lines())
    assert [*(kept / "broker-2").glob("flights-*/*.log")] == []
