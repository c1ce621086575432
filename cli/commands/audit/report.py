"""`zkgroup audit report` and `run`: the findings as a page, and of many folders; with Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from zkgroup.audit.findings.engine import ALL_RULES, Skipped
from zkgroup.audit.findings.rules import SEVERITIES, AnyRule
from zkgroup.audit.incidents.incident import Incident, NumberedFinding
from zkgroup.audit.inputs.found_files import SkippedFile
from zkgroup.audit.inputs.manifest import is_converted
from zkgroup.audit.inputs.opening import path_of
from zkgroup.audit.inputs.source import PointInTime, require_columns, require_spark
from zkgroup.audit.spark.session import require_inputs, require_output, session
from zkgroup.errors import ConfigError, MixedEnsembleError

from ...app import Command, fail_check, output, shared
from ...audit_rows import LastTransaction, document
from ...param_types import duration
from ...params import set_option
from ...render import echo_err
from ...schema import Document, Inline, NamedKeys, Shape
from .findings import INCIDENT, NUMBERED_FINDING, RULES, bound_option, bounds_given, group_option, summary
from .inputs import (
    Inputs,
    between_options,
    chroot_given,
    command,
    echo_notes,
    input_options,
    opened,
    progress,
)
from .tree import MOST_KEPT_MS

if TYPE_CHECKING:
    from zkgroup.audit.report.writing import Audited, AuditReport, ReportPlace


def spark_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--master` and `--set`, as `master` and `settings`."""
    text = "A setting of Spark, for example spark.driver.memory=8g"
    function = set_option("settings", text, aliases=["--setting"])(function)
    return click.option(
        "--master", metavar="URL", help="Where Spark runs.  [default: that of spark-submit, else local[*]]"
    )(function)


class ReportFile(NamedTuple):
    """A file that `audit report` wrote."""

    path: Path
    bytes: int


REPORT_FILE = Shape(ReportFile)
REPORT = document(
    "report",
    NamedKeys(files=Sequence[ReportFile], errors=int, warnings=int, notes=int, skipped=Sequence[SkippedFile]),
    rows="files",
)


@command()
@click.argument("page", metavar="OUTPUT.html", type=click.Path(path_type=Path, dir_okay=False))
@input_options(more=False)
@group_option
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="Folder for findings.json and Parquet, so that several pages fit into one.  [default: the page's]",
)
@click.option("--overwrite", is_flag=True, help="Replace files that exist.")
@click.option("--spark", is_flag=True, help="Compute it with Spark, for histories of days.")
@spark_options
@between_options
def report(
    page: Path,
    inputs: Inputs,
    group: str | None,
    data_dir: Path | None,
    overwrite: bool,
    spark: bool,
    master: str | None,
    settings: Sequence[tuple[str, str]],
    start: PointInTime | None,
    end: PointInTime | None,
) -> None:
    """Write what happened and the findings as one HTML file.

    The file needs no network. Beside it, or in --data-dir, come findings.json and Parquet: findings, owners,
    offsets, rebalances, sessions. Exit code 3 where there is an error among the findings, or a file is
    damaged.

    With --spark an input may also be behind a URI, or be what `audit run` wrote; the report is the same.

    \b
    Example:
      zkgroup audit report incident.html --input copy/version-2
    """
    out = output()
    if not spark and (master is not None or settings):
        raise click.UsageError("--master and --set are for --spark")
    require_columns()
    from zkgroup.audit.report import writing
    from zkgroup.audit.report.writing import drafts

    place = writing.ReportPlace(page, data_dir or page.parent)
    for path in (page, place.folder / writing.JSON):
        inputs.require_outside(path)
    writing.require_free(place, overwrite=overwrite)
    if spark:
        request = _ReportRequest(inputs, start, end, group)
        made, written = _with_spark(request, place, master, dict(settings), overwrite=overwrite)
    else:
        with opened(inputs) as (source, report), drafts(place.folder) as rows:
            made = writing.report_of(
                source, inputs.paths, start=start, end=end, group=group, give=rows.add, progress=report
            )
            report("writing the report")
            written = writing.write_report(place, made, rows, overwrite=overwrite)
    severities = [one.severity for one in made.found.findings]
    if not REPORT.print(
        out,
        LastTransaction.of(made.found.facts.end_zxid, made.found.facts.end_ms),
        files=[ReportFile(path, path.stat().st_size) for path in written],
        errors=severities.count("error"),
        warnings=severities.count("warning"),
        notes=severities.count("info"),
        skipped=made.found.files,
    ):
        for path in written:
            echo_err(f"wrote {path}")
        summary(made.found, made.incidents)
    if "error" in severities or made.damages:
        fail_check()


