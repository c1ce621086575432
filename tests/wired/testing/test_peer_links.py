"""The proxies between servers, without ZooKeeper: data that passes, withheld data, and replaced addresses."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from tests.waiting import PATIENCE_S
from zkgroup.testing.proxies import PeerLinks
from zkgroup.zookeeper.embedded.server import PeerPorts, ReservedPort

V1 = -65536


class Ends:
    """Two servers, 0 and 1, and their connections."""

    def __init__(self, links: PeerLinks) -> None:
        self.listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]
        self.ports = [listener.getsockname()[1] for listener in self.listeners]
        self.links = links
        for listener in self.listeners:
            listener.settimeout(PATIENCE_S)
        self.one_to_other = links.route(0, 1, PeerPorts(self.ports[2], self.ports[3]))
        self.other_to_one = links.route(1, 0, PeerPorts(self.ports[0], self.ports[1]))

    def connect(self, port: int) -> socket.socket:
        return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)

    def accept(self, listener: int) -> socket.socket:
        accepted, _ = self.listeners[listener].accept()
        accepted.settimeout(PATIENCE_S)
        return accepted

    def close(self) -> None:
        for listener in self.listeners:
            listener.close()


@pytest.fixture
def ends() -> Iterator[Ends]:
    with PeerLinks() as links:
        ends = Ends(links)
        yield ends
        ends.close()


def greeting(address: str, version: int = V1) -> bytes:
    return struct.pack(">qqi", version, 1, len(address)) + address.encode()


def received_exactly(connection: socket.socket, size: int) -> bytes:
    """Receives `size` bytes in any number of pieces (MSG_WAITALL has no effect beside a timeout)."""
    data = b""
    while len(data) < size and (piece := connection.recv(size - len(data))):
        data += piece
    return data


def received(connection: socket.socket) -> bytes:
    """Receives everything until the end of the connection."""
    data = b""
    try:
        while piece := connection.recv(1000):
            data += piece
    except ConnectionResetError:
        pass
    return data


def test_the_initial_message_gets_the_address_of_the_proxy(ends: Ends) -> None:
    """Otherwise the peer would connect back without a proxy; data after it is not changed."""
    with ends.connect(ends.one_to_other.election) as one:
        one.sendall(greeting("127.0.0.1:1") + b"vote")
        with ends.accept(3) as other:
            expected = greeting(f"127.0.0.1:{ends.other_to_one.election}") + b"vote"
            assert received_exactly(other, len(expected)) == expected


def test_an_unknown_initial_message_ends_the_connection(ends: Ends) -> None:
    """An address that cannot be replaced must not reach the peer."""
    with ends.connect(ends.one_to_other.election) as one:
        one.sendall(greeting("127.0.0.1:1", version=V1 + 1))
        with ends.accept(3) as other:
            assert received(other) == b""


@pytest.mark.parametrize("heard", [True, False])
def test_one_direction_is_cut_and_the_other_open(ends: Ends, heard: bool) -> None:
    """On connections of either side; withheld data arrives after `heal`."""
    with ends.connect(ends.one_to_other.quorum) as one, ends.accept(2) as other:
        ends.links.cut(0, [1], to_peers=not heard, from_peers=heard)
        speaker, listener = (one, other) if heard else (other, one)
        listener.sendall(b"withheld")
        speaker.sendall(b"passes")

        assert received_exactly(listener, 6) == b"passes"
        speaker.settimeout(0.2)
        with pytest.raises(TimeoutError):
            speaker.recv(1)

        assert ends.links.heal()
        speaker.settimeout(PATIENCE_S)
        assert received_exactly(speaker, 8) == b"withheld"
        assert not ends.links.heal()


def test_withheld_data_can_be_lost(ends: Ends) -> None:
    """With `cut` the connections break, as when TCP gives up."""
    with ends.connect(ends.one_to_other.quorum) as one, ends.accept(2) as other:
        ends.links.cut(0, [1])
        one.sendall(b"lost")
        ends.links.heal(cut=True)
        assert received(other) == received(one) == b""


def test_a_connection_attempt_during_a_cut_fails(ends: Ends) -> None:
    """It is reset when the link heals, and the server may try again."""
    ends.links.cut(0, [1], to_peers=False)
    with ends.connect(ends.one_to_other.quorum) as in_vain:
        in_vain.sendall(b"hello")
        ends.listeners[2].settimeout(0.2)
        with pytest.raises(TimeoutError):
            ends.accept(2)
        ends.links.heal()
        assert received(in_vain) == b""
    ends.listeners[2].settimeout(PATIENCE_S)
    with ends.connect(ends.one_to_other.quorum) as again, ends.accept(2) as other:
        again.sendall(b"hello")
        assert received_exactly(other, 5) == b"hello"


def test_the_proxy_waits_for_a_server_that_does_not_listen_yet() -> None:
    """A follower connects before its leader listens: a broken connection would cost an election."""
    port = ReservedPort()
    try:
        with PeerLinks() as links:
            reached = links.route(0, 1, PeerPorts(port.number, port.number))
            with socket.create_connection(("127.0.0.1", reached.quorum), timeout=PATIENCE_S) as follower:
                follower.sendall(b"early")
                with socket.create_server(("127.0.0.1", port.number)) as leader:
                    leader.settimeout(PATIENCE_S)
                    accepted, _ = leader.accept()
                    with accepted:
                        assert received_exactly(accepted, 5) == b"early"
    finally:
        port.release()
