"""Reassignment plans stored in `/zkgroup/plans/<id>`: one phase at a time becomes the request.

The process that submits a phase advances the plan, and sets its throttles, in the same transaction, so no
phase is submitted twice. That is a controller of zkgroup as soon as the request is free; beside a controller
of Kafka, which reads no plan, it is `run_plan`. Throttles are removed when the plan has ended.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from zkgroup.admin.change import AdminChange, nothing, undo_record
from zkgroup.admin.cluster.brokers import readable_topics
from zkgroup.admin.cluster.controller import (
    ControllerInfo,
    check_throttle,
    read_controller_info,
    refuse_kraft,
)
from zkgroup.admin.guards import write
from zkgroup.admin.reassign.progress import (
    DONE,
    IN_PROGRESS,
    POLL_S,
    UNKNOWN,
    ReassignmentProgress,
    ReassignmentStatus,
    progress_of,
    verify_reassignments,
)
from zkgroup.admin.reassign.progress import FAILED as NOT_THERE
from zkgroup.admin.reassign.proposals import PhasedPlan
from zkgroup.admin.reassign.submission import ReassignmentPlan, plan_reassignment, submit
from zkgroup.admin.reassign.throttles import clear_throttles, read_throttles
from zkgroup.errors import (
    ConflictError,
    CorruptZnodeError,
    NotFoundError,
    OperationRefusedError,
    OutcomeUnknownError,
    RefusedError,
)
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.groups.snapshot import DecodedZnode, decode_or_error
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete, Operation, SetData
from zkgroup.model.text import named
from zkgroup.znodes.admin_requests import Move, Reassignment, delete_topics_path
from zkgroup.znodes.paths import zkgroup_path
from zkgroup.znodes.reassignment_records import PlanState, StoredPlan, plans_path, surplus_plans

RUNNING: Final = "running"
PAUSED: Final = "paused"
FINISHED: Final = "done"
CANCELLED: Final = "cancelled"
FAILED: Final = "failed"
"""States of a plan; only a running one is carried on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDescription:
    """One stored plan and how far it is."""

    as_of: AsOf
    """The moment at which the plan was read."""
    plan: str
    """Id of the plan."""
    stored: StoredPlan
    """The plan as stored."""
    version: int
    """Of its znode: every change is conditional on it."""
    rows: tuple[ReassignmentStatus, ...]
    """Each partition, against where it shall be at the end of the plan; none for a plan that has ended."""

    @property
    def total(self) -> int:
        """Partitions that it changes."""
        return len(final_moves(self.stored))

    @property
    def done(self) -> int | None:
        """Partitions that are where they shall be; None where the plan was cancelled."""
        if self.stored.state == FINISHED:
            return self.total
        return None if self.stored.state == CANCELLED else sum(row.status == DONE for row in self.rows)


def _to_store(
    ensemble: Ensemble, found: PhasedPlan, by: str, throttle: int | None, state: PlanState
) -> tuple[StoredPlan, tuple[str, ...]]:
    """Returns what would be stored of a plan, and notes.

    Raises ConfigError where it is more than one znode holds, RefusedError where no broker here would obey
    the throttle.
    """
    info = read_controller_info(ensemble)
    refuse_kraft(info)
    stored = StoredPlan(
        phases=tuple(
            tuple(Move(change.topic_partition, change.after) for change in phase.changes)
            for phase in found.phases
        ),
        state=state,
        next_phase=0,
        time_ms=ensemble.clock.wall_ms(),
        by=by,
        throttle=throttle,
    )
    stored.encode()
    notes = [who_goes_on(info)] if state == RUNNING or not info.is_zkgroup else []
    if throttle is not None:
        notes.append(check_throttle(info))
    return stored, tuple(filter(None, notes))


