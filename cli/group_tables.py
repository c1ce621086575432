"""Groups and their offsets as text for a person."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence

from zkgroup.admin.offsets.planning import OffsetChange, OffsetPlan
from zkgroup.admin.persistent import FIX_PERSISTENT, by_parent
from zkgroup.groups.descriptions import (
    GroupDescription,
    GroupState,
    GroupSummary,
    MemberDescription,
    OffsetDescription,
    PartitionDescription,
    Preview,
    PreviewRow,
    ProblemKind,
    Verification,
)
from zkgroup.model.requests import hex_session

from .documents import threads_text
from .render import Cell, Output, TableColumn, short_name
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
    lag: list[TableColumn[GroupSummary]] = [TableColumn("LAG", lambda row: row.lag, right=True)]
    with_lag = any(row.lag is not None for row in rows)
    protocol: list[TableColumn[GroupSummary]] = [
        TableColumn("PROTOCOL", lambda row: row.protocol),
        TableColumn("PROTOCOL STATE", lambda row: row.protocol_state, rank=3),
    ]
    columns: list[TableColumn[GroupSummary]] = [
        TableColumn("GROUP", lambda row: row.group, shorten="middle"),
        TableColumn("STATE", lambda row: state_cell(row.state)),
        *(protocol if any(row.protocol == "coordinator" for row in rows) else []),
        TableColumn("MEMBERS", lambda row: row.members, right=True),
        TableColumn("PARTITIONS", lambda row: row.partitions, right=True, rank=1),
        TableColumn(
            "UNOWNED", lambda row: Cell(str(row.unowned), "bad" if row.unowned else None), right=True
        ),
        *(lag if with_lag else []),
        TableColumn("TOPICS", lambda row: ", ".join(row.topics), shorten="end", least=8, rank=2),
    ]
    out.table(columns, rows)


def group(out: Output, described: GroupDescription) -> None:
    """A headline, the members, the partitions, and what is wrong beside them."""
    now_ms = described.as_of.time_ms
    parts = [
        out.paint(described.group, "bold"),
        out.paint(described.state.value, _STATE_STYLES[described.state]),
        *([short_name(described.assignor)] if described.assignor else []),
        *_protocol_words(described),
        counted(len(described.members), "member"),
        counted(len(described.partitions), "partition"),
        out.paint(f"zxid 0x{described.as_of.zxid:x}", "dim"),
    ]
    out.line("  ".join(parts))
    clients = [member for member in described.members if member.kind == "client"]
    registered = [member for member in described.members if member.kind != "client"]
    if clients:
        out.line()
        client_members(out, clients, described.partitions)
    if registered:
        out.line()
        members(out, registered, now_ms)
    if described.partitions:
        out.line()
        partitions(out, described.partitions, now_ms)
    if any(row.token is not None and row.owner == row.member for row in described.partitions):
        text = "owners are in another client's format: the id of a member, without a thread"
        out.line(out.paint(text, "dim"))
    _problems(out, described)


def _problems(out: Output, described: GroupDescription) -> None:
    """Those that no row of a partition shows, and the paths of what no session holds."""
    persistent, unheld = ProblemKind.PERSISTENT_ZNODE, by_parent(described.persistent)
    lines = [(persistent, f"{paths}: {effect}: {FIX_PERSISTENT}") for paths, effect in unheld]
    rest = [each for each in described.problems if each.partition is None and each.kind is not persistent]
    lines += [(each.kind, each.detail) for each in rest]
    if lines:
        out.line()
    for each, detail in lines:
        out.line(f"{out.paint(each.value, 'bad')}  {detail}")
    if described.problems:
        out.line(out.paint(f"details: zkgroup group verify {shlex.quote(described.group)}", "dim"))


def _session_cell(row: MemberDescription) -> str | None:
    return None if row.session_id is None else hex_session(row.session_id)


_AGREES = {True: Cell("yes", "good"), False: Cell("no", "bad"), None: Cell("-", "dim")}


def members(out: Output, rows: Iterable[MemberDescription], now_ms: int) -> None:
    """One row a member."""
    columns: list[TableColumn[MemberDescription]] = [
        TableColumn("MEMBER", lambda row: row.member, shorten="middle", least=34),
        TableColumn("CLIENT", lambda row: Cell(row.kind, "warn" if row.kind == "unknown" else None)),
        TableColumn("HOST", lambda row: row.host, shorten="end", least=6, rank=3),
        TableColumn("SESSION", _session_cell, rank=4),
        TableColumn("AGE", lambda row: age(row.registered_at_ms, now_ms), right=True, rank=2),
        TableColumn(
            "THREADS", lambda row: threads_text(row.threads) or Cell("-", "dim"), shorten="end", least=10
        ),
        TableColumn("IN AGREEMENT", lambda row: _AGREES[row.agrees], rank=1),
    ]
    out.table(columns, rows)


def _protocol_words(described: GroupDescription) -> list[str]:
    """What a coordinator says of its group: Kafka's state and the generation."""
    if described.protocol != "coordinator":
        return []
    state = described.protocol_state or "no answer from its coordinator"
    generation = described.group_generation
    return [state, *([] if generation is None else [f"generation {generation}"])]


