"""`Links` against a peer whose every byte the test decides."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from tests.waiting import PATIENCE_S
from zkgroup.lines.leaders import Address
from zkgroup.lines.links import Links, Reply
from zkgroup.testing.clock import FakeClock
from zkgroup.wire.messages import encode_response
from zkgroup.wire.metadata import MetadataRequest, MetadataResponse

REQUEST = MetadataRequest.of("orders")
RESPONSE = MetadataResponse((), ())
WAIT_MS = 20_000


class Peer:
    """Accepts one connection after the other and does with each what the script says."""

    def __init__(self, *script: Callable[[socket.socket], None]) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(PATIENCE_S)
        self.address = Address(*self._server.getsockname())
        self._thread = threading.Thread(target=self._run, args=(script,))
        self._thread.start()

    def _run(self, script: tuple[Callable[[socket.socket], None], ...]) -> None:
        for act in script:
            connection, _ = self._server.accept()
            connection.settimeout(PATIENCE_S)
            with connection:
                act(connection)

    def close(self) -> None:
        self._thread.join()
        self._server.close()


def receive(connection: socket.socket) -> int:
    """A request; its correlation id."""
    size = int.from_bytes(_exactly(connection, 4), "big")
    return int.from_bytes(_exactly(connection, size)[4:8], "big")


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += connection.recv(size - len(data))
    return data


def until_gone(connection: socket.socket) -> None:
    """Returns when the other side has closed."""
    with suppress(ConnectionResetError):
        while connection.recv(1000):
            pass


def answered(connection: socket.socket) -> None:
    """In two pieces, then again for a second request on the same connection."""
    for _ in range(2):
        frame = encode_response(RESPONSE, receive(connection))
        connection.sendall(frame[:3])
        connection.sendall(frame[3:])
    until_gone(connection)


def silent(connection: socket.socket) -> None:
    until_gone(connection)


def hung_up(connection: socket.socket) -> None:
    receive(connection)


def wrong_number(connection: socket.socket) -> None:
    connection.sendall(encode_response(RESPONSE, receive(connection) + 1))
    until_gone(connection)


def nonsense(connection: socket.socket) -> None:
    receive(connection)
    connection.sendall(b"\xff" * 20)
    until_gone(connection)


def unasked(connection: socket.socket) -> None:
    frame = encode_response(RESPONSE, receive(connection))
    connection.sendall(frame + frame)
    until_gone(connection)


@pytest.fixture
def links() -> Iterator[Links]:
    made = Links("test")
    yield made
    made.close()


def one_reply(links: Links) -> Reply:
    (reply,) = links.wait(WAIT_MS)
    return reply


def test_a_connection_is_used_again(links: Links) -> None:
    """Answers may arrive in parts; the tag identifies their request."""
    peer = Peer(answered)
    for tag in ("first", "second"):
        links.ask(tag, peer.address, REQUEST, WAIT_MS)
        assert one_reply(links) == Reply(tag, REQUEST, RESPONSE)
    links.close()
    peer.close()


@pytest.mark.parametrize(
    ("act", "trouble"),
    [
        (hung_up, "the connection was closed"),
        (wrong_number, "expected the answer to request 1, found 2"),
        (nonsense, "size, byte 0 of the frame"),
    ],
)
def test_a_bad_answer_costs_the_connection(
    links: Links, act: Callable[[socket.socket], None], trouble: str
) -> None:
    """The error has the address; the next request opens another connection."""
    peer = Peer(act, answered)
    links.ask("a", peer.address, REQUEST, WAIT_MS)
    reply = one_reply(links)
    assert (reply.response, reply.sent) == (None, True)
    assert reply.trouble.startswith(f"{peer.address}: {trouble}")
    for _ in range(2):
        links.ask("b", peer.address, REQUEST, WAIT_MS)
        assert one_reply(links).response == RESPONSE
    links.close()
    peer.close()


def test_an_answer_that_nobody_asked_for_costs_the_connection(links: Links) -> None:
    """Without a reply: what was asked is answered."""
    peer = Peer(unasked)
    links.ask("a", peer.address, REQUEST, WAIT_MS)
    assert one_reply(links).response == RESPONSE
    while links.connections(peer.address):
        assert links.wait(100) == []
    peer.close()


def test_no_answer_in_time() -> None:
    """The connection is given up: a late answer could be taken for another's."""
    clock = FakeClock()
    links, peer, begun_ms = Links("test", clock=clock), Peer(silent), clock.now_ms()
    links.ask("a", peer.address, REQUEST, 1000)
    assert one_reply(links) == Reply("a", REQUEST, None, f"{peer.address}: no answer in time", sent=True)
    assert clock.now_ms() == begun_ms + 1000
    links.close()
    peer.close()


def test_nobody_there(links: Links) -> None:
    """The request was not sent, and the error says so."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address(*taken.getsockname())
    links.ask("a", address, REQUEST, WAIT_MS)

    assert one_reply(links) == Reply("a", REQUEST, None, f"{address}: Connection refused", sent=False)


def test_a_name_that_is_not_known(links: Links, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same; and of the addresses of a name that is, one after the other is tried."""

    def unknown(*_: object, **__: object) -> list[object]:
        raise socket.gaierror(-2, "Name or service not known")

    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", unknown)
        links.ask("a", Address("nowhere", 1), REQUEST, WAIT_MS)
    assert one_reply(links) == Reply("a", REQUEST, None, "nowhere:1: Name or service not known", sent=False)

    peer = Peer(answered)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        gone = taken.getsockname()
    two = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", name) for name in (gone, tuple(peer.address))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: two)
    for _ in range(2):
        links.ask("b", Address("two", 1), REQUEST, WAIT_MS)
        assert one_reply(links).response == RESPONSE
    links.close()
    peer.close()


def test_requests_that_wait_do_not_hold_up_others(links: Links) -> None:
    """Each has a connection; there is room up to the limit."""
    limited = Links("test", connections_max=2)
    peer = Peer(silent, silent)
    for tag in ("a", "b"):
        assert limited.has_room(peer.address)
        limited.ask(tag, peer.address, REQUEST, WAIT_MS)
    assert not limited.has_room(peer.address)
    assert limited.wait(10) == []
    limited.close()
    limited.wake()
    peer.close()
