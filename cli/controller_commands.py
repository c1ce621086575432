"""`zkgroup controller describe|history|resign`."""

from __future__ import annotations

import click

from zkgroup.admin import ruling
from zkgroup.admin.resigning import (
    Resignation,
    ResignationPlan,
    ask_to_resign,
    plan_resignation,
    wait_for_successor,
)

from . import cluster_documents
from .connection import connected
from .consent import command_words, is_wanted, say_no_way_back
from .frame import group as make_group
from .frame import output
from .options import consent_options, wait_options, wait_s
from .output import say
from .tables import Column
from .units import iso_time

controller = make_group("controller", help="Look at who rules the cluster, and have it resign.")

EXIT_CHECK_FAILED = 3

_EPOCH_KEYS = ("epoch", "broker", "session", "reason", "from", "until", "load_ms", "ended")


@controller.command("describe")
def describe_controller() -> None:
    """Who is controller, since when, and of which kind. Exit code 5 where there is none."""
    out = output()
    with connected() as ensemble:
        as_of, one = ruling.describe_controller(ensemble)
    document = cluster_documents.controller(as_of, one)
    if not out.document(document):
        for name in ("controller", "epoch", "elected_at", "session", "kind", "last_processed_zxid"):
            value = document[name]
            out.line(f"{out.paint(f'{name:<20}', 'dim')} {'-' if value is None else value}")


@controller.command()
def history() -> None:
    """The epochs in which a controller of ours ruled, the latest first; all others were real Kafka's."""
    out = output()
    with connected() as ensemble:
        as_of, rows, unreadable = ruling.controller_history(ensemble)
    if not out.document(cluster_documents.controller_history(as_of, rows), "epochs", _EPOCH_KEYS):
        columns = [
            Column(header="EPOCH", right=True),
            Column(header="BROKER", right=True),
            Column(header="FROM"),
            Column(header="UNTIL"),
            Column(header="LOAD MS", right=True, rank=1),
            Column(header="WHY", shorten="end"),
            Column(header="ENDED", shorten="end", rank=2),
        ]
        table = [
            [
                row.epoch,
                row.record.broker,
                iso_time(row.record.from_ms),
                iso_time(row.record.until_ms),
                row.record.load_ms,
                row.record.reason,
                row.record.ended,
            ]
            for row in rows
        ]
        out.table(columns, table)
        if not rows:
            say("no controller of ours has ruled here")
    for text in unreadable:
        say(f"note: {text}")


@controller.command()
@wait_options("another one rules, or the same one again")
@consent_options
@click.pass_context
def resign(ctx: click.Context, wait: bool, timeout_ms: int | None, execute: bool, yes: bool) -> None:
    """Ask the controller to give up, so that another one is elected. Brokers go on serving meanwhile.

    Refused at a real Kafka controller, which looks at no such request. It cannot be undone.
    """
    out, longest, came = output(), wait_s(wait, timeout_ms), None
    with connected() as ensemble:
        plan = plan_resignation(ensemble)
        for note in plan.notes:
            say(f"note: {note}")
        say_no_way_back("the election that follows decides who rules")
        question = f"Have controller {plan.controller} resign?"
        wanted = is_wanted(
            execute, yes, question, lambda aside: aside.line(_told(plan, None, executed=False))
        )
        if wanted:
            ask_to_resign(ensemble, plan)
            if longest is not None:
                came = wait_for_successor(ensemble, plan, longest)
    document = cluster_documents.resignation(plan, came, executed=wanted)
    if not out.document(document):
        out.line(_told(plan, came, executed=wanted))
    if came is not None and came.successor is None:
        say(f"the request stays until it is obeyed: {command_words('controller', 'describe')}")
        ctx.exit(EXIT_CHECK_FAILED)


def _told(plan: ResignationPlan, came: Resignation | None, *, executed: bool) -> str:
    epoch = "" if plan.epoch is None else f", epoch {plan.epoch}"
    who = f"controller {plan.controller}{epoch}"
    if came is None:
        return f"{'asked' if executed else 'would ask'} {who} to resign"
    if not came.resigned:
        return f"asked {who} to resign; it has not yet"
    return f"{who} has resigned; " + (
        "nobody rules yet" if came.successor is None else f"broker {came.successor} rules now"
    )
