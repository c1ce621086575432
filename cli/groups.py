"""Groups and their offsets: the JSON documents and the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from zkgroup.admin.change import ChangeResult
from zkgroup.admin.files import SavedOffset
from zkgroup.admin.freezes import FreezePlan, UnfreezePlan
from zkgroup.admin.group_copies import RenamePlan
from zkgroup.admin.groups import DeletionPlan, NudgePlan
from zkgroup.admin.offsets.changes import OffsetsResult
from zkgroup.admin.offsets.planning import AffectedMember, OffsetChange, OffsetPlan
from zkgroup.admin.offsets.standing import OffsetStanding
from zkgroup.admin.persistent import FIX_PERSISTENT, by_parent
from zkgroup.groups.as_of import AsOf
from zkgroup.groups.check import GroupCheck, Reason
from zkgroup.groups.descriptions import (
    FreezeDescription,
    GroupDescription,
    GroupSummary,
    MemberDescription,
    OffsetDescription,
    PartitionDescription,
    Preview,
    PreviewRow,
    Problem,
    ProblemKind,
    Verification,
)
from zkgroup.groups.history import RebalanceDescription
from zkgroup.groups.snapshot import GroupSnapshot
from zkgroup.model.text import counted, duration_text, iso_time, typed

from .render import Cell, Output, echo_err, short_name
from .schema import (
    COUNT,
    SECONDS,
    TIME,
    Document,
    Inline,
    JsonKey,
    KeyColumn,
    NamedKeys,
    Shape,
    list_of,
    nullable,
)
from .units import age

_STATE_STYLES = {
    "stable": "good",
    "rebalancing": "warn",
    "inconsistent": "bad",
    "empty": "dim",
    "frozen": "warn",
}
_STEP_STYLES = {"moves": "warn", "assigned": "good", "released": "warn"}
_VERDICT_STYLES = {"ok": "good", "warn": "warn", "stop": "bad", "stall": "bad", "rewind": "bad"}
_AGREES = {True: Cell("yes", "good"), False: Cell("no", "bad"), None: Cell("-", "dim")}


def _has_coordinator(rows: Sequence[GroupSummary]) -> bool:
    return any(row.protocol == "coordinator" for row in rows)


def _has_ends(rows: Sequence[Any]) -> bool:
    return any(row.log_end_offset is not None for row in rows)


def _has_writers(rows: Sequence[OffsetDescription]) -> bool:
    return any(row.written_by is not None for row in rows)


def _has_verdicts(rows: Sequence[PartitionDescription]) -> bool:
    """Returns whether there is more than one read has: that no lag is ok."""
    return any(row.lag and row.verdict for row in rows)


def _has_znodes(rows: Sequence[PartitionDescription]) -> bool:
    """Returns whether no owner is a client of a coordinator, which has no owner znode."""
    return all(row.owner is None or row.token is not None for row in rows)


def threads_text(threads: Mapping[str, int]) -> str:
    """`orders, clicks×2`."""
    return ", ".join(f"{topic}×{count}" if count != 1 else topic for topic, count in sorted(threads.items()))


_PLACE = (KeyColumn("topic", shorten="middle", least=8), "partition")
_MEMBER = KeyColumn("member", shorten="middle", least=34)
_HOST = KeyColumn("host", shorten="end", least=6, rank=3)
_COMMITTED = KeyColumn(
    "committed_at", "COMMITTED", at=lambda row, now_ms: age(row.committed_at_ms, now_ms), right=True, rank=1
)
_END = KeyColumn("log_end_offset", "END", when=_has_ends)


def _threads(header: str) -> KeyColumn:
    return KeyColumn(
        "threads", header, lambda row: threads_text(row.threads) or Cell("-", "dim"), shorten="end", least=10
    )


FREEZE_OF_GROUP = Shape(FreezeDescription)
GROUP_SUMMARY = Shape(
    GroupSummary,
    columns=(
        KeyColumn("group", shorten="middle"),
        KeyColumn("state", styles=_STATE_STYLES),
        KeyColumn("protocol", when=_has_coordinator),
        KeyColumn("protocol_state", when=_has_coordinator, rank=3),
        "members",
        KeyColumn("partitions", rank=1),
        KeyColumn("unowned", cell=lambda row: Cell(str(row.unowned), "bad" if row.unowned else None)),
        KeyColumn("lag", when=lambda rows: any(row.lag is not None for row in rows)),
        KeyColumn("topics", shorten="end", least=8, rank=2),
    ),
)
MEMBER = Shape(
    MemberDescription,
    columns=(
        _MEMBER,
        KeyColumn("kind", "CLIENT", lambda row: Cell(row.kind, "warn" if row.kind == "unknown" else None)),
        _HOST,
        KeyColumn("pid", when=lambda rows: any(row.pid is not None for row in rows), rank=5),
        KeyColumn("version", when=lambda rows: any(row.version is not None for row in rows), rank=6),
        KeyColumn("capacity", when=lambda rows: any(row.capacity is not None for row in rows)),
        KeyColumn("rack", when=lambda rows: any(row.rack is not None for row in rows)),
        KeyColumn("session", rank=4),
        KeyColumn(
            "registered_at",
            "AGE",
            at=lambda row, now_ms: age(row.registered_at_ms, now_ms),
            right=True,
            rank=2,
        ),
        _threads("THREADS"),
        KeyColumn("agrees", "IN AGREEMENT", lambda row: _AGREES[row.agrees], rank=1),
        KeyColumn(
            "away_until",
            cell=lambda row: Cell(iso_time(row.away_until_ms) or "", "warn"),
            when=lambda rows: any(row.away_until_ms for row in rows),
        ),
    ),
)
_CLIENT = Shape(
    MemberDescription,
    columns=(
        _MEMBER,
        KeyColumn("client_id", shorten="end", least=9, rank=2),
        _HOST,
        KeyColumn("instance_id", shorten="end", least=11, rank=4),
        KeyColumn("partitions", at=lambda row, counts: counts[row.member], right=True),
        _threads("TOPICS"),
    ),
)
"""A member of Kafka's protocol; the table is of how many partitions each owns."""
GROUP_PARTITION = Shape(
    PartitionDescription,
    columns=(
        *_PLACE,
        KeyColumn("owner", cell=lambda row: _owner_cell(row), shorten="middle", least=28),
        KeyColumn(
            *("owned_since", "OWNED"),
            at=lambda row, now_ms: age(row.owned_since_ms, now_ms),
            when=_has_znodes,
            right=True,
            rank=2,
        ),
        KeyColumn("token", when=_has_znodes, rank=3),
        "offset",
        _COMMITTED,
        _END,
        KeyColumn("lag", cell=lambda row: _lag_cell(row), when=_has_ends),
        KeyColumn("verdict", styles=_VERDICT_STYLES, when=_has_verdicts),
        KeyColumn(
            "problem",
            cell=lambda row: Cell(row.problem.value, "bad") if row.problem else Cell(""),
            when=lambda rows: any(row.problem for row in rows),
        ),
    ),
)
PROBLEM = Shape(Problem)
GROUPS = Document("groups", NamedKeys(groups=Sequence[GroupSummary]), rows="groups")
GROUP = Document(
    "group",
    Shape(
        GroupDescription,
        *("group", "state", "assignor", "generation", "members", "partitions", "problems"),
        *("protocol", "protocol_state", "group_generation", "frozen"),
    ),
)
DESCRIBED_GROUPS = Document("groups", NamedKeys(groups=list_of(GROUP.schema)), rows="groups")
"""`group describe` of several groups: each is a whole document of its own."""
REASON = Shape(Reason)
GROUP_CHECK = Shape(GroupCheck, "group", "ok", "reasons")
CHECK = Document("check", NamedKeys(groups=Sequence[GroupCheck]), rows="groups")
REBALANCE = Shape(
    RebalanceDescription,
    *("time_ms", "generation", "reason", "joined", "left", "moved"),
    JsonKey("seconds", nullable(SECONDS), attrgetter("took_s")),
    columns=(
        "time",
        KeyColumn("generation", rank=3),
        KeyColumn("reason", shorten="end", least=8),
        KeyColumn("joined", cell=lambda row: _names(row.joined), shorten="end", least=10),
        KeyColumn("left", cell=lambda row: _names(row.left), shorten="end", least=10),
        "moved",
        KeyColumn("seconds", "TOOK", lambda row: _took(row), right=True),
    ),
)
HISTORY = Document("group_history", NamedKeys(rebalances=Sequence[RebalanceDescription]), rows="rebalances")
VERIFICATION = Document(
    "verify", Shape(Verification, "group", "converged", "problems", "frozen"), rows="problems"
)
PREVIEW_ROW = Shape(
    PreviewRow,
    columns=(
        *_PLACE,
        KeyColumn("now", shorten="middle", least=16),
        KeyColumn("then", shorten="middle", least=16),
        KeyColumn("step", "", lambda row: Cell(row.step or "", _STEP_STYLES.get(row.step))),
    ),
)
PREVIEW = Document("preview", Shape(Preview, "group", "assignor", "partitions", "moves"), rows="partitions")
OFFSET = Shape(
    OffsetDescription,
    columns=(
        *_PLACE,
        "offset",
        _END,
        KeyColumn("lag", when=_has_ends),
        _COMMITTED,
        KeyColumn("version", rank=2),
        KeyColumn("owner", shorten="middle", least=20, rank=3),
        KeyColumn("written_by", shorten="middle", least=20, when=_has_writers),
        KeyColumn(
            *("written_at", "WRITTEN"),
            at=lambda row, now_ms: age(row.written_at_ms, now_ms),
            when=_has_writers,
            right=True,
        ),
        KeyColumn("written_host", "HOST", shorten="end", least=6, when=_has_writers, rank=4),
        KeyColumn("written_version", "ZKGROUP", when=_has_writers, rank=6),
        KeyColumn("written_evidence", "KNOWN BY", when=_has_writers, rank=5),
    ),
)
OFFSETS = Document("offsets", NamedKeys(group=str, offsets=Sequence[OffsetDescription]), rows="offsets")
OFFSETS_LIST = Document("offsets_list", NamedKeys(groups=list_of(OFFSETS.schema)))
"""The same for several groups: each is a whole document of its own."""
SAVED_OFFSET = Shape(SavedOffset)
_PAST = Shape(AsOf, "zxid", JsonKey("time", nullable(TIME), lambda moment: iso_time(moment.time_ms)))
"""Of offsets out of files, whose time is not always known."""
OFFSET_EXPORT = Document("offset_export", NamedKeys(offsets=Sequence[SavedOffset]), _PAST, rows="offsets")
OFFSET_CHANGE = Shape(
    OffsetChange,
    *("topic_partition", "before"),
    JsonKey("after", nullable(COUNT), lambda change: change.after if change.after >= 0 else None),
    "changed=changes",
)
AFFECTED_MEMBER = Shape(AffectedMember, "member", "kind", "obeys", "partitions")
OFFSET_STANDING = Shape(OffsetStanding)
OFFSET_CHANGES = Document(
    "offset_changes",
    Shape(
        OffsetsResult,
        *("plan.group", "executed", "undo=undo_id", "plan.changes", "plan.members", "standing=outcome"),
    ),
)
OFFSET_CHANGES_LIST = Document("offset_changes_list", NamedKeys(groups=list_of(OFFSET_CHANGES.schema)))
"""The same for several groups: each is a whole document of its own."""
Nudging = ChangeResult[NudgePlan, None, None]
NUDGE = Document("nudge", Shape(Nudging, "plan.group", "executed", "plan.members"))
Freezing = ChangeResult[FreezePlan, int, None]
FREEZE = Document(
    "freeze",
    Shape(
        Freezing,
        *("plan.group", "executed", "undo=undo_id", "plan.reason", "plan.allow_takeover", "plan.members"),
        JsonKey("until", nullable(TIME), lambda result: iso_time(result.written)),
        JsonKey("owned", COUNT, lambda result: len(result.plan.owned)),
        JsonKey("unowned", COUNT, lambda result: len(result.plan.unowned)),
    ),
)
Unfreezing = ChangeResult[UnfreezePlan, None, None]
UNFREEZE = Document("unfreeze", Shape(Unfreezing, "plan.group", "executed", "plan.frozen"))
Deletion = ChangeResult[DeletionPlan, int, None]
GROUP_DELETION = Document(
    "group_deletion",
    Shape(
        Deletion,
        *("plan.group", "executed", "undo=undo_id", "plan.members"),
        JsonKey("offsets", COUNT, lambda result: len(result.plan.offsets)),
        JsonKey("znodes", COUNT, lambda one: one.plan.count if one.written is None else one.written),
        JsonKey("last_commit_at", nullable(TIME), lambda result: iso_time(result.plan.last_commit_ms)),
    ),
)
GROUP_DELETIONS = Document("group_deletions", NamedKeys(groups=list_of(GROUP_DELETION.schema)), rows="groups")
"""Deletions of several groups: each is a whole document of its own."""
Renaming = ChangeResult[RenamePlan, int, None]
RENAMING = Document(
    "group_rename",
    Shape(
        Renaming,
        *("plan.group", "plan.to", "executed", "undo=undo_id"),
        JsonKey("offsets", COUNT, lambda result: len(result.plan.offsets)),
    ),
)


