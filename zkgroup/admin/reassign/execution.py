"""A reassignment as a change: asked for, waited for, and its throttle removed at the end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from zkgroup.admin.change import AdminChange, as_they_are, nothing, undo_record
from zkgroup.admin.cluster.brokers import topic_names
from zkgroup.admin.reassign.progress import (
    DONE,
    FAILED,
    IN_PROGRESS,
    ReassignmentProgress,
    ReassignmentStatus,
    list_reassignments,
    nothing_moves,
    wait_for_reassignments,
)
from zkgroup.admin.reassign.stored_plans import running_plans
from zkgroup.admin.reassign.submission import ReassignmentPlan, submit
from zkgroup.admin.reassign.throttles import Throttled, clear_throttles, read_throttles
from zkgroup.admin.topics.alteration import NO_LEAVING_BROKERS
from zkgroup.errors import RefusedError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model.text import counted
from zkgroup.znodes.admin_requests import Move


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentOutcome:
    """The end of a wait for reassignments."""

    status: str
    """The worst of one partition: `in_progress`, `failed` or `done`."""
    rows: tuple[ReassignmentStatus, ...]
    """Each partition of the request, as last read."""
    throttles_removed: int | None
    """Configurations written to remove the throttle; None where there was none, or a move still needs it."""


def reassign_change(
    ensemble: Ensemble,
    plan: ReassignmentPlan,
    progress: Callable[[ReassignmentProgress], object] = nothing,
) -> AdminChange[ReassignmentPlan, None, ReassignmentOutcome]:
    """Asks the controller for a reassignment; the wait removes the throttle when the moves have ended."""
    before = as_they_are(*(config.znode for config in plan.configs))
    undo = undo_record(
        znodes=before,
        targets=plan.request.targets if plan.effective else {},
        no_undo=None if plan.rollback else NO_LEAVING_BROKERS,
    )
    question = f"Move {counted(plan.moves, 'replica')} of {counted(len(plan.effective), 'partition')}?"

    def wait(_: None, longest_s: float) -> ReassignmentOutcome:
        return end_of_moves(
            ensemble,
            plan.request.moves,
            longest_s,
            progress,
            throttled=plan.throttle is not None,
            is_over=is_over,
        )

    return AdminChange(
        ensemble=ensemble,
        subject="reassign execute",
        question=question,
        plan=plan,
        notes=plan.notes,
        is_effective=bool(plan.effective),
        no_undo=None if plan.rollback or not plan.effective else NO_LEAVING_BROKERS,
        undo=undo,
        rollback=plan.rollback,
        write=lambda by: submit(ensemble, plan),
        wait=wait,
    )


def end_of_moves(
    ensemble: Ensemble,
    moves: Sequence[Move],
    longest_s: float,
    progress: Callable[[ReassignmentProgress], object],
    *,
    throttled: bool,
    is_over: Callable[[Ensemble, Sequence[ReassignmentStatus]], bool],
) -> ReassignmentOutcome:
    """Waits for the end of the moves, and removes their throttle where no move needs it any more."""
    _, rows = wait_for_reassignments(ensemble, moves, longest_s, progress)
    removed = None
    if throttled and is_over(ensemble, rows):
        found = read_throttles(ensemble, [move.topic_partition.topic for move in moves])
        removed = clear_throttles(
            ensemble, found.of_moves({broker for move in moves for broker in move.replicas})
        )
    statuses = {row.status for row in rows}
    status = IN_PROGRESS if IN_PROGRESS in statuses else DONE if statuses <= {DONE} else FAILED
    return ReassignmentOutcome(status=status, rows=rows, throttles_removed=removed)


def is_over(ensemble: Ensemble, rows: Sequence[ReassignmentStatus]) -> bool:
    """True if no move needs its throttle any more: all done; or cancelled or dropped, and no other moves."""
    found = {row.status for row in rows}
    return found <= {DONE} or (found <= {DONE, FAILED} and nothing_moves(ensemble))


def is_still(ensemble: Ensemble, rows: Sequence[ReassignmentStatus]) -> bool:
    """True if no replica moves and no plan is about to move one: after a cancel, which may leave others."""
    return nothing_moves(ensemble) and not running_plans(ensemble)


def clear_throttles_change(
    ensemble: Ensemble,
    topics: Collection[str] | None = None,
    rows: Sequence[ReassignmentStatus] | None = None,
) -> AdminChange[Throttled, int, None]:
    """Removes the throttles of these topics, or all; what is written is the number of configurations.

    rows: the moves of which the throttle is, as they stand; None: of whatever moves.

    Raises RefusedError while a move needs the throttle: one of `rows`, or, without them, any move or plan.
    """
    throttled = read_throttles(ensemble, topic_names(ensemble) if topics is None else topics)
    if throttled and (why := _still_needed(ensemble, rows)) is not None:
        raise RefusedError(f"the throttle of {throttled.named} stays: {why}")
    return AdminChange(
        ensemble=ensemble,
        subject="reassign verify --clear-throttle",
        question=f"Remove the throttle of {throttled.named}?" if throttled else "Remove no throttle?",
        plan=throttled,
        is_effective=bool(throttled),
        no_undo="the next `reassign execute --throttle` sets one again",
        write=lambda by: clear_throttles(ensemble, throttled),
    )


def _still_needed(ensemble: Ensemble, rows: Sequence[ReassignmentStatus] | None) -> str | None:
    """The reason why a throttle has to stay; None where no move needs it."""
    if rows is not None:
        return None if is_over(ensemble, rows) else "not every move is done"
    if plans := running_plans(ensemble):
        return f"plan {', '.join(plans)} runs"
    if nothing_moves(ensemble):
        return None
    count = len(list_reassignments(ensemble)[1])
    if not count:
        return "what moves cannot be read"
    return f"{counted(count, 'partition')} {'moves' if count == 1 else 'move'}"
