"""The findings and the tables of a report as Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from zkgroup.audit.report.tables import TABLES
from zkgroup.errors import ConfigError
from zkgroup.zkfiles.arrow import batch_of_lists, record_batch, schema
from zkgroup.zkfiles.schemas import Column

FINDINGS = "findings.parquet"
ROWS_PER_GROUP = 50_000
_LAST = {"long": (-(2**63), 2**63 - 1), "int": (-(2**31), 2**31 - 1)}


def table_of(columns: Sequence[Column], lists: Mapping[str, list[Any]]) -> Any:
    """A pyarrow.Table of lists by the names of its columns."""
    fitting = {column.name: _fitting(column, lists[column.name]) for column in columns}
    return pa.Table.from_batches([record_batch(batch_of_lists(columns, fitting))])


class Drafts:
    """Files of the tables that are being written, in the folder that they are for."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._writers = folder, dict[str, pq.ParquetWriter]()
        for name, columns in TABLES.items():
            draft = _draft(folder, name)
            with _with_place(draft):
                self._writers[name] = stack.enter_context(pq.ParquetWriter(draft, schema(columns)))

    def add(self, name: str, table: Any) -> None:
        """Takes rows of a table. Raises ConfigError where they cannot be written."""
        with _with_place(_draft(self._folder, name)):
            self._writers[name].write_table(table, ROWS_PER_GROUP)

    def finish(self) -> list[Path]:
        """Gives each file its name, whole; these are the names. Raises ConfigError where that fails."""
        paths = []
        for name, writer in self._writers.items():
            draft, path = _draft(self._folder, name), self._folder / f"{name}.parquet"
            with _with_place(path):
                writer.close()
                paths.append(draft.replace(path))
        return paths


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


def _fitting(column: Column, values: list[Any]) -> list[Any]:
    """A number that no column holds is null, or the last that the column holds: any client may write one."""
    if column.type not in _LAST:
        return values
    least, most = _LAST[column.type]
    if not column.nullable:
        return [min(max(value, least), most) for value in values]
    return [value if value is None or least <= value <= most else None for value in values]
