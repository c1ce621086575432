"""Reassignments and plans: the JSON documents, the tables, and the progress of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import NamedTuple

from zkgroup.admin import Move, Phase, PlannedMove
from zkgroup.admin.change import ChangeResult
from zkgroup.admin.files import reassignment_json
from zkgroup.admin.reassign.cancellation import CancelPlan, Removal
from zkgroup.admin.reassign.execution import ReassignmentOutcome
from zkgroup.admin.reassign.progress import ReassignmentProgress, ReassignmentStatus
from zkgroup.admin.reassign.proposals import PhasedPlan
from zkgroup.admin.reassign.stored_plans import PlanDescription
from zkgroup.admin.reassign.submission import ReassignmentPlan
from zkgroup.errors import CorruptZnodeError
from zkgroup.model.text import counted

from .render import Cell, Output, progress_line
from .schema import (
    BROKERS,
    COUNT,
    SECONDS,
    STRING,
    Document,
    Inline,
    Json,
    JsonKey,
    KeyColumn,
    NamedKeys,
    Shape,
    given,
    list_of,
    nullable,
    object_of,
    rows_of,
    word,
)
from .units import size, time_left

_PLAN_STYLES = {"running": "warn", "paused": "dim", "done": "good", "cancelled": "dim", "failed": "bad"}
_STYLES = {"done": "good", "in_progress": "warn", "failed": "bad", "unknown": "bad"}


class CancelledMove(NamedTuple):
    """A move that is cancelled; `order_from` is the file with the order of the old replicas."""

    move: PlannedMove
    order_known: bool
    order_from: str | None


class BrokerLoad(NamedTuple):
    """The replicas and leaderships of a broker before and after a plan."""

    broker: int
    replicas_before: int
    replicas_after: int
    leaders_before: int
    leaders_after: int


def _from_to(target: str = "after") -> tuple[JsonKey, JsonKey]:
    return given("from", nullable(BROKERS), "before"), given("to", BROKERS, target)


_OUTCOME = word("done", "in_progress", "failed")
_PLACE = (KeyColumn("topic", shorten="middle"), "partition")
_FROM, _TO = KeyColumn("from", shorten="end"), KeyColumn("to", shorten="end")

REPLICA_MOVE = Shape(PlannedMove, *("topic_partition", *_from_to(), "changes"), columns=(*_PLACE, _FROM, _TO))
MOVE_STATUS = Shape(
    ReassignmentStatus,
    *("topic_partition", *_from_to("target")),
    *(given("status", word("done", "in_progress", "failed", "unknown")), "detail"),
    "bytes_left",
    JsonKey("seconds_left", nullable(SECONDS), lambda row: row.left_ms and row.left_ms / 1000),
    columns=(
        *_PLACE,
        KeyColumn("from", shorten="end", rank=1),
        _TO,
        KeyColumn("status", cell=lambda row: Cell(row.status.replace("_", " "), _STYLES[row.status])),
        KeyColumn(
            *("bytes_left", "LEFT"),
            cell=lambda row: "" if row.bytes_left is None else size(row.bytes_left),
            when=lambda rows: any(row.bytes_left is not None for row in rows),
            right=True,
        ),
        KeyColumn(
            *("seconds_left", "TIME"),
            cell=lambda row: "" if row.left_ms is None else time_left(row.left_ms / 1000),
            when=lambda rows: any(row.left_ms is not None for row in rows),
            right=True,
        ),
        KeyColumn("detail", cell=lambda row: row.detail or "", shorten="end"),
    ),
)
PLANNED_CHANGE = Shape(
    PlannedMove,
    *("topic_partition", *_from_to(), "reason"),
    columns=(*_PLACE, _FROM, _TO, KeyColumn("reason", "WHY", shorten="end")),
)
STORED_PLAN = Shape(
    PlanDescription,
    *("plan", "state=stored.state"),
    JsonKey("reason", nullable(STRING), lambda one: one.stored.reason or None),
    *("stored.next_phase", JsonKey("phases", COUNT, lambda one: len(one.stored.phases)), "done", "total"),
    *("stored.throttle", "stored.by", "made_at=stored.time_ms"),
    columns=(
        "plan",
        KeyColumn("state", styles=_PLAN_STYLES),
        KeyColumn(
            "phase", cell=lambda one: f"{one.stored.next_phase} of {len(one.stored.phases)}", right=True
        ),
        KeyColumn("done", cell=lambda one: f"{'-' if one.done is None else one.done} of {one.total}"),
        KeyColumn("by", rank=2),
        KeyColumn("made_at", "MADE", rank=3),
        KeyColumn("reason", "WHY", cell=lambda one: one.stored.reason, shorten="end", rank=1),
    ),
)
PLANNED_MOVE = Shape(Move, "topic_partition", given("to", BROKERS, "replicas"))
UNREADABLE = Shape(
    CorruptZnodeError,
    JsonKey("path", STRING, attrgetter("path")),
    JsonKey("detail", STRING, lambda error: f"expected {error.expected}, found {error.found}"),
)
PHASE = Shape(Phase, "moves", "bytes", JsonKey("partitions", COUNT, lambda phase: len(phase.changes)))
BROKER_LOAD = Shape(
    BrokerLoad,
    columns=(
        "broker",
        KeyColumn("replicas_before", "REPLICAS"),
        KeyColumn("replicas_after", "THEN"),
        KeyColumn("leaders_before", "LEADERS"),
        KeyColumn("leaders_after", "THEN"),
    ),
)
CANCELLED_MOVE = Shape(
    CancelledMove,
    *("move.topic_partition", given("from", nullable(BROKERS), "move.before")),
    *(given("to", BROKERS, "move.after"), "order_known", "order_from"),
    columns=(*_PLACE, KeyColumn("from", "NOW", shorten="end"), KeyColumn("to", "BACK TO", shorten="end")),
)
# Kafka's format, as `reassignment_json` writes it into files too.
_KAFKA_FILE = object_of(
    version=COUNT, partitions=list_of(object_of(topic=STRING, partition=COUNT, replicas=BROKERS))
)
PROPOSAL = Document(
    "reassignment_proposal",
    Shape(
        ReassignmentPlan,
        JsonKey("current", _KAFKA_FILE, lambda found: reassignment_json(found.before)),
        JsonKey("proposed", _KAFKA_FILE, lambda found: reassignment_json(found.after)),
        "moves",
    ),
)
Reassigned = ChangeResult[ReassignmentPlan, None, ReassignmentOutcome]
REASSIGNMENT = Document(
    "reassignment",
    Shape(
        Reassigned,
        *("executed", "undo=undo_id", "rollback_file", "plan.throttle", "plan.moves", "partitions=plan.rows"),
        given("status", nullable(_OUTCOME), "outcome.status"),
    ),
    rows="partitions",
)
REASSIGNMENTS = Document(
    "reassignments",
    NamedKeys(
        reassignments=Sequence[ReassignmentStatus],
        # null of `reassign verify`, which reads no plans and reports unreadable states by row
        plans=Sequence[PlanDescription] | None,
        unreadable=Sequence[CorruptZnodeError] | None,
    ),
    rows="reassignments",
)
PLANS = Document(
    "plans", NamedKeys(plans=Sequence[PlanDescription], unreadable=Sequence[CorruptZnodeError]), rows="plans"
)
Cancelled = ChangeResult[CancelPlan, None, ReassignmentOutcome]
Removed = ChangeResult[Removal, None, None]


def _unreadable(result: Cancelled | Removed) -> Json | None:
    return UNREADABLE.json(result.plan.error) if isinstance(result.plan, Removal) else None


CANCELLATION = Document(
    "reassignment_cancellation",
    Shape(
        ChangeResult[CancelPlan | Removal, None, ReassignmentOutcome],
        *("executed", "undo=undo_id", "rollback_file"),
        rows_of("partitions", CANCELLED_MOVE, lambda result: cancelled_moves(result.plan)),
        given("status", nullable(_OUTCOME), "outcome.status"),
        JsonKey("unreadable", nullable(UNREADABLE.schema), _unreadable),
    ),
    rows="partitions",
)
"""Also of a request that cannot be read."""


class ShownPhases(NamedTuple):
    """A plan, the files that it was written to, and, once it is stored or runs, how it stands."""

    found: PhasedPlan
    files: Sequence[str]
    executed: bool
    rollback_file: str | None
    kept: PlanDescription | None


PLAN = Document(
    "reassignment_plan",
    Shape(
        ShownPhases,
        *("found.plan.intent", "found.plan.moves", "found.plan.least_moves", "found.plan.bytes"),
        *("found.plan.leader_changes", "files", "found.phases"),
        rows_of("changes", PLANNED_CHANGE, lambda one: one.found.plan.changes),
        rows_of("loads", BROKER_LOAD, lambda one: broker_loads(one.found)),
        *("found.notes", "executed", "rollback_file", "kept"),
    ),
    rows="changes",
)


class ShownPlan(NamedTuple):
    """A stored plan, and whether it was resumed, paused or cancelled."""

    executed: bool
    plan: PlanDescription


STORED_PLAN_DOCUMENT = Document(
    "stored_plan",
    Shape(ShownPlan, "executed", Inline("plan", STORED_PLAN), "moves=plan.stored.phases"),
)


def cancelled_moves(plan: CancelPlan | Removal) -> list[CancelledMove]:
    """The moves that are cancelled; those of a request that cannot be read are not known."""
    if isinstance(plan, Removal):
        return []
    return [
        CancelledMove(row, row.topic_partition not in plan.unordered, plan.files.get(row.topic_partition))
        for row in plan.rows
    ]


def broker_loads(found: PhasedPlan) -> list[BrokerLoad]:
    """The loads of each broker before and after a plan."""
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


def moves(out: Output, rows: Sequence[ReassignmentStatus]) -> None:
    """One row a partition, and how many are done."""
    MOVE_STATUS.table(out, rows)
    done = sum(row.status == "done" for row in rows)
    out.line(f"{done} of {counted(len(rows), 'partition')} done")


def reassigned(out: Output, result: Reassigned) -> None:
    """The moves of a reassignment request."""
    plan = result.plan
    if not plan.effective:
        out.line("every partition is there already: nothing to do")
        return
    REPLICA_MOVE.table(out, plan.effective)
    same = len(plan.rows) - len(plan.effective)
    throttle = f" at {size(plan.throttle)}/s a broker" if plan.throttle is not None else ""
    copies = f"{_copies(plan.moves)}{throttle}"
    rest = f"; {same} there already" if same else ""
    verb = "asked for" if result.executed else "would ask for"
    out.line(f"{verb} {counted(len(plan.effective), 'partition')}, {copies}{rest}")


def cancelled(out: Output, result: Cancelled) -> None:
    """The moves that are cancelled."""
    CANCELLED_MOVE.table(out, cancelled_moves(result.plan))
    verb = "cancelled" if result.executed else "would cancel"
    out.line(f"{verb} {counted(len(result.plan.rows), 'move')}")


def removed(out: Output, result: Removed) -> None:
    """The request that cannot be read, and is removed."""
    znode, verb = result.plan.znode, "removed" if result.executed else "would remove"
    out.line(f"{verb} {znode.path}, {counted(len(znode.data or b''), 'byte')} that cannot be read")


def phased(out: Output, found: PhasedPlan, files: Sequence[str]) -> None:
    """A plan: its changes with their reasons, the loads before and after, the requests it takes."""
    plan = found.plan
    if not plan.changes:
        out.line(f"{plan.intent}: nothing to do")
        return
    PLANNED_CHANGE.table(out, plan.changes)
    out.line()
    BROKER_LOAD.table(out, broker_loads(found))
    out.line()
    proven = ", the fewest" if plan.moves == plan.least_moves else ""
    data = "" if plan.bytes is None else f", {size(plan.bytes)}"
    out.line(
        f"{plan.intent}: {_copies(plan.moves)}{proven}{data}, "
        f"{counted(plan.leader_changes, 'other preferred leader')}, "
        f"in {counted(len(found.phases), 'request')}"
    )
    for file, phase in zip(files, found.phases, strict=False):
        out.line(f"  {file}: {_copies(phase.moves)}")


def progress_text(progress: ReassignmentProgress) -> str:
    """`3 of 12 partitions done, 1.5 a minute, 6m left`; with sizes `4.2 GB left at 35.0 MB/s, 2m left`."""
    parts = [f"{progress.done} of {counted(progress.total, 'partition')} done"]
    if progress.bytes_left:
        rate = progress.bytes_per_second
        parts.append(f"{size(progress.bytes_left)} left" + (f" at {size(round(rate))}/s" if rate else ""))
        if rate and progress.left_ms is not None:
            parts.append(f"{time_left(progress.left_ms / 1000)} left")
    elif progress.per_minute is not None and progress.left_ms is not None and progress.done < progress.total:
        parts += [f"{progress.per_minute:.1f} a minute", f"{time_left(progress.left_ms / 1000)} left"]
    return ", ".join(parts)


@contextmanager
def progress() -> Iterator[Callable[[ReassignmentProgress], None]]:
    """Shows progress on stderr: one line that is written over on a terminal, else a line at each change."""
    with progress_line() as show:
        yield lambda found: show(progress_text(found), found.done)


def _copies(count: int) -> str:
    return "1 copy" if count == 1 else f"{count} copies"
