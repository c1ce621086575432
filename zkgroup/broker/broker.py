"""`Broker` and `AsyncBroker`: the public classes that run one zkgroup broker inside a Python program."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Collection, Coroutine, Mapping
from concurrent.futures import CancelledError, Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError
from concurrent.futures import wait as wait_done
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from zkgroup.broker.hosted_controller import client_settings, descriptor_shares, open_controller
from zkgroup.broker.lifecycle import BrokerComponents, BrokerLifecycle, MakeController, MakeLoop
from zkgroup.broker.log.data_dir import DataDir, stored_broker_id
from zkgroup.broker.log.storage import MemoryStorage
from zkgroup.broker.machine.events import BrokerMachineConfig
from zkgroup.broker.machine.isr import IsrChangePropagationConfig
from zkgroup.broker.network import BrokerHealth, BrokerNetwork
from zkgroup.broker.replica_view import ReplicaView
from zkgroup.broker.replicas.log_configs import log_config
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.security_settings import SecuritySettings, addresses, main_address, security_of
from zkgroup.broker.server.log_dirs import IN_MEMORY
from zkgroup.broker.settings import BrokerSettings
from zkgroup.broker.telemetry import BrokerListener
from zkgroup.errors import ConfigError, StoreUnavailableError
from zkgroup.metrics.probes import Probe
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock, MetricsSink, Store, after, is_driven, wait_for
from zkgroup.runtime.logs import get_logger
from zkgroup.zookeeper import CREATOR_ACL, ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.client import SystemClock
from zkgroup.zookeeper.settings import Address, check_connection

log = get_logger("zkgroup.broker")

HOST_DEFAULT: Final = "127.0.0.1"
ANSWER_S: Final = 5.0

T = TypeVar("T")


class Broker:
    """One broker in this process: it hosts partitions, replicates them and competes to be the controller.

    `start` begins to join the cluster and returns; `wait_registered` waits until the broker is in it. Every
    method may be called from any thread; `start` and `close` once each. An error that stops the broker later
    is raised by `check` and `wait_registered` and reported to `BrokerListener.on_failed`:

    * `BrokerIdInUseError`: another broker is registered with this id.
    * `ForeignBrokersError`: brokers of Kafka are registered at this address.
    * `ConfigError`, `ConflictError`: the data directory or the port cannot be used.
    * `ReplicaStorageError`: files of a partition that it leads have failed.
    * `AccessDeniedError`, `AuthenticationError`: ZooKeeper refuses it.

    Example:
        >>> with Broker("localhost:2181", broker=1, port=9092, data="/srv/b1") as broker:  # doctest: +SKIP
        ...     broker.wait_registered(timeout_s=30)
        ...     print(broker.serving)
        ('127.0.0.1', 9092)
    """

    _make_controller: MakeController = staticmethod(open_controller)
    """Makes the elector that competes for `/controller`; tests set another."""
    _make_loop: MakeLoop | None = None
    """Makes the event loops of its connections; `KafkaCluster` sets its own."""
    _memory: MemoryStorage | None = None
    """The logs of a broker without a data directory, over its starts; `KafkaCluster` sets it."""

    def __init__(
        self,
        address: str | None = None,
        *,
        client: Store | None = None,
        broker: int | None = None,
        host: str = HOST_DEFAULT,
        port: int = 0,
        data: str | Path | None = None,
        settings: BrokerSettings | None = None,
        security: SecuritySettings | None = None,
        listener: BrokerListener | None = None,
        connection: ClientSettings | None = None,
        clock: Clock | None = None,
        metrics: MetricsSink | None = None,
    ) -> None:
        """
        Args:
            address: `HOST:PORT[,HOST:PORT...][/CHROOT]`; a missing chroot is created.
            client: a ZooKeeper client instead of `address`; the broker closes it.
            broker: the broker id; None: the id stored in the data directory, else a generated one.
            host: the address to listen on. It is 127.0.0.1 by default, because every client that reaches the
                port may send control requests. A wildcard (`0.0.0.0`) needs `advertised_host_name`.
            port: the port to listen on; 0 lets the system choose.
            data: the data directory; None keeps the logs in memory, until `close`.
            settings: `BrokerSettings`, with Kafka's defaults where it is None.
            security: the listeners, instead of `host` and `port`.
            listener: receives the broker's events.
            connection: credentials and TLS for `address`.
            clock: of timeouts and sessions; a `FakeClock` with `MemoryZooKeeper` in tests.
            metrics: receives the metrics of broker and controller, on several threads (docs/operations.md).

        Raises ConfigError, also for a data directory that belongs to another broker or to none.
        """
        check_connection("a broker", address, client, connection)
        self.settings = settings or BrokerSettings()
        self.security = security_of(security, host, port, self.settings)
        self._folder = None if data is None else Path(data)
        self._config = _config(_id_in(self._folder, broker), self.settings, self.security)
        self._address, self._client = address, client
        self._own: ZooKeeperClient | None = None
        self._connection = client_settings(self.settings, connection)
        if self._connection.acl == CREATOR_ACL:
            self.settings = replace(self.settings, set_acl=True)  # as DescribeConfigs tells it
        self._clock = clock or SystemClock()
        self._listener = listener or BrokerListener()
        self._metrics = metrics
        self._failure: BaseException | None = None
        self.registered: Future[None] = Future()
        """Done once the broker is registered for the first time, or has failed (`check`)."""
        self._lifecycle: BrokerLifecycle | None = None
        self._closed = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Begins to join the cluster. Raises the errors of `make_chroot`; `check` raises later errors."""
        store = self._client
        if store is None:
            assert self._address is not None
            make_chroot(self._address, self._connection)
            store = self._own = ZooKeeperClient(self._address, self._connection)
        self._lifecycle = BrokerLifecycle(
            BrokerComponents(
                store=store,
                clock=self._clock,
                config=self._config,
                settings=self.settings,
                listener=self._listener,
                metrics=self._metrics,
                security=self.security,
                open_replicas=self._open_replicas,
                zookeeper=self._address,
                log_dir=IN_MEMORY if self._folder is None else str(self._folder.absolute()),
                make_controller=self._make_controller,
                fail=self._fail,
                registered=self._on_registered,
                make_loop=self._make_loop,
            )
        )
        self._lifecycle.start()

    def wait_connected(self, timeout_s: float | None = None) -> None:
        """Waits for the first connection, if the broker has an address; default: the client's own timeout.

        Raises StoreUnavailableError, ConfigError and AuthenticationError as `ZooKeeperClient.wait_connected`.
        """
        if self._own is not None:
            self._own.wait_connected(timeout_s)

    def wait_registered(self, timeout_s: float | None = None) -> None:
        """Waits until the broker is registered in `/brokers/ids` for the first time.

        Raises the error that stopped the broker, or StoreUnavailableError after `timeout_s`.
        """
        until_ms = None if timeout_s is None else after(self._clock, timeout_s)
        done = wait_for(
            self._clock, self.registered.done, until_ms, lambda left_s: wait_done([self.registered], left_s)
        )
        self.check()
        if not done:
            raise self._unregistered(timeout_s or 0)

    def _unregistered(self, timeout_s: float) -> StoreUnavailableError:
        """Returns the error of a wait for the registration that timed out after `timeout_s`."""
        return StoreUnavailableError(f"the broker was not registered within {timeout_s:g} s")

    def check(self) -> None:
        """Raises the error that stopped the broker, if there is one."""
        if self._failure is not None:
            raise self._failure

    def hurry(self) -> None:
        """Cancels a controlled shutdown in progress, so that `close` does not wait for it."""
        if self._lifecycle is not None:
            self._lifecycle.hurry()

    def close(self, *, controlled_shutdown: bool = True) -> None:
        """Asks the controller for a controlled shutdown (5.9), then stops the broker. Idempotent.

        It always returns. The controlled shutdown takes at most the settings `controlled_shutdown_*`; `hurry`
        cancels it, and so does the end of the session timeout without ZooKeeper. The last live broker does
        not repeat it.

        `controlled_shutdown`: False leaves it out: new leaders are elected once the broker is gone.
        """
        if self._closed:
            return
        self._closed = True
        if self._lifecycle is not None:
            self._lifecycle.close(gently=controlled_shutdown and self._failure is None)
        elif self._client is not None:
            self._client.close()

    def _kill(self) -> None:
        """Stops the broker as the end of its process would, for tests: instead of `close`.

        Connections are cut without an answer, no file is written any more, and the shutdown is not clean. Its
        session ends, unless the client that it was given is cut off from ZooKeeper: then it expires.
        """
        if self._closed:
            return
        self._closed = True
        if self._lifecycle is not None:
            self._lifecycle.kill()
        elif self._client is not None:
            self._client.close()

    def _probe(self) -> Probe:
        """See `serve_metrics`."""
        life = self._lifecycle
        if life is None or not life.is_started:
            return Probe(part="a broker", status="not started", not_ready="not started")
        return life.probe(failure=self._failure, is_leaving=self._closed)

    def _open_replicas(self, broker: int, cluster_id: str | None) -> ReplicaManager:
        config = log_config(self.settings)
        wall_ms = self._clock.wall_ms
        if self._folder is None:
            data_dir = DataDir.in_memory(config, wall_ms, self._memory)
        else:
            files = descriptor_shares(self.settings).files
            data_dir = DataDir.on_disk(self._folder, broker, cluster_id, config, wall_ms, files)
        return ReplicaManager(broker, data_dir, wall_ms)

    def _fail(self, error: BaseException) -> None:
        """Stores the error that stops the broker, and notifies the listener."""
        if self._failure is None and not self._closed:  # the end of its client is no failure then
            self._failure = error
            log.error("the broker fails: %s", error, extra={"raised": True})
            self._listener.on_failed(error)
        self._on_registered()

    def _on_registered(self) -> None:
        with suppress(InvalidStateError):  # it was registered before
            self.registered.set_result(None)

    @property
    def broker(self) -> int | None:
        """The broker id; None before it is generated."""
        return self._config.broker if self._lifecycle is None else self._lifecycle.machine.core.broker

    @property
    def epoch(self) -> int | None:
        """The broker epoch: the czxid of the last registration in `/brokers/ids`."""
        return None if self._lifecycle is None else self._lifecycle.machine.registration.epoch

    @property
    def serving(self) -> tuple[str, int] | None:
        """The advertised host and port of the first plain listener, of the first one if there is none.

        None before the broker listens.
        """
        endpoints = None if self._lifecycle is None else self._lifecycle.endpoints
        return None if endpoints is None else main_address(endpoints)

    @property
    def listeners(self) -> Mapping[str, str] | None:
        """The advertised `host:port` of each listener by its name; None before the broker listens."""
        endpoints = None if self._lifecycle is None else self._lifecycle.endpoints
        return None if endpoints is None else addresses(endpoints)

    def health(self, timeout_s: float = ANSWER_S) -> BrokerHealth:
        """The age and the sender of its metadata. Raises StoreUnavailableError unless it serves."""
        return self._ask(lambda network: network.health(), timeout_s)

    def replicas(self, timeout_s: float = ANSWER_S) -> dict[TopicPartition, ReplicaView]:
        """The role, leader epoch, log end offset and high watermark of each replica. Raises as `health`."""
        return self._ask(lambda network: network.replicas(), timeout_s)

    def leaders(
        self, partitions: Collection[TopicPartition], timeout_s: float = ANSWER_S
    ) -> dict[TopicPartition, int]:
        """The leader of each partition as this broker names it to clients. Raises as `health`.

        It has no entry for a partition that the broker does not know, or whose leader is not live.
        """

        async def leaders(network: BrokerNetwork) -> dict[TopicPartition, int]:
            return network.leaders(partitions)

        return self._ask(leaders, timeout_s)

    def _ask(self, ask: Callable[[BrokerNetwork], Coroutine[Any, Any, T]], timeout_s: float) -> T:
        life = self._lifecycle
        if life is None or life.network is None or self._closed:
            raise StoreUnavailableError("the broker does not serve")
        try:
            return life.thread.run(ask(life.network)).result(timeout_s)
        except (CancelledError, FutureTimeoutError) as error:
            raise StoreUnavailableError("the broker did not answer in time") from error


