"""Changes that move replicas: reassignments, throttles, stored plans."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from zkgroup.admin.changes.change import (
    AdminChange,
    as_they_are,
    counted,
    nothing,
    undo_record,
)
from zkgroup.admin.changes.topics import NO_LEAVING_BROKERS
from zkgroup.admin.cluster.controller import read_controller_info
from zkgroup.admin.naming import named
from zkgroup.admin.reassign.cancellation import (
    CancelPlan,
    Execution,
    Removal,
    cancel,
    plan_cancel,
    remove,
)
from zkgroup.admin.reassign.cancellation import (
    plan_removal as plan_request_removal,
)
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
from zkgroup.admin.reassign.proposals import PhasedPlan
from zkgroup.admin.reassign.stored_plans import (
    CANCELLED,
    FINISHED,
    PAUSED,
    RUNNING,
    PlanDescription,
    Storing,
    begin,
    check_begin,
    check_next_phase,
    check_stop,
    find_plan,
    plan_storing,
    prune,
    run_plan,
    running_plans,
    stop,
    store,
    take_throttles_off,
    who_goes_on,
)
from zkgroup.admin.reassign.submission import ReassignmentPlan, plan_reassignment, submit
from zkgroup.admin.reassign.throttles import Throttled, clear_throttles, read_throttles
from zkgroup.admin.topics.listing import topic_names
from zkgroup.errors import RefusedError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model import TopicPartition
from zkgroup.znodes.admin_requests import Move
from zkgroup.znodes.notifications import NotifyFormat
from zkgroup.znodes.reassignment_records import StoredPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentOutcome:
    """How a wait for reassignments ended."""

    status: str
    """The worst of one partition: `in_progress`, `failed` or `done`."""
    rows: tuple[ReassignmentStatus, ...]
    """Each partition of the request, as last read."""
    throttles_removed: int | None
    """Configurations written to remove the throttle; None where there was none, or a move still needs it."""


def reassign_change(
    ensemble: Ensemble,
    moves: Sequence[Move],
    *,
    throttle: int | None = None,
    force: bool = False,
    beside_running: bool = False,
    format: NotifyFormat | None = None,  # noqa: A002 - the word of the command line
    progress: Callable[[ReassignmentProgress], object] = nothing,
) -> AdminChange[ReassignmentPlan, None, ReassignmentOutcome]:
    """Asks the controller for a reassignment; `throttle` is bytes a second at each broker.

    The wait removes the throttle when the moves have ended. Raises what `plan_reassignment` raises, which
    also explains `beside_running`.
    """
    plan = plan_reassignment(
        ensemble, moves, throttle=throttle, force=force, beside_running=beside_running, format=format
    )
    before = as_they_are(*(config.znode for config in plan.configs))
    undo = undo_record(
        znodes=before,
        targets=plan.request.targets if plan.effective else {},
        no_undo=None if plan.rollback else NO_LEAVING_BROKERS,
    )
    question = f"Move {counted(plan.moves, 'replica')} of {counted(len(plan.effective), 'partition')}?"

    def wait(_: None, longest_s: float) -> ReassignmentOutcome:
        return end_of_moves(
            ensemble, plan.request.moves, longest_s, progress, throttled=throttle is not None, is_over=is_over
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


def cancel_reassignments_change(
    ensemble: Ensemble,
    partitions: Collection[TopicPartition] = (),
    former: Sequence[Move] = (),
    executions: Iterable[Execution] = (),
    *,
    progress: Callable[[ReassignmentProgress], object] = nothing,
) -> AdminChange[CancelPlan, None, ReassignmentOutcome]:
    """Sends running moves (none named: all) back to their former replicas. Raises as `plan_cancel` does."""
    plan = plan_cancel(ensemble, partitions, former, executions)
    back = [Move(row.topic_partition, row.after) for row in plan.rows]

    def wait(_: None, longest_s: float) -> ReassignmentOutcome:
        throttled = read_throttles(ensemble, {tp.topic for tp in plan.before.targets})
        return end_of_moves(
            ensemble, back, longest_s, progress, throttled=throttled.is_of_moves, is_over=is_still
        )

    return AdminChange(
        ensemble=ensemble,
        subject="reassign cancel",
        question=f"Cancel {counted(len(plan.rows), 'move')}?",
        plan=plan,
        notes=tuple(_notes_on_cancel(plan)),
        undo=undo_record(),
        rollback=plan.before.targets,
        write=lambda by: cancel(ensemble, plan),
        wait=wait,
    )


def remove_unreadable_request_change(ensemble: Ensemble) -> AdminChange[Removal, None, None] | None:
    """Removes a reassignment request that cannot be read; None where there is no such request."""
    plan = plan_request_removal(ensemble)
    if plan is None:
        return None
    return AdminChange(
        ensemble=ensemble,
        subject="reassign cancel",
        question=f"Remove {plan.znode.path}?",
        plan=plan,
        notes=(str(plan.error), *([plan.note] if plan.note else [])),
        undo=undo_record(znodes=as_they_are(plan.znode)),
        write=lambda by: remove(ensemble, plan),
    )


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
    """Why a throttle has to stay; None where no move needs it."""
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


def is_over(ensemble: Ensemble, rows: Sequence[ReassignmentStatus]) -> bool:
    """Whether no move needs its throttle any more: all done; or cancelled or dropped, and no other moves."""
    found = {row.status for row in rows}
    return found <= {DONE} or (found <= {DONE, FAILED} and nothing_moves(ensemble))


def is_still(ensemble: Ensemble, rows: Sequence[ReassignmentStatus]) -> bool:
    """Whether no replica moves and no plan is about to move one: after a cancel, which may leave others."""
    return nothing_moves(ensemble) and not running_plans(ensemble)


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


def _notes_on_cancel(plan: CancelPlan) -> Iterable[str]:
    """Which file gave the old lists, and whose order may differ."""
    for file in dict.fromkeys(plan.files.values()):
        yield f"the old replicas of {named(tp for tp, one in plan.files.items() if one == file)}: {file}"
    if plan.unordered:
        yield (
            f"the order that the replicas of {named(plan.unordered)} had is not known: another one may come "
            "first, and lead; --reassignment-json-file gives the rollback file of the execution"
        )


def start_plan_change(
    ensemble: Ensemble,
    found: PhasedPlan,
    *,
    user: str,
    throttle: int | None = None,
    progress: Callable[[ReassignmentProgress], object] = nothing,
) -> AdminChange[Storing, PlanDescription, PlanDescription]:
    """Stores a plan in ZooKeeper and starts it: its phases are submitted one after the other.

    The id of the plan is that of the undo record. Raises what `plan_storing` raises.
    """
    storing = plan_storing(ensemble, found, by=user, throttle=throttle, begin=True)
    return AdminChange(
        ensemble=ensemble,
        subject=f"plan {found.plan.intent}",
        question=f"Begin {found.plan.intent}?",
        plan=storing,
        notes=storing.notes,
        is_effective=bool(found.plan.changes),
        undo=undo_record(targets={one.topic_partition: one.after for one in found.plan.changes}),
        rollback={one.topic_partition: one.before for one in found.plan.changes},
        write=lambda by: store(ensemble, by.undo_id, storing),
        wait=lambda one, longest_s: run_to_end(ensemble, one, longest_s, progress),
    )


def save_plan_change(
    ensemble: Ensemble, found: PhasedPlan, *, user: str, throttle: int | None = None
) -> AdminChange[Storing, PlanDescription, None]:
    """Stores a plan in ZooKeeper without starting it; `resume_plan_change` starts it.

    The id of the plan is that of the undo record: the undo cancels a plan that was not resumed meanwhile.
    """
    storing = plan_storing(ensemble, found, by=user, throttle=throttle, begin=False)
    return AdminChange(
        ensemble=ensemble,
        subject=f"plan {found.plan.intent} --save",
        question=f"Save {found.plan.intent}?",
        plan=storing,
        notes=storing.notes,
        is_effective=bool(found.plan.changes),
        undo=lambda by: undo_record(
            undo_command=("plan", "cancel", by.undo_id),
            left=((StoredPlan.path(by.undo_id), storing.stored.encode()),),
        ),
        undo_is_required=False,
        write=lambda by: store(ensemble, by.undo_id, storing),
    )


def resume_plan_change(
    ensemble: Ensemble, plan_id: str, *, progress: Callable[[ReassignmentProgress], object] = nothing
) -> AdminChange[PlanDescription, PlanDescription, PlanDescription]:
    """Starts or continues a stored plan; one that has finished stays as it is.

    Raises NotFoundError, and what `begin` and the submission of its next phase raise.
    """
    one = find_plan(ensemble, plan_id)
    is_effective = one.stored.state != FINISHED
    note = who_goes_on(read_controller_info(ensemble)) if is_effective else None

    def check() -> None:
        check_begin(ensemble, one)
        check_next_phase(ensemble, one)

    return AdminChange(
        ensemble=ensemble,
        subject=f"plan resume {plan_id}",
        question=f"Resume plan {plan_id}?",
        plan=one,
        notes=(note,) if note else (),
        is_effective=is_effective,
        no_undo="replicas that have moved stay; `plan pause` stops the plan",
        check=check,
        write=lambda by: run_to_end(ensemble, begin(ensemble, one), 0.0, progress),
        wait=lambda begun, longest_s: run_to_end(ensemble, begun, longest_s, progress),
    )


def pause_plan_change(
    ensemble: Ensemble, plan_id: str
) -> AdminChange[PlanDescription, PlanDescription, None]:
    """Submits no further phase of a plan until it is resumed. Raises NotFoundError."""
    one = find_plan(ensemble, plan_id)
    return AdminChange(
        ensemble=ensemble,
        subject=f"plan pause {plan_id}",
        question=f"Pause plan {plan_id}?",
        plan=one,
        undo=undo_record(undo_command=("plan", "resume", plan_id)),
        check=lambda: check_stop(one, PAUSED),
        write=lambda by: stop(ensemble, one, PAUSED, "an operator asked for it"),
    )


def cancel_plan_change(
    ensemble: Ensemble, plan_id: str
) -> AdminChange[PlanDescription, PlanDescription, None]:
    """Ends a plan for good; moves that are under way continue. Raises NotFoundError."""
    one = find_plan(ensemble, plan_id)
    why = "a cancelled plan cannot be resumed; make a new one"
    return AdminChange(
        ensemble=ensemble,
        subject=f"plan cancel {plan_id}",
        question=f"Cancel plan {plan_id}?",
        plan=one,
        no_undo=why,
        undo=undo_record(no_undo=why),
        check=lambda: check_stop(one, CANCELLED),
        write=lambda by: stop(ensemble, one, CANCELLED, "an operator asked for it"),
    )


def run_to_end(
    ensemble: Ensemble,
    one: PlanDescription,
    longest_s: float,
    progress: Callable[[ReassignmentProgress], object] = nothing,
) -> PlanDescription:
    """Runs a stored plan for up to so many seconds, and removes its throttle at its end."""
    one = run_plan(ensemble, one.plan, longest_s, progress)
    if one.stored.state == FINISHED:
        one, _ = take_throttles_off(ensemble, one)
    if one.stored.state != RUNNING:
        prune(ensemble)
    return one
