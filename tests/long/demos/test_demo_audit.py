"""`zkgroup demo audit` as a user runs it: its process, its exit code, its output, and nothing left."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import pytest
from zkgroup_cli.schemas import SCHEMAS

from tests.long.demos.demo_runs import demo
from tests.worlds.audit_folders import INCIDENTS, folder
from tests.worlds.cut_histories import write_tree
from tests.worlds.processes import violations
from zkgroup.audit.findings.engine import ALL_RULES, audit
from zkgroup.audit.inputs.opening import open_source
from zkgroup.demo.audit import AuditRun
from zkgroup.demo.run import DemoOptions
from zkgroup.zkfiles.history import History


def test_demo_finds_exactly_what_was_planted(tmp_path: Path) -> None:
    """Every check holds, and an audit of the files that --keep keeps has the same findings."""
    done = demo("demo", "audit", "--keep", "--format", "json", folder=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert violations(report, SCHEMAS["zkgroup.demo_audit/1"]) == []
    assert report["passed"] is True
    assert len(report["checks"]) == 10
    assert [check["statement"] for check in report["checks"] if not check["holds"]] == []
    commit, rewind = report["planted"]
    assert (commit["owner"], commit["findings"]) == ("ada", ["zombie_commit"])
    assert (rewind["owner"], rewind["findings"]) == ("cleo", ["offset_regression", "zombie_commit"])
    assert commit["before"] < commit["after"]
    assert rewind["before"] > rewind["after"] == rewind["before"] // 2
    assert report["findings"]["error"] == 3
    assert report["partition"] == rewind["partition"]
    # before all members had joined, another may have owned the partition
    at_rewind = [
        one["owner"]
        for one in report["owners"]
        if one["from_zxid"] < rewind["zxid"] and (one["to_zxid"] is None or rewind["zxid"] < one["to_zxid"])
    ]
    assert at_rewind == ["demo_cleo-0"]
    kept = Path(report["kept"])
    found = audit(open_source([kept / "zookeeper" / "server-0"]), ALL_RULES).findings
    assert [(one.finding, one.from_zxid, one.partition) for one in found if one.severity == "error"] == [
        ("zombie_commit", commit["zxid"], commit["partition"]),
        ("offset_regression", rewind["zxid"], rewind["partition"]),
        ("zombie_commit", rewind["zxid"], rewind["partition"]),
    ]
    of_exports = audit(open_source([kept / "exports"]), ALL_RULES).findings
    assert {(one.finding, one.partition) for one in of_exports if one.severity == "error"} <= {
        (one.finding, one.partition) for one in found
    }
    page = kept / "report.html"
    assert report["report"][0] == str(page)
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert f"report: {page}" in done.stderr


def test_only_the_report_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --keep only the report stays, in a folder of its own. The run is one that was recorded."""

    files = tmp_path / "files"
    run = AuditRun(options=DemoOptions(), show=lambda _: None, folder=files, group="g")
    run.stop = lambda: None
    shutil.copytree(folder(INCIDENTS), files / "zookeeper" / "server-0")
    write_tree(files / "exports" / "one.gz", History(folder(INCIDENTS)).tree_at().tree)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    list(run.judge())

    shutil.rmtree(files)
    (left,) = tmp_path.iterdir()
    assert run.kept is None
    assert run.report[0] == left / "report.html"
    assert {"report.html", "findings.json"} <= {path.name for path in left.iterdir()}
