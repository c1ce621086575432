"""What `zkgroup demo brokers` prints: the report as a document and for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .demo_checks import check_documents, check_table
from .documents import document
from .output import Output, say
from .units import counted

if TYPE_CHECKING:
    from zkgroup.demo.brokers.scenario import DemoReport

HISTORY_FIGURES = (
    "transactions",
    "elections",
    "governed_writes",
    "isr_writes",
    "refused_writes",
    "leader_changes",
    "moves_begun",
    "moves_ended",
)
"""What the ensemble's log held, for the report: names of `ClusterFigures`."""


def report_document(report: DemoReport) -> dict[str, Any]:
    """The report for programs."""
    outcome = report.outcome
    return document(
        "demo_brokers",
        report.as_of,
        zookeeper=report.zookeeper,
        kept=str(report.folder) if report.folder else None,
        passed=report.passed,
        checks=check_documents(report.checks),
        history={name: getattr(outcome.figures, name) for name in HISTORY_FIGURES},
        acknowledged=outcome.acknowledged,
        may_be_repeated=outcome.repeated,
        consumed=outcome.consumed,
        controller_epochs=outcome.epochs,
        replicas_moved=report.moved,
        failovers_ms=[round(one * 1000) for one in report.failovers_s],
        took_ms=round(report.took_s * 1000),
    )


def print_report(out: Output, report: DemoReport) -> None:
    """The result for a person."""
    outcome, figures = report.outcome, report.outcome.figures
    check_table(out, report.checks)
    out.line()
    out.line(f"{counted(outcome.acknowledged, 'line')} acknowledged in {report.took_s:.0f} s.")
    out.line(
        f"{outcome.consumed:,} in the logs, all consumed: "
        f"{outcome.repeated:,} were sent again, as an answer was lost."
    )
    took = " and ".join(f"{one:.1f} s" for one in report.failovers_s)
    out.line(f"After each SIGKILL of a controller all was led again within {took}.")
    out.line(
        f"In ZooKeeper's log: {counted(figures.elections, 'election')}, "
        f"{figures.leader_changes:,} changes of leader, {figures.isr_writes:,} of ISRs, "
        f"{counted(figures.moves_ended, 'move')}, {counted(figures.refused_writes, 'refused write')}."
    )


def say_what_is_left(report: DemoReport) -> None:
    """Where to look around, if anything was kept."""
    if report.folder is None:
        return
    say(f"\nkept: {report.folder}")
    say(f"look around: zkgroup zookeeper start --servers 3 --data {report.folder / 'zookeeper'}")
    say("then: zkgroup -z HOST:PORT controller history")
