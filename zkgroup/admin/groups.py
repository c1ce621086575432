"""Deletes a group, and nudges one: every member then reads its group again.

A deletion is many transactions, each refused while the group has a member; it can be repeated.

A nudge is for a JVM member that has given up claiming and waits for an event that may never come
(KAFKA-4228): it is registered and idle. A child of `ids` is created and deleted in one transaction, so every
watch on `ids` fires and no client can read the child. The generation grows; the assignment stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from zkgroup.admin.change import AdminChange, ChangePlan, undo_record
from zkgroup.admin.coordinated_groups import delete_stored_group, stored_znodes
from zkgroup.admin.guards import (
    changed_error,
    clients_error,
    frozen_error,
    idle_guard,
    living_group_error,
    members_error,
    transact,
)
from zkgroup.admin.offsets.planning import NONE
from zkgroup.errors import (
    ConflictError,
    NotFoundError,
    OperationRefusedError,
    PartlyDoneError,
    PersistentZnodeError,
    RefusedError,
)
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.group_ids import validate_group_id
from zkgroup.groups.reader import read_snapshots
from zkgroup.groups.snapshot import decode_or_error
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Create, Delete, Operation, SetData
from zkgroup.model.text import counted, hex_session, typed
from zkgroup.znodes.consumers import (
    Offset,
    Registration,
    group_path,
    ids_path,
    offsets_path,
    owners_path,
    views_path,
)
from zkgroup.znodes.coordinated_groups import ProtocolMarker
from zkgroup.znodes.deletions import in_transactions
from zkgroup.znodes.group_history import GroupHistory
from zkgroup.znodes.ids import number_of
from zkgroup.znodes.sessions import is_leftover


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionPlan(ChangePlan):
    """The plan of a deletion of a group: nothing has been removed yet."""

    group: str
    """The group."""
    members: tuple[str, ...]
    """Registered members, and stored ones of Kafka's group protocol; the deletion is refused if there are
    any."""
    persistent: tuple[str, ...] = ()
    """Paths of registrations, owners and views that no session holds."""
    is_marked: bool = False
    """True if Kafka's group protocol has its marker on the group: the deletion is refused, too."""
    offsets: tuple[tuple[TopicPartition, int], ...]
    """Committed offsets that go, for the undo file; unreadable and negative ones are not in it."""
    originals: Mapping[TopicPartition, bytes]
    """Holds what those offset znodes hold that hold no offset in plain digits, nor -1: for the undo file."""
    znodes: tuple[Znode, ...]
    """Persistent znodes below the group, parents first; `ids` and what is below `owners/<topic>` excluded."""
    stored: tuple[Znode, ...] = ()
    """Holds what a coordinator has stored of the group, parents first."""
    has_znode: bool = True
    """True if the group has a znode below `/consumers`."""
    has_history: bool = False
    """True if its members have kept a history of its rebalances."""
    frozen: RefusedError | None = None
    """The refusal as long as a freeze of it stands."""
    last_commit_ms: int | None = None
    """Time of the newest write of an offset, in epoch milliseconds; None without offsets."""

    @property
    def count(self) -> int:
        """The number of znodes that go."""
        return len(self.znodes) + len(self.stored) + (2 if self.has_znode else 0) + self.has_history

    @property
    def refusal(self) -> RefusedError | None:
        """The reason why the group cannot be deleted; None where it can."""
        if self.is_marked:
            return clients_error(self.group, self.members)
        if self.members:
            return living_group_error(self.group, self.members, self.persistent)
        return self.frozen


