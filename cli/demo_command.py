"""`zkgroup demo`: the whole of it in one command."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from .connection import client_settings, target
from .demo_checks import check_documents, check_table
from .documents import document
from .frame import Shared, command, shared
from .output import Output, say
from .tables import Column

if TYPE_CHECKING:
    from rich.console import RenderableType

    from zkgroup.demo.group.scenario import DemoOptions, DemoReport
    from zkgroup.demo.story import Happening, Screen

EXIT_NOT_PROVED = 3
HISTORY_FIGURES = (
    "records",
    "deliveries",
    "claims",
    "ownership_changes",
    "commits",
    "refused_commits",
    "refused_stale_commits",
    "unknown_outcomes",
)
"""What the recorded history held, for the report: names of `Figures`."""
NEED_AN_ENSEMBLE = (
    "profile",
    "zk_digest_file",
    "zk_tls_ca",
    "zk_tls_cert",
    "zk_tls_key",
    "zk_sasl_file",
    "connect_timeout",
)
"""Shared options that say how to connect to an existing ensemble."""


@command("demo")
@click.argument("what", type=click.Choice(["group", "brokers", "audit"]), default="group")
@click.option("--keep", is_flag=True, help="Leave znodes and files for looking around.")
@click.pass_context
def demo(ctx: click.Context, what: str, keep: bool) -> int:
    """See it work, with real records and real processes.

    \b
    group    Three members share partitions; one is killed, another joins; nothing is lost. [default]
    brokers  Four brokers host lines while two consumers read them; the controller is killed, another broker,
             and the controller in the middle of a move; one broker is emptied; nothing is lost.
    audit    The demo of the group, with two offsets written by a client that is no member; the files of the
             server that has stopped say which, when and by whom, and a report is written.

    Starts ZooKeeper servers of its own (needs Java and the extra `embedded`). `group` uses the one given
    with -z instead; ZKGROUP_ZOOKEEPER alone does not count. Ends with 0 when everything was proved, with 3
    when something was wrong.
    """
    options = shared(ctx)
    return {"group": _group, "brokers": _brokers, "audit": _audit}[what](options, keep)


def _group(options: Shared, keep: bool) -> int:
    from zkgroup.demo.group.scenario import run
    from zkgroup.demo.group.view import render

    out = options.output()
    order = _options(options, keep)
    with _sigterm_as_ctrl_c(), _screen(render) as screen:
        report = run(order, screen)
    if not out.document(_document(report)):
        print_report(out, report)
    _say_what_is_left(report)
    return 0 if report.passed else EXIT_NOT_PROVED


def _brokers(options: Shared, keep: bool) -> int:
    from zkgroup.demo.brokers.scenario import run
    from zkgroup.demo.brokers.stage import DemoOptions
    from zkgroup.demo.brokers.view import render

    from . import demo_brokers

    out = options.output()
    _refuse(options, ("zookeeper", *NEED_AN_ENSEMBLE), "it reads the files of its own servers: leave it out")
    with _sigterm_as_ctrl_c(), _screen(render) as screen:
        report = run(DemoOptions(keep=keep), screen)
    if not out.document(demo_brokers.report_document(report)):
        demo_brokers.print_report(out, report)
    demo_brokers.say_what_is_left(report)
    return 0 if report.passed else EXIT_NOT_PROVED


def _audit(options: Shared, keep: bool) -> int:
    from zkgroup.demo.audit.scenario import DemoOptions, run
    from zkgroup.demo.group.view import render

    from . import demo_audit

    out = options.output()
    _refuse(options, ("zookeeper", *NEED_AN_ENSEMBLE), "it reads the files of its own server: leave it out")
    with _sigterm_as_ctrl_c(), _screen(render) as screen:
        report = run(DemoOptions(keep=keep), screen)
    if not out.document(demo_audit.report_document(report)):
        demo_audit.print_report(out, report)
    demo_audit.say_what_is_left(report)
    return 0 if report.passed else EXIT_NOT_PROVED


def _refuse(options: Shared, names: Sequence[str], why: str) -> None:
    """Raises UsageError for shared options that are of no use here."""
    unused = [name for name in names if getattr(options, name) is not None]
    if unused:
        given = ", ".join("--" + name.replace("_", "-") for name in unused)
        raise click.UsageError(f"{given}: {why}")


def _options(options: Shared, keep: bool) -> DemoOptions:
    """On an existing ensemble the members connect as we do; the demo's own server knows no users."""
    from zkgroup.demo.group.scenario import DemoOptions

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
    """SIGTERM tidies up like Ctrl-C: members and servers are stopped, files removed."""
    former = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


class _Lines:
    """The screen where there is no terminal: the story, line by line, on stderr."""

    def happened(self, happening: Happening) -> None:
        say(f"{happening.at_s:5.1f} s  {happening.text}")

    def show(self, scene: object) -> None:
        """Only the story is told."""


@contextmanager
def _screen(render: Callable[[Any, int, int], RenderableType]) -> Iterator[Screen[Any]]:
    """A live view on a terminal, plain lines elsewhere."""
    terminal = sys.stdout.isatty() and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    if not terminal or os.environ.get("NO_COLOR"):
        yield _Lines()
        return
    from rich.console import Console

    from zkgroup.demo.screen import LiveScreen

    with LiveScreen(Console(stderr=True), render) as screen:
        yield screen


def _document(report: DemoReport) -> dict[str, Any]:
    return document(
        "demo",
        report.as_of,
        group=report.group,
        zookeeper=report.zookeeper,
        kept=str(report.folder) if report.folder else None,
        passed=report.passed,
        checks=check_documents(report.checks),
        history={name: getattr(report.figures, name) for name in HISTORY_FIGURES},
        records=report.records,
        twice=report.twice,
        took_ms=round(report.took_s * 1000),
        takeover_ms=round(report.takeover_s * 1000),
        airports=[
            {"airport": one.airport, "flights": one.flights, "delay_minutes": one.delay_sum}
            for one in report.airports
        ],
    )


def print_report(out: Output, report: DemoReport) -> None:
    """The result for a person."""
    out.line(out.paint("Mean delay of flights, the slowest airports", "bold"))
    out.table(
        [
            Column(header="airport"),
            Column(header="flights", right=True),
            Column(header="minutes", right=True),
        ],
        [(one.airport, one.flights, f"{one.mean:.1f}") for one in report.airports],
    )
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


def _say_what_is_left(report: DemoReport) -> None:
    if report.folder is None:
        return
    say(f"\nkept: {report.folder}")
    if report.embedded:
        say(f"look around: zkgroup zookeeper start --data {report.folder / 'zookeeper'}")
    say(
        f"then: zkgroup -z {'HOST:PORT' if report.embedded else report.zookeeper} offsets show {report.group}"
    )
