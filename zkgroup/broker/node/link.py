"""A connection to another broker, for one question at a time."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TypeVar

from zkgroup.errors import CorruptFrameError
from zkgroup.wire.messages import Request, Response, decode_response, encode_request
from zkgroup.wire.splitter import REQUEST_BYTES_MAX, FrameSplitter

CHUNK_BYTES = 64 * 1024
CORRELATIONS = 2**31

ResponseT = TypeVar("ResponseT", bound=Response)


class Link:
    """Connects when first asked, and again after whatever went wrong. Made and used on one event loop."""

    def __init__(self, host: str, port: int, *, client_id: str, timeout_ms: int) -> None:
        """`timeout_ms`: for a connection, and for an answer."""
        self._host = host
        self._port = port
        self._client_id = client_id
        self._timeout_s = timeout_ms / 1000
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._splitter = FrameSplitter(REQUEST_BYTES_MAX)
        self._correlation = 0

    async def ask(self, request: Request, kind: type[ResponseT]) -> ResponseT:
        """The answer, which is of the kind that belongs to the request.

        Raises OSError (TimeoutError is one), EOFError or WireError; the connection is closed then.
        """
        assert kind is request.RESPONSE
        try:
            return await self._ask(request, kind)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Again is no matter."""
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].transport.abort()
            with contextlib.suppress(OSError):
                await streams[1].wait_closed()

    async def _ask(self, request: Request, kind: type[ResponseT]) -> ResponseT:
        reader, writer = await self._connected()
        self._correlation = (self._correlation + 1) % CORRELATIONS
        sent = 0 if request.header_version(0) == 0 else self._correlation
        async with asyncio.timeout(self._timeout_s):
            writer.write(encode_request(request, sent, self._client_id))
            await writer.drain()
            payload = await self._frame(reader)
        correlation, response = decode_response(kind, payload)
        if correlation != sent:
            raise CorruptFrameError("correlation_id", 0, str(sent), str(correlation))
        return response

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            async with asyncio.timeout(self._timeout_s):
                self._streams = await asyncio.open_connection(self._host, self._port, limit=CHUNK_BYTES)
            self._splitter = FrameSplitter(REQUEST_BYTES_MAX)
        return self._streams

    async def _frame(self, reader: asyncio.StreamReader) -> bytes:
        while (payload := self._splitter.next_frame()) is None:
            chunk = await reader.read(CHUNK_BYTES)
            if not chunk:
                raise EOFError(f"{self._host}:{self._port} has closed the connection")
            self._splitter.feed(chunk)
        return payload
