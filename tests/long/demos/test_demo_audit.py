"""`zkgroup demo audit` as a user runs it: its process, its exit code, its output, and nothing left."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from zkgroup_cli.schemas import SCHEMAS

from tests.long.demos.demo_runs import demo
from tests.worlds.audit_folders import INCIDENTS, folder
from tests.worlds.processes import violations
from zkgroup.audit.findings.all_rules import ALL_RULES
from zkgroup.audit.findings.engine import audit
from zkgroup.audit.inputs.opening import open_source
from zkgroup.demo import audit as audit_demo
from zkgroup.demo.audit import PlantedGroup
from zkgroup.demo.stage import DemoOptions, ProgressEvent

if TYPE_CHECKING:
    from zkgroup.groups.ensemble import Ensemble


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
    page = kept / "report.html"
    assert report["report"][0] == str(page)
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert f"report: {page}" in done.stderr


class Unwatched:
    """A screen that shows nothing."""

    def on_event(self, event: ProgressEvent) -> None:
        pass

    def show(self, stage: PlantedGroup) -> None:
        pass


def test_only_the_report_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --keep only the report stays, in a folder of its own. The run is one that was recorded."""

    def recorded(stage: PlantedGroup) -> SimpleNamespace:
        shutil.copytree(folder(INCIDENTS), stage.folder / "zookeeper" / "server-0")
        stage.group = "g"
        return SimpleNamespace(checks=())

    @contextmanager
    def opened(*given: Any) -> Iterator[PlantedGroup]:
        _, options, screen = given
        files = tmp_path / "files"
        stage = PlantedGroup(options=options, screen=screen, folder=files)
        stage.ensemble = cast("Ensemble", SimpleNamespace(as_of=lambda: None))
        stage.close_all = lambda: None
        yield stage
        shutil.rmtree(files)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(audit_demo, "opened", opened)
    monkeypatch.setattr(PlantedGroup, "play", recorded)

    report = audit_demo.run(DemoOptions(), Unwatched())

    (left,) = tmp_path.iterdir()
    assert report.folder is None
    assert report.report[0] == left / "report.html"
    assert {"report.html", "findings.json"} <= {path.name for path in left.iterdir()}
