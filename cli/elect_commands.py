"""`zkgroup elect preferred`: partitions go back to their first replica."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

import click

from zkgroup.admin.elections import ElectionPlan, elect_preferred, plan_preferred, wait_for_election
from zkgroup.admin.ensemble import Ensemble
from zkgroup.admin.kafka_files import parse_partitions
from zkgroup.admin.topics import describe_topics
from zkgroup.model import TopicPartition

from . import cluster_documents
from .connection import connected
from .consent import is_wanted
from .frame import group as make_group
from .frame import output
from .options import consent_options, wait_options, wait_s
from .output import Output, say
from .parameters import TopicPartitions, file_text
from .tables import Cell, Column
from .units import counted

elect = make_group("elect", help="Have leaders elected.")

EXIT_CHECK_FAILED = 3

_KEYS = ("topic", "partition", "leader", "preferred", "outcome")
_STYLES = {"elects": "good", "leads": "dim"}


@elect.command()
@click.option(
    "--topic",
    "topics",
    multiple=True,
    type=TopicPartitions(),
    metavar="T[:P,P...]",
    help="Only these; may be repeated.  [default: all]",
)
@click.option(
    "--path-to-json-file",
    "file",
    type=click.File("r", encoding="utf-8", lazy=True),
    help="Only the partitions of a file of Kafka's own tool.",
)
@wait_options("the leaders are the preferred ones")
@consent_options
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
    """Have every partition led by its first replica again, where that one lives and is in sync.

    Nothing is copied. Only partitions whose leader changes are asked for. There is nothing to undo.
    """
    if topics and file:
        raise click.UsageError("--topic and --path-to-json-file contradict each other")
    out, longest, converged = output(), wait_s(wait, timeout_ms), None
    given = parse_partitions(file.name, file_text(file)) if file else None
    with connected() as ensemble:
        plan = plan_preferred(ensemble, _partitions(ensemble, topics) if topics else given)
        for note in plan.notes:
            say(f"note: {note}")
        count = counted(len(plan.wanted), "leader")
        wanted = bool(plan.wanted) and is_wanted(
            execute, yes, f"Change {count}?", lambda aside: _show(aside, plan, executed=False)
        )
        if wanted:
            elect_preferred(ensemble, plan)
            if longest is not None:
                _, converged = wait_for_election(ensemble, plan, longest)
    document = cluster_documents.election(plan, executed=wanted, converged=converged)
    if not out.document(document, "partitions", _KEYS):
        _show(out, plan, executed=wanted)
    if converged is False:
        say("not every partition is led by its first replica; `zkgroup topic describe` shows them")
        ctx.exit(EXIT_CHECK_FAILED)


def _partitions(ensemble: Ensemble, topics: Sequence[tuple[str, tuple[int, ...]]]) -> list[TopicPartition]:
    """The partitions named; a topic alone means all of its partitions."""
    _, described, unreadable = describe_topics(ensemble, [name for name, _ in topics])
    if unreadable:
        raise unreadable[0]
    numbers = {one.topic: [row.partition for row in one.partitions] for one in described}
    return [TopicPartition(name, number) for name, parts in topics for number in parts or numbers[name]]


def _show(out: Output, plan: ElectionPlan, *, executed: bool) -> None:
    rows = [row for row in plan.rows if row.outcome != "leads"]
    if not rows:
        out.line("every partition is led by its first replica: nothing to do")
        return
    columns = [
        Column(header="TOPIC", shorten="middle"),
        Column(header="PART", right=True),
        Column(header="LEADER", right=True),
        Column(header="PREFERRED", right=True),
        Column(header="OUTCOME"),
    ]
    table = [
        [
            row.topic_partition.topic,
            row.topic_partition.partition,
            row.leader,
            row.preferred,
            Cell(row.outcome.replace("_", " "), _STYLES.get(row.outcome, "warn")),
        ]
        for row in rows
    ]
    out.table(columns, table)
    verb = "asked for" if executed else "would ask for"
    out.line(f"{verb} {counted(len(plan.wanted), 'election')}")