def nudge(out: Output, result: Nudging) -> None:
    """The members that are nudged."""
    members, verb = result.plan.members, "nudged" if result.executed else "would nudge"
    out.line(f"{verb} {counted(len(members), 'member')}: {', '.join(members)}")


def freeze(out: Output, result: Freezing) -> None:
    """What is kept, and until when."""
    plan = result.plan
    what = f"{counted(len(plan.owned), 'partition')} of {counted(len(plan.members), 'member')}"
    if result.executed:
        out.line(f"froze {plan.group} until {iso_time(result.written)}: {what}")
    else:
        out.line(f"would freeze {plan.group} for {duration_text(plan.for_ms)}: {what}")


def unfreeze(out: Output, result: Unfreezing) -> None:
    """The freeze that ends."""
    frozen, verb = result.plan.frozen, "ended" if result.executed else "would end"
    out.line(f"{verb} the freeze of {result.plan.group} by {frozen.by}: {frozen.reason}")


def deletion(out: Output, result: Deletion) -> None:
    """The group that is deleted, and how much it is."""
    plan, verb = result.plan, "deleted" if result.executed else "would delete"
    offsets, members = counted(len(plan.offsets), "committed offset"), counted(len(plan.members), "member")
    out.line(f"{verb} group {plan.group}: {counted(plan.count, 'znode')}, {offsets}, {members}")


