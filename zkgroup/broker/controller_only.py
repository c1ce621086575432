"""A process that is a controller and hosts nothing (`--controller-only`). Source: recipes.md 14.

Its port is open all the time; in `/brokers/ids` it stands exactly while it rules, so real brokers find it
there with their requests for a controlled shutdown, and place nothing on it before and after.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial
from types import TracebackType
from typing import Final, Self, TypeVar

from zkgroup.broker.broker import HOST_DEFAULT
from zkgroup.broker.hosted_controller import client_settings, connection_limits, open_controller
from zkgroup.broker.server.apis import BrokerApis, metadata_response
from zkgroup.broker.server.control_requests import ControlRequestHandler
from zkgroup.broker.server.metadata_cache import OFFSETS_TOPIC, MetadataCache
from zkgroup.broker.server.server import BrokerServer, ConnectionLimits
from zkgroup.broker.settings import BrokerSettings
from zkgroup.broker.telemetry import BrokerListener
from zkgroup.controller.controller import Controller
from zkgroup.controller.machine.context import ControllerContext
from zkgroup.errors import ConfigError, StoreUnavailableError
from zkgroup.model.ports import Clock, MetricsSink, Store
from zkgroup.model.requests import Connected, SessionEvent
from zkgroup.runtime.loop import LoopThread
from zkgroup.wire.control import (
    Broker,
    ControlledShutdownResponse,
    PartitionStateInfo,
    UpdateMetadataRequest,
)
from zkgroup.wire.messages import Request, Response
from zkgroup.wire.metadata import PIECE, FindCoordinatorRequest, MetadataRequest
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.clock import SystemClock

log = logging.getLogger("zkgroup.broker")

CLOSE_S: Final = 5.0
"""For each part that is closed."""
OPEN_S: Final = 30.0


class ControllerOnly:
    """One controller without a broker. Every method may be called from any thread."""

    def __init__(
        self,
        address: str | None = None,
        *,
        client: Store | None = None,
        broker: int,
        host: str = HOST_DEFAULT,
        port: int = 0,
        settings: BrokerSettings | None = None,
        listener: BrokerListener | None = None,
        connection: ClientSettings | None = None,
        clock: Clock | None = None,
        metrics: MetricsSink | None = None,
    ) -> None:
        """
        Args:
            address: `HOST:PORT[,HOST:PORT...][/CHROOT]`.
            client: in its place, a client that belongs to this controller from here on.
            broker: its id, which no broker has.
            host: where to listen; 127.0.0.1 by default: every client that reaches the port may send requests.
            port: where to listen; 0 lets the system choose.
            listener: is notified when it becomes the active controller, and when it resigns.
            connection: credentials and TLS for `address`.
            metrics: gets the controller's (docs/operations.md).

        Raises ConfigError.
        """
        if (address is None) == (client is None):
            raise ConfigError("a controller takes an address or a client, and exactly one of them")
        self.broker = broker
        self.settings = settings or BrokerSettings()
        self._connected = threading.Event()
        self._bind = host, port
        self._address, self._client = address, client
        self._connection = client_settings(self.settings, connection)
        self._listener = listener or BrokerListener()
        self._clock = clock or SystemClock()
        self._metrics = metrics
        self._thread = LoopThread(f"zkgroup-controller-{broker}-port", self._clock)
        self._port: ControllerServer | None = None
        self._controller: Controller | None = None
        self._failure: BaseException | None = None
        self.serving: tuple[str, int] | None = None
        """Where others reach it, once it listens."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Listens, and stands for election from then on.

        Raises ConflictError where another process listens there, ConfigError where none can.
        """
        self._thread.start()
        try:
            self._port = self._thread.run(self._open()).result(OPEN_S)
            self._stand(self._port)
        except BaseException:
            self.close()
            raise

    async def _open(self) -> ControllerServer:
        settings = self.settings
        port = ControllerServer(self.broker, self._clock, connection_limits(settings))
        try:
            host, number = await port.open(*self._bind)
        except BaseException:
            await port.close()
            raise
        self.serving = settings.advertised_host_name or host, settings.advertised_port or number
        return port

    def _stand(self, port: ControllerServer) -> None:
        assert self.serving is not None
        if self._client is None:
            assert self._address is not None
            self._client = ZooKeeperClient(self._address, self._connection)
        self._client.listen(self._on_session)
        self._controller = open_controller(
            self.broker,
            *self.serving,
            self._client,
            self._clock,
            settings=self.settings,
            listener=self._listener,
            alone=True,
            metrics=self._metrics,
            on_failure=self._fail,
        )
        port.rule(self._controller)
        self._controller.start()

    def wait_connected(self, timeout_s: float) -> None:
        """Until there is a first session. Raises StoreUnavailableError, and what `check` raises."""
        done = self._connected.wait(timeout_s)
        self.check()
        if not done:
            raise self.unconnected(timeout_s)

    def unconnected(self, timeout_s: float) -> StoreUnavailableError:
        """The error of a wait for the first session that ran out after so long."""
        if isinstance(self._client, ZooKeeperClient):
            return self._client.unconnected(timeout_s)
        return StoreUnavailableError(f"no connection to ZooKeeper within {timeout_s:g} s")

    def _on_session(self, event: SessionEvent) -> None:
        if isinstance(event, Connected):
            self._connected.set()

    def check(self) -> None:
        """Raises what made it fail, if anything did: `ConflictError` where another process has its id."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Resigns, removes its registration, and ends. Always returns; may be called twice."""
        if self._controller is not None and not self._controller.close(CLOSE_S):
            log.warning("controller %d was not closed in time; the rest ends with its session", self.broker)
        if self._client is not None:
            self._client.close(CLOSE_S)
        if self._port is not None:
            with contextlib.suppress(CancelledError, FutureTimeoutError):
                self._thread.run(self._port.close()).result(CLOSE_S)
        if not self._thread.stop(CLOSE_S):
            log.warning("the port of controller %d was not closed in time", self.broker)

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
            log.error("the controller fails: %s", error, extra={"raised": True})
            self._listener.on_failed(error)
        self._connected.set()


