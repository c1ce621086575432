"""The connection to one incarnation of a broker: orders go out, answers come back.

One request is in flight. Whatever is wrong breaks the connection (no answer in time, one that cannot be
read, one to another question, a word that nobody asked for), and it is made anew, for as long as the broker
is registered; the machine sends again what was in flight.
Source: kafka/controller/ControllerChannelManager.scala@0.8.2.2, controller.md 7.4.

A channel knows nothing of what it carries. It is made and used on one event loop, and never waits for anybody
but its broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from zkgroup.controller.machine.requests import ToBroker
from zkgroup.errors import CorruptFrameError, UnencodableError, WireError
from zkgroup.model.ports import Clock
from zkgroup.wire.control import StopReplicaRequest
from zkgroup.wire.messages import Response, decode_response, encode_request
from zkgroup.wire.splitter import REQUEST_BYTES_MAX, FrameSplitter

_log = logging.getLogger("zkgroup.controller")

CHUNK_BYTES = 64 * 1024
"""Read at once."""
CORRELATIONS = 2**31
"""Correlation ids start again after so many."""

Pause = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSettings:
    """How a controller keeps its connections. The names are Kafka's where Kafka has the setting."""

    socket_timeout_ms: int = 30_000
    """`controller.socket.timeout.ms`: for a connection, and for an answer."""
    retry_backoff_ms: int = 100
    """Pause before a connection is made again; doubles while nothing is answered."""
    retry_backoff_max_ms: int = 3_000
    answer_bytes_max: int = REQUEST_BYTES_MAX
    """A longer answer breaks the connection."""


class Owner(Protocol):
    """Who is told what happens on a connection, on the loop; must not block or raise."""

    def up(self, connection: int) -> None:
        """A connection is there: requests may be given for it by its number."""
        ...

    def down(self, connection: int, why: str) -> None:
        """It is gone. What was in flight may or may not have arrived, or may yet."""
        ...

    def answered(self, connection: int, response: Response) -> None:
        """The broker has answered the request in flight."""
        ...


