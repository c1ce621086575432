"""One client of `MemoryZooKeeper`: its queues, its connection, its watches."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from zkgroup.errors import StoreUnavailableError
from zkgroup.model.requests import (
    Code,
    Connected,
    Lost,
    Multi,
    MultiRefused,
    NotSent,
    Outcome,
    Request,
    Session,
    SessionEvent,
    SetData,
    Suspended,
    ZnodeStat,
)
from zkgroup.testing.memory_zookeeper.leader import LoggedTransaction, ServerSession
from zkgroup.testing.memory_zookeeper.tree import (
    READ,
    AclSet,
    Checked,
    Credentials,
    DataSet,
    DataTree,
    Deleted,
    SetAcl,
    parent_of,
)
from zkgroup.zookeeper.settings import Acl

if TYPE_CHECKING:
    from zkgroup.testing.memory_zookeeper.server import MemoryZooKeeper

MAX_REQUEST_BYTES = 1_000_000
"""Largest request that is sent, as `ClientSettings.max_request_bytes`."""

Listener = Callable[[SessionEvent], None]


class ClientLink(enum.Enum):
    """State of a client's connection, as the client knows it."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"
    CLOSED = "closed"


class InFlightRequest(NamedTuple):
    """A request in flight to the server. Without `request`: the end of the session."""

    request: Request | None
    session: ServerSession
    on_outcome: Callable[[Outcome], None] | None
    on_watch: Callable[[str], None] | None
    found: tuple[Any, ...] = ()
    """Results of a bulk read that was executed in part."""


class PendingReply(NamedTuple):
    """An outcome in flight to the caller."""

    on_outcome: Callable[[Outcome], None]
    outcome: Outcome
    zxid: int
    is_answer: bool
    """True if it comes from the server and can be lost."""


class FiredWatch(NamedTuple):
    callbacks: tuple[Callable[[str], None], ...]
    path: str


class SessionNews(NamedTuple):
    listeners: tuple[Listener, ...]
    event: SessionEvent


