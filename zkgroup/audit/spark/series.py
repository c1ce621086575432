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
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from zkgroup.audit.findings.buckets import CLUSTER, bucket_of_group, by_code, count_for, names_of, numbers_of
from zkgroup.audit.findings.engine import KNOWN_RULES, audit, order, series_of, state_rules_of
from zkgroup.audit.findings.rules import Bounds, Finding, StateRule
from zkgroup.audit.findings.states import find_states
from zkgroup.audit.inputs import found_files, manifest, stored_series
from zkgroup.audit.inputs.converted import ConvertedSource, OpenFile
from zkgroup.audit.inputs.events import is_of_groups
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.found_files import FoundFiles, SkippedFile, SnapshotFile, Stamp, find_files
from zkgroup.audit.inputs.manifest import Converted, Folder, OutputFolder, StoredFile
from zkgroup.audit.inputs.opening import Folders, end_logs
from zkgroup.audit.inputs.series_source import SeriesSource
from zkgroup.audit.inputs.snapshots import Series, SeriesReader, chroot_of, is_fact
from zkgroup.audit.inputs.source import PointInTime, Progress, quiet
from zkgroup.audit.inputs.stored_series import StoredSnapshot, read_stored, rows_from, snapshots_in, znodes_in
from zkgroup.audit.spark.evaluation import FilesTask, Question
from zkgroup.audit.spark.session import EnsembleInput
from zkgroup.audit.spark.storage import HadoopFolder, TaskFile, in_tasks, reached_by_tasks, written
from zkgroup.errors import ConfigError, DamagedFileError
from zkgroup.zkfiles.files import LOG, ServerFile
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.snapshots import TreeSnapshot
from zkgroup.zkfiles.states import StatesReader
from zkgroup.znodes.paths import path_kind

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


class Files(NamedTuple):
    """The files of an ensemble that are there still."""

    given: EnsembleInput
    logs: EnsembleInput | None
    """The folders with logs; None where there are none."""
    found: FoundFiles
    stamp: Callable[[Path], Stamp]
    place: str
    """The URI of the folder of tree snapshots; empty for files by their paths."""
    stored: Mapping[int, StoredSnapshot]
    """The tree snapshots that were converted before."""


@contextmanager
def files_of(spark: SparkSession, output: OutputFolder, given: EnsembleInput) -> Iterator[Files]:
    """The files of an input; from a URI those that are new are fetched.

    Raises NotZooKeeperFileError, and ConfigError for logs and exports behind one URI.
    """
    is_known = given.name in output.ensembles
    stored = {each.snapshot.zxid: each for each in snapshots_in(output, given.name)} if is_known else {}
    known = {
        stamp: SnapshotFile(zxid, Path(stamp[0]), of.header)
        for zxid, (of, contents) in stored.items()
        for stamp in contents.values()
    }
    with TemporaryDirectory(prefix="zkgroup-") as temporary:
        paths, place, stamp, logs = given.paths, "", found_files.stamp_of, None
        if not given.is_local:
            folder, stamps = snapshots_at(spark, given.folders[0])
            paths, place, stamp = (Path(temporary),), folder.place, lambda path: stamps[path.name]
            for name in (name for name, one in stamps.items() if one not in known):
                folder.fetch(name, Path(temporary, name))
            logs = None if stamps or stored else given
        is_there = (any(each.iterdir()) if each.is_dir() else each.exists() for each in paths)
        is_asked = given.is_local and not stored
        found = find_files(
            (path for path, there in zip(paths, is_there, strict=True) if there or is_asked), known
        )
        if found.folders:
            logs = replace(given, folders=tuple(map(str, found.folders)))
        yield Files(given, logs, found, stamp, place, stored)


