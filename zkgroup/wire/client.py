"""The client's end of a connection to a broker: frames, correlation ids, timeouts. On an asyncio loop.

* `BrokerConnection`: one connection; it reads all the time, which is how it learns that the broker has gone
* `BrokerClient`: connects when it is first asked, and again after whatever went wrong

Both have one request in flight (`max.in.flight.requests.per.connection` of 1), as the controller and the
replica fetchers of 0.8.2.2 have. With a `ClientSecurity` a connection is made by TLS, and logs in by SASL.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

from zkgroup.errors import BrokerAuthenticationError, CorruptFrameError
from zkgroup.security.client import TOLD_MAX, ClientSecurity, LoginRefusedError
from zkgroup.wire.messages import (
    REQUEST_BYTES_MAX,
    ErrorCode,
    FrameSplitter,
    Request,
    Response,
    decode_response,
    describe,
    encode_request,
)
from zkgroup.wire.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

CHUNK_BYTES: Final = 64 * 1024
"""Read at once."""
CORRELATIONS: Final = 2**31
"""Correlation ids start again after so many."""
CLIENT_ID: Final = "zkgroup"
"""Of requests that log in."""
SESSION_SHARE: Final = 0.85
"""Of the lifetime of a login, after which Kafka's clients log in again as well."""

ResponseT = TypeVar("ResponseT", bound=Response)
Write = Callable[[bytes, "BrokerConnection"], Awaitable[None]]


async def _write(frame: bytes, connection: BrokerConnection) -> None:
    connection.write(frame)
    await connection.drain()