class MemoryClient:
    """A `Store` on a MemoryZooKeeper. Thread-safe in direct mode."""

    def __init__(
        self,
        server: MemoryZooKeeper,
        name: str,
        session_timeout_ms: int,
        tree: DataTree,
        credentials: Credentials,
    ) -> None:
        self.name = name
        self.credentials = credentials
        """The credentials that the server gets on every connection."""
        self.session_timeout_ms = session_timeout_ms
        self.link = ClientLink.CONNECTING
        self.incarnation = 0
        self.session: ServerSession | None = None
        self.tree = tree
        """The tree of the server that this client is connected to."""
        self.applied = 0
        """Number of transactions of the server's log in `tree`."""
        self.requests: deque[InFlightRequest] = deque()
        self.orphans: deque[InFlightRequest] = deque()
        """Requests of a broken connection that may still be executed; their responses are lost."""
        self.held = False
        """True if it reaches no server until `MemoryZooKeeper.resume`."""
        self.replies: deque[PendingReply] = deque()
        self.watches: deque[FiredWatch] = deque()
        self.news: deque[SessionNews] = deque()
        self.data_watches: dict[str, list[Callable[[str], None]]] = {}
        self.child_watches: dict[str, list[Callable[[str], None]]] = {}
        self.server = server
        self._listeners: dict[int, Listener] = {}
        self._next_listener = 0
        self._last_event: SessionEvent | None = None
        self._last_zxid = 0

    def submit(
        self,
        request: Request,
        *,
        incarnation: int,
        on_outcome: Callable[[Outcome], None],
        on_watch: Callable[[str], None] | None = None,
    ) -> None:
        with self.server.locked():
            refusal = self._refusal(request, incarnation)
            if refusal is not None:
                self.replies.append(PendingReply(on_outcome, refusal, 0, is_answer=False))
                self.server.queued(self, "reply")
            else:
                assert self.session is not None
                self.requests.append(InFlightRequest(request, self.session, on_outcome, on_watch))
                self.server.queued(self, "request")

    def _refusal(self, request: Request, incarnation: int) -> NotSent | None:
        if self.link is not ClientLink.CONNECTED:
            return NotSent(f"the session is {self.link.value}")
        if incarnation != self.incarnation:
            return NotSent(f"session {incarnation} is over; the present one is {self.incarnation}")
        if isinstance(request, Multi):
            size = request_bytes(request)
            if size > MAX_REQUEST_BYTES:
                return NotSent(f"{size} bytes are more than {MAX_REQUEST_BYTES}", too_big=True)
        return None

    @property
    def last_zxid(self) -> int:
        return self._last_zxid

    def listen(self, listener: Listener) -> Callable[[], None]:
        with self.server.locked():
            key = self._next_listener
            self._next_listener += 1
            self._listeners[key] = listener
            if self._last_event is not None:
                self.news.append(SessionNews((listener,), self._last_event))
                self.server.queued(self, "session")
        return lambda: self._unlisten(key)

    def _unlisten(self, key: int) -> None:
        with self.server.locked():
            self._listeners.pop(key, None)

    def abandon(self, incarnation: int, reason: str) -> None:
        """Abandons the session, which lives on the server, with its ephemerals, until it expires."""
        with self.server.locked():
            if incarnation == self.incarnation and self.link in (ClientLink.CONNECTED, ClientLink.SUSPENDED):
                self.server.disconnect(self, reason, notify=False)
                self.become(ClientLink.LOST, Lost(incarnation, reason))
                self.server.queued(self, "connect")

    def close(self, timeout_s: float = 5.0) -> None:
        """Requests in flight are executed, then the session ends; their responses are lost."""
        with self.server.locked():
            if self.link is ClientLink.CLOSED:
                return
            session, was = self.session, self.link
            if was is ClientLink.CONNECTED and session is not None:
                self.requests.append(InFlightRequest(None, session, None, None))
                self.server.disconnect(self, "closed", notify=False, keep_requests=True)
            closed = Lost(
                self.incarnation, "closed", StoreUnavailableError(f"client {self.name!r} was closed")
            )
            self.become(ClientLink.CLOSED, closed if was in _OPEN else None)

    def set_acl(self, path: str, *acl: Acl, version: int = -1) -> ZnodeStat | Code:
        """Sets the ACL of a znode, which needs ADMIN: executed and answered at once in both modes."""
        with self.server.locked():
            assert self.session is not None, f"{self.name} has no session"
            operation = SetAcl(path, tuple(entry.entry for entry in acl), version)
            session_id = self.session.session_id
            done = self.server.leader.transact((operation,), session_id, self.name, self.credentials)
            self.server.catch_up(self.name)
        if isinstance(done, MultiRefused):
            return done.code
        (stat,) = done.stats
        assert stat is not None
        return stat

    def become(self, link: ClientLink, event: SessionEvent | None) -> None:
        """Changes the connection state, and queues the event for the present listeners."""
        self.link = link
        if event is not None:
            self._last_event = event
            self.news.append(SessionNews(tuple(self._listeners.values()), event))
            self.server.queued(self, "session")

    def connected_event(self) -> Connected:
        assert self.session is not None
        return Connected(Session(self.incarnation, self.session.session_id, self.session.timeout_ms))

    def suspended_event(self) -> Suspended:
        return Suspended(self.incarnation)

    def may_read(self, path: str) -> bool:
        """Returns whether the ACL of this znode, as its server has it, lets the client read it."""
        acl = self.tree.acls.get(path)
        return acl is None or self.credentials.may(READ, acl)

    def fire(self, entry: LoggedTransaction) -> None:
        """Queues the watches of this client that the transaction fires."""
        data, children = self.data_watches, self.child_watches
        if not data and not children:
            return
        for change in entry.changes:
            if isinstance(change, (Checked, AclSet)):
                continue
            path = change.path
            callbacks = data.pop(path, [])
            if isinstance(change, Deleted):
                callbacks = callbacks + children.pop(path, [])
            self._queue_watch(callbacks, path, entry)
            if not isinstance(change, DataSet):
                parent = parent_of(path)
                self._queue_watch(children.pop(parent, []), parent, entry)

    def _queue_watch(
        self, callbacks: list[Callable[[str], None]], path: str, entry: LoggedTransaction
    ) -> None:
        """Removes the watch. A client without READ permission gets no event (CVE-2024-23944)."""
        if not callbacks:
            return
        acl = entry.acls.get(path) if entry.acls is not None else None
        if self.credentials.may(READ, acl):
            self.watches.append(FiredWatch(tuple(callbacks), path))
            self.server.queued(self, "watch")

    def saw(self, zxid: int) -> None:
        self._last_zxid = max(self._last_zxid, zxid)


_OPEN = (ClientLink.CONNECTED, ClientLink.SUSPENDED)


def request_bytes(request: Multi) -> int:
    """Approximate size of the packet: headers, path, data and the one ACL of a create."""
    size = 40
    for operation in request.operations:
        data = getattr(operation, "data", None) or b""
        overhead = 25 if isinstance(operation, SetData) else 55
        size += overhead + len(operation.path.encode()) + len(data)
    return size
