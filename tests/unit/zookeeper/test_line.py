"""The client on kazoo's seam, against a server that follows a script.

What is relied on in kazoo stands here, so that an upgrade of kazoo that changes it fails here.
"""

from __future__ import annotations

import logging
import os
import struct
import threading
from collections.abc import Callable

import pytest

from tests.unit.zookeeper.scripted import AUTH, CLOSE_SESSION, STAT, Asked, Hello, Peer, ScriptedServer
from zkgroup.errors import AuthenticationError, ConfigError, ForkedClientError, StoreUnavailableError
from zkgroup.model.requests import (
    Code,
    Connected,
    Create,
    Exists,
    ExistsDone,
    Lost,
    Multi,
    NotSent,
    Outcome,
    Read,
    ReadDone,
    ReadMany,
    ReadManyDone,
    Refused,
    SetData,
    Suspended,
    Sync,
    SyncDone,
    Unanswered,
)
from zkgroup.testing import wait_until
from zkgroup.testing.conformance import Caller
from zkgroup.testing.conformance.target import Pending
from zkgroup.zookeeper import ClientSettings, Digest, Secret, ZooKeeperClient
from zkgroup.zookeeper.exchange import Exchange
from zkgroup.zookeeper.handler import LineHandler
from zkgroup.zookeeper.sockets import Bell
from zkgroup.zookeeper.wire import Op

Script = Callable[[Peer, int], None]
WRITE = Multi((SetData("/n", b"data", 0),))


def told(caller: Caller) -> list[str]:
    return [type(event).__name__ for event in caller.events]


# --- what we rely on in kazoo ---------------------------------------------------------------------


def test_the_granted_timeout_is_told_not_the_one_asked_for() -> None:
    """reliability finding 3: kazoo keeps the requested one. Asked to the millisecond, granted another."""
    hellos: list[Hello] = []

    def script(peer: Peer, number: int) -> None:
        hellos.append(peer.hear_hello())
        peer.grant(session_id=0x77, timeout_ms=4321)
        peer.serve()

    with (
        ScriptedServer(script) as server,
        ZooKeeperClient(server.address, ClientSettings(session_timeout_ms=8351)) as client,
    ):
        session = client.wait_connected(10)
        assert (session.timeout_ms, session.session_id, session.incarnation) == (4321, 0x77, 1)
        assert (hellos[0].timeout_ms, hellos[0].session_id, hellos[0].last_zxid) == (8351, 0, 0)


def test_a_reconnect_resumes_the_session_and_tells_the_latest_zxid_seen() -> None:
    """Otherwise an older server would be taken, and the past be read again."""
    hellos: list[Hello] = []

    def script(peer: Peer, number: int) -> None:
        hellos.append(peer.hear_hello())
        peer.grant()
        if number == 1:
            peer.reply(peer.asked().xid, STAT, zxid=4711)
            peer.asked()
            return
        peer.serve()

    with ScriptedServer(script) as server, ZooKeeperClient(server.address) as client:
        caller = Caller(client)
        caller.session()
        caller.ask(Exists("/a"), ExistsDone)
        assert client.last_zxid == 4711
        caller.ask(Sync("/"), Unanswered)
        caller.await_event(Suspended)
        client.wait_connected(10)
        assert (hellos[1].last_zxid, hellos[1].session_id) == (4711, 7)
        assert hellos[1].password == b"password-of-16-b"
        assert {event.session.incarnation for event in caller.events if isinstance(event, Connected)} == {1}


def test_nothing_is_sent_and_nobody_told_before_authentication_is_over() -> None:
    """kazoo announces CONNECTED before it authenticates."""
    answer_auth, authenticating = threading.Event(), threading.Event()
    asked: list[Asked] = []

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        auth = peer.asked()
        asked.append(auth)
        authenticating.set()
        assert answer_auth.wait(10)
        peer.reply(auth.xid)
        peer.serve()

    settings = ClientSettings(auth=Digest("me", Secret("canary")))
    with ScriptedServer(script) as server, ZooKeeperClient(server.address, settings) as client:
        caller = Caller(client)
        assert authenticating.wait(10)
        caller.ask(Sync("/"), NotSent)
        assert caller.events == []
        answer_auth.set()
        caller.session()
        assert (asked[0].op, asked[0].xid) == (AUTH, -4)
        assert asked[0].body.endswith(b"me:canary")


