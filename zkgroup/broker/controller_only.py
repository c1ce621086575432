"""A controller process without replicas (`--controller-only`).

Its port is always open. It is registered in `/brokers/ids` only while it is the active controller: Kafka
brokers find it there for controlled shutdowns, and no replica is placed on it before or after. Source:
controllers without partitions (recipes 14).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial
from types import TracebackType
from typing import Final, Self, TypeVar

from zkgroup.broker.broker import HOST_DEFAULT
from zkgroup.broker.hosted_controller import client_settings, limits_of_process, open_controller
from zkgroup.broker.probing import not_in_control, probe_of
from zkgroup.broker.security_settings import (
    SecuritySettings,
    addresses,
    advertised,
    main_address,
    security_of,
)
from zkgroup.broker.server.apis import BrokerApis
from zkgroup.broker.server.control_requests import ControlRequestHandler
from zkgroup.broker.server.metadata_cache import MetadataCache
from zkgroup.broker.server.peer_claim_checker import PeerClaimChecker
from zkgroup.broker.server.port import ConnectionLimits
from zkgroup.broker.server.server import BrokerServer
from zkgroup.broker.settings import BrokerSettings
from zkgroup.broker.telemetry import BrokerListener
from zkgroup.controller.controller import Controller
from zkgroup.controller.machine.context import ControllerContext
from zkgroup.controller.machine.requests.batch import live_brokers
from zkgroup.errors import ConfigError, CorruptZnodeError, StoreUnavailableError
from zkgroup.metrics.probes import Probe
from zkgroup.model.ports import Clock, MetricsSink, Store
from zkgroup.model.requests import Connected, Outcome, Read, ReadDone, SessionEvent
from zkgroup.model.values import PLAINTEXT
from zkgroup.runtime.logs import get_logger
from zkgroup.runtime.loop import LoopThread
from zkgroup.security.acls import AUTHORIZER
from zkgroup.security.listeners import Listener
from zkgroup.wire.control import (
    ControlledShutdownResponse,
    PartitionStateInfo,
    UpdateMetadataRequest,
)
from zkgroup.wire.metadata import PIECE
from zkgroup.znodes.brokers import Endpoint
from zkgroup.znodes.cluster import ClusterId
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.client import SystemClock
from zkgroup.zookeeper.settings import check_connection

log = get_logger("zkgroup.broker")

CLOSE_S: Final = 5.0
"""Timeout for closing each part."""
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
        security: SecuritySettings | None = None,
        listener: BrokerListener | None = None,
        connection: ClientSettings | None = None,
        clock: Clock | None = None,
        metrics: MetricsSink | None = None,
    ) -> None:
        """
        Args:
            address: `HOST:PORT[,HOST:PORT...][/CHROOT]`.
            client: a ZooKeeper client instead of `address`; `close` closes it.
            broker: the broker id of the controller, which no other broker may have.
            host: the address to listen on. It is 127.0.0.1 by default, because every client that reaches the
                port may send requests. A wildcard (`0.0.0.0`) needs `advertised_host_name`.
            port: the port to listen on; 0 lets the system choose.
            settings: `BrokerSettings`, with Kafka's defaults where it is None.
            security: the listeners, instead of `host` and `port`.
            listener: is notified when it becomes the active controller, and when it resigns.
            connection: credentials and TLS for `address`.
            clock: of timeouts and sessions; a `FakeClock` with `MemoryZooKeeper` in tests.
            metrics: receives the controller's metrics (docs/operations.md).

        Raises ConfigError.
        """
        check_connection("a controller", address, client, connection)
        self.broker = broker
        self.settings = settings or BrokerSettings()
        self.security = security_of(security, host, port, self.settings)
        if self.security.sasl:
            raise ConfigError(f"listener {next(iter(self.security.sasl))}: a controller alone has no logins")
        if self.security.authorizer is not None:
            raise ConfigError(f"setting {AUTHORIZER}: a controller alone has no authorizer; leave it out")
        self._connected = threading.Event()
        self._is_connected = self._is_leaving = False
        self._address, self._client = address, client
        self._connection = client_settings(self.settings, connection)
        self._listener = listener or BrokerListener()
        self._clock = clock or SystemClock()
        self._metrics = metrics
        self._thread = LoopThread(f"zkgroup-controller-{broker}-port", self._clock)
        self._port: ControllerServer | None = None
        self._controller: Controller | None = None
        self._failure: BaseException | None = None
        self.endpoints: tuple[Endpoint, ...] | None = None
        """The advertised listeners; None before it listens."""

    @property
    def serving(self) -> tuple[str, int] | None:
        """As `Broker.serving`."""
        return None if self.endpoints is None else main_address(self.endpoints)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Opens the port, then takes part in controller elections.

        Raises ConflictError if another process uses the port, ConfigError if the address cannot be used.
        """
        self._thread.start()
        try:
            self._port = self._thread.run(self._open()).result(OPEN_S)
            self._start_controller(self._port)
        except BaseException:
            self.close()
            raise

    async def _open(self) -> ControllerServer:
        listeners = self.security.listeners
        limits = limits_of_process(self.settings)
        port = ControllerServer(self.broker, self._clock, limits, self.security)
        try:
            self.endpoints = advertised(await port.open(listeners.listeners))
        except BaseException:
            await port.close()
            raise
        return port

    def _start_controller(self, port: ControllerServer) -> None:
        assert self.endpoints is not None
        if self._client is None:
            assert self._address is not None
            self._client = ZooKeeperClient(self._address, self._connection)
        self._client.listen(self._on_session)
        self._controller = open_controller(
            self.broker,
            self.endpoints,
            self._client,
            self._clock,
            settings=self.settings,
            security=self.security,
            listener=self._listener,
            alone=True,
            metrics=self._metrics,
            on_failure=self._fail,
        )
        port.set_controller(self._controller, self._client)
        self._controller.start()

    def wait_connected(self, timeout_s: float) -> None:
        """Waits for the first session. Raises StoreUnavailableError, and the error that `check` raises."""
        done = self._connected.wait(timeout_s)
        self.check()
        if not done:
            raise self._unconnected(timeout_s)

    def _unconnected(self, timeout_s: float) -> StoreUnavailableError:
        """Returns the error of a wait for the first session that timed out after `timeout_s`."""
        if isinstance(self._client, ZooKeeperClient):
            return self._client._unconnected(timeout_s)
        return StoreUnavailableError(f"no connection to ZooKeeper within {timeout_s:g} s")

    def _on_session(self, event: SessionEvent) -> None:
        self._is_connected = isinstance(event, Connected)
        if isinstance(event, Connected):
            self._connected.set()
            self._read_cluster_id(event.session.incarnation)

    def _read_cluster_id(self, incarnation: int) -> None:
        """Reads the cluster id, and again when it changes: the first broker of a cluster creates it."""
        assert self._client is not None
        self._client.submit(
            Read(ClusterId.path(), watch=True),
            incarnation=incarnation,
            on_outcome=self._on_cluster_id,
            on_watch=lambda path: self._read_cluster_id(incarnation),
        )

    def _on_cluster_id(self, outcome: Outcome) -> None:
        if self._port is None or not isinstance(outcome, ReadDone) or outcome.znode is None:
            return
        try:
            self._port.cluster_id = ClusterId.decode(ClusterId.path(), outcome.znode.data).id
        except CorruptZnodeError as error:
            log.warning("%s", error)

    def check(self) -> None:
        """Raises the error that stopped it, if there is one: `ConflictError` if its id is in use."""
        if self._failure is not None:
            raise self._failure

    def _probe(self) -> Probe:
        """See `serve_metrics`."""
        part, controller = f"controller {self.broker}", self._controller
        if controller is None:
            return Probe(part=part, status="not started", not_ready="not started")
        assert self.endpoints is not None
        return probe_of(
            part,
            f"serves {', '.join(addresses(self.endpoints).values())}",
            {"port": self._thread.beat(), **controller.beats()},
            failure=self._failure,
            is_leaving=self._is_leaving,
            not_ready=lambda: (
                not_in_control(controller) if self._is_connected else "has no ZooKeeper session"
            ),
        )

    def close(self) -> None:
        """Resigns, removes the registration and closes the port. Always returns; idempotent."""
        self._is_leaving = True
        if self._controller is not None and not self._controller.close(CLOSE_S):
            log.warning(
                "controller %d was not closed in time; its znodes go when its session ends", self.broker
            )
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