def deletions(out: Output, results: Sequence[Deletion]) -> None:
    """A line a group, with the age of its newest commit."""
    for result in results:
        plan, verb = result.plan, "deleted" if result.executed else "would delete"
        offsets, since = counted(len(plan.offsets), "committed offset"), "never committed"
        if plan.last_commit_ms is not None:
            since = f"last commit {age(plan.last_commit_ms, plan.as_of.time_ms)} ago"
        out.line(f"{verb} group {plan.group}: {counted(plan.count, 'znode')}, {offsets}, {since}")


def renaming(out: Output, result: Renaming) -> None:
    """The group, its new name, and how many offsets go with it."""
    plan, verb = result.plan, "renamed" if result.executed else "would rename"
    out.line(f"{verb} group {plan.group} to {plan.to}, with {counted(len(plan.offsets), 'offset')}")


def print_groups(out: Output, described: Sequence[GroupDescription]) -> bool:
    """The document of one group, or of several; False where none is wanted."""
    last = described[-1]
    if len(described) == 1:
        return GROUP.print(out, last.as_of, last)
    documents = [GROUP.json(one.as_of, one) for one in described]
    return DESCRIBED_GROUPS.print(out, last.as_of, groups=documents)


def group(out: Output, described: GroupDescription) -> None:
    """A headline, the members, the partitions, and what is wrong beside them."""
    now_ms = described.as_of.time_ms
    parts = [
        out.paint(described.group, "bold"),
        out.paint(described.state.value, _STATE_STYLES[described.state.value]),
        *([short_name(described.assignor)] if described.assignor else []),
        *_protocol_words(described),
        counted(len(described.members), "member"),
        counted(len(described.partitions), "partition"),
        out.paint(f"zxid 0x{described.as_of.zxid:x}", "dim"),
    ]
    out.line("  ".join(parts))
    _freeze_line(out, described.frozen)
    clients = [member for member in described.members if member.kind == "client"]
    registered = [member for member in described.members if member.kind != "client"]
    if clients:
        out.line()
        _CLIENT.table(out, clients, Counter(row.member for row in described.partitions))
    if registered:
        out.line()
        MEMBER.table(out, registered, now_ms)
    if described.partitions:
        out.line()
        GROUP_PARTITION.table(out, described.partitions, now_ms)
    if any(row.token is not None and row.owner == row.member for row in described.partitions):
        text = "owners are in another client's format: the id of a member, without a thread"
        out.line(out.paint(text, "dim"))
    _problems(out, described)


