"""`zkgroup demo brokers`: how its report becomes exit code and output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.real.cli.staged_demos import ended, staged
from tests.worlds.shell import Shell
from zkgroup.clients.producer import DeliveryReport, Outcome
from zkgroup.demo.brokers import BrokersRun
from zkgroup.demo.checks import CheckResult
from zkgroup.demo.clients_step import ClientIO, SegmentDump
from zkgroup.demo.flight_data import Processed, reduce
from zkgroup.demo.kafka_clients import ClientRecord, LeftOut
from zkgroup.history import ClusterFigures, ClusterReport

RIGHT = CheckResult("nothing is stuck", True, "all led")
WRONG = CheckResult("one controller an epoch", False, "epoch 2: brokers 3 and 4")
RECORD = ClientRecord(b"k", b"v")
BATCHES = tuple(
    f"baseOffset: {n} lastOffset: {n} count: 1 producerId: {n % 2} magic: 2 isvalid: true" for n in range(3)
)
CLIENT = ClientIO(
    "kafka-python", "3.0.12", [RECORD] * 1000, list(range(1000)), dict.fromkeys(range(1000), RECORD)
)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Without an ensemble."""
    return Shell(tmp_path)


def report(*checks: CheckResult, folder: Path | None = None) -> BrokersRun:
    figures = ClusterFigures(transactions=500, elections=3, moves_begun=48, moves_ended=48)
    return ended(
        BrokersRun,
        folder=folder,
        checks=checks,
        log_figures=figures,
        deliveries=[DeliveryReport(number, 0, Outcome.ACKNOWLEDGED, number) for number in range(20_000)],
        values={0: (b"v",) * 20_008},
        reduction=reduce({"ada": [Processed(0, offset, "ORD", 1, 1) for offset in range(20_008)]}),
        epochs=3,
        clients=[CLIENT],
        left_out=[LeftOut("aiokafka", "not installed: pip install aiokafka")],
        dump=SegmentDump("broker 1's clients-0/0.log", BATCHES),
        took_s=55.5,
        failovers_s=(4.25, 4.5),
        moved=48,
    )


def stage(monkeypatch: pytest.MonkeyPatch, found: BrokersRun) -> list[Any]:
    """The demo returns this run."""
    return staged(monkeypatch, found, "a broker starts")


def test_proved_demo_ends_with_0(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events on stderr, checks and figures on stdout."""
    options = stage(monkeypatch, report(RIGHT))
    ran = shell.run("demo", "brokers")

    assert ran.code == 0
    assert "  1.5 s  a broker starts" in ran.err
    assert "yes     nothing is stuck  all led" in ran.out
    assert "20,008 in the logs, all consumed: the producer is idempotent, and 8 are in a log twice" in ran.out
    assert "kafka-python  3.0.12      1,000  1,000" in ran.out
    assert "left out: aiokafka (not installed: pip install aiokafka)" in ran.out
    assert f"by Kafka's DumpLogSegments\n{BATCHES[0]}\n{BATCHES[1]}\nand 1 more\n" in ran.out
    assert "kept" not in ran.err
    assert [one.keep for one in options] == [False]


def test_demo_that_proved_nothing_ends_with_3(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A check that does not hold is printed once more in full; --keep prints where the files are."""
    options = stage(monkeypatch, report(RIGHT, WRONG, folder=tmp_path))
    ran = shell.run("demo", "brokers", "--keep")

    assert ran.code == 3
    assert "NOT PROVED: one controller an epoch\nepoch 2: brokers 3 and 4\n" in ran.out
    assert f"zkgroup zookeeper start --servers 3 --data {tmp_path / 'zookeeper'}" in ran.err
    assert [one.keep for one in options] == [True]


def test_report_for_programs(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its published schema."""
    stage(monkeypatch, report(RIGHT, WRONG))
    document = shell.json("demo", "brokers", code=3)

    assert document["passed"] is False
    assert document["checks"][1] == {
        "statement": "one controller an epoch",
        "holds": False,
        "evidence": "epoch 2: brokers 3 and 4",
    }
    assert document["failovers_ms"] == [4250, 4500]
    assert document["may_be_repeated"] == 8
    assert document["history"]["moves_ended"] == 48
    assert document["clients"] == [
        {"client": "kafka-python", "version": "3.0.12", "produced": 1000, "read": 1000}
    ]
    assert document["clients_left_out"] == [
        {"client": "aiokafka", "reason": "not installed: pip install aiokafka"}
    ]
    assert document["segment"] == {"file": "broker 1's clients-0/0.log", "batches": [*BATCHES]}


@pytest.mark.parametrize(("held", "holds"), [(20_000, True), (20_008, False), (19_999, False)])
def test_each_acknowledged_record_is_in_the_log_once(held: int, holds: bool) -> None:
    """A record that is held and was not acknowledged breaks the statement about the logs."""
    found = report()
    found.values = {0: (b"v",) * held}
    figures = ClusterFigures(acknowledged_records=20_000)
    acknowledged, logs = found.check_records(ClusterReport((), frozenset(), figures))

    assert acknowledged.holds
    assert logs.holds == holds
    assert ("20,000 were acknowledged" in logs.evidence) != holds


def test_a_run_that_could_not_start_is_closed() -> None:
    """Its cause is not hidden by what was not there yet."""
    report().close()
