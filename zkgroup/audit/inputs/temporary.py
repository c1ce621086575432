"""Tables as temporary Parquet, for one process: rows by bucket, or any others by name."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from tempfile import TemporaryFile, gettempdir
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from zkgroup.audit.inputs.bucket_names import by_code, names_of, numbers_of
from zkgroup.audit.inputs.rows import Columns, columns_of
from zkgroup.audit.inputs.stored import AS_CODES, columns_of_rows, table_of
from zkgroup.audit.inputs.stored_files import write_rows
from zkgroup.errors import ConfigError


class TemporaryTables:
    """Tables by name, in a file without a name: it goes with the process, however that ends.

    What `add` takes at a time is one piece of Parquet. The file is where `TMPDIR` says.
    """

    def __init__(self) -> None:
        self._file = TemporaryFile(prefix="zkgroup-", buffering=0)  # noqa: SIM115
        self._pieces: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        """Says where the pieces of each name begin, and their sizes."""
        self.size = 0
        """Bytes of all."""

    def add(self, name: str, table: Any) -> None:
        """Rows behind those that were added to that name. Raises ConfigError where the disk has no room."""
        stream = pa.BufferOutputStream()
        write_rows(table, stream)
        self._write(name, memoryview(stream.getvalue()))

    def read(self, name: str, codes: Sequence[str] = ()) -> list[Any]:
        """Returns what was added to a name, in order, as pyarrow.Tables. Raises ConfigError.

        Args:
            codes: columns that come as codes of their different values.
        """
        return [self._read(*piece, codes) for piece in self._pieces[name]]

    def close(self) -> None:
        """Gives the file back."""
        self._file.close()

    def _write(self, name: str, content: memoryview) -> None:
        at, rest = self.size, content
        try:
            while rest:
                rest = rest[os.pwrite(self._file.fileno(), rest, self.size + len(content) - len(rest)) :]
        except OSError as error:
            raise ConfigError(
                f"{gettempdir()}: cannot keep the rows of a long history there: {error.strerror}; "
                "TMPDIR names another folder"
            ) from error
        self.size += len(content)
        self._pieces[name].append((at, len(content)))

    def _read(self, at: int, size: int, codes: Sequence[str]) -> Any:
        content = bytearray(size)
        view = memoryview(content)
        while view:
            read = os.preadv(self._file.fileno(), [view], at + size - len(view))
            if not read:
                raise ConfigError(f"{gettempdir()}: the rows of a long history that were kept there are gone")
            view = view[read:]
        with pq.ParquetFile(pa.BufferReader(pa.py_buffer(content)), read_dictionary=list(codes)) as file:
            return file.read(use_threads=False)


class TemporaryBuckets:
    """The rows of a history by bucket."""

    def __init__(self, count: int) -> None:
        """Of `count` buckets for groups, and one more."""
        self._count: Final = count
        self.names: Final = names_of(count)
        self.tables: Final = TemporaryTables()

    def add(self, columns: Columns) -> None:
        """Rows behind those that were added before. Raises ConfigError where the disk has no room."""
        codes = numbers_of(pa.array(columns.paths, pa.string()), self._count)[columns.path]
        for number, rows in by_code(table_of(columns), codes):
            self.tables.add(self.names[number], rows)

    def columns(self, name: str) -> Columns:
        """The rows of a bucket, in the order in which they were added. Raises ConfigError."""
        tables = self.tables.read(name, AS_CODES)
        return columns_of_rows(pa.concat_tables(tables)) if tables else columns_of(())

    def close(self) -> None:
        """Gives the file back."""
        self.tables.close()
