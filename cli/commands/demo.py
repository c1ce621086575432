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

from zkgroup.model.text import counted, escaped

from ..app import CONNECTION_OPTIONS, EXIT_CHECK_FAILED, Shared, command, shared
from ..context import client_settings, target
from ..render import Output, echo_err
from .audit.findings import WIDTH, severity_counts
from .audit.history import show_owners

if TYPE_CHECKING:
    from zkgroup.demo.audit import AuditRun
    from zkgroup.demo.brokers import BrokersRun
    from zkgroup.demo.checks import CheckResult
    from zkgroup.demo.coordinator import CoordinatorRun
    from zkgroup.demo.group import GroupRun
    from zkgroup.demo.run import DemoOptions, DemoRun

    from ..schema import Document

NEED_AN_ENSEMBLE = (*CONNECTION_OPTIONS[1:], "connect_timeout")
"""Shared options that say how to connect to an existing ensemble."""


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
    order = _options(what, options, keep)
    document: Document[DemoRun] = getattr(demo_documents, f"{what.upper()}_DEMO")
    scenario: type[DemoRun] = getattr(import_module(f"zkgroup.demo.{what}"), f"{what.capitalize()}Run")
    out = options.output()
    with _sigterm_as_ctrl_c(), _screen() as show:
        run = scenario.run(order, show)
    if not out.document(document.json(run.as_of, run)):
        _PRINTED[what](out, run)
    for line in _left(what, run):
        echo_err(line)
    return 0 if run.passed else EXIT_CHECK_FAILED


def _left(what: str, run: Any) -> Iterator[str]:
    """Lines that say where the report and the files of a run are and what to do next, if they were left."""
    if what == "audit" or run.kept is not None:
        yield ""
    if what == "audit":
        yield f"report: {run.report[0]}"
    if run.kept is None:
        return
    yield f"kept: {run.kept}"
    if what == "audit":
        yield f"inspect it: zkgroup audit findings --input {run.kept}/zookeeper/server-0"
        yield f"its exports: zkgroup audit findings --input {run.kept}/exports"
        return
    if run.options.zookeeper is None:
        servers = f"--servers {run.servers} " if run.servers > 1 else ""
        yield f"inspect it: zkgroup zookeeper start {servers}--data {run.kept}/zookeeper"
    address = run.options.zookeeper or "HOST:PORT"
    yield f"then: zkgroup -z {address} {_NEXT[what].format(group=run.group)}"


_NEXT: Final = {
    "group": "offsets show {group}",
    "brokers": "controller history",
    "coordinator": "coordinator describe {group}",
}
"""Commands that show more of the servers of a demo."""


def _refuse(options: Shared, names: Sequence[str], why: str) -> None:
    """Raises UsageError for shared options that are of no use here."""
    unused = [name for name in names if getattr(options, name) is not None]
    if unused:
        given = ", ".join("--" + name.replace("_", "-") for name in unused)
        raise click.UsageError(f"{given}: {why}")


def _options(what: str, options: Shared, keep: bool) -> DemoOptions:
    """On an existing ensemble the members connect as this process does; the demo's server has no users."""
    from zkgroup.demo.run import DemoOptions

    if what != "group":
        why = "it reads the files of its own servers: leave it out"
        _refuse(options, ("zookeeper", *NEED_AN_ENSEMBLE), why)
    elif options.zookeeper is None:
        _refuse(options, NEED_AN_ENSEMBLE, "only with -z; without it the demo starts a server of its own")
    else:
        where = target(options)
        return DemoOptions(
            zookeeper=where.zookeeper,
            connection=client_settings(where),
            answer_timeout_s=where.timeout_s,
            keep=keep,
        )
    return DemoOptions(keep=keep)


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """SIGTERM ends like Ctrl-C: members and servers are stopped, files removed."""
    former = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


class _Lines:
    """The screen where there is no terminal: the events, line by line, on stderr."""

    _shown = 0

    def __call__(self, run: DemoRun) -> None:
        for event in run.events[self._shown :]:
            echo_err(f"{event.at_s:5.1f} s  {event.text}")
        self._shown = len(run.events)


@contextmanager
def _screen() -> Iterator[Callable[[DemoRun], None]]:
    """A live view on a terminal, plain lines elsewhere."""
    terminal = sys.stdout.isatty() and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    if not terminal or os.environ.get("NO_COLOR"):
        yield _Lines()
        return
    from rich.console import Console

    from zkgroup.demo.screen import live_screen

    with live_screen(Console(stderr=True)) as show:
        yield show


