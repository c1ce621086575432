"""Finds what differs between two trees, and what a range of the log changed in one.

`Journal` remembers how each znode was before it was first touched, so a range of any length needs one tree
and the znodes that it touched.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from zkgroup.model.requests import Znode, ZnodeStat
from zkgroup.zkfiles.records import CREATES, DELETES, Acl, Transaction, TransactionType
from zkgroup.zkfiles.tree import Tree

Kind = Literal["added", "removed", "changed"]

CHILDREN_FIELDS: Final = frozenset(("cversion", "children_count", "pzxid"))
"""Holds what changes in a znode when a child of it comes or goes."""


class State(NamedTuple):
    """A znode at one end of a difference: as a client sees it, and its ACL."""

    znode: Znode
    acl: Acl | None
    """None where the snapshot lacks it."""


class ZnodeChange(NamedTuple):
    """One path that is not the same at both ends."""

    path: str
    change: Kind
    before: State | None
    """None where it was added."""
    after: State | None
    """None where it was removed."""
    fields: tuple[str, ...] = ()
    """changed: what differs; `data`, `acl`, and names of ZnodeStat in its order."""

    @property
    def is_of_children_only(self) -> bool:
        """True if the znode itself is as it was, and only children of it came or went."""
        return self.change == "changed" and CHILDREN_FIELDS.issuperset(self.fields)

    def reversed(self) -> ZnodeChange:
        """The same, looked at from the other end."""
        kinds: dict[Kind, Kind] = {"added": "removed", "removed": "added", "changed": "changed"}
        return ZnodeChange(self.path, kinds[self.change], self.after, self.before, self.fields)


def diff_trees(before: Tree, after: Tree, below: str = "/") -> Iterator[ZnodeChange]:
    """Yields what differs between two trees at and below a path, by path."""
    for path in sorted({*before.paths(below), *after.paths(below)}):
        change = _compared(path, _state(before, path), _state(after, path))
        if change is not None:
            yield change


class Journal:
    """Holds what the transactions given to `note` change in a tree. Each is noted before it is applied."""

    def __init__(self, tree: Tree, below: str = "/") -> None:
        self._tree = tree
        self._below = below
        self._before: dict[str, State | None] = {}

    def note(self, transaction: Transaction) -> None:
        """Remembers what this transaction is about to touch, where it is the first to do so."""
        for path in _touched(transaction, self._tree):
            if path not in self._before and _is_at_or_below(path, self._below):
                self._before[path] = _state(self._tree, path)

    def changes(self) -> Iterator[ZnodeChange]:
        """Yields what differs between the beginning and now, by path."""
        for path in sorted(self._before):
            change = _compared(path, self._before[path], _state(self._tree, path))
            if change is not None:
                yield change


def _touched(transaction: Transaction, tree: Tree) -> Iterator[str]:
    """A path may come twice; one that comes need not change."""
    if transaction.type == TransactionType.CLOSE_SESSION:
        for path in (*(transaction.closed_paths or ()), *tree.ephemerals(transaction.session)):
            yield path
            yield _parent(path)
    elif transaction.is_applied:
        for operation in transaction.operations:
            path = operation.path or "/"
            yield path
            if operation.type in CREATES or operation.type in DELETES:
                yield _parent(path)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _is_at_or_below(path: str, below: str) -> bool:
    return below in ("/", path) or path.startswith(f"{below}/")


def _state(tree: Tree, path: str) -> State | None:
    znode, stored = tree.znode(path), tree.stored(path)
    return None if znode is None or stored is None else State(znode, stored.acl)


def _compared(path: str, before: State | None, after: State | None) -> ZnodeChange | None:
    if before is None or after is None:
        if before is after:
            return None
        return ZnodeChange(path, "added" if before is None else "removed", before, after)
    if before == after:
        return None
    fields = [
        name
        for name, one, other in (
            ("data", before.znode.data, after.znode.data),
            ("acl", before.acl, after.acl),
        )
        if one != other
    ]
    fields += [
        name
        for name, one, other in zip(ZnodeStat._fields, before.znode.stat, after.znode.stat, strict=True)
        if one != other
    ]
    return ZnodeChange(path, "changed", before, after, tuple(fields))