def _freeze_line(out: Output, frozen: FreezeDescription | None) -> None:
    """Until when a group is frozen, by whom and why; nothing where it is not."""
    if frozen is not None:
        until = iso_time(frozen.until_ms) or "an operator removes its marker"
        who = f" by {frozen.by}: {frozen.reason}" if frozen.by else ""
        out.line(f"{out.paint('frozen', 'warn')} until {until}{who}")


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
        out.line(out.paint(f"details: {typed('group verify', described.group)}", "dim"))


def _protocol_words(described: GroupDescription) -> list[str]:
    """Returns the coordinator's words about its group: Kafka's state and the generation."""
    if described.protocol != "coordinator":
        return []
    state = described.protocol_state or "no answer from its coordinator"
    generation = described.group_generation
    return [state, *([] if generation is None else [f"generation {generation}"])]


def _owner_cell(row: PartitionDescription) -> Cell | str:
    if row.owner is not None:
        return row.owner
    return Cell("none", "bad" if row.expected_owner else "dim")


def _lag_cell(row: PartitionDescription) -> Cell | None:
    return Cell(str(row.lag), "warn" if row.lag else None) if row.lag is not None else None


def verification(out: Output, found: Verification) -> None:
    """`converged`, or one line a problem: its kind, and path, expected and found."""
    if found.converged:
        is_owned = "where it belongs" if found.frozen is None else "owned that a member wants"
        what = f"every partition is {is_owned}"
        out.line(f"{out.paint('converged', 'good')}  {found.group}: {what}")
        _freeze_line(out, found.frozen)
        return
    out.line(f"{out.paint('not converged', 'bad')}  {found.group}: {counted(len(found.problems), 'problem')}")
    _freeze_line(out, found.frozen)
    out.line()
    width = max(len(problem.kind.value) for problem in found.problems)
    for problem in found.problems:
        since = age(problem.since_ms, found.as_of.time_ms)
        since_text = f" {out.paint(f'(for {since})', 'dim')}" if since is not None else ""
        kind = out.paint(f"{problem.kind.value:<{width}}", "bad")
        out.line(f"{kind}  {problem.detail}{since_text}")