class _ReportRequest(NamedTuple):
    """The extent of a report."""

    inputs: Inputs
    start: PointInTime | None
    end: PointInTime | None
    group: str | None


def _with_spark(
    request: _ReportRequest,
    place: ReportPlace,
    master: str | None,
    settings: dict[str, str],
    *,
    overwrite: bool,
) -> tuple[AuditReport, list[Path]]:
    """The report and the files. Notes are printed as without Spark."""
    inputs = request.inputs
    if not inputs.texts:
        raise click.UsageError("--spark is for --input: a live ensemble has no logs to read")
    if shared().zookeeper is not None:
        raise click.UsageError("--input and -z exclude each other: files or the live ensemble")
    require_spark()
    require_inputs(inputs.texts)
    from zkgroup.audit.report.writing import drafts, write_report
    from zkgroup.audit.spark.job import report as reported

    with progress() as report, session(master, settings) as spark, drafts(place.folder) as rows:
        made = reported(
            spark,
            inputs.texts,
            ensemble=inputs.ensemble,
            chroot=inputs.chroot,
            start=request.start,
            end=request.end,
            group=request.group,
            give=rows.add,
            progress=report,
        )
        written = write_report(place, made, rows, overwrite=overwrite)
    echo_notes(made.notes, made.damages)
    return made, written


class EnsembleIncident(NamedTuple):
    """An incident of `audit run`, which reads several ensembles; numbers are those within its ensemble."""

    ensemble: str
    incident: Incident


class EnsembleFinding(NamedTuple):
    """A finding of `audit run`, and the number of its incident in its ensemble."""

    ensemble: str
    finding: NumberedFinding


class EnsembleRun(NamedTuple):
    """An ensemble of `audit run`, beside its findings; `damage` has damaged or missing files, in words."""

    ensemble: str
    as_of: LastTransaction
    skipped: Sequence[Skipped]
    damage: Sequence[str]


ENSEMBLE_INCIDENT = Shape(EnsembleIncident, "ensemble", Inline("incident", INCIDENT))
ENSEMBLE_FINDING = Shape(EnsembleFinding, "ensemble", Inline("finding", NUMBERED_FINDING))
ENSEMBLE_RUN = Shape(EnsembleRun)
RUN = Document(
    "audit_run",
    NamedKeys(
        ensembles=Sequence[EnsembleRun],
        incidents=Sequence[EnsembleIncident],
        findings=Sequence[EnsembleFinding],
    ),
    as_of=None,  # each ensemble has its own moment
)


