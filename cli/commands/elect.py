"""`zkgroup elect preferred`: partitions go back to their first replica; `unclean`: any live one leads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, NamedTuple

import click

from zkgroup.admin import NO_LEADER, PartitionVerdict, UncleanElectionDone
from zkgroup.admin.change import ChangeResult
from zkgroup.admin.elections import (
    BEING_DELETED,
    CLEAN,
    ELECTS,
    LEADS,
    LED,
    UNCLEAN,
    Candidate,
    ElectionPlan,
    all_led,
    check_outcomes,
    elect_preferred_change,
    elect_unclean_change,
    plan_preferred,
    plan_unclean,
)
from zkgroup.admin.files import parse_partitions
from zkgroup.admin.topics.listing import partitions_named
from zkgroup.model.text import counted

from ..app import fail_check, output
from ..app import group as make_group
from ..confirm import command_text, print_result, run_change
from ..context import connected
from ..param_types import TEXT_FILE, named_text
from ..params import Consent, confirm_options, topics_option, wait_options
from ..render import Cell, Output, echo_err
from ..schema import (
    BROKERS,
    INTEGER,
    STRING,
    Document,
    JsonKey,
    KeyColumn,
    NamedKeys,
    Shape,
    given,
    nullable,
    word,
)

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


class UncleanPartition(NamedTuple):
    """A partition of an unclean election as it was, and the controller's verdict once there is one."""

    candidate: Candidate
    result: PartitionVerdict | None


def unclean_partitions(plan: ElectionPlan, done: UncleanElectionDone | None) -> list[UncleanPartition]:
    """The partitions of a plan; with the results once there are some."""
    results = {each.topic_partition: each for each in done.partitions} if done else {}
    return [UncleanPartition(row, results.get(row.topic_partition)) for row in plan.rows]


def _outcome(outcome: str) -> Cell:
    return Cell(outcome.replace("_", " "), _STYLES.get(outcome, "warn"))


def _leader(leader: int | None) -> Cell | int | None:
    return Cell("none", "bad") if leader == NO_LEADER else leader


def _listed(brokers: Sequence[int] | None) -> str | None:
    return None if brokers is None else ",".join(map(str, brokers)) or "none"


_IMPOSSIBLE = ("not_live", "no_state", "unreadable", "being_deleted", "unhosted")
_PLACE = (KeyColumn("topic", shorten="middle"), "partition")
CANDIDATE = Shape(
    Candidate,
    *("topic_partition", given("leader", nullable(INTEGER)), given("preferred", nullable(INTEGER))),
    given(
        "outcome",
        word(
            *("elects", "leads", "not_live", "not_in_isr", "no_state", "unreadable", "being_deleted"),
            "unhosted",
        ),
    ),
    columns=(
        *_PLACE,
        KeyColumn("leader", cell=lambda row: "none" if row.leader == NO_LEADER else row.leader),
        *("preferred", KeyColumn("outcome", cell=lambda row: _outcome(row.outcome))),
    ),
)
Election = ChangeResult[ElectionPlan, None, bool]
ELECTION = Document(
    "election",
    Shape(
        Election,
        JsonKey("election", word("preferred"), lambda _: "preferred"),
        *("executed", "converged=outcome", "partitions=plan.rows"),
    ),
    rows="partitions",
)
UNCLEAN_PARTITION = Shape(
    UncleanPartition,
    *("candidate.topic_partition", given("replicas", BROKERS, "candidate.replicas")),
    given("leader", nullable(INTEGER), "candidate.leader"),
    given("isr", nullable(BROKERS), "candidate.isr"),
    given("live", BROKERS, "candidate.live"),
    given("outcome", word("unclean", "clean", "led", *_IMPOSSIBLE), "candidate.outcome"),
    *("result.verdict", "elected=result.leader"),
    JsonKey("reason", nullable(STRING), lambda row: (row.result and row.result.reason) or None),
    columns=(
        *_PLACE,
        KeyColumn("leader", cell=lambda row: _leader(row.candidate.leader)),
        KeyColumn("isr", "IN SYNC", lambda row: _listed(row.candidate.isr), shorten="end"),
        KeyColumn("live", cell=lambda row: _listed(row.candidate.live), shorten="end"),
        KeyColumn(  # as the controller has reported, else what the request would lead to
            "outcome",
            cell=lambda row: _outcome(row.result.verdict if row.result else row.candidate.outcome),
        ),
        KeyColumn("elected", "LED BY", when_at=bool),
        KeyColumn(
            "reason", "WHY", lambda row: row.result.reason if row.result else "", shorten="end", when_at=bool
        ),
    ),
)
"""The table is of the outcome that the controller has reported, None before."""
UNCLEAN_ELECTION = Document(
    "unclean_election",
    NamedKeys(
        executed=bool,
        converged=bool | None,
        epoch=int | None,  # of the controller that carried it out
        partitions=Sequence[UncleanPartition],
    ),
    rows="partitions",
)