def test_refused_credentials_end_the_client() -> None:
    """Told to listeners and to who waits; no further attempt."""
    connections: list[int] = []

    def script(peer: Peer, number: int) -> None:
        connections.append(number)
        peer.greet()
        peer.reply(peer.asked().xid, error=-115)

    settings = ClientSettings(auth=Digest("me", Secret("canary")))
    with ScriptedServer(script) as server, ZooKeeperClient(server.address, settings) as client:
        caller = Caller(client)
        lost = caller.await_event(Lost)
        assert isinstance(lost, Lost)
        assert isinstance(lost.fatal, AuthenticationError)
        with pytest.raises(AuthenticationError):
            client.wait_connected(10)
        caller.ask(Sync("/"), NotSent)
        late = Caller(client)
        assert late.await_event(Lost) == lost
    assert connections == [1]


def test_a_missing_chroot_ends_the_client_and_creates_nothing() -> None:
    """A ConfigError that names it."""
    asked: list[Asked] = []

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        asked.append(peer.asked())
        peer.reply(asked[0].xid, error=-101)
        asked.append(peer.asked())

    with (
        ScriptedServer(script) as server,
        ZooKeeperClient(server.address + "/not/there") as client,
        pytest.raises(ConfigError, match="/not/there"),
    ):
        client.wait_connected(10)
    assert [(one.op, one.path) for one in asked] == [(Op.EXISTS, "/not/there")]


def test_an_expired_session_is_told_before_the_next_one_is_opened() -> None:
    """reliability finding 4 of kazoo's ways: it would go on under the same object."""
    hellos: list[Hello] = []
    asked: list[Asked] = []
    opened = threading.Event()

    def script(peer: Peer, number: int) -> None:
        hello = peer.hear_hello()
        hellos.append(hello)
        if number == 1:
            peer.grant(session_id=1)
        elif hello.session_id == 1:
            peer.grant(timeout_ms=0)
        else:
            opened.set()
            peer.grant(session_id=2)
            asked.append(peer.asked())
            peer.reply(asked[0].xid)
            peer.serve()

    with ScriptedServer(script) as server, ZooKeeperClient(server.address) as client:
        caller = Caller(client)

        def on_event(event: object) -> None:
            if isinstance(event, Lost):
                opened_before_lost.append(opened.is_set())
                caller.store.submit(WRITE, incarnation=1, on_outcome=outcomes.append)

        opened_before_lost: list[bool] = []
        outcomes: list[object] = []
        client.listen(on_event)
        assert caller.session(2).session_id == 2
        caller.ask(Sync("/"), SyncDone, 2)
        assert told(caller) == ["Connected", "Suspended", "Lost", "Connected"]
        assert opened_before_lost == [False]
        assert [type(outcome) for outcome in outcomes] == [NotSent]
        assert [one.op for one in asked] == [Op.SYNC]
        wait_until(lambda: "zkgroup-zookeeper-1" not in {thread.name for thread in threading.enumerate()})
        assert [hello.session_id for hello in hellos] == [0, 1, 0]


def test_secrets_and_data_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """reliability finding 12: kazoo logs both at DEBUG; whatever is switched on, ours do not come out."""
    caplog.set_level(1)
    for name in ("kazoo", "kazoo.client", "kazoo.protocol.connection", "zkgroup", "zkgroup.zookeeper"):
        caplog.set_level(1, name)

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        peer.reply(peer.asked().xid)
        if number == 1:
            peer.reply(peer.asked().xid, b"not a reply")  # an unreadable answer is reported, too
            return
        peer.serve()

    settings = ClientSettings(auth=Digest("me", Secret("canary")))
    with ScriptedServer(script) as server, ZooKeeperClient(server.address, settings) as client:
        caller = Caller(client)
        caller.session()
        caller.ask(Multi((Create("/canary-path", b"canary-data"),)), Unanswered)
        caller.await_event(Suspended)
        client.wait_connected(10)
    text = caplog.text + "".join(str(record.args) for record in caplog.records)
    assert "Connecting to" in text
    assert "canary" not in text
    assert "password-of-16-b" not in text
    assert b"password-of-16-b".hex() not in text


