"""Links that break, are silent or slow, and a thread that must wake up, against a scripted server."""

from __future__ import annotations

import errno
import os
import socket
import struct
import threading
from collections.abc import Callable

import pytest

from tests.waiting import PATIENCE_S, becomes, eventually, joined
from tests.worlds.scripted_server import (
    CLOSE_SESSION,
    STAT,
    WRITE,
    Asked,
    Peer,
    ScriptedServer,
    connected,
    session_events,
)
from zkgroup.model.requests import (
    Exists,
    Lost,
    Multi,
    NotSent,
    Outcome,
    Read,
    ReadDone,
    ReadMany,
    ReadManyDone,
    SetData,
    Suspended,
    Sync,
    SyncDone,
    Unanswered,
)
from zkgroup.testing import FakeClock
from zkgroup.testing.conformance import Caller
from zkgroup.testing.conformance.target import Pending
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper import client as client_module
from zkgroup.zookeeper.sockets import Waker
from zkgroup.zookeeper.wire import Op


def test_a_write_without_an_answer_is_never_sent_again() -> None:
    """One outcome, unknown; after the reconnect the server hears nothing of it (recipes 10)."""
    asked: list[Asked] = []

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        if number == 1:
            peer.asked()
            return
        while True:
            asked.append(peer.asked())
            peer.reply(asked[-1].xid)
            if asked[-1].op == CLOSE_SESSION:
                return

    with connected(script) as (client, caller):
        write = caller.submit(WRITE)
        assert isinstance(write.outcome(), Unanswered)
        caller.await_event(Suspended)
        client.wait_connected(PATIENCE_S)
        caller.ask(Sync("/"), SyncDone)
        assert len(write.outcomes) == 1
    assert [one.op for one in asked] == [Op.SYNC, CLOSE_SESSION]


