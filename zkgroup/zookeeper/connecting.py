"""Opening a connection to one server: TCP, or TLS with the host name checked. Never sleeps in the system."""

from __future__ import annotations

import errno
import os
import select
import socket
import ssl
import time
from collections.abc import Callable

from zkgroup.errors import ConfigError
from zkgroup.zookeeper.settings import Tls
from zkgroup.zookeeper.sockets import Bell


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Raises `ConfigError` where a file cannot be used; the message never holds the key's password."""
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = tls.check_host_name
    try:
        if tls.ca_file is not None:
            context = _trusting_only(context, tls.ca_file)
        if tls.cert_file is not None:
            password = tls.key_password.reveal() if tls.key_password else ""
            context.load_cert_chain(tls.cert_file, tls.key_file, password)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(name for name in (tls.ca_file, tls.cert_file, tls.key_file) if name)
        raise ConfigError(f"tls: {files} cannot be used: {error}") from error
    return context


def _trusting_only(context: ssl.SSLContext, ca_file: str) -> ssl.SSLContext:
    """A private authority replaces those of the system: it was named because they are not meant."""
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
    bell: Bell | None = None,
    check: Callable[[], None] = lambda: None,
) -> socket.socket:
    """A connected, non-blocking socket.

    address: numeric; host: the name it was resolved from, which a certificate must carry.
    bell: interrupts the wait; `check` may then raise to give up.
    Raises `OSError` (of which TLS errors are one kind).
    """
    end = time.monotonic() + timeout_s
    family = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)[0][0]
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _raise_if(sock.connect_ex(address), but=(errno.EINPROGRESS, errno.EWOULDBLOCK))
        _wait(sock, select.POLLOUT, end, bell, check)
        _raise_if(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        if tls is None:
            return sock
        secure = tls.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
        sock = secure
        _shake_hands(secure, end, bell, check)
    except BaseException:
        sock.close()
        raise
    return secure


def _raise_if(number: int, but: tuple[int, ...] = ()) -> None:
    if number and number not in but:
        raise OSError(number, os.strerror(number))


def _shake_hands(sock: ssl.SSLSocket, end: float, bell: Bell | None, check: Callable[[], None]) -> None:
    while True:
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            _wait(sock, select.POLLIN, end, bell, check)
        except ssl.SSLWantWriteError:
            _wait(sock, select.POLLOUT, end, bell, check)
        else:
            return


def _wait(sock: socket.socket, events: int, end: float, bell: Bell | None, check: Callable[[], None]) -> None:
    poll = select.poll()
    poll.register(sock.fileno(), events)
    if bell is not None:
        poll.register(bell.fileno(), select.POLLIN)
    while True:
        if bell is not None:
            bell.arm()
        check()
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError(errno.ETIMEDOUT, "the server did not answer in time")
        ready = dict(poll.poll(left * 1000))
        if bell is not None:
            bell.silence()
        if sock.fileno() in ready:
            return
