"""A broker's parts at work: what the machine orders, and how everything begins and ends.

    BrokerMachine   on its thread: registration, ISRs, configurations
    Network         on an event loop: port, replicas, fetches
    Controller      on its thread: stands for election once the broker is registered, in the same session
    Store           one ZooKeeper session for all

What one of them has to say to another goes through a queue; none waits for another.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Final, Protocol

from zkgroup.broker.directory import DirectoryReplicaHost
from zkgroup.broker.host_thread import HostClosedError
from zkgroup.broker.machine.core import BrokerConfig
from zkgroup.broker.machine.effects import (
    BrokerEffect,
    ConfigChanged,
    ControllerFound,
    CountIsrs,
    Failed,
    FollowOn,
    HoldFetches,
    IsrChanged,
    LookAtFollowers,
    Prepared,
    Registered,
)
from zkgroup.broker.machine.events import BrokerEvent, ControllerWanted, Serving
from zkgroup.broker.machine.machine import BrokerMachine
from zkgroup.broker.node.gate import RegisteredStore
from zkgroup.broker.node.listener import BrokerListener
from zkgroup.broker.node.network import Network
from zkgroup.broker.node.stopping import shut_down
from zkgroup.broker.node.telemetry import BrokerTelemetry
from zkgroup.broker.replica_host import ReplicaHost, Role
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import ConfigError, ReplicaStorageError
from zkgroup.machinery.effects import Note
from zkgroup.machinery.loop import MachineLoop
from zkgroup.machinery.loop_thread import LoopThread
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock, MetricsSink, Store
from zkgroup.model.requests import Lost, SessionEvent, Suspended
from zkgroup.wire.control import Broker as Address
from zkgroup.wire.control import ControlledShutdownResponse
from zkgroup.wire.error_codes import ErrorCode

log = logging.getLogger("zkgroup.broker")

FIND_CONTROLLER_S: Final = 2.0
CLOSE_S: Final = 5.0
"""For each part that is closed."""


class HostedController(Protocol):
    """The candidate beside the broker (`zkgroup.controller.controller.Controller`)."""

    def start(self) -> None: ...

    def close(self, timeout_s: float = ...) -> bool: ...

    def shut_down(self, broker: int) -> Future[ControlledShutdownResponse]: ...


@dataclass(frozen=True, slots=True)
class Seat:
    """What a candidate beside a broker is given."""

    broker: int
    host: str
    port: int
    store: Store
    """Connected only while the broker is registered; not to be closed."""
    clock: Clock
    settings: BrokerSettings
    listener: BrokerListener
    metrics: MetricsSink | None
    fail: Callable[[BaseException], None]


MakeController = Callable[[Seat], HostedController]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a life is made of."""

    store: Store
    """Closed with the broker."""
    clock: Clock
    config: BrokerConfig
    settings: BrokerSettings
    listener: BrokerListener
    bind: tuple[str, int]
    open_host: Callable[[int, str | None], ReplicaHost]
    """Opens the replicas of a broker, by its id and the cluster's."""
    make_controller: MakeController
    metrics: MetricsSink | None
    fail: Callable[[BaseException], None]
    """The broker cannot go on. Called on any thread; must only take note."""
    registered: Callable[[], None]


