"""`zkgroup demo`: how its report becomes exit code and output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.real.cli.staged_demos import ended, staged
from tests.worlds.shell import Shell
from zkgroup.demo.checks import CheckResult
from zkgroup.demo.flight_data import Processed, reduce
from zkgroup.demo.group import GroupRun
from zkgroup.history import Figures

RIGHT = CheckResult("every record was processed", True, "20,000 of 20,000")
WRONG = CheckResult("every record was processed", False, "19,998 of 20,000; missing 9:7, 9:8")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Without an ensemble."""
    return Shell(tmp_path)


def report(*checks: CheckResult, folder: Path | None = None, given: str | None = None) -> GroupRun:
    records = [Processed(0, offset, "ORD", 15, 1) for offset in range(20_000)]
    return ended(
        GroupRun,
        folder=folder,
        given=given,
        checks=checks,
        reduction=reduce({"ada": records, "ben": records[:7]}),
        took_s=35.5,
        figures=Figures(deliveries=20_007, commits=300, ownership_changes=20),
        takeover_s=4.25,
    )


def stage(monkeypatch: pytest.MonkeyPatch, found: GroupRun) -> list[Any]:
    """The demo returns this run."""
    return staged(monkeypatch, found, "every partition has an owner")


def test_proved_demo_ends_with_0(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events on stderr, airports, checks and figures on stdout; the environment's ensemble is not used."""
    options = stage(monkeypatch, report(RIGHT))
    ran = shell.run("demo", env={"ZKGROUP_ZOOKEEPER": "nowhere.invalid:1"})

    assert ran.code == 0
    assert "  1.5 s  every partition has an owner" in ran.err
    assert ["ORD", "20000", "15.0"] in [line.split() for line in ran.lines]
    assert "yes     every record was processed" in ran.out
    assert "20,000 records in 36 s, 7 of them twice." in ran.out
    assert "kept" not in ran.err
    assert [(one.keep, one.zookeeper) for one in options] == [(False, None)]


def test_demo_that_proved_nothing_ends_with_3(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A check that does not hold is printed once more in full; --keep prints where the files are."""
    options = stage(monkeypatch, report(WRONG, folder=tmp_path))
    ran = shell.run("demo", "group", "--keep")

    assert ran.code == 3
    assert "NO      every record was processed" in ran.out
    assert f"NOT PROVED: every record was processed\n{WRONG.evidence}\n" in ran.out
    assert f"inspect it: zkgroup zookeeper start --data {tmp_path / 'zookeeper'}" in ran.err
    assert [one.keep for one in options] == [True]


def test_an_existing_ensemble_is_used_as_it_is(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With -z the demo uses that ensemble, and its last lines start no server."""
    options = stage(monkeypatch, report(RIGHT, folder=tmp_path, given="127.0.0.1:1"))
    ran = shell.run("-z", "127.0.0.1:1", "demo", "--keep")

    assert ran.code == 0
    assert "zookeeper start" not in ran.err
    assert "then: zkgroup -z 127.0.0.1:1 offsets show demo" in ran.err
    assert [one.zookeeper for one in options] == ["127.0.0.1:1"]


def test_report_for_programs(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its published schema."""
    stage(monkeypatch, report(RIGHT, WRONG))
    document = shell.json("demo", code=3)

    assert document["passed"] is False
    assert [one["holds"] for one in document["checks"]] == [True, False]
    assert (document["records"], document["twice"], document["takeover_ms"]) == (20_000, 7, 4250)
    assert document["history"]["deliveries"] == 20_007
    assert document["airports"] == [{"airport": "ORD", "flights": 20_000, "delay_minutes": 300_000}]


@pytest.mark.parametrize(
    "options",
    [("--zk-digest-file", "digest"), ("--zk-tls-ca", "ca"), ("--profile", "prod")],
    ids=lambda options: options[0],
)
def test_demo_refuses_what_its_own_server_does_not_know(shell: Shell, options: tuple[str, str]) -> None:
    """How to connect is for an existing ensemble; without -z it is refused by name, not ignored."""
    ran = shell.run(*options, "demo")

    assert ran.code == 2
    assert f"{options[0]}: only with -z" in ran.err
