"""The TCP port of a broker: accepts connections and limits their buffered bytes."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from zkgroup.broker.server.handlers import NO_ANSWER, NoAnswer, PeerAddress, RequestContext, Respond
from zkgroup.broker.server.metadata_requests import unsupported_api_versions
from zkgroup.errors import ConfigError, ConflictError, UnencodableError, UnsupportedRequestError, WireError
from zkgroup.runtime.acceptor import Acceptor
from zkgroup.wire.messages import (
    REQUEST_BYTES_MAX,
    SIZE,
    Api,
    FrameSplitter,
    Response,
    ResponseHeader,
    encode,
    framed,
    response_buffers,
)
from zkgroup.wire.metadata import MetadataResponse, body_in_pieces
from zkgroup.wire.requests import decode_request
from zkgroup.wire.schema import Buffer


class BrokerServer:
    """Serves Kafka's protocol on one TCP port. Made and used on one event loop.

    It closes the connection of a client that sends invalid bytes, is too slow, or sends a request that is not
    served; other connections are not affected.
    """

    def __init__(
        self, respond: Respond, served: Mapping[int, range], limits: ConnectionLimits | None = None
    ) -> None:
        """
        Args:
            respond: answers one request (`BrokerApis.respond`).
            served: the versions that are served, by API key; another request closes the connection.
        """
        self._respond = respond
        self._served = served
        self._limits = limits or ConnectionLimits()
        self._acceptor = Acceptor(
            self._serve, clients_max=self._limits.connections_max, piece_bytes=CHUNK_BYTES
        )
        self._connections: dict[Connection, asyncio.Task[None] | None] = {}
        self.held = 0
        """Buffered bytes of all connections: requests without an answer, and answers not yet received."""

    async def start(self, host: str, port: int = 0) -> tuple[str, int]:
        """Opens the port and returns its host and number; port 0 lets the system choose.

        Raises ConflictError if another process uses the port, ConfigError if the address cannot be used.
        """
        try:
            return await self._acceptor.start(host, port)
        except OSError as error:
            kind = ConflictError if error.errno == errno.EADDRINUSE else ConfigError
            raise kind(f"cannot listen on {host}:{port}: {error.strerror or error}") from error

    @property
    def connections(self) -> int:
        """Number of connections."""
        return self._acceptor.clients

    async def close(self) -> None:
        """Closes the port and every connection, and waits until they are closed. Idempotent."""
        await self._acceptor.close()

    # --- connections ----------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client: socket.socket = writer.get_extra_info("socket")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection = Connection(reader, writer, self._limits, self._respond, self._served, self._on_held)
        self._connections[connection] = asyncio.current_task()
        try:
            await connection.serve()
        finally:
            del self._connections[connection]

    def _on_held(self, more: int) -> None:
        """Closes the connections with the most buffered bytes until the total is within the limit."""
        self.held += more
        while self.held > self._limits.buffered_bytes_max:
            most, task = max(self._connections.items(), key=lambda item: item[0].held)
            most.cut_off(f"it holds {most.held} of {self.held} bytes")
            if task is not None:
                task.cancel()


_log = logging.getLogger("zkgroup.broker")

CHUNK_BYTES = 64 * 1024
"""Most bytes of one read."""
AHEAD_BYTES_MAX = 1024 * 1024
"""Most bytes to read while a request is answered; a closed connection is not noticed behind more bytes."""
SEND_BYTES = 256 * 1024
"""Most bytes of one write: the transport copies what the client has not received yet."""


Sending = list[Buffer] | NoAnswer | None
"""What a connection sends for a request: the buffers of a response, or nothing; None closes it."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of connections to a broker. Kafka's setting is named where there is one."""

    connections_max: int = 1_000
    """`max.connections`: a further connection is closed at once."""
    request_bytes_max: int = REQUEST_BYTES_MAX
    """`socket.request.max.bytes`."""
    buffered_bytes_max: int = 4 * REQUEST_BYTES_MAX
    """`queued.max.request.bytes`: of all connections; above it the one with the most bytes is closed."""
    idle_ms: int = 600_000
    """`connections.max.idle.ms`: longest time without a request."""
    request_ms: int = 60_000
    """Longest time from the first byte of a request to its last."""
    answer_ms: int = 60_000
    """Longest time for a client to receive an answer."""


