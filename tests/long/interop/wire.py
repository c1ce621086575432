"""A bare ZooKeeper session for requests that kazoo lacks: bulk reads (operation 22, ZooKeeper 3.6 and later).

Formats: zookeeper.jute@3.9 (ConnectRequest, MultiHeader, ReadRequest) and MultiOperationRecord.java.
"""

from __future__ import annotations

import socket
import struct
from typing import Self

from tests.waiting import PATIENCE_S

CREATE, GET_DATA, GET_CHILDREN, MULTI_READ = 1, 4, 8, 22
UNIMPLEMENTED = -6
WORLD_ANYONE = struct.pack(">ii", 1, 31)
END_OF_MULTI = struct.pack(">i?i", -1, True, -1)


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">i", len(raw)) + raw


def bulk(operations: list[tuple[int, str, bool]]) -> bytes:
    """The body of operation 22."""
    parts = b"".join(
        struct.pack(">i?i", operation, False, -1) + text(path) + struct.pack(">?", watch)
        for operation, path, watch in operations
    )
    return parts + END_OF_MULTI


class WireSession:
    """One connection and its session. For one thread; every call waits for its answer."""

    def __init__(self, address: str, *, session_ms: int = 60_000, timeout_s: float = PATIENCE_S) -> None:
        host, _, port = address.partition(":")
        self._xid = 0
        self._socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        try:
            self._send(struct.pack(">iqiqi", 0, 0, session_ms, 0, 16) + bytes(16))
            self._receive()
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def call(self, operation: int, body: bytes) -> tuple[int, bytes]:
        """Error code and body of the answer. ConnectionError when the server hangs up."""
        self._xid += 1
        self._send(struct.pack(">ii", self._xid, operation) + body)
        answer = self._receive()
        xid, _zxid, error = struct.unpack_from(">iqi", answer)
        assert xid == self._xid, f"an answer to {xid}, awaited {self._xid}"
        return error, answer[16:]

    def next_notification(self, timeout_s: float) -> bytes | None:
        """A watch event that the server sends by itself, or None when none comes in time."""
        self._socket.settimeout(timeout_s)
        try:
            answer = self._receive()
        except TimeoutError:
            return None
        (xid,) = struct.unpack_from(">i", answer)
        return answer if xid == -1 else None

    def create_ephemeral(self, path: str, data: str) -> None:
        acl = WORLD_ANYONE + text("world") + text("anyone")
        error, _ = self.call(CREATE, text(path) + text(data) + acl + struct.pack(">i", 1))
        assert error == 0, error

    def multi_read(self, operations: list[tuple[int, str, bool]]) -> bytes:
        """Body of the answer to one bulk read of (operation, path, watch flag)."""
        error, body = self.call(MULTI_READ, bulk(operations))
        assert error == 0, error
        return body

    def _send(self, body: bytes) -> None:
        self._socket.sendall(struct.pack(">i", len(body)) + body)

    def _receive(self) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = self._socket.recv(count - len(parts))
            if not part:
                raise ConnectionError("the server closed the connection")
            parts += part
        return bytes(parts)
