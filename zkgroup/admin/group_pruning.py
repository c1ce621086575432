"""Deletes the groups that nobody has used for a long time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zkgroup.admin.groups import DeletionPlan, plan_deletion
from zkgroup.errors import AccessDeniedError, ConfigError, NotFoundError
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.groups.reader import group_names, read_permitted_snapshots
from zkgroup.groups.snapshot import GroupSnapshot


def plan_pruning(
    ensemble: Ensemble, idle_ms: int, groups: Iterable[str] = ()
) -> tuple[AsOf, tuple[DeletionPlan, ...], tuple[AccessDeniedError, ...]]:
    """The deletion of each group without members whose newest commit is at least so old, by name.

    Groups that are frozen, or that own a partition all the same, are left out. Returned last are those that
    an ACL hides.

    Args:
        idle_ms: the shortest age of the newest commit, in milliseconds, by ZooKeeper's times.
        groups: only these; by default all.

    Raises:
        ConfigError: an age below one millisecond.
        NotFoundError: one of the groups named does not exist.
    """
    if idle_ms < 1:
        raise ConfigError(f"idle_ms {idle_ms}: expected at least 1 millisecond")
    chosen = tuple(sorted(set(groups)))
    snapshots, denied = read_permitted_snapshots(ensemble, chosen or group_names(ensemble))
    before_ms = ensemble.clock.wall_ms() - idle_ms
    plans = []
    for name, snapshot in sorted(snapshots.items()):
        if snapshot is None:
            if chosen:
                raise NotFoundError(f"there is no group {name!r}; `zkgroup group list` shows those there are")
        elif is_unused(snapshot) and last_use_ms(snapshot) <= before_ms:
            plan = plan_deletion(ensemble, name)
            plans += [plan] if plan.refusal is None else []
    return ensemble.as_of(), tuple(plans), tuple(denied.values())


def is_unused(snapshot: GroupSnapshot) -> bool:
    """Returns whether a group has neither members of any kind nor an owner of a partition."""
    clients = snapshot.coordinated is not None and snapshot.coordinated.has_members
    return not (snapshot.registrations or snapshot.owners or clients)


def last_use_ms(snapshot: GroupSnapshot) -> int:
    """Time of the newest commit of a group; also of what has set or emptied the group since.

    `ids` is made anew by each change of an operator, and a coordinator's group is written when it empties.
    """
    times: Sequence[int] = [entry.stat.mtime for entry in snapshot.offsets.values()]
    ids = [snapshot.ids.ctime] if snapshot.ids else []
    stored = [snapshot.coordinated.newest_change_ms] if snapshot.coordinated else []
    return max([*times, *ids, *stored], default=0)
