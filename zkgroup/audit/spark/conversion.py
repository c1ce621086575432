"""The first step of every job: logs to Parquet, each record once, whatever was killed in between.

`stored_files` says which files there are. A batch counts only where the newest manifest names it, which is
written last. A log that has a later one beside it never changes, so it is never read again; the newest one is
read on from its last record. A log that is not the one that was converted has its ensemble converted anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from zkgroup.audit.inputs.buckets import count_for, known_rows, names_of, numbers_of
from zkgroup.audit.inputs.converted import LogTimes, last_at
from zkgroup.audit.inputs.events import seeds_of
from zkgroup.audit.inputs.folders import Folders
from zkgroup.audit.inputs.logs import with_ends
from zkgroup.audit.inputs.manifest import Converted, ConvertedLog
from zkgroup.audit.inputs.rows import (
    Columns,
    between,
    closes_in,
    columns_of,
    in_order,
    inside,
    joined,
    sorted_seeds,
    table_of,
)
from zkgroup.audit.inputs.source import PointInTime, Progress, Rows, SeenTree, quiet, zxid_range
from zkgroup.audit.inputs.stored_files import FACTS, OPERATIONS, SEEDS, StoredFile, read_files
from zkgroup.audit.spark import units
from zkgroup.audit.spark.decoding import Decoded, RemoteFolder, RowLayout, decode, decoded_of
from zkgroup.audit.spark.folding import ZxidRange, operations_in, rows_in
from zkgroup.audit.spark.session import EnsembleInput, Given, inputs_of
from zkgroup.audit.spark.storage import TaskFile, storage_of
from zkgroup.audit.spark.tables import Tables, is_converted
from zkgroup.audit.spark.units import ListedLog, Unit
from zkgroup.errors import ConfigError, NotFoundError
from zkgroup.zkfiles.dates import time_text
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.log_index import Hop, has_hop
from zkgroup.zkfiles.names import list_files

_TASKS_AT_ONCE = 64
"""Says where the driver writes what tasks made, so many results are in its memory."""


@dataclass(frozen=True, slots=True)
class _ConversionPlan:
    """Holds what is to be done for one ensemble."""

    given: EnsembleInput
    listed: tuple[ListedLog, ...]
    kept: Converted
    """Holds what was converted and still holds; a new one where all is done anew."""
    seeds: SeenTree | None
    """Holds what stood before the first operation, where all is done anew."""
    units: tuple[Unit, ...]


class Conversion:
    """Converts inputs into a folder; `tables` are those that are there then."""

    def __init__(
        self, spark: SparkSession, output: str, inputs: Sequence[EnsembleInput], chroot: str = ""
    ) -> None:
        self._spark = spark
        self.tables = Tables(spark, output)
        self._inputs, self._chroot = inputs, chroot
        self._remote = {
            each.name: RemoteFolder(storage_of(spark, each.folders[0]))
            for each in inputs
            if not each.is_local
        }
        self.converted_units = 0
        """So many logs were read by `run`."""

    def run(self, progress: Progress = quiet) -> None:
        """Brings the folder up to date. Raises ConfigError, and what reading the inputs raises."""
        plans = [self._plan(each) for each in self._inputs]
        number = self.tables.manifest.number + 1
        wanted = [unit for plan in plans for unit in plan.units]
        self.converted_units = len(wanted)
        known = self.tables.manifest.ensembles
        if not wanted and all(plan.kept == known.get(plan.given.name) for plan in plans):
            return
        self.tables.clear(number)
        progress("converting logs", len(wanted))
        layouts = {
            plan.given.name: RowLayout(number, plan.kept.buckets, plan.kept.chroot, plan.kept.base_zxid)
            for plan in plans
        }
        found = {(each.ensemble, each.log): each for each in self._decoded(wanted, layouts)}
        written = [file for each in found.values() for file in each.written]
        ensembles = dict(self.tables.manifest.ensembles)
        for plan in plans:
            kept = plan.kept
            if plan.seeds is not None:
                seeds = list(self._seeds(plan, number))
                written += seeds
                kept = replace(kept, seed_batch=number if seeds else None)
            ensembles[plan.given.name] = _entered(plan, kept, found, number)
        self.tables.enter(ensembles, written)

    def _plan(self, given: EnsembleInput) -> _ConversionPlan:
        remote = self._remote.get(given.name)
        found = tuple(units.listed(given.paths) if remote is None else remote.listed())
        kept = self.tables.manifest.ensembles.get(given.name)
        newest = newest_snapshot(given.paths) if remote is None else remote.newest_snapshot()
        seeds = None
        if kept is None or not _still_holds(kept, given, found, newest):
            rows = local_rows(given.paths) if remote is None else remote.rows()
            seeds = rows.seen
            kept = Converted(
                base_zxid=seeds.zxid,
                servers=len(given.folders),
                is_exact=seeds.is_exact,
                detail=seeds.detail,
                buckets=count_for(sum(max(each.sizes, default=0) for each in found)),
                chroot=self._chroot,
            )
        kept = replace(kept, newest_snapshot=newest)
        before = {log.start: log for log in kept.logs}
        wanted = [
            _unit(given, each, before.get(each.start), is_first=number == 0)
            for number, each in enumerate(found)
            if not _is_done(each, before.get(each.start))
        ]
        return _ConversionPlan(given, found, kept, seeds, tuple(wanted))

    def _decoded(self, wanted: Sequence[Unit], layouts: Mapping[str, RowLayout]) -> Iterator[Decoded]:
        """Yields what tasks made of logs; files that they could not write are written."""
        output, context = self.tables.output, self._spark.sparkContext
        for start in range(0, len(wanted), _TASKS_AT_ONCE if output.folder is None else max(len(wanted), 1)):
            some = wanted[start : start + _TASKS_AT_ONCE] if output.folder is None else wanted
            local = [(unit, layouts[unit.ensemble]) for unit in some if unit.ensemble not in self._remote]
            remote = [(unit, layouts[unit.ensemble]) for unit in some if unit.ensemble in self._remote]
            results: list[Decoded] = []
            if local:
                tasks = context.parallelize(local, len(local))
                results += tasks.map(lambda each: decode(each[0], each[1], output)).collect()
            results += decoded_of(self._spark, remote, output)
            for each in results:
                yield each._replace(written=tuple(map(self.tables.placed, each.written)))

    def _seeds(self, plan: _ConversionPlan, number: int) -> Iterator[TaskFile]:
        """Yields what stood before the first operation, by bucket, and the rows of facts among it."""
        assert plan.seeds is not None
        tree, kept, name = plan.seeds.tree, plan.kept, plan.given.name
        columns = columns_of(seeds_of(tree))
        seen = inside(columns, kept.chroot)
        for bucket, rows in _by_bucket(columns, kept):
            place = f"{SEEDS}/batch={number}/ensemble={name}/bucket={bucket}/seeds.parquet"
            yield self._stored(
                rows, StoredFile(place, SEEDS, name, bucket, -1, len(rows), -1, kept.base_zxid)
            )
        facts = seen.take(known_rows(seen))
        if len(facts):
            place = f"{FACTS}/batch={number}/ensemble={name}/seeds.parquet"
            yield self._stored(facts, StoredFile(place, FACTS, name, "", -1, len(facts), -1, kept.base_zxid))

    def _stored(self, rows: Columns, file: StoredFile) -> TaskFile:
        return self.tables.placed(self.tables.output.write(table_of(rows), file))


def _by_bucket(columns: Columns, kept: Converted) -> Iterator[tuple[str, Columns]]:
    """The rows of each bucket that has any."""
    names = names_of(kept.buckets)
    of_rows = numbers_of(pa.array(columns.paths, pa.string()), kept.buckets, kept.chroot)[columns.path]
    for number in np.unique(of_rows).tolist():
        yield names[number], columns.take(np.flatnonzero(of_rows == number))


def local_rows(folders: Sequence[Path]) -> Rows:
    """The part of a history that can be asked about, with the tree before it."""
    return Folders(History(*folders)).rows()


def newest_snapshot(folders: Sequence[Path]) -> int:
    """The zxid in the name of the newest of all servers; 0 where there is none."""
    return max((each.zxid for folder in folders for each in list_files(folder).snapshots), default=0)


def _still_holds(
    known: Converted, given: EnsembleInput, found: Sequence[ListedLog], newest_snapshot: int
) -> bool:
    """Returns whether what was converted is a part of what the folders have now."""
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


def _is_done(found: ListedLog, known: ConvertedLog | None) -> bool:
    return known is not None and known.is_closed and known.sizes == found.sizes


def _is_same(found: ListedLog, known: ConvertedLog, given: EnsembleInput) -> bool:
    """Returns whether a log still has the record that was its last. Of several servers sizes have to tell."""
    if not given.is_local or len(given.folders) > 1:
        return not known.is_closed and all(
            now >= then for now, then in zip(found.sizes, known.sizes, strict=False)
        )
    if not known.rows:
        return True
    return has_hop(Path(found.files[0]), Hop(known.last_zxid, known.last_offset))


def _unit(given: EnsembleInput, found: ListedLog, known: ConvertedLog | None, *, is_first: bool) -> Unit:
    from_zxid, offset = 0 if is_first else found.start, None
    if known is not None and known.rows:
        from_zxid = known.last_zxid + 1
        if given.is_local and len(given.folders) == 1:
            offset = known.last_offset
    return Unit(given.name, found.start, given.folders, found.files, from_zxid, found.end, offset)


def _entered(
    plan: _ConversionPlan, kept: Converted, found: Mapping[tuple[str, int], Decoded], number: int
) -> Converted:
    """Returns what is known of an ensemble when a batch was written."""
    logs = {log.start: log for log in kept.logs}
    now = {each.start: each for each in plan.listed}
    for unit in plan.units:
        each, made = now[unit.log], found[plan.given.name, unit.log]
        log = logs.get(each.start) or ConvertedLog(each.start, (), False, each.start - 1, 0, 0, ())
        log = replace(log, sizes=each.sizes, is_closed=each.is_closed)
        if made.rows:
            log = replace(
                log,
                last_zxid=made.last_zxid,
                last_offset=made.last_offset,
                rows=log.rows + made.rows,
                first_ms=log.first_ms if log.rows else made.first_ms,
                batches=(*log.batches, number),
            )
        logs[each.start] = log
    return replace(kept, logs=tuple(logs[start] for start in sorted(logs)))


@dataclass(frozen=True, slots=True)
class AuditedEnsemble:
    """One that is asked about."""

    name: str
    tables: Tables
    files: EnsembleInput | None
    """Its folders; None where only what was converted of it is given."""
    history: History | None
    """Of its folders, where they are on paths."""

    @property
    def converted(self) -> Converted:
        """Returns what there is of it in the tables."""
        return self.tables.manifest.ensembles[self.name]


def opened(
    spark: SparkSession, given: Sequence[Given], output: str, chroot: str = "", progress: Progress = quiet
) -> list[AuditedEnsemble]:
    """Converts what is new in folders, into `output`; what `audit run` wrote before is taken as it is.

    Raises ConfigError for inputs and outputs that are wrong, NotZooKeeperFileError for folders.
    """
    if not given:
        raise ConfigError("expected at least one folder as input")
    inputs_of(given)  # what is wrong by its name alone is reported before any filesystem is asked
    old = [each for each in given if is_converted(storage_of(spark, each.place))]
    found = [ensemble for each in old for ensemble in _before(spark, each)]
    files = inputs_of([each for each in given if each not in old])
    if files:
        conversion = Conversion(spark, output, files, chroot)
        conversion.run(progress)
        found += [
            AuditedEnsemble(
                each.name, conversion.tables, each, History(*each.paths) if each.is_local else None
            )
            for each in files
        ]
    names = [each.name for each in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"expected each ensemble once, found {', '.join(twice)} in several inputs")
    return found


def _before(spark: SparkSession, given: Given) -> list[AuditedEnsemble]:
    tables = Tables(spark, given.place)
    known = tables.manifest.ensembles
    names = list(known) if given.name is None else [tables.manifest.named(given.place, given.name)]
    return [AuditedEnsemble(name, tables, None, None) for name in names]


def part_of(of: AuditedEnsemble, start: PointInTime | None, end: PointInTime | None) -> ZxidRange:
    """The part between two moments, both included. Raises ConfigError and NotFoundError."""
    from_zxid, to_zxid = zxid_range(start, end, lambda time_ms: _zxid_at(of, time_ms))
    return ZxidRange(max(of.converted.base_zxid, from_zxid - 1), to_zxid)


def known_of(of: AuditedEnsemble, part: ZxidRange, state: Sequence[Columns] | None) -> Columns:
    """The rows that make the facts of a part, and those of its sessions, behind what stood before.

    Args:
        state: such rows among what stands before the part, by bucket; None for the beginning of all.
    """
    tables, converted = of.tables, of.converted
    if state is None:
        before = rows_in(tuple(tables.seed_facts(of.name)), tables.source)
    else:
        before = sorted_seeds(joined([columns_of(()), *state]))
    cut = [log for log in converted.logs if _is_cut(log, part, converted.base_zxid)]
    starts = {log.start for log in cut}
    files = [each for each in tables.files(FACTS, of.name) if each.log not in starts]
    files = [each for each in files if each.has_any(*part)]
    parts = [between(rows_in(tuple(files), tables.source), *part)]
    for log in cut:
        logged = in_order(operations_in(_files(of, log), tables.source, *part))
        seen = inside(logged, converted.chroot)
        parts.append(seen.take(known_rows(seen)))
    return with_ends([in_order(joined(parts))], before)


def closes_between(of: AuditedEnsemble, after_zxid: int, to_zxid: int | None) -> Columns:
    """The ends of sessions behind one zxid up to another, or of all behind it."""
    files = [each for each in of.tables.files(FACTS, of.name) if each.has_any(after_zxid, to_zxid)]
    closes = closes_in(rows_in(tuple(files), of.tables.source))
    return in_order(between(closes, after_zxid, to_zxid))


def _is_cut(log: ConvertedLog, part: ZxidRange, base_zxid: int) -> bool:
    """Returns whether a part begins or ends within a log. Where all begins is no cut."""
    bounds = [part.to_zxid] if part.after_zxid <= base_zxid else list(part)
    return any(bound is not None and log.start <= bound < log.last_zxid for bound in bounds)


def _files(of: AuditedEnsemble, log: ConvertedLog) -> tuple[StoredFile, ...]:
    return tuple(each for each in of.tables.files(OPERATIONS, of.name) if each.log == log.start)


def _zxid_at(of: AuditedEnsemble, time_ms: int) -> int:
    """The last transaction at or before a time. Raises NotFoundError where all are later."""
    logs = [log for log in of.converted.logs if log.rows]
    found = last_at([LogTimes(log.first_ms, number) for number, log in enumerate(logs)], time_ms)
    if found is None:
        raise NotFoundError(f"{of.tables.storage.place}: no log goes back to {time_text(time_ms)}")
    table = read_files(_files(of, logs[found]), of.tables.source, ("zxid", "time"), ())
    until = table["time"].cast("int64").to_numpy() // 1000 <= time_ms
    zxids = table["zxid"].to_numpy()[until]
    return int(zxids.max()) if len(zxids) else -1
