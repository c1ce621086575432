"""The first step of every job: logs to Parquet, each record once, whatever was killed in between.

    OUTPUT/operations/batch=N/ensemble=E/day=D/*.parquet
    OUTPUT/seeds/batch=N/ensemble=E/*.parquet
    OUTPUT/manifest/N.json

A log that has a later one beside it never changes, so it is never read again; the newest one is read on from
its last record. A log that is not the one that was converted has its ensemble converted anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from zkgroup.audit.folders import Folders
from zkgroup.audit.manifest import Converted, ConvertedLog
from zkgroup.audit.progress import Progress, quiet
from zkgroup.audit.source import Rows
from zkgroup.audit.spark import units
from zkgroup.audit.spark.inputs import EnsembleInput
from zkgroup.audit.spark.remote import RemoteFolder, decoded
from zkgroup.audit.spark.rows import EVENTS, seed_tables
from zkgroup.audit.spark.storage import Storage
from zkgroup.audit.spark.tables import OPERATIONS_FOLDER, SEEDS_FOLDER, STORED, Tables, stored_seeds
from zkgroup.audit.spark.units import Listed, Unit
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.log_index import Hop, HopIndex


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be done for one ensemble."""

    given: EnsembleInput
    listed: tuple[Listed, ...]
    kept: Converted | None
    """What was converted and still holds; None where all is done anew."""
    units: tuple[Unit, ...]


class Conversion:
    """Converts inputs into a folder; `tables` are those that are there then."""

    def __init__(self, spark: SparkSession, output: str, inputs: Sequence[EnsembleInput]) -> None:
        self._spark = spark
        self.tables = Tables(spark, output)
        self._inputs = inputs
        self._remote = {
            each.name: RemoteFolder(Storage(spark, each.folders[0])) for each in inputs if not each.is_local
        }
        self.converted_units = 0
        """So many stretches were read by `run`."""

    def run(self, progress: Progress = quiet) -> None:
        """Brings the folder up to date. Raises ConfigError, and what reading the inputs raises."""
        plans = [self._plan(each) for each in self._inputs]
        number = self.tables.manifest.number + 1
        wanted = [unit for plan in plans for unit in plan.units]
        self.converted_units = len(wanted)
        is_new = [plan for plan in plans if plan.kept is None]
        if not wanted and not is_new:
            return
        progress("converting logs", len(wanted))
        found = self._convert(wanted, number) if wanted else {}
        ensembles = dict(self.tables.manifest.ensembles)
        for plan in plans:
            kept = plan.kept or self._beginning(plan, number)
            ensembles[plan.given.name] = _entered(plan, kept, found, number)
        self.tables.enter(ensembles)

    def _plan(self, given: EnsembleInput) -> _Plan:
        remote = self._remote.get(given.name)
        found = tuple(units.listed(given.paths) if remote is None else remote.listed())
        known = self.tables.manifest.ensembles.get(given.name)
        if known is not None and not _still_holds(known, given, found):
            known = None
        before = {} if known is None else {stretch.start: stretch for stretch in known.stretches}
        wanted = [
            _unit(given, each, before.get(each.start), is_first=number == 0)
            for number, each in enumerate(found)
            if not _is_done(each, before.get(each.start))
        ]
        return _Plan(given, found, known, tuple(wanted))

    def _convert(self, wanted: Sequence[Unit], number: int) -> dict[tuple[str, int], Any]:
        """Writes a batch; gives count, last zxid and its offset of each stretch that has rows."""
        local = [unit for unit in wanted if unit.ensemble not in self._remote]
        tables = []
        if local:
            self._spark.dataSource.register(units.source_of(local))
            tables.append(self._spark.read.format(units.NAME).load())
        tables += [
            decoded(self._spark, [unit for unit in wanted if unit.ensemble == name]) for name in self._remote
        ]
        tables = [table for table in tables if table is not None]
        table = tables[0]
        for each in tables[1:]:
            table = table.unionByName(each)
        base = f"{OPERATIONS_FOLDER}/batch={number}"
        self._write(table.withColumn("day", f.date_format("time", "yyyy-MM-dd")), base, ("ensemble", "day"))
        written = self._spark.read.schema(STORED).parquet(self._place(base))
        return {
            (row.ensemble, row.stretch): row
            for row in written.groupBy("ensemble", "stretch")
            .agg(
                f.count("*").alias("rows"),
                f.max("zxid").alias("last_zxid"),
                f.max_by("offset", "zxid").alias("last_offset"),
            )
            .collect()
        }

    def _write(self, table: DataFrame, base: str, by: tuple[str, ...]) -> None:
        """A batch that is there already was left by a job that did not come to its end."""
        table.write.mode("overwrite").partitionBy(*by).parquet(self._place(base))

    def _beginning(self, plan: _Plan, number: int) -> Converted:
        rows = self._rows(plan)
        tables = [
            self._spark.createDataFrame(each, EVENTS) for each in seed_tables(rows.seen.tree, plan.given.name)
        ]
        if tables:
            table = tables[0]
            for each in tables[1:]:
                table = table.unionAll(each)
            place = f"{SEEDS_FOLDER}/batch={number}/ensemble={plan.given.name}"
            stored_seeds(table).drop("ensemble").write.mode("overwrite").parquet(self._place(place))
        return Converted(
            base_zxid=rows.seen.zxid,
            servers=len(plan.given.folders),
            seed_batch=number if tables else None,
            is_exact=rows.seen.is_exact,
            detail=rows.seen.detail,
        )

    def _place(self, name: str) -> str:
        return self.tables.storage.path(name)

    def _rows(self, plan: _Plan) -> Rows:
        remote = self._remote.get(plan.given.name)
        return local_rows(plan.given.paths) if remote is None else remote.rows()


