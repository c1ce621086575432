"""Finds what differs between two trees, and what a range of the log changed in one.

`Journal` remembers how each znode was before it was first touched, so a range of any length needs one tree
and the znodes that it touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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


_States = Callable[[str], State | None]


def diff_trees(before: Tree, after: Tree, below: str = "/") -> Iterator[ZnodeChange]:
    """Yields what differs between two trees at and below a path, by path."""
    paths = {*before.paths(below), *after.paths(below)}
    return _changes(paths, lambda path: _state(before, path), lambda path: _state(after, path))


class Journal:
    """Holds what the transactions given to `note` change in a tree. Each is noted before it is applied."""

    def __init__(self, tree: Tree, below: str = "/") -> None:
        self._tree = tree
        self._below = below
        self._before: dict[str, State | None] = {}

    def note(self, transaction: Transaction) -> None:
        """Remembers what this transaction is about to touch, where it is the first to do so."""
        for path in _touched(transaction, self._tree):
            is_below = self._below in ("/", path) or path.startswith(f"{self._below}/")
            if is_below and path not in self._before:
                self._before[path] = _state(self._tree, path)

    def changes(self) -> Iterator[ZnodeChange]:
        """Yields what differs between the beginning and now, by path."""
        return _changes(self._before, self._before.get, lambda path: _state(self._tree, path))


def _touched(transaction: Transaction, tree: Tree) -> Iterator[str]:
    """A path may come twice; one that comes need not change."""
    if transaction.type == TransactionType.CLOSE_SESSION:
        for path in (*(transaction.closed_paths or ()), *tree.ephemerals(transaction.session)):
            yield from (path, _parent(path))
    elif transaction.is_applied:
        for operation in transaction.operations:
            path = operation.path or "/"
            yield path
            if operation.type in CREATES or operation.type in DELETES:
                yield _parent(path)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _state(tree: Tree, path: str) -> State | None:
    znode, stored = tree.znode(path), tree.stored(path)
    return None if znode is None or stored is None else State(znode, stored.acl)


def _changes(paths: Iterable[str], before_at: _States, after_at: _States) -> Iterator[ZnodeChange]:
    names = ("data", "acl", *ZnodeStat._fields)
    for path in sorted(paths):
        before, after = before_at(path), after_at(path)
        if before is None or after is None:
            if before is not after:
                yield ZnodeChange(path, "added" if before is None else "removed", before, after)
        elif before != after:
            values = zip(names, _values(before), _values(after), strict=True)
            fields = tuple(name for name, one, other in values if one != other)
            yield ZnodeChange(path, "changed", before, after, fields)


def _values(state: State) -> tuple[object, ...]:
    return state.znode.data, state.acl, *state.znode.stat
