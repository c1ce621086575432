"""`zkgroup demo audit`: how its report becomes exit code and output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.real.cli.staged_demos import ended, staged
from tests.worlds.shell import Shell
from zkgroup.audit.answers.partitions import OwnerLife
from zkgroup.demo.audit import AuditRun, Planted
from zkgroup.demo.checks import CheckResult

RIGHT = CheckResult("the audit's errors are exactly what was planted", True, "zombie_commit at 0x41")
TITLE = "00:00:02 session …bc, which is no member, set the offset of demo's orders-9 back: offsets 292 → 146"
WRONG = CheckResult(
    "the audit's errors are exactly what was planted", False, "no error; missed: zombie_commit at 0x41"
)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Without an ensemble."""
    return Shell(tmp_path)


def report(check: CheckResult, page: Path, folder: Path | None = None) -> AuditRun:
    """A run with two planted writes and this verdict."""
    return ended(
        AuditRun,
        folder=folder,
        checks=(check,),
        planted=[Planted(1, "ada", 0xABC, 0x41, 255, 275), Planted(9, "cleo", 0xABC, 0x47, 292, 146)],
        severities={"error": 3, "info": 1},
        incidents=(TITLE,),
        lives={9: [OwnerLife("demo_cleo-0", 0xDEF, 0x26, 1_000, 0x89, 2_000, "release", 0xDEF)]},
        report=(page,),
        took_s=43.2,
    )


def stage(monkeypatch: pytest.MonkeyPatch, found: AuditRun) -> list[Any]:
    """The demo returns this run."""
    return staged(monkeypatch, found, "a foreign client writes")


def test_proved_demo_ends_with_0(shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Events on stderr; planted writes, owners and checks on stdout; where the report is on stderr."""
    options = stage(monkeypatch, report(RIGHT, tmp_path / "report.html"))
    ran = shell.run("demo", "audit")

    assert ran.code == 0
    assert "  1.5 s  a foreign client writes" in ran.err
    rows = [line.split() for line in ran.out.splitlines()]
    assert ["1", "ada", "255", "275", "0x41", "zombie_commit"] in rows
    assert ["9", "cleo", "292", "146", "0x47", "offset_regression,", "zombie_commit"] in rows
    owners = next(row for row in rows if "demo_cleo-0" in row)
    assert owners[2:4] == ["demo_cleo-0", "release"]
    assert "yes     the audit's errors are exactly what was planted  zombie_commit at 0x41" in ran.out
    assert (
        "3 errors, 0 warnings, 1 note in the files of a run of 43 s.\nThey are 1 incident and notes:\n"
        in ran.out
    )
    assert TITLE in " ".join(ran.out.split())
    assert f"report: {tmp_path / 'report.html'}" in ran.err
    assert "kept" not in ran.err
    assert [one.keep for one in options] == [False]


def test_on_80_columns_the_evidence_is_whole(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It goes on in further lines."""
    long = CheckResult("a statement", True, " ".join(f"{number} transactions" for number in range(9)))
    stage(monkeypatch, report(long, tmp_path / "report.html"))
    shell.environment["COLUMNS"] = "80"

    ran = shell.run("demo", "audit")

    assert max(map(len, ran.lines)) <= 80
    assert long.evidence in " ".join(ran.out.split())


def test_demo_that_found_something_else_ends_with_3(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A missed write stands in full; --keep prints where the files are."""
    options = stage(monkeypatch, report(WRONG, tmp_path / "report.html", tmp_path))
    ran = shell.run("demo", "audit", "--keep")

    assert ran.code == 3
    assert f"NOT PROVED: {WRONG.statement}\n{WRONG.evidence}\n" in ran.out
    assert f"zkgroup audit findings --input {tmp_path / 'zookeeper' / 'server-0'}" in ran.err
    assert [one.keep for one in options] == [True]


def test_report_for_programs(shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By its published schema."""
    stage(monkeypatch, report(WRONG, tmp_path / "report.html"))
    document = shell.json("demo", "audit", code=3)

    assert document["passed"] is False
    assert document["planted"][1] == {
        "findings": ["offset_regression", "zombie_commit"],
        "partition": 9,
        "owner": "cleo",
        "session": "0xabc",
        "zxid": 0x47,
        "before": 292,
        "after": 146,
    }
    assert document["findings"] == {"error": 3, "warning": 0, "info": 1}
    assert document["owners"][0]["ended_by"] == "release"
    assert document["report"] == [str(tmp_path / "report.html")]