def local_rows(folders: Sequence[Path]) -> Rows:
    """The stretch of a history that can be asked about, with the tree before it."""
    return Folders(History(*folders)).rows()


def _still_holds(known: Converted, given: EnsembleInput, found: Sequence[Listed]) -> bool:
    """Whether what was converted is a part of what the folders have now."""
    if known.servers != len(given.folders):
        return False
    before = {stretch.start: stretch for stretch in known.stretches}
    newest = max(before, default=-1)
    for each in found:
        stretch = before.get(each.start)
        if stretch is None:
            if each.start < newest:
                return False
        elif not _is_done(each, stretch) and not _is_same(each, stretch, given):
            return False
    return True


def _is_done(found: Listed, known: ConvertedLog | None) -> bool:
    return known is not None and known.is_closed and known.sizes == found.sizes


def _is_same(found: Listed, known: ConvertedLog, given: EnsembleInput) -> bool:
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


def _unit(given: EnsembleInput, found: Listed, known: ConvertedLog | None, *, is_first: bool) -> Unit:
    from_zxid, offset = 0 if is_first else found.start, None
    if known is not None and known.rows:
        from_zxid = known.last_zxid + 1
        if given.is_local and len(given.folders) == 1:
            offset = known.last_offset
    return Unit(given.name, found.start, given.folders, found.files, from_zxid, found.end, offset)


def _entered(plan: _Plan, kept: Converted, found: Mapping[tuple[str, int], Any], number: int) -> Converted:
    """What is known of an ensemble when a batch was written."""
    stretches = {stretch.start: stretch for stretch in kept.stretches}
    now = {each.start: each for each in plan.listed}
    for unit in plan.units:
        each, row = now[unit.stretch], found.get((plan.given.name, unit.stretch))
        stretch = stretches.get(each.start) or ConvertedLog(each.start, (), False, each.start - 1, 0, 0, ())
        stretch = replace(stretch, sizes=each.sizes, is_closed=each.is_closed)
        if row is not None:
            stretch = replace(
                stretch,
                last_zxid=row.last_zxid,
                last_offset=row.last_offset,
                rows=stretch.rows + row.rows,
                batches=(*stretch.batches, number),
            )
        stretches[each.start] = stretch
    return replace(kept, stretches=tuple(stretches[start] for start in sorted(stretches)))