class Connection:
    """One client's connection: reads requests and sends answers until the connection ends."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        limits: ConnectionLimits,
        respond: Respond,
        served: Mapping[int, range],
        on_held: Callable[[int], None],
    ) -> None:
        """`on_held` is called with each change of `held` in bytes, positive or negative."""
        self._reader = reader
        self._writer = writer
        self._limits = limits
        self._respond = respond
        self._served = served
        self._on_held = on_held
        self._splitter = FrameSplitter(limits.request_bytes_max)
        self._ahead: asyncio.Task[bytes] | None = None
        self._begun_at: float | None = None
        self.peer = _peer(writer)
        self.held = 0
        """Buffered bytes: requests without an answer, and an answer not yet received."""
        writer.transport.set_write_buffer_limits(high=0)

    async def serve(self) -> None:
        """Serves the client until the connection ends, then closes it; also if it is cancelled."""
        try:
            await self._serve()
        except WireError as error:
            _log.warning("connection of %s closed: %s", self.peer, error)
        except TimeoutError as error:
            # An idle connection that times out is normal and logs no warning.
            level = logging.WARNING if self.held else logging.DEBUG
            _log.log(level, "connection of %s closed: %s", self.peer, error)
        except OSError as error:
            _log.debug("connection of %s lost: %s", self.peer, error)
        except UnencodableError as error:
            _log.error("connection of %s closed, the answer cannot be encoded: %s", self.peer, error)
        except Exception:  # noqa: BLE001
            _log.exception("connection of %s closed by a bug", self.peer)
        finally:
            if self._ahead is not None and not self._ahead.cancel() and not self._ahead.cancelled():
                self._ahead.exception()  # retrieved, otherwise asyncio would log it
            self.let_go()
            # Not `close`: that would wait until the client has received the rest of an answer.
            self._writer.transport.abort()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()

    def cut_off(self, why: str) -> None:
        """Closes the connection at once because of its buffered bytes; its answers are dropped."""
        _log.warning("connection of %s cut off: %s", self.peer, why)
        self._writer.transport.abort()
        self.let_go()

    def let_go(self) -> None:
        """Sets the buffered bytes to 0."""
        self._hold(-self.held)

    def _hold(self, more: int) -> None:
        self.held += more
        self._on_held(more)

    async def _serve(self) -> None:
        while (frame := await self._next_frame()) is not None:
            if (answer := await self._while_there(self._answer(frame))) is None:
                return
            if answer is not NO_ANSWER:
                await self._send(answer)
            self._hold(-SIZE.size - len(frame))

    # --- in -------------------------------------------------------------------------------------

    async def _next_frame(self) -> bytes | None:
        """Reads the next frame; None at the end. Raises CorruptFrameError, TimeoutError, OSError."""
        while (frame := self._splitter.next_frame()) is None:
            chunk = await self._read()
            if not chunk:
                self._splitter.finish()
                return None
            self._take(chunk)
        self._begun_at = None
        return frame

    def _take(self, chunk: bytes) -> None:
        self._splitter.feed(chunk)
        self._hold(len(chunk))

    async def _read(self) -> bytes:
        """Reads some bytes within the idle or request timeout."""
        loop = asyncio.get_running_loop()
        if self.held == 0:
            self._begun_at = None
            until, what = loop.time() + self._limits.idle_ms / 1000, "no request came"
        else:
            self._begun_at = self._begun_at or loop.time()
            until, what = self._begun_at + self._limits.request_ms / 1000, "a request did not end"
        try:
            async with asyncio.timeout_at(until):
                return await self._reading()
        except TimeoutError as error:
            raise TimeoutError(f"{what} in time") from error

    async def _reading(self) -> bytes:
        """Returns the bytes that were read ahead, else the next bytes of the stream."""
        if self._ahead is None:
            return await self._reader.read(CHUNK_BYTES)
        ahead, self._ahead = self._ahead, None
        try:
            return await ahead
        except asyncio.CancelledError:
            ahead.cancel()
            raise

    # --- out ------------------------------------------------------------------------------------

    async def _answer(self, frame: bytes) -> Sending:
        """The response of a request as buffers; None closes the connection."""
        try:
            header, request = decode_request(frame, self._served)
        except UnsupportedRequestError as error:
            served = self._served.get(error.api_key)
            if error.api_key != Api.API_VERSIONS or served is None:
                raise
            return response_buffers(unsupported_api_versions(served), error.correlation_id)
        response = await self._respond(RequestContext(header, self.peer), request)
        if not isinstance(response, Response):
            return response
        if not isinstance(response, MetadataResponse):
            return response_buffers(response, header.correlation_id, version=header.version)
        head = ResponseHeader(header.correlation_id)
        parts = [encode(head, response.header_version(header.version))]
        for part in body_in_pieces(response, header.version):
            parts.append(part)
            await asyncio.sleep(0)
        return [framed(*parts)]

    async def _while_there(self, answering: Awaitable[Sending]) -> Sending:
        """Waits for the answer; None if the client disconnects before."""
        answer = asyncio.ensure_future(answering)
        most = self.held + AHEAD_BYTES_MAX
        try:
            while not answer.done() and self.held < most:
                if self._ahead is None:
                    self._ahead = asyncio.create_task(self._reader.read(CHUNK_BYTES))
                await asyncio.wait([answer, self._ahead], return_when=asyncio.FIRST_COMPLETED)
                if self._ahead.done():
                    ahead, self._ahead = self._ahead, None
                    chunk = ahead.result()
                    if not chunk:
                        return answer.result() if answer.done() else None
                    self._take(chunk)
            return await answer
        finally:
            if not answer.done():
                answer.cancel()
                await asyncio.wait([answer])

    async def _send(self, answer: list[Buffer]) -> None:
        """Sends the buffers of an answer, each in parts that the client has received before the next one."""
        size = sum(map(len, answer))
        self._hold(size)
        try:
            async with asyncio.timeout(self._limits.answer_ms / 1000):
                for buffer in answer:
                    view = memoryview(buffer)
                    for at in range(0, len(view), SEND_BYTES):
                        self._writer.write(view[at : at + SEND_BYTES])
                        await self._writer.drain()
        except TimeoutError as error:
            raise TimeoutError("an answer was not taken in time") from error
        self._hold(-size)


def _peer(writer: asyncio.StreamWriter) -> PeerAddress:
    name = writer.get_extra_info("peername")
    return PeerAddress(name[0], name[1]) if isinstance(name, tuple) else PeerAddress("unknown", 0)
