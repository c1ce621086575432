"""`zkgroup reassign plan --resume|--pause|--cancel ID`: plans that are kept in ZooKeeper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zkgroup.admin.ensemble import Ensemble
from zkgroup.admin.plan_running import carry_on
from zkgroup.admin.ruling import read_ruling
from zkgroup.admin.stored_plans import (
    CANCELLED,
    FAILED,
    FINISHED,
    PAUSED,
    RUNNING,
    PlanDescription,
    begin,
    find_plan,
    prune,
    stop,
    take_throttles_off,
    who_goes_on,
)
from zkgroup.admin.words import PlanState

from . import reassign_documents, reassign_tables
from .connection import connected
from .consent import command_words, is_wanted, recorded, say_no_way_back
from .frame import output
from .output import Output, say
from .units import counted

EXIT_CHECK_FAILED = 3

_STOPS: Mapping[str, PlanState] = {"pause": PAUSED, "cancel": CANCELLED}


def resume(name: str, longest_s: float | None, *, execute: bool, yes: bool) -> int:
    """Shows the plan; with consent lets it run and carries it on. The exit code."""
    out = output()
    with connected() as ensemble:
        one = find_plan(ensemble, name)
        wanted = False
        if one.stored.state != FINISHED:
            told = who_goes_on(read_ruling(ensemble))
            if told:
                say(f"note: {told}")
            say_no_way_back("replicas that have moved stay; --pause stops the plan")
            wanted = is_wanted(execute, yes, f"Go on with plan {name}?", lambda aside: show(aside, [one]))
        if wanted:
            one = carried(ensemble, begin(ensemble, one), longest_s)
    if not out.document(reassign_documents.stored_plan(one, executed=wanted)):
        show(out, [one])
    return ended(one, waited=wanted and longest_s is not None)


def end(act: str, name: str, *, execute: bool, yes: bool) -> None:
    """Pauses or cancels the plan: no further phase is asked for."""
    out, ours = output(), False
    with connected() as ensemble:
        one = find_plan(ensemble, name)
        question = f"{act.capitalize()} plan {name}?"
        how: dict[str, Any] = {"command_back": ("reassign", "plan", "--resume", name)}
        if act == "cancel":
            how = {"way_back": "a cancelled plan does not go on; make a new one"}
            say_no_way_back(how["way_back"])
        wanted = is_wanted(execute, yes, question, lambda aside: show(aside, [one]))
        if wanted:
            with recorded(ensemble, **how):
                one = stop(ensemble, one, _STOPS[act], "an operator asked for it")
            ours = read_ruling(ensemble).is_ours
    if not out.document(reassign_documents.stored_plan(one, executed=wanted)):
        show(out, [one])
    if wanted:
        say(f"what moves now goes on: {command_words('reassign', 'list')}")
    if wanted and act == "cancel" and one.stored.throttle is not None and not ours:
        words = command_words("reassign", "verify", "--reassignment-json-file", "FILE", "--clear-throttle")
        say(f"its throttle stays until it is removed: {words} --execute")


def carried(ensemble: Ensemble, one: PlanDescription, longest_s: float | None) -> PlanDescription:
    """Carries a running plan on, one look or to its end, and takes its throttle off there."""
    with reassign_tables.progress() as progress:
        one = carry_on(ensemble, one.plan, longest_s or 0.0, progress)
    if one.stored.state == FINISHED:
        one, written = take_throttles_off(ensemble, one)
        if written:
            say(f"the throttle is removed: {counted(written, 'configuration')} written")
    if one.stored.state != RUNNING:
        prune(ensemble)
    return one


def ended(one: PlanDescription, *, waited: bool) -> int:
    """Says what to do about a plan that has not come to its end; the exit code."""
    if one.stored.state == FAILED:
        say(f"plan {one.plan} has failed: {one.stored.reason}")
        say(f"once that is mended: {words_on(one.plan)}")
        return EXIT_CHECK_FAILED
    if waited and one.stored.state != FINISHED:
        say(f"plan {one.plan} goes on later: {words_on(one.plan)}")
        return EXIT_CHECK_FAILED
    return 0


def words_on(name: str) -> str:
    """The command that carries a plan on."""
    return command_words("reassign", "plan", "--resume", name, "--execute", "--wait", "--timeout", "12h")


def show(out: Output, plans: Sequence[PlanDescription]) -> None:
    """One row a plan."""
    reassign_tables.plans(out, plans)
