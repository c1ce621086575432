"""Watches as the client keeps them: who is told when the server says that one fired.

The server keeps a watch for (connection, path, kind) only, fires it once and forgets it at the end
of the connection; several requests of ours may share it.
"""

from __future__ import annotations

from collections.abc import Callable

from zkgroup.zookeeper.wire import Event


class Watcher:
    """Tells one request's `on_watch`, at most once."""

    __slots__ = ("_on_watch", "_path")

    def __init__(self, path: str, on_watch: Callable[[str], None]) -> None:
        self._path = path
        self._on_watch: Callable[[str], None] | None = on_watch

    def fire(self) -> None:
        on_watch, self._on_watch = self._on_watch, None
        if on_watch is not None:
            on_watch(self._path)


class Watches:
    """The watches of one connection, by absolute path. On the connection thread only."""

    def __init__(self) -> None:
        self._data: dict[str, list[Watcher]] = {}
        self._children: dict[str, list[Watcher]] = {}

    def add(self, watcher: Watcher, path: str, *, children: bool) -> None:
        table = self._children if children else self._data
        table.setdefault(path, []).append(watcher)

    def fired(self, kind: int, path: str) -> list[Watcher]:
        """Takes out and returns who has to be told of an event."""
        told: list[Watcher] = []
        if kind in (Event.CREATED, Event.DATA_CHANGED, Event.DELETED):
            told += self._data.pop(path, ())
        if kind in (Event.CHILDREN_CHANGED, Event.DELETED):
            told += self._children.pop(path, ())
        return told

    def clear(self) -> None:
        """A disconnect ends them all, silently."""
        self._data.clear()
        self._children.clear()