def _store(
    ensemble: Ensemble, plan: str, stored: StoredPlan, begin_check: SetData | None = None
) -> PlanDescription:
    """Stores the plan. `begin_check`: the operation that fails if another plan began meanwhile.

    Raises ConflictError where it fails, or a plan of this name exists.
    """
    path, data = StoredPlan.path(StoredPlan.validate_id(plan)), stored.encode()
    ensemble.zk.create_missing(zkgroup_path(), plans_path())
    checks = [] if begin_check is None else [begin_check]
    write(ensemble, [*checks, Create(path, data)], path, data)
    return find_plan(ensemble, plan)


def find_plan(ensemble: Ensemble, plan: str) -> PlanDescription:
    """One plan. Raises NotFoundError, CorruptZnodeError, ConfigError for what is no name of one."""
    path = StoredPlan.path(StoredPlan.validate_id(plan))
    ensemble.zk.sync("/")
    znode = ensemble.zk.find(path)
    if znode is None:
        raise NotFoundError(f"{path}: there is no such plan; `zkgroup plan list` lists the plans")
    stored = StoredPlan.decode(path, znode.data)
    return _described(ensemble, plan, stored, znode.stat.version)


def list_plans(ensemble: Ensemble) -> tuple[tuple[PlanDescription, ...], tuple[CorruptZnodeError, ...]]:
    """Every plan, the oldest first, and those that cannot be read."""
    entries = _stored(ensemble)
    plans = [
        _described(ensemble, name, entry.value, entry.stat.version)
        for name, entry in entries.items()
        if entry.value is not None
    ]
    plans.sort(key=lambda one: (one.stored.time_ms, one.plan))
    return tuple(plans), tuple(entry.error for entry in entries.values() if entry.error)


def running_plans(ensemble: Ensemble) -> tuple[str, ...]:
    """The ids of the plans that run, by name."""
    entries = _stored(ensemble).items()
    return tuple(name for name, entry in entries if entry.value and entry.value.state == RUNNING)


def _stored(ensemble: Ensemble) -> dict[str, DecodedZnode[StoredPlan]]:
    """Every plan by name, in the order of names."""
    found = ensemble.find_each(sorted(ensemble.names_below(plans_path())), StoredPlan.path)
    return {name: decode_or_error(znode, StoredPlan.decode) for name, znode in found.items()}


def final_moves(stored: StoredPlan) -> tuple[Move, ...]:
    """Returns where each partition is at the end: a partition that moves in steps is in several phases."""
    last = {move.topic_partition: move for phase in stored.phases for move in phase}
    return tuple(last[tp] for tp in sorted(last))


def begin(ensemble: Ensemble, one: PlanDescription) -> PlanDescription:
    """Lets a plan run that was paused or has failed; that goes back to the phase at which it stopped.

    Raises RefusedError for one that has ended, ConflictError where another runs or it has changed since.
    """
    begin_check = check_begin(ensemble, one)
    return one if begin_check is None else _write(ensemble, one, _begun(one.stored), begin_check)


def check_begin(ensemble: Ensemble, one: PlanDescription) -> SetData | None:
    """Raises what `begin` raises. The operation that fails once another plan runs; None if this one runs."""
    stored = one.stored
    if stored.state in (FINISHED, CANCELLED):
        raise RefusedError(f"{StoredPlan.path(one.plan)}: the plan is {stored.state}; make a new one")
    if stored.state == RUNNING:
        return None
    refuse_kraft(read_controller_info(ensemble))
    return _begin_check(ensemble, beside=one.plan)


def check_next_phase(ensemble: Ensemble, one: PlanDescription) -> None:
    """Raises what `run_plan` would at once for the next phase of a plan that goes on."""
    running = dataclasses.replace(one, stored=_begun(one.stored))
    if not read_controller_info(ensemble).is_zkgroup and _next_step(ensemble, running).action == "submit":
        _next_request(ensemble, running)


def _begun(stored: StoredPlan) -> StoredPlan:
    """As it runs; one that has failed goes back to the phase at which it stopped."""
    again = stored.next_phase - 1 if stored.state == FAILED else stored.next_phase
    return stored.at(max(again, 0), RUNNING)


