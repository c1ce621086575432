"""The connections to brokers: requests go out, responses come back.

A channel is the connection to one incarnation of a broker.

One request is in flight. Whatever is wrong breaks the connection (no response in time, one that cannot be
read, one to another request, one without a request), and it is made anew, for as long as the broker
is registered; the machine sends again what was in flight.
Source: kafka/controller/ControllerChannelManager.scala@0.8.2.2, channels (controller.md 7.4).

A channel does not read what it carries. It is created and used on one event loop, and waits for its broker
alone.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from zkgroup.controller.machine.events import (
    BrokerAnswered,
    BrokerRequest,
    ChannelDown,
    ChannelUp,
    CloseChannel,
    OpenChannel,
)
from zkgroup.errors import BrokerAuthenticationError, ConfigError, UnencodableError, WireError
from zkgroup.model.ports import Clock
from zkgroup.runtime.logs import get_logger
from zkgroup.runtime.loop import LoopThread
from zkgroup.security.client import ClientSecurity
from zkgroup.wire.client import BrokerConnection
from zkgroup.wire.control import StopReplicaRequest
from zkgroup.wire.messages import REQUEST_BYTES_MAX, Response

_log = get_logger("zkgroup.controller")

Pause = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSettings:
    """Settings of a controller's connections. The names are Kafka's where Kafka has the setting."""

    socket_timeout_ms: int = 30_000
    """`controller.socket.timeout.ms`: for a connection, and for an answer."""
    retry_backoff_ms: int = 100
    """Pause before a connection is made again; doubles while nothing is answered."""
    retry_backoff_max_ms: int = 3_000
    answer_bytes_max: int = REQUEST_BYTES_MAX
    """A longer answer breaks the connection."""
    security: ClientSecurity | None = None
    """How brokers are reached."""


class SendDeadline:
    """Until when anything may be sent. Set by one thread and read by others."""

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
        lease: SendDeadline,
        owner: _BrokerChannel,
        settings: ChannelSettings,
        jitter: Callable[[], float],
        pause: Pause = asyncio.sleep,
    ) -> None:
        """
        Args:
            client_id: of LeaderAndIsr and UpdateMetadata; StopReplica has an empty one, as at 0.8.2.2.
            lease: nothing is written, and nothing goes on being written, once it is over.
            owner: its methods `up`, `down` and `answered` must not block or raise.
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
        self._requests: asyncio.Queue[BrokerRequest] | None = None
        self._failures = 0

    def send(self, connection: int, request: BrokerRequest) -> None:
        """Sends a request on a connection that `up` has named; dropped where that is gone."""
        if connection == self._connection and self._requests is not None:
            self._requests.put_nowait(request)

    async def run(self) -> None:
        """Connects, and serves the connection, again and again. Ends by being cancelled."""
        while True:
            connection = self._connection
            try:
                await self._once()
            except Exception as error:  # noqa: BLE001 - logged; the broker must not be lost by it
                self._failed(error, was_up=self._connection > connection)
            await self._pause(self._backoff_s())

    async def _once(self) -> None:
        settings = self._settings
        connection = await BrokerConnection.open(
            self._host,
            self._port,
            timeout_ms=settings.socket_timeout_ms,
            response_bytes_max=settings.answer_bytes_max,
            security=settings.security,
        )
        self._connection += 1
        requests = self._requests = asyncio.Queue()
        self._owner.up(self._connection)
        # No task group: that of Python 3.11 forgets that it was cancelled where a part of it fails as well.
        parts = [
            asyncio.create_task(connection.wait_ended()),
            asyncio.create_task(self._ask_all(requests, connection)),
        ]
        try:
            ended, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._requests = None
            for part in parts:
                part.cancel()
            await connection.close()
            await asyncio.gather(*parts, return_exceptions=True)
        for part in ended:
            part.result()  # raises what has ended it

    def _failed(self, error: Exception, *, was_up: bool) -> None:
        self._failures += 1
        why = str(error) or type(error).__name__
        where = f"broker at {self._host}:{self._port}"
        if isinstance(error, UnencodableError):
            _log.error("%s: a request cannot be sent: %s", where, why)
        elif isinstance(error, BrokerAuthenticationError | ConfigError):
            level = logging.WARNING if self._failures == 1 else logging.DEBUG
            _log.log(level, "%s: no connection is made: %s", where, why)
        elif not isinstance(error, OSError | EOFError | WireError):
            _log.error("%s: connection broken by a bug in zkgroup", where, exc_info=error)
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

    async def _ask_all(self, requests: asyncio.Queue[BrokerRequest], connection: BrokerConnection) -> None:
        while True:
            order = await requests.get()
            client_id = "" if isinstance(order.request, StopReplicaRequest) else self._client_id
            response = await connection.ask(
                order.request, client_id, version=order.version, body=order.body, write=self._write
            )
            self._failures = 0
            self._owner.answered(self._connection, response)

    async def _write(self, frame: bytes, connection: BrokerConnection) -> None:
        """A frame that is not whole does nothing, so one that takes longer than the lease is cut off."""
        if not self._lease.left_ms:
            raise ConnectionAbortedError("the lease ended before the request was sent")
        connection.write(frame)
        taken = asyncio.ensure_future(connection.drain())
        try:
            while not taken.done():
                if not (left_ms := self._lease.left_ms):
                    raise ConnectionAbortedError("the lease ended while the request was sent")
                await asyncio.wait([taken], timeout=left_ms / 1000)
            await taken
        finally:
            taken.cancel()


