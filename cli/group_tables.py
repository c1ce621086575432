"""Groups as text for a person."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zkgroup.groups.descriptions import (
    GroupDescription,
    GroupState,
    GroupSummary,
    MemberDescription,
    PartitionDescription,
    Preview,
    Verification,
)
from zkgroup.groups.verify import hex_session

from .documents import threads_text
from .render import Cell, Column, Output, printable
from .units import age, counted

_STEPS = {
    "moves": Cell("moves", "warn"),
    "assigned": Cell("assigned", "good"),
    "released": Cell("released", "warn"),
}

_STATE_STYLES = {
    GroupState.STABLE: "good",
    GroupState.REBALANCING: "warn",
    GroupState.INCONSISTENT: "bad",
    GroupState.EMPTY: "dim",
}


def groups(out: Output, rows: Sequence[GroupSummary]) -> None:
    """One row a group."""
    with_lag = any(row.lag is not None for row in rows)
    columns = [
        Column(header="GROUP", shorten="middle"),
        Column(header="STATE"),
        Column(header="MEMBERS", right=True),
        Column(header="PARTITIONS", right=True, rank=1),
        Column(header="UNOWNED", right=True),
        *([Column(header="LAG", right=True)] if with_lag else []),
        Column(header="TOPICS", shorten="end", least=8, rank=2),
    ]
    out.table(
        columns,
        [
            [
                row.group,
                state_cell(row.state),
                row.members,
                row.partitions,
                Cell(str(row.unowned), "bad" if row.unowned else None),
                *([row.lag] if with_lag else []),
                ", ".join(row.topics),
            ]
            for row in rows
        ],
    )


def group(out: Output, described: GroupDescription) -> None:
    """A headline, the members, the partitions, and what is wrong beside them."""
    now_ms = described.as_of.time_ms
    parts = [
        out.paint(described.group, "bold"),
        out.paint(described.state.value, _STATE_STYLES[described.state]),
        *([described.assignor] if described.assignor else []),
        counted(len(described.members), "member"),
        counted(len(described.partitions), "partition"),
        out.paint(f"zxid 0x{described.as_of.zxid:x}", "dim"),
    ]
    out.line("  ".join(parts))
    if described.members:
        out.line()
        members(out, described.members, now_ms)
    if described.partitions:
        out.line()
        partitions(out, described.partitions, now_ms)
    rest = [problem for problem in described.problems if problem.partition is None]
    if rest:
        out.line()
    for problem in rest:
        out.line(f"{out.paint(problem.kind.value, 'bad')}  {problem.detail}")
    if described.problems:
        out.line(out.paint(f"details: zkgroup group verify {described.group}", "dim"))


def members(out: Output, rows: Iterable[MemberDescription], now_ms: int) -> None:
    """One row a member."""
    columns = [
        Column(header="MEMBER", shorten="middle", least=34),
        Column(header="CLIENT"),
        Column(header="HOST", shorten="end", least=6, rank=3),
        Column(header="SESSION", rank=4),
        Column(header="AGE", right=True, rank=2),
        Column(header="THREADS", shorten="end", least=10),
        Column(header="IN AGREEMENT", rank=1),
    ]
    agrees = {True: Cell("yes", "good"), False: Cell("no", "bad"), None: Cell("-", "dim")}
    out.table(
        columns,
        [
            [
                row.member,
                Cell(row.kind, "warn" if row.kind == "unknown" else None),
                row.host,
                hex_session(row.session_id),
                age(row.registered_at_ms, now_ms),
                threads_text(row.threads) or Cell("-", "dim"),
                agrees[row.agrees],
            ]
            for row in rows
        ],
    )


def partitions(out: Output, rows: Sequence[PartitionDescription], now_ms: int) -> None:
    """One row a partition; log ends and problems only where there are any."""
    with_ends = any(row.log_end_offset is not None for row in rows)
    with_problems = any(row.problem for row in rows)
    ends = [Column(header="END", right=True), Column(header="LAG", right=True)] if with_ends else []
    columns = [
        Column(header="TOPIC", shorten="middle", least=8),
        Column(header="PARTITION", right=True),
        Column(header="OWNER", shorten="middle", least=28),
        Column(header="OWNED", right=True, rank=2),
        Column(header="TOKEN", right=True, rank=3),
        Column(header="OFFSET", right=True),
        Column(header="COMMITTED", right=True, rank=1),
        *ends,
        *([Column(header="PROBLEM")] if with_problems else []),
    ]
    out.table(columns, [_partition_row(row, now_ms, with_ends, with_problems) for row in rows])


def verification(out: Output, found: Verification) -> None:
    """The good news, or one line a problem: its kind, and path, expected and found in words."""
    if found.converged:
        out.line(f"{out.paint('converged', 'good')}  {found.group}: every partition is where it belongs")
        return
    out.line(f"{out.paint('not converged', 'bad')}  {found.group}: {counted(len(found.problems), 'problem')}")
    out.line()
    width = max(len(problem.kind.value) for problem in found.problems)
    for problem in found.problems:
        since = age(problem.since_ms, found.as_of.time_ms)
        since_text = f" {out.paint(f'(for {since})', 'dim')}" if since is not None else ""
        kind = out.paint(f"{problem.kind.value:<{width}}", "bad")
        out.line(f"{kind}  {printable(problem.detail)}{since_text}")


def preview(out: Output, shown: Preview) -> None:
    """Owners now and then, and how many would change."""
    columns = [
        Column(header="TOPIC", shorten="middle", least=8),
        Column(header="PARTITION", right=True),
        Column(header="NOW", shorten="middle", least=16),
        Column(header="THEN", shorten="middle", least=16),
        Column(header=""),
    ]
    rows = [
        [
            row.topic_partition.topic,
            row.topic_partition.partition,
            row.now,
            row.then,
            _STEPS[row.step] if row.step else Cell(""),
        ]
        for row in shown.partitions
    ]
    out.table(columns, rows)
    out.line()
    more = [
        f"{count} would be {word}" for word in ("assigned", "released") if (count := shown.count_of(word))
    ]
    whole = counted(len(shown.partitions), "partition")
    out.line(", ".join([f"{shown.moves} of {whole} would move", *more]) + f" ({shown.assignor})")


def state_cell(state: GroupState) -> Cell:
    """A state in its colour."""
    return Cell(state.value, _STATE_STYLES[state])


def _partition_row(
    row: PartitionDescription, now_ms: int, with_ends: bool, with_problems: bool
) -> list[Cell | str | int | None]:
    cells: list[Cell | str | int | None] = [
        row.topic_partition.topic,
        row.topic_partition.partition,
        row.owner if row.owner is not None else Cell("none", "bad" if row.expected_owner else "dim"),
        age(row.owned_since_ms, now_ms),
        row.token,
        row.offset,
        age(row.committed_at_ms, now_ms),
    ]
    if with_ends:
        cells += [
            row.log_end_offset,
            Cell(str(row.lag), "warn" if row.lag else None) if row.lag is not None else None,
        ]
    if with_problems:
        cells.append(Cell(row.problem.value, "bad") if row.problem else Cell(""))
    return cells
