"""The job in Spark: its findings equal the local ones, on paths and on any filesystem of Hadoop."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.long.spark.spark import NAMES
from tests.worlds.audit_folders import INCIDENTS, findings, folder, source
from tests.worlds.bucket_findings import assert_same
from tests.worlds.cut_histories import cuts_of, history_of, write_mixture, write_series
from tests.worlds.screened_findings import events_in
from zkgroup.audit.findings.engine import ALL_RULES, RULES, audit
from zkgroup.audit.findings.rules import WholeRule
from zkgroup.audit.inputs.facts import facts_of
from zkgroup.audit.inputs.manifest import Folder, OutputFolder
from zkgroup.audit.inputs.opening import open_source
from zkgroup.audit.inputs.source import PointInTime
from zkgroup.errors import ConfigError, NotFoundError


@pytest.mark.parametrize("name", NAMES)
def test_spark_finds_what_the_laptop_finds(audited: dict[str, Any], name: str) -> None:
    """Every field of every finding of every rule, on real histories with and without lists of ephemerals."""
    assert audited[name].found.findings == list(findings(name))
    assert audited[name].found.skipped == []


@pytest.mark.parametrize("name", NAMES)
def test_the_facts_are_those_of_all_rows(audited: dict[str, Any], name: str) -> None:
    """The few rows that are collected give the same facts as a pass over all rows."""
    assert audited[name].found.facts == facts_of(events_in(source(name).rows()))


def test_the_answers_are_written(spark: Any, audited: dict[str, Any]) -> None:
    """As JSON, and as Parquet with the same rows."""
    written = json.loads((audited["output"] / "findings.json").read_text())
    counts = dict(Counter(each["ensemble"] for each in written["findings"]))
    rows = spark.read.parquet(str(audited["output"] / "findings")).groupBy("ensemble").count().collect()

    assert counts == {name: len(findings(name)) for name in NAMES}
    assert {row["ensemble"]: row["count"] for row in rows} == counts


def test_any_filesystem_of_hadoop_has_inputs_and_the_output(spark: Any, tmp_path: Path) -> None:
    """Of a name that only the JVM knows: contents travel through Spark, in both steps and from day to day."""
    from zkgroup.audit.spark.job import run

    shutil.copytree(folder(INCIDENTS), tmp_path / "data" / "version-2")
    configuration = spark._jsc.hadoopConfiguration()
    configuration.set("fs.viewfs.mounttable.audit.link./data", (tmp_path / "data").as_uri())
    configuration.set("fs.viewfs.mounttable.audit.link./out", (tmp_path / "out").as_uri())
    (tmp_path / "out").mkdir()
    inputs, output = ["x=viewfs://audit/data"], "viewfs://audit/out"
    (audited,) = run(spark, inputs, output)
    start = PointInTime(0xD0)
    (later,) = run(spark, inputs, output, rules=RULES, start=start)

    whole = {rule.name for rule in ALL_RULES if isinstance(rule, WholeRule)}
    assert {each.rule.name for each in audited.found.skipped} == whole
    assert audited.found.findings == [each for each in findings(INCIDENTS) if each.finding not in whole]
    assert later.found.findings == audit(source(INCIDENTS), RULES, start=start).findings
    written = json.loads((tmp_path / "out" / "findings.json").read_text())
    assert len(written["findings"]) == len(later.found.findings)


_TREE_AT = """
    SELECT path, data FROM (
        SELECT *, row_number() OVER (PARTITION BY path ORDER BY snapshot_zxid DESC) AS place
        FROM znodes WHERE snapshot_zxid <= {zxid}
    ) WHERE place = 1 AND is_there
"""


def test_a_series_on_any_filesystem_has_the_findings_of_the_laptop(spark: Any, tmp_path: Path) -> None:
    """A glob of a name that only the JVM knows, in two jobs, with a damaged file; SQL has each tree."""
    from zkgroup.audit.spark.job import run

    world, data, out = history_of(5), tmp_path / "data", tmp_path / "out"
    files = sorted(write_series(data, world, cuts_of(5, world, 14), random.Random(5)).iterdir())
    out.mkdir()
    whole = open_source([data])
    expected = audit(whole, ALL_RULES).findings
    configuration = spark._jsc.hadoopConfiguration()
    for folder_ in (data, out):
        configuration.set(f"fs.viewfs.mounttable.series.link./{folder_.name}", folder_.as_uri())
    late = [shutil.move(file, tmp_path / file.name) for file in files[:2]]
    (data / "damaged.zkexport").write_bytes(late[0].read_bytes()[:-20])
    run(spark, ["x=viewfs://series/data"], "viewfs://series/out")
    for file in late:
        shutil.move(file, data)

    (audited,) = run(spark, ["x=viewfs://series/data/*"], "viewfs://series/out")
    with pytest.raises(NotFoundError, match="no such group; those that were: g, h"):
        run(spark, ["x=viewfs://series/data"], "viewfs://series/out", group="k")

    assert audited.found.findings == expected
    (damage,) = audited.damages
    assert "series/data/damaged.zkexport: " in damage
    stored = OutputFolder(Folder(str(out))).files("znodes", "x")
    paths = [str(out / file.name) for file in stored]
    spark.read.option("basePath", str(out / "znodes")).parquet(*paths).createOrReplaceTempView("znodes")
    (series,) = whole.series
    for snapshot in series.snapshots:
        rows = spark.sql(_TREE_AT.format(zxid=snapshot.zxid)).collect()
        assert {(path, data and bytes(data)) for path, data in rows} == {
            (znode.path, znode.data) for znode in series.tree(snapshot.number)
        }


def test_logs_and_exports_have_the_findings_of_the_laptop(spark: Any, tmp_path: Path) -> None:
    """The tree at the end of the logs, with which later exports are compared, reaches a task."""
    from zkgroup.audit.spark.job import run

    write_mixture(4, tmp_path / "all")
    places = [tmp_path / "all" / name for name in ("server", "series")]

    (audited,) = run(spark, [f"x={each}" for each in places], str(tmp_path / "out"))

    assert audited.found.findings == audit(open_source(places), ALL_RULES).findings


def test_a_random_history_has_the_findings_of_the_laptop(spark: Any, tmp_path: Path) -> None:
    """Through Spark's own workers; tests/real/spark/test_buckets.py has more."""
    assert len(assert_same(tmp_path, 101, spark)) > 3


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        (["nosuchscheme://somewhere/version-2"], "nosuchscheme"),
        (["hdfs://no-such-host.invalid/version-2"], "no-such-host.invalid/version-2: .*UnknownHost"),
    ],
)
def test_wrong_inputs_are_named(spark: Any, tmp_path: Path, inputs: list[str], told: str) -> None:
    """An error of zkgroup, never Java's stack."""
    from zkgroup.audit.spark.job import run

    with pytest.raises(ConfigError, match=told):
        run(spark, inputs, str(tmp_path / "out"))