class BrokerLife:
    """From `start` to `close`, once each. `hurry` may be called from any thread."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._store, self._clock = parts.store, parts.clock
        self._settings, self._listener = parts.settings, parts.listener
        self.machine = BrokerMachine(parts.config)
        self.thread = LoopThread("zkgroup-broker-network", parts.clock)
        self.network: Network | None = None
        self.serving: tuple[str, int] | None = None
        """Where others reach it."""
        self._loop: MachineLoop[BrokerEvent, BrokerEffect] = MachineLoop(
            self.machine,
            parts.store,
            parts.clock,
            perform=self._perform,
            after_step=self._after_step,
            on_crash=parts.fail,
            name="zkgroup-broker",
        )
        self._telemetry = BrokerTelemetry(parts.metrics)
        self._gate = RegisteredStore(parts.store)
        self._controller: HostedController | None = None
        self._unapplied: list[ConfigChanged] = []
        self._finding: list[asyncio.Future[Address | None]] = []
        self._leaving = threading.Lock()
        self._stopping: Future[bool] | None = None
        """The controlled shutdown, once it was begun."""
        self._unlisten: Callable[[], None] | None = None

    # --- beginning and end --------------------------------------------------------------------------

    def start(self) -> None:
        """Everything else happens by itself."""
        self.thread.start()
        self._unlisten = self._store.listen(self._on_session)
        self._loop.listen()
        self._loop.start()

    def close(self, *, gently: bool) -> None:
        """Ends every part, whatever fails; gently: after a controlled shutdown.

        One that has begun by itself is waited for in any case.
        """
        if gently:
            self._begin_to_leave()
        if self._stopping is not None:
            self._shut_down(self._stopping)
        if self._unlisten is not None:
            self._unlisten()
        if self._controller is not None:
            self._controller.close(CLOSE_S)
        self._gate.close()
        self._loop.post(self._loop.stop)
        self._loop.join(CLOSE_S)
        network = self.network
        if network is not None:
            self._wait(self.thread.run(network.close()), CLOSE_S)
        self.thread.stop(CLOSE_S)
        self._store.close(CLOSE_S)

    def hurry(self) -> None:
        """A controlled shutdown that is under way is given up."""
        if self._stopping is not None:
            self._stopping.cancel()

    def _begin_to_leave(self) -> None:
        """Asks for a controlled shutdown, once, where there is to be one."""
        broker = self.machine.core.broker
        with self._leaving:
            if self._stopping is not None or not self._settings.controlled_shutdown_enable:
                return
            if broker is not None and self.machine.registration.is_registered:
                self._stopping = self.thread.run(self._hand_over(broker))

    def _shut_down(self, stopping: Future[bool]) -> None:
        broker = self.machine.core.broker
        try:
            self.thread.result(stopping)
        except CancelledError:
            log.warning(
                "broker %d: controlled shutdown given up; its session's end takes what it leads", broker
            )
        except Exception:
            log.exception("broker %d: controlled shutdown failed", broker)

    def _wait(self, future: Future[None], timeout_s: float) -> None:
        try:
            self.thread.result(future, timeout_s)
        except (CancelledError, FutureTimeoutError):
            log.warning("a part of the broker did not end in time")
        except Exception:
            log.exception("a part of the broker could not be ended")

    # --- on the event loop ------------------------------------------------------------------------

    async def _open(self, prepared: Prepared) -> Serving:
        """Opens the replicas and the port. Raises ConfigError, ConflictError."""
        parts, settings = self._parts, self._settings
        host = parts.open_host(prepared.broker, prepared.cluster_id)
        network = Network(
            prepared.broker,
            host,
            settings,
            self._clock,
            post=self._loop.post,
            listener=self._listener,
            controlled_shutdown=self._asked_to_shut_down,
            leader_failed=self._leader_failed,
            telemetry=self._telemetry,
        )
        try:
            bound_host, bound_port = await network.open(*parts.bind)
        except BaseException:
            await network.close()
            raise
        self.network = network
        for effect in self._unapplied:
            self._apply(effect)
        folder = host.incarnation if isinstance(host, DirectoryReplicaHost) else None
        return Serving(
            settings.advertised_host_name or bound_host, settings.advertised_port or bound_port, folder
        )

    def _apply(self, effect: ConfigChanged) -> None:
        """What comes while the port is being opened waits for that."""
        if self.network is None:
            self._unapplied.append(effect)
            return
        try:
            self.network.configured(effect.entity, effect.overrides)
        except ConfigError as error:
            log.warning("a configuration is not applied: %s", error)

    async def _asked_to_shut_down(self, broker: int) -> ControlledShutdownResponse:
        """A broker that stops asks the controller in this process.

        The port is open before there is a candidate; whoever knows it from an earlier life asks in vain.
        """
        if self._controller is None:
            return ControlledShutdownResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
        return await asyncio.wrap_future(self._controller.shut_down(broker))

    def _leader_failed(self, tp: TopicPartition, why: str) -> None:
        """As a broker of 0.8.2.2 halts: it leads in ZooKeeper and serves nobody, and only its end is seen.

        The others are not spared, for a controller is not asked about one partition (ADR 0018).
        """
        self._begin_to_leave()
        self._parts.fail(
            ReplicaStorageError(
                f"{tp}, which this broker led: {why}; it stops, so that others can lead: make room or mend "
                "the disk, then start it again"
            )
        )

    async def _hand_over(self, broker: int) -> bool:
        """A broker without a replica that does anything has nothing that the controller could take.

        One whose files have failed may be what the controller believes to lead.
        """
        assert self.network is not None
        replicas = await self.network.replicas()
        if all(view.role is Role.NONE and view.failure is None for view in replicas.values()):
            return True
        self.network.depart()
        return await shut_down(broker, self._find_controller, self._settings)

    async def _find_controller(self) -> Address | None:
        """As ZooKeeper says; where it does not, as the last UpdateMetadata said."""
        found: asyncio.Future[Address | None] = asyncio.get_running_loop().create_future()
        self._finding.append(found)
        self._loop.post(ControllerWanted())
        controller = None
        try:
            async with asyncio.timeout(FIND_CONTROLLER_S):
                controller = await found
        except TimeoutError:
            log.debug("ZooKeeper does not tell who is controller")
        assert self.network is not None
        return controller or self.network.cache.controller

    def _found(self, controller: Address | None) -> None:
        finding, self._finding = self._finding, []
        for future in finding:
            if not future.done():
                future.set_result(controller)

    # --- the machine's thread -----------------------------------------------------------------------

    def _perform(self, effect: BrokerEffect) -> None:
        match effect:
            case Prepared():
                opened = self.thread.run(self._open(effect))
                opened.add_done_callback(lambda future: self._loop.post(lambda: self._opened(future)))
            case Registered():
                self._registered(effect)
            case CountIsrs():
                self._on_network(lambda network: network.count(effect))
            case LookAtFollowers():
                self._on_network(lambda network: network.look(effect))
            case HoldFetches():
                self.thread.call(Network.hold, self.network)
            case FollowOn(partitions):
                self.thread.call(Network.follow_on, self.network, partitions)
            case IsrChanged(tp, leader_epoch, isr):
                self.thread.call(Network.isr_changed, self.network, tp, leader_epoch, isr)
                self._listener.on_isr(tp, leader_epoch, isr)
            case ConfigChanged():
                self._configured(effect)
            case ControllerFound(controller):
                self.thread.call(self._found, controller)
            case Failed(error):
                self._parts.fail(error)
            case Note():
                self._telemetry.note(effect)

    def _after_step(self) -> None:
        if self.network is not None and self._telemetry.is_due(self._clock.now_ms()):
            self._on_network(Network.tell)

    def _opened(self, future: Future[Serving]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is not None:
            self._parts.fail(error)
            return
        serving = future.result()
        self.serving = serving.host, serving.port
        self._loop.step(serving)

    def _registered(self, effect: Registered) -> None:
        broker, serving = self.machine.core.broker, self.serving
        assert broker is not None
        assert serving is not None
        self.thread.call(Network.registered, self.network, effect.epoch)
        self._listener.on_registered(broker, *serving, effect.epoch)
        if self._controller is None:
            parts = self._parts
            seat = Seat(
                broker,
                *serving,
                self._gate,
                self._clock,
                self._settings,
                self._listener,
                parts.metrics,
                parts.fail,
            )
            self._controller = self._parts.make_controller(seat)
            self._controller.start()
        self._gate.registered(effect.incarnation)
        self._parts.registered()

    def _on_network(self, order: Callable[[Network], Awaitable[None]]) -> None:
        network = self.network
        assert network is not None, "no partition is led before the port is open"

        async def carried_out() -> None:
            try:
                await order(network)
            except HostClosedError as error:  # nobody waits for it any more
                log.debug("not carried out: %s", error)

        self.thread.run(carried_out())

    def _configured(self, effect: ConfigChanged) -> None:
        self._listener.on_config(effect.entity, effect.overrides)
        self.thread.call(self._apply, effect)

    # --- the store's threads --------------------------------------------------------------------------

    def _on_session(self, event: SessionEvent) -> None:
        match event:
            case Suspended():
                self.thread.call(self._disconnected)
            case Lost(fatal=fatal) if fatal is not None:
                self._parts.fail(fatal)

    def _disconnected(self) -> None:
        if self.network is not None:
            cache = self.network.cache
            self._listener.on_disconnected(cache.age_ms(self._clock.now_ms()), cache.controller_epoch)
