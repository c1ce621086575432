"""The first step of every job: logs to Parquet, each record once, even if earlier jobs were killed.

A log that has a later one beside it never changes, so it is not read again; the newest one is read from
its last record on. If a log is not the one that was converted, its ensemble is converted anew.

A task reads one log, and writes operations by day and bucket, and rows of facts. Logs of one server are a
task each. With several servers the same records of all are read together, since the record that counts is
decided between them (`zkfiles.agreement`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from zkgroup.audit.findings.buckets import by_code, count_for, names_of, numbers_of
from zkgroup.audit.findings.tables import known_rows
from zkgroup.audit.inputs import manifest, rows
from zkgroup.audit.inputs.converted import OpenFile, parquet_of
from zkgroup.audit.inputs.events import seeds_of
from zkgroup.audit.inputs.manifest import Converted, ConvertedLog, Folder, OutputFolder, StoredFile
from zkgroup.audit.inputs.opening import Folders
from zkgroup.audit.inputs.source import Progress, SeenTree, quiet
from zkgroup.audit.spark.session import EnsembleInput
from zkgroup.audit.spark.storage import HadoopFolder, TaskFile, in_tasks, reached_by_tasks, written
from zkgroup.errors import DamagedFileError, NotZooKeeperFileError
from zkgroup.zkfiles import arrow
from zkgroup.zkfiles.agreement import pieces
from zkgroup.zkfiles.columns import Wanted, log_columns
from zkgroup.zkfiles.files import DATA_FOLDER, LOG, SNAPSHOT, ServerFile, list_files, with_following
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.logs import Hop, has_hop

_TASKS_AT_ONCE: Final = 64
"""The number of results that the driver has in memory, where it writes the files that tasks made."""
_LAST_ZXID: Final = (1 << 63) - 1

_Files = Sequence[tuple[ServerFile, int]]
"""The files of a server with their bytes; paths behind a URI are relative to the folder."""


class _Log(NamedTuple):
    """A log as the folders have it now; with several servers, all logs from one name to the next."""

    start: int
    end: int
    files: tuple[str, ...]
    sizes: tuple[int, ...]
    is_closed: bool


def convert(
    spark: SparkSession,
    output: OutputFolder,
    inputs: Sequence[EnsembleInput],
    chroot: str = "",
    progress: Progress = quiet,
) -> int:
    """Brings a folder up to date; returns the number of logs that were read.

    Raises ConfigError, and the errors of reading the inputs.
    """
    tasks: list[LogTask] = []
    ensembles, seen = dict(output.ensembles), dict[str, SeenTree]()
    for given in inputs:
        servers = _files_of(spark, given)
        logs = _logs_of(servers)
        snapshots = (file.zxid for files in servers for file, _ in files if file.kind == SNAPSHOT)
        newest_snapshot = max(snapshots, default=0)
        kept = ensembles.get(given.name)
        if kept is None or not kept.logs or not _still_holds(kept, given, logs, newest_snapshot):
            tree, first_zxid = _seen(spark, given, servers)
            seen[given.name], size = tree, sum(max(each.sizes, default=0) for each in logs)
            if kept is None or not kept.series:
                kept = Converted(0, 0, buckets=count_for(size), chroot=chroot)
            kept = replace(
                kept,
                base_zxid=tree.zxid,
                servers=len(given.folders),
                is_exact=tree.is_exact,
                detail=tree.detail,
                logs=(),
                states=(),
                first_zxid=first_zxid,
            )
        ensembles[given.name] = replace(kept, newest_snapshot=newest_snapshot)
        tasks += _tasks(given, logs, kept, output.number + 1)
    if not tasks and ensembles == output.ensembles:
        return 0
    output.clear()
    progress("converting logs", len(tasks))
    files: list[StoredFile] = []
    to = reached_by_tasks(output.folder)
    step = _TASKS_AT_ONCE if to is None else max(len(tasks), 1)
    for start in range(0, len(tasks), step):
        for name, log, made in in_tasks(spark, tasks[start : start + step], partial(decode, to)):
            others = [each for each in ensembles[name].logs if each.start != log.start]
            by_start = sorted([*others, log], key=lambda each: each.start)
            ensembles[name] = replace(ensembles[name], logs=tuple(by_start))
            files += [each.placed(output.folder) for each in made]
    for name, tree in seen.items():
        seeds = list(_seeds(output, name, ensembles[name], tree))
        ensembles[name] = replace(ensembles[name], seed_batch=output.number + 1 if seeds else None)
        files += seeds
    output.enter(ensembles, files)
    return len(tasks)


def _tasks(given: EnsembleInput, logs: Sequence[_Log], kept: Converted, batch: int) -> Iterator[LogTask]:
    before = {log.start: log for log in kept.logs}
    for found in logs:
        log = before.get(found.start) or ConvertedLog(found.start, (), False, found.start - 1, 0, 0, ())
        if _is_done(found, log):
            continue
        from_zxid, offset = 0 if found is logs[0] else found.start, None
        if log.rows:
            from_zxid = log.last_zxid + 1
            offset = log.last_offset if given.is_local and len(given.folders) == 1 else None
        yield LogTask(
            ensemble=given.name,
            folders=given.folders,
            place="" if given.is_local else given.folders[0],
            names=found.files,
            log=replace(log, sizes=found.sizes, is_closed=found.is_closed),
            from_zxid=from_zxid,
            to_zxid=found.end,
            offset=offset,
            batch=batch,
            converted=replace(kept, logs=(), states=()),
        )


def _seeds(output: OutputFolder, name: str, kept: Converted, seen: SeenTree) -> Iterator[StoredFile]:
    """Writes the tree before the first operation, by bucket, and the rows of facts in it."""
    columns = rows.columns_of(seeds_of(seen.tree))
    names = names_of(kept.buckets)
    of_rows = numbers_of(pa.array(columns.paths, pa.string()), kept.buckets, kept.chroot)[columns.path]
    parts = [
        (manifest.SEEDS, names[number], columns.take(np.flatnonzero(of_rows == number)))
        for number in np.unique(of_rows).tolist()
    ]
    inner = rows.inside(columns, kept.chroot)
    facts = inner.take(known_rows(inner))
    if len(facts):
        parts.append((manifest.FACTS, "", facts))
    for table, bucket, some in parts:
        folder = f"{table}/batch={output.number + 1}/ensemble={name}"
        place = f"{folder}/bucket={bucket}/seeds.parquet" if bucket else f"{folder}/seeds.parquet"
        output.folder.write(place, parquet_of(rows.table_of(some)))
        yield StoredFile(place, table, name, bucket, -1, len(some), -1, kept.base_zxid)


def _still_holds(known: Converted, given: EnsembleInput, found: Sequence[_Log], newest_snapshot: int) -> bool:
    """True if the folders still have all that was converted."""
    if known.servers != len(given.folders) or not (found or known.newest_snapshot == newest_snapshot):
        return False
    before = {log.start: log for log in known.logs}
    newest = max(before, default=-1)
    for each in found:
        log = before.get(each.start)
        if log is None:
            if each.start < newest:
                return False
        elif not _is_done(each, log) and not _is_same(each, log, given):
            return False
    return True


def _is_done(found: _Log, known: ConvertedLog) -> bool:
    return known.is_closed and known.sizes == found.sizes


def _is_same(found: _Log, known: ConvertedLog, given: EnsembleInput) -> bool:
    """True if a log still has the record that was its last; with several servers sizes are compared."""
    if not given.is_local or len(given.folders) > 1:
        return not known.is_closed and all(
            now >= then for now, then in zip(found.sizes, known.sizes, strict=False)
        )
    return not known.rows or has_hop(Path(found.files[0]), Hop(known.last_zxid, known.last_offset))


def _files_of(spark: SparkSession, given: EnsembleInput) -> list[_Files]:
    """The files of each server. Raises NotZooKeeperFileError where there is no log and no snapshot."""
    if given.is_local:
        listed = map(list_files, given.paths)
        return [
            [(file, file.path.stat().st_size) for file in (*each.snapshots, *each.logs)] for each in listed
        ]
    folder = HadoopFolder(spark, given.folders[0])
    for below in ("", DATA_FOLDER):
        sizes = folder.sizes(below)
        files = [(ServerFile.of(Path(below, name)), size) for name, size in sizes.items()]
        found = sorted((file, size) for file, size in files if file is not None)
        if found:
            return [found]
    raise NotZooKeeperFileError(folder.place, "snapshot.ZXID or log.ZXID, as in a version-2 folder", "none")


def _logs_of(servers: Sequence[_Files]) -> list[_Log]:
    """The stretches between the names of all logs."""
    of_servers = [[each for each in files if each[0].kind == LOG] for files in servers]
    starts = sorted({log.zxid for logs in of_servers for log, _ in logs})
    found = []
    for start, end in pairwise([*starts, _LAST_ZXID + 1]):
        newest = [max((each for each in logs if each[0].zxid <= start), default=None) for logs in of_servers]
        there = [each for each in newest if each is not None]
        paths, sizes = tuple(str(log.path) for log, _ in there), tuple(size for _, size in there)
        found.append(_Log(start, end - 1, paths, sizes, end <= _LAST_ZXID))
    return found


def _begun(*places: Path | str) -> tuple[SeenTree, int]:
    folders = Folders(History(*places))
    return folders.rows().seen, folders.logged[1]


def _seen(spark: SparkSession, given: EnsembleInput, servers: Sequence[_Files]) -> tuple[SeenTree, int]:
    """The first known tree, and the record from which on all is known; the files for them are fetched from
    a folder behind a URI."""
    if given.is_local:
        return _begun(*given.paths)
    folder = HadoopFolder(spark, given.folders[0])
    files = [file for file, _ in servers[0]]
    snapshots, logs = ([file for file in files if file.kind == kind] for kind in (SNAPSHOT, LOG))
    with TemporaryDirectory(prefix="zkgroup-") as place:

        def seen(wanted: Sequence[ServerFile]) -> tuple[SeenTree, int]:
            for file in wanted:
                target = Path(place, file.path.name)
                if not target.exists():
                    folder.fetch(str(file.path), target)
            return _begun(place)

        for snapshot, following in with_following(snapshots):
            around = [
                log
                for log, later in with_following(logs)
                if (later is None or later.zxid > snapshot.zxid)
                and (following is None or log.zxid <= following.zxid)
            ]
            found = seen([snapshot, *around])
            if not found[0].is_damaged:
                return found
        return seen(logs[:1])


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
            file = _file(facts.zxid, manifest.FACTS, task, f"{task.from_zxid:x}-{number}")
            files.append(written(rows.table_of(facts), file, output))
    if log.rows > task.log.rows:
        log = replace(log, batches=(*log.batches, task.batch))
    return task.ensemble, log, files


def _tables(task: LogTask, named: str | None) -> Iterator[Any]:
    """Yields the rows as pyarrow.Tables of bounded size; each begins with a transaction."""
    some: list[Any] = []
    for batch in batches_of(task):
        some.append(arrow.record_batch(batch))
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


def batches_of(task: LogTask) -> Iterator[arrow.Batch]:
    """Yields the rows of LOG of a task whose files are on paths."""
    if len(task.folders) > 1:
        wanted = Wanted(arrow.LOG, ", ".join(task.names))
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
        file = _file(zxids, manifest.OPERATIONS, task, f"{place}/{task.from_zxid:x}-{number}", names[bucket])
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
