"""The first step, a task a log: operations as Parquet by day and bucket, and the rows of facts.

Of folders behind a Hadoop URI Spark reads whole files, and the same decoder makes rows of them: Python
workers have no Hadoop client, so the JVM brings the bytes, and each log is one task and in memory there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from zkgroup.audit.inputs.buckets import by_code, known_rows, names_of, numbers_of
from zkgroup.audit.inputs.folders import Folders
from zkgroup.audit.inputs.rows import (
    OPERATION_COLUMNS,
    Columns,
    Numbers,
    between,
    columns_of_operations,
    inside,
    table_of,
)
from zkgroup.audit.inputs.source import Rows
from zkgroup.audit.inputs.stored_files import FACTS, OPERATIONS, StoredFile
from zkgroup.audit.spark.collector import without_collector
from zkgroup.audit.spark.storage import FolderStorage, TaskFile, TaskOutput
from zkgroup.audit.spark.units import ListedLog, Unit, batches_of, logs_of_servers
from zkgroup.errors import NotZooKeeperFileError
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.names import DATA_FOLDER, LOG, SNAPSHOT, ServerFile

ROWS_PER_PART: Final = 400_000
"""Of a log that has more, so many are in memory at a time."""
_DAY_US: Final = 86_400_000_000


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Says how the rows of an ensemble are stored."""

    batch: int
    buckets: int
    chroot: str
    base_zxid: int
    """Facts are of the rows behind it."""


class Decoded(NamedTuple):
    """Holds what a task made of a log."""

    ensemble: str
    log: int
    rows: int
    first_ms: int
    last_zxid: int
    last_offset: int
    written: tuple[TaskFile, ...]


def decode(unit: Unit, layout: RowLayout, output: TaskOutput, named: str | None = None) -> Decoded:
    """Reads a log, or what is new in it, and writes its rows.

    Args:
        named: what rows have as their file, where that is not its path here.
    """
    with without_collector():
        return _decoded(unit, layout, output, named)


def _decoded(unit: Unit, layout: RowLayout, output: TaskOutput, named: str | None) -> Decoded:
    rows, first_ms, last_zxid, last_offset = 0, 0, -1, 0
    written: list[TaskFile] = []
    for number, part in enumerate(_parts(batches_of(unit))):
        table = part if named is None else _named(part, named)
        paths = table["path"].combine_chunks().dictionary_encode()
        if not rows:
            first_ms = table["time"][0].cast(pa.int64()).as_py() // 1000
        rows += table.num_rows
        last_zxid, last_offset = (table[name][-1].as_py() for name in ("zxid", "offset"))
        written += _operations(table, paths, number, unit, layout, output)
        facts = _facts(table, paths, layout)
        if len(facts):
            file = _file(facts.zxid, FACTS, unit, layout, f"{unit.from_zxid:x}-{number}")
            written.append(output.write(table_of(facts), file))
    return Decoded(unit.ensemble, unit.log, rows, first_ms, last_zxid, last_offset, tuple(written))


def _named(table: Any, file: str) -> Any:
    """The rows as those of a file of this name."""
    at = table.column_names.index("file")
    return table.set_column(at, table.field(at), pa.repeat(pa.scalar(file), table.num_rows))


def _parts(batches: Iterable[Any]) -> Iterator[Any]:
    """Batches brought together to tables; each begins with a transaction."""
    some: list[Any] = []
    for batch in batches:
        some.append(batch)
        if sum(each.num_rows for each in some) >= ROWS_PER_PART:
            yield pa.Table.from_batches(some)
            some = []
    if some:
        yield pa.Table.from_batches(some)


def _facts(table: Any, paths: Any, layout: RowLayout) -> Columns:
    operations = table.select(OPERATION_COLUMNS)
    operations = operations.set_column(operations.column_names.index("path"), "path", paths)
    columns = inside(columns_of_operations(operations), layout.chroot)
    columns = between(columns, layout.base_zxid, None)
    return columns.take(known_rows(columns))