def test_the_handler_is_told_the_main_loop_from_the_set_up() -> None:
    """kazoo selects on two things there and on one elsewhere."""
    waits: list[int] = []
    original = LineHandler.select

    def noting(self: LineHandler, rlist: list[object], *rest: object) -> object:
        waits.append(len(rlist))
        return original(self, rlist, *rest)  # type: ignore[arg-type]

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        peer.serve()

    with pytest.MonkeyPatch.context() as patch, ScriptedServer(script) as server:
        patch.setattr(LineHandler, "select", noting)
        with ZooKeeperClient(server.address) as client:
            client.wait_connected(10)
    assert set(waits) == {0, 1, 2}
    assert waits.index(0) < waits.index(1) < waits.index(2)
    assert 2 in waits[waits.index(2) :]


# --- odd answers ----------------------------------------------------------------------------------


def test_an_error_number_nobody_knows_is_an_answer() -> None:
    """kazoo's own loop dies of it."""

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        peer.reply(peer.asked().xid, error=-9999)
        peer.reply(peer.asked().xid)
        peer.serve()

    with ScriptedServer(script) as server, ZooKeeperClient(server.address) as client:
        caller = Caller(client)
        caller.session()
        assert caller.ask(Read("/a"), Refused) == Refused(Code.OTHER, "/a")
        caller.ask(Sync("/"), SyncDone)
        assert told(caller) == ["Connected"]


def test_an_unreadable_answer_leaves_the_outcome_unknown() -> None:
    """The write may have been applied; the connection is not to blame."""

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        peer.reply(peer.asked().xid, b"")
        peer.reply(peer.asked().xid)
        peer.serve()

    with ScriptedServer(script) as server, ZooKeeperClient(server.address) as client:
        caller = Caller(client)
        caller.session()
        caller.ask(WRITE, Unanswered)
        caller.ask(Sync("/"), SyncDone)


def test_an_answer_out_of_order_ends_the_connection() -> None:
    """Nothing that comes after it could be trusted."""

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        if number == 1:
            peer.reply(peer.asked().xid + 1)
            peer.asked()
        peer.serve()

    with ScriptedServer(script) as server, ZooKeeperClient(server.address) as client:
        caller = Caller(client)
        caller.session()
        caller.ask(Sync("/"), Unanswered)
        caller.await_event(Suspended)
        client.wait_connected(10)


def test_an_answer_before_any_request_ends_the_connection() -> None:
    """The same, with nothing under way."""
    again = threading.Event()

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        if number == 1:
            peer.reply(1 << 30)
            peer.asked()
        again.set()
        peer.serve()

    with ScriptedServer(script) as server, ZooKeeperClient(server.address) as client:
        client.start()
        assert again.wait(10)
        client.wait_connected(10)


# --- lost connections -----------------------------------------------------------------------------


def test_a_write_without_an_answer_is_never_sent_again() -> None:
    """recipes 10: one outcome, unknown; after the reconnect the server hears nothing of it."""
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

    with ScriptedServer(script) as server, ZooKeeperClient(server.address) as client:
        caller = Caller(client)
        caller.session()
        write = caller.submit(WRITE)
        assert isinstance(write.outcome(), Unanswered)
        caller.await_event(Suspended)
        client.wait_connected(10)
        caller.ask(Sync("/"), SyncDone)
        assert len(write.outcomes) == 1
    assert [one.op for one in asked] == [Op.SYNC, CLOSE_SESSION]


def test_what_certainly_was_not_sent_is_told_apart() -> None:
    """The server reads nothing: the first request may have reached it, the last has not left."""
    submitted = threading.Event()

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        if number == 1:
            assert submitted.wait(10)
            return
        peer.serve()

    big = Multi((SetData("/n", bytes(900_000), 0),))
    with ScriptedServer(script) as server, ZooKeeperClient(server.address) as client:
        caller = Caller(client)
        caller.session()
        writes = [caller.submit(big) for _ in range(20)]
        submitted.set()
        kinds = [type(write.outcome()) for write in writes]
        assert kinds[0] is Unanswered
        assert kinds[-1] is NotSent
        assert kinds == sorted(kinds, key=(Unanswered, NotSent).index)


def test_nothing_is_taken_while_suspended() -> None:
    """reliability finding 10: kazoo would keep it and send it later."""
    asked: list[Asked] = []
    go_on = threading.Event()

    def script(peer: Peer, number: int) -> None:
        if number == 1:
            peer.greet()
            return
        assert go_on.wait(10)
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
        client.wait_connected(10)
        caller.ask(Sync("/"), SyncDone)
    assert [one.op for one in asked] == [Op.SYNC, CLOSE_SESSION]


