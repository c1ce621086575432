"""What the readers of the data sources give, as Spark's tasks call them. No Spark is started."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    LessThanOrEqual,
    StringStartsWith,
)

from tests.worlds.audit_folders import HEALTHY, INCIDENTS, folder
from tests.worlds.cut_histories import cuts_of, history_of, write_series
from tests.worlds.server_history import ServerHistory, seen_znodes
from zkgroup.audit.inputs.opening import open_source
from zkgroup.audit.spark.sources import (
    FilteringLogSource,
    FilteringSnapshotSource,
    LogSource,
    SnapshotSource,
    TreeSource,
)
from zkgroup.errors import ConfigError, DamagedFileError, NotZooKeeperFileError
from zkgroup.zkfiles.arrow import LOG, record_batch
from zkgroup.zkfiles.columns import log_columns
from zkgroup.zkfiles.files import list_files
from zkgroup.zkfiles.snapshots import open_snapshot
from zkgroup.zkfiles.znode_columns import snapshot_columns


def _reader(source: type[DataSource], path: Path, **options: str) -> DataSourceReader:
    made = source({"path": str(path), **options})
    return made.reader(made.schema())


def _read(reader: DataSourceReader) -> pa.Table:
    return pa.Table.from_batches(
        batch for partition in reader.partitions() for batch in reader.read(partition)
    )


@pytest.mark.parametrize("source", [LogSource, FilteringLogSource])
@pytest.mark.parametrize("name", [*HEALTHY, INCIDENTS])
def test_the_rows_of_logs_are_those_of_plain_reading(source: type[DataSource], name: str) -> None:
    """Every column of every operation that real servers wrote."""
    plain = [record_batch(batch) for log in list_files(folder(name)).logs for batch in log_columns(log.path)]

    found = _read(_reader(source, folder(name)))

    assert found.column_names == [column.name for column in LOG]
    assert found.equals(pa.Table.from_batches(plain))


@pytest.mark.parametrize("source", [SnapshotSource, FilteringSnapshotSource])
def test_the_rows_of_snapshots_are_those_of_plain_reading(source: type[DataSource]) -> None:
    """Every column of every znode, one partition a file."""
    files = list_files(folder(INCIDENTS)).snapshots
    reader = _reader(source, folder(INCIDENTS))
    plain = [record_batch(batch) for file in files for batch in snapshot_columns(file.path)]

    assert len(reader.partitions()) == len(files)
    assert _read(reader).equals(pa.Table.from_batches(plain))


@pytest.mark.parametrize("section", ["sessions", "acls", "header"])
def test_the_other_sections_of_a_snapshot(section: str) -> None:
    """What is not a znode is a table of its own."""
    (path,) = (file.path for file in list_files(folder("zookeeper-3.9.4")).snapshots if file.zxid == 0x114)
    plain = open_snapshot(path)
    rows = _read(_reader(SnapshotSource, path, section=section)).to_pylist()

    match section:
        case "sessions":
            assert {row["session"]: row["timeout_ms"] for row in rows} == plain.sessions
        case "acls":
            assert {row["number"] for row in rows} == set(plain.acls)
        case _:
            assert [(row["snap_zxid"], row["end_zxid"]) for row in rows] == [(0x114, plain.end_zxid)]
    assert rows


def test_options_narrow_what_is_read() -> None:
    """Columns, data, zxids of both ends, and the beginning of the path."""
    options = {"from_zxid": "0x20", "to_zxid": "200", "path_prefix": "/brokers/"}
    narrowed = _reader(LogSource, folder(INCIDENTS), columns="zxid,path,data", data="false", **options)
    found = _read(narrowed)
    everything = _read(_reader(LogSource, folder(INCIDENTS), columns="zxid,path")).to_pylist()

    assert found.column_names == ["zxid", "path"]
    assert found.to_pylist() == [
        row for row in everything if 32 <= row["zxid"] <= 200 and (row["path"] or "").startswith("/brokers/")
    ]
    assert found.num_rows > 0


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("columns", "zxid,colour", "no column colour"),
        ("from_zxid", "late", "option from_zxid"),
        ("data", "perhaps", "option data"),
        ("records_per_split", "0", "option records_per_split"),
    ],
)
def test_wrong_options_are_named(option: str, value: str, told: str) -> None:
    """The message says which option, and what was expected."""
    with pytest.raises(ConfigError, match=told):
        _reader(LogSource, folder(INCIDENTS), **{option: value})


def test_trees_over_time_are_one_table(tmp_path: Path) -> None:
    """Each of a glob in a partition, exports and servers' snapshots, with the columns that name it."""
    world = history_of(3)
    cuts = cuts_of(3, world)
    write_series(tmp_path / "series", world, cuts, random.Random(3))
    seen = open_source([tmp_path / "series"]).series[0].snapshots

    reader = _reader(
        TreeSource, tmp_path / "ser*", columns="path,mzxid,snapshot_zxid,snapshot_time,snapshot_path"
    )
    rows = _read(reader).to_pylist()

    assert len(reader.partitions()) == len(seen)
    assert {(row["path"], row["mzxid"], row["snapshot_zxid"]) for row in rows} == {
        (znode.path, znode.stat.mzxid, zxid) for zxid in cuts for znode in seen_znodes(world.at(zxid))
    }
    assert {(row["snapshot_path"], row["snapshot_time"].timestamp() * 1000) for row in rows} == {
        (str(each.path), each.time_ms) for each in seen
    }
    shutil.rmtree(tmp_path / "series")
    world.log(tmp_path / "series")
    with pytest.raises(NotZooKeeperFileError, match="an export or a server's snapshot"):
        reader.partitions()


