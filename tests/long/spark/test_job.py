"""The job: what is converted and when, and that its findings equal the local ones."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.golden_audits import findings, folder, source
from tests.worlds.server_history import ServerHistory
from tests.worlds.spark import NAMES
from zkgroup.audit.engine import audit
from zkgroup.audit.fact_builder import facts_of
from zkgroup.audit.findings import ALL_RULES
from zkgroup.audit.sources import open_source


@pytest.mark.parametrize("name", NAMES)
def test_spark_finds_what_the_laptop_finds(audited: dict[str, Any], name: str) -> None:
    """Every field of every finding of every rule, on real histories with and without lists of ephemerals."""
    assert audited[name].findings == findings(name)
    assert audited[name].skipped == ()


@pytest.mark.parametrize("name", NAMES)
def test_the_facts_are_those_of_all_rows(audited: dict[str, Any], name: str) -> None:
    """The few rows that are collected give the same facts as a pass over all rows."""
    assert audited[name].facts == facts_of(source(name).rows().events())


def test_the_answers_are_written(spark: Any, audited: dict[str, Any]) -> None:
    """As JSON, and as Parquet with the same rows."""
    written = json.loads((audited["output"] / "findings.json").read_text())
    counts = dict(Counter(each["ensemble"] for each in written["findings"]))
    rows = spark.read.parquet(str(audited["output"] / "findings")).groupBy("ensemble").count().collect()

    assert counts == {name: len(findings(name)) for name in NAMES}
    assert {row["ensemble"]: row["count"] for row in rows} == counts


def test_the_rows_are_those_of_the_laptop(spark: Any, audited: dict[str, Any]) -> None:
    """Added deletions and their places included, and within a chroot as well."""
    from zkgroup.audit.spark.ensembles import opened, rows_of
    from zkgroup.audit.spark.inputs import given_of
    from zkgroup.audit.spark.rows import event_of

    ensembles = opened(spark, given_of([str(audited["output"])]), "nowhere")
    for chroot in ("", "/consumers"):
        rows = rows_of(ensembles, chroot).collect()
        for name in NAMES:
            expected = list(open_source([folder(name)], chroot).rows().events())
            found = [event_of(row) for row in rows if row.ensemble == name]
            assert sorted(found, key=repr) == sorted(expected, key=repr)
        assert any(row.synthetic for row in rows)


def test_nothing_is_converted_twice_and_what_grows_is_read_on(spark: Any, tmp_path: Path) -> None:
    """Rolled logs are converted once, the newest from its end on; leftovers of a killed job are ignored."""
    from zkgroup.audit.spark.conversion import Conversion
    from zkgroup.audit.spark.inputs import given_of, inputs_of

    data, output = tmp_path / "version-2", tmp_path / "out"
    world = ServerHistory()
    world.open(1)
    world.create("/a", b"1")
    world.log(data)
    given = inputs_of(given_of([str(data)]))

    def convert() -> tuple[int, list[int]]:
        conversion = Conversion(spark, str(output), given)
        conversion.run()
        table = conversion.tables.operations(["ensemble"]).select("zxid").collect()
        return conversion.converted_units, sorted(row.zxid for row in table)

    assert convert() == (1, [1, 2])
    shutil.copytree(output / "operations" / "batch=1", output / "operations" / "batch=2")
    (output / "manifest" / "0000000002.json.staged").write_text("{")
    world.set("/a", b"2")
    world.log(data)
    rolled = world.set("/a", b"3")
    world.log(data, from_zxid=rolled)
    (rest,) = (data / "log.1",)
    rest.write_bytes(rest.read_bytes())

    assert convert() == (2, [1, 2, 3, 4])
    rest.chmod(0o000)
    try:
        converted, zxids = convert()
    finally:
        rest.chmod(0o644)
    assert (converted, zxids) == (1, [1, 2, 3, 4])


def test_another_log_under_the_same_name_is_converted_anew(spark: Any, tmp_path: Path) -> None:
    """After a folder was wiped and begun again, the table has nothing of the old log."""
    from zkgroup.audit.spark.conversion import Conversion
    from zkgroup.audit.spark.inputs import given_of, inputs_of

    data, output = tmp_path / "version-2", tmp_path / "out"
    paths = []
    for count in (3, 1):
        world = ServerHistory()
        world.open(1)
        for number in range(count):
            world.create(f"/{count}-{number}", b"")
        world.log(data)
        conversion = Conversion(spark, str(output), inputs_of(given_of([str(data)])))
        conversion.run()
        rows = conversion.tables.operations(["ensemble"]).where("path is not null").select("path").collect()
        paths.append(sorted(row.path for row in rows))

    assert paths == [["/3-0", "/3-1", "/3-2"], ["/1-0"]]


def test_servers_of_one_ensemble_are_joined(spark: Any, tmp_path: Path) -> None:
    """Logs that were rolled at different times, one server without the end: joined as locally."""
    from zkgroup.audit.spark.job import run

    world = ServerHistory(1 << 32 | 1)
    world.open(1)
    world.create("/consumers", b"")
    world.create("/consumers/g", b"")
    for number in range(6):
        world.create(f"/consumers/g/{number}", b"", ephemeral=True)
    world.close(1)
    first = 1 << 32
    folders = [tmp_path / name / "version-2" for name in ("a", "b", "c")]
    for place, cut in zip(folders, (3, 5, 7), strict=True):
        world.log(place, to_zxid=first + cut - 1)
        world.log(place, from_zxid=first + cut, to_zxid=first + 8 if cut == 7 else None)

    (audited,) = run(spark, [f"x={place}" for place in folders], str(tmp_path / "out"))

    expected = audit(open_source(folders), ALL_RULES)
    assert audited.findings == tuple(expected.findings)
    assert audited.facts == expected.facts


def test_a_folder_behind_a_uri_is_read_by_the_jvm(spark: Any, tmp_path: Path) -> None:
    """Whole files through binaryFile and the same decoder; rules that replay are reported as left out."""
    from zkgroup.audit.rules import WholeRule
    from zkgroup.audit.spark.job import run

    name = "zookeeper-3.9.4"
    (audited,) = run(spark, [f"x=file:{folder(name)}"], str(tmp_path / "out"))

    whole = {rule.name for rule in ALL_RULES if isinstance(rule, WholeRule)}
    assert {each.rule.name for each in audited.skipped} == whole
    assert list(audited.findings) == [each for each in findings(name) if each.finding not in whole]


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        (["x=hdfs://a/version-2", "x=hdfs://b/version-2"], "one URI"),
        ([], "at least one folder"),
        (["no/such/folder"], "no/such/folder"),
        (["nosuchscheme://somewhere/version-2"], "nosuchscheme"),
        (["hdfs://no-such-host.invalid/version-2"], "no-such-host.invalid/version-2: .*UnknownHost"),
    ],
)
def test_wrong_inputs_are_named(spark: Any, tmp_path: Path, inputs: list[str], told: str) -> None:
    """An error of zkgroup, never Java's stack."""
    from zkgroup.audit.spark.job import run
    from zkgroup.errors import ConfigError

    with pytest.raises(ConfigError, match=told):
        run(spark, inputs, str(tmp_path / "out"))
