"""`zkgroup audit report`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.real.cli.audit.golden import INCIDENTS, V394, copy
from tests.worlds.made_reports import data_in
from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell
from zkgroup.audit.report import writing
from zkgroup.audit.report.tables import FINDINGS, TABLES
from zkgroup.model.requests import Create
from zkgroup.zkfiles.arrow import schema


def _report(shell: Shell, output: Path, *words: str, code: int = 3) -> dict[str, object]:
    return shell.json("audit", "report", str(output), *words, code=code)


def test_the_findings_beside_it_are_those_of_the_command(lone_shell: Shell, tmp_path: Path) -> None:
    """`findings.json` is the document of `audit findings`, word for word; Parquet has the same rows."""
    output = tmp_path / "report.html"

    found = _report(lone_shell, output, "--input", str(INCIDENTS))
    findings = lone_shell.json("audit", "findings", "--input", str(INCIDENTS), code=3)

    assert json.loads((tmp_path / "findings.json").read_text(encoding="utf-8")) == findings
    severities = [one["severity"] for one in findings["findings"]]
    assert (found["errors"], found["warnings"], found["notes"]) == tuple(
        map(severities.count, ("error", "warning", "info"))
    )
    data = data_in(output.read_text(encoding="utf-8"))
    assert data["findings"]["counts"] == [found["errors"], found["warnings"], found["notes"]]
    names = ["findings.json", writing.PARQUET, *(f"{name}.parquet" for name in TABLES), "report.html"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    table = pq.read_table(tmp_path / writing.PARQUET)
    assert table.schema.equals(schema(FINDINGS))
    rows = table.to_pylist()
    for row, one in zip(rows, findings["findings"], strict=True):
        same = [key for key in one if key not in ("from", "to")]
        assert [row[key] for key in same] == [one[key] for key in same]


def test_the_tables_beside_it_are_the_output_of_the_commands(lone_shell: Shell, tmp_path: Path) -> None:
    """Ownerships of a partition, every write of an offset, every session; explicit types, times in UTC."""
    words = ("--input", str(INCIDENTS))
    of_one = ("--group", "g", "--partition", "t:0")
    _report(lone_shell, tmp_path / "report.html", *words)
    read = {name: pq.read_table(tmp_path / f"{name}.parquet") for name in TABLES}
    rows = {name: table.to_pylist() for name, table in read.items()}

    def same(table: str, expected: list[dict[str, Any]], keys: tuple[str, ...], **only: object) -> None:
        found = [row for row in rows[table] if only.items() <= row.items()]
        assert [tuple(row[key] for key in keys) for row in found] == [
            tuple(one[key] for key in keys) for one in expected
        ]
        assert found

    owners = lone_shell.json("audit", "owners", *words, *of_one)["intervals"]
    offsets = lone_shell.json("audit", "offsets", *words)["offsets"]
    sessions = lone_shell.json("audit", "sessions", *words)["sessions"]
    span = ("from_zxid", "to_zxid")
    same("owners", owners, ("owner", "session", *span, "ended_by"), group="g", topic="t", partition=0)
    rows["offsets"].sort(key=lambda row: row["zxid"])
    same("offsets", offsets, ("group", "topic", "partition", "zxid", "kind", "owned", "owner", "rewind"))
    same("sessions", sessions, ("session", *span, "ended", "writes", "created", "controller"))
    assert [row["from"].isoformat(timespec="milliseconds") for row in rows["sessions"] if row["from"]] == [
        one["from"].replace("Z", "+00:00") for one in sessions if one["from"]
    ]
    page = data_in((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert sorted(row["from_zxid"] for row in rows["rebalances"]) == sorted(
        int(one["zxids"][0], 16) for one in page["rebalances"]["rows"]
    )
    for name, columns in TABLES.items():
        assert read[name].schema.names == [column.name for column in columns]


def test_only_a_stretch_and_a_group(lone_shell: Shell, tmp_path: Path) -> None:
    """The page says what was asked for, and has nothing else."""
    output = tmp_path / "report.html"

    _report(lone_shell, output, "--input", str(INCIDENTS), "--group", "g", "--from", "0x80", "--to", "0x9f")
    data = data_in(output.read_text(encoding="utf-8"))

    assert data["group"] == "g"
    assert {data["names"][row[0]] for row in data["owners"]["rows"]} == {"g"}
    assert (data["zxids"][0], data["stands_on"][0]) == ("0x80", "0x7f")
    assert 0x80 < int(data["zxids"][1], 16) <= 0x9F


def test_what_is_there_is_not_overwritten_unasked(lone_shell: Shell, tmp_path: Path) -> None:
    """Not before the work and not behind it; with --overwrite it is."""
    beside = tmp_path / "findings.json"
    beside.write_text("mine")
    words = ("audit", "report", str(tmp_path / "report.html"), "--input", str(INCIDENTS))

    refused = lone_shell.run(*words)

    assert refused.code == 2
    assert "findings.json" in refused.err
    assert "--overwrite" in refused.err
    assert (beside.read_text(), len(list(tmp_path.iterdir()))) == ("mine", 1)
    assert lone_shell.run(*words, "--overwrite").code == 3
    assert beside.read_text() != "mine"


def test_two_reports_fit_into_one_folder(lone_shell: Shell, tmp_path: Path) -> None:
    """With --data-dir the files beside a page have a folder of their own; it must be there."""
    (tmp_path / "second").mkdir()
    words = ("--input", str(INCIDENTS), "--group", "idle")
    first = _report(lone_shell, tmp_path / "one.html", *words)
    second = _report(lone_shell, tmp_path / "two.html", *words, "--data-dir", str(tmp_path / "second"))

    paths = [[Path(each["path"]).relative_to(tmp_path) for each in one["files"]] for one in (first, second)]  # type: ignore[attr-defined]
    assert [path.name for path in paths[1][1:]] == [path.name for path in paths[0][1:]]
    assert (paths[1][0], {path.parent.name for path in paths[1][1:]}) == (Path("two.html"), {"second"})
    absent = lone_shell.run(
        "audit", "report", str(tmp_path / "three.html"), *words, "--data-dir", str(tmp_path / "absent")
    )
    assert absent.code == 2
    assert "absent" in absent.err
    again = lone_shell.run("audit", "report", str(tmp_path / "four.html"), *words)
    assert (again.code, "--data-dir" in again.err, (tmp_path / "four.html").exists()) == (2, True, False)


def test_evidence_stays_as_it_is(lone_shell: Shell, tmp_path: Path) -> None:
    """No report among the files that are read."""
    folder = copy(V394, tmp_path / "server")
    before = sorted(folder.iterdir())

    ran = lone_shell.run("audit", "report", str(folder / "report.html"), "--input", str(folder))

    assert ran.code == 2
    assert "among the files" in ran.err
    assert sorted(folder.iterdir()) == before


def test_where_it_cannot_be_written(lone_shell: Shell, tmp_path: Path) -> None:
    """No folder: an error before anything is read."""
    ran = lone_shell.run("audit", "report", str(tmp_path / "none" / "report.html"), "--input", str(V394))

    assert ran.code == 2
    assert "expected a folder" in ran.err


def test_a_failed_report_leaves_no_temporary_files(
    lone_shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables are written while the rows are read; a page that cannot be made takes them with it."""

    def broken(data: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing, "page", broken)
    output = tmp_path / "out" / "report.html"
    output.parent.mkdir()

    ran = lone_shell.run("audit", "report", str(output), "--input", str(V394))

    assert ran.code == 2
    assert f"{output}: cannot be written: No space left on device" in ran.err
    assert list(output.parent.iterdir()) == []