def update_metadata_of(context: ControllerContext, topics: Collection[str]) -> UpdateMetadataRequest:
    """The UpdateMetadata request for these topics and all live brokers.

    It omits unknown topics, topics that are being deleted, and partitions without a state.
    """
    partitions = [
        PartitionStateInfo.of(tp, leadership.state, leadership.version, context.replicas(tp))
        for topic in topics
        if topic not in context.deletions
        for tp in context.partitions(topic)
        if (leadership := context.leadership(tp)) is not None
    ]
    return UpdateMetadataRequest(-1, -1, tuple(partitions), live_brokers(context))


def topic_batches(context: ControllerContext, topics: Sequence[str] | None) -> list[list[str]]:
    """Splits these topics, or all for None, into batches of about `PIECE` partitions; at least one batch."""
    pieces: list[list[str]] = [[]]
    partitions = 0
    for topic in sorted(context.topics) if topics is None else topics:
        if partitions >= PIECE:
            pieces.append([])
            partitions = 0
        pieces[-1].append(topic)
        known = context.topic(topic)
        partitions += 1 if known is None else max(1, len(known.topic.partitions))
    return pieces


class ControllerServer:
    """The port of a controller without replicas. Made and used on one event loop."""

    def __init__(
        self,
        broker: int,
        clock: Clock,
        limits: ConnectionLimits | None = None,
        security: SecuritySettings | None = None,
    ) -> None:
        """`set_controller` must be called before the first request is answered."""
        self._broker = broker
        self._controller: Controller | None = None
        self.cluster_id: str | None = None
        """The cluster id for clients; None while it is not known."""
        self._claims = PeerClaimChecker()
        self._apis = BrokerApis(
            broker=broker,
            control_requests=ControlRequestHandler(broker, MetadataCache()),
            metadata=self._metadata,
            clock=clock,
            controlled_shutdown=self._shut_down,
            cluster_id=lambda: self.cluster_id,
            slots=self._slots,
            claims=self._claims,
        )
        self._server = BrokerServer(
            self._apis.respond,
            self._apis.table.requests,
            limits,
            inter_broker=PLAINTEXT if security is None else security.inter_broker.name,
            tls=None if security is None else security.tls_listeners(),
        )

    async def open(self, listeners: Sequence[Listener]) -> tuple[Listener, ...]:
        """Opens the listeners; see `BrokerServer.start`."""
        return await self._server.start(listeners)

    def set_controller(self, controller: Controller, store: Store) -> None:
        """Sets the controller that answers metadata requests and performs controlled shutdowns.

        `store`: its session; until then no control request is obeyed.
        """
        self._controller = controller
        self._claims.connect(store)

    async def close(self) -> None:
        """Closes the port and every connection."""
        await self._server.close()
        self._claims.close()
        await self._apis.close()

    async def _shut_down(self, broker: int) -> ControlledShutdownResponse:
        assert self._controller is not None
        return await asyncio.wrap_future(self._controller.shut_down(broker))

    async def _metadata(self, topics: Sequence[str] | None) -> MetadataCache | None:
        """The metadata of these topics, or of all, from the context; None if this is not active."""
        batches = await self._from_context(partial(topic_batches, topics=topics))
        if batches is None:
            return None
        cache = MetadataCache()
        for batch in batches:
            update = await self._from_context(partial(update_metadata_of, topics=batch))
            if update is None:
                return None
            cache.update(update, 0)
        return cache

    async def _slots(self) -> int | None:
        """The number of slots; that of Kafka's brokers is the number of partitions of their topic."""
        return await self._from_context(
            lambda context: context.slots or len(list(context.partitions(OFFSETS_TOPIC)))
        )

    async def _from_context(self, read: Callable[[ControllerContext], T]) -> T | None:
        if self._controller is None:
            return None
        result = self._controller.with_context(lambda context: None if context is None else read(context))
        return await asyncio.wrap_future(result)