T = TypeVar("T")


def update_metadata_of(picture: ControllerContext, topics: Collection[str]) -> UpdateMetadataRequest:
    """The live brokers and these topics, as UpdateMetadata sends them to brokers.

    Unknown topics, those that are being deleted, and partitions without a state are left out.
    """
    brokers = []
    for broker in sorted(picture.reachable):
        registration = picture.brokers[broker].registration
        assert registration.host is not None
        brokers.append(Broker(broker, registration.host, registration.port))
    partitions = [
        PartitionStateInfo.of(tp, leadership.state, leadership.version, picture.replicas(tp))
        for topic in topics
        if topic not in picture.deletions
        for tp in picture.partitions(topic)
        if (leadership := picture.leadership(tp)) is not None
    ]
    return UpdateMetadataRequest(-1, -1, tuple(partitions), tuple(brokers))


def topic_batches(picture: ControllerContext, topics: Sequence[str]) -> list[list[str]]:
    """These topics, or all, in parts of some `PIECE` partitions and at least one topic; one part at least."""
    pieces: list[list[str]] = [[]]
    partitions = 0
    for topic in topics or sorted(picture.topics):
        if partitions >= PIECE:
            pieces.append([])
            partitions = 0
        pieces[-1].append(topic)
        seen = picture.topic(topic)
        partitions += 1 if seen is None else max(1, len(seen.topic.partitions))
    return pieces


class ControllerServer:
    """Listens, and answers. Made and used on one event loop."""

    def __init__(self, broker: int, clock: Clock, limits: ConnectionLimits | None = None) -> None:
        """`rule` must be called before the first question is answered."""
        self._broker = broker
        self._controller: Controller | None = None
        cache = MetadataCache()
        self._service = BrokerApis(
            broker=broker,
            control_requests=ControlRequestHandler(broker, cache),
            metadata=cache,
            clock=clock,
            controlled_shutdown=self._shut_down,
        )
        self._server = BrokerServer(self._respond, limits)

    async def open(self, host: str, port: int) -> tuple[str, int]:
        """Listens; returns where. Raises ConflictError or ConfigError."""
        return await self._server.start(host, port)

    def rule(self, controller: Controller) -> None:
        """Whose picture it is, and who is asked for controlled shutdowns."""
        self._controller = controller

    async def close(self) -> None:
        """Stops listening and cuts every client off."""
        await self._server.close()
        await self._service.close()

    # --- answers --------------------------------------------------------------------------------

    async def _respond(self, request: Request) -> Response | None:
        match request:
            case MetadataRequest():
                topics = request.names
                cache = await self._seen(topics)
                return None if cache is None else await metadata_response(cache, topics)
            case FindCoordinatorRequest(group):
                cache = await self._seen((OFFSETS_TOPIC,))
                return (cache or MetadataCache()).coordinator(group)
            case _:
                return await self._service.respond(request)

    async def _shut_down(self, broker: int) -> ControlledShutdownResponse:
        assert self._controller is not None
        return await asyncio.wrap_future(self._controller.shut_down(broker))

    async def _seen(self, topics: Sequence[str]) -> MetadataCache | None:
        """These topics, or all, as the controller sees them; None: it does not rule."""
        pieces = await self._of_picture(partial(topic_batches, topics=topics))
        if pieces is None:
            return None
        cache = MetadataCache()
        for some in pieces:
            told = await self._of_picture(partial(update_metadata_of, topics=some))
            if told is None:
                return None
            cache.update(told, 0)
        return cache

    async def _of_picture(self, look: Callable[[ControllerContext], T]) -> T | None:
        if self._controller is None:
            return None
        asked = self._controller.with_context(lambda picture: None if picture is None else look(picture))
        return await asyncio.wrap_future(asked)
