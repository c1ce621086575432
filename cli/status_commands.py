"""`zkgroup status` and `zkgroup doctor`."""

from __future__ import annotations

import click

from zkgroup.admin.status import Status, read_findings, read_status

from . import documents, group_tables
from .connection import SESSION_TIMEOUT_MS, connected, target
from .frame import command, output, shared
from .output import Output
from .units import counted

EXIT_CHECK_FAILED = 3

_STYLES = {"error": "bad", "warning": "warn", "info": "dim"}


@command("status")
def status() -> None:
    """The ensemble on one screen: brokers, topics, groups."""
    out = output()
    with connected() as ensemble:
        found = read_status(ensemble)
    document = documents.status(found, target(shared()).zookeeper)
    if out.format == "csv":
        raise click.UsageError("status has no rows: --format table, json or ndjson")
    if not out.document(document):
        _show(out, found)


@command("doctor")
@click.pass_context
def doctor(ctx: click.Context) -> None:
    """What is wrong, and what to type next. Exit code 3 when there is an error."""
    out = output()
    with connected() as ensemble:
        as_of, findings = read_findings(ensemble, wanted_timeout_ms=SESSION_TIMEOUT_MS)
    document = documents.findings(as_of, findings)
    if not out.document(document, "findings", ("severity", "subject", "detail", "next")):
        for finding in findings:
            label = out.paint(f"{finding.severity:<8}", _STYLES[finding.severity])
            out.line(f"{label} {out.paint(finding.subject, 'bold')}: {finding.detail}")
            if finding.next:
                out.line(f"         next: {finding.next}")
        if not any(finding.severity != "info" for finding in findings):
            out.line(out.paint("nothing is wrong", "good"))
    if any(finding.severity == "error" for finding in findings):
        ctx.exit(EXIT_CHECK_FAILED)


def _show(out: Output, found: Status) -> None:
    controller = (
        "none" if found.controller is None else f"broker {found.controller}, epoch {found.controller_epoch}"
    )
    brokers = ", ".join(map(str, found.brokers.data)) or "none"
    partitions = sum(topic.partitions or 0 for topic in found.topics)
    rows = [
        ("zookeeper", target(shared()).zookeeper),
        ("brokers", brokers),
        ("controller", controller),
        ("topics", f"{len(found.topics)} with {counted(partitions, 'partition')}"),
        ("groups", str(len(found.groups))),
    ]
    for name, value in rows:
        out.line(f"{out.paint(f'{name:<11}', 'dim')} {value}")
    if found.groups:
        out.line()
        group_tables.groups(out, found.groups)
