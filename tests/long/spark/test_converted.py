"""The output of `audit run` is an input like the folders it was made of, without Spark and with it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.long.spark.spark import NAMES
from tests.worlds.audit_folders import INCIDENTS, findings, folder
from tests.worlds.screened_findings import events_in
from tests.worlds.shell import Shell
from zkgroup.audit.findings.engine import ALL_RULES, audit
from zkgroup.audit.findings.rules import WholeRule
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.opening import open_source
from zkgroup.audit.inputs.source import PointInTime, Source
from zkgroup.errors import ConfigError, NotFoundError

WHOLE = {rule.name for rule in ALL_RULES if isinstance(rule, WholeRule)}


def _rows(source: Source, start: PointInTime | None, end: PointInTime | None) -> list[Event]:
    """The rows without what a server of 3.5 creates when it starts empty, as no record contains that."""
    return [row for row in events_in(source.rows(start, end)) if row.path != "/zookeeper/config"]


@pytest.mark.parametrize("chroot", ["", "/consumers"])
@pytest.mark.parametrize("name", NAMES)
def test_the_rows_are_those_of_the_files(audited: dict[str, Any], name: str, chroot: str) -> None:
    """The whole history, a range of zxids, one to the end, and a range of times."""
    tables = open_source([audited["output"]], chroot, ensemble=name)
    files = open_source([folder(name)], chroot)
    times = sorted(row.time_ms for row in events_in(files.rows()) if not row.seed)
    third, half = (PointInTime(time_ms=times[len(times) // part]) for part in (3, 2))

    for start, end in (
        (None, None),
        (PointInTime(0x80), PointInTime(0xD0)),
        (PointInTime(0xD0), None),
        (third, half),
    ):
        expected, found = files.rows(start, end), tables.rows(start, end)
        assert _rows(tables, start, end) == _rows(files, start, end)
        assert (found.seen.zxid, found.to_zxid) == (expected.seen.zxid, expected.to_zxid)
    assert tables.damages() == files.damages() == []


@pytest.mark.parametrize("name", NAMES)
def test_a_laptop_finds_the_same_without_the_files(audited: dict[str, Any], name: str) -> None:
    """Every rule about rows; rules that need the files themselves are reported as left out."""
    found = audit(open_source([audited["output"]], ensemble=name), ALL_RULES)

    assert {each.rule.name for each in found.skipped} == WHOLE
    assert found.findings == [each for each in findings(name) if each.finding not in WHOLE]


def test_the_job_asks_again_what_was_converted(spark: Any, audited: dict[str, Any], tmp_path: Path) -> None:
    """One ensemble by its name, beside a folder that is converted now; names have to differ."""
    from zkgroup.audit.spark.job import run

    healthy, output = NAMES[0], tmp_path / "out"
    inputs = [f"{INCIDENTS}={audited['output']}", f"now={folder(healthy)}"]
    found = {each.ensemble: each for each in run(spark, inputs, str(output))}

    assert set(found) == {INCIDENTS, "now"}
    assert {each.rule.name for each in found[INCIDENTS].found.skipped} == WHOLE
    assert found[INCIDENTS].found.findings == [
        each for each in findings(INCIDENTS) if each.finding not in WHOLE
    ]
    assert found["now"].found.findings == list(findings(healthy))
    assert {each.name for each in (output / "operations").glob("batch=*/*")} >= {"ensemble=now"}
    written = json.loads((output / "findings.json").read_text())
    assert {each["ensemble"] for each in written["ensembles"]} == {INCIDENTS, "now"}
    with pytest.raises(ConfigError, match=f"each ensemble once, found {healthy}"):
        run(spark, [str(audited["output"]), f"{healthy}={folder(healthy)}"], str(output))


def test_the_commands_take_it_as_their_input(audited: dict[str, Any], tmp_path: Path) -> None:
    """The documents equal those of the files; commands that need trees report it."""
    shell, output = Shell(tmp_path), str(audited["output"])
    tables, files = ("--input", output, "--ensemble", INCIDENTS), ("--input", str(folder(INCIDENTS)))
    of_one = ("--group", "g", "--partition", "t:0")
    for words in (("sessions",), ("offsets", *of_one), ("owners", *of_one, "--between", "0x80", "0xd0")):
        assert shell.json("audit", *words, *tables) == shell.json("audit", *words, *files)
    report = shell.json("audit", "report", str(tmp_path / "report.html"), *tables, code=3)
    again = shell.json("audit", "findings", *tables, code=3)
    tree = shell.run("audit", "tree", "--input", output)

    assert json.loads((tmp_path / "findings.json").read_text()) == again
    assert report["errors"] == sum(each["severity"] == "error" for each in again["findings"]) > 0
    assert tree.code == 2


def test_which_ensemble_is_meant_is_asked(audited: dict[str, Any], tmp_path: Path) -> None:
    """Several ensembles, a missing name, another input beside them, and a name for folders: exit code 2."""
    shell, output = Shell(tmp_path), str(audited["output"])
    words = ("audit", "findings", "--input")

    for given, told in (
        ((output,), "name one with --ensemble"),
        ((output, "--ensemble", "none"), f"expected ensemble 'none', found {', '.join(sorted(NAMES))}"),
        ((output, str(folder(INCIDENTS)), "--ensemble", INCIDENTS), "nothing beside it"),
        ((str(folder(INCIDENTS)), "--ensemble", INCIDENTS), "only Parquet of `audit run`"),
    ):
        ran = shell.run(*words, *given)
        assert (ran.code, ran.out) == (2, "")
        assert told in ran.err


def test_what_cannot_be_read_is_named(audited: dict[str, Any], tmp_path: Path) -> None:
    """A torn manifest, a file that is no Parquet, missing rows: an error of zkgroup with the path."""
    copy = tmp_path / "copy"
    shutil.copytree(audited["output"], copy)
    (manifest,) = (copy / "manifest").glob("*.json")
    some = sorted((copy / "operations").glob(f"batch=*/ensemble={INCIDENTS}/*/*/*.parquet"))
    whole = some[0].read_bytes()

    some[0].write_bytes(b"PAR1")
    with pytest.raises(ConfigError, match=f"{some[0].name}: expected Parquet"):
        events_in(open_source([copy], ensemble=INCIDENTS).rows())
    some[0].write_bytes(whole)
    for each in some:
        each.unlink()
    with pytest.raises(ConfigError, match=r"\.parquet: expected Parquet that `audit run` wrote"):
        events_in(open_source([copy], ensemble=INCIDENTS).rows())
    with pytest.raises(NotFoundError, match="no log goes back"):
        open_source([audited["output"]], ensemble=INCIDENTS).rows(end=PointInTime(time_ms=1))
    manifest.write_text("{")
    with pytest.raises(ConfigError, match=f"{manifest.name}: expected a manifest"):
        open_source([copy], ensemble=INCIDENTS)


def test_holes_are_damage(spark: Any, tmp_path: Path) -> None:
    """Records missing from the logs are missing from the tables, and reported as for the files."""
    from tests.worlds.server_history import ServerHistory
    from zkgroup.audit.spark.job import run

    data, output = tmp_path / "version-2", tmp_path / "out"
    world = ServerHistory()
    world.open(1)
    for number in range(6):
        world.create(f"/{number}", b"")
    world.log(data, to_zxid=3)
    world.log(data, from_zxid=6)
    run(spark, [str(data)], str(output), rules=ALL_RULES[:1])
    told = []
    for source in (open_source([data]), open_source([output])):
        events_in(source.rows())
        told.append(source.damages())

    assert told[0] == told[1] == ["zxids 0x4 to 0x5 are missing"]
