"""Reads znodes (one, its children, a tree), and creates the root of an address `HOST:PORT/CHROOT`.

Neither Kafka's clients nor zkgroup's create a chroot by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from zkgroup.admin.change import AdminChange, ChangePlan
from zkgroup.errors import ConfigError, NotFoundError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model import Znode

PATHS_AT_ONCE = 5000


def check_path(path: str) -> str:
    """An absolute path without an end slash. Raises ConfigError."""
    if not path.startswith("/"):
        raise ConfigError(f"path {path!r}: expected an absolute path such as /consumers")
    clean = "/" + "/".join(part for part in path.split("/") if part)
    if any(part in (".", "..") for part in clean.split("/")):
        raise ConfigError(f"path {path!r}: ZooKeeper has no '.' and '..'")
    return clean


def get(ensemble: Ensemble, path: str) -> Znode:
    """One znode. Raises NotFoundError, naming the nearest parent that exists."""
    path = check_path(path)
    znode = ensemble.zk.find(path)
    if znode is None:
        raise NotFoundError(f"{path}: there is no such znode; {_nearest(ensemble, path)}")
    return znode


def children(ensemble: Ensemble, path: str) -> tuple[str, ...]:
    """Names of the children, sorted. Raises NotFoundError."""
    path = check_path(path)
    found = ensemble.zk.list_many([path])[path]
    if found is None:
        raise NotFoundError(f"{path}: there is no such znode; {_nearest(ensemble, path)}")
    return tuple(sorted(found))


def tree(ensemble: Ensemble, path: str, depth: int | None = None) -> tuple[Znode, ...]:
    """The znode and everything below it, depth first, children by name; `depth` levels below it at most."""
    top = get(ensemble, path)
    found = {top.path: top}
    below: dict[str, list[str]] = {}
    level, left = [top.path], depth
    while level and (left is None or left > 0):
        paths = []
        for start in range(0, len(level), PATHS_AT_ONCE):
            chunk = level[start : start + PATHS_AT_ONCE]
            for parent, names in ensemble.zk.list_many(chunk).items():
                below[parent] = [join(parent, name) for name in sorted(names or ())]
                paths += below[parent]
        for start in range(0, len(paths), PATHS_AT_ONCE):
            read = ensemble.zk.read_many(paths[start : start + PATHS_AT_ONCE])
            found |= {p: znode for p, znode in read.items() if znode is not None}
        level = [p for p in paths if p in found and found[p].stat.children_count]
        left = None if left is None else left - 1
    return tuple(_depth_first(top.path, below, found))


def join(parent: str, name: str) -> str:
    """The path of a child; the root has no second slash."""
    return f"{parent.rstrip('/')}/{name}"


def _depth_first(path: str, below: dict[str, list[str]], found: dict[str, Znode]) -> Iterator[Znode]:
    waiting = [path]
    while waiting:
        path = waiting.pop()
        if path in found:
            yield found[path]
            waiting.extend(reversed(below.get(path, [])))


def _nearest(ensemble: Ensemble, path: str) -> str:
    parent = path
    while parent != "/":
        parent = parent.rpartition("/")[0] or "/"
        names = ensemble.zk.list_many([parent])[parent]
        if names is not None:
            shown = ", ".join(sorted(names)[:8]) or "nothing"
            return f"{parent} exists and holds {shown}" + (", ..." if len(names) > 8 else "")
    return "not even / can be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChrootPlan(ChangePlan):
    """The znodes that a chroot needs. Nothing has been created."""

    chroot: str
    """The chroot, an absolute path."""
    missing: tuple[str, ...]
    """Paths that do not exist yet, parents first, as the servers name them."""


def plan_chroot(ensemble: Ensemble, chroot: str) -> ChrootPlan:
    """Reads which levels are missing. `ensemble` is connected above the chroot."""
    parts = chroot.strip("/").split("/")
    levels = ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]
    found = ensemble.zk.read_many(levels)
    missing = tuple(path for path in levels if found[path] is None)
    return ChrootPlan(chroot=chroot, as_of=ensemble.as_of(), missing=missing)


def create_chroot(ensemble: Ensemble, plan: ChrootPlan) -> None:
    """Creates the missing znodes, persistent and with null data; one that exists by now is no error."""
    ensemble.zk.create_missing(*plan.missing)


def create_chroot_change(ensemble: Ensemble, plan: ChrootPlan) -> AdminChange[ChrootPlan, None, None]:
    """Creates the root of an address `HOST:PORT/CHROOT`; `ensemble` is connected above it.

    Nothing is written where it exists.
    """
    return AdminChange(
        ensemble=ensemble,
        subject="zookeeper create-chroot",
        question=f"Create {plan.chroot}?",
        plan=plan,
        is_effective=bool(plan.missing),
        no_undo="no zkgroup command deletes a chroot; ZooKeeper's own `delete` does, while it is empty",
        write=lambda by: create_chroot(ensemble, plan),
    )