class BrokerConnection(asyncio.BufferedProtocol):
    """One connection to a broker, for one request at a time. Made by `open` and used on one event loop."""

    def __init__(self, where: str, timeout_ms: int, response_bytes_max: int = REQUEST_BYTES_MAX) -> None:
        loop = asyncio.get_running_loop()
        self._where = where
        self._timeout_ms = timeout_ms
        self._splitter = FrameSplitter(response_bytes_max)
        self._chunk = memoryview(bytearray(CHUNK_BYTES))
        self._transport: asyncio.Transport
        self._correlation = 0
        self._response: asyncio.Future[bytes] | None = None
        self._writable: asyncio.Future[None] | None = None
        """A future that ends when the broker has taken the last bytes; None without such bytes."""
        self._end: Exception | None = None
        """The error that has ended the connection."""
        self._ended = loop.create_future()
        """Is done when the connection has ended."""
        self._lost = loop.create_future()
        self._is_tls = False
        self._renew_at: float | None = None
        """On the loop's clock in seconds; None for never."""
        self._closed = "the broker has closed the connection"

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        timeout_ms: int,
        response_bytes_max: int = REQUEST_BYTES_MAX,
        security: ClientSecurity | None = None,
    ) -> BrokerConnection:
        """Connects, and logs in.

        Args:
            host, port: the broker's; its certificate must name the host.
            timeout_ms: for all of that, and then for each response.
            response_bytes_max: a larger response ends the connection.
            security: how; in plain text and without a user by default.

        Raises:
            OSError: the broker cannot be reached; TimeoutError is one.
            BrokerAuthenticationError: the broker refuses the login or the client's certificate, or its own
                certificate is not one to trust.
            ConfigError: a file of `security` cannot be used.
            EOFError, WireError: what the broker sends in a login is not Kafka's protocol.
        """
        where = f"{host}:{port}"
        context = security.tls_context() if security is not None else None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                connection = cls(where, timeout_ms, response_bytes_max)
                await connection._connect(host, port, context)
                if security is not None and security.uses_sasl:
                    await connection._log_in(security)
        except ConnectionResetError as error:
            if context is None or str(error):
                raise
            raise ConnectionResetError("closed in the TLS handshake: is it a port of TLS?") from error
        except ssl.SSLError as error:  # before ValueError, which that of a certificate is as well
            raise _untrusted(where, error) from error
        except (ValueError, OverflowError) as error:  # as registered: no name of a host, or no port
            raise OSError(f"no address of a broker: {error}") from error
        return connection

    async def _connect(self, host: str, port: int, context: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        if context is None:
            await loop.create_connection(lambda: self, host, port)
            return
        # In two steps: what is cancelled before asyncio has begun a handshake leaves its socket open.
        plain, _ = await loop.create_connection(asyncio.Protocol, host, port)
        try:
            secured = await loop.start_tls(plain, self, context, server_hostname=host)
        except BaseException:
            plain.abort()
            raise
        assert secured is not None
        self.connection_made(secured)

    async def _log_in(self, security: ClientSecurity) -> None:
        """Closes the connection where it raises."""
        assert security.mechanism is not None
        try:
            await self._exchange_tokens(security, security.mechanism)
        except BaseException as error:
            await self.close()
            if isinstance(error, LoginRefusedError):
                reason = f"{security.who}: {error}"
                raise BrokerAuthenticationError(self._where, security.mechanism, reason) from None
            raise

    async def _exchange_tokens(self, security: ClientSecurity, mechanism: str) -> None:
        """Raises LoginRefusedError, which does not have the password, and what `ask` raises."""
        chosen = await self.ask(SaslHandshakeRequest(mechanism), CLIENT_ID, version=1)
        assert isinstance(chosen, SaslHandshakeResponse)
        if chosen.error == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            served = ascii(", ".join(chosen.mechanisms)[:TOLD_MAX])
            raise LoginRefusedError(f"the broker has other mechanisms: {served}")
        if chosen.error != ErrorCode.NONE:
            raise LoginRefusedError(f"the broker answers {describe(chosen.error)}: is the port one of SASL?")
        exchange = security.login()
        received: bytes | None = None
        with suppress(StopIteration):
            while True:
                request = SaslAuthenticateRequest(exchange.send(received))
                answer = await self.ask(request, CLIENT_ID, version=1)
                assert isinstance(answer, SaslAuthenticateResponse)
                if answer.error != ErrorCode.NONE:
                    raise LoginRefusedError(f"the broker answers {describe(answer.error)}")
                received = answer.auth_bytes
                if answer.session_lifetime_ms > 0:
                    lifetime_s = SESSION_SHARE * answer.session_lifetime_ms / 1000
                    self._renew_at = asyncio.get_running_loop().time() + lifetime_s

    @property
    def certificate_ends_s(self) -> float | None:
        """End of the validity of the broker's certificate, in epoch seconds; None without TLS."""
        shown = self._transport.get_extra_info("peercert")
        return ssl.cert_time_to_seconds(shown["notAfter"]) if shown else None

    @property
    def is_outdated(self) -> bool:
        """True once most of the login's time is over (KIP-368): then the broker closes the connection."""
        return self._renew_at is not None and asyncio.get_running_loop().time() >= self._renew_at

    async def ask(
        self,
        request: Request,
        client_id: str,
        *,
        version: int = 0,
        body: bytes | None = None,
        write: Write = _write,
    ) -> Response:
        """The response, of the kind that belongs to the request.

        Args:
            version: of the request, and so of its response.
            body: the request as bytes, where it was encoded before.
            write: sends the frame; returns when the system has taken it.

        Raises OSError (TimeoutError is one), EOFError, WireError, UnencodableError, BrokerAuthenticationError
        (the broker refuses the certificate that the client has shown), and what `write` raises.
        The connection is of no use then: `close` it.
        """
        self._correlation = (self._correlation + 1) % CORRELATIONS
        # ControlledShutdown version 0 has a header without a correlation id; it is answered with 0.
        sent = 0 if request.header_version(version) == 0 else self._correlation
        frame = encode_request(request, sent, client_id, version=version, body=body)
        if self._end is not None:
            raise self._end
        response = self._response = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                await write(frame, self)
                payload = await response
        except TimeoutError as error:
            raise TimeoutError(f"no answer within {self._timeout_ms} ms") from error
        finally:
            self._response = None
            del response  # it has the error, which has this frame in its traceback
        correlation, decoded = decode_response(request.RESPONSE, payload, version=version)
        if correlation != sent:
            raise CorruptFrameError("correlation_id", 0, str(sent), str(correlation))
        return decoded

    def write(self, data: bytes) -> None:
        """Sends bytes; `drain` waits until the system has taken them."""
        self._transport.write(data)

    async def drain(self) -> None:
        """Waits until the system has taken all bytes. Raises what has ended the connection."""
        if self._end is not None:
            raise self._end
        if self._writable is not None:
            await self._writable

    async def wait_ended(self) -> None:
        """Until the connection ends by itself. Raises why: EOFError, OSError or WireError."""
        await asyncio.wait([self._ended])
        if self._end is not None:
            raise self._end

    async def close(self) -> None:
        """Cuts the connection at once; what was in flight may or may not have arrived."""
        # Not `transport.close`: that would wait for the broker to take what is left of a request.
        self._transport.abort()
        await asyncio.wait([self._lost])
        self._splitter, self._chunk = FrameSplitter(0), memoryview(b"")
        # What has ended it has frames of this connection in its traceback: both would keep each other.
        self._end = EOFError("the connection is closed")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._is_tls = transport.get_extra_info("ssl_object") is not None
        if self._is_tls:
            self._closed += " before an answer: it is stopping, or refuses the client's certificate"
        # TLS passes bytes on to a transport of its own, which keeps what the system does not take; with a
        # limit of 0 an empty buffer would be a full one.
        transport.set_write_buffer_limits(high=int(self._is_tls))
        found: socket.socket | None = transport.get_extra_info("socket")
        if found is not None:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._chunk

    def buffer_updated(self, nbytes: int) -> None:
        if self._end is not None:
            return
        try:
            self._splitter.feed(bytes(self._chunk[:nbytes]))
            while (payload := self._splitter.next_frame()) is not None:
                self._take(payload)
        except CorruptFrameError as error:
            self._end_by(error)

    def eof_received(self) -> bool:
        try:
            self._splitter.finish()
        except CorruptFrameError as error:
            self._end_by(error)
        else:
            self._end_by(EOFError(self._closed))
        return not self._is_tls  # `close` closes the transport; that of TLS closes itself

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._lost.done():
            self._lost.set_result(None)
        if isinstance(exc, ssl.SSLError):  # by TLS 1.3 a client's certificate is refused after the handshake
            exc = _untrusted(self._where, exc)
        elif isinstance(exc, ConnectionError) and self._is_tls:
            exc = ConnectionResetError(self._closed)
        self._end_by(exc or EOFError("the connection is closed"))

    def pause_writing(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)

    def _take(self, payload: bytes) -> None:
        if self._response is None or self._response.done():
            raise CorruptFrameError("frame", 0, "nothing: no request is in flight", f"{len(payload)} bytes")
        self._closed = "the broker has closed the connection"
        self._response.set_result(payload)

    def _end_by(self, error: Exception) -> None:
        if self._end is not None:
            return
        self._end = error
        self._ended.set_result(None)
        for waiting in (self._response, self._writable):
            if waiting is not None and not waiting.done():
                waiting.set_exception(error)
                waiting.exception()  # retrieved, otherwise asyncio would log what nothing awaits


def _untrusted(where: str, error: ssl.SSLError) -> BrokerAuthenticationError:
    """The error of TLS as one sentence: that of a certificate, or OpenSSL's reason."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = f"the broker's certificate is refused: {error.verify_message}"
    else:
        reason = (
            f"{(error.reason or str(error)).lower().replace('_', ' ')}; is the client's certificate right?"
        )
    return BrokerAuthenticationError(where, "TLS", reason)


class BrokerClient:
    """Connects when it is first asked, and again after whatever went wrong. For one request at a time.

    Made and used on one event loop.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_ms: int,
        security: ClientSecurity | None = None,
    ) -> None:
        """`timeout_ms`: for a connection, and for a response. `security`: see `BrokerConnection.open`."""
        self._host = host
        self._port = port
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._security = security
        self._connection: BrokerConnection | None = None

    async def ask(self, request: Request, kind: type[ResponseT], *, version: int = 0) -> ResponseT:
        """The response, which is of the kind that belongs to the request.

        Raises what `BrokerConnection.open` raises; the connection is closed then.
        """
        assert kind is request.RESPONSE
        if self._connection is not None and self._connection.is_outdated:
            await self.close()  # simpler than KIP-368's second login, and as good between two requests
        try:
            if self._connection is None:
                self._connection = await BrokerConnection.open(
                    self._host, self._port, timeout_ms=self._timeout_ms, security=self._security
                )
            response = await self._connection.ask(request, self._client_id, version=version)
        except BaseException:
            await self.close()
            raise
        assert isinstance(response, kind)
        return response

    @property
    def certificate_ends_s(self) -> float | None:
        """As of the connection; None without one."""
        return None if self._connection is None else self._connection.certificate_ends_s

    async def close(self) -> None:
        """Closes the connection, if there is one; the next `ask` makes another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
