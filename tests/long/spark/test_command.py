"""`zkgroup audit run`, in the session of the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.audit_folders import HEALTHY, INCIDENTS, findings, folder
from tests.worlds.shell import Shell
from zkgroup.audit.inputs import source


def test_findings_of_a_folder_with_faults_end_with_code_3(spark: Any, tmp_path: Path) -> None:
    """The document on stdout is the one in the folder; the session that was open stays open."""
    assert spark.version
    only = "zombie_commit,offset_regression"
    words = ("--input", f"x={folder(INCIDENTS)}", "--output", str(tmp_path / "out"), "--only", only)
    document = Shell(tmp_path).json("audit", "run", *words, code=3)

    names = only.split(",")
    assert [each["finding"] for each in document["findings"]] == [
        each.finding for each in findings(INCIDENTS) if each.finding in names
    ]
    assert {each["ensemble"] for each in document["findings"]} == {"x"}
    assert json.loads((tmp_path / "out" / "findings.json").read_text()) == document
    assert spark.range(1).count() == 1


def test_what_to_do_next_is_said(spark: Any, tmp_path: Path) -> None:
    """How incidents are read, ensembles named, a misspelt chroot noticed, and a damaged output made anew."""
    assert spark.version
    shell, out = Shell(tmp_path), tmp_path / "out"

    def ran(code: int, *inputs: Path, more: tuple[str, ...] = ()) -> str:
        words = [word for each in inputs for word in ("--input", str(each))]
        ended = shell.run("audit", "run", *words, "--output", str(out), *more)
        assert ended.code == code
        return ended.err

    first, other = folder(INCIDENTS), folder(HEALTHY[0])
    assert f"incidents as text: zkgroup audit findings --input {out}\n" in ran(3, first)
    assert "or give each ensemble a NAME of its own" in ran(2, first, other)
    misspelt = ran(0, first, more=("--chroot", "/kafak", "--only", "open_acl"))
    assert "no topic, member, broker or controller is below the chroot /kafak" in misspelt
    (file, *_) = sorted(out.glob("operations/**/bucket=cluster/*.parquet"))
    file.unlink()
    assert f"error: {file}: expected Parquet that `audit run` wrote, found nothing; convert" in ran(2, first)


def test_what_spark_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is started, with the command that installs it."""
    monkeypatch.setattr(source, "find_spec", lambda name: None if name == "pyarrow" else name)
    ran = Shell(tmp_path).run("audit", "run", "--input", str(tmp_path), "--output", str(tmp_path / "out"))

    assert ran.code == 2
    assert "pyarrow" in ran.err
    assert "pip install 'zkgroup[spark]'" in ran.err
    assert not (tmp_path / "out").exists()