def print_report(out: Output, run: GroupRun) -> None:
    """The result for a person."""
    from ..demo_documents import AIRPORT

    out.line(out.paint("Mean delay of flights, the slowest airports", "bold"))
    AIRPORT.table(out, run.reduction.slowest)
    out.line()
    check_table(out, run.checks)
    figures = run.figures
    out.line()
    out.line(
        f"{run.reduction.records:,} records in {run.took_s:.0f} s, {run.reduction.twice:,} of them twice."
    )
    out.line(f"The dead member's partitions had an owner again after {run.takeover_s:.1f} s.")
    out.line(
        f"In the history: {figures.deliveries:,} deliveries, {figures.commits:,} commits "
        f"({figures.refused_stale_commits:,} stale ones refused), {figures.ownership_changes:,} moves."
    )


def check_table(out: Output, checks: Sequence[CheckResult]) -> None:
    """A row for each; those that do not hold once more, in full."""
    from ..demo_documents import CHECK

    CHECK.table(out, checks)
    for one in checks:
        if not one.holds:
            out.line()
            out.line(out.paint(f"NOT PROVED: {one.statement}", "bad"))
            out.line(one.evidence)


def print_brokers_report(out: Output, run: BrokersRun) -> None:
    """The result for a person."""
    figures = run.log_figures
    check_table(out, run.checks)
    out.line()
    out.line(f"{counted(run.acknowledged, 'record')} acknowledged in {run.took_s:.0f} s.")
    out.line(
        f"{run.reduction.records:,} in the logs, all consumed: the producer is idempotent, "
        f"and {run.repeated:,} are in a log twice."
    )
    took = " and ".join(f"{one:.1f} s" for one in run.failovers_s)
    out.line(f"After each SIGKILL of a controller every partition had a leader again within {took}.")
    out.line(
        f"In ZooKeeper's log: {counted(figures.elections, 'election')}, "
        f"{figures.leader_changes:,} changes of leader, {figures.isr_writes:,} of ISRs, "
        f"{counted(figures.moves_ended, 'move')}, {counted(figures.refused_writes, 'refused write')}."
    )
    _print_clients(out, run)


def _print_clients(out: Output, run: BrokersRun) -> None:
    """Kafka's clients that took part, those that did not, and the first batch of each in the dump."""
    from ..demo_documents import CLIENT_IO

    out.line()
    out.line(out.paint("Kafka's own clients, all in one partition", "bold"))
    CLIENT_IO.table(out, run.clients)
    for one in run.left_out:
        out.line(f"left out: {one.client} ({one.reason})")
    if run.dump is None:
        return
    first: dict[str, str] = {}
    for line in run.dump.batches:
        first.setdefault(line.partition(" producerId: ")[2].partition(" ")[0], line)
    out.line()
    out.line(out.paint(f"{run.dump.file}, by Kafka's DumpLogSegments", "bold"))
    for line in first.values():
        out.line(line)
    if more := len(run.dump.batches) - len(first):
        out.line(f"and {more} more")


def print_coordinator_report(out: Output, run: CoordinatorRun) -> None:
    """The result for a person."""
    from ..demo_documents import CLIENT_RESULT

    check_table(out, run.checks)
    out.line()
    out.line(out.paint(f"Kafka's own clients, in the group {run.group}", "bold"))
    CLIENT_RESULT.table(out, run.clients)
    for one in run.left_out:
        out.line(f"left out: {one.client} ({one.reason})")
    out.line()
    out.line(
        f"{run.reduction.records:,} records in {run.took_s:.0f} s, {run.reduction.twice:,} of them twice."
    )
    went_on = "went on in their generation" if run.kept_generation else "joined a new generation"
    out.line(
        f"When the coordinator was killed, the members {went_on}: what they had read was committed after "
        f"{run.failover_s:.1f} s."
    )
    brokers = ", ".join(map(str, run.coordinators))
    out.line(
        f"In ZooKeeper's log: {counted(run.generations, 'generation')}, coordinated by broker {brokers}; "
        f"{counted(run.log_figures.leader_changes, 'change')} of leader."
    )


def print_audit_report(out: Output, run: AuditRun) -> None:
    """The result for a person."""
    from ..demo_documents import PLANTED

    out.line(out.paint("Planted by a client that is no member", "bold"))
    PLANTED.table(out, run.planted)
    out.line()
    out.line(out.paint(f"Who owned partition {run.partition}, whose offset was set back", "bold"))
    show_owners(out, run.lives.get(run.partition, ()), ())
    out.line()
    check_table(out, run.checks)
    out.line()
    out.line(f"{severity_counts(run.severities)} in the files of a run of {run.took_s:.0f} s.")
    incidents = counted(len(run.incidents), "incident")
    out.line(f"They are {incidents} and notes{':' if run.incidents else '.'}")
    for title in run.incidents:
        for line in textwrap.wrap(escaped(title), out.width or WIDTH, break_on_hyphens=False):
            out.line(line)


_PRINTED: Final[Mapping[str, Callable[[Output, Any], None]]] = {
    "group": print_report,
    "brokers": print_brokers_report,
    "coordinator": print_coordinator_report,
    "audit": print_audit_report,
}
"""Each prints the result of a demo for a person."""
