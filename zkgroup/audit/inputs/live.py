"""A walk of a live tree, and how much of it is of one moment.

Every znode is read, then the Stat of each is read again. A znode with the same Stat both times did not change
between the two reads, so all of these together are the tree at the zxid between the two passes. A znode that
differs is read again, until it stays the same or the rounds are over; it is of some later moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from zkgroup.audit.inputs.source import Progress, quiet
from zkgroup.errors import AccessDeniedError
from zkgroup.model.requests import AclEntry, Code, Znode, ZnodeAcl, ZnodeStat
from zkgroup.zkfiles.exports import ExportedZnode, ExportHeader
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.settings import Address

PATHS_AT_ONCE = 5000
ROUNDS = 5


class LiveTree(NamedTuple):
    """A walked tree; the first four are as of `ExportHeader`."""

    zxid_before: int
    zxid_after: int
    changed: tuple[str, ...]
    unreadable: tuple[str, ...]
    znodes: tuple[ExportedZnode, ...]
    """Depth first, parents before children, children by name."""

    def header(self, time_ms: int, address: Address) -> ExportHeader:
        """Of an export of it; when and where it was walked."""
        return ExportHeader(
            time_ms=time_ms,
            source=address.servers,
            chroot=address.chroot,
            zxid_before=self.zxid_before,
            zxid_after=self.zxid_after,
            changed=self.changed,
            unreadable=self.unreadable,
        )


def walk(
    zk: Blocking,
    *,
    rounds: int = ROUNDS,
    paths_at_once: int = PATHS_AT_ONCE,
    progress: Progress = quiet,
) -> LiveTree:
    """Reads the whole tree below the chroot. `rounds`: so often what changed is read again, at most.

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
    restless = set(found.unsettled)
    for _ in range(rounds):
        if not found.unsettled:
            break
        restless |= found.settle()
    zk.sync("/")
    return LiveTree(
        zxid_before=before,
        zxid_after=zk.last_zxid,
        znodes=tuple(found.exported()),
        changed=tuple(sorted(path for path in restless if found.may_be_newer(path, before))),
        unreadable=tuple(sorted(found.unreadable)),
    )


class _Found:
    """The tree as far as it is known."""

    def __init__(self, zk: Blocking, paths_at_once: int, progress: Progress) -> None:
        self.znodes: dict[str, Znode] = {}
        self.unreadable: set[str] = set()
        self.unsettled: set[str] = set()
        """Holds what was seen to differ, or to be gone, since it was read; and the parents of what is
        gone."""
        self._zk = zk
        self._paths_at_once = paths_at_once
        self._progress = progress
        self._acls: dict[str, tuple[AclEntry, ...]] = {}
        self._children: dict[str, tuple[str, ...]] = {}

    def settle(self) -> set[str]:
        """Reads again what differs, and compares it once more. Returns every path that may have changed."""
        moved = self.unsettled
        self.unsettled = set()
        fresh = self.read([path for path in moved if path in self.znodes])
        touched = moved | fresh
        self.compare([path for path in touched if path in self.znodes])
        return touched | self.unsettled

    def read(self, paths: Sequence[str]) -> set[str]:
        """Reads these, and below them what is not known yet. Returns the paths that were not known.

        Data and Stat first, then the names of the children, so that a child that comes between is seen in
        the parent's Stat when that is read again.
        """
        fresh: set[str] = set()
        level: Sequence[str] = paths
        while level:
            parents = []
            for chunk in self._chunks(level):
                for path, one in self._zk.read_each(chunk).items():
                    if isinstance(one, Znode):
                        if path not in self.znodes:
                            fresh.add(path)
                        self.znodes[path] = one
                        parents.append(path)
                    else:
                        self._drop(path, one)
                self._progress("reading", len(self.znodes))
            level = self._list([path for path in parents if path in self.znodes])
        return fresh

    def _list(self, parents: Sequence[str]) -> list[str]:
        """Lists the children; drops those that are gone. Gives the ones that are not known."""
        unknown: list[str] = []
        fertile = [path for path in parents if self.znodes[path].stat.children_count]
        listed: dict[str, tuple[str, ...] | Code | None] = dict.fromkeys(parents, ())
        for chunk in self._chunks(fertile):
            listed |= self._zk.list_each(chunk)
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
        """Reads the ACLs, and the Stat with them: where it is not that of the data, the path is unsettled."""
        done = 0
        for chunk in self._chunks(paths):
            for path, one in self._zk.acl_each(chunk).items():
                if isinstance(one, ZnodeAcl) and path in self.znodes:
                    self._acls[path] = one.acl
                    if one.stat != self.znodes[path].stat:
                        self.unsettled.add(path)
                else:
                    self._drop(path, one if isinstance(one, Code) else None)
            done += len(chunk)
            self._progress("looking again at", done)

    def _drop(self, path: str, why: Code | None) -> None:
        """This and everything below it is gone, or may not be read."""
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
        """Returns whether what became of this path came after that zxid, or may have."""
        if path in self.unreadable:
            return False
        while path not in self.znodes:
            if path == "/" or path in self.unsettled:
                return True
            path = parent_of(path)
            if path in self.znodes:
                return self.znodes[path].stat.pzxid > zxid
        stat = self.znodes[path].stat
        return path in self.unsettled or stat.aversion > 0 or _newest(stat) > zxid

    def exported(self) -> Iterator[ExportedZnode]:
        """Depth first, children by name."""
        for path in sorted(self.znodes, key=lambda path: path.strip("/").split("/")):
            _, data, stat = self.znodes[path]
            yield ExportedZnode(path, data, self._acls.get(path), stat)

    def _chunks(self, paths: Iterable[str]) -> Iterator[tuple[str, ...]]:
        rest = iter(paths)
        while chunk := tuple(islice(rest, self._paths_at_once)):
            yield chunk


def _newest(stat: ZnodeStat) -> int:
    return max(stat.czxid, stat.mzxid, stat.pzxid)


def parent_of(path: str) -> str:
    """Path of the parent; that of `/` is itself."""
    return path.rpartition("/")[0] or "/"


def join(parent: str, name: str) -> str:
    """The path of a child; the root has no second slash."""
    return f"{parent.rstrip('/')}/{name}"
