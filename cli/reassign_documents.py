"""The JSON documents of reassignments and plans, one declaration of each output field. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from pathlib import Path

from zkgroup.admin import Move, Phase, PlannedMove
from zkgroup.admin.files import reassignment_json
from zkgroup.admin.reassign.cancellation import CancelPlan, Removal
from zkgroup.admin.reassign.progress import ReassignmentStatus
from zkgroup.admin.reassign.proposals import PhasedPlan, Proposal
from zkgroup.admin.reassign.stored_plans import PlanDescription
from zkgroup.admin.reassign.submission import ReassignmentPlan
from zkgroup.errors import CorruptZnodeError
from zkgroup.groups.ensemble import AsOf

from .schema import (
    BROKERS,
    COUNT,
    STRING,
    Document,
    Inline,
    Json,
    JsonKey,
    Shape,
    given,
    list_of,
    nullable,
    object_of,
    word,
)

_BEFORE, _AFTER = nullable(BROKERS), BROKERS
_OUTCOME = word("done", "in_progress", "failed")

REPLICA_MOVE = Shape(
    PlannedMove, "topic_partition", given("from", _BEFORE, "before"), given("to", _AFTER, "after"), "changes"
)
MOVE_STATUS = Shape(
    ReassignmentStatus,
    *("topic_partition", given("from", _BEFORE, "before"), given("to", _AFTER, "target")),
    *(given("status", word("done", "in_progress", "failed", "unknown")), "detail"),
)
PLANNED_CHANGE = Shape(
    PlannedMove, "topic_partition", given("from", _BEFORE, "before"), given("to", _AFTER, "after"), "reason"
)
STORED_PLAN = Shape(
    PlanDescription,
    *("plan", "state=stored.state"),
    JsonKey("reason", nullable(STRING), lambda one: one.stored.reason or None),
    *("stored.next_phase", JsonKey("phases", COUNT, lambda one: len(one.stored.phases)), "done", "total"),
    *("stored.throttle", "stored.by", "made_at=stored.time_ms"),
)
PLANNED_MOVE = Shape(Move, "topic_partition", given("to", BROKERS, "replicas"))
UNREADABLE = Shape(
    CorruptZnodeError,
    JsonKey("path", STRING, attrgetter("path")),
    JsonKey("detail", STRING, lambda error: f"expected {error.expected}, found {error.found}"),
)
PHASE = Shape(Phase, "moves", "bytes", JsonKey("partitions", COUNT, lambda phase: len(phase.changes)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelledMove:
    """A move that is cancelled; `order_from` is the file with the order of the old replicas."""

    move: PlannedMove
    order_known: bool
    order_from: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLoad:
    """What a broker carries before and after a plan."""

    broker: int
    replicas_before: int
    replicas_after: int
    leaders_before: int
    leaders_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentDocument:
    """`reassign execute`."""

    executed: bool
    undo: str | None
    rollback_file: str | None
    throttle: int | None
    moves: int
    partitions: Sequence[PlannedMove]
    status: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentsDocument:
    """`reassign list`; and `reassign verify`, which reads no plans and reports unreadable states by row."""

    reassignments: Sequence[ReassignmentStatus]
    plans: Sequence[PlanDescription] | None
    unreadable: Sequence[CorruptZnodeError] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlansDocument:
    """`plan list`."""

    plans: Sequence[PlanDescription]
    unreadable: Sequence[CorruptZnodeError]


@dataclass(frozen=True, slots=True, kw_only=True)
class CancellationDocument:
    """`reassign cancel`, also of a request that cannot be read."""

    executed: bool
    undo: str | None
    rollback_file: str | None
    partitions: Sequence[CancelledMove]
    status: str | None
    unreadable: CorruptZnodeError | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDocument:
    """`plan decommission`, `replace`, `set-rf` and `balance`."""

    intent: str
    moves: int
    least_moves: int
    bytes: int | None
    leader_changes: int
    files: Sequence[str]
    phases: Sequence[Phase]
    changes: Sequence[PlannedMove]
    loads: Sequence[BrokerLoad]
    notes: Sequence[str]
    executed: bool
    rollback_file: str | None
    kept: PlanDescription | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlanDocument:
    """`plan resume`, `plan pause` and `plan cancel`."""

    executed: bool
    plan: PlanDescription


# Kafka's format, as `reassignment_json` writes it into files too.
_KAFKA_FILE = object_of(
    version=COUNT, partitions=list_of(object_of(topic=STRING, partition=COUNT, replicas=BROKERS))
)
PROPOSAL = Document(
    "reassignment_proposal",
    Shape(
        Proposal,
        JsonKey("current", _KAFKA_FILE, lambda found: reassignment_json(found.current)),
        JsonKey("proposed", _KAFKA_FILE, lambda found: reassignment_json(found.proposed)),
        "moves",
    ),
)
STORED_PLAN_DOCUMENT = Document(
    "stored_plan",
    Shape(StoredPlanDocument, "executed", Inline("plan", STORED_PLAN), "moves=plan.stored.phases"),
)
BROKER_LOAD = Shape(BrokerLoad)
CANCELLED_MOVE = Shape(
    CancelledMove,
    *("move.topic_partition", given("from", _BEFORE, "move.before"), given("to", _AFTER, "move.after")),
    *("order_known", "order_from"),
)
REASSIGNMENT = Document(
    "reassignment",
    Shape(
        ReassignmentDocument,
        *("executed", "undo", "rollback_file", "throttle", "moves", "partitions"),
        given("status", nullable(_OUTCOME)),
    ),
)
REASSIGNMENTS = Document("reassignments", Shape(ReassignmentsDocument))
PLANS = Document("plans", Shape(PlansDocument))
CANCELLATION = Document(
    "reassignment_cancellation",
    Shape(
        CancellationDocument,
        *(
            "executed",
            "undo",
            "rollback_file",
            "partitions",
            given("status", nullable(_OUTCOME)),
            "unreadable",
        ),
    ),
)
PLAN = Document(
    "reassignment_plan",
    Shape(
        PlanDocument,
        *(field.name for field in fields(PlanDocument)),
        JsonKey(
            "changes",
            list_of(PLANNED_CHANGE.schema),
            lambda plan: [PLANNED_CHANGE.json(one) for one in plan.changes],
        ),
    ),
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
    made = ReassignmentDocument(
        executed=executed,
        undo=undo,
        rollback_file=rollback_file,
        throttle=plan.throttle,
        moves=plan.moves,
        partitions=plan.rows,
        status=status,
    )
    return REASSIGNMENT.json(plan.as_of, made)


def reassignments(
    as_of: AsOf,
    rows: Sequence[ReassignmentStatus],
    plans: Sequence[PlanDescription] | None = None,
    unreadable: Sequence[CorruptZnodeError] | None = None,
) -> Json:
    """`reassign verify` and `list`."""
    made = ReassignmentsDocument(reassignments=rows, plans=plans, unreadable=unreadable)
    return REASSIGNMENTS.json(as_of, made)


def plans(as_of: AsOf, stored: Sequence[PlanDescription], unreadable: Sequence[CorruptZnodeError]) -> Json:
    """`plan list`."""
    return PLANS.json(as_of, PlansDocument(plans=stored, unreadable=unreadable))


def stored_plan(one: PlanDescription, *, executed: bool) -> Json:
    """`plan resume`, `plan pause` and `plan cancel`."""
    return STORED_PLAN_DOCUMENT.json(one.as_of, StoredPlanDocument(executed=executed, plan=one))


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
        CancelledMove(
            move=row,
            order_known=row.topic_partition not in plan.unordered,
            order_from=plan.files.get(row.topic_partition),
        )
        for row in plan.rows
    ]
    made = CancellationDocument(
        executed=executed,
        undo=undo,
        rollback_file=rollback_file,
        partitions=rows,
        status=status,
        unreadable=None,
    )
    return CANCELLATION.json(plan.as_of, made)


def removal(plan: Removal, *, executed: bool, undo: str | None) -> Json:
    """`reassign cancel` of a request that cannot be read."""
    made = CancellationDocument(
        executed=executed, undo=undo, rollback_file=None, partitions=(), status=None, unreadable=plan.error
    )
    return CANCELLATION.json(plan.as_of, made)


def broker_loads(found: PhasedPlan) -> list[BrokerLoad]:
    """What each broker carries before and after a plan."""
    before, after = found.plan.before.loads, found.plan.after.loads
    return [
        BrokerLoad(
            broker=number,
            replicas_before=before[number].replicas,
            replicas_after=after[number].replicas,
            leaders_before=before[number].leaders,
            leaders_after=after[number].leaders,
        )
        for number in sorted(after)
    ]


def plan(
    found: PhasedPlan,
    files: Sequence[str],
    stored: PlanDescription | None = None,
    *,
    executed: bool = False,
    rollback_file: Path | None = None,
) -> Json:
    """`plan decommission`, `replace`, `set-rf` and `balance`."""
    made = PlanDocument(
        intent=found.plan.intent,
        moves=found.plan.moves,
        least_moves=found.plan.least_moves,
        bytes=found.plan.bytes,
        leader_changes=found.plan.leader_changes,
        files=files,
        phases=found.phases,
        changes=found.plan.changes,
        loads=broker_loads(found),
        notes=found.notes,
        executed=executed,
        rollback_file=None if rollback_file is None else str(rollback_file),
        kept=stored,
    )
    return PLAN.json(found.as_of, made)