def client_members(
    out: Output, rows: Iterable[MemberDescription], owned: Sequence[PartitionDescription]
) -> None:
    """One row a member of Kafka's protocol."""
    counts = Counter(row.member for row in owned)
    columns: list[TableColumn[MemberDescription]] = [
        TableColumn("MEMBER", lambda row: row.member, shorten="middle", least=34),
        TableColumn("CLIENT ID", lambda row: row.client_id, shorten="end", least=9, rank=2),
        TableColumn("HOST", lambda row: row.host, shorten="end", least=6, rank=3),
        TableColumn("INSTANCE ID", lambda row: row.instance_id, shorten="end", least=11, rank=4),
        TableColumn("PARTITIONS", lambda row: counts[row.member], right=True),
        TableColumn(
            "TOPICS", lambda row: threads_text(row.threads) or Cell("-", "dim"), shorten="end", least=10
        ),
    ]
    out.table(columns, rows)


def partitions(out: Output, rows: Sequence[PartitionDescription], now_ms: int) -> None:
    """One row a partition; log ends, times of owner znodes and problems only where there are any."""
    znodes: list[TableColumn[PartitionDescription]] = [
        TableColumn("OWNED", lambda row: age(row.owned_since_ms, now_ms), right=True, rank=2),
        TableColumn("TOKEN", lambda row: row.token, right=True, rank=3),
    ]
    has_clients = any(row.owner is not None and row.token is None for row in rows)
    ends: list[TableColumn[PartitionDescription]] = [
        TableColumn("END", lambda row: row.log_end_offset, right=True),
        TableColumn("LAG", _lag_cell, right=True),
    ]
    problems: list[TableColumn[PartitionDescription]] = [TableColumn("PROBLEM", _problem_cell)]
    columns: list[TableColumn[PartitionDescription]] = [
        TableColumn("TOPIC", lambda row: row.topic_partition.topic, shorten="middle", least=8),
        TableColumn("PARTITION", lambda row: row.topic_partition.partition, right=True),
        TableColumn("OWNER", _owner_cell, shorten="middle", least=28),
        *([] if has_clients else znodes),
        TableColumn("OFFSET", lambda row: row.offset, right=True),
        TableColumn("COMMITTED", lambda row: age(row.committed_at_ms, now_ms), right=True, rank=1),
        *(ends if any(row.log_end_offset is not None for row in rows) else []),
        *(problems if any(row.problem for row in rows) else []),
    ]
    out.table(columns, rows)


def _owner_cell(row: PartitionDescription) -> Cell | str:
    if row.owner is not None:
        return row.owner
    return Cell("none", "bad" if row.expected_owner else "dim")


def _lag_cell(row: PartitionDescription) -> Cell | None:
    return Cell(str(row.lag), "warn" if row.lag else None) if row.lag is not None else None


def _problem_cell(row: PartitionDescription) -> Cell:
    return Cell(row.problem.value, "bad") if row.problem else Cell("")


