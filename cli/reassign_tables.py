"""Reassignments as text for a person, and the progress of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from zkgroup.admin import PlannedMove
from zkgroup.admin.reassign.cancellation import CancelPlan
from zkgroup.admin.reassign.progress import ReassignmentProgress, ReassignmentStatus
from zkgroup.admin.reassign.proposals import PhasedPlan
from zkgroup.admin.reassign.stored_plans import PlanDescription
from zkgroup.admin.reassign.submission import ReassignmentPlan

from .reassign_documents import BrokerLoad, broker_loads
from .render import Cell, Output, TableColumn, progress_line
from .units import counted, iso_time, size, time_left

_PLAN_STYLES = {"running": "warn", "paused": "dim", "done": "good", "cancelled": "dim", "failed": "bad"}
_STYLES = {"done": "good", "in_progress": "warn", "failed": "bad", "unknown": "bad"}


def _brokers(numbers: Sequence[int] | None) -> str | None:
    return None if numbers is None else ",".join(map(str, numbers))


_PLACE: list[TableColumn[Any]] = [
    TableColumn("TOPIC", lambda row: row.topic_partition.topic, shorten="middle"),
    TableColumn("PARTITION", lambda row: row.topic_partition.partition, right=True),
]
_STATUS_COLUMNS: list[TableColumn[ReassignmentStatus]] = [
    *_PLACE,
    TableColumn("FROM", lambda row: _brokers(row.before), shorten="end", rank=1),
    TableColumn("TO", lambda row: _brokers(row.target), shorten="end"),
    TableColumn("STATUS", lambda row: Cell(row.status.replace("_", " "), _STYLES[row.status])),
    TableColumn("DETAIL", lambda row: row.detail or "", shorten="end"),
]
_MOVE_COLUMNS: list[TableColumn[PlannedMove]] = [
    *_PLACE,
    TableColumn("FROM", lambda row: _brokers(row.before), shorten="end"),
    TableColumn("TO", lambda row: _brokers(row.after), shorten="end"),
]
_CANCEL_COLUMNS: list[TableColumn[PlannedMove]] = [
    *_PLACE,
    TableColumn("NOW", lambda row: _brokers(row.before), shorten="end"),
    TableColumn("BACK TO", lambda row: _brokers(row.after), shorten="end"),
]
_CHANGE_COLUMNS: list[TableColumn[PlannedMove]] = [
    *_PLACE,
    TableColumn("FROM", lambda row: _brokers(row.before), shorten="end"),
    TableColumn("TO", lambda row: _brokers(row.after), shorten="end"),
    TableColumn("WHY", lambda row: row.reason, shorten="end"),
]
_LOAD_COLUMNS: list[TableColumn[BrokerLoad]] = [
    TableColumn("BROKER", lambda row: row.broker, right=True),
    TableColumn("REPLICAS", lambda row: row.replicas_before, right=True),
    TableColumn("THEN", lambda row: row.replicas_after, right=True),
    TableColumn("LEADERS", lambda row: row.leaders_before, right=True),
    TableColumn("THEN", lambda row: row.leaders_after, right=True),
]
_PLAN_COLUMNS: list[TableColumn[PlanDescription]] = [
    TableColumn("PLAN", lambda one: one.plan),
    TableColumn("STATE", lambda one: Cell(one.stored.state, _PLAN_STYLES[one.stored.state])),
    TableColumn("PHASE", lambda one: f"{one.stored.next_phase} of {len(one.stored.phases)}", right=True),
    TableColumn("DONE", lambda one: f"{'-' if one.done is None else one.done} of {one.total}", right=True),
    TableColumn("BY", lambda one: one.stored.by, rank=2),
    TableColumn("MADE", lambda one: iso_time(one.stored.time_ms), rank=3),
    TableColumn("WHY", lambda one: one.stored.reason, shorten="end", rank=1),
]


def moves(out: Output, rows: Sequence[ReassignmentStatus]) -> None:
    """One row a partition, and how many are done."""
    out.table(_STATUS_COLUMNS, rows)
    done = sum(row.status == "done" for row in rows)
    out.line(f"{done} of {counted(len(rows), 'partition')} done")


def plan(out: Output, plan: ReassignmentPlan, *, executed: bool) -> None:
    """The moves of a reassignment request."""
    if not plan.effective:
        out.line("every partition is there already: nothing to do")
        return
    out.table(_MOVE_COLUMNS, plan.effective)
    same = len(plan.rows) - len(plan.effective)
    throttle = f" at {size(plan.throttle)}/s a broker" if plan.throttle is not None else ""
    copies = f"{_copies(plan.moves)}{throttle}"
    rest = f"; {same} there already" if same else ""
    verb = "asked for" if executed else "would ask for"
    out.line(f"{verb} {counted(len(plan.effective), 'partition')}, {copies}{rest}")


def cancelled(out: Output, plan: CancelPlan, *, executed: bool = False) -> None:
    """The moves that are cancelled."""
    out.table(_CANCEL_COLUMNS, plan.rows)
    out.line(f"{'cancelled' if executed else 'would cancel'} {counted(len(plan.rows), 'move')}")


def phased(out: Output, found: PhasedPlan, files: Sequence[str]) -> None:
    """A plan: its changes with their reasons, the loads before and after, the requests it takes."""
    plan = found.plan
    if not plan.changes:
        out.line(f"{plan.intent}: nothing to do")
        return
    out.table(_CHANGE_COLUMNS, plan.changes)
    out.line()
    out.table(_LOAD_COLUMNS, broker_loads(found))
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


def plans(out: Output, found: Sequence[PlanDescription]) -> None:
    """One row a stored plan."""
    out.table(_PLAN_COLUMNS, found)


def progress_text(progress: ReassignmentProgress) -> str:
    """`3 of 12 partitions done, 1.5 a minute, 6m left`."""
    parts = [f"{progress.done} of {counted(progress.total, 'partition')} done"]
    if progress.per_minute is not None and progress.left_ms is not None and progress.done < progress.total:
        parts += [f"{progress.per_minute:.1f} a minute", f"{time_left(progress.left_ms / 1000)} left"]
    return ", ".join(parts)


@contextmanager
def progress() -> Iterator[Callable[[ReassignmentProgress], None]]:
    """Shows progress on stderr: one line that is written over on a terminal, else a line at each change."""
    with progress_line() as show:
        yield lambda found: show(progress_text(found), found.done)


def _copies(count: int) -> str:
    return "1 copy" if count == 1 else f"{count} copies"
