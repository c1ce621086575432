"""`zkgroup plan`: decommission, replace, set-rf, balance; and plans stored in ZooKeeper.

A plan is files for `reassign execute`, or is stored in ZooKeeper and carried out phase by phase.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from zkgroup.admin import PlanViolation
from zkgroup.admin.change import AdminChange, ChangeResult
from zkgroup.admin.cluster.controller import check_throttle, read_controller_info
from zkgroup.admin.files import parse_topic_rows, reassignment_text
from zkgroup.admin.reassign.proposals import (
    PhasedPlan,
    Planner,
    PlanRequest,
    for_topics,
    make_plan,
    planner_balance,
    planner_decommission,
    planner_replace,
    planner_set_rf,
)
from zkgroup.admin.reassign.stored_plans import (
    FAILED,
    FINISHED,
    PlanDescription,
    cancel_plan_change,
    list_plans,
    pause_plan_change,
    resume_plan_change,
    save_plan_change,
    start_plan_change,
)
from zkgroup.errors import ConfigError, PlanRefusedError, RefusedError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model.text import counted

from .. import reassignments
from ..app import Group, check_read, fail_check, output
from ..app import group as make_group
from ..confirm import command_text, echo_notes, run_at_once, run_change, undo_recorder
from ..context import connected
from ..param_types import SIZE, TEXT_FILE, Parsed, named_text
from ..params import Consent, confirm_options, disable_racks_option, wait_options
from ..render import Output, echo_err
from ..units import is_whole

plan = make_group(
    "plan",
    help="""Plan moves of replicas: decommission, replace, balance.

    A plan moves what must move and nothing else, with the reason for each move.

    A plan is written to files (--output) or stored in ZooKeeper, where it outlives this command: --save
    stores it, --execute also starts it. A zkgroup controller then submits one phase after the other. Beside
    a Kafka controller, `plan resume ID --execute --wait` submits them, as long as it runs.

    Exit code 4 where a topic cannot be read and so is in no plan.

    \b
    Example:
      zkgroup plan decommission 3 --throttle 50MB --execute --wait --timeout 12h""",
)


@click.group("plan", cls=Group, invoke_without_command=True, no_args_is_help=True, hidden=True)
@click.option("--resume", metavar="ID", help="Same as `zkgroup plan resume ID`.")
@click.option("--pause", metavar="ID", help="Same as `zkgroup plan pause ID`.")
@click.option("--cancel", metavar="ID", help="Same as `zkgroup plan cancel ID`.")
@wait_options("the plan has ended; with --resume")
@confirm_options
@click.pass_context
def reassign_plan(
    ctx: click.Context,
    resume: str | None,
    pause: str | None,
    cancel: str | None,
    wait_s: float | None,
    consent: Consent,
) -> None:
    """The old spelling of `zkgroup plan`.

    Its commands are the same ones. --resume, --pause and --cancel are `plan resume`, `plan pause` and `plan
    cancel`.

    \b
    Example:
      zkgroup plan decommission 3 --execute
    """
    named = {"resume": resume, "pause": pause, "cancel": cancel}
    chosen = {verb: name for verb, name in named.items() if name is not None}
    if ctx.invoked_subcommand is not None:
        if chosen or wait_s is not None or consent.execute:
            raise click.UsageError(
                "--resume, --pause and --cancel are for a stored plan; "
                f"options of a new one stand after {ctx.invoked_subcommand!r}"
            )
        return
    if len(chosen) != 1:
        raise click.UsageError("give a kind of plan, or one of --resume, --pause and --cancel")
    ((verb, name),) = chosen.items()
    if verb == "resume":
        _resume(name, wait_s, consent)
    elif wait_s is not None:
        raise click.UsageError("--wait is for --resume")
    else:
        _stop(verb, name, consent)


_LOSSES = ("factor", "racks", "balance", "source")


def _plan_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        disable_racks_option,
        click.option(
            "--allow",
            multiple=True,
            type=click.Choice(_LOSSES),
            help="What may get worse: fewer replicas, fewer racks, less even loads, no live source.",
        ),
        click.option(
            "--sizes-file",
            "sizes",
            type=TEXT_FILE,
            help="TOPIC,PARTITION,BYTES on each line: even out bytes instead of replicas.",
        ),
        click.option(
            "--max-moves",
            type=click.IntRange(1),
            metavar="N",
            help="At most N copies at a time: splits the plan into requests that run one after the other.",
        ),
        click.option(
            "--output",
            "target",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Write the plan as Kafka's file; several requests go to FILE.1, FILE.2, ...",
        ),
        click.option("--save", is_flag=True, help="Store the plan in ZooKeeper; `plan resume` starts it."),
        click.option(
            "--throttle",
            type=SIZE,
            metavar="SIZE",
            help="Copy at most so much a second at each broker, for example 50MB; for a stored plan.",
        ),
        click.option(
            "--topic",
            "topics",
            multiple=True,
            metavar="T",
            help="Only replicas of this topic move; may be repeated.  [default: all topics]",
        ),
        wait_options("the plan has ended; with --execute"),
        confirm_options,
    ):
        function = option(function)
    return function


def _pair(text: str) -> tuple[int, int]:
    old, _, new = text.partition("=")
    if not (is_whole(old) and is_whole(new)):
        raise ValueError(f"{text!r}: expected OLD=NEW, for example 3=7")
    return int(old), int(new)


@plan.command()
@click.argument("brokers", metavar="BROKER...", nargs=-1, required=True, type=click.IntRange(0))
@_plan_options
def decommission(brokers: tuple[int, ...], topics: tuple[str, ...], **how: Any) -> None:
    """Move every replica off BROKER, registered or gone.

    The other brokers get them as evenly as possible.

    \b
    Example:
      zkgroup plan decommission 3 --throttle 50MB --execute --wait --timeout 12h
    """
    _make(for_topics(planner_decommission(brokers), topics), topics=topics, **how)


@plan.command()
@click.argument("pairs", metavar="OLD=NEW...", nargs=-1, required=True, type=Parsed("old=new", _pair))
@_plan_options
def replace(pairs: tuple[tuple[int, int], ...], topics: tuple[str, ...], **how: Any) -> None:
    """Put broker NEW in the place of OLD in every replica list.

    NEW gets the position of OLD, so preferred leaders follow.

    \b
    Example:
      zkgroup plan replace 3=7 --output plan.json
    """
    if len(dict(pairs)) < len(pairs):
        raise click.UsageError("a broker is named twice on the left side")
    _make(for_topics(planner_replace(dict(pairs)), topics), topics=topics, **how)


@plan.command("set-rf")
@click.argument("factor", metavar="N", type=click.IntRange(1))
@_plan_options
def set_rf(factor: int, topics: tuple[str, ...], **how: Any) -> None:
    """Give every partition N replicas.

    \b
    Example:
      zkgroup plan set-rf 3 --topic orders --execute
    """
    _make(planner_set_rf(factor, topics or None), topics=topics, **how)


@plan.command()
@click.option("--leaders-only", is_flag=True, help="Change the order of replicas only: nothing is copied.")
@click.option(
    "--tolerance",
    type=click.FloatRange(0),
    metavar="FRACTION",
    help="With --sizes-file: distance from the mean load that is left alone.",
)
@_plan_options
def balance(leaders_only: bool, tolerance: float | None, topics: tuple[str, ...], **how: Any) -> None:
    """Even out replicas and preferred leaders with the fewest copies.

    \b
    Example:
      zkgroup plan balance --max-moves 20 --execute --wait --timeout 12h
    """
    planner = planner_balance(leaders_only=leaders_only, tolerance=tolerance)
    _make(for_topics(planner, topics), topics=topics, **how)


@plan.command("list")
def list_() -> None:
    """List the plans stored in ZooKeeper, the oldest first.

    \b
    Example:
      zkgroup plan list
    """
    out = output()
    with connected() as ensemble:
        plans, unreadable = list_plans(ensemble)
        as_of = ensemble.as_of()
    if not reassignments.PLANS.print(out, as_of, plans=plans, unreadable=unreadable):
        if plans:
            reassignments.STORED_PLAN.table(out, plans)
        elif not unreadable:
            out.line("no plan is stored")
    check_read("listed", unreadable)


@plan.command()
@click.argument("plan_id", metavar="ID")
@wait_options("the plan has ended")
@confirm_options
def resume(plan_id: str, wait_s: float | None, consent: Consent) -> None:
    """Start or continue a stored plan.

    \b
    Example:
      zkgroup plan resume 20260131-120000-1a2b --execute --wait --timeout 12h
    """
    _resume(plan_id, wait_s, consent)


@plan.command()
@click.argument("plan_id", metavar="ID")
@confirm_options
def pause(plan_id: str, consent: Consent) -> None:
    """Submit no further phase of a plan until it is resumed.

    Moves that are under way continue.

    \b
    Example:
      zkgroup plan pause 20260131-120000-1a2b --execute
    """
    _stop("pause", plan_id, consent)


@plan.command()
@click.argument("plan_id", metavar="ID")
@confirm_options
def cancel(plan_id: str, consent: Consent) -> None:
    """End a plan for good: no further phase is submitted.

    Moves that are under way continue; `reassign cancel` sends them back.

    \b
    Example:
      zkgroup plan cancel 20260131-120000-1a2b --execute
    """
    _stop("cancel", plan_id, consent)


for _command in (decommission, replace, set_rf, balance):
    reassign_plan.add_command(_command)


def _make(
    planner: Planner,
    *,
    topics: Sequence[str],
    disable_rack_aware: bool,
    allow: Sequence[PlanViolation],
    sizes: IO[str] | None,
    max_moves: int | None,
    target: Path | None,
    save: bool,
    throttle: int | None,
    wait_s: float | None,
    consent: Consent,
) -> None:
    out, execute = output(), consent.execute
    dry_run = click.get_current_context().params["dry_run"]
    if save and not dry_run and wait_s is not None and not execute:
        raise click.UsageError("--save alone begins nothing that could be waited for: add --execute")
    request = PlanRequest(
        topics=topics,
        rack_mode="disabled" if disable_rack_aware else "enforced",
        allow=tuple(allow),
        sizes=parse_topic_rows(*named_text(sizes), "BYTES") if sizes else None,
        sizes_file=sizes.name if sizes else "sizes",
        max_moves=max_moves,
    )
    stored: PlanDescription | None = None
    rollback = None
    with connected() as ensemble, _told() as told:
        found = _planned(ensemble, planner, request)
        for note in found.notes:
            echo_err(f"note: {note}")
        save = save and not execute
        for_files = target is not None and not save and not execute
        change = _storing(ensemble, found, throttle, told, save=save, for_files=for_files)
        files = _write(found, target) if target else []  # before anything begins: it can fail
        if change is not None and save:
            stored = run_at_once(change, dry_run=dry_run).written
        elif change is not None:
            stored, rollback = _start(change, wait_s, consent)
    shown = reassignments.ShownPhases(found, files, execute and stored is not None, rollback, stored)
    if not reassignments.PLAN.print(out, found.as_of, shown):
        reassignments.phased(out, found, files)
        if stored:
            out.line()
            reassignments.STORED_PLAN.table(out, [stored])
    if stored is not None:
        if not execute:
            echo_err(f"start it: {resume_command(stored.plan)}")
        echo_next_step(stored, waited=wait_s is not None)
    elif found.plan.changes:
        _echo_how_to_execute(files, throttle)
    check_read("checked", found.unreadable)


def _planned(ensemble: Ensemble, planner: Planner, request: PlanRequest) -> PhasedPlan:
    """The plan; its refusal says which options would accept it."""
    try:
        return make_plan(ensemble, planner, request)
    except PlanRefusedError as error:
        if not error.losses:
            raise
        options = " ".join(f"--allow {loss}" for loss in error.losses)
        raise RefusedError(f"{error}; `{options}` accepts that") from error


def _storing(
    ensemble: Ensemble,
    found: PhasedPlan,
    throttle: int | None,
    told: Mapping[str, Callable[[Any], object]],
    *,
    save: bool,
    for_files: bool,
) -> AdminChange[PhasedPlan, PlanDescription, Any] | None:
    """The change that stores the plan, and starts it unless `save`; a preview makes it too, to be refused.

    None where nothing changes, and for files alone: of these only the throttle can be refused.
    """
    if not found.plan.changes:
        return None
    if for_files:
        note = None if throttle is None else check_throttle(read_controller_info(ensemble))
        if note is not None:
            echo_err(f"note: {note}")
        return None
    if save:
        return save_plan_change(ensemble, found, user=undo_recorder().user, throttle=throttle)
    return start_plan_change(ensemble, found, user=undo_recorder().user, throttle=throttle, **told)


def _start(
    change: AdminChange[PhasedPlan, PlanDescription, Any],
    wait_s: float | None,
    consent: Consent,
) -> tuple[PlanDescription | None, str | None]:
    """With consent stores and starts the plan: then there is a rollback file."""
    if not consent.execute:
        echo_notes(change)
        return None, None
    result = run_change(change, _show_phases, consent, wait_s or 0.0)
    return result.outcome, result.rollback_file


def _show_phases(out: Output, result: ChangeResult[PhasedPlan, Any, Any]) -> None:
    reassignments.phased(out, result.plan, [])


def _echo_how_to_execute(files: Sequence[str], throttle: int | None) -> None:
    """Prints the commands for the files of a plan that was only shown. The files hold no throttle."""
    if not files:
        echo_err("nothing was written: --output FILE writes what `zkgroup reassign execute` takes,")
        echo_err("--save stores the plan in ZooKeeper, --execute also starts it")
        return
    file = files[0] if len(files) == 1 else "FILE"
    slow = () if throttle is None else ("--throttle", f"{throttle}B")
    words = command_text(
        "reassign", "execute", "--reassignment-json-file", file, *slow, "--wait", "--execute"
    )
    echo_err(f"execute it: {words}" if len(files) == 1 else f"execute one after the other: {words}")


def _write(found: PhasedPlan, target: Path) -> list[str]:
    """One file a request. Raises ConfigError."""
    requests = [{one.topic_partition: one.after for one in phase.changes} for phase in found.phases]
    many = len(requests) > 1
    files = []
    for number, request in enumerate(requests, 1):
        file = target.with_name(f"{target.name}.{number}") if many else target
        try:
            file.write_text(reassignment_text(request) + "\n", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{file}: the plan cannot be written: {error.strerror}") from error
        files.append(str(file))
    return files


def _resume(plan_id: str, wait_s: float | None, consent: Consent) -> None:
    """Shows the plan; with confirmation lets it run and runs it."""
    out = output()
    with connected() as ensemble, _told() as told:
        change = resume_plan_change(ensemble, plan_id, **told)
        result = run_change(change, _show_change, consent, wait_s)
        one = result.outcome or result.written or change.plan
    shown = reassignments.ShownPlan(result.executed, one)
    if not reassignments.STORED_PLAN_DOCUMENT.print(out, one.as_of, shown):
        reassignments.STORED_PLAN.table(out, [one])
    echo_next_step(one, waited=result.executed and wait_s is not None)


def _show_change(out: Output, result: ChangeResult[PlanDescription, Any, Any]) -> None:
    reassignments.STORED_PLAN.table(out, [result.plan])


_STOPS = {"pause": pause_plan_change, "cancel": cancel_plan_change}


def _stop(verb: str, plan_id: str, consent: Consent) -> None:
    """Pauses or cancels the plan: no further phase is submitted."""
    out, is_zkgroup = output(), False
    with connected() as ensemble:
        change = _STOPS[verb](ensemble, plan_id)
        result = run_change(change, _show_change, consent)
        one = change.plan if result.written is None else result.written
        if result.executed:
            is_zkgroup = read_controller_info(ensemble).is_zkgroup
    shown = reassignments.ShownPlan(result.executed, one)
    if not reassignments.STORED_PLAN_DOCUMENT.print(out, one.as_of, shown):
        reassignments.STORED_PLAN.table(out, [one])
    if result.executed:
        echo_err(f"moves under way continue: {command_text('reassign', 'list')}")
    if result.executed and verb == "cancel" and one.stored.throttle is not None and not is_zkgroup:
        words = command_text("reassign", "verify", "--reassignment-json-file", "FILE", "--clear-throttle")
        echo_err(f"its throttle stays until it is removed: {words} --execute")


@contextmanager
def _told() -> Iterator[Mapping[str, Callable[[Any], object]]]:
    """Shows the progress of a plan that runs, and says at its end that the throttle is removed."""
    removed: list[int] = []
    try:
        with reassignments.progress() as progress:
            yield {"progress": progress, "throttle_removed": removed.append}
    finally:
        for written in removed:
            echo_err(f"the throttle is removed: {counted(written, 'configuration')} written")


def echo_next_step(one: PlanDescription, *, waited: bool) -> None:
    """Ends the command where a plan has not come to its end, with the next step."""
    if one.stored.state == FAILED:
        echo_err(f"plan {one.plan} has failed: {one.stored.reason}")
        echo_err(f"once that is fixed: {resume_command(one.plan)}")
        fail_check()
    if waited and one.stored.state != FINISHED:
        echo_err(f"plan {one.plan} can be resumed later: {resume_command(one.plan)}")
        fail_check()


def resume_command(name: str) -> str:
    """The command that carries a plan on."""
    return command_text("plan", "resume", name, "--execute", "--wait", "--timeout", "12h")
