"""`zkgroup demo coordinator` as a user runs it: its process, its exit code, its output, and nothing left."""

from __future__ import annotations

import json
from pathlib import Path

from zkgroup_cli.schemas import SCHEMAS

from tests.long.demos.demo_runs import demo, kafka_tools_are_there
from tests.worlds.processes import violations


def test_clients_share_a_group_through_every_fault(tmp_path: Path) -> None:
    """Every check of the whole demo holds, the exit code is 0, and no file is left."""
    files = tmp_path / "files"
    files.mkdir()
    java = kafka_tools_are_there()
    done = demo("demo", "coordinator", "--format", "json", folder=files)

    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert violations(report, SCHEMAS["zkgroup.demo_coordinator/1"]) == []
    assert report["passed"] is True
    assert len(report["checks"]) == 11
    assert [check["statement"] for check in report["checks"] if not check["holds"]] == []
    assert report["records"] == 20_000
    ended = {one["member"]: one["ended"] for one in report["clients"]}
    assert ended == {
        "kafka-python": "killed",
        "confluent-kafka": "paused",
        "aiokafka": "left",
        **({"java": "left"} if java else {}),
    }
    assert all(one["records"] for one in report["clients"])
    assert len(report["clients_left_out"]) == (0 if java else 1)
    assert report["generations"] >= 4
    assert len(set(report["coordinators"])) > 1
    assert done.stderr.count("SIGKILL to ") == 2
    assert "SIGSTOP to confluent-kafka" in done.stderr
    assert list(files.iterdir()) == []
