"""Copies the committed offsets of a group to another one, and renames a group.

A copy is a change of the other group's offsets. A rename moves every offset znode in one transaction, byte by
byte, with the guards of both groups: at each moment an offset is in one of them. What is left of the former
group is deleted after that (changes to groups, recipes 8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from zkgroup.admin.change import AdminChange, ChangePlan, undo_record
from zkgroup.admin.groups import DeletionPlan, check_deletion, delete_group, plan_deletion
from zkgroup.admin.guards import (
    changed_error,
    clients_error,
    frozen_error,
    idle_guard,
    living_group_error,
    members_error,
    write,
)
from zkgroup.admin.offsets.changes import OffsetsChange, offset_change
from zkgroup.admin.offsets.planning import OffsetPlan, plan_values
from zkgroup.admin.offsets.writes import missing_parents
from zkgroup.admin.undo_records import ChangeRecord
from zkgroup.errors import (
    ConfigError,
    NotFoundError,
    OperationRefusedError,
    PartlyDoneError,
    RefusedError,
    ZkGroupError,
)
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.group_ids import validate_length
from zkgroup.groups.reader import read_snapshot, snapshot_or_empty
from zkgroup.groups.reads import offset_of
from zkgroup.groups.snapshot import GroupSnapshot
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Create, Delete, Operation, SetData
from zkgroup.model.text import counted, named, typed
from zkgroup.znodes.consumers import Offset, consumers_path, group_path, ids_path, offsets_path
from zkgroup.znodes.group_records import AuditRecord, audit_path
from zkgroup.znodes.ids import validate_group
from zkgroup.znodes.paths import zkgroup_path

RENAME_BYTES_MAX: Final = 900_000
"""Most bytes of the transaction of a rename, below ZooKeeper's limit of a request."""
OPERATION_BYTES: Final = 64
"""Bytes of an operation beside its path and data, rounded up."""