def check(out: Output, checks: Sequence[GroupCheck]) -> None:
    """One line a reason, by group; how many are ok where all are."""
    reasons = [(one.group, reason) for one in checks for reason in one.reasons]
    for name, reason in reasons:
        kind = out.paint(f"{reason.kind.value:<8}", "bad")
        out.line(f"{out.paint(name, 'bold')}  {kind} {reason.detail}")
    if not reasons:
        out.line(f"{out.paint('ok', 'good')}  {counted(len(checks), 'group')}")


def history(out: Output, rows: Sequence[RebalanceDescription]) -> None:
    """A line a rebalance, the newest is the last."""
    REBALANCE.table(out, rows)


def _names(members: Sequence[str]) -> Cell:
    return Cell(", ".join(members) or "-", None if members else "dim")


def _took(row: RebalanceDescription) -> Cell:
    return Cell("-", "dim") if row.took_s is None else Cell(duration_text(round(row.took_s * 1000)))


def preview(out: Output, shown: Preview) -> None:
    """Owners now and then, and how many would change."""
    PREVIEW_ROW.table(out, shown.partitions)
    out.line()
    more = [
        f"{count} would be {word}" for word in ("assigned", "released") if (count := shown.count_of(word))
    ]
    whole = counted(len(shown.partitions), "partition")
    out.line(", ".join([f"{shown.moves} of {whole} would move", *more]) + f" ({shown.assignor})")


