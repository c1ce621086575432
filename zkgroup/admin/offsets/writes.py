"""Writes committed offsets as an operator: guarded, in transactions, resolved when no answer comes.

Two ways, by the group's life:

* no member: `multi[delete(ids), create(ids), create(protocol), delete(protocol), check(topics), offsets...,
  /zkgroup/audit/<group>]`. The head is refused with NotEmpty when the group has a member (changes to groups,
  recipes 8), and with NodeExists when it has one of Kafka's group protocol (the marker, recipes 22, ADR
  0038), so "no members" holds in the very transaction, and "the topics exist" by the checks. Parents that are
  missing are created in it too, so that a refusal leaves nothing. Only here offsets are deleted: the fence of
  an owner is the version of its offset znode, and a new one would start at 0.
* members, with force: offset and marker `resets/<t>-<p>` in one multi, the marker deleted and created, so
  that its owner learns of it and obeys (commits, recipes 6). Owners commit all the time, so a lost race is
  tried again with the version read anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from zkgroup.admin.guards import (
    Guard,
    clients_error,
    idle_guard,
    living_group_error,
    members_error,
    read_back,
)
from zkgroup.admin.offsets.planning import OffsetChange, OffsetPlan
from zkgroup.admin.undo_records import ChangeRecord
from zkgroup.errors import (
    ConflictError,
    NotFoundError,
    OperationRefusedError,
    OutcomeUnknownError,
    PartlyDoneError,
)
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Check, Create, Delete, Operation, SetData
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import (
    Offset,
    consumers_path,
    group_path,
    ids_path,
    offsets_path,
    offsets_topic_path,
    owners_path,
    resets_path,
)
from zkgroup.znodes.deletions import DELETES_BYTES_MAX, in_transactions
from zkgroup.znodes.group_records import AuditRecord, Reset, audit_path
from zkgroup.znodes.paths import zkgroup_path

PARTITIONS_AT_ONCE = 1000
"""Most changes in one transaction of an idle group."""
PATHS_BYTES_MAX = DELETES_BYTES_MAX // 3
"""Most bytes of their paths: each may need the parent of its offset and the check of its topic, too."""

LIVE_TRIES = 20
"""Races with a committing owner that one partition may lose before we give up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenOffset:
    """The write of one offset, to recognise it and what follows it."""

    zxid: int
    """Its transaction."""
    version: int
    """Data version of the offset znode after it."""


@dataclass(slots=True)
class Applied:
    """The result of applying an `OffsetPlan`."""

    done: list[OffsetChange] = field(default_factory=list)
    """The offsets that were written, in order."""
    written: dict[TopicPartition, WrittenOffset] = field(default_factory=dict)
    """The write of each of them."""


def missing_parents(ensemble: Ensemble, plan: OffsetPlan) -> tuple[str, ...]:
    """The znodes that `apply_plan` makes because the offsets need them, parents first; for the undo record.

    Persistent and empty, as Kafka makes them; `ids` and `owners` too, so that its tools work.
    """
    group = plan.group
    topics = sorted({change.topic_partition.topic for change in plan.effective if not change.removes})
    if not topics:
        return ()
    paths = [
        group_path(group),
        ids_path(group),
        owners_path(group),
        offsets_path(group),
        resets_path(group),
        *(offsets_topic_path(group, topic) for topic in topics),
    ]
    found = ensemble.zk.read_many(paths)
    return tuple(path for path in paths if found[path] is None)


