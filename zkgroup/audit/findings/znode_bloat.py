"""Znodes and lists that come near to what one answer may hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keyings import BY_SUBTREE
from zkgroup.audit.rules import Bounds, Finding, Key, Rule
from zkgroup.audit.words import count_text

_PER_NAME = 4
"""Bytes that a child costs in a list answer beside its name."""


class _Fold:
    """Knows the size of each znode of a subtree: paths and numbers, no data."""

    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._root = f"/{key[0]}"
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
        yield from self._large()
        yield from self._wide()
        if len(self._sizes) >= self._bounds["znodes"]:
            yield Finding(
                RULE.name,
                "info",
                detail=f"{self._root}: {count_text(len(self._sizes), 'znode')} with"
                f" {sum(self._sizes.values())} bytes of data",
            )

    def _large(self) -> Iterator[Finding]:
        for path, (zxid, time_ms) in sorted(self._written.items()):
            yield Finding(
                RULE.name,
                RULE.severity,
                from_zxid=zxid,
                from_ms=time_ms,
                detail=f"{path} holds {self._sizes[path]} bytes",
            )

    def _wide(self) -> Iterator[Finding]:
        lists: dict[str, tuple[int, int]] = {}
        for path in self._sizes:
            parent, _, name = path.rpartition("/")
            children, size = lists.get(parent, (0, 0))
            lists[parent] = (children + 1, size + len(name.encode()) + _PER_NAME)
        for parent, (children, size) in sorted(lists.items()):
            if parent and size >= self._bounds["list_bytes"]:
                yield Finding(
                    RULE.name,
                    RULE.severity,
                    detail=f"{parent} has {count_text(children, 'child', 'children')}, a list of {size}"
                    " bytes",
                )


RULE = Rule(
    name="znode_bloat",
    severity="warning",
    question="Which znodes and lists of children come near to the megabyte that one answer may have, and"
    " which subtrees are large?",
    needs=("snapshot",),
    act="Beyond `jute.maxbuffer` (1 MB) clients lose their connection when they read it. Delete dead groups"
    " and topics (dead_group); fewer, or shorter, names below one parent.",
    keying=BY_SUBTREE,
    fold=_Fold,
    bounds={"data_bytes": 524_288, "list_bytes": 524_288, "znodes": 100_000},
)
