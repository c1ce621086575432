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

from zkgroup.audit.buckets.known_rows import known_rows
from zkgroup.audit.buckets.names import count_for, names_of, numbers_of
from zkgroup.audit.columns.parts import inside
from zkgroup.audit.columns.rows import Columns, columns_of
from zkgroup.audit.columns.stored import table_of
from zkgroup.audit.folders import Folders
from zkgroup.audit.manifest import Converted, ConvertedLog
from zkgroup.audit.progress import Progress, quiet
from zkgroup.audit.reading import events_of
from zkgroup.audit.source import Rows, SeenTree
from zkgroup.audit.spark import units
from zkgroup.audit.spark.decoding import Decoded, RowLayout, decode
from zkgroup.audit.spark.inputs import EnsembleInput
from zkgroup.audit.spark.outputs import TaskFile
from zkgroup.audit.spark.remote import RemoteFolder, decoded_of
from zkgroup.audit.spark.storage import storage_of
from zkgroup.audit.spark.tables import Tables
from zkgroup.audit.spark.units import ListedLog, Unit
from zkgroup.audit.stored_files import FACTS, SEEDS, StoredFile
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.log_index import Hop, HopIndex
from zkgroup.zkfiles.names import list_files

_TASKS_AT_ONCE = 64
"""Where the driver writes what tasks made, so many results are in its memory."""


@dataclass(frozen=True, slots=True)
class _ConversionPlan:
    """What is to be done for one ensemble."""

    given: EnsembleInput
    listed: tuple[ListedLog, ...]
    kept: Converted
    """What was converted and still holds; a new one where all is done anew."""
    seeds: SeenTree | None
    """What stood before the first operation, where all is done anew."""
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
        """What tasks made of logs; files that they could not write are written."""
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
        """What stood before the first operation, by bucket, and the rows of facts among it."""
        assert plan.seeds is not None
        tree, kept, name = plan.seeds.tree, plan.kept, plan.given.name
        stored = (one for path in tree.paths() if (one := tree.stored(path)) is not None)
        columns = columns_of(events_of((), stored, "", tree.sessions))
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
    """Whether what was converted is a part of what the folders have now."""
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
    """Whether a log still has the record that was its last. Of several servers sizes have to tell."""
    if not given.is_local or len(given.folders) > 1:
        return not known.is_closed and all(
            now >= then for now, then in zip(found.sizes, known.sizes, strict=False)
        )
    if not known.rows:
        return True
    path = Path(found.files[0])
    hop = Hop(known.last_zxid, known.last_offset)
    return HopIndex(path.name, None, None, 1, 0, (hop,)).is_of(path)


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
    """What is known of an ensemble when a batch was written."""
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