def copy_group_change(ensemble: Ensemble, group: str, to: str) -> OffsetsChange:
    """Gives a group the committed offsets of another one; other offsets that it has stay.

    Offsets of partitions that do not exist any more are left out. Raises NotFoundError where the first group
    does not exist or has committed nothing, RefusedError where the second has members or is frozen, and
    ConfigError for a name that no new group may have.
    """
    _refuse_same(group, to)
    source = read_snapshot(ensemble, group)
    values = {tp: offset for tp in sorted(source.offsets) if (offset := offset_of(source, tp)) is not None}
    gone = [tp for tp in values if tp.partition not in source.partitions(tp.topic)]
    for tp in gone:
        del values[tp]
    if not values:
        raise NotFoundError(
            f"{offsets_path(group)}: expected committed offsets of {group} to copy, found none"
        )
    topics = sorted({tp.topic for tp in values})
    target = _target(ensemble, source, to, topics)
    if (frozen := frozen_error(ensemble, target)) is not None:
        raise frozen
    notes = [f"{named(gone)}: no longer there, left out"] if gone else []
    if source.registrations or (source.coordinated and source.coordinated.has_members):
        notes.append(f"{group} has members, which go on: what they commit from now on is not copied")
    plan = plan_values(target, values)
    plan = replace(plan, notes=(*notes, *plan.notes))
    return offset_change(ensemble, plan, subject=f"group copy {group} {to}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RenamePlan(ChangePlan):
    """The rename of a group, and what it moves. Nothing has been done."""

    group: str
    """The group."""
    to: str
    """The name that it gets."""
    offsets: Mapping[TopicPartition, Znode]
    """Its offset znodes, as they were read."""
    target: OffsetPlan
    """The offsets in the group of the new name."""
    parents: tuple[str, ...]
    """Znodes of that group that are missing, parents first."""
    deletion: DeletionPlan
    """What there is of the former group, which goes."""
    refusal: RefusedError | None
    """The reason why the group cannot be renamed; None where it can."""


def plan_rename(ensemble: Ensemble, group: str, to: str) -> RenamePlan:
    """Reads both groups. Raises NotFoundError where the first does not exist or has no offsets, ConfigError
    for a name that no new group may have.
    """
    _refuse_same(group, to)
    source = read_snapshot(ensemble, group)
    offsets = {tp: entry.znode for tp, entry in sorted(source.offsets.items())}
    if not offsets:
        raise NotFoundError(
            f"{offsets_path(group)}: {group} has no offsets to keep; members that use the new name need none"
        )
    topics = sorted({tp.topic for tp in offsets})
    target = _target(ensemble, source, to, topics)
    exactly = {tp: znode.data or b"" for tp, znode in offsets.items()}
    plan = plan_values(target, dict.fromkeys(offsets, -1), exactly, allow_missing=True)
    deletion = plan_deletion(ensemble, group)
    refusal = deletion.refusal or frozen_error(ensemble, target)
    if refusal is None and plan.clients is not None:
        refusal = clients_error(to, plan.clients)
    if refusal is None and plan.members:
        refusal = living_group_error(to, [one.member for one in plan.members], plan.persistent)
    if refusal is None and target.offsets:
        refusal = RefusedError(
            f"{offsets_path(to)}: expected no offset of {to}, found {named(sorted(target.offsets))}; "
            f"`{typed('group copy', group, to)}` writes into a group that has some"
        )
    return RenamePlan(
        group=group,
        to=to,
        as_of=source.as_of,
        offsets=offsets,
        target=plan,
        parents=missing_parents(ensemble, plan),
        deletion=deletion,
        refusal=refusal,
    )


def check_rename(ensemble: Ensemble, plan: RenamePlan) -> None:
    """Raises RefusedError where one of the groups has members, or is frozen, or the second has offsets."""
    if plan.refusal is not None:
        raise plan.refusal
    check_deletion(ensemble, plan.deletion)
    size = sum(
        2 * OPERATION_BYTES + len((znode.path + Offset.path(plan.to, tp)).encode()) + len(znode.data or b"")
        for tp, znode in plan.offsets.items()
    )
    if size > RENAME_BYTES_MAX:
        raise RefusedError(
            f"{offsets_path(plan.group)}: {counted(len(plan.offsets), 'offset')} do not fit into one "
            f"transaction; `{typed('group copy', plan.group, plan.to)}` copies "
            f"them, and `{typed('group delete', plan.group)}` deletes the former group"
        )


def rename_group(ensemble: Ensemble, plan: RenamePlan, by: ChangeRecord) -> int:
    """Moves the offsets, and deletes what is left of the former group: the result is the number of offsets.

    Raises what `check_rename` raises, ConflictError where one of the groups has changed since it was read,
    and PartlyDoneError where the offsets are moved and the former group is not deleted.
    """
    check_rename(ensemble, plan)
    ensemble.zk.create_missing(consumers_path(), zkgroup_path(), audit_path())
    record = AuditRecord(
        time_ms=ensemble.clock.wall_ms(), user=by.user, command=by.command, undo=f"{by.undo_id}/0"
    ).encode()
    guards = idle_guard(ensemble, plan.group), idle_guard(ensemble, plan.to)
    made = [path for path in plan.parents if path != ids_path(plan.to)]
    operations: list[Operation] = [
        *(Create(path, None) for path in made if path == group_path(plan.to)),
        *(one for guard in guards for one in guard.operations),
        *(Create(path, None) for path in made if path != group_path(plan.to)),
    ]
    for change in plan.target.changes:
        znode = plan.offsets[change.topic_partition]
        operations.append(Delete(znode.path, znode.stat.version))
        operations.append(Create(Offset.path(plan.to, change.topic_partition), change.data))
    for name in (plan.group, plan.to):
        found = ensemble.zk.find(AuditRecord.path(name))
        path = AuditRecord.path(name)
        operations.append(SetData(path, record, found.stat.version) if found else Create(path, record))

    def refusal(error: OperationRefusedError) -> Exception:
        names = zip((plan.group, plan.to), guards, strict=True)
        refused = next((name for name, guard in names if guard.refused_by(error)), None)
        return changed_error(error) if refused is None else members_error(ensemble, refused)

    write(ensemble, operations, AuditRecord.path(plan.to), record, refusal=refusal)
    _delete_rest(ensemble, plan)
    return len(plan.offsets)


def _delete_rest(ensemble: Ensemble, plan: RenamePlan) -> None:
    group = plan.group
    moved = f"{group_path(group)}: the offsets are those of {plan.to} now, and {group} is not deleted: "
    try:
        rest = plan_deletion(ensemble, group)
        if not rest.offsets:
            delete_group(ensemble, rest)
    except ZkGroupError as error:
        raise PartlyDoneError(f"{moved}{error}; {_see(group)}") from error
    if rest.offsets:
        raise PartlyDoneError(
            f"{moved}it has committed {counted(len(rest.offsets), 'offset')}; {_see(group)}"
        )


def _see(group: str) -> str:
    return f"see `{typed('group describe', group)}`"


def rename_group_change(ensemble: Ensemble, plan: RenamePlan) -> AdminChange[RenamePlan, int, None]:
    """Renames a group; what is written is the number of offsets that it moved. Raises RefusedError."""
    return AdminChange(
        ensemble=ensemble,
        subject=f"group rename {plan.group} {plan.to}",
        question=f"Rename {plan.group} to {plan.to}, with {counted(len(plan.offsets), 'offset')}?",
        plan=plan,
        undo=undo_record(undo_command=("group", "rename", plan.to, plan.group)),
        check=lambda: check_rename(ensemble, plan),
        write=lambda by: rename_group(ensemble, plan, by),
    )


def _target(ensemble: Ensemble, source: GroupSnapshot, to: str, topics: Sequence[str]) -> GroupSnapshot:
    """The other group. Where it does not exist yet, members of the first must be able to have its name."""
    target = snapshot_or_empty(ensemble, to, topics)
    if not target.exists:
        validate_length(to)
        if not source.is_coordinated:
            validate_group(to)
    return target


def _refuse_same(group: str, to: str) -> None:
    if group == to:
        raise ConfigError(f"{to}: expected the name of another group")