@click.command(cls=Command)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    required=True,
    metavar="[NAME=]PATH|URI",
    help="A server's version-2 folder or the folder above it, on a path that all workers have, or any Hadoop "
    "URI; tree snapshots on such paths, folders of them or globs; or what an earlier run wrote. Repeat it "
    "for more: one NAME is for one ensemble.",
)
@click.option(
    "--output",
    "target",
    required=True,
    metavar="DIR|URI",
    help="A folder of its own for Parquet and findings; what is converted there already is not read again.",
)
@spark_options
@click.option("--only", type=RULES, metavar="NAME,...", help="Only these findings.")
@bound_option
@click.option(
    "--chroot",
    default="",
    callback=chroot_given,
    metavar="PATH",
    help="The path that clients have as their root, as behind the servers of -z.",
)
@group_option
@between_options
@click.option(
    "--keep",
    "keep_ms",
    type=duration(1, MOST_KEPT_MS),
    metavar="DURATION",
    help="Leave out tree snapshots and records of logs that are so much older than the last one; they are "
    "not read again.",
)
def run(
    inputs: Sequence[str],
    target: str,
    master: str | None,
    settings: Sequence[tuple[str, str]],
    only: tuple[AnyRule, ...] | None,
    bounds: Sequence[tuple[str, str]],
    chroot: str,
    group: str | None,
    start: PointInTime | None,
    end: PointInTime | None,
    keep_ms: int | None,
) -> None:
    """Convert logs or tree snapshots to Parquet and find what went wrong.

    With Spark, for days of logs of many ensembles, on this machine or on a cluster; a small folder is
    answered sooner by `audit findings`, with the same findings and incidents. With --since the
    state at that moment is kept in the output, so that each new day reads that day only. Exit code 3 where
    there is an error, or a file is damaged.

    \b
    Example:
      zkgroup audit run --input east=copies/east --output parquet --master local[4]
    """
    out = output()
    chosen = bounds_given(bounds)
    require_spark()
    require_inputs(inputs, target)
    require_output(target, inputs)
    from zkgroup.audit.report import writing
    from zkgroup.audit.spark import job

    with _names_in_errors(), progress() as report, session(master, dict(settings)) as spark:
        audited = job.run(
            spark,
            inputs,
            target,
            rules=only or ALL_RULES,
            bounds=chosen,
            chroot=chroot,
            start=start,
            end=end,
            group=group,
            keep_ms=keep_ms,
            progress=report,
        )
    if out.is_table:
        _RUN_ROW.table(out, [_RunRow.of(one) for one in audited])
        echo_err(f"incidents and findings: {target.rstrip('/')}/{writing.JSON}")
        is_of_all = not (only or chosen or chroot or group or start or end)
        if is_of_all and is_converted(path_of(target)):
            which = "" if len(audited) == 1 else " --ensemble NAME"
            echo_err(f"incidents as text: zkgroup audit findings --input {target}{which}")
    else:
        out.document(writing.document(audited), "findings", ENSEMBLE_FINDING.keys)
    for each in audited:
        echo_notes(_notes_of(each, chroot), each.damages)
    if any(each.damages or _RunRow.of(each).errors for each in audited):
        fail_check()


def _notes_of(audited: Audited, chroot: str) -> list[str]:
    """Returns doubts about the question: a chroot in which there was nothing may be misspelt."""
    facts = audited.found.facts
    if not chroot or facts.topics or facts.members or facts.brokers or facts.controllers:
        return []
    return [f"{audited.ensemble}: no topic, member, broker or controller is below the chroot {chroot}"]


@contextmanager
def _names_in_errors() -> Iterator[None]:
    """Folders that are not of one ensemble can be read in one job, under two names."""
    try:
        yield
    except MixedEnsembleError as error:
        raise ConfigError(f"{error}, or give each ensemble a NAME of its own: --input NAME=FOLDER") from error


class _RunRow(NamedTuple):
    """An ensemble in the table of `audit run`."""

    ensemble: str
    errors: int
    warnings: int
    notes: int
    incidents: int
    not_searched_for: int

    @classmethod
    def of(cls, one: Audited) -> _RunRow:
        counts = Counter(finding.severity for finding in one.found.findings)
        errors, warnings, notes = (counts[severity] for severity in SEVERITIES)
        incidents, skipped = one.incidents.incidents, one.found.skipped
        return cls(one.ensemble, errors, warnings, notes, len(incidents), len(skipped))


_RUN_ROW = Shape(_RunRow, columns=_RunRow._fields)