def convert_series(
    spark: SparkSession, output: OutputFolder, files: Files, chroot: str = "", progress: Progress = quiet
) -> Sequence[SkippedFile]:
    """Brings the tree snapshots of one ensemble up to date; returns the files that cannot be read.

    Raises MixedEnsembleError, DamagedFileError where there are no logs and none can be read, and ConfigError
    for an export of another chroot, and for another chroot than before.
    """
    name, found, stored = files.given.name, files.found, files.stored
    before, logs = output.ensembles.get(name), files.logs
    if logs is not None and logs.is_local:
        end_logs(found, Folders(History(*logs.paths)), stored)
    if not (found.snapshots or found.skipped or stored):
        return ()
    if before is not None:
        stored_series.require_chroot(output, name, chroot)
    base = before.chroot if before is not None else chroot_of(found.snapshots, chroot, is_whole=False)
    converted = before or Converted(0, 1, buckets=count_for(0), chroot=base)
    job = _Conversion(spark, output, converted, files)
    progress("converting snapshots", len(job.files))
    read, made, damaged = (list(chain.from_iterable(each)) for each in zip(*job.decoded(), strict=True))
    skipped = {each.path: each for each in (*found.skipped, *damaged)}
    new = [StoredSnapshot(each, of) for each in read if (of := job.contents(each.zxid, skipped))]
    if new:
        placed = [each.placed(output.folder) for each in made]
        rows = stored_series.snapshot_table(new)
        placed.append(_file(manifest.SNAPSHOTS, "", rows, name, output.number + 1, output.folder).file)
        converted = replace(converted, series=(*converted.series, output.number + 1))
        output.enter({**output.ensembles, name: converted}, placed)
    elif before is None:
        first = next(iter(skipped.values()))
        raise DamagedFileError(first.path, 0, "a snapshot that can be read", first.reason)
    if converted.skipped != tuple(skipped.values()):
        converted = replace(converted, skipped=tuple(map(tuple, skipped.values())))
        output.enter({**output.ensembles, name: converted}, ())
    return [*skipped.values()]


def snapshots_at(spark: SparkSession, place: str) -> tuple[HadoopFolder, Mapping[str, Stamp]]:
    """The files of a folder at a URI, or those that its last part names or matches, with their stamps.

    None of them where it has logs. Raises ConfigError for exports beside these.
    """
    folder = HadoopFolder(spark, place)
    stamps = folder.stamps()
    if not stamps:
        above, _, pattern = place.rpartition("/")
        folder = HadoopFolder(spark, above)
        stamps = {name: stamp for name, stamp in folder.stamps().items() if fnmatchcase(name, pattern)}
    kinds = {name: ServerFile.of(Path(name)) for name in stamps}
    if not any(each is not None and each.kind == LOG for each in kinds.values()):
        return folder, stamps
    exports = [name for name, kind in kinds.items() if kind is None and name.endswith(found_files.OF_EXPORTS)]
    if exports:
        raise ConfigError(
            f"{place}: expected logs or exports behind a URI, found both, also {exports[0]}: audit them on"
            " local or shared paths"
        )
    return folder, {}


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
    converted: Converted
    given: Files

    def __post_init__(self) -> None:
        self.name, self.stored, self.place = self.given.given.name, self.given.stored, self.given.place
        self._known = {zxid: each.contents for zxid, each in self.stored.items()}
        self.files: dict[int, dict[str, SnapshotFile]] = {}
        """Those that are not converted yet, by zxid and content."""
        # Taken before they are read: what is written meanwhile is another file.
        self._stamps = {file.path: self.given.stamp(file.path) for file in self.given.found.read}
        for file in self.given.found.read:
            known = self._known.get(file.zxid, {})
            if file.zxid < self.converted.from_zxid or self._stamps[file.path] in known.values():
                continue
            content = stored_series.TAIL if file.read else _content_of(file.path)
            if content not in known:
                self.files.setdefault(file.zxid, {})[content] = self._for_task(file)
        self._zxids = sorted({*self.stored, *self.files})

    def _for_task(self, file: SnapshotFile) -> SnapshotFile:
        """The tree at the end of logs as rows."""
        if file.read is None:
            return file
        reader = StatesReader(self.converted.chroot)
        snapshot, states = file.read(reader)
        rows = stored_series.last_tree(Series([snapshot], reader.states, [states]))
        return file._replace(read=partial(read_stored, snapshot, rows))

    def contents(self, zxid: int, skipped: Collection[str]) -> Mapping[str, Stamp]:
        """Those of all files of a zxid, without such as could not be read; empty where no other is new."""
        new = {
            content: self._stamps[file.path]
            for content, file in self.files.get(zxid, {}).items()
            if str(_named(file.path, self.place)) not in skipped
        }
        files = {**self._known.get(zxid, {}), **new} if new else {}
        return {each: stamp for each, stamp in files.items() if each != stored_series.TAIL or len(files) == 1}

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
        rows = znodes_in(files, self.output.folder.source)
        return rows_from(rows.filter(pc.field("snapshot_zxid") <= zxid), zxid)


def tidy(output: OutputFolder, name: str, since_ms: int | None) -> None:
    """Brings the rows into one batch: from many files, without old ones where snapshots came again or are of
    before a time."""
    converted, stored = output.ensembles[name], snapshots_in(output, name)
    from_zxid = converted.from_zxid
    if since_ms is not None:
        zxids = (each.snapshot.zxid for each in stored if each.snapshot.time_ms >= since_ms)
        first = next(zxids, stored[-1].snapshot.zxid)
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