def verification(out: Output, found: Verification) -> None:
    """`converged`, or one line a problem: its kind, and path, expected and found."""
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
        out.line(f"{kind}  {problem.detail}{since_text}")


def preview(out: Output, shown: Preview) -> None:
    """Owners now and then, and how many would change."""
    columns: list[TableColumn[PreviewRow]] = [
        TableColumn("TOPIC", lambda row: row.topic_partition.topic, shorten="middle", least=8),
        TableColumn("PARTITION", lambda row: row.topic_partition.partition, right=True),
        TableColumn("NOW", lambda row: row.now, shorten="middle", least=16),
        TableColumn("THEN", lambda row: row.then, shorten="middle", least=16),
        TableColumn("", lambda row: _STEPS[row.step] if row.step else Cell("")),
    ]
    out.table(columns, shown.partitions)
    out.line()
    more = [
        f"{count} would be {word}" for word in ("assigned", "released") if (count := shown.count_of(word))
    ]
    whole = counted(len(shown.partitions), "partition")
    out.line(", ".join([f"{shown.moves} of {whole} would move", *more]) + f" ({shown.assignor})")


def state_cell(state: GroupState) -> Cell:
    """A state in its colour."""
    return Cell(state.value, _STATE_STYLES[state])


def offsets(out: Output, rows: Sequence[OffsetDescription], now_ms: int) -> None:
    """One row a partition."""
    ends: list[TableColumn[OffsetDescription]] = [
        TableColumn("END", lambda row: row.log_end_offset, right=True),
        TableColumn("LAG", lambda row: row.lag, right=True),
    ]
    columns: list[TableColumn[OffsetDescription]] = [
        TableColumn("TOPIC", lambda row: row.topic_partition.topic, shorten="middle", least=8),
        TableColumn("PARTITION", lambda row: row.topic_partition.partition, right=True),
        TableColumn("OFFSET", lambda row: row.offset, right=True),
        *(ends if any(row.log_end_offset is not None for row in rows) else []),
        TableColumn("COMMITTED", lambda row: age(row.committed_at_ms, now_ms), right=True, rank=1),
        TableColumn("VERSION", lambda row: row.version, right=True, rank=2),
        TableColumn("OWNER", lambda row: row.owner, shorten="middle", least=20, rank=3),
    ]
    out.table(columns, rows)


GroupChange = tuple[str, OffsetChange]
"""A change, and the group whose offset it is."""

_CHANGE_COLUMNS: list[TableColumn[GroupChange]] = [
    TableColumn("GROUP", lambda row: row[0], shorten="middle", least=8, rank=1),
    TableColumn("TOPIC", lambda row: row[1].topic_partition.topic, shorten="middle", least=8),
    TableColumn("PARTITION", lambda row: row[1].topic_partition.partition, right=True),
    TableColumn("BEFORE", lambda row: row[1].before, right=True),
    TableColumn("AFTER", lambda row: row[1].after if row[1].after >= 0 else None, right=True),
    TableColumn("CHANGE", lambda row: _difference(row[1]), right=True),
]


def offset_plan(out: Output, plans: Sequence[OffsetPlan], *, executed: bool) -> None:
    """Offsets before and after, and how many change."""
    out.table(_CHANGE_COLUMNS, [(one.group, change) for one in plans for change in one.changes])
    effective = sum(len(one.effective) for one in plans)
    same = sum(len(one.changes) for one in plans) - effective
    verb = "changed" if executed else "would change"
    out.line()
    out.line(f"{counted(effective, 'offset')} {verb}" + (f", {same} as they are" if same else ""))


def _difference(change: OffsetChange) -> Cell:
    """`-` where nothing is written, `new`, `gone`, or by how much the offset changes."""
    before, after = change.before, change.after
    if not change.changes or after == before:
        return Cell("-", "dim")
    if after >= 0 and before is not None:
        return Cell(f"{after - before:+d}", "warn" if after < before else None)
    return Cell("new" if after >= 0 or change.version is None else "gone", "warn")
