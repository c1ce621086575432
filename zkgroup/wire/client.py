"""The client's end of a connection to a broker: frames, correlation ids, timeouts. On an asyncio loop.

* `BrokerConnection`: one connection; it reads all the time, which is how it learns that the broker has gone
* `BrokerClient`: connects when it is first asked, and again after whatever went wrong

Both have one request in flight (`max.in.flight.requests.per.connection` of 1), as the controller and the
replica fetchers of 0.8.2.2 have.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from zkgroup.errors import CorruptFrameError
from zkgroup.wire.messages import (
    REQUEST_BYTES_MAX,
    FrameSplitter,
    Request,
    Response,
    decode_response,
    encode_request,
)

CHUNK_BYTES: Final = 64 * 1024
"""Read at once."""
CORRELATIONS: Final = 2**31
"""Correlation ids start again after so many."""

ResponseT = TypeVar("ResponseT", bound=Response)
Write = Callable[[bytes, "BrokerConnection"], Awaitable[None]]


async def _write(frame: bytes, connection: BrokerConnection) -> None:
    connection.write(frame)
    await connection.drain()


class BrokerConnection(asyncio.BufferedProtocol):
    """One connection to a broker, for one request at a time. Made by `open` and used on one event loop."""

    def __init__(self, timeout_ms: int, response_bytes_max: int = REQUEST_BYTES_MAX) -> None:
        loop = asyncio.get_running_loop()
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

    @classmethod
    async def open(
        cls, host: str, port: int, *, timeout_ms: int, response_bytes_max: int = REQUEST_BYTES_MAX
    ) -> BrokerConnection:
        """Connects. `timeout_ms`: for that, and for each response. Raises OSError (TimeoutError is one)."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                _, connection = await loop.create_connection(
                    lambda: cls(timeout_ms, response_bytes_max), host, port
                )
        except (ValueError, OverflowError) as error:  # as registered: no name of a host, or no port
            raise OSError(f"no address of a broker: {error}") from error
        return connection

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

        Raises OSError (TimeoutError is one), EOFError, WireError, UnencodableError, and what `write` raises.
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
        transport.set_write_buffer_limits(high=0)
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
            self._end_by(EOFError("the broker has closed the connection"))
        return True  # `close` closes the transport

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._lost.done():
            self._lost.set_result(None)
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


class BrokerClient:
    """Connects when it is first asked, and again after whatever went wrong. For one request at a time.

    Made and used on one event loop.
    """

    def __init__(self, host: str, port: int, *, client_id: str, timeout_ms: int) -> None:
        """`timeout_ms`: for a connection, and for a response."""
        self._host = host
        self._port = port
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._connection: BrokerConnection | None = None

    async def ask(self, request: Request, kind: type[ResponseT], *, version: int = 0) -> ResponseT:
        """The response, which is of the kind that belongs to the request.

        Raises OSError (TimeoutError is one), EOFError or WireError; the connection is closed then.
        """
        assert kind is request.RESPONSE
        try:
            if self._connection is None:
                self._connection = await BrokerConnection.open(
                    self._host, self._port, timeout_ms=self._timeout_ms
                )
            response = await self._connection.ask(request, self._client_id, version=version)
        except BaseException:
            await self.close()
            raise
        assert isinstance(response, kind)
        return response

    async def close(self) -> None:
        """Closes the connection, if there is one; the next `ask` makes another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