def test_a_damaged_file_is_named_in_the_page(lone_shell: Shell, tmp_path: Path) -> None:
    """Exit 3, and the file stands in the list as damaged; what is good before it is there."""
    folder = copy(INCIDENTS, tmp_path / "server")
    log = next(path for path in sorted(folder.iterdir()) if path.name.startswith("log."))
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 0xFF
    log.write_bytes(content)
    output = tmp_path / "report.html"

    _report(lone_shell, output, "--input", str(folder))
    data = data_in(output.read_text(encoding="utf-8"))

    assert [path.rsplit("/", 1)[-1] for path, _, _, healthy, *_ in data["files"] if not healthy] == [log.name]
    assert data["damage"]


def test_a_living_ensemble_has_a_report(shell: Shell, groups: ServerGroups, tmp_path: Path) -> None:
    """One tree: owners and offsets now; the page names what needs a log and is left out."""
    groups.parents("g")
    groups.zk.multi(
        Create("/consumers/g/owners/t", b""),
        Create("/consumers/g/offsets/t", b""),
        Create("/consumers/g/offsets/t/0", b"42"),
        Create("/consumers/g/owners/t/0", b"g_gone-0", ephemeral=True),
    )
    output = tmp_path / "report.html"

    ran = shell.run("audit", "report", str(output))
    found = shell.run("audit", "findings", "--format", "json").document
    data = data_in(output.read_text(encoding="utf-8"))
    written = json.loads((tmp_path / "findings.json").read_text(encoding="utf-8"))

    errors = [one["finding"] for one in found["findings"] if one["severity"] == "error"]
    assert ran.code == (3 if errors else 0)
    assert [one["finding"] for one in written["findings"]] == [one["finding"] for one in found["findings"]]
    assert (data["has_log"], data["files"], data["inputs"]) == (False, [], ["the live ensemble"])
    assert [data["names"][row[3][0][2]] for row in data["owners"]["rows"]] == ["g_gone-0"]
    assert [row[5] for row in data["offsets"]["rows"]] == [[42]]
    assert {reason for _, reason in data["findings"]["skipped"]} == {"needs a log"}
