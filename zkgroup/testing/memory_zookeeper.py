"""A ZooKeeper in memory: the same answers, Stats and watches as a real server, and every fault on demand.

Two modes.

*Direct* (the default): a request is executed and answered at once, on the thread that submits it or on
one that is already delivering; callbacks run without a lock held, one at a time, in order, and may submit
again. Any thread may use it. A client that is connected is heard of all the time; the session of one that is
not (`suspend`, `cut`, `MemoryClient.abandon`) ends when the FakeClock comes to its timeout.

*Stepped* (`stepped=True`): nothing happens by itself. `pending()` names what can happen next, `deliver`
makes one of them happen. A request is first *executed* and its reply delivered in another step; watches,
replies and session news of a client are three queues, each in order, as with a real client. Each
client's server lags behind until it is caught up (a step of its own), asked to `Sync`, or answers a
write. With `bulk_paths` a longer bulk read takes several steps, as path by path on 3.4. For one thread.

Znodes have ACLs of the schemes `world`, `auth`, `digest` and `ip`, checked as by a server of 3.9; what tests
write past all clients is refused by none.

What is not modelled: containers, TTLs, quotas, several servers to choose from on reconnect.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import get_args

from zkgroup.model.ports import Clock, DrivenClock
from zkgroup.model.requests import Lost, Outcome, Unanswered
from zkgroup.testing.clock import FakeClock
from zkgroup.testing.memory_zookeeper_acls import credentials
from zkgroup.testing.memory_zookeeper_client import InFlight, Link, MemoryClient, Reply
from zkgroup.testing.memory_zookeeper_execute import execute, read_part
from zkgroup.testing.memory_zookeeper_leader import Leader, ServerSession, Transaction
from zkgroup.testing.memory_zookeeper_steps import Fault as Fault
from zkgroup.testing.memory_zookeeper_steps import Step as Step
from zkgroup.testing.memory_zookeeper_steps import StepKind as StepKind
from zkgroup.testing.memory_zookeeper_writing import Writing
from zkgroup.zookeeper.settings import OPEN_ACL, Acl, Digest


class MemoryZooKeeper(Writing):
    """The server. `log` and `tree()` are the truth that clients see late."""

    bulk_paths: int | None = None
    """So many paths of a bulk read are read at one moment, in stepped mode; all of them when None."""

    def __init__(self, clock: Clock | None = None, *, stepped: bool = False, epoch: int = 0) -> None:
        """`epoch`: upper half of the zxids, as the election of a real leader sets it."""
        self.clock: FakeClock = clock if clock is not None else FakeClock()  # type: ignore[assignment]
        """The one that was given, else one of its own: give it to members too."""
        self.stepped = stepped
        self.leader = Leader(self.clock, epoch, self._committed)
        self.clients: dict[str, MemoryClient] = {}
        self._steps: dict[str, dict[StepKind, Step]] = {}  # made once: the simulator asks all the time
        self._lock = threading.RLock()
        self._ready: deque[Step] = deque()
        self._delivering = False
        self._depth = 0

    @property
    def log(self) -> list[Transaction]:
        """Every write, accepted or refused, and every session's beginning and end, in order of zxid."""
        return self.leader.log

    # --- clients ----------------------------------------------------------------------------------

    def client(
        self,
        name: str | None = None,
        session_timeout_ms: int = 6000,
        *,
        auth: Digest | None = None,
        acl: tuple[Acl, ...] = OPEN_ACL,
    ) -> MemoryClient:
        """A new client of its own session. In stepped mode its connection is a step to be delivered.

        `auth` and `acl`: as in `ClientSettings`, who it is, and the ACL of every znode that it creates.
        """
        with self.locked():
            name = name if name is not None else f"client-{len(self.clients)}"
            assert name not in self.clients, f"a client {name!r} exists"
            tree = self.leader.tree.copy() if self.stepped else self.leader.tree
            client = MemoryClient(self, name, session_timeout_ms, tree, credentials(auth, acl))
            client.applied = len(self.log)
            self.clients[name] = client
            self._steps[name] = {kind: Step(kind, name) for kind in get_args(StepKind)}
            self.queued(client, "connect")
        return client

    # --- what can happen, and making it happen ----------------------------------------------------

    def pending(self) -> list[Step]:
        """Every step that is possible now, clients in order of their making. Stepped mode."""
        steps = []
        newest = len(self.leader.log)
        for client in self.clients.values():
            possible = self._steps[client.name]
            if client.requests:
                steps.append(possible["request"])
            if client.replies:
                steps.append(possible["reply"])
            if client.watches:
                steps.append(possible["watch"])
            if client.news:
                steps.append(possible["session"])
            if client.link is not Link.CONNECTED and self._can_connect(client):
                steps.append(possible["connect"])
            if client.orphans:
                steps.append(possible["orphan"])
            if client.applied < newest:
                steps.append(possible["catch_up"])
        return steps

    def deliver(self, step: Step, fault: Fault | None = None) -> None:
        """Makes one step happen. Nothing happens where the client has nothing of the kind.

        Faults, of a `request`: `lost_reply`: executed, outcome `Unanswered`. `lost_request`: not
        executed, outcome `Unanswered`. `late`: outcome `Unanswered` now, executed later as an `orphan`.
        Of a `reply`: `lost_reply`: the answer becomes `Unanswered` (outcomes that the client itself
        gives cannot be lost). The connection lives on; see `cut` for one that does not.
        """
        with self._lock:
            callbacks = self._take(step, fault)
        for callback in callbacks:
            callback()

    def settle(self, limit: int = 100_000) -> None:
        """Delivers everything in order until nothing is pending. Stepped mode, for the quiet end."""
        for _ in range(limit):
            steps = self.pending()
            if not steps:
                return
            for step in steps:
                self.deliver(step)
        raise AssertionError(f"still something to deliver after {limit} rounds: {self.pending()}")

    def _take(self, step: Step, fault: Fault | None) -> list[Callable[[], object]]:
        client = self.clients[step.client]
        kind = step.kind
        if kind == "request" and client.requests:
            self._execute_next(client, fault)
        elif kind == "reply" and client.replies:
            reply = client.replies.popleft()
            if fault is not None and reply.is_answer:
                return [lambda: reply.on_outcome(Unanswered("the reply got lost"))]
            client.saw(reply.zxid)
            return [lambda: reply.on_outcome(reply.outcome)]
        elif kind == "watch" and client.watches:
            fired = client.watches.popleft()
            return [lambda c=call: c(fired.path) for call in fired.callbacks]  # type: ignore[misc]
        elif kind == "session" and client.news:
            news = client.news.popleft()
            if self._can_connect(client):
                self.queued(client, "connect")
            return [lambda tell=tell: tell(news.event) for tell in news.listeners]  # type: ignore[misc]
        elif kind == "connect" and self._can_connect(client):
            self._connect(client)
        elif kind == "orphan" and client.orphans:
            self._execute_orphan(client)
        elif kind == "catch_up":
            self.catch_up(client.name, 1)
        return []

    # --- executing requests -----------------------------------------------------------------------

    def _execute_next(self, client: MemoryClient, fault: Fault | None) -> None:
        if not client.requests[0].session.alive:
            self.disconnect(client, "the server knows no such session")
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

    def _execute(self, client: MemoryClient, flight: InFlight) -> Outcome | None:
        session = flight.session
        if not session.alive:
            return None
        session.heard_ms = self.clock.now_ms()
        if flight.request is None:
            self.leader.end_session(session)
            return None
        return execute(self, client, flight)

    def _answer(
        self, client: MemoryClient, flight: InFlight, outcome: Outcome, zxid: int, *, is_answer: bool
    ) -> None:
        if flight.on_outcome is not None:
            client.replies.append(Reply(flight.on_outcome, outcome, zxid, is_answer))
            self.queued(client, "reply")

    # --- servers that follow ----------------------------------------------------------------------

    def _committed(self, entry: Transaction) -> None:
        """In direct mode every client reads the leader's own tree."""
        if not self.stepped:
            for client in self.clients.values():
                client.applied += 1
                client.fire(entry)

    def catch_up(self, name: str, transactions: int | None = None) -> None:
        """The server of this client applies so many more transactions, all where None; watches fire."""
        client = self.clients[name]
        tree = client.tree
        end = len(self.log) if transactions is None else min(len(self.log), client.applied + transactions)
        for entry in self.log[client.applied : end]:
            client.applied += 1
            tree.zxid = entry.zxid
            for change in entry.changes:
                tree.apply(change, entry.zxid, entry.time_ms)
            client.fire(entry)

    # --- connections and sessions -----------------------------------------------------------------

    def _can_connect(self, client: MemoryClient) -> bool:
        if client.held:
            return False
        if client.link is Link.LOST:
            return not client.news  # everybody has been told of the end first
        return client.link in (Link.CONNECTING, Link.SUSPENDED)

    def _connect(self, client: MemoryClient) -> None:
        client.orphans.clear()  # the session has moved: what the old server still holds is refused
        session = client.session
        if client.link is Link.SUSPENDED and session is not None:
            if not session.alive:
                client.become(Link.LOST, Lost(client.incarnation, "expired"))
                return
            session.heard_ms = self.clock.now_ms()
        else:
            client.session = self.leader.create_session(client.name, client.session_timeout_ms)
            client.incarnation += 1
            self.catch_up(client.name)
        client.become(Link.CONNECTED, client.connected_event())

    def disconnect(
        self, client: MemoryClient, reason: str, *, tell: bool = True, keep_requests: bool = False
    ) -> None:
        """The client gives its connection up: nobody is answered any more, its watches are gone."""
        for flight in client.requests:
            self._answer(client, flight, Unanswered(reason), 0, is_answer=False)
        if keep_requests:
            client.orphans.extend(client.requests)
            for _ in client.requests:
                self.queued(client, "orphan")
        client.requests.clear()
        if not self.stepped and client.session is not None and isinstance(self.clock, DrivenClock):
            client.session.heard_ms = self.clock.now_ms()
            self._await_expiry(client, client.session)
        client.data_watches.clear()
        client.child_watches.clear()
        if tell:
            client.become(Link.SUSPENDED, client.suspended_event())
            self.queued(client, "connect")

    def _await_expiry(self, client: MemoryClient, session: ServerSession) -> None:
        """Direct mode: the session ends unless its client is heard of, or connects again, in time."""

        def end() -> None:
            with self.locked():
                is_used = client.session is session and client.link is Link.CONNECTED
                if is_used or not session.alive:
                    return
                if self.clock.now_ms() < session.heard_ms + session.timeout_ms:
                    self._await_expiry(client, session)
                else:
                    self.leader.end_session(session)

        self.clock.call_at(session.heard_ms + session.timeout_ms, end)

    # --- faults -----------------------------------------------------------------------------------

    def cut(
        self, name: str, *, executed: int = 0, keep_requests: bool = False, hold: bool | None = None
    ) -> None:
        """The connection breaks: the first `executed` requests in flight were executed, none is answered.

        `keep_requests`: the others are not lost but on their way, and may be executed (as `orphan` steps)
        until the client has connected again. `hold`: it cannot connect until `resume`; when not said, in
        direct mode only.
        """
        with self.locked():
            client = self.clients[name]
            client.held = not self.stepped if hold is None else hold
            if client.link is Link.CONNECTED:
                for _ in range(min(executed, len(client.requests))):
                    flight = client.requests.popleft()
                    self._execute(client, flight)
                    self._answer(client, flight, Unanswered("connection lost"), 0, is_answer=False)
                self.disconnect(client, "connection lost", keep_requests=keep_requests)

    def suspend(self, name: str) -> None:
        """Cuts the connection of this client until `resume`.

        The client is told at once that it is suspended. In direct mode its session ends, with its ephemerals,
        when the clock has been moved by the session's timeout; the client learns of that after `resume`.
        """
        self.cut(name, hold=True)

    def resume(self, name: str) -> None:
        """A client that was held reaches a server again, in its session or in a new one."""
        with self.locked():
            self.clients[name].held = False
            self.queued(self.clients[name], "connect")

    def expire(self, name: str) -> None:
        """The server ends the session of this client now, wherever the client is: its ephemerals are gone.

        In direct mode a connected client is told at once and opens a new session; in stepped mode it
        learns it when its next request is executed, or when it connects again.
        """
        with self.locked():
            client = self.clients[name]
            assert client.session is not None, f"{name} has no session"
            self.expire_session(client.session.session_id)
            if not self.stepped and client.link is Link.CONNECTED:
                self.disconnect(client, "session expired")

    def expire_session(self, session_id: int) -> None:
        """As `expire`, for any session: also one that its client has abandoned."""
        with self.locked():
            self.leader.end_session(self.leader.sessions[session_id])

    def ping(self, name: str) -> None:
        """The server hears of a connected client, as by its pings."""
        client = self.clients[name]
        if client.link is Link.CONNECTED and client.session is not None and client.session.alive:
            client.session.heard_ms = self.clock.now_ms()

    def overdue(self) -> list[int]:
        """Sessions that the server may expire by now: not heard of for their timeout."""
        now, sessions = self.clock.now_ms(), self.leader.sessions.values()
        return [one.session_id for one in sessions if one.alive and now - one.heard_ms >= one.timeout_ms]

    # --- direct mode ------------------------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Guards the state; in direct mode everything queued meanwhile is delivered at the end."""
        with self._lock:
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                outermost = self._depth == 0
        if outermost and not self.stepped:
            self._drain()

    def queued(self, client: MemoryClient, kind: StepKind) -> None:
        if not self.stepped:
            self._ready.append(self._steps[client.name][kind])

    def _drain(self) -> None:
        """Delivers what is ready, unless another thread (or an outer frame of this one) is at it."""
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
