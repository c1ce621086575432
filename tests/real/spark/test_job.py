"""What a job converts and when, and what it carries to the next one. Tasks run here; no Spark is started."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from tests.worlds.audit_folders import INCIDENTS, folder
from tests.worlds.bucket_findings import lists_of
from tests.worlds.history_files import PlayedSpark
from tests.worlds.screened_findings import events_in
from tests.worlds.server_history import ServerHistory
from zkgroup.audit.findings.engine import ALL_RULES, RULES, audit
from zkgroup.audit.incidents.attribution import numbered
from zkgroup.audit.incidents.incident import findings_document
from zkgroup.audit.inputs.manifest import FACTS, OPERATIONS, Folder, OutputFolder, StoredFile
from zkgroup.audit.inputs.opening import open_source
from zkgroup.audit.inputs.source import PointInTime
from zkgroup.audit.report import tables as columns_of
from zkgroup.audit.spark.conversion import convert
from zkgroup.audit.spark.job import run
from zkgroup.audit.spark.session import given_of, inputs_of
from zkgroup.audit.spark.storage import written
from zkgroup.errors import ConfigError, NotFoundError
from zkgroup.zkfiles.arrow import schema


def _zxids(output: Path) -> list[int]:
    return [row.zxid for row in events_in(open_source([output]).rows()) if not row.seed]


def _convert(data: Path, output: Path) -> int:
    """Returns how many logs were read."""
    return convert(PlayedSpark(), _opened(output), inputs_of([given_of(str(data))]))


def _opened(output: Path) -> OutputFolder:
    return OutputFolder(Folder(str(output)))


def test_nothing_is_converted_twice_and_what_grows_is_read_on(tmp_path: Path) -> None:
    """Rolled logs are converted once, the newest from its end on; leftovers of a killed job are ignored."""
    data, output = tmp_path / "version-2", tmp_path / "out"
    world = ServerHistory()
    world.open(1)
    world.create("/a", b"1")
    world.log(data)

    def converted() -> tuple[int, list[int]]:
        return _convert(data, output), _zxids(output)

    assert converted() == (1, [1, 2])
    shutil.copytree(output / "operations" / "batch=1", output / "operations" / "batch=2")
    (output / "manifest" / ".0000000002.json.7").write_text("{")
    world.set("/a", b"2")
    world.log(data)
    rolled = world.set("/a", b"3")
    world.log(data, from_zxid=rolled)
    (rest,) = (data / "log.1",)
    rest.write_bytes(rest.read_bytes())

    assert converted() == (2, [1, 2, 3, 4])
    rest.chmod(0o000)
    try:
        again = converted()
    finally:
        rest.chmod(0o644)
    assert again == (1, [1, 2, 3, 4])


def test_another_log_under_the_same_name_is_converted_anew(tmp_path: Path) -> None:
    """After a folder was wiped and begun again, the table has nothing of the old log."""
    data, output = tmp_path / "version-2", tmp_path / "out"
    paths = []
    for count in (3, 1):
        world = ServerHistory()
        world.open(1)
        for number in range(count):
            world.create(f"/{count}-{number}", b"")
        world.log(data)
        _convert(data, output)
        rows = events_in(open_source([output]).rows())
        paths.append([row.path for row in rows if row.path and not row.seed])

    assert paths == [["/3-0", "/3-1", "/3-2"], ["/1-0"]]


def test_a_snapshot_later_than_all_records_is_seen(tmp_path: Path) -> None:
    """Of snapshots alone the newest counts, also once an older one was converted; else it is named."""
    world, output = ServerHistory(), tmp_path / "out"
    for number in range(6):
        world.create(f"/n{number}")
    alone, logged = tmp_path / "alone", tmp_path / "logged"
    paths = []
    for zxid in (2, 5):
        world.snapshot(alone, zxid)
        run(PlayedSpark(), [str(alone)], str(output), rules=RULES)
        paths.append([row.path for row in events_in(open_source([output]).rows()) if "n" in row.path])
    world.snapshot(logged, 0)
    world.log(logged, to_zxid=3)
    run(PlayedSpark(), [str(logged)], str(tmp_path / "two"), rules=RULES)
    world.snapshot(logged, 6)

    (audited,) = run(PlayedSpark(), [str(logged)], str(tmp_path / "two"), rules=RULES)
    source = open_source([tmp_path / "two"])
    source.rows()

    assert [len([path for path in some if path.startswith("/n")]) for some in paths] == [2, 5]
    assert list(audited.damages) == source.damages() == ["zxids 0x4 to 0x6 are missing"]


def test_servers_of_one_ensemble_are_joined(tmp_path: Path) -> None:
    """Logs that were rolled at different times, one server without the end: joined as locally."""
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

    (audited,) = run(PlayedSpark(), [f"x={place}" for place in folders], str(tmp_path / "out"))

    expected = audit(open_source(folders), ALL_RULES)
    assert audited.found.findings == expected.findings
    assert audited.found.facts == expected.facts


def test_a_new_day_reads_the_new_day_only(tmp_path: Path) -> None:
    """A part begins with the state that the job before it kept: files of what was before are not opened."""
    output, source = tmp_path / "out", open_source([folder(INCIDENTS)])
    inputs, days = [str(folder(INCIDENTS))], [PointInTime(0x60), PointInTime(0xD0), PointInTime(0x1C0)]
    for number, start in enumerate(days):
        (audited,) = run(PlayedSpark(), inputs, str(output), rules=RULES, start=start)
        kept = _opened(output)
        states = kept.ensembles["ensemble"].states

        assert audited.found.findings == audit(source, RULES, start=start).findings
        assert [state.zxid for state in states] == [day.zxid - 1 for day in days[: number + 1] if day.zxid]
        for table in (OPERATIONS, FACTS):
            for file in kept.files(table, "ensemble"):
                if file.last_zxid <= states[-1].zxid:
                    (output / file.name).unlink(missing_ok=True)


def test_one_group_is_asked_in_one_task(tmp_path: Path) -> None:
    """What is about a group; one that was not is named with those that were."""
    spark, output = PlayedSpark(), str(tmp_path / "out")
    inputs = [str(folder(INCIDENTS))]
    run(spark, inputs, output, rules=RULES[:1])
    before = spark.tasks
    (audited,) = run(spark, inputs, output, group="g")

    assert spark.tasks == before + 2  # the newest log is read on
    assert audited.found.findings == audit(open_source([folder(INCIDENTS)]), ALL_RULES, group="g").findings
    with pytest.raises(
        NotFoundError, match="/consumers/none: there was no such group; those that were: adopt, g"
    ):
        run(spark, inputs, output, group="none")


@pytest.mark.parametrize("chroot", ["/consumers", "/brokers"])
def test_paths_are_those_within_a_chroot(tmp_path: Path, chroot: str) -> None:
    """Also where the rows were put into buckets by the whole paths."""
    expected = audit(open_source([folder(INCIDENTS)], chroot), RULES)
    for name, first in (("now", chroot), ("later", "")):
        output = str(tmp_path / name)
        run(PlayedSpark(), [str(folder(INCIDENTS))], output, rules=RULES[:1], chroot=first)
        (audited,) = run(PlayedSpark(), [str(folder(INCIDENTS))], output, rules=RULES, chroot=chroot)

        assert (audited.found.findings, audited.found.facts) == (expected.findings, expected.facts)


def test_a_log_from_the_middle_has_no_tree_before_it(tmp_path: Path) -> None:
    """Not even the znodes that every new server has, so no finding takes the history for whole."""
    data, output = tmp_path / "version-2", tmp_path / "out"
    world = ServerHistory()
    world.open(1)
    places = ("/consumers", "/consumers/g", "/consumers/g/owners", "/consumers/g/owners/t")
    for path in places:
        world.create(path, b"")
    world.create("/consumers/g/owners/t/0", b"m-0", ephemeral=True)
    world.log(data, from_zxid=1 + len(places))
    expected = audit(open_source([data]), RULES)
    (audited,) = run(PlayedSpark(), [str(data)], str(output), rules=RULES)
    again = audit(open_source([output]), RULES)

    for found in (audited.found, again):
        assert not found.facts.is_whole
        assert (found.facts, found.findings) == (expected.facts, expected.findings)


def test_incidents_are_written_with_the_findings(tmp_path: Path) -> None:
    """As JSON, which has what a laptop gives, and as Parquet of documented types, with the number of each."""
    from pyarrow.parquet import read_table

    output = tmp_path / "out"
    (audited,) = run(PlayedSpark(), [f"x={folder(INCIDENTS)}"], str(output))
    written = json.loads((output / "findings.json").read_text())
    tables = {name: read_table(output / name) for name in ("findings", "incidents")}
    rows = {name: table.to_pylist() for name, table in tables.items()}
    for name, columns in (("findings", columns_of.FINDINGS), ("incidents", columns_of.INCIDENTS)):
        assert tables[name].schema.equals(schema((columns_of.ENSEMBLE, *columns)))

    again = open_source([output])
    again.zxids(PointInTime(time_ms=5), PointInTime(zxid=0xFFFFF))
    assert [note[:14] for note in again.notes()] == ["the logs begin", "the files end "]
    found = audit(open_source([folder(INCIDENTS)]), ALL_RULES)
    assert lists_of(written) == lists_of(findings_document(found, numbered(found)))
    assert len(written["incidents"]) == len(audited.incidents.incidents) == len(rows["incidents"]) > 3
    for name, key in (("incidents", "number"), ("findings", "incident")):
        assert [each[key] for each in written[name]] == [each[key] for each in rows[name]]
    for row in rows["incidents"]:
        assert row["findings"] == sum(each["incident"] == row["number"] for each in rows["findings"])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"version":1,"number":1,"ensembles":{"x":{}}}', "expected version 4, found 1"),
        ('{"version"', "expected a manifest of `audit run`, found another file .*"),
    ],
)
def test_a_folder_of_an_older_version_or_a_damaged_one_is_refused(
    tmp_path: Path, content: str, told: str
) -> None:
    """With the way out."""
    (tmp_path / "manifest").mkdir()
    (tmp_path / "manifest" / "0000000001.json").write_text(content)

    with pytest.raises(ConfigError, match=f"{told}: convert the folders again, into another output"):
        _opened(tmp_path)


def test_a_task_that_cannot_write_names_the_file(tmp_path: Path) -> None:
    """And no bug of zkgroup, whose traceback would hide it."""
    (tmp_path / "out").touch()
    file = StoredFile("facts/0-0.parquet", FACTS, "east", "", 0, 0, 0, 0)

    with pytest.raises(ConfigError, match=r"out/facts/0-0\.parquet: cannot be written: "):
        written(pa.table({"zxid": [1]}), file, Folder(str(tmp_path / "out")))


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        (["x=hdfs://a/version-2", "x=hdfs://b/version-2"], "one URI"),
        ([], "at least one folder"),
        (["no/such/folder"], "no/such/folder"),
    ],
)
def test_wrong_inputs_are_named(tmp_path: Path, inputs: list[str], told: str) -> None:
    """Before any task runs."""
    spark = PlayedSpark()
    with pytest.raises(ConfigError, match=told):
        run(spark, inputs, str(tmp_path / "out"))
    assert spark.tasks == 0
