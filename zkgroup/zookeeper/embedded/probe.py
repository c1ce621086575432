"""Is this server ready? Asked in ZooKeeper's own protocol, with nothing but a socket."""

from __future__ import annotations

import contextlib
import socket
import struct

_CONNECT = struct.Struct(">iiqiqi16s?")  # ConnectRequest of zookeeper.jute, behind its length
_CLOSE_SESSION, _CREATE = -11, 1  # ZooDefs.OpCode
_NODE_EXISTS = -110
_OPEN_ACL = struct.pack(">ii", 1, 31) + struct.pack(">i5si6s", 5, b"world", 6, b"anyone")
_SESSION_MS = 5000


def ask(port: int, word: str, timeout_s: float, host: str = "127.0.0.1") -> str:
    """Answer to a four-letter command ("srvr", "conf", "mntr"). Raises OSError where there is none."""
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        connection.sendall(word.encode("ascii"))
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts).decode("utf-8", "replace")


def fields(answer: str) -> dict[str, str]:
    """The lines of an answer that read `name=value` or `name: value`."""
    rows = (line.replace("=", ":", 1).partition(":") for line in answer.splitlines())
    return {name.strip(): value.strip() for name, colon, value in rows if colon}


def opens_sessions(port: int, timeout_s: float, host: str = "127.0.0.1") -> bool:
    """Opens a session and closes it again: proof of a leader with a quorum behind this server."""
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        if not _join(connection, 0, bytes(16)):
            return False
        _request(connection, 1, _CLOSE_SESSION)
    return True


def end_session(port: int, session_id: int, password: bytes, timeout_s: float) -> None:
    """Closes somebody's session from outside. Raises ConnectionError when it is not alive."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
        if not _join(connection, session_id, password):
            raise ConnectionError(f"session 0x{session_id:x} is not alive")
        _request(connection, 1, _CLOSE_SESSION)


def create_node(port: int, path: str, timeout_s: float) -> None:
    """Creates a persistent znode with null data, if it is missing: for a chroot.

    Raises OSError when the server refuses or does not answer: it may be looking for a leader just now.
    """
    name = path.encode()
    body = struct.pack(f">i{len(name)}si", len(name), name, -1) + _OPEN_ACL + struct.pack(">i", 0)
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
        if not _join(connection, 0, bytes(16)):
            raise ConnectionError(f"{path} could not be created: no session is granted")
        error = _request(connection, 1, _CREATE, body)
        if error is not None:
            with contextlib.suppress(OSError):
                _request(connection, 2, _CLOSE_SESSION)
    if error not in (0, _NODE_EXISTS):
        why = "no answer" if error is None else f"error {error}"
        raise ConnectionError(f"{path} could not be created: {why}")


def _join(connection: socket.socket, session_id: int, password: bytes) -> bool:
    """Opens a session, or takes one over; False when the server does not grant it."""
    hello = _CONNECT.pack(_CONNECT.size - 4, 0, 0, _SESSION_MS, session_id, 16, password, False)
    connection.sendall(hello)
    reply = _frame(connection)
    return len(reply) >= 8 and struct.unpack_from(">i", reply, 4)[0] > 0


def _request(connection: socket.socket, xid: int, opcode: int, body: bytes = b"") -> int | None:
    """The error code of the reply, 0 where nothing is wrong; None where the server left without one."""
    connection.sendall(struct.pack(">iii", 8 + len(body), xid, opcode) + body)
    reply = _frame(connection)
    return int(struct.unpack_from(">i", reply, 12)[0]) if len(reply) >= 16 else None


def _frame(connection: socket.socket) -> bytes:
    """One packet without its length; empty when the server closed the connection."""
    head = _exactly(connection, 4)
    return _exactly(connection, struct.unpack(">i", head)[0]) if len(head) == 4 else b""


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size and (part := connection.recv(size - len(parts))):
        parts += part
    return bytes(parts)
