"""`zkgroup elect preferred`: partitions go back to their first replica; `unclean`: any live one leads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

import click

from zkgroup.admin import NO_LEADER, UncleanElectionDone
from zkgroup.admin.elections import (
    BEING_DELETED,
    CLEAN,
    ELECTS,
    LEADS,
    LED,
    UNCLEAN,
    Candidate,
    ElectionPlan,
    UncleanPlan,
    all_led,
    check_outcomes,
    elect_preferred_change,
    elect_unclean_change,
    plan_preferred,
    plan_unclean,
)
from zkgroup.admin.files import parse_partitions
from zkgroup.admin.topics.listing import partitions_named

from .. import cluster_documents
from ..app import EXIT_CHECK_FAILED, output
from ..app import group as make_group
from ..cluster_documents import UncleanPartition, unclean_partitions
from ..confirm import (
    command_text,
    run_change,
)
from ..context import connected
from ..param_types import (
    TEXT_FILE,
    TopicAndPartitions,
    named_text,
)
from ..params import (
    confirm_options,
    wait_options,
    wait_s,
)
from ..render import Cell, Output, TableColumn, echo_err
from ..units import counted

elect = make_group(
    "elect",
    help="""Elect leaders: preferred replicas, or any live one.

    \b
    Example:
      zkgroup elect preferred --execute""",
)


_STYLES = {
    "elects": "good",
    "leads": "dim",
    "unclean": "bad",
    "clean": "good",
    "led": "dim",
    "unreadable": "bad",
}


@elect.command()
@click.option(
    "--topic",
    "topics",
    multiple=True,
    type=TopicAndPartitions(),
    metavar="T[:P,P...]",
    help="Only these; may be repeated.  [default: all]",
)
@click.option(
    "--path-to-json-file",
    "file",
    type=TEXT_FILE,
    help="Only the partitions of a file of Kafka's own tool.",
)
@wait_options("the leaders that were asked for lead")
@confirm_options
@click.pass_context
def preferred(
    ctx: click.Context,
    topics: Sequence[tuple[str, tuple[int, ...]]],
    file: IO[str] | None,
    wait: bool,
    timeout_ms: int | None,
    execute: bool,
    yes: bool,
) -> None:
    """Elect the first replica of each partition as its leader again.

    Only where that replica is live and in sync. Nothing is copied. Only partitions whose leader changes are
    requested. It cannot be undone.

    Exit code 2 where none can be elected; with --execute 4 where some cannot. Also 4 where something cannot
    be read.

    \b
    Example:
      zkgroup elect preferred --topic orders:0,3 --execute --wait
    """
    if topics and file:
        raise click.UsageError("--topic and --path-to-json-file contradict each other")
    out, longest = output(), wait_s(wait, timeout_ms)
    given = parse_partitions(*named_text(file)) if file else None
    with connected() as ensemble:
        plan = plan_preferred(ensemble, partitions_named(ensemble, topics) if topics else given)
        result = run_change(
            elect_preferred_change(ensemble, plan),
            lambda stderr: _show(stderr, plan, executed=False),
            execute=execute,
            yes=yes,
            wait_s=longest,
        )
    converged, wanted = result.outcome, result.executed
    document = cluster_documents.election(plan, executed=wanted, converged=converged)
    if not out.document(document, "partitions", cluster_documents.CANDIDATE.keys):
        _show(out, plan, executed=wanted)
    if converged is False:
        echo_err("not every partition is led by its first replica; `zkgroup topic describe` shows them")
        ctx.exit(EXIT_CHECK_FAILED)
    # A request for all partitions is none for those that are being deleted.
    good = (ELECTS, LEADS) if topics or file else (ELECTS, LEADS, BEING_DELETED)
    rows = [(row.topic_partition, row.outcome) for row in plan.rows]
    check_outcomes(rows, good, executed=execute, unreadable=plan.unreadable)


@elect.command()
@click.option(
    "--topic",
    "topics",
    multiple=True,
    required=True,
    type=TopicAndPartitions(),
    metavar="T[:P,P...]",
    help="Partitions; a topic alone means all of its partitions. May be repeated.",
)
@wait_options("the controller has reported the outcome of each")
@confirm_options
@click.pass_context
def unclean(
    ctx: click.Context,
    topics: Sequence[tuple[str, tuple[int, ...]]],
    wait: bool,
    timeout_ms: int | None,
    execute: bool,
    yes: bool,
) -> None:
    """Elect a live replica, in sync or not; records may be lost.

    For partitions that have no leader. Only a zkgroup controller has such a request; elsewhere it is refused
    with what to do instead. Exit codes are those of `elect preferred`.

    \b
    Example:
      zkgroup elect unclean --topic orders:3 --execute --wait
    """
    out, longest = output(), wait_s(wait, timeout_ms)
    with connected() as ensemble:
        plan = plan_unclean(ensemble, partitions_named(ensemble, topics))
        result = run_change(
            elect_unclean_change(ensemble, plan),
            lambda stderr: _show_unclean(stderr, plan, None, executed=False),
            execute=execute,
            yes=yes,
            wait_s=longest,
        )
    done, wanted = result.outcome, result.executed
    converged = (
        None if longest is None or not wanted else done is not None and all_led(done.partitions, plan.wanted)
    )
    document = cluster_documents.unclean_election(plan, done, executed=wanted, converged=converged)
    if not out.document(document, "partitions", cluster_documents.UNCLEAN_PARTITION.keys):
        _show_unclean(out, plan, done, executed=wanted)
    if converged is False:
        if done is None:
            words = command_text("controller", "describe")
            echo_err(f"the controller has not reported yet; the request stays until it has: {words}")
        elif done.reason:
            echo_err(f"nothing was tried: {done.reason}")
        ctx.exit(EXIT_CHECK_FAILED)
    rows = [(row.topic_partition, row.outcome) for row in plan.rows]
    check_outcomes(rows, (UNCLEAN, CLEAN, LED), executed=execute)


_PREFERRED_COLUMNS: list[TableColumn[Candidate]] = [
    TableColumn("TOPIC", lambda row: row.topic_partition.topic, shorten="middle"),
    TableColumn("PARTITION", lambda row: row.topic_partition.partition, right=True),
    TableColumn("LEADER", lambda row: "none" if row.leader == NO_LEADER else row.leader, right=True),
    TableColumn("PREFERRED", lambda row: row.preferred, right=True),
    TableColumn("OUTCOME", lambda row: Cell(row.outcome.replace("_", " "), _STYLES.get(row.outcome, "warn"))),
]


def _show(out: Output, plan: ElectionPlan, *, executed: bool) -> None:
    rows = [row for row in plan.rows if row.outcome != "leads"]
    if not rows:
        if not plan.unreadable:
            led = "every partition is led by its first replica: nothing to do"
            out.line(led if plan.rows else "nothing to elect")
        return
    out.table(_PREFERRED_COLUMNS, rows)
    if not plan.wanted:
        out.line("nothing to elect")
        return
    verb = "asked for" if executed else "would ask for"
    out.line(f"{verb} {counted(len(plan.wanted), 'election')}")


def _show_unclean(
    out: Output, plan: UncleanPlan, done: UncleanElectionDone | None, *, executed: bool
) -> None:
    rows = unclean_partitions(plan, done)
    out.table([*_UNCLEAN_COLUMNS, *(_RESULT_COLUMNS if done else [])], rows)
    verb = "asked for" if executed else "would ask for"
    lost = f"; {counted(len(plan.losing), 'partition')} may lose records" if plan.losing else ""
    out.line(f"{verb} {counted(len(plan.wanted), 'election')}{lost}" if plan.wanted else "nothing to elect")


def _outcome(row: UncleanPartition) -> Cell:
    """What the controller has reported, else what the request would lead to."""
    word = row.result.verdict if row.result else row.candidate.outcome
    return Cell(word.replace("_", " "), _STYLES.get(word, "warn"))


_UNCLEAN_COLUMNS: list[TableColumn[UncleanPartition]] = [
    TableColumn("TOPIC", lambda row: row.candidate.topic_partition.topic, shorten="middle"),
    TableColumn("PARTITION", lambda row: row.candidate.topic_partition.partition, right=True),
    TableColumn("LEADER", lambda row: _leader(row.candidate.leader), right=True),
    TableColumn("IN SYNC", lambda row: _listed(row.candidate.isr), shorten="end"),
    TableColumn("LIVE", lambda row: _listed(row.candidate.live), shorten="end"),
    TableColumn("OUTCOME", _outcome),
]
_RESULT_COLUMNS: list[TableColumn[UncleanPartition]] = [
    TableColumn("LED BY", lambda row: row.result.leader if row.result else None, right=True),
    TableColumn("WHY", lambda row: row.result.reason if row.result else "", shorten="end"),
]


def _leader(leader: int | None) -> Cell | int | None:
    return Cell("none", "bad") if leader == NO_LEADER else leader


def _listed(brokers: Sequence[int] | None) -> str | None:
    return None if brokers is None else ",".join(map(str, brokers)) or "none"
