"""Unexpected replies, and failing requests and listeners, against a scripted server."""

from __future__ import annotations

import logging
import struct
import threading

import pytest

from tests.waiting import PATIENCE_S, happened
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
    Code,
    Exists,
    Lost,
    Multi,
    NotSent,
    Read,
    ReadDone,
    ReadMany,
    Refused,
    SetData,
    Suspended,
    Sync,
    SyncDone,
    Unanswered,
)
from zkgroup.testing.conformance import Caller
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.pipeline import RequestPipeline
from zkgroup.zookeeper.wire import Op


def test_an_unknown_error_number_is_an_answer() -> None:
    """kazoo's own loop dies of it."""

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        peer.reply(peer.asked().xid, error=-9999)
        peer.reply(peer.asked().xid)
        peer.serve()

    with connected(script) as (_, caller):
        assert caller.ask(Read("/a"), Refused) == Refused(Code.OTHER, "/a")
        caller.ask(Sync("/"), SyncDone)
        assert session_events(caller) == ["Connected"]


def test_an_unreadable_answer_leaves_the_outcome_unknown() -> None:
    """The write may have been applied; the connection is not to blame."""

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        peer.reply(peer.asked().xid, b"")
        peer.reply(peer.asked().xid)
        peer.serve()

    with connected(script) as (_, caller):
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

    with connected(script) as (client, caller):
        caller.ask(Sync("/"), Unanswered)
        caller.await_event(Suspended)
        client.wait_connected(PATIENCE_S)


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
        happened(again)
        client.wait_connected(PATIENCE_S)


def test_a_request_that_is_too_big_never_leaves() -> None:
    """faults.md, finding 14: the server would close the connection. Answered in its turn."""
    asked: list[Asked] = []

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        while True:
            asked.append(peer.asked())
            peer.reply(asked[-1].xid)
            if asked[-1].op == CLOSE_SESSION:
                return

    settings = ClientSettings(max_request_bytes=1000)
    with connected(script, settings) as (client, caller):
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
    """Raised in the call, for every kind of request; the connection is not affected."""

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        peer.serve(error=0)

    with connected(script) as (_, caller):
        for request in (Read("a"), ReadMany(("/a", "b")), Sync(""), Multi((SetData("n", b"", 0),))):
            with pytest.raises(ValueError, match="starts with '/'"):
                caller.submit(request)
        with pytest.raises(UnicodeEncodeError):
            caller.submit(Read("/\ud800"))
        caller.ask(Sync("/"), SyncDone)


def test_a_connection_thread_that_fails_loses_its_session_and_no_more(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug must not make members wait for ever: they are notified, and the next session is opened."""

    def script(peer: Peer, number: int) -> None:
        peer.greet(session_id=number)
        peer.serve()

    original, bugs = RequestPipeline.begin, [RuntimeError("a bug")]

    def begin(self: RequestPipeline) -> None:
        if bugs:
            raise bugs.pop()
        original(self)

    monkeypatch.setattr(RequestPipeline, "begin", begin)
    with connected(script) as (_, caller):
        caller.ask(WRITE, NotSent)
        assert caller.await_event(Lost, 1) == Lost(1, "the connection thread failed")
        assert caller.session(2).session_id == 2
        caller.ask(Read("/a"), ReadDone, 2)
    assert "a bug" in caplog.text


def test_bulk_reads_fall_back_where_the_server_closes_the_connection() -> None:
    """A 3.4 server does; tried once, on a separate connection and session (recipes 3)."""
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
                assert session_events(caller) == ["Connected"]
    assert probes == [2]


def test_packets_of_a_bulk_read_shrink_when_replies_are_large() -> None:
    """By the size of former replies, so that a packet's reply stays near the target size."""
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
    with connected(script, settings) as (_, caller):
        for _ in range(2):
            caller.submit(ReadMany(("/a",) * 200)).outcome()
    assert counts == [1, *[100] * 2, *[9] * 22, 2]


def test_listeners_that_fail_disturb_no_other(caplog: pytest.LogCaptureFixture) -> None:
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
        assert session_events(caller) == ["Connected"]
    assert caplog.text.count("on purpose") >= 3