def plan_deletion(ensemble: Ensemble, group: str) -> DeletionPlan:
    """Reads what would go. Raises NotFoundError."""
    validate_group_id(group)
    ensemble.zk.sync("/")
    snapshot = read_snapshots(ensemble, [group])[group]
    if snapshot is None:
        raise NotFoundError(f"{group_path(group)}: there is no group {group!r}")
    coordinated = snapshot.coordinated
    is_marked = coordinated is not None and coordinated.has_members
    clients = coordinated.names if coordinated is not None else ()
    members = ensemble.names_below(ids_path(group))
    znodes = tuple(_below(ensemble, group))
    offsets = dict(_offsets(group, znodes))
    return DeletionPlan(
        group=group,
        as_of=ensemble.as_of(),
        members=tuple(sorted([*members, *clients])),
        persistent=snapshot.persistent_paths,
        is_marked=is_marked,
        stored=stored_znodes(ensemble, group),
        has_znode=ensemble.zk.exists(group_path(group)) is not None,
        has_history=ensemble.zk.exists(GroupHistory.path(group)) is not None,
        frozen=frozen_error(ensemble, snapshot),
        last_commit_ms=max((entry.stat.mtime for entry in snapshot.offsets.values()), default=None),
        offsets=tuple((tp, offset) for tp, (offset, _) in offsets.items() if offset >= 0),
        originals={tp: data for tp, (offset, data) in offsets.items() if data != Offset(offset).encode()},
        znodes=znodes,
    )


def check_deletion(ensemble: Ensemble, plan: DeletionPlan) -> None:
    """Raises RefusedError where the group has a member, is frozen, or still owns a partition."""
    if plan.refusal is not None:
        raise plan.refusal
    for znode in plan.znodes:
        if _holds_owners(plan.group, znode.path) and znode.stat.children_count:
            raise _owned_error(ensemble, znode.path)


def delete_group(ensemble: Ensemble, plan: DeletionPlan) -> int:
    """Applies the plan; the result is the number of znodes removed.

    Raises RefusedError where it has a member or still owns a partition, ConflictError where the
    group changed meanwhile before anything was removed, and PartlyDoneError when it did after;
    repeating the command goes on from there.
    """
    check_deletion(ensemble, plan)
    done = len(plan.stored) and delete_stored_group(ensemble, plan.group)
    if done:
        # A coordinator deletes offsets as well.
        plan = replace(plan, znodes=tuple(_below(ensemble, plan.group)))
    if not ensemble.exists_now(group_path(plan.group)):
        return done + _remove_history(ensemble, plan.group)
    leaves_first = list(reversed(plan.znodes))
    removed = 0
    try:
        for paths in in_transactions([znode.path for znode in leaves_first]):
            _remove(ensemble, plan.group, leaves_first[removed : removed + len(paths)], last=False)
            removed += len(paths)
        _remove(ensemble, plan.group, [], last=True)
    except Exception as error:
        done += removed
        if not done:
            raise
        raise PartlyDoneError(
            f"{group_path(plan.group)}: {done} znodes are removed, then: {error}; "
            f"run `{typed('group delete', plan.group, options='--execute')}` again for the rest"
        ) from error
    return done + removed + 2 + plan.has_history


def _remove_history(ensemble: Ensemble, group: str) -> bool:
    """Removes the history of a group without a znode; a coordinator that deletes the group does it itself."""
    deletes = _history_deletes(ensemble, group)
    if deletes:
        is_gone = lambda: not ensemble.exists_now(GroupHistory.path(group))  # noqa: E731
        transact(ensemble, deletes, is_gone, changed_error)
    return bool(deletes)


def _history_deletes(ensemble: Ensemble, group: str) -> list[Operation]:
    stat = ensemble.zk.exists(GroupHistory.path(group))
    return [Delete(GroupHistory.path(group), stat.version)] if stat is not None else []


def _remove(ensemble: Ensemble, group: str, batch: Sequence[Znode], *, last: bool) -> None:
    operations: list[Operation]
    if last:
        group_stat = ensemble.zk.read(group_path(group)).stat
        ids = ensemble.zk.find(ids_path(group))
        operations = [Delete(ids_path(group), ids.stat.version)] if ids else []
        operations += [Delete(group_path(group), group_stat.version), *_history_deletes(ensemble, group)]
    else:
        operations = [*idle_guard(ensemble, group).operations]
        operations += [Delete(znode.path, znode.stat.version) for znode in batch]
    gone = batch[-1].path if batch else group_path(group)
    transact(
        ensemble,
        operations,
        lambda: not ensemble.exists_now(gone),
        lambda error: _refusal(ensemble, group, error),
    )


