"""`zkgroup reassign`: generate, execute, verify, list, cancel; `plan` is in `plan_commands`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import click

from zkgroup.admin.ensemble import Ensemble
from zkgroup.admin.kafka_files import parse_reassignment, parse_topics, reassignment_text
from zkgroup.admin.moving_plans import propose
from zkgroup.admin.reassigning import (
    ReassignmentPlan,
    cancel,
    plan_cancel,
    plan_reassignment,
    submit,
)
from zkgroup.admin.reassignments import (
    DONE,
    FAILED,
    IN_PROGRESS,
    MoveStatus,
    list_moves,
    verify_moves,
    wait_for_moves,
)
from zkgroup.admin.stored_plans import list_plans
from zkgroup.admin.throttling import clear_throttles, read_throttles
from zkgroup.admin.words import Compat, Move, NotifyFormat
from zkgroup.errors import NotFoundError
from zkgroup.model import TopicPartition

from . import reassign_documents, reassign_tables
from .config_changes import notify_option
from .connection import connected
from .consent import command_words, is_wanted, saved_act, saved_rollback, words_back
from .frame import group as make_group
from .frame import output
from .options import consent_options, disable_racks_option, force_option, wait_options, wait_s
from .output import say
from .parameters import Rate, TopicPartitions, file_text
from .units import counted, is_whole

reassign = make_group(
    "reassign",
    lazy={"plan": (".plan_commands:plan", "Plan moves: decommission, replace, set-rf, balance.")},
    help="Move replicas between brokers, by Kafka's own files.",
)

EXIT_CHECK_FAILED = 3


def _file_option(what: str, *, required: bool = True) -> Callable[..., Any]:
    return click.option(
        "--reassignment-json-file",
        "file",
        type=click.File("r", encoding="utf-8", lazy=True),
        required=required,
        help=what,
    )


class BrokerList(click.ParamType[tuple[int, ...]]):
    """`1,2,3`: broker ids."""

    name = "id[,id...]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in value.split(",")]
        if not all(is_whole(part) for part in parts):
            self.fail(f"{value!r}: expected broker ids such as 1,2,3", param, ctx)
        return tuple(int(part) for part in parts)


@reassign.command()
@click.option(
    "--topics-to-move-json-file",
    "file",
    type=click.File("r", encoding="utf-8", lazy=True),
    required=True,
    help='The topics: {"topics":[{"topic":"orders"}],"version":1}.',
)
@click.option(
    "--broker-list", "brokers", type=BrokerList(), required=True, metavar="ID[,ID...]", help="Where to."
)
@click.option(
    "--assignment-compat",
    type=click.Choice(["0.8", "0.10"]),
    default="0.10",
    show_default=True,
    help="Whose rule: 0.8 takes the brokers in the order given and knows no racks.",
)
@disable_racks_option
def generate(
    file: IO[str], brokers: tuple[int, ...], assignment_compat: Compat, disable_rack_aware: bool
) -> None:
    """Propose whole topics dealt anew over these brokers, as Kafka's tool does. Changes nothing.

    It moves nearly everything; `reassign plan` moves what must.
    """
    out = output()
    topics = parse_topics(file.name, file_text(file))
    with connected() as ensemble:
        found = propose(
            ensemble,
            topics,
            brokers,
            compat=assignment_compat,
            rack_mode="disabled" if disable_rack_aware else "enforced",
        )
    if not out.document(reassign_documents.proposal(found)):
        out.line("Current partition replica assignment")
        out.line(reassignment_text(found.current))
        out.line()
        out.line("Proposed partition reassignment configuration")
        out.line(reassignment_text(found.proposed))
    for note in (*found.notes, f"{counted(found.moves, 'replica')} would be copied"):
        say(f"note: {note}")


@reassign.command()
@_file_option("The reassignment, in the form of Kafka's files.")
@click.option(
    "--throttle",
    type=Rate(),
    metavar="SIZE",
    help="Copy at most so much a second at each broker, for example 50MB.",
)
@force_option("Also to brokers that are not registered now.")
@notify_option
@wait_options("every move has ended; then the throttle is removed")
@consent_options
@click.pass_context
def execute(
    ctx: click.Context,
    file: IO[str],
    throttle: int | None,
    force: bool,
    notify_format: NotifyFormat | None,
    wait: bool,
    timeout_ms: int | None,
    execute: bool,
    yes: bool,
) -> None:
    """Ask the controller for a reassignment; refused while one runs. The rollback file is written first."""
    out, longest, status = output(), wait_s(wait, timeout_ms), None
    moves = parse_reassignment(file.name, file_text(file))
    act, rollback = None, None
    with connected() as ensemble:
        plan = plan_reassignment(ensemble, moves, throttle=throttle, force=force, format=notify_format)
        for note in plan.notes:
            say(f"note: {note}")
        question = f"Move {counted(plan.moves, 'replica')} of {counted(len(plan.effective), 'partition')}?"
        if plan.effective and is_wanted(
            execute, yes, question, lambda aside: reassign_tables.plan(aside, plan, executed=False)
        ):
            rollback, told = _rollback(plan)
            act = saved_act(ensemble, told, [config.znode for config in plan.configs])
            say(told)
            submit(ensemble, plan)
            if longest is not None:
                status = _wait(ensemble, plan, longest)
            elif throttle is not None:
                words = ("reassign", "verify", "--reassignment-json-file", file.name, "--clear-throttle")
                say(f"when it is done, remove the throttle: {command_words(*words, '--execute')}")
    document = reassign_documents.reassignment(
        plan,
        executed=act is not None,
        undo=act.undo_id if act else None,
        rollback_file=str(rollback) if rollback else None,
        status=status,
    )
    if not out.document(document, "partitions", reassign_tables.PLAN_KEYS):
        reassign_tables.plan(out, plan, executed=act is not None)
    if status not in (None, DONE):
        say(f"not every move is done: {command_words('reassign', 'list')}")
        ctx.exit(EXIT_CHECK_FAILED)


@reassign.command()
@_file_option("The reassignment that was asked for.")
@click.option("--clear-throttle", is_flag=True, help="Remove throttles once nothing moves, with --execute.")
@wait_options("no move is under way")
@consent_options
@click.pass_context
def verify(
    ctx: click.Context,
    file: IO[str],
    clear_throttle: bool,
    wait: bool,
    timeout_ms: int | None,
    execute: bool,
    yes: bool,
) -> None:
    """Tell of each partition in the file whether it is where it shall be. Exit code 0 when all are, else 3.

    Reads only; a throttle is left as it is without --clear-throttle.
    """
    if execute and not clear_throttle:
        raise click.UsageError("--execute is for --clear-throttle: verify changes nothing else")
    out, longest = output(), wait_s(wait, timeout_ms)
    moves = parse_reassignment(file.name, file_text(file))
    with connected() as ensemble:
        if longest is None:
            as_of, rows = verify_moves(ensemble, moves)
        else:
            with reassign_tables.progress() as show:
                as_of, rows = wait_for_moves(ensemble, moves, longest, show)
        all_done = all(row.status == DONE for row in rows)
        if clear_throttle:
            _clear(ensemble, moves, is_over=_is_over(ensemble, rows), execute=execute, yes=yes)
    if not out.document(
        reassign_documents.reassignments(as_of, rows), "reassignments", reassign_tables.MOVE_KEYS
    ):
        reassign_tables.moves(out, rows)
    ctx.exit(0 if all_done else EXIT_CHECK_FAILED)


@reassign.command("list")
def list_() -> None:
    """Every move under way, those asked for through the brokers' own API too; and plans that are kept."""
    out = output()
    with connected() as ensemble:
        as_of, rows, unreadable = list_moves(ensemble)
        plans, broken = list_plans(ensemble)
    document = reassign_documents.reassignments(as_of, rows, plans)
    if not out.document(document, "reassignments", reassign_tables.MOVE_KEYS):
        if rows:
            reassign_tables.moves(out, rows)
        else:
            out.line("nothing is being moved")
        if plans:
            out.line()
            reassign_tables.plans(out, plans)
    for text in (*unreadable, *map(str, broken)):
        say(f"note: {text}")