def apply_plan(
    ensemble: Ensemble,
    plan: OffsetPlan,
    by: ChangeRecord,
    *,
    force: bool = False,
    parents: Sequence[str] | None = None,
) -> Applied:
    """Writes the effective changes of the plan; `parents` are its `missing_parents`, where already read.

    Raises RefusedError where the group has members and `force` is not set, or an offset would be deleted;
    ConflictError where an offset of an idle group is not what the plan saw; NotFoundError where a topic of
    the plan has gone since; PartlyDoneError where only the first of several transactions went through.
    """
    changes = plan.effective
    if not changes:
        return Applied()
    if plan.clients is not None:
        raise clients_error(plan.group, plan.clients)
    if plan.members and (not force or any(change.removes for change in changes)):
        raise living_group_error(plan.group, [one.member for one in plan.members], plan.persistent)
    if parents is None:
        parents = missing_parents(ensemble, plan)
    ensemble.zk.create_missing(consumers_path(), zkgroup_path(), audit_path())
    applied = Applied()
    try:
        if plan.members:
            ensemble.zk.create_missing(*parents)
            _apply_living(ensemble, plan, by, applied)
        else:
            _apply_idle(ensemble, plan, parents, by, applied)
    except PartlyDoneError:
        raise
    except Exception as error:
        if not applied.done:
            raise
        raise PartlyDoneError(
            f"{len(applied.done)} of {len(changes)} offsets of {plan.group} are written, then: {error}; "
            "run the command again for the rest"
        ) from error
    return applied


def _apply_idle(
    ensemble: Ensemble, plan: OffsetPlan, parents: Sequence[str], by: ChangeRecord, applied: Applied
) -> None:
    group, changes, audit = plan.group, plan.effective, AuditRecord.path(plan.group)
    paths = [Offset.path(group, change.topic_partition) for change in changes]
    missing, below = list(parents), f"{offsets_path(group)}/"
    for number, part in enumerate(in_transactions(paths, PATHS_BYTES_MAX, PARTITIONS_AT_ONCE)):
        batch = changes[len(applied.done) :][: len(part)]
        record = AuditRecord(
            time_ms=ensemble.clock.wall_ms(),
            user=by.user,
            command=by.command,
            undo=f"{by.undo_id}/{number}",
        )
        guard = idle_guard(ensemble, group)
        topics = {change.topic_partition.topic for change in batch}
        needed = {offsets_topic_path(group, topic) for topic in topics}
        made = [path for path in missing if path in needed or not path.startswith(below)]
        missing = [path for path in missing if path not in needed and path.startswith(below)]
        made = [path for path in made if path != guard.path]
        operations = [
            *(Create(path, None) for path in made if path == group_path(group)),
            *guard.operations,
            *(Check(Topic.path(topic), -1) for topic in sorted(topics & plan.topics)),
            *(Create(path, None) for path in made if path != group_path(group)),
            *(_write(group, change) for change in batch),
            _write_at(audit, record.encode(), ensemble.zk.find(audit)),
            *(_swept(ensemble, plan) if len(applied.done) + len(batch) == len(changes) else ()),
        ]
        try:
            zxid = _submit(ensemble, operations, audit, record.encode())
        except OperationRefusedError as error:
            raise _refusal(ensemble, plan, guard, error) from error
        applied.done.extend(batch)
        applied.written.update(
            (change.topic_partition, WrittenOffset(zxid=zxid, version=_next_version(change.version)))
            for change in batch
        )


def _apply_living(ensemble: Ensemble, plan: OffsetPlan, by: ChangeRecord, applied: Applied) -> None:
    author = f"{by.user} {by.undo_id}"
    for change in plan.effective:
        marker = Reset(offset=change.after, time_ms=ensemble.clock.wall_ms(), by=author)
        applied.written[change.topic_partition] = _reset_owned(ensemble, plan, change, marker)
        applied.done.append(change)


