"""What `zkgroup demo audit` prints: the report as a document and for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .audit.common import hex_zxid, session_text
from .audit.owners_command import owner_fields, show_owners
from .demo_checks import check_documents, check_table
from .documents import document
from .output import Output, say
from .tables import Column
from .units import counted

if TYPE_CHECKING:
    from zkgroup.demo.audit.scenario import DemoReport

NOUNS = {"error": "error", "warning": "warning", "info": "note"}
"""How many of each there are is told in this order."""


def report_document(report: DemoReport) -> dict[str, Any]:
    """The report for programs."""
    return document(
        "demo_audit",
        report.as_of,
        group=report.group,
        zookeeper=report.zookeeper,
        kept=str(report.folder) if report.folder else None,
        passed=report.passed,
        checks=check_documents(report.checks),
        planted=[
            {
                "findings": list(one.findings),
                "partition": one.partition,
                "owner": one.owner,
                "session": session_text(one.session),
                "zxid": one.zxid,
                "before": one.before,
                "after": one.after,
            }
            for one in report.planted
        ],
        findings={severity: report.severities.get(severity, 0) for severity in NOUNS},
        partition=report.partition,
        owners=[owner_fields(life) for life in report.owners],
        report=[str(path) for path in report.report],
        took_ms=round(report.took_s * 1000),
    )


def print_report(out: Output, report: DemoReport) -> None:
    """The result for a person."""
    out.line(out.paint("Planted by a client that is no member", "bold"))
    out.table(
        [
            Column(header="partition", right=True),
            Column(header="owner"),
            Column(header="before", right=True),
            Column(header="after", right=True),
            Column(header="zxid", right=True),
            Column(header="found as", shorten="end", least=20),
        ],
        [
            (one.partition, one.owner, one.before, one.after, hex_zxid(one.zxid), ", ".join(one.findings))
            for one in report.planted
        ],
    )
    out.line()
    out.line(out.paint(f"Who owned partition {report.partition}, whose offset was set back", "bold"))
    show_owners(out, report.owners)
    out.line()
    check_table(out, report.checks)
    out.line()
    counts = ", ".join(counted(report.severities.get(one, 0), noun) for one, noun in NOUNS.items())
    out.line(f"{counts} in the files of a run of {report.took_s:.0f} s.")


def say_what_is_left(report: DemoReport) -> None:
    """Where the report is, and where to look around if everything was kept."""
    if report.report:
        say(f"\nreport: {report.report[0]}")
    if report.folder is None:
        return
    say(f"kept: {report.folder}")
    say(f"look around: zkgroup audit findings --input {report.folder / 'zookeeper' / 'server-0'}")
