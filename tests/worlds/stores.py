"""Stores (`zkgroup.model.ports.Store`) for tests: wrappers that interfere, and stores without a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.worlds import golden_data
from zkgroup.model import Znode, ZnodeStat
from zkgroup.model.ports import Store
from zkgroup.model.requests import (
    Connected,
    Exists,
    ExistsDone,
    ListChildren,
    ListChildrenDone,
    ListMany,
    ListManyDone,
    Multi,
    Outcome,
    Read,
    ReadDone,
    ReadMany,
    ReadManyDone,
    Request,
    Session,
    SessionEvent,
    Sync,
    SyncDone,
    Unanswered,
)

OnOutcome = Callable[[Outcome], None]
Before = Callable[[Request], object]


class WrappedStore:
    """Passes everything on to another store. Subclasses override what they do differently."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def submit(self, request: Request, *, incarnation: int, on_outcome: OnOutcome, **rest: Any) -> None:
        """rest: `on_watch`."""
        self.store.submit(request, incarnation=incarnation, on_outcome=on_outcome, **rest)

    @property
    def last_zxid(self) -> int:
        return self.store.last_zxid

    def listen(self, listener: Callable[[SessionEvent], None]) -> Callable[[], None]:
        return self.store.listen(listener)

    def abandon(self, incarnation: int, reason: str) -> None:
        self.store.abandon(incarnation, reason)

    def close(self, timeout_s: float = 5.0) -> None:
        self.store.close(timeout_s)


class MeddledStore(WrappedStore):
    """Calls `before` with each request, just before the request is passed on."""

    def __init__(self, store: Store, before: Before = lambda request: None) -> None:
        super().__init__(store)
        self.before = before
        self.requests: list[Request] = []
        self.incarnation = 0
        """Of the session that the last request was for."""

    def submit(self, request: Request, *, incarnation: int, **rest: Any) -> None:
        self.requests.append(request)
        self.incarnation = incarnation
        self.before(request)
        super().submit(request, incarnation=incarnation, **rest)


def before_nth(kind: type[Request], number: int, happening: Callable[[], object]) -> Before:
    """Calls a function before the n-th request of a kind; for `MeddledStore`."""
    count = 0

    def before(request: Request) -> None:
        nonlocal count
        if isinstance(request, kind):
            count += 1
            if count == number:
                happening()

    return before


class LosingStore(WrappedStore):
    """A store whose transactions get no answer; `applied` says whether they reach the server."""

    def __init__(self, store: Store, *, applied: bool) -> None:
        super().__init__(store)
        self._applied = applied

    def submit(self, request: Request, *, on_outcome: OnOutcome, **rest: Any) -> None:
        if not isinstance(request, Multi):
            super().submit(request, on_outcome=on_outcome, **rest)
            return
        if self._applied:
            super().submit(request, on_outcome=lambda _: None, **rest)
        on_outcome(Unanswered("lost"))


class ServerlessStore:
    """Reports these events to listeners; subclasses answer requests in `submit`."""

    last_zxid = 0

    def __init__(self, *events: SessionEvent) -> None:
        self.listeners: list[Callable[[SessionEvent], None]] = []
        self._events = events

    def listen(self, listener: Callable[[SessionEvent], None]) -> Callable[[], None]:
        self.listeners.append(listener)
        for event in self._events:
            listener(event)
        return lambda: self.listeners.remove(listener)

    def abandon(self, incarnation: int, reason: str) -> None: ...

    def close(self, timeout_s: float = 5.0) -> None: ...


class RecordedStore(ServerlessStore):
    """Reads of a tree that was recorded from a real server."""

    def __init__(self, name: str) -> None:
        super().__init__(Connected(Session(1, 1, 6000)))
        self._znodes: dict[str, Znode] = {}
        for record in golden_data.lines(name):
            stat = ZnodeStat(*record["stat"].values())
            assert list(record["stat"])[7:] == ["ephemeralOwner", "dataLength", "numChildren", "pzxid"]
            self._znodes[record["path"]] = Znode(record["path"], golden_data.data_of(record), stat)
            self.last_zxid = max(self.last_zxid, stat.mzxid, stat.pzxid)

    def submit(self, request: Request, *, on_outcome: OnOutcome, **rest: Any) -> None:
        on_outcome(self._answer(request))

    def _answer(self, request: Request) -> Outcome:
        match request:
            case ReadMany(paths):
                return ReadManyDone(tuple(self._znodes.get(path) for path in paths))
            case ListMany(paths):
                return ListManyDone(tuple(self._names(path) for path in paths))
            case Read(path):
                return ReadDone(self._znodes.get(path))
            case Exists(path):
                return ExistsDone(self._znodes[path].stat if path in self._znodes else None)
            case ListChildren(path):
                found = self._znodes.get(path)
                return ListChildrenDone(self._names(path) or (), found.stat if found else None)
            case Sync():
                return SyncDone()
        raise AssertionError(f"a recorded tree does not change: {request}")

    def _names(self, path: str) -> tuple[str, ...] | None:
        if path not in self._znodes:
            return None
        prefix = path.rstrip("/") + "/"
        below = (
            other.removeprefix(prefix) for other in self._znodes if other.startswith(prefix) and other != path
        )
        return tuple(name for name in below if "/" not in name)