def test_a_disconnect_fires_no_watch() -> None:
    """kazoo tells its watchers then; the contract has `Connected` say that all of them are gone."""

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        if number == 1:
            peer.reply(peer.asked().xid, STAT)
            return
        peer.event(3, "/a")  # a watch of nobody
        peer.serve()

    with ScriptedServer(script) as server, ZooKeeperClient(server.address) as client:
        caller = Caller(client)
        caller.session()
        watch = caller.submit(Exists("/a", watch=True))
        watch.outcome()
        caller.await_event(Suspended)
        client.wait_connected(10)
        caller.ask(Read("/b"), ReadDone)
        assert watch.watched == []


# --- dead and slow links --------------------------------------------------------------------------


def test_a_link_that_answers_nothing_is_given_up_under_load() -> None:
    """reliability finding 4: kazoo stays CONNECTED as long as requests are sent."""
    stopped = threading.Event()

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        peer.answers_pings = False
        while True:
            peer.asked()

    settings = ClientSettings(silence_timeout_ms=300)
    with ScriptedServer(script) as server, ZooKeeperClient(server.address, settings) as client:
        caller = Caller(client)
        caller.session()

        def load() -> None:
            while not stopped.wait(0.02):
                client.submit(Sync("/"), incarnation=1, on_outcome=lambda _outcome: None)

        loader = threading.Thread(target=load)
        loader.start()
        try:
            caller.await_event(Suspended)
        finally:
            stopped.set()
            loader.join(10)


def test_an_idle_link_that_answers_no_ping_is_given_up() -> None:
    """Pinged after a third of the granted timeout without a request, given up as much later."""
    pings: list[int] = []

    def script(peer: Peer, number: int) -> None:
        peer.greet(timeout_ms=900)
        peer.answers_pings = False
        try:
            peer.asked()
        finally:
            pings.append(peer.pings)

    with ScriptedServer(script) as server, ZooKeeperClient(server.address) as client:
        Caller(client).await_event(Suspended)
    assert pings[0] == 1


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
        assert enough.wait(20)
        assert told(caller) == ["Connected"]


def test_a_slow_server_that_says_something_is_not_given_up() -> None:
    """Silence counts, not the age of a request: a long bulk read keeps a server busy."""

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        asked = peer.asked()
        for _ in range(10):
            threading.Event().wait(0.25)
            peer.event(3, "/elsewhere")
        peer.reply(asked.xid)
        peer.serve()

    settings = ClientSettings(silence_timeout_ms=2000)
    with ScriptedServer(script) as server, ZooKeeperClient(server.address, settings) as client:
        caller = Caller(client)
        caller.session()
        caller.ask(Sync("/"), SyncDone)
        assert told(caller) == ["Connected"]


def test_a_request_without_an_answer_ends_the_connection_whatever_else_comes() -> None:
    """Every request has its outcome within a bounded time."""

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        while True:
            threading.Event().wait(0.05)
            peer.event(3, "/elsewhere")

    settings = ClientSettings(request_timeout_ms=400, silence_timeout_ms=60_000)
    with ScriptedServer(script) as server, ZooKeeperClient(server.address, settings) as client:
        caller = Caller(client)
        caller.session()
        caller.ask(WRITE, Unanswered)
        caller.await_event(Suspended)


# --- closing and forking --------------------------------------------------------------------------


def test_close_returns_although_the_server_is_silent() -> None:
    """And leaves no thread behind; what was under way has its outcome, the end is told."""

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        while True:
            peer.asked()

    with ScriptedServer(script) as server:
        client = ZooKeeperClient(server.address)
        caller = Caller(client)
        caller.session()
        write = caller.submit(WRITE)
        client.close(timeout_s=0.5)
        assert isinstance(write.outcome(), Unanswered)
        caller.await_event(Lost, 1)
        client.close()


def test_close_returns_while_connecting() -> None:
    """Nobody answers the hello; who waits for the connection is told."""
    connected = threading.Event()

    def script(peer: Peer, number: int) -> None:
        peer.hear_hello()
        connected.set()
        peer.asked()

    with ScriptedServer(script) as server:
        client = ZooKeeperClient(server.address)
        client.start()
        assert connected.wait(10)
        client.close(timeout_s=5)
        with pytest.raises(StoreUnavailableError, match="closed"):
            client.wait_connected(5)


