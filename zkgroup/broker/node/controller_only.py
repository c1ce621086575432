"""A process that is a controller and hosts nothing (`--controller-only`). Source: recipes.md 14.

Its port is open all the time; in `/brokers/ids` it stands exactly while it rules, so real brokers find it
there with their requests for a controlled shutdown, and place nothing on it before and after.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as FutureTimeoutError
from types import TracebackType
from typing import Final, Self

from zkgroup.broker.node.broker import HOST_DEFAULT
from zkgroup.broker.node.controller_port import ControllerPort
from zkgroup.broker.node.controlling import client_settings, limits_of, open_controller
from zkgroup.broker.node.listener import BrokerListener
from zkgroup.broker.settings import BrokerSettings
from zkgroup.controller.controller import Controller
from zkgroup.errors import ConfigError, StoreUnavailableError
from zkgroup.machinery.loop_thread import LoopThread
from zkgroup.model.ports import Clock, MetricsSink, Store
from zkgroup.model.requests import Connected, SessionEvent
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
            host: where to listen; 127.0.0.1 by default, for whoever reaches the port may give orders.
            port: where to listen; 0 lets the system choose.
            listener: is told when it rules and when no more.
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
        self._port: ControllerPort | None = None
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

        Raises ConflictError where somebody else listens there, ConfigError where nobody can.
        """
        self._thread.start()
        try:
            self._port = self._thread.run(self._open()).result(OPEN_S)
            self._stand(self._port)
        except BaseException:
            self.close()
            raise

    async def _open(self) -> ControllerPort:
        settings = self.settings
        port = ControllerPort(self.broker, self._clock, limits_of(settings))
        try:
            host, number = await port.open(*self._bind)
        except BaseException:
            await port.close()
            raise
        self.serving = settings.advertised_host_name or host, settings.advertised_port or number
        return port

    def _stand(self, port: ControllerPort) -> None:
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
        """Raises what made it fail, if anything did: `ConflictError` where its id is somebody else's."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Resigns, takes off what stands of it, and ends. Always returns; again is no matter."""
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