def make_chroot(address: str, connection: ClientSettings) -> None:
    """Creates the chroot of an address in a separate session, as a broker of 0.8.2.2 does.

    Raises StoreUnavailableError, AccessDeniedError.
    """
    parsed = Address.parse(address)
    if not parsed.chroot:
        return
    names = parsed.chroot.split("/")[1:]
    levels = ["/" + "/".join(names[: depth + 1]) for depth in range(len(names))]
    timeout_s = (connection.connection_timeout_ms or connection.session_timeout_ms) / 1000
    with ZooKeeperClient(parsed.servers, connection) as client, Blocking(client, timeout_s) as zk:
        client.wait_connected()
        missing = [level for level in levels if zk.exists(level) is None]
        if missing:
            zk.create_missing(*missing)


def _id_in(folder: Path | None, broker: int | None) -> int | None:
    """The id that was given, else the one stored in the folder. Raises ConfigError where they differ."""
    remembered = None if folder is None else stored_broker_id(folder)
    if None not in (broker, remembered) and broker != remembered:
        raise ConfigError(f"{folder} is the folder of broker {remembered}, not of {broker}")
    return remembered if broker is None else broker


def _config(broker: int | None, settings: BrokerSettings, security: SecuritySettings) -> BrokerMachineConfig:
    return BrokerMachineConfig(
        broker=broker,
        new_cluster_id=os.urandom(16),
        registration_version=settings.registration_version,
        rack=settings.broker_rack,
        inter_broker=security.inter_broker,
        follows_users=security.follows_users,
        follows_acls=security.authorizer is not None,
        reserved_max_id=settings.reserved_broker_max_id,
        lag_max_ms=settings.replica_lag_time_max_ms,
        notices=IsrChangePropagationConfig(
            settings.isr_notice_every_ms, settings.isr_notice_quiet_ms, settings.isr_notice_waiting_max_ms
        ),
        jitter=random.random,
    )


