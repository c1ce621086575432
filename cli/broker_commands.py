"""`zkgroup broker list|describe|forget`, as far as znodes tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zkgroup.admin import brokers as admin
from zkgroup.admin.forgetting import ForgettingPlan, plan_forgetting
from zkgroup.admin.forgetting import forget as forget_records
from zkgroup.errors import PartlyDoneError
from zkgroup.model import TopicPartition

from . import cluster_documents
from .connection import connected
from .consent import is_wanted, say_no_way_back
from .frame import group as make_group
from .frame import output
from .options import consent_options
from .output import Output, say
from .tables import Cell, Column
from .units import counted, iso_time

if TYPE_CHECKING:
    from zkgroup.lines.log_ends import LogEnds

broker = make_group(
    "broker",
    lazy={"run": (".broker_run:run", "Serve as a broker, or as a controller that hosts nothing.")},
    help="Run a broker, and look at those that are registered.",
)

_BROKER_KEYS = ("broker", "host", "port", "registered_at", "version", "epoch", "kind", "role", "controller")
_LEFT_KEYS = ("topic", "czxid", "partitions", "is_there")
_NAMED = 8


@broker.command("list")
def list_() -> None:
    """Every registered broker."""
    out = output()
    with connected() as ensemble:
        as_of, rows, unreadable = admin.list_brokers(ensemble)
    if not out.document(cluster_documents.brokers(as_of, rows), "brokers", _BROKER_KEYS):
        columns = [
            Column(header="BROKER", right=True),
            Column(header="HOST", shorten="middle"),
            Column(header="PORT", right=True),
            Column(header="REGISTERED", rank=2),
            Column(header="VERSION", right=True, rank=3),
            Column(header="KIND", rank=1),
            Column(header="NOTE"),
        ]
        out.table(columns, [_row(row) for row in rows])
        if not rows and not unreadable:
            say("no broker is registered")
    if unreadable:
        told = "; ".join(map(str, unreadable))
        raise PartlyDoneError(f"not listed: {told}") if rows else unreadable[0]


@broker.command()
@click.argument("broker", metavar="ID", type=click.IntRange(0))
def describe(broker: int) -> None:
    """The registration of broker ID, and what it hosts.

    One of ours is asked how far its replicas are, and which of them have failed since when and why.
    """
    out = output()
    with connected() as ensemble:
        as_of, one = admin.describe_broker(ensemble, broker)
        known = admin.readable(admin.registrations(ensemble))
    ends = failed = None
    if one.summary.kind == "zkgroup" and one.summary.role == "data":
        from zkgroup.lines.failed_replicas import read_failed_replicas
        from zkgroup.lines.log_ends import read_log_ends

        failed = read_failed_replicas(known, broker)
        ends = read_log_ends(known, [(tp, broker) for tp in one.hosted])
    if not out.document(cluster_documents.broker(as_of, one, ends, failed)):
        _show(out, one, ends)
        for each in failed or ():
            where, since = TopicPartition(each.topic, each.partition), iso_time(each.since_ms)
            out.line(out.paint(f"{where} has failed at {since}: {each.reason}", "bad"))
    if one.unreadable:
        raise PartlyDoneError(f"not counted: {'; '.join(map(str, one.unreadable))}")


@broker.command()
@click.argument("broker", metavar="ID", type=click.IntRange(0))
@consent_options
def forget(broker: int, execute: bool, yes: bool) -> None:
    """Forget what broker ID, which never comes back, may still have of topics that have no place for it.

    A controller of ours has a broker that comes back delete that. Without the record nobody does: its folders
    have to be gone. Refused while the broker is registered. Prints what would be done until --execute.

    Example: zkgroup broker forget 3 --execute
    """
    out = output()
    with connected() as ensemble:
        plan = plan_forgetting(ensemble, broker)
        for path in plan.unreadable:
            say(f"note: {path} cannot be read; it goes as it is")
        say_no_way_back("should the broker come back, nobody has it delete what it has")
        question = f"Forget what broker {broker} may still have?"
        wanted = is_wanted(execute, yes, question, lambda aside: _show_left(aside, plan))
        if wanted:
            forget_records(ensemble, plan)
    if not out.document(cluster_documents.forgetting(plan, executed=wanted), "left", _LEFT_KEYS):
        _show_left(out, plan)
        out.line(f"{'forgotten' if wanted else 'would forget'}: {counted(len(plan.znodes), 'record')}")


def _show_left(out: Output, plan: ForgettingPlan) -> None:
    columns = [
        Column(header="TOPIC", shorten="middle", least=12),
        Column(header="PARTITIONS", shorten="end"),
        Column(header="NOTE"),
    ]
    rows: list[list[Cell | str | int | None]] = [
        [each.topic, ",".join(map(str, each.partitions)), "moved away" if each.is_there else "deleted"]
        for each in plan.left
    ]
    out.table(columns, rows)


def _row(row: admin.BrokerSummary) -> list[Cell | str | int | None]:
    since = iso_time(row.registered_at_ms)
    return [row.broker, row.host, row.port, since, row.version, row.kind, _note(row)]


def _note(row: admin.BrokerSummary) -> str:
    notes = ["controller"] if row.controller else []
    return ", ".join([*notes, "hosts nothing"] if row.role == "controller" else notes)


def _show(out: Output, one: admin.BrokerDescription, ends: LogEnds | None) -> None:
    row = one.summary
    rows = [
        ("broker", f"{row.broker} ({row.kind}{', ' + note if (note := _note(row)) else ''})"),
        ("address", f"{row.host or '-'}:{row.port}"),
        ("endpoints", ", ".join(one.endpoints)),
        ("rack", one.rack or "-"),
        ("registered", f"{iso_time(row.registered_at_ms)}, format {row.version}, epoch {row.epoch}"),
        ("replicas", f"{counted(one.replicas, 'partition')}, {one.preferred} of them preferred"),
        ("leads", counted(one.leaders, "partition")),
        ("out of sync", _listed(one.out_of_sync) or "none"),
    ]
    for name, value in rows:
        out.line(f"{out.paint(f'{name:<11}', 'dim')} {value}")
    if ends:
        out.line()
        columns = [
            Column(header="TOPIC", shorten="middle", least=12),
            Column(header="PART", right=True),
            Column(header="LEO", right=True),
            Column(header="HW", right=True),
            Column(header="NOTE", shorten="end", rank=1),
        ]
        told = [(tp, ends[tp, row.broker]) for tp in one.hosted]
        out.table(
            columns,
            [[tp.topic, tp.partition, e.log_end_offset, e.high_watermark, e.reason] for tp, e in told],
        )


def _listed(partitions: tuple[TopicPartition, ...]) -> str:
    named = ", ".join(map(str, partitions[:_NAMED]))
    more = len(partitions) - _NAMED
    return f"{named} and {more} more" if more > 0 else named
