"""`zkgroup audit report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

from zkgroup.audit.findings import ALL_RULES
from zkgroup.audit.report.writing import report_of, require_free, rows_beside, write_report
from zkgroup.audit.run import Found, audit
from zkgroup.audit.sources import Moment
from zkgroup.audit.spark.session import require_spark, session

from ..frame import output, shared
from ..output import say
from .common import EXIT_CHECK_FAILED, document
from .findings_command import summary
from .history_options import between_options
from .inputs import Inputs, command, input_options, opened, tell_of
from .progress import progress
from .spark_options import spark_options


@command()
@click.argument("page", metavar="OUTPUT.html", type=click.Path(path_type=Path, dir_okay=False))
@input_options(more=False, converted=True)
@click.option("--group", metavar="GROUP", help="Only what is about this group.")
@click.option("--overwrite", is_flag=True, help="Also where the files are there already.")
@click.option("--spark", is_flag=True, help="Compute it with Spark, for histories of days.")
@spark_options
@between_options
@click.pass_context
def report(
    ctx: click.Context,
    page: Path,
    inputs: Inputs,
    group: str | None,
    overwrite: bool,
    spark: bool,
    master: str | None,
    settings: Sequence[tuple[str, str]],
    start: Moment | None,
    end: Moment | None,
) -> None:
    """Write what happened, and what went wrong, as one HTML file that needs no network.

    Beside it come findings.json and, where pyarrow is installed, Parquet: findings, owners, offsets,
    rebalances, sessions. Exit code 3 where there is an error among the findings, or a file is damaged.

    With --spark an input may also be behind a URI, or be what `audit run` wrote; the report is the same.
    """
    out = output()
    if not spark and (master is not None or settings):
        raise click.UsageError("--master and --set are for --spark")
    inputs.require_outside(page)
    require_free(page, overwrite=overwrite)
    if spark:
        asked = _Asked(inputs, start, end, group)
        found, written, damaged = _with_spark(asked, page, master, dict(settings), overwrite=overwrite)
    else:
        with opened(inputs) as (source, tell):
            tell("looking for findings")
            found = audit(source, ALL_RULES, start=start, end=end, group=group)
            with rows_beside(page) as rows:
                tell("shaping the report")
                data = report_of(source, found, inputs.paths, start=start, end=end, group=group, rows=rows)
                tell("writing the report")
                written = write_report(page, data, found, rows, overwrite=overwrite)
        damaged = bool(source.damages())
    severities = [one.severity for one in found.findings]
    fields = document(
        "audit_report",
        found.facts.end_zxid,
        found.facts.end_ms,
        files=[{"path": str(path), "bytes": path.stat().st_size} for path in written],
        errors=severities.count("error"),
        warnings=severities.count("warning"),
        notes=severities.count("info"),
    )
    if not out.document(fields, "files", ("path", "bytes")):
        for path in written:
            say(f"wrote {path}")
        summary(found)
    if "error" in severities or damaged:
        ctx.exit(EXIT_CHECK_FAILED)


class _Asked(NamedTuple):
    """What the report is to be of."""

    inputs: Inputs
    start: Moment | None
    end: Moment | None
    group: str | None


def _with_spark(
    asked: _Asked, page: Path, master: str | None, settings: dict[str, str], *, overwrite: bool
) -> tuple[Found, list[Path], bool]:
    """What was found, the files, and whether anything is damaged. Notes are told as without Spark."""
    inputs = asked.inputs
    if not inputs.texts:
        raise click.UsageError("--spark is for --input: a living ensemble has no logs to read")
    if shared().zookeeper is not None:
        raise click.UsageError("--input and -z exclude each other: files or the living ensemble")
    require_spark()
    from zkgroup.audit.spark.reporting import report as reported

    with progress() as tell, session(master, settings) as spark, rows_beside(page) as rows:
        told = reported(
            spark,
            inputs.texts,
            ensemble=inputs.ensemble,
            chroot=inputs.chroot,
            start=asked.start,
            end=asked.end,
            group=asked.group,
            rows=rows,
            progress=tell,
        )
        written = write_report(page, told.data, told.found, rows, overwrite=overwrite)
    tell_of(told.notes, told.damages)
    return told.found, written, bool(told.damages)