class Lease:
    """Until when anything may be sent (recipes 13). Set by one thread and read by others."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_ms: int | None = None

    def extend(self, until_ms: int | None) -> None:
        """Requests may go out before this time; None: no more."""
        self._until_ms = until_ms

    @property
    def left_ms(self) -> int:
        """Zero where it is over."""
        until_ms = self._until_ms
        return 0 if until_ms is None else max(0, until_ms - self._clock.now_ms())


class Channel:
    """Keeps one connection. `run` does everything; `send` gives it something to do."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        lease: Lease,
        owner: Owner,
        settings: ChannelSettings,
        jitter: Callable[[], float],
        pause: Pause = asyncio.sleep,
    ) -> None:
        """
        Args:
            client_id: of LeaderAndIsr and UpdateMetadata; StopReplica has an empty one, as at 0.8.2.2.
            lease: nothing is written, and nothing goes on being written, once it is over.
            owner: is told what happens.
            jitter: draws a number in [0, 1).
            pause: waits so many seconds before a connection is made again.
        """
        self._host = host
        self._port = port
        self._client_id = client_id
        self._lease = lease
        self._owner = owner
        self._settings = settings
        self._jitter = jitter
        self._pause = pause
        self._connection = 0
        self._requests: asyncio.Queue[ToBroker] | None = None
        self._asked: asyncio.Future[bytes] | None = None
        self._correlation = 0
        self._failures = 0

    def send(self, connection: int, request: ToBroker) -> None:
        """Sends a request on a connection that `up` has named; dropped where that is gone.

        Its owner gives the next one when this is answered.
        """
        if connection == self._connection and self._requests is not None:
            self._requests.put_nowait(request)

    async def run(self) -> None:
        """Connects, and serves the connection, again and again. Ends by being cancelled."""
        while True:
            connection = self._connection
            try:
                await self._once()
            except Exception as error:  # noqa: BLE001 - told; the broker must not be lost by it
                self._failed(error, was_up=self._connection > connection)
            await self._pause(self._backoff_s())

    # --- one connection -------------------------------------------------------------------------

    async def _once(self) -> None:
        async with asyncio.timeout(self._settings.socket_timeout_ms / 1000):
            reader, writer = await asyncio.open_connection(self._host, self._port, limit=CHUNK_BYTES)
        _set_up(writer)
        self._connection += 1
        requests = self._requests = asyncio.Queue()
        self._owner.up(self._connection)
        # No task group: that of Python 3.11 forgets that it was cancelled where a part of it fails as well.
        parts = [
            asyncio.create_task(self._receive(reader)),
            asyncio.create_task(self._ask_all(requests, writer)),
        ]
        try:
            ended, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._requests = self._asked = None
            # Not `close`: that would wait for the broker to take what is left of a request.
            writer.transport.abort()
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        for part in ended:
            part.result()  # raises what has ended it

    def _failed(self, error: Exception, *, was_up: bool) -> None:
        self._failures += 1
        why = str(error) or type(error).__name__
        where = f"broker at {self._host}:{self._port}"
        if isinstance(error, UnencodableError):
            _log.error("%s: a request cannot be sent: %s", where, why)
        elif not isinstance(error, OSError | EOFError | WireError):
            _log.error("%s: connection broken by a mistake of ours", where, exc_info=error)
        else:
            level = logging.INFO if self._failures == 1 else logging.DEBUG
            _log.log(level, "%s: connection lost or not made, %d in a row: %s", where, self._failures, why)
        if was_up:
            self._owner.down(self._connection, why)

    def _backoff_s(self) -> float:
        """Doubles with each failure in a row up to its bound; the jitter takes off up to a half."""
        settings = self._settings
        longest = min(settings.retry_backoff_ms << min(self._failures - 1, 16), settings.retry_backoff_max_ms)
        return longest * (1 - self._jitter() / 2) / 1000

    # --- out ------------------------------------------------------------------------------------

    async def _ask_all(self, requests: asyncio.Queue[ToBroker], writer: asyncio.StreamWriter) -> None:
        while True:
            await self._ask(await requests.get(), writer)

    async def _ask(self, order: ToBroker, writer: asyncio.StreamWriter) -> None:
        """One request and its answer."""
        self._correlation = (self._correlation + 1) % CORRELATIONS
        client_id = "" if isinstance(order.request, StopReplicaRequest) else self._client_id
        frame = encode_request(order.request, self._correlation, client_id, body=order.body)
        asked = self._asked = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._settings.socket_timeout_ms / 1000):
                await self._write(frame, writer)
                payload = await asked
        except TimeoutError as error:
            raise TimeoutError(f"no answer within {self._settings.socket_timeout_ms} ms") from error
        finally:
            self._asked = None
        correlation, response = decode_response(order.request.RESPONSE, payload)
        if correlation != self._correlation:
            raise CorruptFrameError("correlation_id", 0, str(self._correlation), str(correlation))
        self._failures = 0
        self._owner.answered(self._connection, response)

    async def _write(self, frame: bytes, writer: asyncio.StreamWriter) -> None:
        """A frame that is not whole does nothing, so one that takes longer than the lease is cut off."""
        if not self._lease.left_ms:
            raise ConnectionAbortedError("the lease ended before the request was sent")
        writer.write(frame)
        taken = asyncio.ensure_future(writer.drain())
        try:
            while not taken.done():
                if not (left_ms := self._lease.left_ms):
                    raise ConnectionAbortedError("the lease ended while the request was sent")
                await asyncio.wait([taken], timeout=left_ms / 1000)
            await taken
        finally:
            taken.cancel()

    # --- in -------------------------------------------------------------------------------------

    async def _receive(self, reader: asyncio.StreamReader) -> None:
        """Reads all the time: that is how it learns that the broker has gone, also when nothing is asked."""
        splitter = FrameSplitter(self._settings.answer_bytes_max)
        while chunk := await reader.read(CHUNK_BYTES):
            splitter.feed(chunk)
            while (payload := splitter.next_frame()) is not None:
                if self._asked is None or self._asked.done():
                    raise CorruptFrameError(
                        "frame", 0, "nothing: no question is open", f"{len(payload)} bytes"
                    )
                self._asked.set_result(payload)
        splitter.finish()
        raise EOFError("the broker has closed the connection")


def _set_up(writer: asyncio.StreamWriter) -> None:
    writer.transport.set_write_buffer_limits(high=0)
    found: socket.socket | None = writer.get_extra_info("socket")
    if found is not None:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
