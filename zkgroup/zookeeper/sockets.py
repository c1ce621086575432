"""The socket that kazoo and zkgroup share (`kazoo_adapter`), how it is opened, and the thread's waker."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from zkgroup.errors import ConfigError
from zkgroup.security.secret_files import Followed, check_secret_file, check_trusted_file
from zkgroup.zookeeper.settings import Tls
from zkgroup.zookeeper.wire import AUTH_DEMANDED, PING_XID, WATCH_XID

_log = logging.getLogger("zkgroup.zookeeper")

FIRST_XID = 1 << 30
"""The first xid of zkgroup; kazoo's few requests start at 1 on every connection."""
LAST_XID = (1 << 31) - 1

_READ_AT_LEAST = 1 << 16
_READ_AT_MOST = 1 << 20
_LONGEST_FRAME = 1 << 27
"""128 MiB: a larger length of a frame is invalid. No reply to a request of zkgroup is as large."""

_INT = struct.Struct("!i")
_HEADER = struct.Struct("!iqi")  # xid, zxid, err (zookeeper.jute, ReplyHeader)
_CONNECT_RESPONSE = struct.Struct("!iiiq")  # frame length, protocol version, granted timeout, session id

_NO_TOKEN = _INT.pack(-1)

Receiver = Callable[[int, int, int, bytes, int], None]
"""Called with xid, zxid, error number, the bytes read and the offset of this reply's body in them."""


class ConnectResponse(NamedTuple):
    """The server's response to a ConnectRequest (zookeeper.jute, ConnectResponse)."""

    timeout_ms: int
    """The granted timeout; 0 if the session has expired. kazoo does not publish it."""
    session_id: int