def stop(ensemble: Ensemble, one: PlanDescription, state: PlanState, reason: str = "") -> PlanDescription:
    """No further phase is submitted; what runs now goes on, and `reassign cancel` sends it back.

    Raises RefusedError for a plan that has ended, ConflictError where it has changed since.
    """
    check_stop(one, state)
    return _write(ensemble, one, one.stored.at(one.stored.next_phase, state, reason))


def check_stop(one: PlanDescription, state: PlanState) -> None:
    """Raises RefusedError where the plan cannot be given this state: it has ended."""
    if one.stored.state in (FINISHED, CANCELLED) or (state == PAUSED and one.stored.state == FAILED):
        raise RefusedError(f"{StoredPlan.path(one.plan)}: the plan is {one.stored.state} already")


def existing(ensemble: Ensemble, moves: Sequence[Move]) -> dict[TopicPartition, tuple[int, ...]]:
    """The replicas now of those partitions that exist, can be read, and are not about to be deleted."""
    going = ensemble.names_below(delete_topics_path())
    names = sorted({move.topic_partition.topic for move in moves} - set(going))
    topics = readable_topics(ensemble, names)
    found = {}
    for tp in sorted({move.topic_partition for move in moves}):
        topic = topics.get(tp.topic)
        if topic is not None and tp.partition in topic.partitions:
            found[tp] = topic.partitions[tp.partition]
    return found


def take_throttles_off(ensemble: Ensemble, one: PlanDescription) -> tuple[PlanDescription, int]:
    """Removes the throttles of a plan that has ended, where no zkgroup controller does; and the number of
    configurations written.
    """
    stored = one.stored
    if stored.throttle is None or stored.throttles_off or read_controller_info(ensemble).is_zkgroup:
        return one, 0
    moves = final_moves(stored)
    throttled = read_throttles(ensemble, {move.topic_partition.topic for move in moves})
    brokers = {broker for move in moves for broker in move.replicas}
    written = clear_throttles(ensemble, throttled.of_moves(brokers))
    return _write(ensemble, one, dataclasses.replace(stored, throttles_off=True)), written


def prune(ensemble: Ensemble) -> int:
    """Deletes plans that are over but for the last ones, where no zkgroup controller does; the number."""
    if read_controller_info(ensemble).is_zkgroup:
        return 0
    entries = _stored(ensemble).items()
    over = {name: entry.stat for name, entry in entries if entry.value is not None and entry.value.is_over}
    pruned = 0
    for name in surplus_plans(over):
        # One that is resumed meanwhile stays; the next command prunes what is left.
        with contextlib.suppress(OperationRefusedError, OutcomeUnknownError):
            ensemble.zk.multi(Delete(StoredPlan.path(name), over[name].version))
            pruned += 1
    return pruned


def who_goes_on(info: ControllerInfo) -> str | None:
    """A note about who submits the next phase; None if the active zkgroup controller does."""
    if info.is_zkgroup:
        return None
    if info.controller_znode is None:
        return "there is no active controller: the plan waits for one"
    active = info.controller.broker if info.controller else "?"
    return (
        f"broker {active} is a Kafka controller, which reads no plan: each next phase is submitted by "
        "`zkgroup plan resume ID --execute --wait`, as long as that runs"
    )


def _described(ensemble: Ensemble, plan: str, stored: StoredPlan, version: int) -> PlanDescription:
    ended = stored.state in (FINISHED, CANCELLED)
    rows = () if ended else verify_reassignments(ensemble, final_moves(stored))[1]
    return PlanDescription(as_of=ensemble.as_of(), plan=plan, stored=stored, version=version, rows=rows)


def _write(
    ensemble: Ensemble, one: PlanDescription, changed: StoredPlan, *also: Operation
) -> PlanDescription:
    path, data = StoredPlan.path(one.plan), changed.encode()
    write(ensemble, [*also, SetData(path, data, one.version)], path, data)
    return find_plan(ensemble, one.plan)


