"""`zkgroup demo`: the scenario run in one command, and its report as a document and as text."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

from zkgroup.model.text import escaped

from ..app import CONNECTION_OPTIONS, EXIT_CHECK_FAILED, Shared, command, shared
from ..audit_rows import hex_zxid
from ..context import client_settings, target
from ..render import Cell, Output, TableColumn, echo_err
from ..units import counted
from .audit.history import show_owners
from .audit.incident_text import WIDTH

if TYPE_CHECKING:
    from zkgroup.demo.audit import AuditDemoReport, Planted
    from zkgroup.demo.brokers import BrokersDemoReport
    from zkgroup.demo.clients_step import ClientRun
    from zkgroup.demo.coordinator import ClientResult, CoordinatorDemoReport
    from zkgroup.demo.flight_data import AirportDelay
    from zkgroup.demo.group import GroupDemoReport
    from zkgroup.demo.stage import CheckResult, DemoOptions, DemoReport, ProgressEvent, Screen

    from ..schema import Document

NEED_AN_ENSEMBLE = (*CONNECTION_OPTIONS[1:], "connect_timeout")
"""Shared options that say how to connect to an existing ensemble."""


START = "zkgroup zookeeper start"


@command("demo")
@click.argument("what", type=click.Choice(["group", "brokers", "coordinator", "audit"]), default="group")
@click.option("--keep", is_flag=True, help="Leave znodes and files for inspection.")
@click.pass_context
def demo(ctx: click.Context, what: str, keep: bool) -> int:
    """Run a demo: members or brokers are killed, and nothing is lost.

    \b
    group        Three members share partitions; one is killed, another joins; nothing is lost. [default]
    brokers      Four brokers host records that two consumers read; the controller is killed, another
                 broker, and the controller in the middle of a move; one broker is emptied; nothing is
                 lost. Then the clients of Kafka that are installed produce and read, and with Maven
                 Kafka's own tools.
    coordinator  The clients of Kafka that are installed, and with Maven Java's console consumer, share a
                 group on three brokers. Its coordinator is killed, a client is killed, another one is
                 paused past its session; then ZooKeeper members carry on at the same offsets.
    audit        The group demo, with two offsets written by a client that is not a member. The files of
                 the stopped server show which offsets, when and by which session, and a report is
                 written.

    Starts its own ZooKeeper servers (needs Java and the extra `embedded`; `audit` also needs the extra
    `audit`). `group` uses the ensemble given
    with -z instead; ZKGROUP_ZOOKEEPER alone does not count. Exit code 0 when every check held, 3 when one
    did not.

    \b
    Example:
      zkgroup demo brokers
    """
    from .. import demo_documents

    options = shared(ctx)
    order = (_options if what == "group" else _own_servers)(options, keep)
    documents: dict[str, Document[Any]] = {
        "group": demo_documents.GROUP_DEMO,
        "brokers": demo_documents.BROKERS_DEMO,
        "coordinator": demo_documents.COORDINATOR_DEMO,
        "audit": demo_documents.AUDIT_DEMO,
    }
    show, left = _OUTPUTS[what]
    out = options.output()
    with _sigterm_as_ctrl_c(), _screen() as screen:
        report = import_module(f"zkgroup.demo.{what}").run(order, screen)
    if not out.document(documents[what].json(report.as_of, report)):
        show(out, report)
    for line in left(report):
        echo_err(line)
    return 0 if report.passed else EXIT_CHECK_FAILED


def _left_by_group(report: GroupDemoReport) -> list[str]:
    start = [f"inspect it: {START} --data {report.folder}/zookeeper"] if report.embedded else []
    address = "HOST:PORT" if report.embedded else report.zookeeper
    return _kept(report, *start, f"then: zkgroup -z {address} offsets show {report.group}")


def _left_by_brokers(report: BrokersDemoReport) -> list[str]:
    start = f"inspect it: {START} --servers 3 --data {report.folder}/zookeeper"
    return _kept(report, start, "then: zkgroup -z HOST:PORT controller history")


def _left_by_coordinator(report: CoordinatorDemoReport) -> list[str]:
    start = f"inspect it: {START} --data {report.folder}/zookeeper"
    return _kept(report, start, f"then: zkgroup -z HOST:PORT coordinator describe {report.group}")


def _left_by_audit(report: AuditDemoReport) -> list[str]:
    inspect = f"inspect it: zkgroup audit findings --input {report.folder}/zookeeper/server-0"
    return ["", f"report: {report.report[0]}", *_kept(report, inspect)[1:]]


def _kept(report: DemoReport, *commands: str) -> list[str]:
    """Lines that say where the files of a run are and what to do next, if they were left."""
    return [] if report.folder is None else ["", f"kept: {report.folder}", *commands]


def _own_servers(options: Shared, keep: bool) -> DemoOptions:
    """The options of a demo that has servers of its own."""
    from zkgroup.demo.stage import DemoOptions

    _refuse(options, ("zookeeper", *NEED_AN_ENSEMBLE), "it reads the files of its own servers: leave it out")
    return DemoOptions(keep=keep)


def _refuse(options: Shared, names: Sequence[str], why: str) -> None:
    """Raises UsageError for shared options that are of no use here."""
    unused = [name for name in names if getattr(options, name) is not None]
    if unused:
        given = ", ".join("--" + name.replace("_", "-") for name in unused)
        raise click.UsageError(f"{given}: {why}")


def _options(options: Shared, keep: bool) -> DemoOptions:
    """On an existing ensemble the members connect as this process does; the demo's server has no users."""
    from zkgroup.demo.stage import DemoOptions

    if options.zookeeper is not None:
        where = target(options)
        return DemoOptions(
            zookeeper=where.zookeeper,
            connection=client_settings(where),
            answer_timeout_s=where.timeout_s,
            keep=keep,
        )
    _refuse(options, NEED_AN_ENSEMBLE, "only with -z; without it the demo starts a server of its own")
    return DemoOptions(keep=keep)


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """SIGTERM ends like Ctrl-C: members and servers are stopped, files removed."""
    former = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


