"""The Parquet of `audit run` of one ensemble, read without Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zkgroup.audit import manifest, stored_files
from zkgroup.audit.columns.parts import sorted_seeds
from zkgroup.audit.columns.rows import Columns, columns_of
from zkgroup.audit.columns.stored import (
    AS_CODES,
    OPERATION_COLUMNS,
    ROWS,
    columns_of_operations,
    columns_of_rows,
    in_order,
)
from zkgroup.audit.manifest import Converted, ConvertedLog, Manifest
from zkgroup.audit.stored_files import OPERATIONS, SEEDS, Source, StoredFile
from zkgroup.errors import ConfigError


@dataclass(slots=True)
class StoredTables:
    """What was converted of one ensemble. All methods raise ConfigError for Parquet that cannot be read."""

    folder: str
    ensemble: str
    converted: Converted
    source: Source
    """Gives what pyarrow reads of a file."""
    content: Callable[[str], bytes]
    """Gives the content of a small file."""
    _batches: dict[int, list[StoredFile]] = field(default_factory=dict)

    def operations(self, logs: Sequence[ConvertedLog]) -> Columns:
        """The rows of some logs, by zxid and place."""
        table = self._read([file for log in logs for file in self._of_log(log)], OPERATION_COLUMNS, AS_CODES)
        return columns_of(()) if table is None else in_order(columns_of_operations(table))

    def times(self, of: ConvertedLog) -> list[tuple[int, int]]:
        """Zxid and time, in milliseconds, of the rows of one log."""
        table = self._read(self._of_log(of), ("zxid", "time"), ()).sort_by("zxid")
        times = table["time"].cast("int64").to_pylist()
        return [(zxid, time // 1000) for zxid, time in zip(table["zxid"].to_pylist(), times, strict=True)]

    def seeds(self) -> Columns:
        """What stood before the first transaction."""
        batch = self.converted.seed_batch
        files = [] if batch is None else [each for each in self._of_batch(batch) if each.table == SEEDS]
        table = self._read(files, [column.name for column in ROWS], AS_CODES)
        return columns_of(()) if table is None else sorted_seeds(columns_of_rows(table))

    def _of_log(self, log: ConvertedLog) -> list[StoredFile]:
        found = [
            each
            for batch in log.batches
            for each in self._of_batch(batch)
            if each.table == OPERATIONS and each.log == log.start
        ]
        if not found:
            raise ConfigError(f"{self.folder}: expected the rows of log {log.start:x}, found none")
        return found

    def _of_batch(self, batch: int) -> list[StoredFile]:
        known = self._batches.get(batch)
        if known is None:
            name = stored_files.index_name(batch)
            files = stored_files.decoded(f"{self.folder}/{name}", self.content(name))
            known = self._batches[batch] = [each for each in files if each.ensemble == self.ensemble]
        return known

    def _read(self, files: Sequence[StoredFile], names: Sequence[str], codes: Sequence[str]) -> Any:
        return stored_files.read_files(files, self.source, names, codes)


def stored_tables(folder: Path, ensemble: str, converted: Converted) -> StoredTables:
    """What was converted of one ensemble to a folder on a path."""
    return StoredTables(
        str(folder),
        ensemble,
        converted,
        lambda name: str(folder / name),
        lambda name: _content(folder / name),
    )


def read_manifest(folder: Path) -> Manifest:
    """The newest one of a folder. Raises ConfigError."""
    place = folder / manifest.FOLDER
    try:
        name = manifest.newest(each.name for each in place.iterdir())
    except OSError as error:
        raise ConfigError(f"{place}: cannot be read: {error.strerror or error}") from error
    if name is None:
        raise ConfigError(f"{place}: expected a manifest of converted logs, found none")
    return Manifest.decode(str(place / name), _content(place / name))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
