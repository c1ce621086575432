"""The first step of every job: logs to Parquet, each record once, even if earlier jobs were killed.

A log that has a later one beside it never changes, so it is not read again; the newest one is read from
its last record on. If a log is not the one that was converted, its ensemble is converted anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from zkgroup.audit.findings.buckets import count_for, names_of, numbers_of
from zkgroup.audit.findings.tables import known_rows
from zkgroup.audit.inputs.converted import parquet_of
from zkgroup.audit.inputs.events import seeds_of
from zkgroup.audit.inputs.manifest import FACTS, SEEDS, Converted, ConvertedLog, OutputFolder, StoredFile
from zkgroup.audit.inputs.opening import Folders
from zkgroup.audit.inputs.rows import columns_of, inside, table_of
from zkgroup.audit.inputs.source import Progress, SeenTree, quiet
from zkgroup.audit.spark.decoding import DecodedLog, LogTask, decode
from zkgroup.audit.spark.session import EnsembleInput
from zkgroup.audit.spark.storage import HadoopFolder, in_tasks, reached_by_tasks
from zkgroup.errors import NotZooKeeperFileError
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
    for name, log, made in _results_of(spark, output, tasks):
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


def _results_of(spark: SparkSession, output: OutputFolder, tasks: Sequence[LogTask]) -> Iterator[DecodedLog]:
    to = reached_by_tasks(output.folder)
    step = _TASKS_AT_ONCE if to is None else max(len(tasks), 1)
    for start in range(0, len(tasks), step):
        yield from in_tasks(spark, tasks[start : start + step], partial(decode, to))


def _seeds(output: OutputFolder, name: str, kept: Converted, seen: SeenTree) -> Iterator[StoredFile]:
    """Writes the tree before the first operation, by bucket, and the rows of facts in it."""
    columns = columns_of(seeds_of(seen.tree))
    names = names_of(kept.buckets)
    of_rows = numbers_of(pa.array(columns.paths, pa.string()), kept.buckets, kept.chroot)[columns.path]
    parts = [
        (SEEDS, names[number], columns.take(np.flatnonzero(of_rows == number)))
        for number in np.unique(of_rows).tolist()
    ]
    inner = inside(columns, kept.chroot)
    facts = inner.take(known_rows(inner))
    if len(facts):
        parts.append((FACTS, "", facts))
    for table, bucket, rows in parts:
        folder = f"{table}/batch={output.number + 1}/ensemble={name}"
        place = f"{folder}/bucket={bucket}/seeds.parquet" if bucket else f"{folder}/seeds.parquet"
        output.folder.write(place, parquet_of(table_of(rows)))
        yield StoredFile(place, table, name, bucket, -1, len(rows), -1, kept.base_zxid)


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
