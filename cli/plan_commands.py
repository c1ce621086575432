"""`zkgroup reassign plan`: decommission, replace, set-rf, balance; and plans that outlive the tool.

A plan is files for `reassign execute`, or is kept in ZooKeeper and carried out phase by phase.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import click

from zkgroup.admin.ensemble import Ensemble
from zkgroup.admin.kafka_files import reassignment_text
from zkgroup.admin.moving_plans import (
    PhasedPlan,
    Planner,
    Wish,
    make_plan,
    planner_balance,
    planner_decommission,
    planner_replace,
    planner_set_rf,
)
from zkgroup.admin.stored_plans import PlanDescription, plan_storing, store
from zkgroup.admin.words import Loss
from zkgroup.errors import ConfigError, PartlyDoneError, PlanRefusedError, RefusedError
from zkgroup.model import TopicPartition

from . import reassign_documents, reassign_tables, stored_plans
from .connection import connected
from .consent import command_words, is_wanted, moves_back, new_act, recorded, saved_rollback
from .frame import Group, output
from .options import consent_options, disable_racks_option, wait_options, wait_s
from .output import say
from .parameters import Rate, file_text
from .units import is_whole


@click.group("plan", cls=Group, invoke_without_command=True, no_args_is_help=True)
@click.option("--resume", metavar="ID", help="Go on with a plan that is kept: see --save and --execute.")
@click.option("--pause", metavar="ID", help="Ask for no further phase of a plan until it is resumed.")
@click.option("--cancel", metavar="ID", help="Ask for no further phase of a plan, for good.")
@wait_options("the plan has ended; with --resume")
@consent_options
@click.pass_context
def plan(
    ctx: click.Context,
    resume: str | None,
    pause: str | None,
    cancel: str | None,
    wait: bool,
    timeout_ms: int | None,
    execute: bool,
    yes: bool,
) -> None:
    """Plan moves: what must move and nothing else, with the reason for each.

    Ends with 4 where a topic cannot be read, and so is in no plan.

    A plan is written to files (--output), or kept in ZooKeeper, where it outlives this command: --save keeps
    it, --execute also begins it. A controller of zkgroup then asks for one phase after the other; beside a
    real one --resume ID does, as long as it runs.
    """
    named = {"resume": resume, "pause": pause, "cancel": cancel}
    chosen = {act: name for act, name in named.items() if name is not None}
    if ctx.invoked_subcommand is not None:
        if chosen or wait or execute:
            raise click.UsageError(
                "--resume, --pause and --cancel are for a plan that is kept; "
                f"options of a new one stand after {ctx.invoked_subcommand!r}"
            )
        return
    if len(chosen) != 1:
        raise click.UsageError("give a kind of plan, or one of --resume, --pause and --cancel")
    longest = wait_s(wait, timeout_ms)
    ((act, name),) = chosen.items()
    if act == "resume":
        ctx.exit(stored_plans.resume(name, longest, execute=execute, yes=yes))
    if longest is not None:
        raise click.UsageError("--wait is for --resume")
    stored_plans.end(act, name, execute=execute, yes=yes)


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
            type=click.File("r", encoding="utf-8", lazy=True),
            help="TOPIC,PARTITION,BYTES on each line: even out bytes instead of replicas.",
        ),
        click.option(
            "--max-moves",
            type=click.IntRange(1),
            metavar="N",
            help="At most N copies at a time: cuts the plan into requests that run one after the other.",
        ),
        click.option(
            "--output",
            "target",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Write the plan as Kafka's file; several requests go to FILE.1, FILE.2, ...",
        ),
        click.option("--save", is_flag=True, help="Keep the plan in ZooKeeper; it begins with --resume."),
        click.option(
            "--throttle",
            type=Rate(),
            metavar="SIZE",
            help="Copy at most so much a second at each broker, for example 50MB; for a plan that is kept.",
        ),
        wait_options("the plan has ended; with --execute"),
        consent_options,
    ):
        function = option(function)
    return function


class Pair(click.ParamType[tuple[int, int]]):
    """`OLD=NEW`: two broker ids."""

    name = "old=new"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        old, _, new = value.partition("=")
        if not (is_whole(old) and is_whole(new)):
            self.fail(f"{value!r}: expected OLD=NEW, for example 3=7", param, ctx)
        return int(old), int(new)


@plan.command()
@click.argument("brokers", metavar="BROKER...", nargs=-1, required=True, type=click.IntRange(0))
@_plan_options
def decommission(brokers: tuple[int, ...], **how: Any) -> None:
    """Empty BROKER, registered or gone: its replicas go to the others, as evenly as they can."""
    _make(planner_decommission(brokers), **how)


@plan.command()
@click.argument("pairs", metavar="OLD=NEW...", nargs=-1, required=True, type=Pair())
@_plan_options
def replace(pairs: tuple[tuple[int, int], ...], **how: Any) -> None:
    """Put broker NEW in the place of OLD, at the same position in every replica list."""
    if len(dict(pairs)) < len(pairs):
        raise click.UsageError("a broker is named twice on the left side")
    _make(planner_replace(dict(pairs)), **how)


@plan.command("set-rf")
@click.argument("factor", metavar="N", type=click.IntRange(1))
@click.option("--topic", "topics", multiple=True, metavar="T", help="Only this topic; may be repeated.")
@_plan_options
def set_rf(factor: int, topics: tuple[str, ...], **how: Any) -> None:
    """Give every partition N replicas."""
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
def balance(leaders_only: bool, tolerance: float | None, **how: Any) -> None:
    """Even out replicas and preferred leaders with the fewest copies."""
    _make(planner_balance(leaders_only=leaders_only, tolerance=tolerance), **how)


def _make(
    planner: Planner,
    *,
    topics: Sequence[str] = (),
    disable_rack_aware: bool,
    allow: Sequence[Loss],
    sizes: IO[str] | None,
    max_moves: int | None,
    target: Path | None,
    save: bool,
    throttle: int | None,
    wait: bool,
    timeout_ms: int | None,
    execute: bool,
    yes: bool,
) -> None:
    ctx, out, longest = click.get_current_context(), output(), wait_s(wait, timeout_ms)
    save = save and not ctx.params["dry_run"]
    if save and longest is not None and not execute:
        raise click.UsageError("--save alone begins nothing that could be waited for: add --execute")
    wish = Wish(
        topics=topics,
        rack_mode="disabled" if disable_rack_aware else "enforced",
        allow=tuple(allow),
        sizes=_sizes(sizes.name, file_text(sizes)) if sizes else None,
        sizes_file=sizes.name if sizes else "sizes",
        max_moves=max_moves,
    )
    kept: PlanDescription | None = None
    rollback = None
    with connected() as ensemble:
        found = _planned(ensemble, planner, wish)
        for note in found.notes:
            say(f"note: {note}")
        files = _write(found, target) if target else []  # before anything begins: it can fail
        if found.plan.changes and (save or execute):
            kept, rollback = _keep(ensemble, found, throttle, longest, execute=execute, yes=yes)
    document = reassign_documents.plan(
        found, files, kept, executed=execute and kept is not None, rollback_file=rollback
    )
    if not out.document(document, "changes", reassign_tables.CHANGE_KEYS):
        reassign_tables.phased(out, found, files)
        if kept:
            out.line()
            stored_plans.show(out, [kept])
    if kept is not None:
        if not execute:
            say(f"begin it: {stored_plans.words_on(kept.plan)}")
        if code := stored_plans.ended(kept, waited=longest is not None):
            ctx.exit(code)
    elif found.plan.changes:
        if files:
            say(_how_to_execute(files, throttle))
        else:
            say("nothing was written: --output FILE writes what `zkgroup reassign execute` takes,")
            say("--save keeps the plan in ZooKeeper, --execute also begins it")
    if found.unreadable:
        raise PartlyDoneError(f"not looked at: {'; '.join(map(str, found.unreadable))}")


def _planned(ensemble: Ensemble, planner: Planner, wish: Wish) -> PhasedPlan:
    """The plan; its refusal says which options would accept it."""
    try:
        return make_plan(ensemble, planner, wish)
    except PlanRefusedError as error:
        if not error.losses:
            raise
        options = " ".join(f"--allow {loss}" for loss in error.losses)
        raise RefusedError(f"{error}; `{options}` accepts that") from error


def _keep(
    ensemble: Ensemble,
    found: PhasedPlan,
    throttle: int | None,
    longest_s: float | None,
    *,
    execute: bool,
    yes: bool,
) -> tuple[PlanDescription | None, Path | None]:
    """Keeps the plan in ZooKeeper; with `execute`, and consent, begins it: then there is a rollback file."""
    by = new_act()
    storing = plan_storing(ensemble, found, by=by.user, throttle=throttle, begin=execute)
    for note in storing.notes:
        say(f"note: {note}")
    if not execute:
        return store(ensemble, by.undo_id, storing), None
    question = f"Begin {found.plan.intent}?"
    if not is_wanted(execute, yes, question, lambda aside: reassign_tables.phased(aside, found, [])):
        return None, None
    before = {one.topic_partition: one.before for one in found.plan.changes}
    rollback = saved_rollback(str(found.as_of.time_ms), before)
    asked = {one.topic_partition: one.after for one in found.plan.changes}
    with recorded(ensemble, targets=asked, **moves_back(rollback)) as act:
        kept = store(ensemble, act.undo_id, storing)
    return stored_plans.carried(ensemble, kept, longest_s), rollback


def _how_to_execute(files: Sequence[str], throttle: int | None) -> str:
    """The command for the files; they hold no throttle."""
    file = files[0] if len(files) == 1 else "FILE"
    slow = () if throttle is None else ("--throttle", f"{throttle}B")
    words = command_words(
        "reassign", "execute", "--reassignment-json-file", file, *slow, "--wait", "--execute"
    )
    return f"carry it out: {words}" if len(files) == 1 else f"carry out one after the other: {words}"


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


def _sizes(where: str, text: str) -> Mapping[TopicPartition, int]:
    found = {}
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        if not row:
            continue
        if len(row) != 3 or not is_whole(row[1]) or not is_whole(row[2]):
            told = ",".join(row)
            raise ConfigError(f"{where}, line {number}: expected TOPIC,PARTITION,BYTES, found {told!r}")
        found[TopicPartition(row[0], int(row[1]))] = int(row[2])
    return found