class AsyncBroker:
    """The methods of `Broker` as coroutines, with the same arguments, results and errors.

    The broker works on threads of its own, as `Broker` does, and its listener is called on them. Plain
    methods may be called from any thread, coroutines on any event loop. A coroutine that is cancelled stops
    waiting; what it began goes on to its end, on a thread of the event loop's executor.

    Example:
        >>> async def serve() -> None:
        ...     async with AsyncBroker("localhost:2181", broker=1, data="/srv/broker-1") as broker:
        ...         await broker.wait_registered(timeout_s=30)
        ...         print(broker.serving)
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        client: Store | None = None,
        broker: int | None = None,
        host: str = HOST_DEFAULT,
        port: int = 0,
        data: str | Path | None = None,
        settings: BrokerSettings | None = None,
        security: SecuritySettings | None = None,
        listener: BrokerListener | None = None,
        connection: ClientSettings | None = None,
        clock: Clock | None = None,
        metrics: MetricsSink | None = None,
    ) -> None:
        """As `Broker`."""
        self._broker = Broker(
            address,
            client=client,
            broker=broker,
            host=host,
            port=port,
            data=data,
            settings=settings,
            security=security,
            listener=listener,
            connection=connection,
            clock=clock,
            metrics=metrics,
        )
        self._clock = clock

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close(controlled_shutdown=False)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """See `Broker.start`."""
        await asyncio.to_thread(self._broker.start)

    async def wait_connected(self, timeout_s: float | None = None) -> None:
        """See `Broker.wait_connected`."""
        await asyncio.to_thread(self._broker.wait_connected, timeout_s)

    async def wait_registered(self, timeout_s: float | None = None) -> None:
        """See `Broker.wait_registered`. It needs no thread, so it can be cancelled."""
        registered = self._broker.registered
        if is_driven(self._clock):
            until_ms = None if timeout_s is None else after(self._clock, timeout_s)
            await self._clock.await_for(registered.done, until_ms)
        else:
            await asyncio.wait([asyncio.wrap_future(registered)], timeout=timeout_s)
        self._broker.check()
        if not registered.done():
            raise self._broker._unregistered(timeout_s or 0)

    def check(self) -> None:
        """See `Broker.check`."""
        self._broker.check()

    def hurry(self) -> None:
        """See `Broker.hurry`."""
        self._broker.hurry()

    async def close(self, *, controlled_shutdown: bool = True) -> None:
        """See `Broker.close`."""
        await asyncio.to_thread(self._broker.close, controlled_shutdown=controlled_shutdown)

    @property
    def broker(self) -> int | None:
        """See `Broker.broker`."""
        return self._broker.broker

    @property
    def epoch(self) -> int | None:
        """See `Broker.epoch`."""
        return self._broker.epoch

    @property
    def serving(self) -> tuple[str, int] | None:
        """See `Broker.serving`."""
        return self._broker.serving

    @property
    def listeners(self) -> Mapping[str, str] | None:
        """See `Broker.listeners`."""
        return self._broker.listeners

    def _probe(self) -> Probe:
        """See `serve_metrics`."""
        return self._broker._probe()

    @property
    def settings(self) -> BrokerSettings:
        """As `Broker.settings`."""
        return self._broker.settings

    async def health(self, timeout_s: float = ANSWER_S) -> BrokerHealth:
        """See `Broker.health`."""
        return await asyncio.to_thread(self._broker.health, timeout_s)

    async def replicas(self, timeout_s: float = ANSWER_S) -> dict[TopicPartition, ReplicaView]:
        """See `Broker.replicas`."""
        return await asyncio.to_thread(self._broker.replicas, timeout_s)

    async def leaders(
        self, partitions: Collection[TopicPartition], timeout_s: float = ANSWER_S
    ) -> dict[TopicPartition, int]:
        """See `Broker.leaders`."""
        return await asyncio.to_thread(self._broker.leaders, partitions, timeout_s)
