"""Reassignments as text for a person, and the progress of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from zkgroup.admin.reassign.cancellation import CancelPlan
from zkgroup.admin.reassign.progress import ReassignmentProgress, ReassignmentStatus
from zkgroup.admin.reassign.proposals import PhasedPlan
from zkgroup.admin.reassign.stored_plans import PlanDescription
from zkgroup.admin.reassign.submission import ReassignmentPlan

from .render import Cell, Column, Output, Row, progress_line
from .units import counted, iso_time, size

_PLAN_STYLES = {"running": "warn", "paused": "dim", "done": "good", "cancelled": "dim", "failed": "bad"}
_STYLES = {"done": "good", "in_progress": "warn", "failed": "bad", "unknown": "bad"}


def moves(out: Output, rows: Sequence[ReassignmentStatus]) -> None:
    """One row a partition, and how many have come where they shall be."""
    columns = [
        *_place_columns(),
        Column(header="FROM", shorten="end", rank=1),
        Column(header="TO", shorten="end"),
        Column(header="STATUS"),
        Column(header="DETAIL", shorten="end"),
    ]
    table = [
        [
            row.topic_partition.topic,
            row.topic_partition.partition,
            None if row.before is None else _brokers(row.before),
            _brokers(row.target),
            Cell(row.status.replace("_", " "), _STYLES[row.status]),
            row.detail or "",
        ]
        for row in rows
    ]
    out.table(columns, table)
    done = sum(row.status == "done" for row in rows)
    out.line(f"{done} of {counted(len(rows), 'partition')} done")


def plan(out: Output, plan: ReassignmentPlan, *, executed: bool) -> None:
    """What is asked for."""
    if not plan.effective:
        out.line("every partition is there already: nothing to do")
        return
    columns = [*_place_columns(), Column(header="FROM", shorten="end"), Column(header="TO", shorten="end")]
    table: list[Row] = [
        [*row.topic_partition, _brokers(row.before), _brokers(row.after)] for row in plan.effective
    ]
    out.table(columns, table)
    same = len(plan.rows) - len(plan.effective)
    throttle = f" at {size(plan.throttle)}/s a broker" if plan.throttle is not None else ""
    copies = f"{_copies(plan.moves)}{throttle}"
    rest = f"; {same} there already" if same else ""
    verb = "asked for" if executed else "would ask for"
    out.line(f"{verb} {counted(len(plan.effective), 'partition')}, {copies}{rest}")


def cancelled(out: Output, plan: CancelPlan, *, executed: bool = False) -> None:
    """What is sent back."""
    columns = [
        *_place_columns(),
        Column(header="NOW", shorten="end"),
        Column(header="BACK TO", shorten="end"),
    ]
    table: list[Row] = [
        [*row.topic_partition, _brokers(row.before), _brokers(row.after)] for row in plan.rows
    ]
    out.table(columns, table)
    out.line(f"{'cancelled' if executed else 'would cancel'} {counted(len(plan.rows), 'move')}")


def phased(out: Output, found: PhasedPlan, files: Sequence[str]) -> None:
    """A plan: its changes with their reasons, the loads before and after, the requests it takes."""
    plan = found.plan
    if not plan.changes:
        out.line(f"{plan.intent}: nothing to do")
        return
    columns = [
        *_place_columns(),
        Column(header="FROM", shorten="end"),
        Column(header="TO", shorten="end"),
        Column(header="WHY", shorten="end"),
    ]
    table: list[Row] = [
        [*one.topic_partition, _brokers(one.before), _brokers(one.after), one.reason] for one in plan.changes
    ]
    out.table(columns, table)
    out.line()
    loads = [
        Column(header="BROKER", right=True),
        Column(header="REPLICAS", right=True),
        Column(header="THEN", right=True),
        Column(header="LEADERS", right=True),
        Column(header="THEN", right=True),
    ]
    before, after = plan.before.loads, plan.after.loads
    rows = [
        [number, before[number].replicas, one.replicas, before[number].leaders, one.leaders]
        for number, one in sorted(after.items())
    ]
    out.table(loads, rows)
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
    """One row a plan that is kept."""
    columns = [
        Column(header="PLAN"),
        Column(header="STATE"),
        Column(header="PHASE", right=True),
        Column(header="DONE", right=True),
        Column(header="BY", rank=2),
        Column(header="MADE", rank=3),
        Column(header="WHY", shorten="end", rank=1),
    ]
    rows: list[Row] = [
        [
            one.plan,
            Cell(one.stored.state, _PLAN_STYLES[one.stored.state]),
            f"{one.stored.next_phase} of {len(one.stored.phases)}",
            f"{'-' if one.done is None else one.done} of {one.total}",
            one.stored.by,
            iso_time(one.stored.time_ms),
            one.stored.reason,
        ]
        for one in found
    ]
    out.table(columns, rows)


def progress_text(progress: ReassignmentProgress) -> str:
    """`3 of 12 partitions done, 1.5 a minute, 6m left`."""
    parts = [f"{progress.done} of {counted(progress.total, 'partition')} done"]
    if progress.per_minute is not None and progress.left_ms is not None and progress.done < progress.total:
        parts += [f"{progress.per_minute:.1f} a minute", f"{_left(progress.left_ms)} left"]
    return ", ".join(parts)


@contextmanager
def progress() -> Iterator[Callable[[ReassignmentProgress], None]]:
    """Shows progress on stderr: one line that is written over on a terminal, else a line at each change."""
    with progress_line() as show:
        yield lambda found: show(progress_text(found), found.done)


def _left(left_ms: int) -> str:
    seconds = max(1, round(left_ms / 1000))
    if seconds < 60:
        return f"{seconds}s"
    return f"{seconds // 60}m" if seconds < 3600 else f"{seconds // 3600}h{seconds % 3600 // 60:02d}m"


def _place_columns() -> list[Column]:
    return [Column(header="TOPIC", shorten="middle"), Column(header="PARTITION", right=True)]


def _brokers(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _copies(count: int) -> str:
    return "1 copy" if count == 1 else f"{count} copies"