def _begin_check(ensemble: Ensemble, beside: str | None = None) -> SetData:
    """Refuses a second plan now, and by this operation, which every plan begins with, until it has begun.

    Two plans would take turns at the one request, each on lists that the other changes. The version of the
    parent is read first: a plan that is not among those read now begins after that.
    """
    parent = ensemble.zk.find(plans_path())
    if others := [name for name in running_plans(ensemble) if name != beside]:
        raise ConflictError(
            f"{StoredPlan.path(others[0])}: plan {others[0]} is running; wait for its end, or stop it with "
            f"`zkgroup plan pause {others[0]} --execute`"
        )
    return SetData(plans_path(), b"", parent.stat.version if parent else 0)


@dataclass(frozen=True, slots=True)
class PlanStep:
    """The next step of a running plan."""

    action: str
    """`wait`, `submit`, `finish` or `fail`."""
    reason: str = ""


def next_step(stored: StoredPlan, rows: Sequence[ReassignmentStatus], *, is_free: bool) -> PlanStep:
    """Decides by how the last submitted phase stands. Pure.

    Args:
        rows: the partitions of that phase, of those that still exist; none before the first one.
        is_free: there is no request.
    """
    if not is_free or any(row.status in (IN_PROGRESS, UNKNOWN) for row in rows):
        return PlanStep("wait")
    missed = [row for row in rows if row.status == NOT_THERE]
    if missed:
        where = named(row.topic_partition for row in missed)
        return PlanStep("fail", f"phase {stored.next_phase}: {where} is not on its target replicas")
    return PlanStep("finish" if stored.next_phase == len(stored.phases) else "submit")


def run_plan(
    ensemble: Ensemble, plan: str, timeout_s: float, on_progress: Callable[[ReassignmentProgress], object]
) -> PlanDescription:
    """Reads until the plan runs no more or the time is over; the result is the plan as it then is.

    Where a controller of zkgroup is active it submits the phases, and this only waits. Else the next one is
    submitted here whenever the request is free. `on_progress` is called after every read.

    Raises what `plan_reassignment` raises for a phase that cannot be asked for now; the plan stays at it.
    """
    tell = progress_of(ensemble, on_progress)

    def read() -> PlanDescription:
        one = find_plan(ensemble, plan)
        tell(one.done or 0, one.total)
        if one.stored.state != RUNNING or read_controller_info(ensemble).is_zkgroup:
            return one
        if not _advance(ensemble, one):
            return one
        one = find_plan(ensemble, plan)
        if one.stored.state != RUNNING:
            tell(one.done or 0, one.total)
        return one

    return ensemble.read_until(read, lambda one: one.stored.state != RUNNING, timeout_s, POLL_S)


def _advance(ensemble: Ensemble, one: PlanDescription) -> bool:
    """Takes the next step where there is one to take; says whether the plan has changed."""
    stored, step = one.stored, _next_step(ensemble, one)
    try:
        if step.action == "submit":
            _submit(ensemble, one)
        elif step.action == "finish":
            _write(ensemble, one, stored.at(stored.next_phase, FINISHED))
        elif step.action == "fail":
            _write(ensemble, one, stored.at(stored.next_phase, FAILED, step.reason))
        else:
            return False
    except ConflictError:
        # another reassignment was requested, or the plan was changed: the next read shows it
        return False
    return True


def _next_step(ensemble: Ensemble, one: PlanDescription) -> PlanStep:
    stored = one.stored
    is_free = ensemble.zk.exists(Reassignment.path()) is None
    before = stored.phases[stored.next_phase - 1] if stored.next_phase else ()
    there = existing(ensemble, before)
    _, rows = verify_reassignments(ensemble, [move for move in before if move.topic_partition in there])
    return next_step(stored, rows, is_free=is_free)