ENDS = {"left": "left", "killed": "killed", "paused": "paused past its session, came back, left"}
"""The last word about a client in the coordinator's demo, by the way it ended."""


class _Lines:
    """The screen where there is no terminal: the events, line by line, on stderr."""

    def on_event(self, event: ProgressEvent) -> None:
        echo_err(f"{event.at_s:5.1f} s  {event.text}")

    def show(self, stage: object) -> None:
        """Only events are printed."""


@contextmanager
def _screen() -> Iterator[Screen]:
    """A live view on a terminal, plain lines elsewhere."""
    terminal = sys.stdout.isatty() and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    if not terminal or os.environ.get("NO_COLOR"):
        yield _Lines()
        return
    from rich.console import Console

    from zkgroup.demo.screen import LiveScreen

    with LiveScreen(Console(stderr=True)) as screen:
        yield screen


_AIRPORT_COLUMNS: list[TableColumn[AirportDelay]] = [
    TableColumn("airport", lambda one: one.airport),
    TableColumn("flights", lambda one: one.flights, right=True),
    TableColumn("minutes", lambda one: f"{one.mean:.1f}", right=True),
]
_CHECK_COLUMNS: list[TableColumn[CheckResult]] = [
    TableColumn("proved", lambda one: Cell("yes", "good") if one.holds else Cell("NO", "bad")),
    TableColumn("", lambda one: one.statement, shorten="wrap", least=32),
    TableColumn("evidence", lambda one: one.evidence, shorten="wrap", least=20),
]
_CLIENT_COLUMNS: list[TableColumn[ClientRun]] = [
    TableColumn("client", lambda one: one.client),
    TableColumn("version", lambda one: one.version),
    TableColumn("produced", lambda one: f"{one.produced:,}", right=True),
    TableColumn("read", lambda one: f"{one.records_read:,}", right=True),
]
_MEMBER_COLUMNS: list[TableColumn[ClientResult]] = [
    TableColumn("member", lambda one: one.member),
    TableColumn("client", lambda one: one.client),
    TableColumn("version", lambda one: one.version),
    TableColumn("records", lambda one: f"{one.records:,}", right=True),
    TableColumn("failed commits", lambda one: one.commits_failed, right=True),
    TableColumn("end", lambda one: ENDS[one.ended]),
]
_PLANTED_COLUMNS: list[TableColumn[Planted]] = [
    TableColumn("partition", lambda one: one.partition, right=True),
    TableColumn("owner", lambda one: one.owner),
    TableColumn("before", lambda one: one.before, right=True),
    TableColumn("after", lambda one: one.after, right=True),
    TableColumn("zxid", lambda one: hex_zxid(one.zxid), right=True),
    TableColumn("found as", lambda one: ", ".join(one.findings), shorten="wrap", least=20),
]


def print_report(out: Output, report: GroupDemoReport) -> None:
    """The result for a person."""
    out.line(out.paint("Mean delay of flights, the slowest airports", "bold"))
    out.table(_AIRPORT_COLUMNS, report.airports)
    out.line()
    check_table(out, report.checks)
    figures = report.figures
    out.line()
    out.line(f"{report.records:,} records in {report.took_s:.0f} s, {report.twice:,} of them twice.")
    out.line(f"The dead member's partitions had an owner again after {report.takeover_s:.1f} s.")
    out.line(
        f"In the history: {figures.deliveries:,} deliveries, {figures.commits:,} commits "
        f"({figures.refused_stale_commits:,} stale ones refused), {figures.ownership_changes:,} moves."
    )


