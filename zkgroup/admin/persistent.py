"""Znodes of sessions that no session holds, as a restored backup has them: finds them, and removes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from zkgroup.admin.change import AdminChange, ChangePlan, as_they_are, undo_record
from zkgroup.admin.guards import are_gone, transact
from zkgroup.errors import ConflictError, OperationRefusedError, PartlyDoneError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.reader import group_names, read_permitted_snapshots
from zkgroup.model import Znode
from zkgroup.model.requests import Code, Create, Delete, Operation
from zkgroup.model.text import counted, named
from zkgroup.znodes.consumers import group_path
from zkgroup.znodes.deletions import DELETES_BYTES_MAX, DELETES_MAX, in_transactions
from zkgroup.znodes.sessions import (
    PARENTS_IN_CLUSTER,
    SINGLES_IN_CLUSTER,
    effect_without_session,
    is_leftover,
)

FIX_PERSISTENT = "zkgroup doctor --fix"
"""Shows the persistent znodes that belong to sessions; with `--execute` it removes them."""

NAMES_SHOWN = 8
"""Znodes with one parent that a text names."""

_OPERATIONS_EACH = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentZnode:
    """A znode that belongs to a session and is persistent."""

    path: str
    """Its path."""
    czxid: int
    """Transaction that created it."""
    created_ms: int
    """The time of its creation by the server's clock, in epoch milliseconds."""
    effect: str
    """The consequence while it is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalPlan(ChangePlan):
    """The znodes that would be removed. Nothing has been."""

    znodes: tuple[Znode, ...]
    """Persistent znodes that belong to sessions, by path."""
    hidden: tuple[str, ...] = ()
    """Paths of groups that an ACL hides: what is below them is not known."""

    @property
    def rows(self) -> tuple[PersistentZnode, ...]:
        """The znodes, each with what follows from it."""
        return tuple(
            PersistentZnode(
                path=path,
                czxid=stat.czxid,
                created_ms=stat.ctime,
                effect=effect_without_session(path) or "",
            )
            for path, _, stat in self.znodes
        )


def find_in_cluster(ensemble: Ensemble) -> tuple[Znode, ...]:
    """Those of brokers and controllers, by path; those of a group are in its `GroupSnapshot.persistent`."""
    listed = ensemble.zk.list_many(PARENTS_IN_CLUSTER)
    below = [f"{parent}/{name}" for parent, names in listed.items() for name in names or ()]
    found = ensemble.zk.read_many([*SINGLES_IN_CLUSTER, *below])
    persistent = (each for each in found.values() if each and is_leftover(each))
    return tuple(sorted(persistent))


def by_parent(paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The first few paths below each parent as one text, and what follows from such a znode."""
    for parent, group in groupby(sorted(paths), key=lambda path: path.rpartition("/")[0]):
        below = list(group)
        names = named((path.rpartition("/")[2] for path in below), NAMES_SHOWN)
        yield f"{parent}/{names}", effect_without_session(below[0]) or ""


def plan_removal(ensemble: Ensemble) -> RemovalPlan:
    """Reads which znodes belong to a session and are persistent."""
    ensemble.zk.sync("/")
    snapshots, denied = read_permitted_snapshots(ensemble, group_names(ensemble))
    of_groups = [znode for snapshot in snapshots.values() if snapshot for znode in snapshot.persistent]
    znodes = sorted([*find_in_cluster(ensemble), *of_groups])
    hidden = sorted(map(group_path, denied))
    return RemovalPlan(as_of=ensemble.as_of(), znodes=tuple(znodes), hidden=tuple(hidden))


def remove(ensemble: Ensemble, plan: RemovalPlan) -> int:
    """Deletes the znodes if they are as they were read and still persistent; returns how many.

    Raises ConflictError where one is not, and PartlyDoneError when that happens after the first of several
    transactions.
    """
    done = 0
    paths = [znode.path for znode in plan.znodes]
    limits = DELETES_BYTES_MAX // _OPERATIONS_EACH, DELETES_MAX // _OPERATIONS_EACH
    for part in in_transactions(paths, *limits):
        batch = plan.znodes[done : done + len(part)]
        try:
            _remove(ensemble, batch)
        except Exception as error:
            if not done:
                raise
            raise PartlyDoneError(
                f"{done} of {len(paths)} persistent znodes are removed, then: {error}; "
                "`zkgroup doctor --fix --execute` removes the rest"
            ) from error
        done += len(batch)
    return done


def _remove(ensemble: Ensemble, batch: Sequence[Znode]) -> None:
    operations = (operation for znode in batch for operation in _removal(znode))
    transact(ensemble, operations, lambda: are_gone(ensemble, batch), _conflict)


def _removal(znode: Znode) -> tuple[Operation, ...]:
    """A server refuses a child of an ephemeral znode: one that a session holds by now is never deleted."""
    below = f"{znode.path}/persistent"
    return Create(below, None), Delete(below, 0), Delete(znode.path, znode.stat.version)


def _conflict(error: OperationRefusedError) -> ConflictError:
    if error.code == Code.NO_CHILDREN_FOR_EPHEMERALS.value:
        path = error.path.rpartition("/")[0]
        return ConflictError(f"{path}: expected a persistent znode, found that of a session; run again")
    if error.code == Code.NOT_EMPTY.value:
        return ConflictError(
            f"{error.path}: expected no children, found some; nothing was changed; `zkgroup znode ls "
            f"{error.path}` shows them"
        )
    return ConflictError(f"{error.path}: changed since it was read ({error.code}); run again")


def remove_persistent_change(ensemble: Ensemble, plan: RemovalPlan) -> AdminChange[RemovalPlan, int, None]:
    """Removes the persistent znodes that belong to sessions; what is written is how many."""
    return AdminChange(
        ensemble=ensemble,
        subject="doctor --fix",
        question=f"Remove {counted(len(plan.znodes), 'znode')}?",
        plan=plan,
        notes=tuple(f"{path}: its ACL hides what is below it" for path in plan.hidden),
        is_effective=bool(plan.znodes),
        undo=undo_record(znodes=as_they_are(*plan.znodes)),
        write=lambda by: remove(ensemble, plan),
    )
