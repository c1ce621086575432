"""Reads znodes for the active controller: with watches that enqueue events, and in bulk.

A znode that cannot be read stops nothing: its path is in `ControllerContext.unreadable`, and so in the
status, until it can be read or is gone (reading rules, controller.md 1.4).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

from zkgroup.controller.machine import event_manager
from zkgroup.controller.machine.context import ControllerContext
from zkgroup.controller.machine.event_manager import EventKind, EventManager
from zkgroup.controller.machine.settings import ElectorContext
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import Znode
from zkgroup.model.requests import Code, Exists, ListChildren, Read
from zkgroup.runtime.events import Watch
from zkgroup.runtime.procedures import Procedure, Query, read_allowed
from zkgroup.znodes.brokers import topics_path

T = TypeVar("T")


class ZnodeReader:
    """The watches of one active controller, and its bulk reads."""

    def __init__(self, core: ElectorContext, context: ControllerContext, events: EventManager) -> None:
        self._core = core
        self._context = context
        self._events = events
        self._armed: dict[str, Watch] = {}
        self.zxid = 0
        """The greatest zxid of a change that was read or written."""

    def forget_watches(self) -> None:
        """The watches are gone, or it is not known whether they were armed: the next reads arm them again."""
        self._armed.clear()

    def forget_watch(self, path: str) -> None:
        self._armed.pop(path, None)

    def forget_topics(self, names: Collection[str]) -> None:
        """These topics are gone: what their watches would report is known."""
        prefix = f"{topics_path()}/"
        for path in [path for path in self._armed if path.startswith(prefix)]:
            if path.removeprefix(prefix).partition("/")[0] in names:
                self._armed.pop(path).fired = True
        for name in names:
            self._events.discard(event_manager.TOPIC, name)

    def watched(self, request: Read | ListChildren | Exists, kind: EventKind, subject: str = "") -> Query:
        """The request as a query that arms a watch, unless one is armed; the watch enqueues the event.

        After a request that fails it is not known whether the watch is armed; `event_manager.LOAD` follows.
        """
        path = request.path
        armed = self._armed.get(path)
        if armed is not None and not armed.fired:
            return Query(request)
        watch = self._armed[path] = Watch(lambda: self._events.enqueue(kind, subject))
        return Query(type(request)(path, watch=True), watch)

    def read_many(self, paths: Iterable[str]) -> Procedure[dict[str, Znode]]:
        """Bulk read without watches: path to znode, of those that exist and may be read.

        A znode that an ACL hides is reported; so what is not in the result is missing, or `unreadable`.
        """
        requested = tuple(dict.fromkeys(paths))
        found = yield from self.read_each(requested)
        return {path: znode for path, znode in zip(requested, found, strict=True) if znode is not None}

    def read_each(self, paths: Sequence[str]) -> Procedure[Sequence[Znode | None]]:
        """The same, in the order of the paths; None for a znode that does not exist or may not be read."""
        if not paths:
            return ()
        replies = yield from read_allowed(paths)
        return self.allowed(paths, replies)

    def allowed(self, paths: Sequence[str], replies: Sequence[Znode | Code | None]) -> Sequence[Znode | None]:
        """The znodes of a bulk read; None for one that does not exist, or may not be read and is reported."""
        found: list[Znode | None] = []
        for path, znode in zip(paths, replies, strict=True):
            if isinstance(znode, Znode):
                found.append(znode)
                continue
            found.append(None)
            if znode is None:
                self._context.unreadable.pop(path, None)
            else:
                self.report(path, f"cannot be read: {znode.value}")
        self.saw(max((znode.stat.mzxid for znode in found if znode is not None), default=0))
        return found

    def decoded(self, znode: Znode | None, decode: Callable[[str, bytes | None], T]) -> T | None:
        """The value of a znode; None, and its path reported, where it is corrupt."""
        if znode is None:
            return None
        self.saw(znode.stat.mzxid)
        try:
            value = decode(znode.path, znode.data)
        except CorruptZnodeError as error:
            self.report(znode.path, str(error))
            return None
        self._context.unreadable.pop(znode.path, None)
        return value

    def report(self, path: str, why: str) -> None:
        """This znode cannot be used; the status names it until it can."""
        if self._context.unreadable.get(path) != why:
            self._context.unreadable[path] = why
            self._core.note("znode.unreadable", path=path, detail=why)

    def only(self, parent: str, names: Collection[str]) -> None:
        """A parent has these children alone: no other child, and nothing below it, is unreadable any more."""
        listed = {f"{parent}/{name}" for name in names}
        length = len(parent.split("/")) + 1
        for path in list(self._context.unreadable):
            child = "/".join(path.split("/")[:length])
            if path.startswith(f"{parent}/") and child not in listed:
                del self._context.unreadable[path]

    def saw(self, zxid: int | None) -> None:
        self.zxid = max(self.zxid, zxid or 0)
