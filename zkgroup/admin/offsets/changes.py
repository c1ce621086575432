"""Changes of committed offsets: set, reset, deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from zkgroup.admin.change import AdminChange, ChangeResult, undo_record
from zkgroup.admin.files import SavedOffset
from zkgroup.admin.guards import clients_error, frozen_error, living_group_error
from zkgroup.admin.offsets.planning import (
    LogPositions,
    OffsetPlan,
    Target,
    partitions_to_reset,
    plan_removal,
    plan_reset,
    plan_values,
)
from zkgroup.admin.offsets.standing import OffsetStanding, wait_until_standing
from zkgroup.admin.offsets.writes import Applied, apply_plan, missing_parents
from zkgroup.admin.undo_records import ChangeRecord
from zkgroup.errors import ConfigError, PersistentZnodeError, RefusedError, ZkGroupError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.reader import group_names, read_permitted_snapshots, read_snapshot, snapshot_to_change
from zkgroup.groups.reads import describe_offsets
from zkgroup.groups.snapshot import GroupSnapshot
from zkgroup.model import TopicPartition
from zkgroup.model.text import counted, named
from zkgroup.znodes.consumers import SubscriptionKind

Selection: TypeAlias = Sequence[tuple[str, Sequence[int]]]
"""Topics with partition numbers; without numbers all partitions of the topic."""


OffsetsChange: TypeAlias = AdminChange[OffsetPlan, Applied, tuple[OffsetStanding, ...]]
"""A change of committed offsets; its wait is for what becomes of each of them."""


OffsetsResult: TypeAlias = ChangeResult[OffsetPlan, Applied, tuple[OffsetStanding, ...]]
"""Its result."""


def offset_change(
    ensemble: Ensemble, plan: OffsetPlan, *, subject: str, force: bool = False
) -> OffsetsChange:
    """Writes planned offsets.

    Raises RefusedError for a group with members unless `force`, and also with it where offsets would be
    deleted; for one with members of Kafka's group protocol in any case.
    """
    changes = plan.effective
    removes = any(change.removes for change in changes)
    if plan.clients is not None and changes:
        raise clients_error(plan.group, plan.clients)
    if plan.members and (removes or not force):
        error = living_group_error(plan.group, [one.member for one in plan.members], plan.persistent)
        raise error if removes else type(error)(f"{error}, or --force: {'; '.join(_effects(plan))}")
    parents = missing_parents(ensemble, plan)

    def write(by: ChangeRecord) -> Applied:
        return apply_plan(ensemble, plan, by, force=force, parents=parents)

    return AdminChange(
        ensemble=ensemble,
        subject=subject,
        question=f"Change {counted(len(changes), 'offset')} of {plan.group}?",
        plan=plan,
        notes=(
            *plan.notes,
            *(_effects(plan) if plan.members and changes else ()),
            *(str(PersistentZnodeError(path)) for path in plan.persistent[:1] if changes),
        ),
        is_effective=bool(changes),
        undo_needs_force=bool(plan.members),
        undo=undo_record(
            group=plan.group,
            offsets={
                change.topic_partition: (-1 if change.before is None else change.before, change.after)
                for change in changes
            },
            created=frozenset(change.topic_partition for change in changes if change.version is None),
            parents=parents,
            originals={
                change.topic_partition: change.original for change in changes if change.original is not None
            },
        ),
        write=write,
        wait=lambda applied, longest_s: wait_until_standing(ensemble, plan, applied, longest_s),
    )


_EFFECTS: Mapping[SubscriptionKind, str] = {
    "zkgroup": "obey: they seek to the new offsets",
    "jvm": "do not notice: they go on from where they are, and their next commits overwrite the new offsets",
    "unknown": "may not notice, and overwrite the new offsets with their next commits",
}
"""Kind of members to what its owners do when an operator writes offsets of their partitions."""


def _effects(plan: OffsetPlan) -> tuple[str, ...]:
    """A sentence for each kind of members: what they do about the change."""
    owners = [one for one in plan.members if one.partitions]
    found = [
        f"owners of kind {kind} ({named(one.member for one in owners if one.kind == kind)}) {effect}"
        for kind, effect in _EFFECTS.items()
        if any(one.kind == kind for one in owners)
    ]
    return tuple(found) or (
        "no registered member owns these partitions, and one that claims them reads the new offsets",
    )


def saved_offsets(snapshot: GroupSnapshot) -> list[SavedOffset]:
    """The committed offsets of a group, for a file; those that cannot be read are left out."""
    return [
        SavedOffset(snapshot.group, row.topic_partition, row.offset)
        for row in describe_offsets(snapshot)
        if row.offset is not None
    ]


def set_offsets_change(
    ensemble: Ensemble,
    group: str,
    offsets: Mapping[TopicPartition, int],
    *,
    allow_missing: bool = False,
    force: bool = False,
) -> OffsetsChange:
    """Gives partitions these offsets; a group that does not exist yet is made.

    Raises what `plan_values` and `offset_change` raise.
    """
    snapshot = snapshot_to_change(
        ensemble, group, sorted({tp.topic for tp in offsets}), allow_missing=allow_missing
    )
    plan = plan_values(snapshot, offsets, allow_missing=allow_missing)
    return offset_change(ensemble, plan, subject=f"offsets set {group}", force=force)


def import_offsets_changes(
    ensemble: Ensemble, saved: Sequence[SavedOffset], *, allow_missing: bool = False, force: bool = False
) -> list[OffsetsChange]:
    """One change for each group of exported offsets, by group. Raises as `set_offsets_change` does."""
    return [
        set_offsets_change(
            ensemble,
            name,
            {one.topic_partition: one.offset for one in saved if one.group == name},
            allow_missing=allow_missing,
            force=force,
        )
        for name in sorted({one.group for one in saved})
    ]


def reset_offsets_change(
    ensemble: Ensemble,
    group: str,
    target: Target,
    topics: Selection = (),
    log: LogPositions | None = None,
    *,
    allow_missing: bool = False,
    force: bool = False,
) -> OffsetsChange:
    """Moves the offsets of these partitions, or of all, to a target. Raises what `plan_reset` raises."""
    names = [name for name, _ in topics]
    if names:
        snapshot = snapshot_to_change(ensemble, group, names, allow_missing=allow_missing)
    else:
        snapshot = read_snapshot(ensemble, group)
    partitions = partitions_to_reset(snapshot, topics)
    plan = plan_reset(snapshot, target, partitions, log, allow_missing=allow_missing)
    return offset_change(ensemble, plan, subject=f"offsets reset {group}", force=force)


def reset_all_groups_changes(
    ensemble: Ensemble,
    target: Target,
    topics: Selection = (),
    log: LogPositions | None = None,
    *,
    force: bool = False,
) -> tuple[list[OffsetsChange], list[ZkGroupError]]:
    """The change of each group that has offsets of these topics, or any, by group; and why others have none.

    Only offsets that there are of partitions that exist move. A group that has members, without `force`, or
    that an ACL hides, is left out with its error. Raises what `plan_reset` raises.
    """
    snapshots, denied = read_permitted_snapshots(ensemble, group_names(ensemble))
    changes: list[OffsetsChange] = []
    refused: list[ZkGroupError] = list(denied.values())
    wanted = dict(topics)
    for name, snapshot in sorted(snapshots.items()):
        partitions = [
            tp
            for tp in sorted(snapshot.offsets if snapshot else ())
            if snapshot and tp.partition in snapshot.partitions(tp.topic)
            if not topics or (tp.topic in wanted and tp.partition in (wanted[tp.topic] or [tp.partition]))
        ]
        if snapshot is None or not partitions:
            continue
        plan = plan_reset(snapshot, target, partitions, log)
        try:
            changes.append(offset_change(ensemble, plan, subject=f"offsets reset {name}", force=force))
        except RefusedError as error:
            refused.append(error)
    return changes, refused


def delete_offsets_change(
    ensemble: Ensemble, group: str, topics: Selection, *, older_than_ms: int | None = None
) -> OffsetsChange:
    """Deletes offsets; with an age only those that were last written longer ago, of these topics or of all.

    Raises NotFoundError where there are none, RefusedError for a group that has members or is frozen (its
    owners are to come back to them), ConfigError without topics and age.
    """
    snapshot = read_snapshot(ensemble, group)
    if (frozen := frozen_error(ensemble, snapshot)) is not None:
        raise frozen
    if older_than_ms is not None:
        before_ms = ensemble.clock.wall_ms() - older_than_ms
        plan = plan_removal(snapshot, topics, written_before_ms=before_ms)
    elif not topics:
        raise ConfigError("expected topics whose offsets are deleted, or an age, found neither")
    else:
        plan = plan_removal(snapshot, topics)
    return offset_change(ensemble, plan, subject=f"offsets delete {group}")