def _refusal(ensemble: Ensemble, group: str, error: OperationRefusedError) -> Exception:
    if error.path in (ids_path(group), ProtocolMarker.path(group)):
        return members_error(ensemble, group)
    if error.path.startswith(owners_path(group)) and error.code == "NotEmpty":
        return _owned_error(ensemble, error.path)
    return changed_error(error)


def _owned_error(ensemble: Ensemble, path: str) -> RefusedError:
    """A partition is owned although no member is registered: says by whom."""
    holders = []
    for name in ensemble.names_below(path):
        znode = ensemble.zk.find(f"{path}/{name}")
        if znode is not None:
            session = znode.stat.ephemeral_owner
            where = f"session {hex_session(session)}" if session else "no session: `zkgroup doctor --fix`"
            holders.append(f"{name} by {(znode.data or b'').decode('utf-8', 'replace')} ({where})")
    return RefusedError(f"{path}: expected no owner, found {'; '.join(holders) or 'one that has just gone'}")


def _below(ensemble: Ensemble, group: str) -> Iterator[Znode]:
    """Everything persistent below the group, level by level; owner leaves are neither listed nor read."""
    level = [
        path
        for name in ensemble.names_below(group_path(group))
        if (path := f"{group_path(group)}/{name}") != ids_path(group)
    ]
    while level:
        znodes = [znode for znode in ensemble.zk.read_many(level).values() if znode is not None]
        persistent = [znode for znode in znodes if not znode.stat.ephemeral_owner]
        yield from sorted(persistent)
        parents = [znode.path for znode in persistent if not _holds_owners(group, znode.path)]
        listed = ensemble.zk.list_many(parents)
        level = [f"{path}/{name}" for path in parents for name in sorted(listed[path] or ())]


def _holds_owners(group: str, path: str) -> bool:
    return path.rpartition("/")[0] == owners_path(group)


def _offsets(group: str, znodes: Sequence[Znode]) -> Iterator[tuple[TopicPartition, tuple[int, bytes]]]:
    """The committed offset, or `NONE`, and the bytes of each offset znode."""
    prefix = f"{offsets_path(group)}/"
    for znode in znodes:
        topic, slash, number = znode.path.removeprefix(prefix).partition("/")
        partition = number_of(number)
        if znode.path.startswith(prefix) and slash and partition is not None:
            offset = decode_or_error(znode, Offset.decode).value
            position = offset.position if offset else None
            value = NONE if position is None else position
            yield TopicPartition(topic, partition), (value, znode.data or b"")


