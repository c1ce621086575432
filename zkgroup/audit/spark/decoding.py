"""The tasks of the first step, one for each log: operations as Parquet by day and bucket, and rows of facts.

Logs of one server are a task each. With several servers the same records of all are read together, since
the record that counts is decided between them (`zkfiles.agreement`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import pyarrow as pa

from zkgroup.audit.findings.buckets import by_code, names_of, numbers_of
from zkgroup.audit.findings.tables import known_rows
from zkgroup.audit.inputs import rows
from zkgroup.audit.inputs.converted import OpenFile
from zkgroup.audit.inputs.manifest import FACTS, OPERATIONS, Converted, ConvertedLog, Folder, StoredFile
from zkgroup.audit.spark.storage import TaskFile, written
from zkgroup.errors import DamagedFileError, NotZooKeeperFileError
from zkgroup.zkfiles.agreement import pieces
from zkgroup.zkfiles.arrow import LOG, Batch, record_batch
from zkgroup.zkfiles.columns import Wanted, log_columns
from zkgroup.zkfiles.history import History

_DAY_US: Final = 86_400_000_000
_LOG: Final = pa.field("log", pa.int64(), nullable=False)
"""The last column, behind those of LOG: the zxid in the name of the log that has the record."""


@dataclass(frozen=True, slots=True)
class LogTask:
    """The records of one ensemble from one log's name to the next, or the new ones of them."""

    ensemble: str
    folders: tuple[str, ...]
    place: str
    """The URI of the folder; empty for files by their paths."""
    names: tuple[str, ...]
    """The files of the log, one of each server that has it."""
    log: ConvertedLog
    """The sizes of the log now, with the last record that was converted."""
    from_zxid: int
    to_zxid: int
    """The last zxid that the log can have."""
    offset: int | None
    """The place of a record at or before `from_zxid`, in the only file."""
    batch: int
    converted: Converted
    """The ensemble, whose base, buckets and chroot are those of the rows."""

    @property
    def cost(self) -> int:
        return max(self.log.sizes, default=0)


DecodedLog = tuple[str, ConvertedLog, list[TaskFile]]
"""The result of a task: the ensemble, the log after it, and the files that it made."""


def decode(output: Folder | None, task: LogTask, source: OpenFile) -> DecodedLog:
    """Reads a log, or its new records, and writes its rows; skips what is damaged."""
    if not task.place:
        return _decode_log(task, output, None)
    (name,) = task.names
    with TemporaryDirectory(prefix="zkgroup-") as place:
        path = Path(place, Path(name).name)
        path.write_bytes(source(name).read_buffer())
        here = replace(task, folders=(place,), names=(str(path),))
        return _decode_log(here, output, f"{task.place}/{name}")


def _decode_log(task: LogTask, output: Folder | None, named: str | None) -> DecodedLog:
    """Decodes files on paths. `named` is the file in the rows, where that is not its path here."""
    log, files = task.log, list[TaskFile]()
    for number, table in enumerate(_tables(task, named)):
        paths = table["path"].combine_chunks().dictionary_encode()
        log = replace(
            log,
            rows=log.rows + table.num_rows,
            first_ms=log.first_ms if log.rows else table["time"][0].cast(pa.int64()).as_py() // 1000,
            last_zxid=table["zxid"][-1].as_py(),
            last_offset=table["offset"][-1].as_py(),
        )
        files += _operations(table, paths, number, task, output)
        facts = _facts(table, paths, task.converted)
        if len(facts):
            file = _file(facts.zxid, FACTS, task, f"{task.from_zxid:x}-{number}")
            files.append(written(rows.table_of(facts), file, output))
    if log.rows > task.log.rows:
        log = replace(log, batches=(*log.batches, task.batch))
    return task.ensemble, log, files


def _tables(task: LogTask, named: str | None) -> Iterator[Any]:
    """Yields the rows as pyarrow.Tables of bounded size; each begins with a transaction."""
    some: list[Any] = []
    for batch in batches_of(task):
        some.append(record_batch(batch))
        if sum(each.num_rows for each in some) >= rows.ROWS_PER_PART:
            yield _table(some, task, named)
            some = []
    if some:
        yield _table(some, task, named)


def _table(batches: list[Any], task: LogTask, named: str | None) -> Any:
    table = pa.Table.from_batches(batches)
    if named is not None:
        at = table.column_names.index("file")
        table = table.set_column(at, table.field(at), pa.repeat(pa.scalar(named), table.num_rows))
    return table.append_column(_LOG, pa.repeat(pa.scalar(task.log.start, pa.int64()), table.num_rows))


def batches_of(task: LogTask) -> Iterator[Batch]:
    """Yields the rows of LOG of a task whose files are on paths."""
    if len(task.folders) > 1:
        wanted = Wanted(LOG, ", ".join(task.names))
        for piece in pieces(History(*task.folders).ensemble, task.from_zxid, task.to_zxid):
            yield from piece.batches(wanted)
        return
    (file,) = task.names
    try:
        yield from log_columns(
            Path(file), from_zxid=task.from_zxid, to_zxid=task.to_zxid, start_offset=task.offset, resync=True
        )
    except DamagedFileError:
        return
    except NotZooKeeperFileError as error:
        if error.__cause__ is not None:
            raise


def _facts(table: Any, paths: Any, converted: Converted) -> rows.Columns:
    operations = table.select(rows.OPERATION_COLUMNS)
    operations = operations.set_column(operations.column_names.index("path"), "path", paths)
    columns = rows.inside(rows.columns_of_operations(operations), converted.chroot)
    columns = rows.between(columns, converted.base_zxid, None)
    return columns.take(known_rows(columns))


def _operations(
    table: Any, paths: Any, number: int, task: LogTask, output: Folder | None
) -> Iterator[TaskFile]:
    days, of_day = np.unique(table["time"].cast(pa.int64()).to_numpy() // _DAY_US, return_inverse=True)
    names = names_of(task.converted.buckets)
    of_paths = numbers_of(paths.dictionary, task.converted.buckets, task.converted.chroot)
    of_paths = np.append(of_paths, 0)  # a row without a path belongs to no group
    buckets = of_paths[paths.indices.fill_null(len(of_paths) - 1).to_numpy()]
    codes = np.asarray(of_day).reshape(-1) * len(names) + buckets
    for code, some in by_code(table, codes):
        day, bucket = divmod(code, len(names))
        place = f"day={_date(int(days[day]))}/bucket={names[bucket]}"
        zxids = some["zxid"].to_numpy()
        file = _file(zxids, OPERATIONS, task, f"{place}/{task.from_zxid:x}-{number}", names[bucket])
        yield written(some, file, output)


def _file(zxids: rows.Numbers, table: str, task: LogTask, name: str, bucket: str = "") -> StoredFile:
    place = f"{table}/batch={task.batch}/ensemble={task.ensemble}/{name}.parquet"
    ends = int(zxids.min()), int(zxids.max())
    return StoredFile(place, table, task.ensemble, bucket, task.log.start, len(zxids), *ends)


def _date(day: int) -> str:
    """A date in ISO 8601; the number of the day where no calendar has it."""
    try:
        return datetime.fromtimestamp(day * 86_400, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return str(day)
