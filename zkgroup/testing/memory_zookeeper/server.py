"""`MemoryZooKeeper`: a ZooKeeper server in memory, with the responses of a real one, and faults on demand."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple, get_args

from zkgroup.errors import ConfigError
from zkgroup.model.ports import Clock
from zkgroup.model.requests import (
    Code,
    Create,
    CreateMissing,
    CreateMissingDone,
    Exists,
    ExistsDone,
    ListChildren,
    ListChildrenDone,
    ListMany,
    ListManyDone,
    Lost,
    Multi,
    MultiRefused,
    Outcome,
    Read,
    ReadAcls,
    ReadAclsDone,
    ReadDone,
    ReadMany,
    ReadManyDone,
    Refused,
    SetAcls,
    SetAclsDone,
    Sync,
    SyncDone,
    Unanswered,
    ZnodeAcl,
    ZnodeStat,
)
from zkgroup.testing.clock import FakeClock
from zkgroup.testing.memory_zookeeper.client import ClientLink, InFlightRequest, MemoryClient, PendingReply
from zkgroup.testing.memory_zookeeper.direct_writes import DirectWrites
from zkgroup.testing.memory_zookeeper.leader import LoggedTransaction, QuorumLeader, ServerSession
from zkgroup.testing.memory_zookeeper.tree import ADMIN, OPEN, READ, SetAcl, credentials, masked
from zkgroup.zookeeper.settings import OPEN_ACL, Acl, Digest

StepKind = Literal["request", "reply", "watch", "session", "connect", "orphan", "catch_up"]
Fault = Literal["lost_reply", "lost_request", "late"]


class ServerStep(NamedTuple):
    """A possible next event of a client."""

    kind: StepKind
    """`request`: its oldest request is executed. `reply`, `watch`, `session`: its oldest outcome, watch
    event or session event is delivered. `connect`: it connects to a server. `orphan`: a request of a broken
    connection is executed. `catch_up`: its server applies one more transaction."""
    client: str


_WITHOUT_CONNECT = (ClientLink.CONNECTED, ClientLink.CLOSED)
OnWatch = Callable[[str], None] | None


def execute(server: MemoryZooKeeper, client: MemoryClient, flight: InFlightRequest) -> Outcome:
    """Executes a request on the server of this client; returns its outcome."""
    request = flight.request
    if isinstance(request, Multi):
        session_id = flight.session.session_id
        outcome = server.leader.transact(request.operations, session_id, client.name, client.credentials)
        server.catch_up(client.name)
        return outcome
    if isinstance(request, CreateMissing):
        return _create_missing(server, client, request, flight.session.session_id)
    if isinstance(request, Sync):
        server.catch_up(client.name)
        return SyncDone()
    if isinstance(request, ReadMany | ListMany):
        found = (*flight.found, *_read_paths(client, request, request.paths[len(flight.found) :]))
        return ReadManyDone(found) if isinstance(request, ReadMany) else ListManyDone(found)
    if isinstance(request, ReadAcls):
        return ReadAclsDone(tuple([_acl(client, path) for path in request.paths]))
    if isinstance(request, SetAcls):
        return _set_acls(server, client, request, flight.session.session_id)
    if not client.may_read(request.path):  # type: ignore[union-attr]
        return Refused(Code.NO_AUTH, request.path)  # type: ignore[union-attr]
    return _READS[type(request)](client, request, flight.on_watch)


def read_part(client: MemoryClient, paths_at_once: int) -> bool:
    """Executes a part of the client's oldest request, if that is a bulk read with more paths left.

    False where the request is to be executed completely.
    """
    flight = client.requests[0]
    request = flight.request
    if not isinstance(request, ReadMany | ListMany):
        return False
    left = request.paths[len(flight.found) :]
    if len(left) <= paths_at_once:
        return False
    found = (*flight.found, *_read_paths(client, request, left[:paths_at_once]))
    client.requests[0] = flight._replace(found=found)
    return True


def _read_paths(client: MemoryClient, request: ReadMany | ListMany, paths: tuple[str, ...]) -> list[Any]:
    read_path = client.tree.read if isinstance(request, ReadMany) else client.tree.children
    if client.tree.acls.keys().isdisjoint(paths):
        return [read_path(path) for path in paths]
    return [read_path(path) if client.may_read(path) else Code.NO_AUTH for path in paths]


def _create_missing(
    server: MemoryZooKeeper, client: MemoryClient, request: CreateMissing, session_id: int
) -> Outcome:
    """As pipelined creates: each is independent; those after a refused one are still tried.

    A real client reads first, so an ACL does not affect existing znodes.
    """
    refusal: Outcome | None = None
    for path in request.paths:
        outcome = server.leader.transact((Create(path, None),), session_id, client.name, client.credentials)
        if isinstance(outcome, MultiRefused) and outcome.code is not Code.NODE_EXISTS:
            if outcome.code in (Code.NO_AUTH, Code.INVALID_ACL) and path in client.tree.nodes:
                continue
            refusal = refusal or Refused(outcome.code, path)
    server.catch_up(client.name)
    return refusal or CreateMissingDone()


def _set_acls(server: MemoryZooKeeper, client: MemoryClient, request: SetAcls, session_id: int) -> Outcome:
    """As pipelined requests: each is done or refused alone."""
    found: list[ZnodeStat | Code | None] = []
    for change in request.changes:
        done = server.leader.transact((SetAcl(*change),), session_id, client.name, client.credentials)
        if isinstance(done, MultiRefused):
            found.append(None if done.code is Code.NO_NODE else done.code)
        else:
            found.append(done.stats[0])
    server.catch_up(client.name)
    return SetAclsDone(tuple(found))


def _read(client: MemoryClient, request: Read, on_watch: OnWatch) -> Outcome:
    _arm(client.data_watches, request, on_watch)
    return ReadDone(client.tree.read(request.path))


def _acl(client: MemoryClient, path: str) -> ZnodeAcl | Code | None:
    """The ACL, which needs READ or ADMIN; without ADMIN digests are masked."""
    stat, acl = client.tree.stat(path), client.tree.acls.get(path)
    if stat is None:
        return None
    if acl is None:
        return ZnodeAcl(OPEN, stat)
    if not client.credentials.may(READ | ADMIN, acl):
        return Code.NO_AUTH
    return ZnodeAcl(acl if client.credentials.may(ADMIN, acl) else masked(acl), stat)


def _exists(client: MemoryClient, request: Exists, on_watch: OnWatch) -> Outcome:
    _arm(client.data_watches, request, on_watch)
    return ExistsDone(client.tree.stat(request.path))


def _list_children(client: MemoryClient, request: ListChildren, on_watch: OnWatch) -> Outcome:
    children = client.tree.children(request.path)
    _arm(client.child_watches if children is not None else client.data_watches, request, on_watch)
    return ListChildrenDone(children or (), client.tree.stat(request.path))


def _arm(
    table: dict[str, list[Callable[[str], None]]], request: Read | Exists | ListChildren, on_watch: OnWatch
) -> None:
    if request.watch and on_watch is not None:
        table.setdefault(request.path, []).append(on_watch)


_READS: dict[type, Callable[[MemoryClient, Any, OnWatch], Outcome]] = {
    Read: _read,
    Exists: _exists,
    ListChildren: _list_children,
}


class _Locked:
    """A lock that one thread may take several times; `at_end` is called when it has returned it.

    `contextlib.contextmanager` costs more than most of what is done under the lock.
    """

    def __init__(self, lock: threading.RLock, at_end: Callable[[], None] | None) -> None:
        self._lock, self._at_end = lock, at_end
        self._depth = 0

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1

    def __exit__(self, kind: object, *_: object) -> None:
        self._depth -= 1
        is_outermost = self._depth == 0
        self._lock.release()
        if is_outermost and kind is None and self._at_end is not None:
            self._at_end()


class MemoryZooKeeper(DirectWrites):
    """A ZooKeeper server in memory. `log` and `tree()` are the leader's state, which clients may see late.

    A name of a client, or the id of a session, that there is not raises ConfigError.
    """

    bulk_paths: int | None = None
    """Number of paths of a bulk read that are read at once, in stepped mode; all of them when None."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        stepped: bool = False,
        epoch: int = 0,
        log_limit: int | None = None,
    ) -> None:
        """
        Args:
            clock: a new `FakeClock` by default.
            stepped: each request, reply and watch event is a step that the test delivers.
            epoch: the upper half of the zxids, as after the election of a leader.
            log_limit: `log` has the last transactions, from so many up to twice that, for a process that
                runs long. None keeps all, as stepped clients need.
        """
        if stepped and log_limit is not None:
            raise ConfigError("log_limit: expected None, because stepped clients read the whole log")
        self.clock: FakeClock = clock if clock is not None else FakeClock()  # type: ignore[assignment]
        """The clock in the arguments, or a new `FakeClock`: pass it to members too."""
        self.stepped = stepped
        self.leader = QuorumLeader(self.clock, epoch, self._committed, log_limit)
        self.clients: dict[str, MemoryClient] = {}
        self._steps: dict[str, dict[StepKind, ServerStep]] = {}  # a cache
        self._lock = threading.RLock()
        self._locked = _Locked(self._lock, None if stepped else self._drain)
        self._ready: deque[ServerStep] = deque()
        self._delivering = False
        self._expiries: dict[int, Callable[[], None]] = {}
        """Session id to what cancels its expiry, in direct mode while its client is not connected."""

    @property
    def log(self) -> list[LoggedTransaction]:
        """Every write, accepted or refused, and every beginning and end of a session, by zxid."""
        return self.leader.log

    def client(
        self,
        name: str | None = None,
        session_timeout_ms: int = 6000,
        *,
        auth: Digest | None = None,
        acl: tuple[Acl, ...] = OPEN_ACL,
    ) -> MemoryClient:
        """A new client with its own session. In stepped mode its connection is a step to be delivered.

        `auth` and `acl`: as in `ClientSettings`: its credentials, and the ACL of every znode that it creates.
        """
        with self.locked():
            name = name if name is not None else f"client-{len(self.clients)}"
            if name in self.clients:
                raise ConfigError(f"there is a client {name!r} already: expected a name of its own")
            tree = self.leader.tree.copy() if self.stepped else self.leader.tree
            client = MemoryClient(self, name, session_timeout_ms, tree, credentials(auth, acl))
            client.applied = len(self.log)
            self.clients[name] = client
            self._steps[name] = {kind: ServerStep(kind, name) for kind in get_args(StepKind)}
            self.queued(client, "connect")
        return client

    def _known(self, name: str) -> MemoryClient:
        """The client of this name. Raises ConfigError."""
        if name not in self.clients:
            raise ConfigError(
                f"there is no client {name!r}: expected one of {', '.join(self.clients) or 'none yet'}"
            )
        return self.clients[name]

    def pending(self) -> list[ServerStep]:
        """Every step that is possible now, by client in the order of creation. Stepped mode."""
        steps = []
        newest = len(self.leader.log)
        for name, client in self.clients.items():
            if client.requests:
                steps.append(self._steps[name]["request"])
            if client.replies:
                steps.append(self._steps[name]["reply"])
            if client.watches:
                steps.append(self._steps[name]["watch"])
            if client.news:
                steps.append(self._steps[name]["session"])
            if client.link not in _WITHOUT_CONNECT and self._can_connect(client):
                steps.append(self._steps[name]["connect"])
            if client.orphans:
                steps.append(self._steps[name]["orphan"])
            if client.applied < newest:
                steps.append(self._steps[name]["catch_up"])
        return steps

    def deliver(self, step: ServerStep, fault: Fault | None = None) -> None:
        """Performs one step. No effect where the client has no such step.

        Faults, of a `request`: `lost_reply`: executed, outcome `Unanswered`. `lost_request`: not
        executed, outcome `Unanswered`. `late`: outcome `Unanswered` now, executed later as an `orphan`.
        Of a `reply`: `lost_reply`: the response becomes `Unanswered` (outcomes from the client itself
        cannot be lost). The connection stays open; see `cut` for a broken one.
        """
        with self._lock:
            callbacks = self._take(step, fault)
        for callback in callbacks:
            callback()

    def deliver_all(self, limit: int = 100_000) -> None:
        """Delivers everything in order until nothing is pending. Stepped mode."""
        for _ in range(limit):
            steps = self.pending()
            if not steps:
                return
            for step in steps:
                self.deliver(step)
        raise AssertionError(f"steps are still pending after {limit} rounds: {self.pending()}")

    def _take(self, step: ServerStep, fault: Fault | None) -> list[Callable[[], object]]:
        client = self.clients[step.client]
        kind = step.kind
        if kind == "request" and client.requests:
            self._execute_next(client, fault)
        elif kind == "reply" and client.replies:
            reply = client.replies.popleft()
            if fault is not None and reply.is_answer:
                return [lambda: reply.on_outcome(Unanswered("the reply was lost"))]
            client.saw(reply.zxid)
            return [lambda: reply.on_outcome(reply.outcome)]
        elif kind == "watch" and client.watches:
            fired = client.watches.popleft()
            return [lambda c=call: c(fired.path) for call in fired.callbacks]  # type: ignore[misc]
        elif kind == "session" and client.news:
            news = client.news.popleft()
            if self._can_connect(client):
                self.queued(client, "connect")
            return [lambda notify=notify: notify(news.event) for notify in news.listeners]  # type: ignore[misc]
        elif kind == "connect" and self._can_connect(client):
            self._connect(client)
        elif kind == "orphan" and client.orphans:
            self._execute_orphan(client)
        elif kind == "catch_up":
            self.catch_up(client.name, 1)
        return []

    def _execute_next(self, client: MemoryClient, fault: Fault | None) -> None:
        if not client.requests[0].session.alive:
            self.disconnect(client, "the session does not exist on the server")
            return
        while client.orphans:  # sent before it
            self._execute_orphan(client)
        if self.bulk_paths is not None and fault is None and read_part(client, self.bulk_paths):
            return
        flight = client.requests.popleft()
        outcome: Outcome | None = None
        if fault == "late":
            client.orphans.append(flight)
        elif fault != "lost_request":
            outcome = self._execute(client, flight)
        if fault is None and outcome is not None:
            self._answer(client, flight, outcome, client.tree.zxid, is_answer=True)
        else:
            self._answer(client, flight, Unanswered("no answer in time"), 0, is_answer=False)

    def _execute_orphan(self, client: MemoryClient) -> None:
        self._execute(client, client.orphans.popleft()._replace(on_watch=None))

    def _execute(self, client: MemoryClient, flight: InFlightRequest) -> Outcome | None:
        session = flight.session
        if not session.alive:
            return None
        session.heard_ms = self.clock.now_ms()
        if flight.request is None:
            self._end_session(session)
            return None
        return execute(self, client, flight)

    def _answer(
        self, client: MemoryClient, flight: InFlightRequest, outcome: Outcome, zxid: int, *, is_answer: bool
    ) -> None:
        if flight.on_outcome is not None:
            client.replies.append(PendingReply(flight.on_outcome, outcome, zxid, is_answer))
            self.queued(client, "reply")

    def _committed(self, entry: LoggedTransaction) -> None:
        """Called after a transaction. In direct mode every client reads the leader's tree."""
        if not self.stepped:
            for client in self.clients.values():
                client.applied += 1
                client.fire(entry)

    def catch_up(self, name: str, transactions: int | None = None) -> None:
        """Applies more transactions on the client's server, all where None; watches fire."""
        client = self._known(name)
        log = self.leader.log
        if client.applied == len(log):
            return
        tree = client.tree
        end = len(log) if transactions is None else min(len(log), client.applied + transactions)
        for entry in log[client.applied : end]:
            client.applied += 1
            tree.zxid = entry.zxid
            for change in entry.changes:
                tree.apply(change, entry.zxid, entry.time_ms)
            client.fire(entry)

    def _can_connect(self, client: MemoryClient) -> bool:
        if client.held:
            return False
        if client.link is ClientLink.LOST:
            return not client.news  # all listeners get the end of the old session first
        return client.link in (ClientLink.CONNECTING, ClientLink.SUSPENDED)

    def _connect(self, client: MemoryClient) -> None:
        client.orphans.clear()  # the session has moved: the old server refuses requests that it still holds
        session = client.session
        if client.link is ClientLink.SUSPENDED and session is not None:
            if not session.alive:
                client.become(ClientLink.LOST, Lost(client.incarnation, "expired"))
                return
            session.heard_ms = self.clock.now_ms()
            self._forget_expiry(session)
        else:
            client.session = self.leader.create_session(client.name, client.session_timeout_ms)
            client.incarnation += 1
            self.catch_up(client.name)
        client.become(ClientLink.CONNECTED, client.connected_event())

    def disconnect(
        self, client: MemoryClient, reason: str, *, notify: bool = True, keep_requests: bool = False
    ) -> None:
        """Closes the client's connection: requests get no response, and its watches are removed."""
        for flight in client.requests:
            self._answer(client, flight, Unanswered(reason), 0, is_answer=False)
        if keep_requests:
            client.orphans.extend(client.requests)
            for _ in client.requests:
                self.queued(client, "orphan")
        client.requests.clear()
        if not self.stepped and client.session is not None:
            client.session.heard_ms = self.clock.now_ms()
            self._await_expiry(client, client.session)
        client.data_watches.clear()
        client.child_watches.clear()
        if notify:
            client.become(ClientLink.SUSPENDED, client.suspended_event())
            self.queued(client, "connect")

    def _await_expiry(self, client: MemoryClient, session: ServerSession) -> None:
        """Direct mode: ends the session unless its client pings or reconnects in time."""

        def end() -> None:
            with self.locked():
                is_used = client.session is session and client.link is ClientLink.CONNECTED
                if is_used or not session.alive:
                    return
                if self.clock.now_ms() < session.heard_ms + session.timeout_ms:
                    self._await_expiry(client, session)
                else:
                    self._end_session(session)

        self._forget_expiry(session)
        self._expiries[session.session_id] = self.clock.call_at(session.heard_ms + session.timeout_ms, end)

    def _forget_expiry(self, session: ServerSession) -> None:
        self._expiries.pop(session.session_id, lambda: None)()

    def _end_session(self, session: ServerSession) -> None:
        self._forget_expiry(session)
        self.leader.end_session(session)

    def close(self) -> None:
        """Cancels the expiry of sessions without a connection; each is a timer on a clock that runs."""
        with self._lock:
            for forget in self._expiries.values():
                forget()
            self._expiries.clear()

    def cut(
        self, name: str, *, executed: int = 0, keep_requests: bool = False, hold: bool | None = None
    ) -> None:
        """Breaks the connection: the first `executed` requests in flight were executed, none gets a response.

        `keep_requests`: the others are not lost, and may be executed (as `orphan` steps) until the client has
        reconnected. `hold`: it cannot connect until `resume`; by default in direct mode only.
        """
        with self.locked():
            client = self._known(name)
            client.held = not self.stepped if hold is None else hold
            if client.link is ClientLink.CONNECTED:
                for _ in range(min(executed, len(client.requests))):
                    flight = client.requests.popleft()
                    self._execute(client, flight)
                    self._answer(client, flight, Unanswered("connection lost"), 0, is_answer=False)
                self.disconnect(client, "connection lost", keep_requests=keep_requests)

    def suspend(self, name: str) -> None:
        """Cuts the connection of this client until `resume`.

        The client gets `Suspended` at once. In direct mode its session ends, with its ephemerals,
        when the clock has been moved by the session's timeout; the client gets `Lost` after `resume`.
        """
        self.cut(name, hold=True)

    def resume(self, name: str) -> None:
        """Lets a held client connect again, in its session or in a new one."""
        with self.locked():
            client = self._known(name)
            client.held = False
            self.queued(client, "connect")

    def expire(self, name: str) -> None:
        """Ends the session of this client on the server now, whether it is connected or not; its ephemerals
        are deleted.

        In direct mode a connected client gets `Lost` at once and opens a new session; in stepped mode it gets
        it when its next request is executed, or when it reconnects.
        """
        with self.locked():
            client = self._known(name)
            if client.session is None:
                raise ConfigError(f"client {name!r} has no session yet: it has not been connected")
            self.expire_session(client.session.session_id)
            if not self.stepped and client.link is ClientLink.CONNECTED:
                self.disconnect(client, "session expired")

    def expire_session(self, session_id: int) -> None:
        """As `expire`, for any session, also one that its client has abandoned."""
        with self.locked():
            if session_id not in self.leader.sessions:
                raise ConfigError(f"there is no session 0x{session_id:x}, and there was none")
            self._end_session(self.leader.sessions[session_id])

    def ping(self, name: str) -> None:
        """A ping of a connected client."""
        client = self._known(name)
        if client.link is ClientLink.CONNECTED and client.session is not None and client.session.alive:
            client.session.heard_ms = self.clock.now_ms()

    def overdue(self) -> list[int]:
        """Sessions whose timeout has passed since the last ping."""
        now, sessions = self.clock.now_ms(), self.leader.sessions.values()
        return [one.session_id for one in sessions if one.alive and now - one.heard_ms >= one.timeout_ms]

    def locked(self) -> AbstractContextManager[None]:
        """Guards the state; in direct mode all queued steps are delivered at the end."""
        return self._locked

    def queued(self, client: MemoryClient, kind: StepKind) -> None:
        """Marks a step of a client as ready for delivery. Called by the clients, not by tests."""
        if not self.stepped:
            self._ready.append(self._steps[client.name][kind])

    def _drain(self) -> None:
        """Delivers what is ready, unless another thread (or an outer frame of this one) does so."""
        while True:
            with self._lock:
                if self._delivering or not self._ready:
                    return
                self._delivering = True
            try:
                self._deliver_ready()
            finally:
                with self._lock:
                    self._delivering = False

    def _deliver_ready(self) -> None:
        while True:
            with self._lock:
                if not self._ready:
                    return
                step = self._ready.popleft()
            self.deliver(step)