def test_close_inside_a_callback_only_begins_to_close() -> None:
    """The connection thread cannot wait for its own end."""

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        peer.serve()

    with ScriptedServer(script) as server:
        client = ZooKeeperClient(server.address)
        closed = threading.Event()

        def on_event(event: object) -> None:
            if isinstance(event, Connected):
                client.close()
                closed.set()

        caller = Caller(client)
        client.listen(on_event)
        assert closed.wait(10)
        caller.await_event(Lost, 1)
        client.close()


def test_who_waits_in_vain_is_told_why() -> None:
    """The server and what it said."""

    def script(peer: Peer, number: int) -> None:
        peer.hear_hello()
        peer.asked()

    with ScriptedServer(script) as server:
        address = server.address
        with (
            ZooKeeperClient(address) as client,
            pytest.raises(StoreUnavailableError, match=rf"{address}.*granted no session"),
        ):
            client.wait_connected(0.3)
    with ZooKeeperClient(address) as client, pytest.raises(StoreUnavailableError, match="Connection refused"):
        client.wait_connected(0.3)


def test_a_forked_child_is_refused_and_disturbs_nobody() -> None:
    """reliability 3.6: every method raises there but close, and the parent's connection lives on."""

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        while True:
            asked = peer.asked()
            peer.reply(asked.xid)
            if asked.op == CLOSE_SESSION:
                return

    with ScriptedServer(script) as server, ZooKeeperClient(server.address) as client:
        caller = Caller(client)
        caller.session()
        child = os.fork()
        if child == 0:
            os._exit(_use_in_child(client))
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        caller.ask(Sync("/"), SyncDone)
        assert told(caller) == ["Connected"]


def _use_in_child(client: ZooKeeperClient) -> int:
    """0 when every use was refused; otherwise which one was not."""
    uses: list[Callable[[], object]] = [
        client.start,
        client.wait_connected,
        lambda: client.submit(Sync("/"), incarnation=1, on_outcome=lambda _outcome: None),
        lambda: client.listen(lambda _event: None),
        lambda: client.abandon(1, "child"),
        lambda: client.last_zxid,
    ]
    for number, use in enumerate(uses, start=1):
        try:
            use()
        except ForkedClientError:
            continue
        except BaseException:  # noqa: BLE001
            return number + 100
        return number
    client.close()
    return 0


# --- sizes ----------------------------------------------------------------------------------------


def test_a_request_that_is_too_big_never_leaves() -> None:
    """reliability finding 14: the server would close the connection. Answered in its turn."""
    asked: list[Asked] = []

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        while True:
            asked.append(peer.asked())
            peer.reply(asked[-1].xid)
            if asked[-1].op == CLOSE_SESSION:
                return

    settings = ClientSettings(max_request_bytes=1000)
    with ScriptedServer(script) as server, ZooKeeperClient(server.address, settings) as client:
        caller = Caller(client)
        caller.session()
        order: list[str] = []
        long = "/" + "x" * 1000
        for name, request in {
            "sync": Sync("/"),
            "multi": Multi((SetData("/n", bytes(1000), 0),)),
            "read": Read(long),
            "bulk": ReadMany(("/a", long)),
            "sync of": Sync(long),
        }.items():
            client.submit(
                request,
                incarnation=1,
                on_outcome=lambda outcome, name=name: order.append(f"{name} {_size(outcome)}"),  # type: ignore[misc]
            )
        caller.ask(Sync("/"), SyncDone)
        assert order == ["sync ok", "multi too big", "read too big", "bulk too big", "sync of too big"]
    assert [one.op for one in asked] == [Op.SYNC, Op.SYNC, CLOSE_SESSION]


def _size(outcome: object) -> str:
    return "too big" if isinstance(outcome, NotSent) and outcome.too_big else "ok"


def test_a_path_that_is_none_is_the_callers_mistake() -> None:
    """Raised where it was made, for every kind of request; nothing else is disturbed."""

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        while True:
            asked = peer.asked()
            peer.reply(asked.xid)
            if asked.op == CLOSE_SESSION:
                return

    with ScriptedServer(script) as server, ZooKeeperClient(server.address) as client:
        caller = Caller(client)
        caller.session()
        for request in (Read("a"), ReadMany(("/a", "b")), Sync(""), Multi((SetData("n", b"", 0),))):
            with pytest.raises(ValueError, match="starts with '/'"):
                caller.submit(request)
        with pytest.raises(UnicodeEncodeError):
            caller.submit(Read("/\ud800"))
        caller.ask(Sync("/"), SyncDone)