def _next_request(ensemble: Ensemble, one: PlanDescription) -> ReassignmentPlan | None:
    """Returns what the next phase asks for; None where nothing of it is there any more."""
    phase = one.stored.phases[one.stored.next_phase]
    there = existing(ensemble, phase)
    moves = [move for move in phase if move.topic_partition in there]
    return plan_reassignment(ensemble, moves, throttle=one.stored.throttle) if moves else None


def _submit(ensemble: Ensemble, one: PlanDescription) -> None:
    """The request and the plan's step in one transaction; a phase that is done already is only passed."""
    further = one.stored.at(one.stored.next_phase + 1, RUNNING)
    plan = _next_request(ensemble, one)
    if plan is None or not plan.effective:
        _write(ensemble, one, further)
        return
    submit(ensemble, plan, [SetData(StoredPlan.path(one.plan), further.encode(), one.version)])


def start_plan_change(
    ensemble: Ensemble,
    found: PhasedPlan,
    *,
    user: str,
    throttle: int | None = None,
    progress: Callable[[ReassignmentProgress], object] = nothing,
    throttle_removed: Callable[[int], object] = nothing,
) -> AdminChange[PhasedPlan, PlanDescription, PlanDescription]:
    """Stores a plan in ZooKeeper and starts it: its phases are submitted one after the other.

    The id of the plan is that of the undo record. Raises ConfigError where it is more than one znode holds,
    ConflictError where another plan is running, RefusedError where no broker here would obey the throttle.
    """
    stored, notes = _to_store(ensemble, found, user, throttle, RUNNING)
    begin_check = _begin_check(ensemble)
    return AdminChange(
        ensemble=ensemble,
        subject=f"plan {found.plan.intent}",
        question=f"Begin {found.plan.intent}?",
        plan=found,
        notes=notes,
        is_effective=bool(found.plan.changes),
        undo=undo_record(targets={one.topic_partition: one.after for one in found.plan.changes}),
        rollback={one.topic_partition: one.before for one in found.plan.changes},
        write=lambda by: _store(ensemble, by.undo_id, stored, begin_check),
        wait=lambda one, longest_s: run_to_end(ensemble, one, longest_s, progress, throttle_removed),
    )


def save_plan_change(
    ensemble: Ensemble, found: PhasedPlan, *, user: str, throttle: int | None = None
) -> AdminChange[PhasedPlan, PlanDescription, None]:
    """Stores a plan in ZooKeeper without starting it; `resume_plan_change` starts it.

    The id of the plan is that of the undo record: the undo cancels a plan that was not resumed meanwhile.
    """
    stored, notes = _to_store(ensemble, found, user, throttle, PAUSED)
    return AdminChange(
        ensemble=ensemble,
        subject=f"plan {found.plan.intent} --save",
        question=f"Save {found.plan.intent}?",
        plan=found,
        notes=notes,
        is_effective=bool(found.plan.changes),
        undo=lambda by: undo_record(
            undo_command=("plan", "cancel", by.undo_id),
            left=((StoredPlan.path(by.undo_id), stored.encode()),),
        ),
        undo_is_required=False,
        write=lambda by: _store(ensemble, by.undo_id, stored),
    )


def resume_plan_change(
    ensemble: Ensemble,
    plan_id: str,
    *,
    progress: Callable[[ReassignmentProgress], object] = nothing,
    throttle_removed: Callable[[int], object] = nothing,
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
        write=lambda by: run_to_end(ensemble, begin(ensemble, one), 0.0, progress, throttle_removed),
        wait=lambda begun, longest_s: run_to_end(ensemble, begun, longest_s, progress, throttle_removed),
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
    throttle_removed: Callable[[int], object] = nothing,
) -> PlanDescription:
    """Runs a stored plan for up to so many seconds, and removes its throttle at its end.

    `throttle_removed` is given the number of configurations written for that, if there are some.
    """
    one = run_plan(ensemble, one.plan, longest_s, progress)
    if one.stored.state == FINISHED:
        one, written = take_throttles_off(ensemble, one)
        if written:
            throttle_removed(written)
    if one.stored.state != RUNNING:
        prune(ensemble)
    return one
