"""`zkgroup reassign`: generate, execute, verify, list; `cancel` and `plan` have modules of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Any

import click

from zkgroup.admin.kafka_files import parse_reassignment, parse_topics, reassignment_text
from zkgroup.admin.moving_plans import propose
from zkgroup.admin.reassigning import plan_reassignment, submit
from zkgroup.admin.reassignments import DONE, list_moves, verify_moves, wait_for_moves
from zkgroup.admin.stored_plans import list_plans
from zkgroup.admin.words import Compat, NotifyFormat, Reassignment
from zkgroup.errors import PartlyDoneError

from . import reassign_documents, reassign_tables, reassign_throttles
from .config_changes import notify_option
from .connection import connected
from .consent import (
    NO_WAY_BACK_OF_BROKERS,
    as_they_are,
    command_words,
    is_wanted,
    moves_back,
    recorded,
    saved_rollback,
)
from .frame import group as make_group
from .frame import output
from .options import consent_options, disable_racks_option, force_option, wait_options, wait_s
from .output import Output, say
from .parameters import Rate, file_text
from .units import counted, is_whole

reassign = make_group(
    "reassign",
    lazy={
        "plan": (".plan_commands:plan", "Plan moves: decommission, replace, set-rf, balance."),
        "cancel": (".reassign_cancel:cancel_", "Send running moves back to where they came from."),
    },
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
            before = as_they_are(*(config.znode for config in plan.configs))
            back: dict[str, Any] = {"way_back": NO_WAY_BACK_OF_BROKERS}
            if plan.rollback:
                rollback = saved_rollback(str(plan.as_of.time_ms), plan.rollback)
                back = moves_back(rollback)
            with recorded(ensemble, znodes=before, targets=plan.request.targets, **back) as act:
                submit(ensemble, plan)
            clear = None if throttle is None else reassign_throttles.words_to_clear(file.name)
            if longest is not None:
                status = reassign_throttles.awaited(ensemble, plan.request.moves, longest, clear)
            elif clear is not None:
                say(f"when it is done, remove the throttle: {clear}")
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
@_file_option("The reassignment that was asked for.", required=False)
@click.option(
    "--clear-throttle",
    is_flag=True,
    help="Remove throttles once nothing moves, with --execute; without a file every one there is.",
)
@wait_options("no move is under way")
@consent_options
@click.pass_context
def verify(
    ctx: click.Context,
    file: IO[str] | None,
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
    if file is None:
        if not clear_throttle or wait:
            raise click.UsageError("--reassignment-json-file is needed, but for --clear-throttle alone")
        ctx.exit(_verify_none(out, execute=execute, yes=yes))
    moves = parse_reassignment(file.name, file_text(file))
    with connected() as ensemble:
        if longest is None:
            as_of, rows = verify_moves(ensemble, moves)
        else:
            with reassign_tables.progress() as show:
                as_of, rows = wait_for_moves(ensemble, moves, longest, show)
        all_done = all(row.status == DONE for row in rows)
        if clear_throttle:
            over = reassign_throttles.is_over(ensemble, rows)
            reassign_throttles.cleared(ensemble, moves, is_over=over, execute=execute, yes=yes)
    if not out.document(
        reassign_documents.reassignments(as_of, rows), "reassignments", reassign_tables.MOVE_KEYS
    ):
        reassign_tables.moves(out, rows)
    ctx.exit(0 if all_done else EXIT_CHECK_FAILED)


def _verify_none(out: Output, *, execute: bool, yes: bool) -> int:
    """`--clear-throttle` without a file: no move is looked at. The exit code."""
    with connected() as ensemble:
        all_gone = reassign_throttles.all_cleared(ensemble, execute=execute, yes=yes)
        as_of = ensemble.as_of()
    out.document(reassign_documents.reassignments(as_of, ()), "reassignments", reassign_tables.MOVE_KEYS)
    return 0 if all_gone else EXIT_CHECK_FAILED


@reassign.command("list")
def list_() -> None:
    """Every move under way, those asked for through the brokers' own API too; and plans that are kept.

    FROM are the replicas before the move; of one that has begun their order may have been another one.
    """
    out = output()
    with connected() as ensemble:
        as_of, rows, unreadable = list_moves(ensemble)
        plans, broken = list_plans(ensemble)
    unreadable = (*unreadable, *broken)
    document = reassign_documents.reassignments(as_of, rows, plans, unreadable)
    if not out.document(document, "reassignments", reassign_tables.MOVE_KEYS):
        if rows:
            reassign_tables.moves(out, rows)
        elif not unreadable:
            out.line("nothing is being moved")
        if plans:
            out.line()
            reassign_tables.plans(out, plans)
    if unreadable:
        if any(error.path == Reassignment.path() for error in unreadable):
            say(f"show how to remove the request that cannot be read: {command_words('reassign', 'cancel')}")
        raise PartlyDoneError(f"not listed: {'; '.join(map(str, unreadable))}")
