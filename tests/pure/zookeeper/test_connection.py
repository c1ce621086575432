"""The client on kazoo's seam, against a server that follows a script: what we rely on in kazoo.

An upgrade of kazoo that changes it fails here.
"""

from __future__ import annotations

import importlib.metadata
import runpy
import threading

import kazoo.retry
import pytest
from kazoo.protocol.connection import ConnectionHandler

from tests.waiting import PATIENCE_S, becomes, eventually, happened
from tests.worlds.scripted_server import (
    AUTH,
    STAT,
    WRITE,
    Asked,
    Hello,
    Peer,
    ScriptedServer,
    connected,
    session_events,
)
from zkgroup.errors import AuthenticationError, ConfigError, StoreUnavailableError
from zkgroup.model.requests import (
    Connected,
    Create,
    Exists,
    ExistsDone,
    Lost,
    Multi,
    NotSent,
    Suspended,
    Sync,
    SyncDone,
    Unanswered,
)
from zkgroup.testing.conformance import Caller
from zkgroup.zookeeper import ClientSettings, Digest, Secret, ZooKeeperClient, connection, kazoo_adapter
from zkgroup.zookeeper.kazoo_adapter import KazooHandler
from zkgroup.zookeeper.wire import Op


def test_the_granted_timeout_is_reported_not_the_requested_one() -> None:
    """faults.md, finding 3: kazoo keeps the requested one. Asked to the millisecond, granted another."""
    hellos: list[Hello] = []

    def script(peer: Peer, number: int) -> None:
        hellos.append(peer.hear_hello())
        peer.grant(session_id=0x77, timeout_ms=4321)
        peer.serve()

    with (
        ScriptedServer(script) as server,
        ZooKeeperClient(server.address, ClientSettings(session_timeout_ms=8351)) as client,
    ):
        session = client.wait_connected(PATIENCE_S)
        assert (session.timeout_ms, session.session_id, session.incarnation) == (4321, 0x77, 1)
        assert (hellos[0].timeout_ms, hellos[0].session_id, hellos[0].last_zxid) == (8351, 0, 0)


@pytest.mark.parametrize(
    "settings",
    [
        ClientSettings(session_timeout_ms=1500),
        ClientSettings(session_timeout_ms=30_000, connection_timeout_ms=9000),
    ],
)
def test_a_server_that_forgets_a_handshake_is_asked_again_in_time(settings: ClientSettings) -> None:
    """A starting server can accept a connection and never answer: it must not take the whole wait."""
    answered = threading.Event()

    def script(peer: Peer, number: int) -> None:
        if number == 1:
            peer.hear_hello()
            happened(answered)  # silent until another connection has been answered
            return
        peer.greet()
        answered.set()
        peer.serve()

    with ScriptedServer(script) as server, ZooKeeperClient(server.address, settings) as client:
        assert client.wait_connected().session_id == 7
    assert answered.is_set()


def test_a_server_that_is_out_of_reach_gets_its_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three addresses none takes more than a third of the session timeout: the others come in time."""
    given: list[tuple[int, float]] = []

    def out_of_reach(address: tuple[str, int], host: str, *, timeout_s: float, **rest: object) -> None:
        given.append((address[1], timeout_s))
        raise TimeoutError("nobody answers")

    monkeypatch.setattr(connection, "open_connection", out_of_reach)
    settings = ClientSettings(session_timeout_ms=9000)
    with ZooKeeperClient("127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", settings):
        becomes(lambda: len({port for port, _ in given}), 3)
    assert {timeout_s for _, timeout_s in given} == {3.0}


def test_a_wait_that_ends_during_the_first_attempt_names_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past bug: the error of a short wait said that no server had been asked yet, while one was."""
    asked, over = threading.Event(), threading.Event()

    def out_of_reach(address: tuple[str, int], host: str, **rest: object) -> None:
        asked.set()
        happened(over)
        raise TimeoutError("nobody answers")

    monkeypatch.setattr(connection, "open_connection", out_of_reach)
    with ZooKeeperClient("127.0.0.1:1", ClientSettings(session_timeout_ms=9000)) as client:
        client.start()
        happened(asked)
        with pytest.raises(StoreUnavailableError, match=r"found 127\.0\.0\.1:1: no answer yet; check"):
            client.wait_connected(0.0)
        over.set()
        eventually(lambda: "nobody answers" in str(client._unconnected(1.0)))


def test_a_reconnect_resumes_the_session_and_sends_the_latest_zxid_seen() -> None:
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

    with connected(script) as (client, caller):
        caller.ask(Exists("/a"), ExistsDone)
        assert client.last_zxid == 4711
        caller.ask(Sync("/"), Unanswered)
        caller.await_event(Suspended)
        client.wait_connected(PATIENCE_S)
        assert (hellos[1].last_zxid, hellos[1].session_id) == (4711, 7)
        assert hellos[1].password == b"password-of-16-b"
        assert {event.session.incarnation for event in caller.events if isinstance(event, Connected)} == {1}


