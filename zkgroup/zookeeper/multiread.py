"""Whether a server supports multiRead (operation 22, ZooKeeper 3.6 and newer).

A 3.4 server answers it by closing the connection, so it is tried on a connection, and a session, of its own,
and the answer is remembered for the whole process, server by server.
"""

from __future__ import annotations

import contextlib
import logging
import ssl
import struct
import threading
import time
from collections.abc import Callable

from zkgroup.zookeeper.raw_connection import RawConnection
from zkgroup.zookeeper.settings import Digest
from zkgroup.zookeeper.sockets import open_connection
from zkgroup.zookeeper.wire import UNIMPLEMENTED, Op, encode_reads

_log = logging.getLogger("zkgroup.zookeeper")

Server = tuple[str, int]
"""Numeric address and port."""

PROBE_TIMEOUT_S = 2.0
_AUTH_XID, _AUTH = -4, 100
"""xid and operation of an AuthPacket (ZooDefs.OpCode.auth)."""


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
            thread.start()  # with the lock, so that `join` never waits for a thread that has not begun

    def _probe(self, server: Server, probe: Callable[[], bool]) -> None:
        answer: bool | None = None
        try:
            answer = probe()
        except (OSError, struct.error) as error:
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

    Raises OSError where the server cannot be connected to, or grants no session.
    """
    with contextlib.closing(open_connection(server, host, timeout_s=PROBE_TIMEOUT_S, tls=tls)) as sock:
        connection = RawConnection(sock, PROBE_TIMEOUT_S)
        if not connection.open_session():
            raise ConnectionError("no session is granted")
        if isinstance(auth, Digest):
            scheme, credential = b"digest", auth.credential.encode()
            parts = (
                struct.pack(">ii", 0, len(scheme)),
                scheme,
                struct.pack(">i", len(credential)),
                credential,
            )
            connection.request(_AUTH_XID, _AUTH, b"".join(parts))
        _, _, body = next(encode_reads(Op.GET_DATA, [b"/"], max_paths=1, max_bytes=1000))
        try:
            error = connection.request(1, Op.MULTI_READ, body)
        except OSError:
            return False
        connection.close_session(2)
        return error != UNIMPLEMENTED
