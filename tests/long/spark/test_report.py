"""`audit report --spark`: the same report as without Spark, computed in Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.audit_folders import HEALTHY, INCIDENTS, folder
from tests.worlds.made_reports import data_in
from tests.worlds.shell import Shell
from zkgroup.audit.inputs.opening import open_source
from zkgroup.audit.inputs.source import PointInTime
from zkgroup.audit.report.tables import TABLES
from zkgroup.audit.report.writing import report_of
from zkgroup.errors import NotFoundError

NARROWED: dict[str, Any] = {"start": PointInTime(0x80), "end": PointInTime(0xD0), "group": "g"}


def _of_a_laptop(paths: list[Path], *, ensemble: str | None = None, **narrowed: Any) -> dict[str, Any]:
    return report_of(open_source(paths, ensemble=ensemble), paths, **narrowed).data


def test_the_report_of_folders_is_that_of_a_laptop(spark: Any) -> None:
    """All of its data: findings, timelines, curves, load, sessions, health of files."""
    from zkgroup.audit.spark.job import report

    for name, narrowed in ((INCIDENTS, {}), (INCIDENTS, NARROWED), (HEALTHY[1], {})):
        expected = _of_a_laptop([folder(name)], **narrowed)
        assert report(spark, [str(folder(name))], **narrowed).data == expected


def test_a_mistyped_group_is_not_taken_for_a_quiet_one(spark: Any) -> None:
    """As without Spark: the existing groups are named."""
    from zkgroup.audit.spark.job import report

    with pytest.raises(
        NotFoundError, match="/consumers/none: there was no such group; those that were: adopt, g, "
    ):
        report(spark, [str(folder(INCIDENTS))], group="none")


def test_the_report_of_converted_logs_is_that_of_a_laptop(spark: Any, audited: dict[str, Any]) -> None:
    """The whole of it, a range of zxids, and a range of times."""
    from zkgroup.audit.spark.job import report

    output = audited["output"]
    times = {"start": PointInTime(time_ms=1795219223848), "end": PointInTime(time_ms=1795219242414)}
    for narrowed in ({}, NARROWED, times):
        expected = _of_a_laptop([output], ensemble=INCIDENTS, **narrowed)
        assert report(spark, [str(output)], ensemble=INCIDENTS, **narrowed).data == expected


def test_holes_and_damage_are_reported_as_without_spark(spark: Any, tmp_path: Path) -> None:
    """A wrong byte in the middle of a log: its place, and the zxids that are missing behind it."""
    from tests.worlds.server_history import ServerHistory
    from zkgroup.audit.spark.job import report

    data = tmp_path / "version-2"
    world = ServerHistory()
    world.open(1)
    for number in range(8):
        world.create(f"/{number}", b"x" * 50)
    world.log(data, to_zxid=5)
    world.log(data, from_zxid=7)
    log = bytearray((data / "log.1").read_bytes())
    log[-20] ^= 1
    (data / "log.1").write_bytes(log)

    told = report(spark, [str(data)])

    assert told.data == _of_a_laptop([data])
    assert any("log.1, byte" in text for text in told.damages)
    assert any("are missing" in text for text in told.damages)


def test_the_command_writes_the_same_files(spark: Any, tmp_path: Path) -> None:
    """The page and the findings; a running ensemble has no logs for it, and Spark's options need Spark."""
    from pyarrow.parquet import read_table

    assert spark.version
    shell, data = Shell(tmp_path), ("--input", str(folder(INCIDENTS)))
    (tmp_path / "spark").mkdir()
    (tmp_path / "laptop").mkdir()
    told = [
        shell.json("audit", "report", str(tmp_path / name / "r.html"), *data, *words, code=3)
        for name, words in (("spark", ("--spark",)), ("laptop", ()))
    ]
    read = [(tmp_path / name / "findings.json").read_text() for name in ("spark", "laptop")]
    pages = [data_in((tmp_path / name / "r.html").read_text()) for name in ("spark", "laptop")]

    assert told[0]["errors"] == told[1]["errors"] > 0
    assert json.loads(read[0]) == json.loads(read[1])
    assert pages[0] == pages[1]
    for table in TABLES:
        found = [read_table(tmp_path / name / f"{table}.parquet") for name in ("spark", "laptop")]
        assert found[0].equals(found[1])
    for words, why in (
        (("--spark", "-z", "localhost:1"), "--spark is for --input"),
        ((*data, "--master", "local[1]"), "are for --spark"),
        ((*data, "--spark", "-z", "localhost:1"), "exclude each other"),
    ):
        ran = shell.run("audit", "report", str(tmp_path / "r.html"), *words)
        assert ran.code == 2
        assert why in ran.err
