"""Znodes and lists that come near to what one answer may hold, and subtrees with very many znodes.

A subtree has `depth` names; one with `znodes` or more is reported with its largest znode and its
widest parent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import BY_SUBTREE, Key
from zkgroup.audit.rules import Bounds, Finding, Rule, Screened, folded
from zkgroup.audit.texts import count_text, subtree_text

if TYPE_CHECKING:
    from zkgroup.audit.columns.tables import Tables

_PER_NAME = 4
"""Bytes that a child costs in a list answer beside its name."""


class _Children(NamedTuple):
    """What a list of children holds."""

    number: int = 0
    size: int = 0
    """Bytes of the answer."""


class _Fold:
    """Knows the size of each znode of a subtree: paths and numbers, no data."""

    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._bounds = bounds
        self._sizes: dict[str, int] = {}
        self._written: dict[str, tuple[int, int]] = {}
        """Zxid and time of what wrote each znode that is too large."""

    def see(self, event: Event) -> Iterable[Finding]:
        if event.op == "delete":
            self._sizes.pop(event.path, None)
            self._written.pop(event.path, None)
        elif event.op == "create" or (event.op == "set" and event.path in self._sizes):
            size = len(event.data or b"")
            self._sizes[event.path] = size
            if size >= self._bounds["data_bytes"]:
                self._written[event.path] = (event.zxid, event.time_ms)
            else:
                self._written.pop(event.path, None)
        return ()

    def end(self) -> Iterator[Finding]:
        lists = self._lists()
        yield from self._large()
        for parent, children in sorted(lists.items()):
            if children.size >= self._bounds["list_bytes"]:
                yield Finding(
                    RULE.name,
                    RULE.severity,
                    detail=f"{parent} has {_count(children)}, a list of {children.size} bytes",
                )
        yield from self._subtrees(lists)

    def _large(self) -> Iterator[Finding]:
        for path, (zxid, time_ms) in sorted(self._written.items()):
            yield Finding(
                RULE.name,
                RULE.severity,
                from_zxid=zxid,
                from_ms=time_ms,
                detail=f"{path} holds {self._sizes[path]} bytes",
            )

    def _lists(self) -> Mapping[str, _Children]:
        """The children of each parent, the root left out: it has the names of all keys."""
        lists: dict[str, _Children] = {}
        for path in self._sizes:
            parent, _, name = path.rpartition("/")
            if parent:
                known = lists.get(parent, _Children())
                lists[parent] = _Children(known.number + 1, known.size + len(name.encode()) + _PER_NAME)
        return lists

    def _subtrees(self, lists: Mapping[str, _Children]) -> Iterator[Finding]:
        depth = int(self._bounds["depth"])
        znodes, sizes = Counter[str](), Counter[str]()
        largest: dict[str, str] = {}
        for path, size in self._sizes.items():
            subtree = subtree_text(path, depth)
            znodes[subtree] += 1
            sizes[subtree] += size
            known = largest.setdefault(subtree, path)
            if (-size, path) < (-self._sizes[known], known):
                largest[subtree] = path
        widest: dict[str, str] = {}
        for parent in sorted(lists, key=lambda path: (-lists[path].number, path)):
            widest.setdefault(subtree_text(parent, depth), parent)
        for subtree, count in sorted(znodes.items()):
            if count >= self._bounds["znodes"]:
                biggest, fertile = largest[subtree], widest.get(subtree)
                wide = "" if fertile is None else f"; the widest is {fertile} with {_count(lists[fertile])}"
                yield Finding(
                    RULE.name,
                    "info",
                    detail=f"{subtree}: {count_text(count, 'znode')} with {sizes[subtree]} bytes of data;"
                    f" the largest is {biggest} with {self._sizes[biggest]}{wide}",
                )


def _count(children: _Children) -> str:
    return count_text(children.number, "child", "children")


def _screen(tables: Tables, bounds: Bounds) -> Screened:
    """The last rows of what is there at the end, of subtrees with something large, wide or numerous."""
    from zkgroup.audit.columns.tree import TreeTable

    return Screened(TreeTable(tables, tables.of(BY_SUBTREE)).of_large_subtrees(bounds))


RULE = Rule(
    name="znode_bloat",
    severity="warning",
    question="Which znodes and lists of children come near to the megabyte that one answer may have, and"
    " which subtrees are large?",
    needs=("snapshot",),
    act="Beyond `jute.maxbuffer` (1 MB) clients lose their connection when they read it. Delete dead groups"
    " and topics (dead_group); fewer, or shorter, names below one parent.",
    keys=BY_SUBTREE,
    find=folded(_Fold),
    bounds={"data_bytes": 524_288, "list_bytes": 524_288, "znodes": 100_000, "depth": 1},
    screen=_screen,
)