@elect.command()
@topics_option("Only these; may be repeated.  [default: all]")
@click.option(
    "--path-to-json-file",
    "file",
    type=TEXT_FILE,
    help="Only the partitions of a file of Kafka's own tool.",
)
@wait_options("the leaders that were asked for lead")
@confirm_options
def preferred(
    topics: Sequence[tuple[str, tuple[int, ...]]],
    file: IO[str] | None,
    wait_s: float | None,
    consent: Consent,
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
    given = parse_partitions(*named_text(file)) if file else None
    with connected() as ensemble:
        plan = plan_preferred(ensemble, partitions_named(ensemble, topics) if topics else given)
        result = run_change(elect_preferred_change(ensemble, plan), _show, consent, wait_s)
    print_result(ELECTION, result, _show)
    if result.outcome is False:
        echo_err("not every partition is led by its first replica; `zkgroup topic describe` shows them")
        fail_check()
    # A request for all partitions is none for those that are being deleted.
    good = (ELECTS, LEADS) if topics or file else (ELECTS, LEADS, BEING_DELETED)
    rows = [(row.topic_partition, row.outcome) for row in plan.rows]
    check_outcomes(rows, good, executed=consent.execute, unreadable=plan.unreadable)


@elect.command()
@topics_option("Partitions; a topic alone means all of its partitions. May be repeated.", required=True)
@wait_options("the controller has reported the outcome of each")
@confirm_options
def unclean(topics: Sequence[tuple[str, tuple[int, ...]]], wait_s: float | None, consent: Consent) -> None:
    """Elect a live replica, in sync or not; records may be lost.

    For partitions that have no leader. Only a zkgroup controller has such a request; elsewhere it is refused
    with what to do instead. Exit codes are those of `elect preferred`.

    \b
    Example:
      zkgroup elect unclean --topic orders:3 --execute --wait
    """
    with connected() as ensemble:
        plan = plan_unclean(ensemble, partitions_named(ensemble, topics))
        result = run_change(elect_unclean_change(ensemble, plan), _show_unclean, consent, wait_s)
    out, done, wanted = output(), result.outcome, result.executed
    converged = (
        None if wait_s is None or not wanted else done is not None and all_led(done.partitions, plan.wanted)
    )
    if not UNCLEAN_ELECTION.print(
        out,
        plan.as_of,
        executed=wanted,
        converged=converged,
        epoch=done.epoch if done else None,
        partitions=unclean_partitions(plan, done),
    ):
        _show_unclean(out, result)
    if converged is False:
        if done is None:
            words = command_text("controller", "describe")
            echo_err(f"the controller has not reported yet; the request stays until it has: {words}")
        elif done.reason:
            echo_err(f"nothing was tried: {done.reason}")
        fail_check()
    rows = [(row.topic_partition, row.outcome) for row in plan.rows]
    check_outcomes(rows, (UNCLEAN, CLEAN, LED), executed=consent.execute)


def _show(out: Output, result: Election) -> None:
    plan = result.plan
    rows = [row for row in plan.rows if row.outcome != "leads"]
    if not rows:
        if not plan.unreadable:
            led = "every partition is led by its first replica: nothing to do"
            out.line(led if plan.rows else "nothing to elect")
        return
    CANDIDATE.table(out, rows)
    if not plan.wanted:
        out.line("nothing to elect")
        return
    verb = "asked for" if result.executed else "would ask for"
    out.line(f"{verb} {counted(len(plan.wanted), 'election')}")


def _show_unclean(out: Output, result: ChangeResult[ElectionPlan, int, UncleanElectionDone | None]) -> None:
    plan, done = result.plan, result.outcome
    UNCLEAN_PARTITION.table(out, unclean_partitions(plan, done), done)
    verb = "asked for" if result.executed else "would ask for"
    lost = f"; {counted(len(plan.losing), 'partition')} may lose records" if plan.losing else ""
    out.line(f"{verb} {counted(len(plan.wanted), 'election')}{lost}" if plan.wanted else "nothing to elect")
