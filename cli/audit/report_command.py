"""`zkgroup audit report`."""

from __future__ import annotations

from pathlib import Path

import click

from zkgroup.audit.findings import ALL_RULES
from zkgroup.audit.report.writing import report_of, require_free, write_report
from zkgroup.audit.run import audit
from zkgroup.audit.sources import Moment

from ..frame import output
from ..output import say
from .common import EXIT_CHECK_FAILED, document
from .findings_command import summary
from .history_options import between_options
from .inputs import Inputs, command, input_options, opened


@command()
@click.argument("page", metavar="OUTPUT.html", type=click.Path(path_type=Path, dir_okay=False))
@input_options(more=False)
@click.option("--group", metavar="GROUP", help="Only what is about this group.")
@click.option("--overwrite", is_flag=True, help="Also where the files are there already.")
@between_options
@click.pass_context
def report(
    ctx: click.Context,
    page: Path,
    inputs: Inputs,
    group: str | None,
    overwrite: bool,
    start: Moment | None,
    end: Moment | None,
) -> None:
    """Write what happened, and what went wrong, as one HTML file that needs no network.

    Beside it come findings.json and, where pyarrow is installed, findings.parquet. Exit code 3 where there
    is an error among the findings, or a file is damaged.
    """
    out = output()
    inputs.require_outside(page)
    require_free(page, overwrite=overwrite)
    with opened(inputs) as (source, tell):
        tell("looking for findings")
        found = audit(source, ALL_RULES, start=start, end=end, group=group)
        tell("shaping the report")
        data = report_of(source, found, inputs.paths, start=start, end=end, group=group)
        tell("writing the report")
        written = write_report(page, data, found, overwrite=overwrite)
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
    if "error" in severities or source.damages():
        ctx.exit(EXIT_CHECK_FAILED)
