"""The data sources give what plain reading gives, row by row, through Spark's workers.

Their readers alone, with every option: `tests/real/spark/test_source_readers.py`.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE_S, eventually
from tests.worlds.audit_folders import HEALTHY, INCIDENTS, folder
from tests.worlds.server_history import ServerHistory
from tests.worlds.zkfiles_tables import values_of
from zkgroup.audit.inputs.opening import open_source
from zkgroup.zkfiles.arrow import LOG, SNAPSHOT
from zkgroup.zkfiles.columns import log_columns
from zkgroup.zkfiles.exports import ExportHeader, exported, write_export
from zkgroup.zkfiles.files import list_files
from zkgroup.zkfiles.znode_columns import snapshot_columns

FOLDERS = (*HEALTHY, INCIDENTS)


@pytest.fixture(autouse=True)
def _registered(spark: Any) -> None:
    from zkgroup.audit.spark.sources import register

    register(spark)


def test_the_rows_of_logs_are_those_of_plain_reading(spark: Any) -> None:
    """Every column of every operation that real servers wrote."""
    for name in FOLDERS:
        table = spark.read.format("zookeeper-txnlog").load(str(folder(name)))
        expected = [
            row
            for log in list_files(folder(name)).logs
            for batch in log_columns(log.path)
            for row in zip(*(values_of(batch, column.name) for column in LOG), strict=True)
        ]

        assert table.columns == [column.name for column in LOG]
        assert _sorted(_plain(table)) == _sorted(expected)


def test_the_rows_of_snapshots_are_those_of_plain_reading(spark: Any) -> None:
    """Every column of every znode, one partition a file."""
    files = list_files(folder(INCIDENTS)).snapshots
    table = spark.read.format("zookeeper-snapshot").load(str(folder(INCIDENTS)))
    expected = [
        row
        for file in files
        for batch in snapshot_columns(file.path)
        for row in zip(*(values_of(batch, column.name) for column in SNAPSHOT), strict=True)
    ]

    assert table.rdd.getNumPartitions() == len(files)
    assert _sorted(_plain(table)) == _sorted(expected)


def test_columns_say_what_they_mean(spark: Any) -> None:
    """The comments are the texts of the tables."""
    table = spark.read.format("zookeeper-txnlog").load(str(folder(INCIDENTS)))

    assert [field.metadata["comment"] for field in table.schema] == [column.meaning for column in LOG]


@pytest.mark.parametrize("pushes", [True, False])
def test_filters_find_the_same_with_and_without_pushdown(spark: Any, pushes: bool) -> None:
    """The reader is chosen by the session's setting; with the other one each query would fail."""
    from zkgroup.audit.spark.session import PUSHDOWN
    from zkgroup.audit.spark.sources import register

    spark.conf.set(PUSHDOWN, str(pushes).lower())
    try:
        register(spark)
        table = spark.read.format("zookeeper-txnlog").load(str(folder(INCIDENTS)))
        found = table.where("zxid > 100 and zxid <= 208 and path like '/consumers/%' and type = 5")
        expected = [
            zxid
            for log in list_files(folder(INCIDENTS)).logs
            for batch in log_columns(log.path)
            for zxid, path, kind in zip(
                *(values_of(batch, name) for name in ("zxid", "path", "type")), strict=True
            )
            if 100 < zxid <= 208 and (path or "").startswith("/consumers/") and kind == 5
        ]
        partitions = found.rdd.getNumPartitions()
        rows = sorted(row.zxid for row in found.select("zxid").collect())
    finally:
        spark.conf.set(PUSHDOWN, "true")
        register(spark)

    assert rows == sorted(expected) != []
    assert partitions == (2 if pushes else 3)


def test_a_growing_folder_is_read_as_a_stream(spark: Any, tmp_path: Path) -> None:
    """Each batch has what was written since the one before, rolled logs included, and nothing twice."""
    from pyspark.errors import StreamingQueryException

    data, out = tmp_path / "version-2", tmp_path / "out"
    data.mkdir()
    world = ServerHistory()
    world.open(1)
    world.create("/a", b"1")
    world.log(data)

    def is_over() -> bool:
        query = (
            spark.readStream.format("zookeeper-txnlog")
            .option("columns", "zxid,path")
            .load(str(data))
            .writeStream.format("json")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(out))
        )
        try:
            return bool(query.awaitTermination(PATIENCE_S))
        except StreamingQueryException as error:
            # Spark gives the process of Python 10 s to start; no setting changes that.
            if "failed to connect back" in str(error):
                return False
            raise

    def read() -> list[int]:
        eventually(is_over, what="a query over what there is")
        lines = [line for file in out.glob("*.json") for line in file.read_text().splitlines()]
        return sorted(json.loads(line)["zxid"] for line in lines)

    first = read()
    world.set("/a", b"2")
    world.log(data)
    last = world.set("/a", b"3")
    world.log(data, from_zxid=last)
    second = read()

    assert first == [1, 2]
    assert second == [1, 2, 3, 4]


def test_an_export_is_a_tree(spark: Any, tmp_path: Path) -> None:
    """What `audit export` wrote has the rows that a snapshot of it would have."""
    seen = open_source([folder(INCIDENTS)]).tree()
    path = tmp_path / "tree.gz"
    znodes = [seen.tree.stored(each) for each in seen.tree.paths()]
    counts = {znode.path: len(seen.tree.children(znode.path)) for znode in znodes if znode}
    header = ExportHeader(time_ms=1, source="x", zxid_before=seen.zxid, zxid_after=seen.zxid)
    write_export(path, header, [exported(znode, counts[znode.path]) for znode in znodes if znode])

    rows = spark.read.format("zookeeper-tree").load(str(path)).collect()

    assert {(row.path, row.mzxid, row.version, row.owner) for row in rows} == {
        (znode.path, znode.stat.mzxid, znode.stat.version, znode.stat.ephemeral_owner)
        for znode in znodes
        if znode
    }
    assert {row.snap_zxid for row in rows} == {seen.zxid}


def _plain(table: Any) -> list[tuple[Any, ...]]:
    """The rows with the values of the plain reading: milliseconds, tuples and bytes."""
    from pyspark.sql import functions

    for name, kind in table.dtypes:
        if kind == "timestamp":
            table = table.withColumn(name, functions.unix_millis(name))
    return [
        tuple(
            tuple(tuple(entry) for entry in value)
            if isinstance(value, list)
            else bytes(value)
            if isinstance(value, bytearray)
            else value
            for value in row
        )
        for row in table.collect()
    ]


def _sorted(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


def test_paths_as_people_write_them(spark: Any, tmp_path: Path) -> None:
    """A `file:/` URI, a pattern, several paths: each gives the rows of the files that it names."""
    logs = [log.path for log in list_files(folder(INCIDENTS)).logs]
    one, other = (str(shutil.copy(log, tmp_path / log.name)) for log in logs[:2])

    def rows(*paths: str) -> int:
        return int(spark.read.format("zookeeper-txnlog").load([*paths]).count())

    assert rows(one) > 0
    assert rows(one) + rows(other) == rows(one, other) == rows(f"{tmp_path}/log.*")
    assert rows(f"file:{one}") == rows(f"file://{one}") == rows(one)


def test_a_misspelt_option_is_an_error_that_names_the_near_one(spark: Any) -> None:
    """Spark passes the message on."""
    with pytest.raises(Exception, match="there is no option 'from_zixd': did you mean 'from_zxid'"):
        spark.read.format("zookeeper-txnlog").option("from_zixd", 5).load(str(folder(INCIDENTS)))
