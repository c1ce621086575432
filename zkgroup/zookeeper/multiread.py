"""Whether a server understands multiRead (operation 22, ZooKeeper 3.6 and newer).

A 3.4 server answers it by closing the connection, so it is tried on a connection, and a session, of
its own, and the answer is remembered for the whole process, server by server.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable

from zkgroup.zookeeper.codes import UNIMPLEMENTED
from zkgroup.zookeeper.connecting import open_connection
from zkgroup.zookeeper.settings import Digest
from zkgroup.zookeeper.wire import Op, encode_reads

_log = logging.getLogger("zkgroup.zookeeper")

Server = tuple[str, int]
"""Numeric address and port."""

PROBE_TIMEOUT_S = 2.0
_SESSION_MS = 4000
DEFAULT_PASSWORD = b"\0" * 16
"""Password of a connection request for a new session."""


class Support:
    """What is known about servers; shared by all clients of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Server, bool] = {}
        self._asking: dict[Server, list[Callable[[bool], None]]] = {}
        self._threads: set[threading.Thread] = set()

    def known(self, server: Server) -> bool | None:
        with self._lock:
            return self._known.get(server)

    def forget(self, server: Server) -> None:
        """It closed a connection on which a multiRead was waiting: it may be another server now."""
        with self._lock:
            self._known.pop(server, None)

    def find_out(self, server: Server, probe: Callable[[], bool], tell: Callable[[bool], None]) -> None:
        """Runs the probe on a thread of its own, once however many ask; `tell` is called from there.

        A probe that fails to connect tells False and leaves nothing behind.
        """
        with self._lock:
            waiting = self._asking.setdefault(server, [])
            waiting.append(tell)
            if len(waiting) > 1:
                return
            thread = threading.Thread(
                target=self._probe, args=(server, probe), name="zkgroup-multiread-probe", daemon=True
            )
            self._threads.add(thread)
            thread.start()  # with the lock, so that nobody waits for a thread that has not begun

    def _probe(self, server: Server, probe: Callable[[], bool]) -> None:
        answer: bool | None = None
        try:
            answer = probe()
        except (OSError, EOFError, struct.error) as error:
            _log.debug("asking %s:%d for multiRead failed: %s", *server, error)
        finally:
            with self._lock:
                if answer is not None:
                    self._known[server] = answer
                waiting = self._asking.pop(server, [])
                self._threads.discard(threading.current_thread())
            for tell in waiting:
                tell(bool(answer))

    def join(self, timeout_s: float) -> None:
        """Waits for probes under way, so that a closed client leaves no thread behind."""
        end = time.monotonic() + timeout_s
        with self._lock:
            threads = tuple(self._threads)
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))

    def after_fork(self) -> None:
        """In the child: its lock may be held by a thread that does not exist here."""
        self.__init__()  # type: ignore[misc]


SUPPORT = Support()


def probe(server: Server, host: str, tls: ssl.SSLContext | None, auth: object) -> bool:
    """Tries one multiRead in a session that is closed again: 3 packets, 4 with digest.

    Raises `OSError` or `EOFError` where the server cannot even be connected to.
    """
    end = time.monotonic() + PROBE_TIMEOUT_S
    with contextlib.closing(open_connection(server, host, timeout_s=PROBE_TIMEOUT_S, tls=tls)) as sock:
        sock.settimeout(PROBE_TIMEOUT_S)
        connection = _Connection(sock, end)
        connection.send(
            struct.pack("!iqiqi", 0, 0, _SESSION_MS, 0, len(DEFAULT_PASSWORD)), DEFAULT_PASSWORD, b"\0"
        )
        connection.receive()
        if isinstance(auth, Digest):
            scheme, credential = b"digest", auth.credential.encode()
            parts = (struct.pack("!iiii", -4, 100, 0, len(scheme)), scheme)
            connection.send(*parts, struct.pack("!i", len(credential)), credential)
            connection.receive()
        _, _, body = next(encode_reads(Op.GET_DATA, [b"/"], max_paths=1, max_bytes=1000))
        connection.send(struct.pack("!ii", 1, Op.MULTI_READ), body)
        try:
            reply = connection.receive()
        except (OSError, EOFError):
            return False
        connection.send(struct.pack("!ii", 2, Op.CLOSE_SESSION))
        with contextlib.suppress(OSError, EOFError):
            connection.receive()
        xid, _zxid, number = struct.unpack_from("!iqi", reply)
        return bool(xid == 1 and number != UNIMPLEMENTED)


class _Connection:
    """Frames, one after the other."""

    def __init__(self, sock: socket.socket, end: float) -> None:
        self._sock = sock
        self._end = end

    def send(self, *parts: bytes) -> None:
        body = b"".join(parts)
        self._sock.sendall(struct.pack("!i", len(body)) + body)

    def receive(self) -> bytes:
        (size,) = struct.unpack("!i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            self._sock.settimeout(max(0.001, self._end - time.monotonic()))
            piece = self._sock.recv(size - len(data))
            if not piece:
                raise EOFError("the server closed the connection")
            data += piece
        return data
