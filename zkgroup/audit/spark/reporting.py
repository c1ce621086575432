"""What `zkgroup audit report --spark` does: findings by tasks of Spark, the page on the driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from zkgroup.audit.converted import ConvertedSource
from zkgroup.audit.folders import Folders
from zkgroup.audit.incidents.numbered import numbered
from zkgroup.audit.inspection import inspected
from zkgroup.audit.points_in_time import PointInTime
from zkgroup.audit.progress import Progress, quiet
from zkgroup.audit.report.data import About, report_data
from zkgroup.audit.report.in_columns import ColumnsDrawing
from zkgroup.audit.report.keeping import ReportLimits
from zkgroup.audit.report.tables import Nowhere, RowSink
from zkgroup.audit.report.writing import AuditReport
from zkgroup.audit.source import Source
from zkgroup.audit.spark.ensembles import AuditedEnsemble, opened
from zkgroup.audit.spark.inputs import given_of
from zkgroup.audit.spark.job import Question, ask
from zkgroup.audit.spark.storage import storage_of
from zkgroup.audit.spark.tables import Tables, is_converted
from zkgroup.audit.stored_tables import StoredTables
from zkgroup.errors import ConfigError
from zkgroup.zkfiles.health import FileHealth
from zkgroup.zkfiles.names import list_files


@dataclass(frozen=True, slots=True)
class Reported:
    """A report that is to be written."""

    report: AuditReport
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
    rows: RowSink | None = None,
    progress: Progress = quiet,
) -> Reported:
    """The report of one ensemble: the folders of its servers, or what `audit run` wrote.

    Tasks decode logs, compute findings and check files; the driver shapes the page, in one pass over the rows
    in order; `rows` takes them as `tables.TABLES` has them. Raises what the laptop's report raises, and
    ConfigError for folders on a cluster: what they are converted to lies on the driver.
    """
    with _opened(spark, inputs, ensemble, chroot, progress) as of:
        source = _source(of, chroot, progress)
        range_ = source.rows(start, end)
        question = Question(chroot=chroot, start=start, end=end, group=group)
        (found,) = ask([of], question, progress)
        incidents = numbered(found)
        progress("shaping the report", len(found.findings))
        limits, seen = ReportLimits(), range_.seen
        with closing(ColumnsDrawing(range_, group, limits, rows or Nowhere())) as drawing:
            about = About(  # behind the rows: reading them shows what is damaged
                inputs=list(inputs),
                files=_files(spark, of),
                group=group,
                seen_zxid=seen.zxid,
                is_exact=seen.is_exact,
                detail=seen.detail,
                damage=source.damages(),
                notes=source.notes(),
            )
            drawn = drawing.drawn()
        data = report_data(drawn, found, incidents, about, limits)
        return Reported(AuditReport(data, found, incidents), about.damage, about.notes)


def _source(of: AuditedEnsemble, chroot: str, progress: Progress) -> Source:
    """The rows of the page: out of the files where they are on paths, else out of Parquet."""
    if of.history is not None:
        return Folders(of.history, chroot, progress)
    tables = of.tables
    stored = StoredTables(tables.storage.place, of.name, of.converted, tables.source, tables.storage.read)
    return ConvertedSource(stored, chroot, progress)


def _files(spark: SparkSession, of: AuditedEnsemble) -> list[FileHealth]:
    """How far each file is good, one a task; none where there are no files on paths."""
    if of.history is None or of.files is None:
        return []
    files = [
        (file.path, file.kind)
        for listed in map(list_files, of.files.paths)
        for file in sorted((*listed.snapshots, *listed.logs))
    ]
    return spark.sparkContext.parallelize(files, len(files)).map(_inspected).collect()  # type: ignore[no-any-return]


def _inspected(file: tuple[Path, str]) -> FileHealth:
    return inspected(*file)


@contextmanager
def _opened(
    spark: SparkSession, inputs: Sequence[str], ensemble: str | None, chroot: str, progress: Progress
) -> Iterator[AuditedEnsemble]:
    """The one that is asked about; folders are converted for as long as the block lasts."""
    given = [each._replace(name=ensemble) for each in given_of(inputs)]
    tables = [each for each in given if is_converted(storage_of(spark, each.place))]
    if tables and len(given) > 1:
        raise ConfigError(f"{tables[0].place} is Parquet of `audit run`: expected nothing beside it")
    if tables:
        (one,) = tables
        name = Tables(spark, one.place).manifest.named(one.place, ensemble)
        yield opened(spark, [one._replace(name=name)], one.place, chroot, progress)[0]
        return
    if ensemble is not None:
        raise ConfigError(f"ensemble {ensemble!r}: only Parquet of `audit run` has ensembles by name")
    if not spark.sparkContext.master.startswith("local"):
        raise ConfigError(
            "a report of folders on a cluster has nowhere to convert them to: use `audit run` first, and its "
            "output as --input"
        )
    with TemporaryDirectory(prefix="zkgroup-") as place:
        yield opened(spark, given, place, chroot, progress)[0]