@reassign.command("cancel")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    type=TopicPartitions(),
    metavar="T[:P,P...]",
    help="Only these moves; may be repeated.  [default: all that run]",
)
@_file_option("Where they were: the rollback file of the execution.", required=False)
@consent_options
def cancel_(
    topics: Sequence[tuple[str, tuple[int, ...]]], file: IO[str] | None, execute: bool, yes: bool
) -> None:
    """Send running moves back to where they came from. Only a controller of zkgroup looks at a changed
    request; elsewhere it is refused with the reason.
    """
    out = output()
    former = parse_reassignment(file.name, file_text(file)) if file else ()
    act, rollback = None, None
    with connected() as ensemble:
        plan = plan_cancel(ensemble, _chosen(ensemble, topics), former)
        count = counted(len(plan.rows), "move")
        if is_wanted(execute, yes, f"Cancel {count}?", lambda aside: reassign_tables.cancelled(aside, plan)):
            rollback = saved_rollback(_stamp(ensemble), plan.before.targets)
            told = words_back(rollback)
            act = saved_act(ensemble, told, [])
            say(told)
            cancel(ensemble, plan)
    document = reassign_documents.cancellation(
        plan,
        executed=act is not None,
        undo=act.undo_id if act else None,
        rollback_file=str(rollback) if rollback else None,
    )
    if not out.document(document, "partitions", reassign_tables.CANCEL_KEYS):
        reassign_tables.cancelled(out, plan, executed=act is not None)