def test_a_connection_thread_that_fails_loses_its_session_and_no_more(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug must not leave members waiting for ever: they are told, and the next session is opened."""

    def script(peer: Peer, number: int) -> None:
        peer.greet(session_id=number)
        peer.serve()

    original, bugs = Exchange.begin, [RuntimeError("a bug")]

    def begin(self: Exchange) -> None:
        if bugs:
            raise bugs.pop()
        original(self)

    monkeypatch.setattr(Exchange, "begin", begin)
    with ScriptedServer(script) as server, ZooKeeperClient(server.address) as client:
        caller = Caller(client)
        caller.session()
        caller.ask(WRITE, NotSent)
        assert caller.await_event(Lost, 1) == Lost(1, "the connection thread failed")
        assert caller.session(2).session_id == 2
        caller.ask(Read("/a"), ReadDone, 2)
    assert "a bug" in caplog.text


# --- waking up ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["write", "bulk read", "abandon", "close"])
def test_what_comes_just_before_the_thread_falls_asleep_is_not_overlooked(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody rings a bell that is not armed: whatever came is looked for after arming it."""
    original = Bell.arm
    actions: list[Callable[[], object]] = []

    def arm(self: Bell) -> None:
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

    with ScriptedServer(script) as server, ZooKeeperClient(server.address) as client:
        caller = Caller(client)
        caller.session()
        caller.ask(Sync("/"), SyncDone)
        monkeypatch.setattr(Bell, "arm", arm)
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
        assert done.wait(10)
        if kind in ("write", "bulk read"):
            assert isinstance(pending[0].outcome(), SyncDone | ReadManyDone)
        else:
            caller.await_event(Lost, 1)


# --- bulk reads -----------------------------------------------------------------------------------


def test_bulk_reads_fall_back_where_the_server_closes_the_connection() -> None:
    """recipes 3 [T]: a 3.4 server does; tried on a connection and session of its own, once."""
    probes: list[int] = []

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        while True:
            asked = peer.asked()
            if asked.op == Op.MULTI_READ:
                probes.append(number)
                return
            peer.reply(asked.xid, error=0 if asked.op == CLOSE_SESSION else -101)
            if asked.op == CLOSE_SESSION:
                return

    with ScriptedServer(script) as server:
        for _ in range(2):  # remembered for the process
            with ZooKeeperClient(server.address) as client:
                caller = Caller(client)
                caller.session()
                pending = [caller.submit(ReadMany(("/a", "/b"))) for _ in range(3)]
                assert all(one.outcome() == pending[0].outcome() for one in pending)
                assert told(caller) == ["Connected"]
    assert probes == [2]


def test_packets_of_a_bulk_read_shrink_when_replies_are_large() -> None:
    """By what former replies held, so that one packet's reply stays near the wanted size."""
    counts: list[int] = []

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        while True:
            asked = peer.asked()
            if asked.op == CLOSE_SESSION:
                peer.reply(asked.xid)
                return
            count = max(1, (len(asked.body) - 9) // 16)
            counts.append(count)
            one = struct.pack("!iBii", 4, 0, 0, 5000) + bytes(5000) + STAT
            peer.reply(asked.xid, one * count + struct.pack("!iBi", -1, 1, -1))

    settings = ClientSettings(bulk_reply_bytes=50_000, bulk_paths=100)
    with ScriptedServer(script) as server, ZooKeeperClient(server.address, settings) as client:
        caller = Caller(client)
        caller.session()
        for _ in range(2):
            caller.submit(ReadMany(("/a",) * 200)).outcome()
    assert counts == [1, *[100] * 2, *[9] * 22, 2]


def test_listeners_that_fail_disturb_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """Nor do receivers of outcomes and watches; each is logged."""
    caplog.set_level(logging.ERROR)

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        peer.reply(peer.asked().xid, STAT)
        peer.event(3, "/a")
        peer.serve()

    def fail(*_: object) -> None:
        raise RuntimeError("on purpose")

    with ScriptedServer(script) as server, ZooKeeperClient(server.address) as client:
        client.listen(fail)
        caller = Caller(client)
        caller.session()
        client.submit(Exists("/a", watch=True), incarnation=1, on_outcome=fail, on_watch=fail)
        caller.ask(Read("/b"), ReadDone)
        assert told(caller) == ["Connected"]
    assert caplog.text.count("on purpose") >= 3
