"""Rows in the Parquet files of `audit run`, and the writing of these files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from zkgroup.audit.inputs import rows
from zkgroup.audit.inputs.manifest import StoredFile
from zkgroup.errors import ConfigError

_AS_CODES: Final = ("op", "path", "parent", "ephemeral", "file", "acl")
_IN_ORDER: Final = ("zxid", "time", "time_ms", "log")
"""Readers skip files by the bounds of these columns; bounds of all would take a third of the writing."""

OpenFile = Callable[[str], Any]
"""Returns the path of a file or its content, by its name, as pyarrow reads both."""


def operations_in(
    files: Iterable[StoredFile], source: OpenFile, after_zxid: int, to_zxid: int | None
) -> rows.Columns:
    """The operations behind one zxid up to another, in the order of the files. Raises as `table_in`."""
    table = table_in(files, source, rows.OPERATION_COLUMNS, rows.AS_CODES)
    return (
        rows.columns_of(())
        if table is None
        else rows.between(rows.columns_of_operations(table), after_zxid, to_zxid)
    )


def rows_in(files: Iterable[StoredFile], source: OpenFile) -> rows.Columns:
    """The rows of the audit, in the order of the files. Raises as `table_in`."""
    table = table_in(files, source, [column.name for column in rows.ROWS], rows.AS_CODES)
    return rows.columns_of(()) if table is None else rows.columns_of_rows(table)


def table_in(
    files: Iterable[StoredFile], source: OpenFile, names: Sequence[str], codes: Sequence[str] = ()
) -> Any:
    """The rows of files one behind the other, as a pyarrow.Table; None for no file.

    Args:
        names: the columns that are read.
        codes: the columns that come as codes of their different values.

    Raises ConfigError for a file that is not there, or is no Parquet of zkgroup.
    """
    tables = []
    for each in files:
        place = each.name
        try:
            opened = source(each.name)
            place = opened if isinstance(opened, str) else place
            with pq.ParquetFile(opened, read_dictionary=list(codes)) as file:
                tables.append(file.read(columns=list(names), use_threads=False))
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            found = "nothing" if isinstance(error, FileNotFoundError) else f"another file ({error})"
            raise ConfigError(
                f"{place}: expected Parquet that `audit run` wrote, found {found}; convert the folders again,"
                " into another output"
            ) from error
    return pa.concat_tables(tables) if tables else None


def parquet_of(table: Any) -> pa.Buffer:
    """The content of a file for a pyarrow.Table."""
    stream = pa.BufferOutputStream()
    coded, bounded = (
        [name for name in table.column_names if name in some] for some in (_AS_CODES, _IN_ORDER)
    )
    pq.write_table(table, stream, use_dictionary=coded, write_statistics=bounded, store_schema=False)
    return stream.getvalue()
