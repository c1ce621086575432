"""The connection shared with kazoo: whose frame is whose, whatever pieces they come in."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkgroup.zookeeper.kazoo_adapter import WakeUps
from zkgroup.zookeeper.sockets import FIRST_XID, ConnectResponse, SharedSocket, Waker

HELLO = struct.pack("!iiiqi", 36, 0, 4000, 0x1234, 16) + bytes(16)


class Pair:
    """A SharedSocket, the other end, and what it received."""

    def __init__(self, ours: socket.socket, theirs: socket.socket) -> None:
        ours.setblocking(False)
        self.theirs = theirs
        self.received: list[tuple[int, int, int, bytes]] = []
        self.shared = SharedSocket(ours, self._receive)

    def _receive(self, xid: int, zxid: int, number: int, buffer: bytes, offset: int) -> None:
        self.received.append((xid, zxid, number, buffer[offset : offset + 4]))

    def kazoo_reads(self) -> bytes:
        found = b""
        while self.shared.pending():
            found += self.shared.recv(3)
        return found


@contextlib.contextmanager
def connected() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Pair(ours, theirs)


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Two ends of a connection."""
    with connected() as both:
        yield both


def reply(xid: int, body: bytes = b"body", zxid: int = 9, error: int = 0) -> bytes:
    return struct.pack("!iiqi", 16 + len(body), xid, zxid, error) + body


@given(
    st.lists(st.sampled_from([1, 2, FIRST_XID, FIRST_XID + 5, -1, -2, -4]), max_size=12),
    st.lists(st.integers(1, 40), min_size=1, max_size=60),
)
def test_frames_are_taken_apart_whatever_pieces_they_come_in(xids: list[int], pieces: list[int]) -> None:
    """zkgroup's replies, pings and watch events go to the receiver, all else to kazoo, whole and in order."""
    stream = HELLO + b"".join(reply(xid) for xid in xids)
    with connected() as pair:
        at = 0
        while at < len(stream):
            size = pieces[at % len(pieces)]
            pair.theirs.sendall(stream[at : at + size])
            pair.shared.fill()
            at += size
        ours = [xid for xid in xids if xid >= FIRST_XID or xid in (-1, -2)]
        assert pair.received == [(xid, 9, 0, b"body") for xid in ours]
        assert pair.kazoo_reads() == HELLO + b"".join(reply(xid) for xid in xids if xid in (1, 2, -4))
        assert pair.shared.connect_response == ConnectResponse(4000, 0x1234)


def test_a_large_frame_arrives_whole(pair: Pair) -> None:
    """However many reads it takes."""
    pair.theirs.setblocking(False)
    stream = HELLO + reply(FIRST_XID, b"x" * 3_000_000) + reply(FIRST_XID + 1)
    at = 0
    while len(pair.received) < 2:
        with contextlib.suppress(BlockingIOError):
            at += pair.theirs.send(stream[at:])
        pair.shared.fill()
    assert [xid for xid, *_ in pair.received] == [FIRST_XID, FIRST_XID + 1]


@pytest.mark.parametrize("size", [-1, 1 << 30])
def test_a_frame_of_nonsense_length_breaks_the_connection(pair: Pair, size: int) -> None:
    """kazoo would wait for it for ever."""
    pair.theirs.sendall(struct.pack("!i", size) + b"whatever")
    with pytest.raises(OSError, match="is invalid"):
        pair.shared.fill()


def test_kazoo_sees_the_end_of_the_connection(pair: Pair) -> None:
    """As an empty read, after what came before it."""
    pair.theirs.sendall(HELLO)
    pair.theirs.shutdown(socket.SHUT_WR)
    pair.shared.fill()
    pair.shared.fill()
    assert pair.shared.recv(100) == HELLO
    assert pair.shared.pending()
    assert pair.shared.recv(100) == b""


def test_kazoo_tries_again_while_nothing_can_be_read(pair: Pair) -> None:
    """In the one word for it that kazoo knows."""
    with pytest.raises(ssl.SSLWantReadError) as caught:
        pair.shared.recv(4)
    assert caught.value.errno == ssl.SSL_ERROR_WANT_READ


def test_what_was_written_goes_out_at_once_and_is_counted(pair: Pair) -> None:
    """What the system has not taken has certainly not been sent."""
    assert pair.shared.send(b"abc") == 3
    pair.shared.put(b"defg")
    assert (pair.shared.written, pair.shared.sent, pair.shared.unsent) == (7, 0, 7)
    pair.shared.flush()
    assert (pair.shared.written, pair.shared.sent, pair.shared.unsent) == (7, 7, 0)
    assert pair.theirs.recv(100) == b"abcdefg"


def test_a_full_connection_keeps_the_rest(pair: Pair) -> None:
    """flush never blocks; the bytes arrive once, in order."""
    data = bytes(range(256)) * 8000
    pair.shared.put(data)
    pair.shared.flush()
    assert 0 < pair.shared.unsent < len(data)
    got = b""
    while len(got) < len(data):
        got += pair.theirs.recv(1 << 16)
        pair.shared.flush()
    assert got == data
    assert pair.shared.sent == len(data)


def test_many_rings_are_one_byte() -> None:
    """And none while no thread sleeps."""
    waker = Waker()
    try:
        waker.wake()
        with pytest.raises(BlockingIOError):
            waker._in.recv(64)
        waker.arm()
        for _ in range(1000):
            waker.wake()
        assert waker._in.recv(64) == b"\0"
    finally:
        waker.close()


def test_a_bell_may_be_rung_when_its_owner_has_gone() -> None:
    """A late submit must not fail."""
    waker = Waker()
    waker.arm()
    waker.close()
    waker.wake()


def test_kazoos_wake_ups_are_counted_and_ring() -> None:
    """One for one, without a pipe."""
    rings: list[int] = []
    wakeups = WakeUps(lambda: rings.append(1))
    wakeups.send(b"\0")
    wakeups.send(b"\0")
    assert (wakeups.count, len(rings)) == (2, 2)
    assert wakeups.recv(1) == b"\0"
    assert wakeups.count == 1
