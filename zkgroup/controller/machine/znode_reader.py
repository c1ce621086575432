"""What a rule reads, and what it cannot use: watches that say where to look, bulk reads, reports by path.

A znode that nobody can read stops nothing: its path is in `ControllerContext.unreadable`, and so in the
status, until it can be read or is gone (controller.md 1.4).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

from zkgroup.controller.machine.context import ControllerContext
from zkgroup.controller.machine.elector_context import ElectorContext
from zkgroup.controller.machine.event_queue import EventKind, EventQueue, QueuedEvent
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import Znode
from zkgroup.model.requests import Code, Exists, ListChildren, Read
from zkgroup.runtime.events import Watch
from zkgroup.runtime.procedures import Procedure, Query, read_allowed
from zkgroup.znodes.brokers import topics_path

T = TypeVar("T")


class ZnodeReader:
    """The books of what one rule has read."""

    def __init__(self, core: ElectorContext) -> None:
        self.core = core
        self.context = ControllerContext()
        self.queue = EventQueue()
        self.zxid = 0
        """The greatest one seen of a change that was processed."""
        self._armed: dict[str, Watch] = {}

    def enqueue(self, look: EventKind, subject: str = "") -> None:
        """Something may have changed there; it is read when its turn comes."""
        self.queue.add(QueuedEvent(look, subject), self.core.now.ms)

    def forget_watches(self) -> None:
        """They are gone, or it is not known whether they were armed: the next reading arms them again."""
        self._armed.clear()

    def forget_watch(self, path: str) -> None:
        """It was not armed."""
        self._armed.pop(path, None)

    def forget_topics(self, names: Collection[str]) -> None:
        """These are gone: what watches of them have to tell is known."""
        prefix = f"{topics_path()}/"
        for path in [path for path in self._armed if path.startswith(prefix)]:
            if path.removeprefix(prefix).partition("/")[0] in names:
                self._armed.pop(path).fired = True
        for name in names:
            self.queue.discard(QueuedEvent(EventKind.TOPIC, name))

    def watched(self, request: Read | ListChildren | Exists, look: EventKind, subject: str = "") -> Query:
        """The request, made without a watch, as a query that arms one unless one is armed: it says `enqueue`.

        A request that fails leaves it unknown whether the watch is armed; `EventKind.LOAD` follows then.
        """
        path = request.path
        armed = self._armed.get(path)
        if armed is not None and not armed.fired:
            return Query(request)
        watch = self._armed[path] = Watch(lambda: self.enqueue(look, subject))
        return Query(type(request)(path, watch=True), watch)

    def read_many(self, paths: Iterable[str]) -> Procedure[dict[str, Znode]]:
        """Bulk read without watches: path to znode, of those that exist and may be read.

        A znode that an ACL hides is reported; so what is not in the result is missing, or `unreadable`.
        """
        asked = tuple(dict.fromkeys(paths))
        found = yield from self.read_each(asked)
        return {path: znode for path, znode in zip(asked, found, strict=True) if znode is not None}

    def read_each(self, paths: Sequence[str]) -> Procedure[Sequence[Znode | None]]:
        """The same, in the order of the paths; None for what does not exist or may not be read."""
        if not paths:
            return ()
        answered = yield from read_allowed(paths)
        return self.allowed(paths, answered)

    def allowed(
        self, paths: Sequence[str], answered: Sequence[Znode | Code | None]
    ) -> Sequence[Znode | None]:
        """What a bulk read has found, None for what does not exist or may not be read, which is reported."""
        found: list[Znode | None] = []
        for path, znode in zip(paths, answered, strict=True):
            if isinstance(znode, Znode):
                found.append(znode)
                continue
            found.append(None)
            if znode is None:
                self.context.unreadable.pop(path, None)
            else:
                self.report(path, f"cannot be read: {znode.value}")
        self.saw(max((znode.stat.mzxid for znode in found if znode is not None), default=0))
        return found

    def decoded(self, znode: Znode | None, decode: Callable[[str, bytes | None], T]) -> T | None:
        """What a znode holds; None, and its path reported, where it cannot be understood."""
        if znode is None:
            return None
        self.saw(znode.stat.mzxid)
        try:
            value = decode(znode.path, znode.data)
        except CorruptZnodeError as error:
            self.report(znode.path, str(error))
            return None
        self.context.unreadable.pop(znode.path, None)
        return value

    def report(self, path: str, why: str) -> None:
        """This znode cannot be used; the status names it until it can."""
        if self.context.unreadable.get(path) != why:
            self.context.unreadable[path] = why
            self.core.note("znode.unreadable", path=path, detail=why)

    def only(self, parent: str, names: Collection[str]) -> None:
        """The children that a parent has now: no other one is unreadable any more, nor what is below it."""
        listed = {f"{parent}/{name}" for name in names}
        length = len(parent.split("/")) + 1
        for path in list(self.context.unreadable):
            child = "/".join(path.split("/")[:length])
            if path.startswith(f"{parent}/") and child not in listed:
                del self.context.unreadable[path]

    def saw(self, zxid: int | None) -> None:
        """A change with this zxid was processed."""
        self.zxid = max(self.zxid, zxid or 0)
