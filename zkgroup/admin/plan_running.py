"""Carries a stored plan on, phase by phase, where no controller of ours does; and waits for its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zkgroup.admin.configs import write
from zkgroup.admin.ensemble import Ensemble
from zkgroup.admin.reassigning import plan_reassignment, submit
from zkgroup.admin.reassignments import FAILED as NOT_THERE
from zkgroup.admin.reassignments import IN_PROGRESS, POLL_S, UNKNOWN, MoveStatus, Progress, verify_moves
from zkgroup.admin.ruling import read_ruling
from zkgroup.admin.stored_plans import (
    FAILED,
    FINISHED,
    RUNNING,
    PlanDescription,
    existing,
    find_plan,
)
from zkgroup.errors import ConflictError
from zkgroup.model.requests import SetData
from zkgroup.znodes.admin_requests import Move, Reassignment
from zkgroup.znodes.reassignment_records import StoredPlan

NAMED = 5


@dataclass(frozen=True, slots=True)
class Step:
    """What comes next for a running plan."""

    action: str
    """`wait`, `submit`, `finish` or `fail`."""
    reason: str = ""


def next_step(stored: StoredPlan, rows: Sequence[MoveStatus], *, is_free: bool) -> Step:
    """Decides by how the last submitted phase stands. Pure.

    Args:
        rows: the partitions of that phase, of those that still exist; none before the first one.
        is_free: there is no request.
    """
    if not is_free or any(row.status in (IN_PROGRESS, UNKNOWN) for row in rows):
        return Step("wait")
    missed = [row for row in rows if row.status == NOT_THERE]
    if missed:
        named = ", ".join(str(row.topic_partition) for row in missed[:NAMED])
        more = f" and {len(missed) - NAMED} more" if len(missed) > NAMED else ""
        return Step("fail", f"phase {stored.next_phase}: {named}{more} is not where it shall be")
    return Step("finish" if stored.next_phase == len(stored.phases) else "submit")


def carry_on(
    ensemble: Ensemble, plan: str, timeout_s: float, on_progress: Callable[[Progress], object]
) -> PlanDescription:
    """Looks until the plan runs no more or the time is over; the result is the plan as it then is.

    Where a controller of ours rules it submits the phases, and this only waits. Else the next one is
    submitted here whenever the request is free. `on_progress` is told of every look.

    Raises what `plan_reassignment` raises for a phase that cannot be asked for now; the plan stays at it.
    """
    began = ensemble.clock.now_ms()
    done_before: int | None = None
    while True:
        one = find_plan(ensemble, plan)
        done = one.done or 0
        done_before = done if done_before is None else done_before
        elapsed = ensemble.clock.now_ms() - began
        on_progress(Progress(done=done, total=one.total, elapsed_ms=elapsed, done_before=done_before))
        if one.stored.state != RUNNING:
            return one
        if not read_ruling(ensemble).is_ours and _advance(ensemble, one):
            one = find_plan(ensemble, plan)
            if one.stored.state != RUNNING:
                continue
        left_s = timeout_s - elapsed / 1000
        if left_s <= 0:
            return one
        ensemble.pause(min(POLL_S, left_s))


def _advance(ensemble: Ensemble, one: PlanDescription) -> bool:
    """Takes the next step where there is one to take; says whether the plan has changed."""
    stored = one.stored
    is_free = ensemble.zk.exists(Reassignment.path()) is None
    before = stored.phases[stored.next_phase - 1] if stored.next_phase else ()
    there = existing(ensemble, before)
    _, rows = verify_moves(ensemble, [move for move in before if move.topic_partition in there])
    step = next_step(stored, rows, is_free=is_free)
    try:
        if step.action == "submit":
            _submit(ensemble, one, stored.phases[stored.next_phase])
        elif step.action == "finish":
            _set(ensemble, one, stored.at(stored.next_phase, FINISHED))
        elif step.action == "fail":
            _set(ensemble, one, stored.at(stored.next_phase, FAILED, step.reason))
        else:
            return False
    except ConflictError:
        # somebody asked for another reassignment, or moved the plan on: the next look tells
        return False
    return True


def _submit(ensemble: Ensemble, one: PlanDescription, phase: Sequence[Move]) -> None:
    """The request and the plan's step in one transaction; a phase that is done already is only passed."""
    there = existing(ensemble, phase)
    moves = [move for move in phase if move.topic_partition in there]
    further = one.stored.at(one.stored.next_phase + 1, RUNNING)
    plan = plan_reassignment(ensemble, moves, throttle=one.stored.throttle) if moves else None
    if plan is None or not plan.effective:
        _set(ensemble, one, further)
        return
    submit(ensemble, plan, [SetData(StoredPlan.path(one.plan), further.encode(), one.version)])


def _set(ensemble: Ensemble, one: PlanDescription, changed: StoredPlan) -> None:
    path, data = StoredPlan.path(one.plan), changed.encode()
    write(ensemble, [SetData(path, data, one.version)], path, data)