def _rollback(plan: ReassignmentPlan) -> tuple[Path, str]:
    """The rollback file, written, and the words that tell how to use it."""
    file = saved_rollback(str(plan.as_of.time_ms), plan.rollback)
    return file, words_back(file)


def _stamp(ensemble: Ensemble) -> str:
    return str(ensemble.clock.wall_ms())


def _wait(ensemble: Ensemble, plan: ReassignmentPlan, longest_s: float) -> str:
    """Waits for the end, and removes the throttle where all came to it. The worst status of a move."""
    wanted = [Move(row.topic_partition, row.after) for row in plan.effective]
    with reassign_tables.progress() as show:
        _, rows = wait_for_moves(ensemble, wanted, longest_s, show)
    status = _worst(rows)
    if plan.throttle is not None and _is_over(ensemble, rows):
        throttled = read_throttles(ensemble, [move.topic_partition.topic for move in wanted])
        written = clear_throttles(ensemble, throttled)
        say(f"the throttle is removed: {counted(written, 'configuration')} written")
    return status


def _is_over(ensemble: Ensemble, rows: Sequence[MoveStatus]) -> bool:
    """Whether no move needs the throttle any more: done; or cancelled or dropped, and nothing else moves."""
    found = {row.status for row in rows}
    return found <= {DONE} or (found <= {DONE, FAILED} and not list_moves(ensemble)[1])


def _worst(rows: Sequence[MoveStatus]) -> str:
    found = {row.status for row in rows}
    return IN_PROGRESS if IN_PROGRESS in found else DONE if found <= {DONE} else FAILED


def _clear(ensemble: Ensemble, moves: Sequence[Move], *, is_over: bool, execute: bool, yes: bool) -> None:
    throttled = read_throttles(ensemble, [move.topic_partition.topic for move in moves])
    if not throttled:
        say("nothing is throttled")
        return
    whose = [("broker", map(str, throttled.brokers)), ("topic", throttled.topics)]
    named = [
        f"{kind}{'s' if len(names) > 1 else ''} {', '.join(names)}"
        for kind, each in whose
        if (names := list(each))
    ]
    what = f"the throttle of {' and '.join(named)}"
    if not is_over:
        say(f"{what} stays: not every move is done")
        return
    if is_wanted(execute, yes, f"Remove {what}?", lambda aside: aside.line(f"would remove {what}")):
        clear_throttles(ensemble, throttled)
        say(f"removed {what}")


def _chosen(ensemble: Ensemble, topics: Sequence[tuple[str, tuple[int, ...]]]) -> list[TopicPartition]:
    """The partitions named; a topic alone means all of it that is being moved."""
    if not topics:
        return []
    _, rows, _ = list_moves(ensemble)
    chosen = []
    for name, parts in topics:
        mine = [row.topic_partition for row in rows if row.topic_partition.topic == name]
        if not parts and not mine:
            raise NotFoundError(
                f"nothing of topic {name!r} is being moved; `zkgroup reassign list` shows what is"
            )
        chosen += [TopicPartition(name, number) for number in parts] or mine
    return chosen
