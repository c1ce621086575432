"""The findings and the tables of a report as Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from zkgroup.audit.incidents.incident import NumberedFinding
from zkgroup.audit.report import tables
from zkgroup.audit.report.tables import TABLES
from zkgroup.errors import ConfigError
from zkgroup.zkfiles.arrow import moments, record_batch, schema
from zkgroup.zkfiles.batches import Batch
from zkgroup.zkfiles.schemas import Column

FINDINGS = "findings.parquet"
ROWS_PER_GROUP = 50_000
_LAST = {"long": (-(2**63), 2**63 - 1), "int": (-(2**31), 2**31 - 1)}


def write_findings(path: Path, rows: Sequence[NumberedFinding]) -> None:
    """The table of `tables.FINDINGS`. Raises OSError."""
    pq.write_table(table_of(tables.FINDINGS, tables.finding_columns(rows)), path)


def table_of(columns: Sequence[Column], lists: Mapping[str, list[Any]]) -> Any:
    """A pyarrow.Table of lists by the names of its columns."""
    return pa.Table.from_batches([_batch_of(columns, lists)])


def _batch_of(columns: Sequence[Column], lists: Mapping[str, list[Any]]) -> Any:
    """The same as a pyarrow.RecordBatch."""
    fitting = {column.name: _fitting(column, lists[column.name]) for column in columns}
    return record_batch(Batch(tuple(columns), len(lists[columns[0].name]), fitting))


class Drafts:
    """Files of the tables that are being written, in the folder that they are for.

    All methods raise ConfigError where they cannot be written.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._tables = {name: _Table(_draft(folder, name), TABLES[name], stack) for name in TABLES}

    def add(self, table: str, row: tuple[Any, ...]) -> None:
        self._tables[table].add(row)

    def add_arrays(self, table: str, arrays: Mapping[str, Any]) -> None:
        self._tables[table].add_arrays(arrays)

    def finish(self) -> list[Path]:
        """Gives each its name, whole; these are the names."""
        for table in self._tables.values():
            table.close()
        return [table.rename(self._folder / f"{name}.parquet") for name, table in self._tables.items()]


@contextmanager
def drafts(folder: Path) -> Iterator[Drafts]:
    """Tables of a report in a folder; drafts that are not finished are gone when the block ends."""
    try:
        with ExitStack() as stack:
            yield Drafts(folder, stack)
    finally:
        for name in TABLES:
            _draft(folder, name).unlink(missing_ok=True)


def _draft(folder: Path, name: str) -> Path:
    return folder / f".{name}.parquet.part"


@contextmanager
def _with_place(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error


class _Table:
    def __init__(self, path: Path, columns: tuple[Column, ...], stack: ExitStack) -> None:
        self._path, self._columns = path, columns
        self._rows: list[tuple[Any, ...]] = []
        with _with_place(path):
            self._writer = stack.enter_context(pq.ParquetWriter(path, schema(columns)))

    def add(self, row: tuple[Any, ...]) -> None:
        self._rows.append(row)
        if len(self._rows) >= ROWS_PER_GROUP:
            self._write()

    def add_arrays(self, arrays: Mapping[str, Any]) -> None:
        self._write()
        whole = schema(self._columns)
        cast = [
            moments(arrays[column.name])
            if column.type == "timestamp"
            else arrays[column.name].cast(whole.field(column.name).type)
            for column in self._columns
        ]
        with _with_place(self._path):
            self._writer.write_batch(pa.RecordBatch.from_arrays(cast, schema=whole))

    def close(self) -> None:
        self._write()
        with _with_place(self._path):
            self._writer.close()

    def rename(self, to: Path) -> Path:
        with _with_place(to):
            return self._path.replace(to)

    def _write(self) -> None:
        if self._rows:
            values = map(list, zip(*self._rows, strict=True))
            names = (column.name for column in self._columns)
            batch = _batch_of(self._columns, dict(zip(names, values, strict=True)))
            with _with_place(self._path):
                self._writer.write_batch(batch)
            self._rows = []


def _fitting(column: Column, values: list[Any]) -> list[Any]:
    """A number that no column holds is null, or the last that the column holds: any client may write one."""
    if column.type not in _LAST:
        return values
    least, most = _LAST[column.type]
    if not column.nullable:
        return [min(max(value, least), most) for value in values]
    return [value if value is None or least <= value <= most else None for value in values]