class SeriesQuestion(NamedTuple):
    """The question about the tree snapshots of an ensemble, as its tasks get it."""

    rules: frozenset[str]
    bounds: Mapping[str, Bounds]
    moments: tuple[PointInTime | None, PointInTime | None]
    group: str | None
    snapshots: Sequence[TreeSnapshot]
    parts: Sequence[tuple[int, int, bool]]
    """The first and the last one of each stretch, and whether the series ends there."""
    buckets: int
    is_logged: bool
    """True if logs tell of the range, too: then only rules of series run."""


class FoundInSeries(NamedTuple):
    """What a task found."""

    findings: list[Finding]
    skipped: Sequence[tuple[str, str]] = ()
    """The names of rules that were left out, with the reasons."""
    facts: Facts = Facts()
    groups: frozenset[str] = frozenset()
    """The names of all groups, where the question is about one."""


def find_in_series(shared: Any, task: FilesTask, source: OpenFile) -> FoundInSeries:
    """Runs the rules of series on a bucket; on all buckets the others, too, or all where these are not many.

    Args:
        shared: the broadcast of the question.
    """
    asked: SeriesQuestion = shared.value
    group, is_alone = asked.group, task.cost <= _ROWS_AT_ONCE
    rules = [rule for rule in KNOWN_RULES if rule.name in asked.rules]
    series = stored_series.series_in(znodes_in(task.files, source), asked.snapshots)
    whole = SeriesSource(series)
    whole.series = [series.within(first, last, ends=ends) for first, last, ends in asked.parts]

    def is_here(rule: StateRule) -> bool:
        return not rule.is_whole if task.bucket else rule.is_whole or is_alone

    if not task.bucket and not asked.is_logged:
        bounds = {f"{rule}.{name}": one for rule, of in asked.bounds.items() for name, one in of.items()}
        start, end = asked.moments
        found = audit(whole, rules, bounds, start=start, end=end, group=group, is_here=is_here)
        return FoundInSeries(
            found.findings, [(each.rule.name, each.reason) for each in found.skipped], found.facts
        )
    findings = [
        one
        for each in whole.series
        for one in find_states(filter(is_here, state_rules_of(rules)), each, asked.bounds)
        if not task.bucket
        or task.bucket == (CLUSTER if one.group is None else bucket_of_group(one.group, asked.buckets))
    ]
    places = (path_kind(path) for each in whole.series for path in each.paths) if group else ()
    groups = frozenset(place.name for place in places if is_of_groups(place))
    return FoundInSeries([one for one in findings if group in (None, one.group)], groups=groups)


def found_in(
    spark: SparkSession, source: ConvertedSource, question: Question
) -> tuple[FoundInSeries, SeriesSource]:
    """The findings of the tree snapshots of an ensemble, and these; where logs tell of the range, too, those
    of their stretches alone. Raises as `audit`, and as `table_in`."""
    output, name, (start, end) = source.output, source.ensemble, (question.start, question.end)
    shown = stored_series.stored_series(source, is_read=False)
    snapshots, moments, is_logged = shown.whole.snapshots, (start, end), shown.is_logged(start, end)
    if shown.has_logs and not is_logged:
        snapshots, moments = snapshots[: shown.snapshot(end).number + 1], (None, None)
    zxids = [each.zxid for each in snapshots]
    shown.series = [each for each in series_of(shown, start, end) if len(each.snapshots) > 1]
    parts = [
        (zxids.index(each.snapshots[0].zxid), zxids.index(each.snapshots[-1].zxid), each.ends)
        for each in shown.series
    ]
    files, facts = (output.files(table, name) for table in (manifest.ZNODES, manifest.ZNODE_FACTS))
    count, place = output.ensembles[name].buckets, output.folder.place
    tasks = [FilesTask(place, "", tuple(files))]
    for bucket in names_of(count) if tasks[0].cost > _ROWS_AT_ONCE else ():
        of_bucket = [file for file in files if file.bucket == bucket]
        tasks += [FilesTask(place, bucket, (*of_bucket, *facts))] if of_bucket else []
    names = frozenset(rule.name for rule in question.rules)
    which = names, question.bounds, moments, question.group
    asked = SeriesQuestion(*which, snapshots, parts, count, is_logged)
    if is_logged and not parts:
        return FoundInSeries([]), shown
    of_all, *others = in_tasks(spark, tasks, partial(find_in_series, spark.sparkContext.broadcast(asked)))
    findings = sorted((*of_all.findings, *(one for each in others for one in each.findings)), key=order)
    return of_all._replace(findings=findings), shown