def test_a_session_waits_for_a_descriptor(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that has lost its session opens the next one as soon as the system lets it."""
    monkeypatch.setattr(client_module, "_NOTHING_LEFT_PAUSE_S", 0.001)
    pair, refused = socket.socketpair, list[int]()

    def scarce() -> tuple[socket.socket, socket.socket]:
        if len(refused) < 3:
            refused.append(errno.EMFILE)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return pair()

    def script(peer: Peer, number: int) -> None:
        peer.greet(session_id=number)
        peer.serve()

    with connected(script) as (client, caller):
        monkeypatch.setattr(socket, "socketpair", scarce)
        client.abandon(1, "for a test")
        caller.await_event(Lost)
        assert client.wait_connected(PATIENCE_S).incarnation == 2
    assert len(refused) == 3
    assert caplog.text.count("no new session yet: Too many open files") == 1


def test_unsent_requests_are_distinguished() -> None:
    """The server reads nothing: the first request may have reached it, the last has not left."""
    submitted = threading.Event()

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        if number == 1:
            assert submitted.wait(PATIENCE_S)
            return
        peer.serve()

    big = Multi((SetData("/n", bytes(900_000), 0),))
    with connected(script) as (_, caller):
        writes = [caller.submit(big) for _ in range(20)]
        submitted.set()
        kinds = [type(write.outcome()) for write in writes]
        assert kinds[0] is Unanswered
        assert kinds[-1] is NotSent
        assert kinds == sorted(kinds, key=(Unanswered, NotSent).index)


def test_nothing_is_taken_while_suspended() -> None:
    """faults.md, finding 10: kazoo would keep it and send it later."""
    asked: list[Asked] = []
    go_on = threading.Event()

    def script(peer: Peer, number: int) -> None:
        if number == 1:
            peer.greet()
            return
        assert go_on.wait(PATIENCE_S)
        peer.greet()
        while True:
            asked.append(peer.asked())
            peer.reply(asked[-1].xid)
            if asked[-1].op == CLOSE_SESSION:
                return

    with ScriptedServer(script) as server, ZooKeeperClient(server.address) as client:
        caller = Caller(client)
        caller.await_event(Suspended)
        caller.ask(WRITE, NotSent)
        go_on.set()
        client.wait_connected(PATIENCE_S)
        caller.ask(Sync("/"), SyncDone)
    assert [one.op for one in asked] == [Op.SYNC, CLOSE_SESSION]


def test_a_disconnect_fires_no_watch() -> None:
    """kazoo notifies its watchers then; here `Connected` says that all watches are gone."""

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        if number == 1:
            peer.reply(peer.asked().xid, STAT)
            return
        peer.event(3, "/a")  # a watch of nobody
        peer.serve()

    with connected(script) as (client, caller):
        watch = caller.submit(Exists("/a", watch=True))
        watch.outcome()
        caller.await_event(Suspended)
        client.wait_connected(PATIENCE_S)
        caller.ask(Read("/b"), ReadDone)
        assert watch.watched == []


def test_a_link_that_answers_nothing_is_given_up_under_load() -> None:
    """faults.md, finding 4: kazoo stays CONNECTED as long as requests are sent."""
    stopped = threading.Event()

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        peer.answers_pings = False
        while True:
            peer.asked()

    settings = ClientSettings(silence_timeout_ms=300)
    with connected(script, settings) as (client, caller):

        def load() -> None:
            while not stopped.wait(0.02):
                client.submit(Sync("/"), incarnation=1, on_outcome=lambda _outcome: None)

        loader = threading.Thread(target=load)
        loader.start()
        try:
            caller.await_event(Suspended)
        finally:
            stopped.set()
            joined(loader)


class Quiet:
    """A server whose time, and that of its client, passes only when the test says so."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.client: ZooKeeperClient | None = None

    def passes(self, peer: Peer, ms: int) -> None:
        """So much time, after which the server says something and the client has heard it."""
        self.clock.advance(ms)
        peer.event(3, "/elsewhere")
        eventually(self._heard_s, lambda at_s: at_s == self.clock.now_ms() / 1000)

    def _heard_s(self) -> float:
        line = self.client._connection if self.client is not None else None
        return line.handler.socket.last_heard if line is not None and line.handler.socket is not None else 0.0


def test_an_idle_link_that_answers_no_ping_is_given_up() -> None:
    """Pinged after a third of the granted timeout without a request, given up as much later."""
    clock, peers = FakeClock(), list[Peer]()

    def script(peer: Peer, number: int) -> None:
        peers.append(peer)
        peer.greet(timeout_ms=3000)
        peer.answers_pings = False
        peer.asked()

    with connected(script, clock=clock) as (_, caller):
        clock.advance(999)
        assert peers[0].pings == 0
        clock.advance(1)
        becomes(lambda: peers[0].pings, 1)
        clock.advance(999)
        assert session_events(caller) == ["Connected"]
        clock.advance(1)
        caller.await_event(Suspended)
    assert peers[0].pings == 1


def test_an_idle_link_that_answers_pings_is_kept() -> None:
    """Through many of them."""
    enough = threading.Event()

    def script(peer: Peer, number: int) -> None:
        peer.greet(timeout_ms=150)
        original = peer.reply

        def reply(xid: int, body: bytes = b"", *, zxid: int = 100, error: int = 0) -> None:
            original(xid, body, zxid=zxid, error=error)
            if peer.pings >= 5:
                enough.set()

        peer.reply = reply  # type: ignore[method-assign]
        peer.serve()

    settings = ClientSettings(silence_timeout_ms=60_000)
    with ScriptedServer(script) as server, ZooKeeperClient(server.address, settings) as client:
        caller = Caller(client)
        assert enough.wait(PATIENCE_S)
        assert session_events(caller) == ["Connected"]


def test_a_slow_server_that_says_something_is_not_given_up() -> None:
    """Silence counts, not the age of a request: a long bulk read keeps a server busy."""
    quiet = Quiet()

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        asked = peer.asked()
        for _ in range(20):
            quiet.passes(peer, 250)
        peer.reply(asked.xid)
        peer.serve()

    settings = ClientSettings(silence_timeout_ms=4000, request_timeout_ms=60_000)
    with connected(script, settings, quiet.clock) as (quiet.client, caller):
        caller.ask(Sync("/"), SyncDone)
        assert session_events(caller) == ["Connected"]


def test_a_request_without_an_answer_ends_the_connection_whatever_else_comes() -> None:
    """Every request has its outcome within a bounded time."""
    quiet = Quiet()

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        peer.asked()
        for _ in range(7):
            quiet.passes(peer, 50)
        outcomes.append(list(caller.events))
        quiet.clock.advance(50)
        peer.asked()

    outcomes: list[list[object]] = []
    settings = ClientSettings(request_timeout_ms=400, silence_timeout_ms=60_000)
    with connected(script, settings, quiet.clock) as (quiet.client, caller):
        caller.ask(WRITE, Unanswered)
        caller.await_event(Suspended)
    assert [len(events) for events in outcomes] == [1]


@pytest.mark.parametrize("kind", ["write", "bulk read", "abandon", "close"])
def test_what_comes_just_before_the_thread_falls_asleep_is_not_overlooked(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waker that is not armed is not woken, so the queue is checked after arming it."""
    original = Waker.arm
    actions: list[Callable[[], object]] = []

    def arm(self: Waker) -> None:
        if actions and threading.current_thread().name.startswith("zkgroup-zookeeper"):
            actions.pop()()
        original(self)

    def script(peer: Peer, number: int) -> None:
        peer.greet(timeout_ms=600_000)  # no ping comes to wake the thread up
        while True:
            asked = peer.asked()
            body = struct.pack("!iBii", -1, 0, -101, -101) * 2 if asked.op == Op.MULTI_READ else b""
            peer.reply(asked.xid, body)
            if asked.op == CLOSE_SESSION:
                return

    with connected(script) as (client, caller):
        caller.ask(Sync("/"), SyncDone)
        monkeypatch.setattr(Waker, "arm", arm)
        pending: list[Pending] = []
        acts: dict[str, Callable[[], object]] = {
            "write": lambda: pending.append(caller.submit(Sync("/"))),
            "bulk read": lambda: pending.append(caller.submit(ReadMany(("/a", "/b")))),
            "abandon": lambda: client.abandon(1, "test"),
            "close": client.close,
        }
        done = threading.Event()

        def answered(_outcome: Outcome) -> None:
            """On the connection thread, which next goes back to sleep."""
            actions.append(lambda: (acts[kind](), done.set()))

        client.submit(Sync("/"), incarnation=1, on_outcome=answered)
        assert done.wait(PATIENCE_S)
        if kind in ("write", "bulk read"):
            assert isinstance(pending[0].outcome(), SyncDone | ReadManyDone)
        else:
            caller.await_event(Lost, 1)