def _operations(
    table: Any, paths: Any, number: int, unit: Unit, layout: RowLayout, output: TaskOutput
) -> Iterator[TaskFile]:
    """The rows of each day and bucket."""
    days, of_day = np.unique(table["time"].cast(pa.int64()).to_numpy() // _DAY_US, return_inverse=True)
    names = names_of(layout.buckets)
    codes = np.asarray(of_day).reshape(-1) * len(names) + _buckets(paths, layout)
    for code, rows in by_code(table, codes):
        day, bucket = divmod(code, len(names))
        place = f"day={_date(int(days[day]))}/bucket={names[bucket]}"
        zxids = rows["zxid"].to_numpy()
        file = _file(zxids, OPERATIONS, unit, layout, f"{place}/{unit.from_zxid:x}-{number}", names[bucket])
        yield output.write(rows, file)


def _buckets(paths: Any, layout: RowLayout) -> Numbers:
    """The number of the bucket of each row, by codes of paths; one without a path belongs to no group."""
    of_paths = numbers_of(paths.dictionary, layout.buckets, layout.chroot)
    of_none = len(of_paths)
    of_rows: Numbers = np.append(of_paths, 0)[paths.indices.fill_null(of_none).to_numpy()]
    return of_rows


def _file(
    zxids: Numbers, table: str, unit: Unit, layout: RowLayout, name: str, bucket: str = ""
) -> StoredFile:
    place = f"{table}/batch={layout.batch}/ensemble={unit.ensemble}/{name}.parquet"
    ends = int(zxids.min()), int(zxids.max())
    return StoredFile(place, table, unit.ensemble, bucket, unit.log, len(zxids), *ends)


def _date(day: int) -> str:
    """As ISO 8601 has it; a day that no calendar has is its number."""
    try:
        return datetime.fromtimestamp(day * 86_400, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return str(day)


class RemoteFolder:
    """The `version-2` of one server, or the folder above."""

    def __init__(self, storage: FolderStorage) -> None:
        self._storage = storage

    def listed(self) -> list[ListedLog]:
        """Its logs. Raises NotZooKeeperFileError where there is none, and no snapshot."""
        prefix, files = self._files()
        logs = [(file, size) for file, size in files if file.kind == LOG]
        found = logs_of_servers([logs])
        return [
            replace(each, files=(self._storage.path(prefix + Path(each.files[0]).name),)) for each in found
        ]

    def newest_snapshot(self) -> int:
        """The zxid in its name; 0 where there is none."""
        _, files = self._files()
        return max((file.zxid for file, _ in files if file.kind == SNAPSHOT), default=0)

    def rows(self) -> Rows:
        """The history from its first known tree on, for which the files behind that tree are fetched."""
        prefix, files = self._files()
        snapshots = [file for file, _ in files if file.kind == SNAPSHOT]
        logs = [file for file, _ in files if file.kind == LOG]
        with TemporaryDirectory(prefix="zkgroup-") as place:
            for number, snapshot in enumerate(snapshots):
                following = snapshots[number + 1].zxid if number + 1 < len(snapshots) else None
                wanted = [snapshot, *_around(logs, snapshot.zxid, following)]
                for file in wanted:
                    target = Path(place, file.path.name)
                    if not target.exists():
                        self._storage.fetch(prefix + file.path.name, target)
                rows = Folders(History(place)).rows()
                if not rows.seen.is_damaged:
                    return rows
            for file in logs[:1]:
                self._storage.fetch(prefix + file.path.name, Path(place, file.path.name))
            return Folders(History(place)).rows()

    def _files(self) -> tuple[str, list[tuple[ServerFile, int]]]:
        for prefix in ("", f"{DATA_FOLDER}/"):
            found = [
                (file, each.bytes)
                for each in self._storage.files(prefix)
                if (file := ServerFile.of(Path(each.name))) is not None
            ]
            if found:
                return prefix, sorted(found)
        raise NotZooKeeperFileError(
            self._storage.place, "snapshot.ZXID or log.ZXID, as in a version-2 folder", "none"
        )


def _around(logs: list[ServerFile], from_zxid: int, to_zxid: int | None) -> list[ServerFile]:
    """The logs that can have records behind one zxid, up to another."""
    ends = [*(log.zxid for log in logs[1:]), None]
    return [
        log
        for log, end in zip(logs, ends, strict=True)
        if (end is None or end > from_zxid) and (to_zxid is None or log.zxid <= to_zxid)
    ]


def decoded_of(
    spark: SparkSession, units: Sequence[tuple[Unit, RowLayout]], output: TaskOutput
) -> list[Decoded]:
    """Returns what tasks make of logs behind URIs, one a task: Spark brings the content."""
    context = spark.sparkContext
    tasks = [
        context.binaryFiles(unit.files[0], 1).map(partial(_of_content, unit, layout, output))
        for unit, layout in units
    ]
    return context.union(tasks).collect() if tasks else []


def _of_content(unit: Unit, layout: RowLayout, output: TaskOutput, named: tuple[str, bytes]) -> Decoded:
    (file,) = unit.files
    with TemporaryDirectory(prefix="zkgroup-") as place:
        path = Path(place, file.rpartition("/")[2])
        path.write_bytes(named[1])
        here = replace(unit, folders=(place,), files=(str(path),), start_offset=None)
        return decode(here, layout, output, file)
