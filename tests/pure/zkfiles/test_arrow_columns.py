"""Batches become Arrow's with the declared types and the same values, whatever way they were read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.pure.zkfiles.test_golden_files import LOGS, SNAPSHOTS
from tests.worlds import zkfiles_writer as writer
from tests.worlds.zkfiles_tables import IS_BUILT, everything, single, values_of
from zkgroup.zkfiles import arrow
from zkgroup.zkfiles.arrow import LOG, SNAPSHOT, Batch, Column
from zkgroup.zkfiles.columns import log_columns
from zkgroup.zkfiles.records import TransactionType
from zkgroup.zkfiles.znode_columns import snapshot_columns

TYPES = {
    "long": pa.int64(),
    "int": pa.int32(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


def equal_to_lists(batches: Iterable[Batch], columns: tuple[Column, ...]) -> int:
    """Compares each value and type; how many rows there were."""
    rows = 0
    for batch in batches:
        record_batch = arrow.record_batch(batch)
        record_batch.validate(full=True)
        assert record_batch.schema.names == [column.name for column in columns]
        for column in columns:
            field, found = record_batch.schema.field(column.name), record_batch.column(column.name)
            assert field.nullable == column.nullable
            if column.type != "acl":
                assert field.type == TYPES[column.type]
            assert column.nullable or not found.null_count
            if column.type == "timestamp":
                found = pa.array([moment // 1000 for moment in found.cast(pa.int64()).to_pylist()])
            values = values_of(batch, column.name)
            assert found.to_pylist() == [_as_arrow(value) for value in values], column.name
        rows += batch.rows
    return rows


def _as_arrow(value: Any) -> Any:
    return [entry._asdict() for entry in value] if isinstance(value, tuple) else value


def test_logs_of_real_servers(way: str) -> None:
    """Types, nulls and values of all columns."""
    for path in LOGS:
        assert equal_to_lists(log_columns(path), LOG), path


def test_snapshots_of_real_servers() -> None:
    """All columns of all znodes."""
    for path in SNAPSHOTS:
        assert equal_to_lists(snapshot_columns(path), SNAPSHOT), path


@pytest.mark.parametrize("prefix", [None, "/a/b7", "/zookeeper"])
def test_every_kind_of_record_and_a_choice_of_rows(prefix: str | None, way: str, tmp_path: Path) -> None:
    """With nulls, empty values and lists in all places."""
    log = writer.write_log(tmp_path, everything())
    assert equal_to_lists(log_columns(log, path_prefix=prefix), LOG)


def test_a_choice_of_columns(way: str, tmp_path: Path) -> None:
    """By the kernel and by plain Python."""
    log = writer.write_log(tmp_path, everything())
    (batch,) = log_columns(log, columns=["path", "acl"])
    assert batch.is_plain == (IS_BUILT and way != "plain")
    assert equal_to_lists([batch], tuple(column for column in LOG if column.name in ("path", "acl")))


@pytest.mark.parametrize("time_ms", [2**63 - 1, -(2**63)])
def test_a_time_that_no_clock_shows(time_ms: int, way: str, tmp_path: Path) -> None:
    """It becomes the last, or first, that fits; the other rows keep theirs."""
    odd = single(TransactionType.DELETE, 1, path="/a")
    transactions = [odd, type(odd)(2, 0, 0, time_ms, odd.type, odd.operations)]
    (batch,) = log_columns(writer.write_log(tmp_path, transactions))
    first, second = arrow.record_batch(batch).column("time").cast(pa.int64()).to_pylist()
    limit = (2**63 - 1) // 1000 * 1000
    assert (first, second) == (odd.time_ms * 1000, limit if time_ms > 0 else -limit)