Task = Callable[[], None]
ChannelEvent = ChannelUp | ChannelDown | BrokerAnswered

NO_CONNECTION: Final = 0
"""No connection; they are counted from 1."""


class ControllerChannelManager:
    """One channel for each broker. All methods but the constructor are for the machine's thread."""

    def __init__(
        self,
        thread: LoopThread,
        lease: SendDeadline,
        *,
        post: Callable[[Task], None],
        notify: Callable[[ChannelEvent], None],
        client_id: str,
        settings: ChannelSettings | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """
        Args:
            thread: its loop has the connections; it runs, and is stopped by its owner.
            post: has the machine's thread run a task.
            notify: gives the machine an event; called on its thread.
            client_id: see `Channel`.
        """
        self._thread = thread
        self._lease = lease
        self._post = post
        self._notify = notify
        self._client_id = client_id
        self._settings = settings or ChannelSettings()
        self._jitter = jitter
        self._channels: dict[int, _BrokerChannel] = {}

    def open(self, order: OpenChannel) -> None:
        """Connects to this incarnation instead of another one of the broker."""
        self._close(order.broker)
        opened = _BrokerChannel(self, order)
        opened.channel = Channel(
            order.host,
            order.port,
            client_id=self._client_id,
            lease=self._lease,
            owner=opened,
            settings=self._settings,
            jitter=self._jitter,
        )
        self._channels[order.broker] = opened
        self._thread.call(opened.begin)

    def close(self, order: CloseChannel) -> None:
        """Ends the channel to this incarnation, if it is there."""
        opened = self._channels.get(order.broker)
        if opened is not None and opened.incarnation == order.incarnation:
            self._close(order.broker)

    def close_all(self) -> None:
        for broker in list(self._channels):
            self._close(broker)

    def send(self, message: BrokerRequest) -> None:
        """Sends a request on the connection that the machine knows of, or drops it."""
        opened = self._channels.get(message.broker)
        if (
            opened is not None
            and opened.incarnation == message.incarnation
            and opened.connection != NO_CONNECTION
        ):
            assert opened.channel is not None
            self._thread.call(opened.channel.send, opened.connection, message)

    def _close(self, broker: int) -> None:
        if (opened := self._channels.pop(broker, None)) is not None:
            self._thread.call(opened.end)

    def happened(self, opened: _BrokerChannel, connection: int, event: ChannelEvent) -> None:
        """Called on the loop: hands the event to the machine's thread."""
        self._post(partial(self._deliver, opened, connection, event))

    def _deliver(self, opened: _BrokerChannel, connection: int, event: ChannelEvent) -> None:
        if self._channels.get(opened.broker) is opened:
            opened.connection = connection
            self._notify(event)


class _BrokerChannel:
    def __init__(self, pool: ControllerChannelManager, order: OpenChannel) -> None:
        self._pool = pool
        self.broker = order.broker
        self.incarnation = order.incarnation
        self.channel: Channel | None = None
        self.connection = NO_CONNECTION
        """The one that the machine knows of; of its thread."""
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        assert self.channel is not None
        name = f"channel to broker {self.broker}"
        self._task = asyncio.get_running_loop().create_task(self.channel.run(), name=name)

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def up(self, connection: int) -> None:
        """A connection is there: requests may be given for it by its number."""
        self._pool.happened(self, connection, ChannelUp(self.broker, self.incarnation))

    def down(self, connection: int, why: str) -> None:
        """It is gone. What was in flight may or may not have arrived, or may yet."""
        del connection, why  # the channel has logged it
        self._pool.happened(self, NO_CONNECTION, ChannelDown(self.broker, self.incarnation))

    def answered(self, connection: int, response: Response) -> None:
        event = BrokerAnswered(self.broker, self.incarnation, response)
        self._pool.happened(self, connection, event)