NUDGE_EVERY_MS = 10_000
"""A group is not nudged again before: each nudge costs a JVM member all its partitions for a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NudgePlan(ChangePlan):
    """The members that a nudge would reach. Nothing has been done."""

    group: str
    """The group."""
    members: tuple[str, ...]
    """Registered members, sorted."""
    views_version: int
    """Data version of `views`, which counts the nudges; -1 where it is not there yet."""
    last_ms: int | None
    """Wall time of the last nudge; None: never."""


def plan_nudge(ensemble: Ensemble, group: str) -> NudgePlan:
    """Reads which members would read the group again.

    Raises NotFoundError where the group has no members, PersistentZnodeError where no session holds any.
    """
    validate_group_id(group)
    ensemble.zk.sync("/")
    members = ensemble.zk.list_many([ids_path(group)])[ids_path(group)]
    if not members and ensemble.zk.exists(ProtocolMarker.path(group)) is not None:
        raise RefusedError(
            f"{ProtocolMarker.path(group)}: {group} has members of Kafka's group protocol, which do not read "
            "ZooKeeper: their coordinator makes them rebalance when one joins or leaves"
        )
    if not members:
        what = "no group of this name" if members is None else "no member"
        raise NotFoundError(f"{group_path(group)}: expected members to nudge, found {what}")
    found = ensemble.zk.read_many([Registration.path(group, member) for member in sorted(members)])
    persistent = [path for path, znode in found.items() if znode and is_leftover(znode)]
    if len(persistent) == len(members):
        raise PersistentZnodeError(persistent[0])
    views = ensemble.zk.find(views_path(group))
    version = -1 if views is None else views.stat.version
    return NudgePlan(
        group=group,
        as_of=ensemble.as_of(),
        members=tuple(sorted(each for each in members if Registration.path(group, each) not in persistent)),
        views_version=version,
        last_ms=views.stat.mtime if views is not None and version > 0 else None,
    )


def check_nudge(ensemble: Ensemble, plan: NudgePlan) -> None:
    """Raises RefusedError within `NUDGE_EVERY_MS` of the last nudge."""
    now_ms = ensemble.clock.wall_ms()
    if plan.last_ms is not None and abs(now_ms - plan.last_ms) < NUDGE_EVERY_MS:
        raise RefusedError(
            f"{views_path(plan.group)}: group {plan.group} was nudged less than {NUDGE_EVERY_MS // 1000} s "
            "ago; its members need that time to rebalance"
        )


def nudge(ensemble: Ensemble, plan: NudgePlan) -> None:
    """Makes every member read the group again.

    Raises what `check_nudge` raises, ConflictError where another nudge, or the deletion of the group, was
    first.
    """
    check_nudge(ensemble, plan)
    if plan.views_version < 0:
        ensemble.zk.create_missing(views_path(plan.group))
    try:
        ensemble.zk.multi(*nudge_operations(plan.group, max(plan.views_version, 0)))
    except OperationRefusedError as error:
        raise ConflictError(
            f"{error.path}: changed since it was read ({error.code}); another command nudged or "
            f"deleted the group: see `{typed('group describe', plan.group)}`"
        ) from error


def nudge_operations(group: str, views_version: int) -> tuple[Operation, ...]:
    """The transaction of a nudge; `views` must exist, in this data version."""
    child = Registration.path(group, f"{group}_nudge")
    return SetData(views_path(group), b"", views_version), Create(child, b""), Delete(child, 0)


def delete_group_change(ensemble: Ensemble, plan: DeletionPlan) -> AdminChange[DeletionPlan, int, None]:
    """Deletes a group with its offsets; what is written is the number of znodes removed.

    Raises RefusedError where the group has members.
    """
    group = plan.group
    no_undo = None if plan.offsets or plan.originals else "no offset is committed that could be put back"
    before = {tp: (offset, -1) for tp, offset in plan.offsets}
    offsets = dict.fromkeys(plan.originals, (-1, -1)) | before
    return AdminChange(
        ensemble=ensemble,
        subject=f"group delete {group}",
        question=f"Delete group {group} with {counted(len(plan.offsets), 'committed offset')}?",
        plan=plan,
        no_undo=no_undo,
        undo=undo_record(group=group, no_undo=no_undo, offsets=offsets, originals=plan.originals),
        check=lambda: check_deletion(ensemble, plan),
        write=lambda by: delete_group(ensemble, plan),
    )


def nudge_group_change(ensemble: Ensemble, plan: NudgePlan) -> AdminChange[NudgePlan, None, None]:
    """Makes every member read the group again."""
    return AdminChange(
        ensemble=ensemble,
        subject=f"group nudge {plan.group}",
        question=f"Nudge {counted(len(plan.members), 'member')} of {plan.group}?",
        plan=plan,
        no_undo="it changes nothing that could be put back",
        check=lambda: check_nudge(ensemble, plan),
        write=lambda by: nudge(ensemble, plan),
    )
