"""Rows by bucket as temporary Parquet, for one process."""

from __future__ import annotations

import os
from collections import defaultdict
from tempfile import TemporaryFile, gettempdir
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from zkgroup.audit.buckets.names import names_of, numbers_of
from zkgroup.audit.buckets.splitting import by_code
from zkgroup.audit.columns.rows import Columns, columns_of
from zkgroup.audit.columns.stored import AS_CODES, columns_of_rows, table_of
from zkgroup.audit.stored_files import write_rows
from zkgroup.errors import ConfigError


class TemporaryBuckets:
    """The rows of a history, in a file without a name: it goes with the process, however that ends.

    What `add` takes at a time is one piece of Parquet a bucket. The file is where `TMPDIR` says.
    """

    def __init__(self, count: int) -> None:
        """Of `count` buckets for groups, and one more."""
        self._count: Final = count
        self.names: Final = names_of(count)
        self._file = TemporaryFile(prefix="zkgroup-", buffering=0)  # noqa: SIM115
        self._pieces: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        """Where the Parquet of each bucket begins, and its size."""
        self.size = 0
        """Bytes of all."""

    def add(self, columns: Columns) -> None:
        """Rows behind those that were added before. Raises ConfigError where the disk has no room."""
        codes = numbers_of(pa.array(columns.paths, pa.string()), self._count)[columns.path]
        for number, rows in by_code(table_of(columns), codes):
            stream = pa.BufferOutputStream()
            write_rows(rows, stream)
            self._write(self.names[number], memoryview(stream.getvalue()))

    def columns(self, name: str) -> Columns:
        """The rows of a bucket, in the order in which they were added. Raises ConfigError."""
        tables = [self._read(*piece) for piece in self._pieces[name]]
        return columns_of_rows(pa.concat_tables(tables)) if tables else columns_of(())

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

    def _read(self, at: int, size: int) -> Any:
        content = bytearray(size)
        view = memoryview(content)
        while view:
            read = os.preadv(self._file.fileno(), [view], at + size - len(view))
            if not read:
                raise ConfigError(f"{gettempdir()}: the rows of a long history that were kept there are gone")
            view = view[read:]
        with pq.ParquetFile(pa.BufferReader(pa.py_buffer(content)), read_dictionary=list(AS_CODES)) as file:
            return file.read(use_threads=False)
