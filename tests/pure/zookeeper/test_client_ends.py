"""How a client ends: closed from anywhere, waited for in vain, forked; against a scripted server."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest

from tests.waiting import PATIENCE_S, eventually
from tests.worlds.scripted_server import WRITE, Peer, ScriptedServer, connected, session_events
from zkgroup.errors import ForkedClientError, StoreUnavailableError
from zkgroup.model.requests import Connected, Lost, Sync, SyncDone, Unanswered
from zkgroup.testing.conformance import Caller
from zkgroup.zookeeper import ZooKeeperClient


def test_close_returns_although_the_server_is_silent() -> None:
    """It leaves no thread behind; requests in flight get their outcome, listeners the end."""

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
    """The server does not answer the connect request; waiting callers are notified."""
    connected = threading.Event()

    def script(peer: Peer, number: int) -> None:
        peer.hear_hello()
        connected.set()
        peer.asked()

    with ScriptedServer(script) as server:
        client = ZooKeeperClient(server.address)
        client.start()
        assert connected.wait(PATIENCE_S)
        client.close(PATIENCE_S)
        with pytest.raises(StoreUnavailableError, match="closed"):
            client.wait_connected(PATIENCE_S)


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
        assert closed.wait(PATIENCE_S)
        caller.await_event(Lost, 1)
        client.close()


def test_a_wait_that_fails_has_a_reason() -> None:
    """The error has the server and its reason."""
    heard = threading.Event()

    def script(peer: Peer, number: int) -> None:
        peer.hear_hello()
        heard.set()
        peer.asked()

    with ScriptedServer(script) as server:
        address = server.address
        with ZooKeeperClient(address) as client:
            client.start()
            assert heard.wait(PATIENCE_S)
            with pytest.raises(StoreUnavailableError, match=rf"{address}.*granted no session"):
                client.wait_connected(0.0)
    with ZooKeeperClient(address) as client:
        client.start()
        eventually(lambda: "Connection refused" in str(client._unconnected(1.0)))
        with pytest.raises(StoreUnavailableError, match="Connection refused"):
            client.wait_connected(0.0)


def test_a_forked_child_is_refused_and_disturbs_no_request() -> None:
    """Every method except close raises there, and the parent's connection stays open."""

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        peer.serve(error=0)

    with connected(script) as (client, caller):
        child = os.fork()
        if child == 0:
            os._exit(_use_in_child(client))
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        caller.ask(Sync("/"), SyncDone)
        assert session_events(caller) == ["Connected"]


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
