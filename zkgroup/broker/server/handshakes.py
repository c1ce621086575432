"""The TLS handshakes of a broker: their limits, and what a failed one is in the log.

A client that has not ended its handshake has proved nothing. So handshakes have a part of the places of
clients only, and the one that goes for a new one is of the host that has most of them.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any, Final

from zkgroup.broker.server.connection import Connection
from zkgroup.broker.server.connection_choice import NEW_SHARE
from zkgroup.broker.server.handlers import ANONYMOUS
from zkgroup.broker.server.port import ConnectionLimits
from zkgroup.errors import ConfigError
from zkgroup.runtime.logs import get_logger, limited
from zkgroup.security.certificates import valid_until
from zkgroup.security.listeners import Listener
from zkgroup.security.principals import parse_rules, principal_of
from zkgroup.security.secret_files import Followed
from zkgroup.security.tls import TlsSettings, server_context

_log = get_logger("zkgroup.broker")

BUFFER_BYTES: Final = 32 * 1024
"""Read at once from a connection with TLS."""


class TlsListener:
    """The TLS of one listener."""

    def __init__(self, settings: TlsSettings) -> None:
        """Raises ConfigError for a rule that is wrong, and for files that cannot be used."""
        self._settings = settings
        self._files = Followed(
            settings.key_store,
            settings.trust_store,
            make=partial(server_context, settings),
            on_fault=partial(_log.error, "%s; the former one is used until it changes again"),
        )
        self._used: ssl.SSLContext | None = None
        self.context()
        self._rules = parse_rules(settings.principal_rules)

    def context(self) -> ssl.SSLContext:
        """That of the files as they are. One line says until when a new certificate is valid.

        One that is not valid is used as well, as in Kafka.
        """
        found = self._files.current()
        if found is not self._used:
            self._used, file = found, self._settings.key_store
            try:
                until = valid_until(
                    replace(self._settings, check_host_names=False), "localhost", must_trust=False
                )
            except (ConfigError, OSError, ValueError) as error:
                _log.warning("%s; it is used all the same", error)
            else:
                _log.info(
                    "the certificate of %s is used, valid until %s", file, f"{until:%Y-%m-%d %H:%M} UTC"
                )
        return found

    def principal(self, certificate: bytes | None) -> str | None:
        """The principal of a client by its certificate in DER; None where no rule has one for it."""
        return ANONYMOUS if certificate is None else principal_of(certificate, self._rules)


class _Paused(asyncio.Protocol):
    """Reads nothing: the first bytes belong to the handshake."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()


class Handshakes:
    """The handshakes that have not ended. Used on one event loop."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._places = max(1, limits.connections_max // NEW_SHARE)
        self._timeout_s = limits.handshake_ms / 1000
        self._hosts: dict[asyncio.Task[None], str] = {}
        """In the order in which they began."""
        self._cut: set[asyncio.Task[None]] = set()

    @property
    def cut(self) -> int:
        """The number of those that are being closed for others."""
        return len(self._cut)

    @property
    def are_full(self) -> bool:
        """True if they have all places that handshakes can have."""
        return len(self._hosts) >= self._places

    def cut_one(self) -> bool:
        """Ends the oldest one of the host that has most of them; returns False if there is none."""
        if not self._hosts:
            return False
        counts = Counter(self._hosts.values())
        most = max(counts.values())
        goes = next(task for task, host in self._hosts.items() if counts[host] == most)
        host = self._hosts.pop(goes)
        self._cut.add(goes)
        goes.cancel()
        _log.warning("TLS handshake of %s cut off: others came behind it", host, extra=limited())
        return True

    async def _connect(self, context: ssl.SSLContext, connection: Connection, client: socket.socket) -> None:
        """In two steps: asyncio ends slowly what is cancelled right behind its handshake."""
        loop = asyncio.get_running_loop()
        plain, _ = await loop.connect_accepted_socket(_Paused, client)
        try:
            secured = await loop.start_tls(
                plain, connection, context, server_side=True, ssl_handshake_timeout=self._timeout_s
            )
        except BaseException:
            plain.abort()
            raise
        assert secured is not None
        connection.connection_made(secured)

    async def run(
        self, tls: TlsListener, connection: Connection, client: socket.socket, listener: Listener
    ) -> bool:
        """Makes the connection on the client's socket; returns False where there is none, which is logged."""
        host, port, *_ = client.getpeername()
        task = asyncio.current_task()
        assert task is not None
        self._hosts[task] = host
        why, level = None, logging.WARNING
        try:
            await self._connect(tls.context(), connection, client)
        except (OSError, ConfigError) as error:
            why = failure(error)
            if why == LEFT:
                level = logging.DEBUG  # as who only looks whether the port is open
        finally:
            self._hosts.pop(task, None)
            self._cut.discard(task)
        if why is None:
            _shrink(connection.transport)
            if listener.uses_sasl:
                return True  # the login says who it is
            principal = tls.principal(connection.transport.get_extra_info("ssl_object").getpeercert(True))
            if principal is not None:
                connection.principal = principal
                return True
            why = "no rule of ssl.principal.mapping.rules has a name for its certificate"
            connection.abort()
        _log.log(
            level, "listener %s: %s:%d is refused: %s", listener.name, host, port, why, extra=limited(why)
        )
        return False


def _shrink(transport: asyncio.Transport) -> None:
    """Gives a connection a buffer of `BUFFER_BYTES` in place of asyncio's 256 KiB, most of its memory.

    asyncio has no call for that; where its internals are others, nothing changes.
    """
    protocol: Any = getattr(transport, "_ssl_protocol", None)
    if hasattr(protocol, "_ssl_buffer_view"):
        protocol.max_size = BUFFER_BYTES
        protocol._ssl_buffer = bytearray(BUFFER_BYTES)
        protocol._ssl_buffer_view = memoryview(protocol._ssl_buffer)


LEFT: Final = "it has left within the TLS handshake"
_REASONS: Final = {
    "HTTP_REQUEST": "it speaks HTTP, not TLS",
    "WRONG_VERSION_NUMBER": "it does not speak TLS",
    "UNEXPECTED_MESSAGE": "it does not speak TLS",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate, and ssl.client.auth is required",
    "UNSUPPORTED_PROTOCOL": "it speaks no TLS of version 1.2 or later",
    "NO_SHARED_CIPHER": "it has no cipher in common",
}


def failure(error: Exception) -> str:
    """The reason of a handshake that failed, of few different ones."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or "the handshake failed"
        if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
            return f"it refuses the certificate of this broker ({reason.lower().replace('_', ' ')})"
        return _REASONS.get(reason, f"the TLS handshake failed ({reason.lower().replace('_', ' ')})")
    if isinstance(error, ConnectionAbortedError):
        return "its TLS handshake did not end in time"
    if isinstance(error, ConfigError):
        return str(error)
    return LEFT
