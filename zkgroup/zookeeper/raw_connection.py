"""ZooKeeper's protocol on one blocking socket: for probes, and for servers that are starting.

The connection of a client is `zkgroup.zookeeper.connection`. A raw connection sends one request after the
other, and each function below opens a session of its own and closes it.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from typing import Final

from zkgroup.zookeeper.kazoo_adapter import OPEN_ACL_UNSAFE, Connect, Create
from zkgroup.zookeeper.wire import NODE_EXISTS, OK, Op

NEW_SESSION_PASSWORD: Final = bytes(16)
"""Password of a ConnectRequest for a new session, whose id is 0."""
_SESSION_MS = 5000
_REPLY: Final = struct.Struct(">iqi")  # ReplyHeader: xid, zxid, err


class ClosedByServerError(ConnectionError):
    """The server closed the connection instead of replying."""


class RawConnection:
    """Requests and replies on a connected socket. Every method raises OSError at the timeout."""

    def __init__(self, sock: socket.socket, timeout_s: float) -> None:
        """`timeout_s` bounds the whole use of the connection."""
        self._sock = sock
        self._end_s = time.monotonic() + timeout_s

    def open_session(self, session_id: int = 0, password: bytes = NEW_SESSION_PASSWORD) -> bool:
        """Opens a new session, or takes over the one of this id; whether the server granted it."""
        self._send(bytes(Connect(0, 0, _SESSION_MS, session_id, password, False).serialize()))
        try:
            reply = self._receive()
        except ClosedByServerError:
            return False
        return len(reply) >= 8 and struct.unpack_from(">i", reply, 4)[0] > 0

    def request(self, xid: int, operation: int, body: bytes = b"") -> int:
        """The error code of the reply, 0 if the request was executed. Raises ClosedByServerError."""
        self._send(struct.pack(">ii", xid, operation) + body)
        reply = self._receive()
        if len(reply) < _REPLY.size:
            raise ClosedByServerError("the reply is incomplete")
        return int(_REPLY.unpack_from(reply)[2])

    def close_session(self, xid: int) -> None:
        """Closes the session; if that fails, the session ends by its timeout."""
        with contextlib.suppress(OSError):
            self.request(xid, Op.CLOSE_SESSION)

    def _send(self, body: bytes) -> None:
        self._wait_at_most()
        self._sock.sendall(struct.pack(">i", len(body)) + body)

    def _receive(self) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            self._wait_at_most()
            part = self._sock.recv(size - len(data))
            if not part:
                raise ClosedByServerError("the server closed the connection")
            data += part
        return bytes(data)

    def _wait_at_most(self) -> None:
        self._sock.settimeout(max(0.001, self._end_s - time.monotonic()))


def opens_sessions(port: int, timeout_s: float) -> bool:
    """Returns whether the server opens a session, which needs a leader with a quorum. Closes it again.

    Raises OSError if the server cannot be connected to, or does not reply in time.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as sock:
        connection = RawConnection(sock, timeout_s)
        if not connection.open_session():
            return False
        connection.close_session(1)
    return True


def end_session(port: int, session_id: int, password: bytes, timeout_s: float) -> None:
    """Closes the session of another client. Raises ConnectionError when it is not alive."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as sock:
        connection = RawConnection(sock, timeout_s)
        if not connection.open_session(session_id, password):
            raise ConnectionError(f"session 0x{session_id:x} is not alive")
        connection.request(1, Op.CLOSE_SESSION)


def create_node(port: int, path: str, timeout_s: float) -> None:
    """Creates a persistent znode with null data if it is missing, for a chroot.

    Raises OSError if the server refuses or does not reply: it may be electing a leader.
    """
    body = bytes(Create(path, None, OPEN_ACL_UNSAFE, 0).serialize())
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as sock:
        connection = RawConnection(sock, timeout_s)
        if not connection.open_session():
            raise ConnectionError(f"{path} could not be created: the server granted no session")
        try:
            error = connection.request(1, Op.CREATE, body)
        except ClosedByServerError as closed:
            raise ConnectionError(f"{path} could not be created: no reply") from closed
        connection.close_session(2)
    if error not in (OK, NODE_EXISTS):
        raise ConnectionError(f"{path} could not be created: error {error}")
