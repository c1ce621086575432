"""`zkgroup demo coordinator`: how its report becomes exit code and output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.real.cli.staged_demos import ended, staged
from tests.worlds.shell import Shell
from zkgroup.demo.checks import CheckResult
from zkgroup.demo.coordinator import ClientResult, CoordinatorRun
from zkgroup.demo.flight_data import Processed, reduce
from zkgroup.demo.kafka_clients import LeftOut
from zkgroup.history import ClusterFigures

RIGHT = CheckResult("one kind of members at a time", True, "2 ZooKeeper consumers")
WRONG = CheckResult("no commit of an old generation was accepted", False, "zxid 0x9: 0:4 by Java")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Without an ensemble."""
    return Shell(tmp_path)


def report(*checks: CheckResult, folder: Path | None = None) -> CoordinatorRun:
    records = [Processed(0, offset, "ORD", 1, 1) for offset in range(20_000)]
    return ended(
        CoordinatorRun,
        folder=folder,
        checks=checks,
        clients=(
            ClientResult("kafka-python", "kafka-python", "3.0.12", 2_631, "killed", 0),
            ClientResult("confluent-kafka", "confluent-kafka", "2.16.1", 2_731, "paused", 1),
        ),
        left_out=[LeftOut("aiokafka", "not installed: pip install aiokafka")],
        reduction=reduce({"one": records, "another": records[:45]}),
        generations=4,
        coordinators=(3, 1),
        failover_s=5.25,
        kept_generation=True,
        log_figures=ClusterFigures(transactions=500, leader_changes=21),
        took_s=50.5,
    )


def stage(monkeypatch: pytest.MonkeyPatch, found: CoordinatorRun) -> list[Any]:
    """The demo returns this run."""
    return staged(monkeypatch, found, "a client joins")


def test_proved_demo_ends_with_0(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events on stderr, checks, clients and figures on stdout."""
    options = stage(monkeypatch, report(RIGHT))
    ran = shell.run("demo", "coordinator")

    assert ran.code == 0
    assert "  1.5 s  a client joins" in ran.err
    assert "yes     one kind of members at a time  2 ZooKeeper consumers" in ran.out
    assert "2,731               1  paused past its session, came back, left" in ran.out
    assert "left out: aiokafka (not installed: pip install aiokafka)" in ran.out
    assert "20,000 records in 50 s, 45 of them twice." in ran.out
    assert "the members went on in their generation: what they had read was committed after 5.2 s." in ran.out
    assert "4 generations, coordinated by broker 3, 1; 21 changes of leader." in ran.out
    assert "kept" not in ran.err
    assert [one.keep for one in options] == [False]


def test_demo_that_proved_nothing_ends_with_3(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A check that does not hold is printed once more in full; --keep prints where the files are."""
    options = stage(monkeypatch, report(RIGHT, WRONG, folder=tmp_path))
    ran = shell.run("demo", "coordinator", "--keep")

    assert ran.code == 3
    assert f"NOT PROVED: {WRONG.statement}\n{WRONG.evidence}\n" in ran.out
    assert f"zkgroup zookeeper start --data {tmp_path / 'zookeeper'}" in ran.err
    assert "zkgroup -z HOST:PORT coordinator describe demo" in ran.err
    assert [one.keep for one in options] == [True]


def test_report_for_programs(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its published schema."""
    stage(monkeypatch, report(RIGHT, WRONG))
    document = shell.json("demo", "coordinator", code=3)

    assert document["passed"] is False
    assert document["checks"][1]["evidence"] == "zxid 0x9: 0:4 by Java"
    assert document["clients"][1] == {
        "member": "confluent-kafka",
        "client": "confluent-kafka",
        "version": "2.16.1",
        "records": 2_731,
        "ended": "paused",
        "commits_failed": 1,
    }
    assert document["clients_left_out"] == [
        {"client": "aiokafka", "reason": "not installed: pip install aiokafka"}
    ]
    assert document["coordinators"] == [3, 1]
    assert (document["failover_ms"], document["kept_generation"]) == (5250, True)