class _GroupOffset(NamedTuple):
    """An offset, and the group that has committed it."""

    group: str
    offset: OffsetDescription


def _have_ends(rows: Sequence[_GroupOffset]) -> bool:
    return _has_ends([row.offset for row in rows])


_GROUP_OFFSET = Shape(
    _GroupOffset,
    *("group", Inline("offset", OFFSET)),
    columns=(
        KeyColumn("group", shorten="middle", least=8),
        *_PLACE,
        "offset",
        KeyColumn("log_end_offset", "END", when=_have_ends),
        KeyColumn("lag", when=_have_ends),
        KeyColumn(
            "written_by",
            cell=lambda row: row.offset.written_by,
            shorten="middle",
            least=20,
            when=lambda rows: _has_writers([row.offset for row in rows]),
        ),
    ),
)


def all_offsets(
    out: Output, as_of: AsOf, found: Sequence[tuple[GroupSnapshot, Sequence[OffsetDescription]]]
) -> None:
    """The offsets of several groups: a document a group, or one row an offset."""
    rows = [_GroupOffset(one.group, row) for one, offsets in found for row in offsets]
    if out.is_table:
        _GROUP_OFFSET.table(out, rows)
        if not rows:
            echo_err("no group has committed anything")
    elif out.format == "json":
        documents = [OFFSETS.json(one.as_of, {"group": one.group, "offsets": rows}) for one, rows in found]
        OFFSETS_LIST.print(out, as_of, groups=documents)
    else:
        lines = [_GROUP_OFFSET.json(row) for row in rows]
        out.document({"offsets": lines}, "offsets", ("group", *OFFSET.keys))


class _GroupChange(NamedTuple):
    """A change, and the group whose offset it is."""

    group: str
    change: OffsetChange


_GROUP_CHANGE = Shape(
    _GroupChange,
    *("group", Inline("change", OFFSET_CHANGE)),
    columns=(
        KeyColumn("group", shorten="middle", least=8, rank=1),
        *_PLACE,
        "before",
        "after",
        KeyColumn("change", cell=lambda row: _difference(row.change), right=True),
    ),
)


def offset_plan(out: Output, plans: Sequence[OffsetPlan], *, executed: bool) -> None:
    """Offsets before and after, and how many change."""
    _GROUP_CHANGE.table(out, [_GroupChange(one.group, change) for one in plans for change in one.changes])
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
