"""What `zkgroup audit report --spark` does: facts, findings and rows in Spark, shaped as on a laptop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from zkgroup.audit.converted import Mark, last_at
from zkgroup.audit.engine import Found, bounds_of
from zkgroup.audit.findings import ALL_RULES
from zkgroup.audit.folders import Folders
from zkgroup.audit.groups import require_group
from zkgroup.audit.inspection import inspected
from zkgroup.audit.points_in_time import PointInTime, zxid_range
from zkgroup.audit.progress import Progress, quiet
from zkgroup.audit.report.data import About, gather
from zkgroup.audit.report.tables import Rows
from zkgroup.audit.source import missing_text, standing_text
from zkgroup.audit.spark.ensembles import Ensemble, opened, operations_of, rows_of
from zkgroup.audit.spark.inputs import given_of
from zkgroup.audit.spark.job import Part, ask
from zkgroup.audit.spark.row_selection import between, groups_in, in_order, only_group
from zkgroup.audit.spark.storage import Storage
from zkgroup.audit.spark.tables import Tables, is_converted
from zkgroup.errors import ConfigError, NotFoundError
from zkgroup.zkfiles.health import FileHealth
from zkgroup.zkfiles.names import list_files
from zkgroup.zkfiles.zxids import Hole, hole_between


@dataclass(frozen=True, slots=True)
class Reported:
    """A report that is to be written."""

    found: Found
    data: dict[str, Any]
    """As `report.data.gather` gives it."""
    damages: Sequence[str]
    notes: Sequence[str]


def report(
    spark: SparkSession,
    inputs: Sequence[str],
    *,
    ensemble: str | None = None,
    chroot: str = "",
    start: PointInTime | None = None,
    end: PointInTime | None = None,
    group: str | None = None,
    rows: Rows | None = None,
    progress: Progress = quiet,
) -> Reported:
    """The report of one ensemble: the folders of its servers, or what `audit run` wrote.

    The page is shaped on the driver, in one pass over the rows in order; `rows` takes them as `tables.TABLES`
    has them; everything before is done in tasks. Raises what the laptop's report raises, and ConfigError for
    folders on a cluster: what they are converted to lies on the driver.
    """
    chosen, parts = bounds_of(ALL_RULES, {}), {}
    with _opened(spark, inputs, ensemble, progress) as asked:
        view = _View(spark, asked, chroot, start, end)
        parts[asked.name] = view.part
        events = view.rows()
        if group is not None:
            require_group(group, groups_in(events))
            events = only_group(events, group)
        (audited,) = ask(events, [asked], parts, ALL_RULES, chosen, progress)
        findings = [one for one in audited.findings if group is None or one.group == group]
        found = Found(findings, list(audited.skipped), audited.facts)
        progress("shaping the report", len(findings))
        about = view.about(inputs, group)
        data = gather(in_order(events), found, about, rows=rows)
        return Reported(found, data, about.damages, about.notes)


class _View:
    """One ensemble between two moments: what `source.Source` is on a laptop."""

    def __init__(
        self,
        spark: SparkSession,
        of: Ensemble,
        chroot: str,
        start: PointInTime | None,
        end: PointInTime | None,
    ) -> None:
        self._spark, self._of, self._chroot = spark, of, chroot
        self._base = of.converted.base_zxid
        self._source = None if of.history is None else Folders(of.history, chroot)
        self._is_exact, self._detail = of.converted.is_exact, of.converted.detail
        if self._source is not None:
            rows = self._source.rows(start, end)
            self._is_exact, self._detail = rows.seen.is_exact, rows.seen.detail
            self._base = rows.seen.zxid
            self.part = Part(rows.seen.zxid, rows.to_zxid)
        else:
            self.part = self._part(start, end)

    def rows(self) -> DataFrame:
        """Rows of EVENTS, in no order."""
        after = self.part.after_zxid
        is_later = after > self._of.converted.base_zxid
        return between(rows_of([self._of], self._chroot), after if is_later else None, self.part.to_zxid)

    def about(self, inputs: Sequence[str], group: str | None) -> About:
        """What else is known, once the rules about whole histories have read the files."""
        holes = [missing_text(hole) for hole in self._holes()]
        if self._source is not None:
            damages, notes = [*self._source.damages(), *holes], self._source.notes()
        else:
            damages = holes
            notes = [] if self._is_exact else [standing_text(self._base, self._detail)]
        return About(
            inputs=list(inputs),
            files=self._files(),
            group=group,
            seen_zxid=self.part.after_zxid,
            is_exact=self._is_exact,
            detail=self._detail,
            damages=damages,
            notes=notes,
        )

    def _part(self, start: PointInTime | None, end: PointInTime | None) -> Part:
        from_zxid, to_zxid = zxid_range(start, end, self._zxid_at)
        before = operations_of([self._of]).where(f.col("zxid") < from_zxid).agg(f.max("zxid")).collect()[0][0]
        return Part(max(self._base, before or 0), to_zxid)

    def _zxid_at(self, time_ms: int) -> int:
        until = f.when(f.unix_millis("time") <= time_ms, f.col("zxid"))
        marks = (
            operations_of([self._of])
            .groupBy("stretch")
            .agg(f.unix_millis(f.min_by("time", "zxid")).alias("first_ms"), f.max(until).alias("last_zxid"))
            .orderBy("stretch")
            .collect()
        )
        found = last_at([Mark(row.first_ms, row.last_zxid or -1) for row in marks], time_ms)
        if found is None:
            raise NotFoundError(
                f"{self._of.tables.storage.place}: no log goes back to {time_ms} ms since 1970"
            )
        return found

    def _holes(self) -> Iterator[Hole]:
        """What is missing in the operations, by zxid."""
        wanted = f.col("zxid") > self._base
        if self.part.to_zxid is not None:
            wanted &= f.col("zxid") <= self.part.to_zxid
        zxids = operations_of([self._of]).where(wanted).select("stretch", "zxid").distinct()
        of_log = Window.partitionBy("stretch").orderBy("zxid")
        within = zxids.withColumn("before", f.lag("zxid").over(of_log))
        steps = [(row.before, row.zxid) for row in within.where("zxid > before + 1").collect()]
        logs = zxids.groupBy("stretch").agg(f.min("zxid").alias("first"), f.max("zxid").alias("last"))
        last = self._base
        for row in logs.orderBy("stretch").collect():
            steps.append((last, row.first))
            last = row.last
        for before, zxid in sorted(steps):
            hole = hole_between(before, zxid)
            if hole is not None:
                yield hole

    def _files(self) -> list[FileHealth]:
        """How far each file is good, one a task; none where there are no files on paths."""
        if self._of.history is None or self._of.files is None:
            return []
        files = [
            (file.path, file.kind)
            for listed in map(list_files, self._of.files.paths)
            for file in sorted((*listed.snapshots, *listed.logs))
        ]
        return self._spark.sparkContext.parallelize(files, len(files)).map(_inspected).collect()  # type: ignore[no-any-return]


def _inspected(file: tuple[Path, str]) -> FileHealth:
    return inspected(*file)


@contextmanager
def _opened(
    spark: SparkSession, inputs: Sequence[str], ensemble: str | None, progress: Progress
) -> Iterator[Ensemble]:
    """The one that is asked about; folders are converted for as long as the block lasts."""
    given = [each._replace(name=ensemble) for each in given_of(inputs)]
    tables = [each for each in given if is_converted(Storage(spark, each.place))]
    if tables and len(given) > 1:
        raise ConfigError(f"{tables[0].place} is Parquet of `audit run`: expected nothing beside it")
    if tables:
        (one,) = tables
        name = Tables(spark, one.place).manifest.named(one.place, ensemble)
        yield opened(spark, [one._replace(name=name)], one.place, progress)[0]
        return
    if ensemble is not None:
        raise ConfigError(f"ensemble {ensemble!r}: only Parquet of `audit run` has ensembles by name")
    if not spark.sparkContext.master.startswith("local"):
        raise ConfigError(
            "a report of folders on a cluster has nowhere to convert them to: use `audit run` first, and its "
            "output as --input"
        )
    with TemporaryDirectory(prefix="zkgroup-") as place:
        yield opened(spark, given, place, progress)[0]