def _reset_owned(ensemble: Ensemble, plan: OffsetPlan, change: OffsetChange, marker: Reset) -> WrittenOffset:
    """One partition of a living group: the offset and its marker, whatever the owner commits meanwhile."""
    group, topic = plan.group, change.topic_partition.topic
    path, marker_path = Offset.path(group, change.topic_partition), Reset.path(group, change.topic_partition)
    for _ in range(LIVE_TRIES):
        found = ensemble.zk.read_many([path, marker_path, Topic.path(topic)])
        if topic in plan.topics and found[Topic.path(topic)] is None:
            raise _topic_gone(Topic.path(topic))
        operations = [
            _write_at(path, change.data, found[path]),
            *_replaced(marker_path, marker.encode(), found[marker_path]),
        ]
        try:
            zxid = _submit(ensemble, operations, marker_path, marker.encode())
        except OperationRefusedError:
            continue
        present = found[path]
        return WrittenOffset(zxid=zxid, version=_next_version(present.stat.version if present else None))
    raise ConflictError(
        f"{path}: its owner commits faster than this reset could be written, {LIVE_TRIES} times in a row; "
        "pause the consumer, or stop the group and repeat without --force"
    )


def _next_version(version: int | None) -> int:
    """The data version after a write; `version` None: it creates the znode."""
    return 0 if version is None else version + 1


def _replaced(path: str, data: bytes, present: Znode | None) -> Iterable[Operation]:
    """Deleted and created, so that the child watch on its parent fires and its mzxid is new."""
    if present is not None:
        yield Delete(path, present.stat.version)
    yield Create(path, data)


def _swept(ensemble: Ensemble, plan: OffsetPlan) -> Iterable[Delete]:
    """Deletes, children first, of the parents below which the plan leaves nothing.

    Those of the group go only with the group itself: one without `owners` is of no use.
    """
    if not plan.sweep:
        return ()
    group = plan.group
    gone = {Offset.path(group, change.topic_partition) for change in plan.changes if change.removes}
    found, listed = ensemble.zk.read_many(plan.sweep), ensemble.zk.list_many(plan.sweep)
    deletes = []
    for path in reversed(plan.sweep):
        znode, children = found[path], listed[path] or ()
        if path == ids_path(group) and not children:
            version = 0  # the guard has made it anew
        elif znode is not None and all(f"{path}/{child}" in gone for child in children):
            version = znode.stat.version
        else:
            continue
        gone.add(path)
        deletes.append(Delete(path, version))
    if group_path(group) in gone:
        return deletes
    return [delete for delete in deletes if delete.path.startswith(f"{offsets_path(group)}/")]


def _write(group: str, change: OffsetChange) -> Operation:
    path = Offset.path(group, change.topic_partition)
    if change.removes:
        assert change.version is not None
        return Delete(path, change.version)
    if change.version is None:
        return Create(path, change.data)
    return SetData(path, change.data, change.version)


def _write_at(path: str, data: bytes, present: Znode | None) -> Operation:
    return Create(path, data) if present is None else SetData(path, data, present.stat.version)


def _submit(ensemble: Ensemble, operations: Sequence[Operation], path: str, data: bytes) -> int:
    """The zxid of a transaction; one without an answer was applied if `path` holds what it alone writes."""
    try:
        return ensemble.zk.multi(*operations).zxid or _zxid_of(ensemble, path, data)
    except OutcomeUnknownError as error:
        return read_back(error, partial(_zxid_of, ensemble, path, data))


def _zxid_of(ensemble: Ensemble, path: str, data: bytes) -> int:
    """Of the write of this data; 0 where there is other data, or none."""
    ensemble.zk.sync(path)
    found = ensemble.zk.find(path)
    return found.stat.mzxid if found is not None and found.data == data else 0


def _topic_gone(path: str) -> NotFoundError:
    return NotFoundError(f"{path}: expected the topic that was there before, found none; nothing was written")


def _refusal(ensemble: Ensemble, plan: OffsetPlan, guard: Guard, error: OperationRefusedError) -> Exception:
    if guard.refused_by(error):
        return members_error(ensemble, plan.group)
    if error.path in map(Topic.path, plan.topics):
        return _topic_gone(str(error.path))
    return ConflictError(
        f"{error.path}: changed since it was read ({error.code}); nothing was written; run again"
    )