class SharedSocket:
    """A connected, non-blocking socket, read and written in large pieces by one thread.

    Reading (`fill`) passes whole frames of zkgroup to the receiver and buffers kazoo's for its `recv`.
    Writing (`send`, `put`) collects; `flush` passes everything to the system at once.
    """

    def __init__(
        self, sock: socket.socket, receiver: Receiver, now: Callable[[], float] = time.monotonic
    ) -> None:
        """`now`: the clock of `last_heard` and `last_sent`, in seconds."""
        self._sock = sock
        self._tls = sock if isinstance(sock, ssl.SSLSocket) else None
        self._receiver = receiver
        self._partial: list[bytes] = []
        self._partial_size = 0
        self._partial_need = 0
        self._kazoo_frames = bytearray()
        self._ended = False
        self._out = bytearray()
        self.connect_response: ConnectResponse | None = None
        self.error: OSError | None = None
        """The error that broke the connection while it was read."""
        self.demands_auth = False
        """True if the server refused to serve a client that is not authenticated."""
        self.lacks_sasl = False
        """True if the first reply to kazoo is no error and has no bytes of its own: to a SASL token, that of
        a server without SASL (ZooKeeperServer@3.9.1, `processSasl`). kazoo would send the token for ever."""
        self._now = now
        self.last_heard = self.last_sent = now()
        self.written = 0
        """Bytes written so far."""
        self.sent = 0
        """Bytes that the system has taken; bytes after them have not reached the server."""

    def fileno(self) -> int:
        return self._sock.fileno()

    def setblocking(self, flag: bool) -> None:
        self._sock.setblocking(bool(flag))

    def pending(self) -> int:
        """Bytes that kazoo can read now; 1 at the end of the stream."""
        return len(self._kazoo_frames) or int(self._ended)

    def recv(self, size: int) -> bytes:
        """At most `size` bytes of kazoo's frames; empty if the server closed the connection."""
        if not self._kazoo_frames and not self._ended:
            # kazoo retries on this error; it reads only after `pending` or `select` reported data
            raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "nothing to read yet")
        data = bytes(self._kazoo_frames[:size])
        del self._kazoo_frames[:size]
        return data

    def send(self, data: bytes | bytearray | memoryview) -> int:
        self.put(data)
        return len(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._sock.close()

    def put(self, frame: bytes | bytearray | memoryview) -> None:
        self._out += frame
        self.written += len(frame)

    @property
    def unsent(self) -> int:
        return len(self._out)

    @property
    def more_to_read(self) -> bool:
        """True if TLS has buffered bytes, which no poll reports."""
        return self._tls is not None and self._tls.pending() > 0

    def flush(self) -> None:
        """Sends as much as the system takes now. Raises `OSError` if the connection is broken."""
        while self._out:
            try:
                sent = self._sock.send(self._out)
            except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            self.last_sent = self._now()
            self.sent += sent
            del self._out[:sent]

    def fill(self) -> None:
        """Reads once and splits the bytes into frames. Raises `OSError` if the connection is broken."""
        try:
            missing = self._partial_need - self._partial_size
            data = self._sock.recv(max(_READ_AT_LEAST, min(missing, _READ_AT_MOST)))
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError as error:
            self.error = error
            raise
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
                raise OSError(errno.EPROTO, f"a frame of {need:,} bytes is invalid")
            if end - at < need:
                break
            self._take(data, at, need)
            at += need
            need = 4
        if at < end:
            self._partial, self._partial_size, self._partial_need = [data[at:]], end - at, need

    def _take(self, data: bytes, at: int, size: int) -> None:
        if self.connect_response is None:
            if size >= _CONNECT_RESPONSE.size:
                self.connect_response = ConnectResponse(*_CONNECT_RESPONSE.unpack_from(data, at)[2:])
        elif size >= 20:
            xid, zxid, number = _HEADER.unpack_from(data, at + 4)
            if number == AUTH_DEMANDED:
                self.demands_auth = True
            if xid >= FIRST_XID or xid in (WATCH_XID, PING_XID):
                self._receiver(xid, zxid, number, data, at + 20)
                return
            if xid == 1 and number == 0 and data[at + 20 : at + size] == _NO_TOKEN:
                self.lacks_sasl = True
        self._kazoo_frames += data[at : at + size]


class Waker:
    """Wakes the connection thread, once for any number of reasons.

    `wake` makes a system call only after `arm`, when the thread is about to sleep. A thousand requests
    submitted at once are one byte.
    """

    def __init__(self) -> None:
        self._in, self._out = socket.socketpair()
        self._in.setblocking(False)
        self._out.setblocking(False)
        self._awake = True

    def fileno(self) -> int:
        return self._in.fileno()

    def arm(self) -> None:
        """Makes `wake` write to `fileno` from now on. Check for work after this, then sleep."""
        self._awake = False

    def wake(self) -> None:
        """Wakes the thread; from any thread. The caller has stored the reason before."""
        if not self._awake:
            self._awake = True
            with contextlib.suppress(OSError):  # closed, or full already
                self._out.send(b"\0")

    def is_awake(self) -> bool:
        """Returns whether the thread is awake, or about to be."""
        return self._awake

    def disarm(self) -> None:
        """Marks the thread as awake: `wake` makes no system call."""
        self._awake = True

    def clear(self) -> None:
        """Reads the bytes that `wake` has written, after waking up."""
        self._awake = True
        with contextlib.suppress(OSError):
            self._in.recv(64)

    def close(self) -> None:
        self._in.close()
        self._out.close()


def refuses_certificate(error: OSError | None) -> bool:
    """Returns whether this is the server's TLS alert about the client's certificate (RFC 8446, 6.2).

    In TLS 1.3 it arrives after the handshake, with the first bytes that are read.
    """
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    return "_ALERT_" in reason and any(
        word in reason for word in ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")
    )


def followed_tls(tls: Tls) -> Followed[ssl.SSLContext]:
    """The TLS context of the settings' files. Raises `ConfigError` if a file is invalid."""
    return Followed(
        tls.ca_file,
        tls.cert_file,
        tls.key_file,
        make=partial(tls_context, tls),
        on_fault=partial(_log.warning, "%s; the former files are used until they change again"),
    )


def tls_context(tls: Tls) -> ssl.SSLContext:
    """The TLS context of the settings. Raises `ConfigError` if a file is invalid; never with the password."""
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = tls.check_host_name
    try:
        if tls.ca_file is not None:
            check_trusted_file(tls.ca_file)
            context = _trusting_only(context, tls.ca_file)
        if tls.cert_file is not None:
            password = tls.key_password.reveal() if tls.key_password else ""
            if tls.key_file is not None:
                check_secret_file(tls.key_file)
            context.load_cert_chain(tls.cert_file, tls.key_file, password)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(name for name in (tls.ca_file, tls.cert_file, tls.key_file) if name)
        raise ConfigError(f"tls: {files} cannot be used: {error}") from error
    return context


def _trusting_only(context: ssl.SSLContext, ca_file: str) -> ssl.SSLContext:
    """Makes the context trust only `ca_file`: a private authority replaces those of the system."""
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    own.minimum_version = context.minimum_version
    own.check_hostname = context.check_hostname
    own.load_verify_locations(ca_file)
    return own


def open_connection(
    address: tuple[str, int],
    host: str,
    *,
    timeout_s: float,
    tls: ssl.SSLContext | None = None,
    waker: Waker | None = None,
    check: Callable[[], None] = lambda: None,
) -> socket.socket:
    """A connected, non-blocking socket.

    address: numeric; host: the name that it was resolved from, which the certificate must contain.
    waker: interrupts the wait; `check` may then raise to give up.
    Raises `OSError` (also for TLS errors).
    """
    end = time.monotonic() + timeout_s
    family = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)[0][0]
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _raise_if(sock.connect_ex(address), but=(errno.EINPROGRESS, errno.EWOULDBLOCK))
        _wait(sock, select.POLLOUT, end, waker, check)
        _raise_if(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        if tls is None:
            return sock
        secure = tls.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
        sock = secure
        _shake_hands(secure, end, waker, check)
    except BaseException:
        sock.close()
        raise
    return secure


def _raise_if(number: int, but: tuple[int, ...] = ()) -> None:
    if number and number not in but:
        raise OSError(number, os.strerror(number))


def _shake_hands(sock: ssl.SSLSocket, end: float, waker: Waker | None, check: Callable[[], None]) -> None:
    while True:
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            _wait(sock, select.POLLIN, end, waker, check)
        except ssl.SSLWantWriteError:
            _wait(sock, select.POLLOUT, end, waker, check)
        else:
            return


def _wait(
    sock: socket.socket, events: int, end: float, waker: Waker | None, check: Callable[[], None]
) -> None:
    poll = select.poll()
    poll.register(sock.fileno(), events)
    if waker is not None:
        poll.register(waker.fileno(), select.POLLIN)
    while True:
        if waker is not None:
            waker.arm()
        check()
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError(errno.ETIMEDOUT, "the server did not answer in time")
        ready = dict(poll.poll(left * 1000))
        if waker is not None:
            waker.clear()
        if sock.fileno() in ready:
            return
