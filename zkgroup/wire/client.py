"""The client's end of a connection to a broker: frames, correlation ids, timeouts. On an asyncio loop.

* `BrokerConnection`: one connection; it reads all the time, which is how it learns that the broker has gone
* `BrokerClient`: connects when it is first asked, and again after whatever went wrong

Both have one request in flight (`max.in.flight.requests.per.connection` of 1), as the controller and the
replica fetchers of 0.8.2.2 have.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn, TypeVar

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
Write = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


async def _write(frame: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(frame)
    await writer.drain()


class BrokerConnection:
    """One connection to a broker, for one request at a time. Made by `open` and used on one event loop."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        timeout_ms: int,
        response_bytes_max: int = REQUEST_BYTES_MAX,
    ) -> None:
        self._writer = writer
        self._timeout_ms = timeout_ms
        self._correlation = 0
        self._response: asyncio.Future[bytes] | None = None
        writer.transport.set_write_buffer_limits(high=0)
        found: socket.socket | None = writer.get_extra_info("socket")
        if found is not None:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._reading = asyncio.create_task(self._read(reader, FrameSplitter(response_bytes_max)))

    @classmethod
    async def open(
        cls, host: str, port: int, *, timeout_ms: int, response_bytes_max: int = REQUEST_BYTES_MAX
    ) -> BrokerConnection:
        """Connects. `timeout_ms`: for that, and for each response. Raises OSError (TimeoutError is one)."""
        async with asyncio.timeout(timeout_ms / 1000):
            reader, writer = await asyncio.open_connection(host, port, limit=CHUNK_BYTES)
        return cls(reader, writer, timeout_ms, response_bytes_max)

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
        if self._reading.done():
            self._reading.result()  # raises what has ended it
        response = self._response = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                await write(frame, self._writer)
                payload = await response
        except TimeoutError as error:
            raise TimeoutError(f"no answer within {self._timeout_ms} ms") from error
        finally:
            self._response = None
        correlation, decoded = decode_response(request.RESPONSE, payload, version=version)
        if correlation != sent:
            raise CorruptFrameError("correlation_id", 0, str(sent), str(correlation))
        return decoded

    async def wait_ended(self) -> None:
        """Until the connection ends by itself. Raises why: EOFError, OSError or WireError."""
        await asyncio.wait([self._reading])
        self._reading.result()

    async def close(self) -> None:
        """Cuts the connection at once; what was in flight may or may not have arrived."""
        # Not `writer.close`: that would wait for the broker to take what is left of a request.
        self._writer.transport.abort()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _read(self, reader: asyncio.StreamReader, splitter: FrameSplitter) -> None:
        try:
            while chunk := await reader.read(CHUNK_BYTES):
                splitter.feed(chunk)
                while (payload := splitter.next_frame()) is not None:
                    self._take(payload)
            splitter.finish()
            _raise_end()
        except Exception as error:
            if self._response is not None and not self._response.done():
                self._response.set_exception(error)
            raise

    def _take(self, payload: bytes) -> None:
        if self._response is None or self._response.done():
            raise CorruptFrameError("frame", 0, "nothing: no request is in flight", f"{len(payload)} bytes")
        self._response.set_result(payload)


def _raise_end() -> NoReturn:
    raise EOFError("the broker has closed the connection")


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
