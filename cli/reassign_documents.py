"""The JSON documents about reassignments and plans. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from zkgroup.admin.cancelling import CancelPlan, Removal
from zkgroup.admin.ensemble import AsOf
from zkgroup.admin.kafka_files import reassignment_json
from zkgroup.admin.moving_plans import PhasedPlan, Proposal
from zkgroup.admin.reassigning import ReassignmentPlan
from zkgroup.admin.reassignments import MoveStatus
from zkgroup.admin.stored_plans import PlanDescription
from zkgroup.errors import CorruptZnodeError

from .cluster_documents import place
from .documents import Json, document
from .units import iso_time


def proposal(found: Proposal) -> Json:
    """`reassign generate`."""
    return document(
        "reassignment_proposal",
        found.as_of,
        current=reassignment_json(found.current),
        proposed=reassignment_json(found.proposed),
        moves=found.moves,
    )


def reassignment(
    plan: ReassignmentPlan,
    *,
    executed: bool,
    undo: str | None,
    rollback_file: str | None,
    status: str | None = None,
) -> Json:
    """`reassign execute`."""
    rows = [
        {
            **place(row.topic_partition),
            "from": list(row.before),
            "to": list(row.after),
            "changes": row.changes,
        }
        for row in plan.rows
    ]
    return document(
        "reassignment",
        plan.as_of,
        executed=executed,
        undo=undo,
        rollback_file=rollback_file,
        throttle=plan.throttle,
        moves=plan.moves,
        partitions=rows,
        status=status,
    )


def reassignments(
    as_of: AsOf,
    rows: Iterable[MoveStatus],
    plans: Iterable[PlanDescription] | None = None,
    unreadable: Iterable[CorruptZnodeError] | None = None,
) -> Json:
    """`reassign verify`, which looks at no plans and tells of each row what it cannot read, and `list`."""
    found = [
        {
            **place(row.topic_partition),
            "from": None if row.before is None else list(row.before),
            "to": list(row.target),
            "status": row.status,
            "detail": row.detail,
        }
        for row in rows
    ]
    kept = None if plans is None else [_kept(one) for one in plans]
    broken = None if unreadable is None else [_unreadable(error) for error in unreadable]
    return document("reassignments", as_of, reassignments=found, plans=kept, unreadable=broken)


def _unreadable(error: CorruptZnodeError) -> Json:
    return {"path": error.path, "detail": f"expected {error.expected}, found {error.found}"}


def stored_plan(one: PlanDescription, *, executed: bool) -> Json:
    """`reassign plan --resume`, `--pause` and `--cancel`."""
    phases = [
        [{**place(move.topic_partition), "to": list(move.replicas)} for move in phase]
        for phase in one.stored.phases
    ]
    return document("stored_plan", one.as_of, executed=executed, **_kept(one), moves=phases)


def _kept(one: PlanDescription) -> Json:
    return {
        "plan": one.plan,
        "state": one.stored.state,
        "reason": one.stored.reason or None,
        "next_phase": one.stored.next_phase,
        "phases": len(one.stored.phases),
        "done": one.done,
        "total": one.total,
        "throttle": one.stored.throttle,
        "by": one.stored.by,
        "made_at": iso_time(one.stored.time_ms),
    }


def cancellation(
    plan: CancelPlan,
    *,
    executed: bool,
    undo: str | None,
    rollback_file: str | None,
    status: str | None = None,
) -> Json:
    """`reassign cancel`."""
    rows = [
        {
            **place(row.topic_partition),
            "from": list(row.before),
            "to": list(row.after),
            "order_known": row.topic_partition not in plan.unordered,
            "order_from": plan.files.get(row.topic_partition),
        }
        for row in plan.rows
    ]
    return document(
        "reassignment_cancellation",
        plan.as_of,
        executed=executed,
        undo=undo,
        rollback_file=rollback_file,
        partitions=rows,
        status=status,
        unreadable=None,
    )


def removal(plan: Removal, *, executed: bool, undo: str | None) -> Json:
    """`reassign cancel` of a request that cannot be read."""
    return document(
        "reassignment_cancellation",
        plan.as_of,
        executed=executed,
        undo=undo,
        rollback_file=None,
        partitions=[],
        status=None,
        unreadable=_unreadable(plan.error),
    )


def plan(
    found: PhasedPlan,
    files: Sequence[str],
    kept: PlanDescription | None = None,
    *,
    executed: bool = False,
    rollback_file: Path | None = None,
) -> Json:
    """`reassign plan`."""
    changes = [
        {
            **place(change.topic_partition),
            "from": list(change.before),
            "to": list(change.after),
            "reason": change.reason,
        }
        for change in found.plan.changes
    ]
    before, after = found.plan.before.loads, found.plan.after.loads
    loads = [
        {
            "broker": number,
            "replicas_before": before[number].replicas,
            "replicas_after": after[number].replicas,
            "leaders_before": before[number].leaders,
            "leaders_after": after[number].leaders,
        }
        for number in sorted(after)
    ]
    phases = [
        {"moves": phase.moves, "bytes": phase.bytes, "partitions": len(phase.changes)}
        for phase in found.phases
    ]
    return document(
        "reassignment_plan",
        found.as_of,
        intent=found.plan.intent,
        moves=found.plan.moves,
        least_moves=found.plan.least_moves,
        bytes=found.plan.bytes,
        leader_changes=found.plan.leader_changes,
        files=list(files),
        phases=phases,
        changes=changes,
        loads=loads,
        notes=list(found.notes),
        executed=executed,
        rollback_file=None if rollback_file is None else str(rollback_file),
        kept=None if kept is None else _kept(kept),
    )
