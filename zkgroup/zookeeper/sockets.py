"""The connection that kazoo and we share, and the bell that wakes its thread.

kazoo asks its handler for a connection and then uses only `send`, `recv`, `pending`, `fileno`,
`setblocking` and `close` of it. It sets the session up with that: handshake, authentication. Our
requests and pings travel on the same connection as frames of ours, told apart by their xid, so they
need nothing of kazoo's queue: no system call, lock or object of kazoo's for any of them.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
import struct
import time
from collections.abc import Callable
from typing import NamedTuple

from zkgroup.zookeeper.wire import PING_XID, WATCH_XID

FIRST_XID = 1 << 30
"""Ours count from here; kazoo's start at 1 on every connection and are only a handful."""
LAST_XID = (1 << 31) - 1

_READ_AT_LEAST = 1 << 16
_READ_AT_MOST = 1 << 20
_LONGEST_FRAME = 1 << 27
"""128 MiB: beyond it a length is taken for nonsense. No reply that anybody waits for is as large."""

_INT = struct.Struct("!i")
_HEADER = struct.Struct("!iqi")  # xid, zxid, err (zookeeper.jute, ReplyHeader)
_HELLO = struct.Struct("!iiiq")  # frame length, protocol version, granted timeout, session id

Receiver = Callable[[int, int, int, bytes, int], None]
"""Given xid, zxid, error number, the bytes read and where the body of this reply starts in them."""


class Hello(NamedTuple):
    """The server's answer to a connection request (zookeeper.jute, ConnectResponse)."""

    timeout_ms: int
    """As granted; 0 where the session is over. kazoo keeps it to itself."""
    session_id: int


class SharedSocket:
    """A connected, non-blocking socket, read and written in large pieces by one thread.

    Reading (`fill`) hands whole frames of ours to the receiver and keeps kazoo's for its `recv`.
    Writing (`send`, `put`) collects; `flush` hands everything to the system at once.
    """

    def __init__(
        self, sock: socket.socket, receiver: Receiver, now: Callable[[], float] = time.monotonic
    ) -> None:
        """`now`: what `last_heard` and `last_sent` are told by, in seconds."""
        self._sock = sock
        self._tls = sock if isinstance(sock, ssl.SSLSocket) else None
        self._receiver = receiver
        self._partial: list[bytes] = []
        self._partial_size = 0
        self._partial_need = 0
        self._kazoos = bytearray()
        self._ended = False
        self._out = bytearray()
        self.hello: Hello | None = None
        self._now = now
        self.last_heard = self.last_sent = now()
        self.written = 0
        """Bytes put in so far."""
        self.sent = 0
        """Bytes that the system has taken; what lies beyond has certainly not reached the server."""

    # --- kazoo's side ------------------------------------------------------------------------------

    def fileno(self) -> int:
        return self._sock.fileno()

    def setblocking(self, flag: bool) -> None:
        self._sock.setblocking(bool(flag))

    def pending(self) -> int:
        """How much kazoo can read now; 1 stands for the end of the stream."""
        return len(self._kazoos) or int(self._ended)

    def recv(self, size: int) -> bytes:
        """At most `size` bytes of kazoo's frames; empty where the server closed the connection."""
        if not self._kazoos and not self._ended:
            # kazoo's word for "try again"; it is asked only after `pending` or `select` said yes
            raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "nothing to read yet")
        data = bytes(self._kazoos[:size])
        del self._kazoos[:size]
        return data

    def send(self, data: bytes | bytearray | memoryview) -> int:
        self.put(data)
        return len(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._sock.close()

    # --- our side ----------------------------------------------------------------------------------

    def put(self, frame: bytes | bytearray | memoryview) -> None:
        self._out += frame
        self.written += len(frame)

    @property
    def unsent(self) -> int:
        return len(self._out)

    @property
    def more_to_read(self) -> bool:
        """Whether TLS holds bytes that no poll would tell of."""
        return self._tls is not None and self._tls.pending() > 0

    def flush(self) -> None:
        """Sends as much as the system takes now. Raises `OSError` where the connection is broken."""
        while self._out:
            try:
                sent = self._sock.send(self._out)
            except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            self.last_sent = self._now()
            self.sent += sent
            del self._out[:sent]

    def fill(self) -> None:
        """Reads once and takes the whole frames apart. Raises `OSError` where the connection is broken."""
        try:
            missing = self._partial_need - self._partial_size
            data = self._sock.recv(max(_READ_AT_LEAST, min(missing, _READ_AT_MOST)))
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        if not data:
            self._ended = True
            return
        self.last_heard = self._now()
        if self._partial:
            self._partial.append(data)
            self._partial_size += len(data)
            if self._partial_size < self._partial_need:
                return
            data = b"".join(self._partial)
            self._partial, self._partial_size, self._partial_need = [], 0, 0
        self._take_apart(data)

    def _take_apart(self, data: bytes) -> None:
        at, end = 0, len(data)
        need = 4
        while end - at >= 4:
            need = 4 + _INT.unpack_from(data, at)[0]
            if not 4 <= need <= _LONGEST_FRAME:
                raise OSError(errno.EPROTO, f"a frame of {need:,} bytes makes no sense")
            if end - at < need:
                break
            self._take(data, at, need)
            at += need
            need = 4
        if at < end:
            self._partial, self._partial_size, self._partial_need = [data[at:]], end - at, need

    def _take(self, data: bytes, at: int, size: int) -> None:
        if self.hello is None:
            if size >= _HELLO.size:
                self.hello = Hello(*_HELLO.unpack_from(data, at)[2:])
        elif size >= 20:
            xid, zxid, number = _HEADER.unpack_from(data, at + 4)
            if xid >= FIRST_XID or xid in (WATCH_XID, PING_XID):
                self._receiver(xid, zxid, number, data, at + 20)
                return
        self._kazoos += data[at : at + size]


class WakeUps:
    """Stands for kazoo's pair of sockets: one side counts a wake-up, the other takes it.

    kazoo writes into it only for its own queue, which we do not use; `ring` covers that, too.
    """

    def __init__(self, ring: Callable[[], None]) -> None:
        self.count = 0
        self._ring = ring

    def send(self, data: bytes) -> int:
        self.count += len(data)
        self._ring()
        return len(data)

    def recv(self, size: int) -> bytes:
        taken = min(size, self.count)
        self.count -= taken
        return b"\0" * taken

    def close(self) -> None:
        self.count = 0


class Bell:
    """Wakes the connection thread out of its wait, once for however many reasons there are.

    `ring` costs a system call only when the thread is about to sleep: it is armed then. A thousand
    requests submitted at once are one byte.
    """

    def __init__(self) -> None:
        self._in, self._out = socket.socketpair()
        self._in.setblocking(False)
        self._out.setblocking(False)
        self._rung = True

    def fileno(self) -> int:
        return self._in.fileno()

    def arm(self) -> None:
        """From now on a ring makes `fileno` readable. Look at the work to do after this, then sleep."""
        self._rung = False

    def ring(self) -> None:
        """From any thread; what it is about must have been written down before."""
        if not self._rung:
            self._rung = True
            with contextlib.suppress(OSError):  # closed, or full of rings already
                self._out.send(b"\0")

    def has_rung(self) -> bool:
        """Whether the thread is awake, or about to be."""
        return self._rung

    def disarm(self) -> None:
        """Awake: rings are free again."""
        self._rung = True

    def silence(self) -> None:
        """Takes the rings out, after waking up."""
        self._rung = True
        with contextlib.suppress(OSError):
            self._in.recv(64)

    def close(self) -> None:
        self._in.close()
        self._out.close()
