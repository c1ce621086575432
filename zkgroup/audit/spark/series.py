"""Tree snapshots over time on Spark: each file is read once, and all that was read is compared.

A task reads some snapshots that follow each other, behind the one before them, and writes what is otherwise.
That one is a file of the same job, or the last tree in the output.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from zkgroup.audit.findings.buckets import CLUSTER, bucket_of_group, by_code, count_for, names_of, numbers_of
from zkgroup.audit.findings.engine import KNOWN_RULES, Found, Skipped, audit, order, series_of, state_rules_of
from zkgroup.audit.findings.rules import Finding
from zkgroup.audit.findings.states import find_states
from zkgroup.audit.inputs import manifest, stored_series
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.found_files import (
    FoundFiles,
    SkippedFile,
    SnapshotFile,
    Stamp,
    find_files,
    stamp_of,
)
from zkgroup.audit.inputs.manifest import Converted, Folder, OutputFolder, StoredFile
from zkgroup.audit.inputs.series_source import SeriesSource
from zkgroup.audit.inputs.snapshots import Series, SeriesReader, chroot_of, is_fact
from zkgroup.audit.inputs.source import Progress, quiet
from zkgroup.audit.inputs.stored_files import OpenFile
from zkgroup.audit.inputs.stored_series import StoredSnapshot, read_stored, rows_from, snapshots_in, znodes_in
from zkgroup.audit.spark.evaluation import FilesTask, Question
from zkgroup.audit.spark.session import EnsembleInput
from zkgroup.audit.spark.storage import HadoopFolder, TaskFile, in_tasks, reached_by_tasks, written
from zkgroup.errors import ConfigError, DamagedFileError
from zkgroup.zkfiles.files import LOG, ServerFile
from zkgroup.zkfiles.snapshots import TreeSnapshot

_AT_ONCE: Final = 32
_MOST_FILES: Final = 64
"""Rows in more files are brought into one for each bucket."""
_ROWS_AT_ONCE: Final = 2_000_000
"""Where there are no more, one task runs all rules; else one more for each bucket."""
_END_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class SeriesTask:
    """Some tree snapshots, with those beside them."""

    ensemble: str
    converted: Converted
    place: str
    """The URI of their folder; empty for files by their paths."""
    files: tuple[SnapshotFile, ...]
    stored: tuple[tuple[TreeSnapshot, Any], ...]
    """Those that are in the output, with their rows."""
    after_zxid: int
    """What is behind it is written; -1 for all."""
    whole: frozenset[int]
    """The zxids of those in the output that came again with another content."""
    is_last: bool
    batch: int

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(file.path.name for file in self.files) if self.place else ()

    @property
    def cost(self) -> int:
        return len(self.files)


DecodedSeries = tuple[Sequence[TreeSnapshot], Sequence[TaskFile] | None, Sequence[SkippedFile]]
"""The result: files are None where the snapshot before could not be read."""


def decode_series(output: Folder | None, task: SeriesTask, source: OpenFile) -> DecodedSeries:
    """Reads tree snapshots one on top of the other, and writes what is otherwise in each.

    Raises MixedEnsembleError, and ConfigError for an export of another chroot.
    """
    files = [
        SnapshotFile(of.zxid, of.path, of.header, read=partial(read_stored, of, rows))
        for of, rows in task.stored
    ]
    with TemporaryDirectory(prefix="zkgroup-") as place:
        for name in task.names:
            Path(place, name).write_bytes(source(name).read_buffer())
        files += [each._replace(path=_named(each.path, task.place and place)) for each in task.files]
        files.sort(key=lambda each: (each.zxid, each.header is None, each.path))
        reader = SeriesReader(files, task.converted.chroot, quiet, is_whole=True)
        made: list[TaskFile] | None = None
        snapshots: Sequence[TreeSnapshot] = ()
        with suppress(DamagedFileError):  # where none can be read
            series = reader.series()
            snapshots = [each for each in series.snapshots if each.zxid > task.after_zxid]
            if task.after_zxid in (-1, series.snapshots[0].zxid):
                made = [_file(*each, task.ensemble, task.batch, output) for each in _parts(task, series)]
    of_files = [each._replace(path=_named(each.path, task.place)) for each in snapshots]
    skipped = [each._replace(path=str(_named(Path(each.path), task.place))) for each in reader.skipped]
    return of_files, made, skipped


def _named(path: Path, place: str) -> Path:
    return Path(place, path.name) if place else path


def _parts(task: SeriesTask, series: Series) -> Iterator[tuple[str, str, Any]]:
    """Yields rows with their table and bucket."""
    rows, count = stored_series.changes_in(series, task.after_zxid, task.whole), task.converted.buckets
    paths = rows["path"].combine_chunks().dictionary_encode()
    codes = paths.indices.to_numpy()
    for number, some in by_code(rows, numbers_of(paths.dictionary, count)[codes]):
        yield manifest.ZNODES, names_of(count)[number], some
    of_facts = np.array([is_fact(path) for path in paths.dictionary.to_pylist()], np.bool_)[codes]
    if of_facts.any():
        yield manifest.ZNODE_FACTS, "", rows.filter(pa.array(of_facts))
    if task.is_last:
        yield manifest.TREES, "", stored_series.last_tree(series)


def _file(table: str, bucket: str, rows: Any, ensemble: str, batch: int, output: Folder | None) -> TaskFile:
    """Writes rows of a series, to a file that is named by the first snapshot in it."""
    zxids = rows["snapshot_zxid"].to_numpy()
    first, last = (int(zxids.min()), int(zxids.max())) if len(zxids) else (0, 0)
    place = f"{table}/batch={batch}/ensemble={ensemble}" + (f"/bucket={bucket}" if bucket else "")
    name = f"{place}/{first:x}.parquet"
    return written(rows, StoredFile(name, table, ensemble, bucket, batch, len(rows), first, last), output)


def is_series(spark: SparkSession, name: str, output: OutputFolder, files: EnsembleInput | None) -> bool:
    """True if an ensemble has tree snapshots alone. Raises ConfigError for exports beside logs."""
    before = output.ensembles.get(name)
    if before is not None or files is None:
        return before is not None and bool(before.series)
    if not files.is_local:
        return bool(snapshots_at(spark, files.folders[0])[1])
    found = find_files(files.paths)
    export = next((each.path for each in found.snapshots if each.header is not None), None)
    if found.folders and export is not None:
        raise ConfigError(
            f"ensemble {name!r}: expected logs or exports, found both, {found.folders[0]} and {export}: give"
            " the exports a name of their own, or use `audit findings`"
        )
    return not found.folders


def convert_series(
    spark: SparkSession,
    output: OutputFolder,
    given: EnsembleInput,
    chroot: str = "",
    keep_ms: int | None = None,
    progress: Progress = quiet,
) -> Sequence[SkippedFile]:
    """Brings the tree snapshots of one ensemble up to date; returns the files that cannot be read.

    Args:
        keep_ms: those that are so much older than the last one are left out from now on.

    Raises MixedEnsembleError, DamagedFileError where none can be read, and ConfigError for logs, for an
    export of another chroot, and for another chroot than before.
    """
    stored: dict[int, StoredSnapshot] = {}
    if given.name in output.ensembles:
        stored_series.require_chroot(output, given.name, chroot)
        stored = {each.snapshot.zxid: each for each in snapshots_in(output, given.name)}
    with _there(spark, given, stored) as (found, stamp, place):
        base = "" if stored else chroot_of(found.snapshots, chroot, is_whole=False)
        converted = output.ensembles.get(given.name) or Converted(0, 1, buckets=count_for(0), chroot=base)
        job = _Conversion(spark, output, given.name, converted, place, stored, found.snapshots, stamp)
        progress("converting snapshots", len(job.files))
        read, made, damaged = (list(chain.from_iterable(each)) for each in zip(*job.decoded(), strict=True))
    skipped = {each.path: each for each in (*found.skipped, *damaged)}
    new = [StoredSnapshot(each, job.contents(each.zxid, skipped)) for each in read if each.zxid in job.files]
    if new:
        files = [each.placed(output.folder) for each in made]
        rows = stored_series.snapshot_table(new)
        files.append(_file(manifest.SNAPSHOTS, "", rows, given.name, output.number + 1, output.folder).file)
        converted = replace(converted, series=(*converted.series, output.number + 1))
        output.enter({**output.ensembles, given.name: converted}, files)
    elif not stored:
        first = next(iter(skipped.values()))
        raise DamagedFileError(first.path, 0, "a snapshot that can be read", first.reason)
    _tidy(output, given.name, keep_ms)
    return [*skipped.values()]


_StampOf = Callable[[Path], Stamp]


@contextmanager
def _there(
    spark: SparkSession, given: EnsembleInput, stored: Mapping[int, StoredSnapshot]
) -> Iterator[tuple[FoundFiles, _StampOf, str]]:
    """The files that are there still, their stamps, and the URI of their folder, from where new ones come."""
    known = {
        stamp: SnapshotFile(zxid, Path(stamp[0]), of.header)
        for zxid, (of, contents) in stored.items()
        for stamp in contents.values()
    }
    with TemporaryDirectory(prefix="zkgroup-") as temporary:
        paths, place, stamp = given.paths, "", stamp_of
        if not given.is_local:
            paths, (folder, stamps) = (Path(temporary),), snapshots_at(spark, given.folders[0])
            place, stamp = folder.place, lambda path: stamps[path.name]
            for name in (name for name, one in stamps.items() if one not in known):
                folder.fetch(name, Path(temporary, name))
        is_there = (any(each.iterdir()) if each.is_dir() else each.exists() for each in paths)
        some = (path for path, there in zip(paths, is_there, strict=True) if there or not stored)
        found = find_files(some, known)
        if found.folders:
            raise ConfigError(f"{found.folders[0]}: expected snapshots without logs, as before, found logs")
        yield found, stamp, place


def snapshots_at(spark: SparkSession, place: str) -> tuple[HadoopFolder, Mapping[str, Stamp]]:
    """The files of a folder at a URI, or those that its last part names or matches, with their stamps.

    None of them where it has logs. Raises ConfigError.
    """
    folder = HadoopFolder(spark, place)
    stamps = folder.stamps()
    if not stamps:
        above, _, pattern = place.rpartition("/")
        folder = HadoopFolder(spark, above)
        stamps = {name: stamp for name, stamp in folder.stamps().items() if fnmatchcase(name, pattern)}
    kinds = [ServerFile.of(Path(name)) for name in stamps]
    return folder, {} if any(each is not None and each.kind == LOG for each in kinds) else stamps


def _content_of(path: Path) -> str:
    with path.open("rb") as opened:
        size = path.stat().st_size
        opened.seek(max(size - _END_BYTES, 0))
        return f"{size}-{crc32(opened.read()):08x}"


@dataclass
class _Conversion:
    """The new tree snapshots of an ensemble, among those that are stored."""

    spark: SparkSession
    output: OutputFolder
    name: str
    converted: Converted
    place: str
    stored: Mapping[int, StoredSnapshot]
    found: Sequence[SnapshotFile]
    stamp: _StampOf

    def __post_init__(self) -> None:
        self.files: dict[int, dict[str, SnapshotFile]] = {}
        """Those that are not converted yet, by zxid and content."""
        for file in self.found:
            known = self._known(file.zxid)
            is_new = file.zxid >= self.converted.from_zxid and self.stamp(file.path) not in known.values()
            if is_new and (content := _content_of(file.path)) not in known:
                self.files.setdefault(file.zxid, {})[content] = file
        self._zxids = sorted({*self.stored, *self.files})

    def _known(self, zxid: int) -> Mapping[str, Stamp]:
        return self.stored[zxid].contents if zxid in self.stored else {}

    def contents(self, zxid: int, skipped: Collection[str]) -> Mapping[str, Stamp]:
        """Those of all files of a zxid, without such as could not be read."""
        new = {
            content: self.stamp(file.path)
            for content, file in self.files[zxid].items()
            if str(_named(file.path, self.place)) not in skipped
        }
        return {**self._known(zxid), **new}

    def decoded(self) -> Sequence[tuple[Sequence[Any], ...]]:
        """The results of all tasks; one whose first snapshot is damaged begins with an earlier one."""
        if self.files:
            self.output.clear()
        parts = list(self._parts())
        made = self._run(parts, self._zxids)
        read = {*self.stored, *(one.zxid for snapshots, _, _ in made for one in snapshots)}
        again = [number for number, (_, files, _) in enumerate(made) if files is None]
        for number, each in zip(again, self._run([parts[number] for number in again], read), strict=True):
            made[number] = each
        return [(snapshots, files or (), skipped) for snapshots, files, skipped in made] or [((), (), ())]

    def _parts(self) -> Iterator[list[int]]:
        """The zxids of each task: new ones that follow each other."""
        part: list[int] = []
        for zxid in self._zxids:
            if part and (zxid not in self.files or len(part) == _AT_ONCE):
                yield part
                part = []
            part += [zxid] if zxid in self.files else []
        yield from [part] if part else []

    def _run(self, parts: Sequence[Sequence[int]], known: Collection[int]) -> list[DecodedSeries]:
        to, tasks = reached_by_tasks(self.output.folder), [self._task(part, known) for part in parts]
        return in_tasks(self.spark, tasks, partial(decode_series, to))

    def _task(self, part: Sequence[int], known: Collection[int]) -> SeriesTask:
        """`known`: the zxids of snapshots that can be read, as far as is known."""
        before = max((zxid for zxid in known if zxid < part[0]), default=-1)
        behind = [zxid for zxid in self._zxids if zxid > part[-1]][:1]
        zxids = [before, *part, *(zxid for zxid in behind if zxid not in self.files)]
        return SeriesTask(
            ensemble=self.name,
            converted=self.converted,
            place=self.place,
            files=tuple(file for zxid in zxids for file in self.files.get(zxid, {}).values()),
            stored=tuple(
                (self.stored[zxid].snapshot, self._tree(zxid)) for zxid in zxids if zxid in self.stored
            ),
            after_zxid=before,
            whole=frozenset(part).intersection(self.stored),
            is_last=not behind,
            batch=self.output.number + 1,
        )

    def _tree(self, zxid: int) -> Any:
        files = self.output.files(manifest.TREES, self.name)[-1:]
        if files[0].last_zxid != zxid:
            files = self.output.files(manifest.ZNODES, self.name)
        return stored_series.tree_in(znodes_in(files, self.output.folder.source), zxid)


def _tidy(output: OutputFolder, name: str, keep_ms: int | None) -> None:
    """Brings the rows into one batch: from many files, without old ones where snapshots came again or are not
    kept."""
    converted, stored = output.ensembles[name], snapshots_in(output, name)
    from_zxid = converted.from_zxid
    if keep_ms is not None:
        since_ms = max(each.snapshot.time_ms for each in stored) - keep_ms
        first = next(each.snapshot.zxid for each in stored if each.snapshot.time_ms >= since_ms)
        from_zxid = first if first > stored[0].snapshot.zxid else from_zxid
    is_once = sum(file.rows for file in output.files(manifest.SNAPSHOTS, name)) == len(stored)
    is_tidy = is_once and len(output.files(manifest.ZNODES, name)) <= _MOST_FILES
    if from_zxid == converted.from_zxid and is_tidy:
        return
    batch, folder = output.number + 1, output.folder
    output.clear()
    kept = [each for each in stored if each.snapshot.zxid >= from_zxid]
    parts = [(manifest.SNAPSHOTS, "", stored_series.snapshot_table(kept))]
    by_part: dict[tuple[str, str], list[StoredFile]] = {}
    for table in (manifest.ZNODES, manifest.ZNODE_FACTS, manifest.TREES):
        for file in output.files(table, name)[-1 if table == manifest.TREES else 0 :]:
            by_part.setdefault((table, file.bucket), []).append(file)
    for part, some in by_part.items():
        parts.append((*part, rows_from(znodes_in(some, folder.source), from_zxid)))
    files = [_file(*part, name, batch, folder).file for part in parts]
    output.enter({**output.ensembles, name: replace(converted, series=(batch,), from_zxid=from_zxid)}, files)
    for old in converted.series:
        for table in manifest.OF_SERIES:
            folder.delete(f"{table}/batch={old}")


_Left = Sequence[tuple[str, str]]
"""The names of rules that were left out, with the reasons."""


def find_in_series(shared: Any, task: FilesTask, source: OpenFile) -> tuple[list[Finding], _Left, Facts]:
    """Runs the rules of series on a bucket; on all buckets the others, too, or all where these are not many.

    Args:
        shared: the broadcast of the names of rules, the rest of the question, all snapshots, and the number
            of buckets.
    """
    names, question, snapshots, count = shared.value
    rules = [rule for rule in KNOWN_RULES if rule.name in names]
    whole = SeriesSource(stored_series.series_in(znodes_in(task.files, source), snapshots))
    start, end, group = question.start, question.end, question.group
    if not task.bucket:
        is_alone = task.cost <= _ROWS_AT_ONCE
        bounds = {f"{rule}.{name}": one for rule, of in question.bounds.items() for name, one in of.items()}
        found = audit(
            whole,
            rules,
            bounds,
            start=start,
            end=end,
            group=group,
            is_here=lambda rule: rule.is_whole or is_alone,
        )
        return found.findings, [(each.rule.name, each.reason) for each in found.skipped], found.facts
    asked = [rule for rule in state_rules_of(rules) if not rule.is_whole]
    findings = [
        one
        for series in series_of(whole, start, end)
        if len(series.snapshots) > 1
        for one in find_states(asked, series, question.bounds)
        if task.bucket == (CLUSTER if one.group is None else bucket_of_group(one.group, count))
    ]
    return [one for one in findings if group in (None, one.group)], (), Facts()


def found_in(spark: SparkSession, output: OutputFolder, name: str, question: Question) -> Found:
    """The findings of the tree snapshots of an ensemble. Raises as `audit`, and as `table_in`."""
    files, facts = (output.files(table, name) for table in (manifest.ZNODES, manifest.ZNODE_FACTS))
    count, place = output.ensembles[name].buckets, output.folder.place
    tasks = [FilesTask(place, "", tuple(files))]
    for bucket in names_of(count) if tasks[0].cost > _ROWS_AT_ONCE else ():
        of_bucket = [file for file in files if file.bucket == bucket]
        tasks += [FilesTask(place, bucket, (*of_bucket, *facts))] if of_bucket else []
    names = frozenset(rule.name for rule in question.rules)
    snapshots = [each.snapshot for each in snapshots_in(output, name)]
    shared = spark.sparkContext.broadcast((names, question._replace(rules=()), snapshots, count))
    (of_all, left, known), *others = in_tasks(spark, tasks, partial(find_in_series, shared))
    rules = {rule.name: rule for rule in KNOWN_RULES}
    findings = sorted((*of_all, *(one for found, _, _ in others for one in found)), key=order)
    return Found(findings, [Skipped(rules[rule], reason) for rule, reason in left], known)