@pytest.mark.parametrize("source", [LogSource, SnapshotSource, TreeSource])
def test_a_misspelt_option_is_an_error_that_names_the_near_one(source: type[DataSource]) -> None:
    """Left alone it would read everything, and say nothing."""
    with pytest.raises(ConfigError, match="there is no option 'from_zixd': did you mean 'from_zxid'"):
        _reader(source, folder(INCIDENTS), from_zixd="5")


def test_a_log_is_read_in_parts() -> None:
    """Parts together hold each record once."""
    whole = _reader(LogSource, folder("zookeeper-3.4.6"), columns="zxid,sub")
    parts = _reader(LogSource, folder("zookeeper-3.4.6"), columns="zxid,sub", records_per_split="50")

    assert len(parts.partitions()) > len(whole.partitions()) == 4
    assert _read(parts).to_pylist() == _read(whole).to_pylist()


def test_filters_that_are_pushed_down_are_obeyed_and_the_others_left_to_spark() -> None:
    """Whole files are not opened then."""
    reader = _reader(FilteringLogSource, folder(INCIDENTS), columns="zxid,path,type")
    left: list[Filter] = [EqualTo(("type",), 5)]
    asked = [GreaterThan(("zxid",), 100), LessThanOrEqual(("zxid",), 208)]
    everything = _read(reader).to_pylist()

    assert list(reader.pushFilters([*asked, StringStartsWith(("path",), "/consumers/"), *left])) == left
    assert _read(reader).to_pylist() == [
        row for row in everything if 100 < row["zxid"] <= 208 and (row["path"] or "")[:11] == "/consumers/"
    ]
    assert len(reader.partitions()) == 2


def test_a_growing_folder_is_read_as_a_stream(tmp_path: Path) -> None:
    """Each batch has what was written since the one before, rolled logs included, and nothing twice."""
    data = tmp_path / "version-2"
    data.mkdir()
    world = ServerHistory()
    world.open(1)
    world.create("/a", b"1")
    world.log(data)
    source = LogSource({"path": str(data), "columns": "zxid,path"})
    stream = source.streamReader(source.schema())
    start = stream.initialOffset()

    def batch() -> list[int]:
        nonlocal start
        end = stream.latestOffset(start)
        found = [
            zxid
            for partition in stream.partitions(start, end)
            for rows in stream.read(partition)
            for zxid in rows.column("zxid").to_pylist()
        ]
        start = end
        return found

    assert batch() == [1, 2]
    assert batch() == []
    world.set("/a", b"2")
    world.log(data)
    last = world.set("/a", b"3")
    world.log(data, from_zxid=last)
    assert batch() == [3, 4]


def test_damage_ends_the_reading_and_with_resync_does_not(tmp_path: Path) -> None:
    """By default nobody takes half a file for a whole one."""
    data = tmp_path / "version-2"
    shutil.copytree(folder(INCIDENTS), data)
    victim = data / "log.c6.gz"
    victim.chmod(0o644)
    victim.write_bytes(victim.read_bytes()[:2000])

    with pytest.raises(DamagedFileError, match=r"log\.c6\.gz, byte"):
        _read(_reader(LogSource, data, columns="zxid"))
    assert _read(_reader(LogSource, data, columns="zxid", resync="true")).num_rows > 100
