"""A ZooKeeper server that follows a script of the test: frames written by hand, on real sockets."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import NamedTuple, Self

from tests.waiting import joined
from zkgroup.model.ports import Clock
from zkgroup.model.requests import Multi, SetData
from zkgroup.testing.conformance import Caller
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.bulk_requests import SUPPORT

PING, CLOSE_SESSION, AUTH = 11, -11, 100
STAT = struct.pack("!qqqqiiiqiiq", *range(1, 12))
PASSWORD = b"password-of-16-b"
WRITE = Multi((SetData("/n", b"data", 0),))
"""For tests to which the kind of write does not matter."""


def session_events(caller: Caller) -> list[str]:
    """The events that a client reported to its listener, by name."""
    return [type(event).__name__ for event in caller.events]


class Hello(NamedTuple):
    """The first message of a client (zookeeper.jute, ConnectRequest)."""

    last_zxid: int
    timeout_ms: int
    session_id: int
    password: bytes


class Asked(NamedTuple):
    """One request."""

    xid: int
    op: int
    body: bytes

    @property
    def path(self) -> str:
        (size,) = struct.unpack_from("!i", self.body)
        return self.body[4 : 4 + size].decode()


class Peer:
    """One connection, as the server sees it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.pings = 0
        self.answers_pings = True

    def frame(self) -> bytes:
        """The next frame. Raises EOFError when the client has closed the connection."""
        (size,) = struct.unpack("!i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.sock.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def hear_hello(self) -> Hello:
        body = self.frame()
        _version, zxid, timeout_ms, session_id, size = struct.unpack_from("!iqiqi", body)
        return Hello(zxid, timeout_ms, session_id, body[28 : 28 + size])

    def grant(self, session_id: int = 7, timeout_ms: int = 6000) -> None:
        """Answers the ConnectRequest; a timeout of 0 means that the session has expired."""
        self.send(struct.pack("!iiqi", 0, timeout_ms, session_id, len(PASSWORD)) + PASSWORD + b"\0")

    def greet(self, session_id: int = 7, timeout_ms: int = 6000) -> Hello:
        hello = self.hear_hello()
        self.grant(session_id, timeout_ms)
        return hello

    def asked(self) -> Asked:
        """The next request that is no ping."""
        while True:
            body = self.frame()
            xid, op = struct.unpack_from("!ii", body)
            if op != PING:
                return Asked(xid, op, body[8:])
            self.pings += 1
            if self.answers_pings:
                self.reply(-2, b"")

    def reply(self, xid: int, body: bytes = b"", *, zxid: int = 100, error: int = 0) -> None:
        self.send(struct.pack("!iqi", xid, zxid, error) + body)

    def send(self, body: bytes) -> None:
        self.sock.sendall(struct.pack("!i", len(body)) + body)

    def event(self, kind: int, path: str) -> None:
        raw = path.encode()
        self.reply(-1, struct.pack("!iii", kind, 3, len(raw)) + raw, zxid=-1)

    def serve(self, error: int = -101) -> None:
        """Answers every request with "no such znode", or another error, until the session is closed."""
        while True:
            asked = self.asked()
            self.reply(asked.xid, error=0 if asked.op == CLOSE_SESSION else error)
            if asked.op == CLOSE_SESSION:
                return


class ScriptedServer:
    """Runs `script(peer, number)` for each connection; the connection is closed when the script ends."""

    def __init__(self, script: Callable[[Peer, int], None], tls: ssl.SSLContext | None = None) -> None:
        self._script = script
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        SUPPORT.forget(
            self._listener.getsockname()
        )  # an earlier server of this process may have had the port
        self._threads: list[threading.Thread] = []
        self._socks: list[socket.socket] = []
        self._accepter = threading.Thread(target=self._accept, daemon=True)
        self.failures: list[BaseException] = []

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._accepter.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        joined(self._accepter)
        for sock in self._socks:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            joined(thread)
        if error is None and self.failures:
            raise self.failures[0]

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                self._socks.append(sock)
                thread = threading.Thread(target=self._run, args=(sock, len(self._socks)), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _run(self, raw: socket.socket, number: int) -> None:
        sock = raw
        try:
            if self._tls is not None:
                sock = self._tls.wrap_socket(raw, server_side=True)
                self._socks.append(sock)
            self._script(Peer(sock), number)
        except (EOFError, OSError):
            pass  # the client has gone
        except BaseException as error:  # noqa: BLE001  __exit__ raises it
            self.failures.append(error)
        finally:
            sock.close()
            raw.close()


@contextlib.contextmanager
def connected(
    script: Callable[[Peer, int], None],
    settings: ClientSettings | None = None,
    clock: Clock | None = None,
) -> Iterator[tuple[ZooKeeperClient, Caller]]:
    """A client with a session at a server that follows the script."""
    with (
        ScriptedServer(script) as server,
        ZooKeeperClient(server.address, settings or ClientSettings(), clock=clock) as client,
    ):
        caller = Caller(client)
        caller.session()
        yield client, caller
