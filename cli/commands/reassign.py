"""`zkgroup reassign`: generate, execute, verify, list, cancel, and the throttle of the moves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import IO, Any

import click

from zkgroup.admin import Compat, NotifyFormat, Reassignment
from zkgroup.admin.change import AdminChange, ChangeResult, PlanT, default_undo_folder
from zkgroup.admin.files import parse_reassignment, parse_topics, reassignment_text
from zkgroup.admin.reassign.cancellation import (
    Execution,
    Removal,
    cancel_reassignments_change,
    plan_cancel,
    remove_unreadable_request_change,
)
from zkgroup.admin.reassign.execution import ReassignmentOutcome, clear_throttles_change, reassign_change
from zkgroup.admin.reassign.progress import (
    DONE,
    ReassignmentProgress,
    ReassignmentStatus,
    moving_partitions,
    verify_reassignments,
    wait_for_reassignments,
)
from zkgroup.admin.reassign.proposals import propose
from zkgroup.admin.reassign.sizes import list_with_sizes, telling_bytes, with_bytes_left
from zkgroup.admin.reassign.stored_plans import list_plans
from zkgroup.admin.reassign.submission import plan_reassignment
from zkgroup.admin.undo import executions
from zkgroup.errors import ConfigError, RefusedError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model.text import counted

from .. import reassignments
from ..app import check_read, fail_check, output, shared
from ..app import group as make_group
from ..confirm import command_text, print_result, run_change
from ..context import connected, target
from ..param_types import SIZE, SOME_TIME, TEXT_FILE, Parsed, named_text
from ..params import (
    Consent,
    broker_options,
    compat_option,
    confirm_options,
    disable_racks_option,
    force_option,
    topics_option,
    wait_options,
)
from ..render import Output, echo_err
from ..units import is_whole
from ..watching import watch_option
from .config import notify_option

reassign = make_group(
    "reassign",
    lazy={
        "plan": (".commands.plan:reassign_plan", ""),
    },
    help="""Move replicas between brokers, with Kafka's files.

    \b
    Example:
      zkgroup reassign execute --reassignment-json-file moves.json --execute --wait""",
)


def _file_option(what: str, *, required: bool = True) -> Callable[..., Any]:
    return click.option(
        "--reassignment-json-file",
        "file",
        type=TEXT_FILE,
        required=required,
        help=what,
    )


def _broker_ids(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(map(is_whole, parts)):
        raise ValueError(f"{text!r}: expected broker ids such as 1,2,3")
    return tuple(map(int, parts))


@reassign.command()
@click.option(
    "--topics-to-move-json-file",
    "file",
    type=TEXT_FILE,
    required=True,
    help='The topics: {"topics":[{"topic":"orders"}],"version":1}.',
)
@click.option(
    "--broker-list",
    "brokers",
    type=Parsed("id[,id...]", _broker_ids),
    required=True,
    metavar="ID[,ID...]",
    help="The brokers to move them to.",
)
@compat_option("Which release proposes: 0.8 takes the brokers in the order given and knows no racks.")
@disable_racks_option
def generate(
    file: IO[str], brokers: tuple[int, ...], assignment_compat: Compat, disable_rack_aware: bool
) -> None:
    """Propose new replica lists, as Kafka's tool. Changes nothing.

    Whole topics are distributed anew over the brokers, which moves nearly everything; `zkgroup plan` moves
    only what must.

    \b
    Example:
      zkgroup reassign generate --topics-to-move-json-file topics.json --broker-list 1,2,3
    """
    out = output()
    topics = parse_topics(*named_text(file))
    with connected() as ensemble:
        found = propose(
            ensemble,
            topics,
            brokers,
            compat=assignment_compat,
            rack_mode="disabled" if disable_rack_aware else "enforced",
        )
    if not reassignments.PROPOSAL.print(out, found.as_of, found):
        out.line("Current partition replica assignment")
        out.line(reassignment_text(found.before))
        out.line()
        out.line("Proposed partition reassignment configuration")
        out.line(reassignment_text(found.after))
    for note in (*found.notes, f"{counted(found.moves, 'replica')} would be copied"):
        echo_err(f"note: {note}")


@reassign.command()
@_file_option("The reassignment, in the form of Kafka's files.")
@click.option(
    "--throttle",
    type=SIZE,
    metavar="SIZE",
    help="Copy at most so much a second at each broker, for example 50MB.",
)
@force_option("Also to brokers that are not registered now.")
@notify_option
@wait_options("every move has ended; then the throttle is removed")
@confirm_options
@broker_options
def execute(
    file: IO[str],
    throttle: int | None,
    force: bool,
    notify_format: NotifyFormat | None,
    wait_s: float | None,
    consent: Consent,
) -> None:
    """Submit a reassignment to the controller; refused while one runs.

    The rollback file is written first.

    \b
    Example:
      zkgroup reassign execute --reassignment-json-file moves.json --throttle 50MB --execute --wait
    """
    moves = parse_reassignment(*named_text(file))
    clear = None if throttle is None else clear_throttle_command(file.name)
    with connected() as ensemble:
        plan = plan_reassignment(ensemble, moves, throttle=throttle, force=force, format=notify_format)
        result = _run(
            lambda progress: reassign_change(
                ensemble, plan, telling_bytes(ensemble, plan.request.moves, progress)
            ),
            reassignments.reassigned,
            wait_s,
            clear,
            consent,
        )
    if result.executed and wait_s is None and clear is not None:
        echo_err(f"when it is done, remove the throttle: {clear}")
    print_result(reassignments.REASSIGNMENT, result, reassignments.reassigned)
    _check_done(result.outcome, "not every move is done")


@reassign.command()
@_file_option("The reassignment that was asked for.", required=False)
@click.option(
    "--clear-throttle",
    is_flag=True,
    help="Remove throttles once nothing moves, with --execute; without a file all throttles.",
)
@wait_options("no move is under way")
@confirm_options
@broker_options
def verify(file: IO[str] | None, clear_throttle: bool, wait_s: float | None, consent: Consent) -> None:
    """Check whether the reassignment of a file is done.

    Exit code 0 when every partition has its replicas, else 3. Reads only: a throttle stays as it is without
    --clear-throttle.

    \b
    Example:
      zkgroup reassign verify --reassignment-json-file moves.json --wait
    """
    if consent.execute and not clear_throttle:
        raise click.UsageError("--execute is for --clear-throttle: verify changes nothing else")
    out = output()
    if file is None:
        if not clear_throttle or wait_s is not None:
            raise click.UsageError("--reassignment-json-file is needed, but for --clear-throttle alone")
        _verify_none(out, consent)
        return
    moves = parse_reassignment(*named_text(file))
    with connected() as ensemble:
        if wait_s is None:
            as_of, rows = verify_reassignments(ensemble, moves)
        else:
            with reassignments.progress() as show:
                tell = telling_bytes(ensemble, moves, show)
                as_of, rows = wait_for_reassignments(ensemble, moves, wait_s, tell)
        rows = with_bytes_left(ensemble, rows)
        all_done = all(row.status == DONE for row in rows)
        if clear_throttle:
            topics = {move.topic_partition.topic for move in moves}
            _clear_throttles(ensemble, topics, rows, consent)
    if not reassignments.REASSIGNMENTS.print(out, as_of, reassignments=rows, plans=None, unreadable=None):
        reassignments.moves(out, rows)
    if not all_done:
        fail_check()


def _verify_none(out: Output, consent: Consent) -> None:
    """`--clear-throttle` without a file: no move is checked."""
    with connected() as ensemble:
        all_gone = _clear_throttles(ensemble, None, None, consent)
        as_of = ensemble.as_of()
    reassignments.REASSIGNMENTS.print(out, as_of, reassignments=(), plans=None, unreadable=None)
    if not all_gone:
        fail_check()


@reassign.command("list")
@click.option(
    "--window",
    type=SOME_TIME,
    metavar="DURATION",
    help="Read twice, so far apart, and say how long each move will take at its rate.",
)
@watch_option
@broker_options
def list_(window: int | None) -> None:
    """List the moves under way and the stored plans.

    Moves requested through the brokers' own API are listed too. FROM are the replicas before the move; of a
    move that has begun their order may have been another one. LEFT is what is still to be copied, where
    brokers say how large their replicas are: those of zkgroup, and Kafka's from 1.0 on.

    \b
    Example:
      zkgroup reassign list
    """
    out = output()
    with connected() as ensemble:
        as_of, rows, unreadable = list_with_sizes(ensemble, window)
        plans, broken = list_plans(ensemble)
    unreadable = (*unreadable, *broken)
    if not reassignments.REASSIGNMENTS.print(
        out, as_of, reassignments=rows, plans=plans, unreadable=unreadable
    ):
        if rows:
            reassignments.moves(out, rows)
        elif not unreadable:
            out.line("nothing is being moved")
        if plans:
            out.line()
            reassignments.STORED_PLAN.table(out, plans)
    if any(error.path == Reassignment.path() for error in unreadable):
        echo_err(f"show how to remove the request that cannot be read: {command_text('reassign', 'cancel')}")
    check_read("listed", unreadable)


@reassign.command("cancel")
@topics_option("Only these moves; may be repeated.  [default: all that run]")
@click.option(
    "--reassignment-json-file",
    "file",
    type=TEXT_FILE,
    help="Where they were: the rollback file of the execution.  [default: the newest one here that fits]",
)
@wait_options("the cancelled moves have ended; then a throttle is removed if nothing else moves")
@confirm_options
def cancel_(
    topics: Sequence[tuple[str, tuple[int, ...]]],
    file: IO[str] | None,
    wait_s: float | None,
    consent: Consent,
) -> None:
    """Cancel running moves: each replica list becomes what it was.

    Only a zkgroup controller reads a changed request; elsewhere it is refused with the reason. A request that
    cannot be read is removed.

    \b
    Example:
      zkgroup reassign cancel --topic orders:3 --execute --wait
    """
    former = parse_reassignment(*named_text(file)) if file else ()
    with connected() as ensemble:
        if (removal := remove_unreadable_request_change(ensemble)) is not None:
            _remove_request(removal, consent, some=bool(topics))
            return
        plan = plan_cancel(ensemble, moving_partitions(ensemble, topics), former, _executions())
        clear = clear_throttle_command() if plan.throttled else None
        result = _run(
            lambda progress: cancel_reassignments_change(ensemble, plan, progress),
            reassignments.cancelled,
            wait_s,
            clear,
            consent,
        )
    if result.executed and wait_s is None and clear is not None:
        echo_err(f"the throttle stays; once nothing moves, remove it: {clear}")
    print_result(reassignments.CANCELLATION, result, reassignments.cancelled)
    _check_done(result.outcome, "not every move is back")


def _check_done(outcome: ReassignmentOutcome | None, text: str) -> None:
    """Ends the command where a wait has ended before the moves."""
    if outcome is not None and outcome.status != DONE:
        echo_err(f"{text}: {command_text('reassign', 'list')}")
        fail_check()


def _remove_request(change: AdminChange[Removal, None, None], consent: Consent, *, some: bool) -> None:
    """Shows a request that cannot be read, and with confirmation removes it, its bytes saved first."""
    if some:
        raise RefusedError(
            f"{change.plan.error}: which moves it asks for is not known; without --topic it is removed"
        )
    result = run_change(change, reassignments.removed, consent)
    print_result(reassignments.CANCELLATION, result, reassignments.removed)


def _executions() -> Iterator[Execution]:
    """Reassignments of this ensemble that were executed from here, the latest first."""
    try:
        yield from executions(default_undo_folder(), target(shared()).zookeeper)
    except ConfigError as error:
        echo_err(f"note: earlier executions are not read: {error}")


def clear_throttle_command(file: str | None = None) -> str:
    """The command that removes throttles once nothing moves: of the topics in a file, or all.

    What was read from the standard input cannot be named again.
    """
    named = () if file is None or file in ("-", "<stdin>") else ("--reassignment-json-file", file)
    return command_text("reassign", "verify", *named, "--clear-throttle", "--execute")


def _run(
    change_of: Callable[
        [Callable[[ReassignmentProgress], object]], AdminChange[PlanT, None, ReassignmentOutcome]
    ],
    show: Callable[[Output, ChangeResult[PlanT, None, ReassignmentOutcome]], object],
    wait_s: float | None,
    clear: str | None,
    consent: Consent,
) -> ChangeResult[PlanT, None, ReassignmentOutcome]:
    """Runs a change of moves, and waits for their end where `--wait` asks for it.

    `clear` is the command that removes their throttle, None where they have none. However else than by its
    removal the wait ends, by an interruption too, the command is printed.
    """
    stays, outcome = False, None
    try:
        with reassignments.progress() as progress:
            change = change_of(progress)
            result = run_change(change, show, consent)
            if result.executed and wait_s is not None and change.wait is not None:
                stays = clear is not None
                outcome = change.wait(None, wait_s)
        if outcome is not None and outcome.throttles_removed is not None:
            stays = False
            echo_err(
                f"the throttle is removed: {counted(outcome.throttles_removed, 'configuration')} written"
            )
    finally:
        if stays:
            echo_err(f"the throttle stays; once nothing moves, remove it: {clear}")
    return replace(result, outcome=outcome)


def _clear_throttles(
    ensemble: Ensemble,
    topics: Collection[str] | None,
    rows: Sequence[ReassignmentStatus] | None,
    consent: Consent,
) -> bool:
    """Removes throttles after confirmation; whether none has to stay, which is reported with the reason."""
    try:
        change = clear_throttles_change(ensemble, topics, rows)
    except RefusedError as error:
        echo_err(str(error))
        return False
    if not change.is_effective:
        echo_err("nothing is throttled")
        return True
    what = f"the throttle of {change.plan.named}"
    if not consent.execute:
        echo_err(f"would remove {what}")
    if run_change(change, lambda stderr, _: stderr.line(f"would remove {what}"), consent).executed:
        echo_err(f"removed {what}")
    return True