def check_table(out: Output, checks: Sequence[CheckResult]) -> None:
    """A row for each; those that do not hold once more, in full."""
    out.table(_CHECK_COLUMNS, checks)
    for one in checks:
        if not one.holds:
            out.line()
            out.line(out.paint(f"NOT PROVED: {one.statement}", "bad"))
            out.line(one.evidence)


def print_brokers_report(out: Output, report: BrokersDemoReport) -> None:
    """The result for a person."""
    figures = report.figures
    check_table(out, report.checks)
    out.line()
    out.line(f"{counted(report.acknowledged, 'record')} acknowledged in {report.took_s:.0f} s.")
    out.line(
        f"{report.consumed:,} in the logs, all consumed: the producer is idempotent, "
        f"and {report.repeated:,} may be in a log twice."
    )
    took = " and ".join(f"{one:.1f} s" for one in report.failovers_s)
    out.line(f"After each SIGKILL of a controller every partition had a leader again within {took}.")
    out.line(
        f"In ZooKeeper's log: {counted(figures.elections, 'election')}, "
        f"{figures.leader_changes:,} changes of leader, {figures.isr_writes:,} of ISRs, "
        f"{counted(figures.moves_ended, 'move')}, {counted(figures.refused_writes, 'refused write')}."
    )
    _print_clients(out, report)


def _print_clients(out: Output, report: BrokersDemoReport) -> None:
    """Kafka's clients that took part, those that did not, and a batch of each in the dumped segment."""
    out.line()
    out.line(out.paint("Kafka's own clients, all in one partition", "bold"))
    out.table(_CLIENT_COLUMNS, report.clients)
    for one in report.left_out:
        out.line(f"left out: {one.client} ({one.reason})")
    if report.dump is None:
        return
    shown = report.dump.first_batches
    out.line()
    out.line(out.paint(f"{report.dump.file}, by Kafka's DumpLogSegments", "bold"))
    for line in shown:
        out.line(line)
    if more := len(report.dump.batches) - len(shown):
        out.line(f"and {more} more")


def print_coordinator_report(out: Output, report: CoordinatorDemoReport) -> None:
    """The result for a person."""
    check_table(out, report.checks)
    out.line()
    out.line(out.paint(f"Kafka's own clients, in the group {report.group}", "bold"))
    out.table(_MEMBER_COLUMNS, report.clients)
    for one in report.left_out:
        out.line(f"left out: {one.client} ({one.reason})")
    out.line()
    out.line(f"{report.records:,} records in {report.took_s:.0f} s, {report.twice:,} of them twice.")
    went_on = "went on in their generation" if report.kept_generation else "joined a new generation"
    out.line(
        f"When the coordinator was killed, the members {went_on}: what they had read was committed after "
        f"{report.failover_s:.1f} s."
    )
    brokers = ", ".join(map(str, report.coordinators))
    out.line(
        f"In ZooKeeper's log: {counted(report.generations, 'generation')}, coordinated by broker {brokers}; "
        f"{counted(report.figures.leader_changes, 'change')} of leader."
    )


NOUNS = {"error": "error", "warning": "warning", "info": "note"}
"""Counts of findings are printed in this order."""


def print_audit_report(out: Output, report: AuditDemoReport) -> None:
    """The result for a person."""
    out.line(out.paint("Planted by a client that is no member", "bold"))
    out.table(_PLANTED_COLUMNS, report.planted)
    out.line()
    out.line(out.paint(f"Who owned partition {report.partition}, whose offset was set back", "bold"))
    show_owners(out, report.owners, ())
    out.line()
    check_table(out, report.checks)
    out.line()
    counts = ", ".join(counted(report.severities.get(one, 0), noun) for one, noun in NOUNS.items())
    out.line(f"{counts} in the files of a run of {report.took_s:.0f} s.")
    incidents = counted(len(report.incidents), "incident")
    out.line(f"They are {incidents} and notes{':' if report.incidents else '.'}")
    for title in report.incidents:
        for line in textwrap.wrap(escaped(title), out.width or WIDTH, break_on_hyphens=False):
            out.line(line)


_OUTPUTS: Final[Mapping[str, tuple[Callable[[Output, Any], None], Callable[[Any], list[str]]]]] = {
    "group": (print_report, _left_by_group),
    "brokers": (print_brokers_report, _left_by_brokers),
    "coordinator": (print_coordinator_report, _left_by_coordinator),
    "audit": (print_audit_report, _left_by_audit),
}
"""How the report is printed for a person, and the lines about what a demo has left."""
