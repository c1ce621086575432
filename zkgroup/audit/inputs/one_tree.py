"""The tree of a living ensemble, which is walked.

Every znode of a living ensemble is read, then the Stat of each is read again. A znode with the same Stat both
times did not change between the two reads, so all of these together are the tree at a zxid between the two
passes. A znode that differs is read again until it stays the same or the rounds are over; it is of some
later moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from zkgroup.audit.inputs.source import Progress, quiet
from zkgroup.errors import AccessDeniedError
from zkgroup.model.requests import AclEntry, Code, Znode, ZnodeAcl
from zkgroup.model.text import counted, named
from zkgroup.zkfiles.exports import ExportedZnode, ExportHeader
from zkgroup.zkfiles.history import parent_of

if TYPE_CHECKING:
    from zkgroup.zookeeper.blocking import Blocking


def inconsistency_of(header: ExportHeader) -> str:
    """The reasons why a tree is not exact; empty where it is."""
    if header.detail:
        return header.detail
    found, changed, unreadable = [], header.changed, header.unreadable
    if changed:
        until = f"while it was read, up to {header.zxid_after:#x}"
        found.append(f"{counted(len(changed), 'path')} changed {until}: {named(changed)}")
    if unreadable:
        found.append(f"{counted(len(unreadable), 'path')} could not be read: {named(unreadable)}")
    return "; ".join(found)


PATHS_AT_ONCE = 5000
ROUNDS = 5
_EVERY = 1000
_Reply = TypeVar("_Reply")


def of_walk(header: ExportHeader, time_ms: int, zookeeper: str) -> ExportHeader:
    """The header with the time and place of the walk."""
    from zkgroup.zookeeper.settings import Address

    address = Address.parse(zookeeper)
    return replace(header, time_ms=time_ms, source=address.servers, chroot=address.chroot)


def walk(
    zk: Blocking, *, rounds: int = ROUNDS, paths_at_once: int = PATHS_AT_ONCE, progress: Progress = quiet
) -> tuple[ExportHeader, Sequence[ExportedZnode]]:
    """Reads the whole tree below the chroot; znodes that changed are read again at most `rounds` times.

    They come depth first, children by name. The header has no time or place: `of_walk` sets them.

    Raises `AccessDeniedError` where not even the root may be read, and what `Blocking` raises.
    """
    zk.sync("/")
    found = _Found(zk, paths_at_once, progress)
    found.read(("/",))
    if "/" in found.unreadable:
        raise AccessDeniedError(
            "/: expected the right to read the tree, found an ACL that does not allow this user"
        )
    zk.sync("/")
    before = zk.last_zxid
    found.compare(tuple(found.znodes))
    unsettled = set(found.unsettled)
    for _ in range(rounds):
        if not found.unsettled:
            break
        unsettled |= found.settle()
    zk.sync("/")
    header = ExportHeader(
        time_ms=None,
        source="",
        zxid_before=before,
        zxid_after=zk.last_zxid,
        changed=tuple(sorted(path for path in unsettled if found.may_be_newer(path, before))),
        unreadable=tuple(sorted(found.unreadable)),
    )
    return header, list(found.exported())


class _Found:
    def __init__(self, zk: Blocking, paths_at_once: int, progress: Progress) -> None:
        self.znodes: dict[str, Znode] = {}
        self.unreadable: set[str] = set()
        self.unsettled: set[str] = set()
        """The paths that differ or were deleted since they were read, and the parents of deleted ones."""
        self._zk = zk
        self._paths_at_once = paths_at_once
        self._progress = progress
        self._acls: dict[str, tuple[AclEntry, ...]] = {}
        self._children: dict[str, tuple[str, ...]] = {}

    def settle(self) -> set[str]:
        """Reads and compares again the paths that differ. Returns every path that may have changed."""
        moved, self.unsettled = self.unsettled, set()
        touched = moved | self.read([path for path in moved if path in self.znodes])
        self.compare([path for path in touched if path in self.znodes])
        return touched | self.unsettled

    def read(self, paths: Sequence[str]) -> set[str]:
        """Reads these paths and unknown ones below them. Returns the paths that were not known.

        Data and Stat are read first, then the names of the children: a child that comes between shows in
        the parent's Stat when it is read again.
        """
        fresh: set[str] = set()
        while paths:
            parents = []
            for path, one in self._each(self._zk.read_each, paths):
                if isinstance(one, Znode):
                    if path not in self.znodes:
                        fresh.add(path)
                    self.znodes[path] = one
                    parents.append(path)
                else:
                    self._drop(path, one)
                if len(self.znodes) % _EVERY == 0:
                    self._progress("reading", len(self.znodes))
            paths = self._list([path for path in parents if path in self.znodes])
        return fresh

    def _list(self, parents: Sequence[str]) -> list[str]:
        """Lists the children and drops those that were deleted. Returns the unknown ones."""
        unknown: list[str] = []
        with_children = [path for path in parents if self.znodes[path].stat.children_count]
        listed: dict[str, tuple[str, ...] | Code | None] = dict.fromkeys(parents, ())
        listed |= self._each(self._zk.list_each, with_children)
        for parent, names in listed.items():
            if not isinstance(names, tuple):
                self._drop(parent, names)
                continue
            for gone in set(self._children.get(parent, ())) - set(names):
                self._drop(join(parent, gone), None)
            if parent in self.znodes:
                self._children[parent] = names
                unknown += [path for name in names if (path := join(parent, name)) not in self.znodes]
        return unknown

    def compare(self, paths: Sequence[str]) -> None:
        """Reads ACLs with their Stat; where it is not the Stat of the data, the path is unsettled."""
        for done, (path, one) in enumerate(self._each(self._zk.acl_each, paths)):
            if isinstance(one, ZnodeAcl) and path in self.znodes:
                self._acls[path] = one.acl
                if one.stat != self.znodes[path].stat:
                    self.unsettled.add(path)
            else:
                self._drop(path, one if isinstance(one, Code) else None)
            if done % _EVERY == 0:
                self._progress("looking again at", done)

    def _drop(self, path: str, why: Code | None) -> None:
        """Removes a path, and all below it, that was deleted or may not be read."""
        if why is None:
            self.unsettled |= {path, parent_of(path)}
        else:
            self.unreadable.add(path)
        waiting = [path]
        while waiting:
            one = waiting.pop()
            if self.znodes.pop(one, None) is not None and why is None:
                self.unsettled.add(one)
            self._acls.pop(one, None)
            waiting += [join(one, name) for name in self._children.pop(one, ())]

    def may_be_newer(self, path: str, zxid: int) -> bool:
        """True if a path changed after that zxid, or may have."""
        if path in self.unreadable:
            return False
        while path not in self.znodes:
            if path == "/" or path in self.unsettled:
                return True
            path = parent_of(path)
            if path in self.znodes:
                return self.znodes[path].stat.pzxid > zxid
        stat = self.znodes[path].stat
        newest = max(stat.czxid, stat.mzxid, stat.pzxid)
        return path in self.unsettled or stat.aversion > 0 or newest > zxid

    def exported(self) -> Iterator[ExportedZnode]:
        """Yields the znodes depth first, children by name."""
        for path in sorted(self.znodes, key=lambda path: path.strip("/").split("/")):
            _, data, stat = self.znodes[path]
            yield ExportedZnode(path, data, self._acls.get(path), stat)

    def _each(
        self, ask: Callable[[Sequence[str]], Mapping[str, _Reply]], paths: Sequence[str]
    ) -> Iterator[tuple[str, _Reply]]:
        """Yields each path with its reply; several requests are open at a time."""
        for start in range(0, len(paths), self._paths_at_once):
            yield from ask(paths[start : start + self._paths_at_once]).items()


def join(parent: str, name: str) -> str:
    """The path of a child."""
    return f"{parent.rstrip('/')}/{name}"