def test_nothing_is_sent_or_reported_before_authentication_ends() -> None:
    """kazoo announces CONNECTED before it authenticates."""
    answer_auth, authenticating = threading.Event(), threading.Event()
    asked: list[Asked] = []

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        auth = peer.asked()
        asked.append(auth)
        authenticating.set()
        happened(answer_auth)
        peer.reply(auth.xid)
        peer.serve()

    settings = ClientSettings(auth=Digest("me", Secret("canary")))
    with ScriptedServer(script) as server, ZooKeeperClient(server.address, settings) as client:
        caller = Caller(client)
        happened(authenticating)
        caller.ask(Sync("/"), NotSent)
        assert caller.events == []
        answer_auth.set()
        caller.session()
        assert (asked[0].op, asked[0].xid) == (AUTH, -4)
        assert asked[0].body.endswith(b"me:canary")


def test_refused_credentials_end_the_client() -> None:
    """Listeners and waiting callers are notified; no further attempt is made."""
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
            client.wait_connected(PATIENCE_S)
        caller.ask(Sync("/"), NotSent)
        late = Caller(client)
        assert late.await_event(Lost) == lost
    assert connections == [1]


def test_a_missing_chroot_ends_the_client_and_creates_nothing() -> None:
    """A ConfigError that names it. The session is closed: it does not wait for its expiry."""
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
        client.wait_connected(PATIENCE_S)
    assert [one.op for one in asked] == [Op.EXISTS, Op.CLOSE_SESSION]
    assert asked[0].path == "/not/there"


def test_an_expired_session_is_reported_before_the_next_one_is_opened() -> None:
    """faults.md, finding 4: kazoo would go on under the same object."""
    hellos: list[Hello] = []
    asked: list[Asked] = []
    opened = threading.Event()

    def script(peer: Peer, number: int) -> None:
        connect_response = peer.hear_hello()
        hellos.append(connect_response)
        if number == 1:
            peer.grant(session_id=1)
        elif connect_response.session_id == 1:
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
        assert session_events(caller) == ["Connected", "Suspended", "Lost", "Connected"]
        assert opened_before_lost == [False]
        assert [type(outcome) for outcome in outcomes] == [NotSent]
        assert [one.op for one in asked] == [Op.SYNC]
        eventually(lambda: "zkgroup-zookeeper-1" not in {thread.name for thread in threading.enumerate()})
        assert [connect_response.session_id for connect_response in hellos] == [0, 1, 0]


def test_secrets_and_data_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """faults.md, finding 12: kazoo logs both at DEBUG; zkgroup logs neither at any level."""
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
    with connected(script, settings) as (client, caller):
        caller.ask(Multi((Create("/canary-path", b"canary-data"),)), Unanswered)
        caller.await_event(Suspended)
        client.wait_connected(PATIENCE_S)
    text = caplog.text + "".join(str(record.args) for record in caplog.records)
    assert "Connecting to" in text
    assert "canary" not in text
    assert "password-of-16-b" not in text
    assert b"password-of-16-b".hex() not in text


@pytest.mark.parametrize(
    ("owner", "name"), [(kazoo.retry, "RetryFailedError"), (ConnectionHandler, "_connect_attempt")]
)
def test_a_kazoo_that_is_another_inside_is_refused_at_import(
    owner: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one sentence: what was expected, what was found, and what to install."""
    monkeypatch.delattr(owner, name)
    with pytest.raises(ImportError) as refused:
        runpy.run_path(kazoo_adapter.__file__)

    found = f"found kazoo {importlib.metadata.version('kazoo')}: "
    expected, _, rest = str(refused.value).partition(found)
    assert expected == "zkgroup.zookeeper: expected the inside of kazoo 2.11, "
    assert name in rest
    assert rest.endswith("install a tested one with `pip install 'kazoo >= 2.11, < 2.12'`")


def test_the_handler_distinguishes_the_main_loop_from_the_set_up() -> None:
    """kazoo selects on two things there and on one elsewhere."""
    waits: list[int] = []
    original = KazooHandler.select

    def noting(self: KazooHandler, rlist: list[object], *rest: object) -> object:
        waits.append(len(rlist))
        return original(self, rlist, *rest)  # type: ignore[arg-type]

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        peer.serve()

    with pytest.MonkeyPatch.context() as patch, ScriptedServer(script) as server:
        patch.setattr(KazooHandler, "select", noting)
        with ZooKeeperClient(server.address) as client:
            client.wait_connected(PATIENCE_S)
    assert set(waits) == {0, 1, 2}
    assert waits.index(0) < waits.index(1) < waits.index(2)
    assert 2 in waits[waits.index(2) :]
