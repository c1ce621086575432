"""The lifecycle of a broker: its parts, the effects of its machine, start, controlled shutdown and close.

    BrokerMachine   on its thread: registration, ISRs, configurations
    BrokerNetwork   on an event loop: port, replicas, fetches
    Controller      on its thread: takes part in elections once the broker is registered, in the same session
    Store           one ZooKeeper session for all

They exchange messages through queues; none waits for another.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from zkgroup.admin.configs import shown
from zkgroup.broker.admin.rows import AdminRows
from zkgroup.broker.authorizer.authorizer import Authorizer
from zkgroup.broker.controlled_shutdown import ZooKeeperAbsence, run_controlled_shutdown
from zkgroup.broker.groups.service import GroupCoordinatorService
from zkgroup.broker.hosted_controller import RegisteredStore
from zkgroup.broker.machine.events import (
    AclsChanged,
    BrokerEffect,
    BrokerEvent,
    BrokerMachineConfig,
    ConfigChanged,
    ControllerFound,
    CredentialsChanged,
    Failed,
    FindController,
    IsrChanged,
    PauseFetches,
    Prepared,
    ProducerIdsClaimed,
    ReadFollowers,
    Registered,
    ResumeFetches,
    Serving,
    SetMaximalIsrs,
)
from zkgroup.broker.machine.machine import BrokerMachine
from zkgroup.broker.network import CLOSE_S, NETWORK_CLOSE_S, BrokerNetwork
from zkgroup.broker.probing import not_in_control, probe_of
from zkgroup.broker.quotas.managers import QuotaManagers
from zkgroup.broker.replica_view import Role
from zkgroup.broker.replicas.executor import ExecutorClosedError
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.security_settings import (
    SecuritySettings,
    addresses,
    advertised,
    plain_address,
)
from zkgroup.broker.server.metadata_cache import MetadataCache
from zkgroup.broker.server.peer_claim_checker import PeerClaimChecker
from zkgroup.broker.settings import BrokerSettings
from zkgroup.broker.telemetry import BrokerListener, BrokerTelemetry
from zkgroup.controller.controller import Controller
from zkgroup.errors import ConfigError, ReplicaStorageError
from zkgroup.metrics.probes import Probe
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock, MetricsSink, Store
from zkgroup.model.requests import Connected, Lost, SessionEvent, Suspended
from zkgroup.runtime.events import LogEvent
from zkgroup.runtime.logs import get_logger, limited
from zkgroup.runtime.loop import LoopThread, MachineLoop
from zkgroup.security.sasl import ScramUsers
from zkgroup.wire.control import BrokerEndPoint as Address
from zkgroup.wire.control import ControlledShutdownRequest, ControlledShutdownResponse
from zkgroup.wire.messages import ErrorCode
from zkgroup.znodes.brokers import Endpoint

if TYPE_CHECKING:
    from zkgroup.broker.admin.apis import AdminApis

log = get_logger("zkgroup.broker")

FIND_CONTROLLER_S: Final = 2.0


MakeLoop = Callable[[], asyncio.AbstractEventLoop]


MakeController = Callable[..., Controller]
"""`open_controller`, or another with the same arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerComponents:
    """The parts and settings of a `BrokerLifecycle`."""

    store: Store
    """Closed with the broker."""
    clock: Clock
    config: BrokerMachineConfig
    settings: BrokerSettings
    listener: BrokerListener
    security: SecuritySettings
    """The listeners."""
    open_replicas: Callable[[int, str | None], ReplicaManager]
    """Opens the replicas, given the broker id and the cluster id."""
    log_dir: str
    """The path of the data directory, as clients are told."""
    zookeeper: str | None
    """The address of ZooKeeper; None where the store was given."""
    make_controller: MakeController
    metrics: MetricsSink | None
    fail: Callable[[BaseException], None]
    """Receives the error that stops the broker. Called on any thread; it must only store the error."""
    registered: Callable[[], None]
    make_loop: MakeLoop | None = None
    """Makes the event loops of the network and of the controller's connections; None: asyncio's own."""


class BrokerLifecycle:
    """Starts and closes the parts of one broker. `start` and `close` are called once each.

    `hurry` may be called from any thread.
    """

    def __init__(self, parts: BrokerComponents) -> None:
        self._parts = parts
        self._store, self._clock = parts.store, parts.clock
        self._settings, self._listener = parts.settings, parts.listener
        self.machine = BrokerMachine(parts.config)
        self.thread = LoopThread("zkgroup-broker-network", parts.clock, parts.make_loop)
        self.network: BrokerNetwork | None = None
        self.endpoints: tuple[Endpoint, ...] | None = None
        """The advertised listeners; None before the broker listens."""
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
        self._registered_store = RegisteredStore(parts.store)
        self._controller: Controller | None = None
        self._opening: asyncio.Task[Any] | None = None
        self._controller_lock = threading.Lock()
        self._is_closing = False
        """True if no controller may be made any more; guarded by the lock."""
        self._unapplied: list[ConfigChanged] = []
        self._users = ScramUsers()
        settings = parts.security.authorizer
        self._authorizer = None if settings is None else Authorizer(settings, parts.clock)
        """Used on the event loop; None without one."""
        self._controller_waiters: list[asyncio.Future[Address | None]] = []
        self._shutdown_lock = threading.Lock()
        self._controlled_shutdown: Future[bool] | None = None
        """The controlled shutdown; None before it begins."""
        self._absence = ZooKeeperAbsence(self._settings.session_timeout_ms, self._give_up_shutdown)
        self._unlisten: Callable[[], None] | None = None

    @property
    def is_started(self) -> bool:
        """Returns whether all its threads run."""
        return self._unlisten is not None

    def start(self) -> None:
        """Starts the event loop and the machine; the machine's effects start the other parts."""
        self.thread.start()
        self._unlisten = self._store.listen(self._on_session)
        self._loop.listen()
        self._loop.start()

    def close(self, *, gently: bool) -> None:
        """Closes every part, even if closing one fails.

        `gently`: begins a controlled shutdown first. A controlled shutdown in progress is always waited for.
        """
        if gently:
            self._begin_controlled_shutdown()
        if self._controlled_shutdown is not None:
            self._shut_down(self._controlled_shutdown)
        self._close_parts(abandon=False)
        self._store.close(CLOSE_S)

    def kill(self) -> None:
        """Closes every part as the end of the process would: nothing more is written, anywhere."""
        self.hurry()
        self._store.close(CLOSE_S)
        self._close_parts(abandon=True)

    def _close_parts(self, *, abandon: bool) -> None:
        if self._unlisten is not None:
            self._unlisten()
        with self._controller_lock:
            self._is_closing = True
            controller = self._controller
        if controller is not None:
            self._close_part("controller", lambda: controller.close(CLOSE_S))
        self._registered_store.close()
        self._loop.post(self._loop.stop)
        self._close_part("machine", lambda: self._loop.join(CLOSE_S))
        network = self.thread.run(self._close_network(abandon=abandon))
        self._close_part("network", lambda: self.thread.result(network, NETWORK_CLOSE_S))
        self._close_part("event loop", lambda: self.thread.stop(CLOSE_S))
        if (opened := self.network) is not None:
            self._close_part("replicas", lambda: opened.end_replicas(CLOSE_S, abandon=abandon))

    def _close_part(self, part: str, close: Callable[[], bool | None]) -> None:
        """Closes a part. It is logged that it is late or fails: those behind it are closed all the same."""
        broker = self.machine.core.broker
        try:
            is_late = close() is False
        except (CancelledError, FutureTimeoutError):
            is_late = True
        except Exception:
            log.exception("broker %s: its %s could not be closed", broker, part)
            return
        if is_late:
            log.warning("broker %s: its %s did not close in time", broker, part)

    def probe(self, *, failure: BaseException | None, is_leaving: bool) -> Probe:
        """Its answer to a probe; see `probe_of`."""
        broker, controller = self.machine.core.broker, self._controller
        not_loaded = self.thread.run(self._not_loaded())
        beats: dict[str, Future[Any]] = {"machine": self._loop.beat(), "network": not_loaded}
        if controller is not None:
            beats |= controller.beats()
        return probe_of(
            f"broker {broker}",
            "starts" if self.endpoints is None else f"serves {', '.join(addresses(self.endpoints).values())}",
            beats,
            failure=failure,
            is_leaving=is_leaving,
            not_ready=lambda: self._not_registered() or not_loaded.result() or not_in_control(controller),
        )

    async def _not_loaded(self) -> str | None:
        return None if self.network is None else self.network.not_loaded()

    def _not_registered(self) -> str | None:
        if self.endpoints is None:
            return "its port is not open yet"
        registration = self.machine.registration
        if not registration.is_registered:
            return f"is not registered at {registration.path}"
        return str(self._absence) if self._absence.is_long else None

    def hurry(self) -> None:
        """Cancels a controlled shutdown in progress."""
        if self._controlled_shutdown is not None:
            self._controlled_shutdown.cancel()

    def _begin_controlled_shutdown(self) -> None:
        """Begins the controlled shutdown once, if it is enabled and the broker is registered."""
        broker = self.machine.core.broker
        with self._shutdown_lock:
            if self._controlled_shutdown is not None or not self._settings.controlled_shutdown_enable:
                return
            if self._absence.is_long:
                log.warning("broker %s: no controlled shutdown, %s", broker, self._absence)
            elif broker is not None and self.machine.registration.is_registered:
                self._controlled_shutdown = self.thread.run(self._request_controlled_shutdown(broker))

    def _shut_down(self, stopping: Future[bool]) -> None:
        broker = self.machine.core.broker
        try:
            self.thread.result(stopping)
        except CancelledError:
            log.warning(
                "broker %d: controlled shutdown given up; new leaders are elected when its session ends",
                broker,
            )
        except Exception:
            log.exception("broker %d: controlled shutdown failed", broker)

    async def _close_network(self, *, abandon: bool) -> None:
        """Closes the port and the replicas, also those that are being opened."""
        opening = self._opening
        if opening is not None and not opening.done():
            opening.cancel()
            await asyncio.wait([opening])
        if self.network is not None:
            await self.network.close(abandon=abandon)

    async def _open(self, prepared: Prepared) -> Serving:
        """Opens the replicas and the port. Raises ConfigError, ConflictError."""
        self._opening = asyncio.current_task()
        parts, settings = self._parts, self._settings
        host = parts.open_replicas(prepared.broker, prepared.cluster_id)
        started: dict[str, str] = {}
        network = BrokerNetwork(
            prepared.broker,
            host,
            settings,
            self._clock,
            post=self._loop.post,
            listener=self._listener,
            controlled_shutdown=self._on_controlled_shutdown,
            leader_failed=self._leader_failed,
            telemetry=self._telemetry,
            claims=PeerClaimChecker(self._store),
            log_dir=parts.log_dir,
            cluster_id=prepared.cluster_id,
            make_admin_rows=lambda metadata, quotas: AdminRows(
                lambda: self._admin_apis(metadata, quotas, prepared.broker, started)
            ),
            groups=GroupCoordinatorService(
                prepared.broker,
                self._store,
                self._clock,
                settings,
                on_crash=parts.fail,
                on_log=self._telemetry.groups.note,
            ),
            security=parts.security,
            logins=parts.security.logins(self._users, _warn),
            authorizer=self._authorizer,
        )
        try:
            listeners = await network.open(parts.security.listeners.listeners)
        except BaseException:
            await network.close()
            raise
        self.network = network
        for effect in self._unapplied:
            self._apply(effect)
        endpoints = advertised(listeners)
        started |= {
            "host.name": listeners[0].host,
            "port": str(listeners[0].port),
            "listeners": ",".join(
                Endpoint(each.name, each.host, each.port, each.protocol).text for each in listeners
            ),
            "advertised.listeners": ",".join(each.text for each in endpoints),
            "log.dirs": parts.log_dir,
            **parts.security.described(),
        }
        if parts.zookeeper is not None:
            started["zookeeper.connect"] = parts.zookeeper
        return Serving(endpoints, host.folder_id)

    def _admin_apis(
        self, metadata: MetadataCache, quotas: QuotaManagers, broker: int, started: Mapping[str, str]
    ) -> AdminApis:
        from zkgroup.broker.admin.apis import AdminApis

        return AdminApis(
            self._store,
            self._clock,
            metadata,
            broker=broker,
            settings=self._settings,
            started=started,
            mutations=quotas.controller_mutation,
            acls=None if self._authorizer is None else self._authorizer.cache,
        )

    def _configured(self, effect: ConfigChanged | CredentialsChanged | AclsChanged) -> None:
        match effect:
            case CredentialsChanged(user, credentials):
                self._users.changed(user, credentials)
            case AclsChanged():
                self.thread.call(self._acls_changed, effect)
            case ConfigChanged(entity, overrides):
                self._listener.on_config(entity, shown(overrides))
                self.thread.call(self._apply, effect)

    def _acls_changed(self, effect: AclsChanged) -> None:
        assert self._authorizer is not None
        self._authorizer.change(effect.acls)
        if self.network is not None:
            self.network.acls_changed()

    def _apply(self, effect: ConfigChanged) -> None:
        """Applies a configuration; one that arrives before the port is open is applied after that."""
        if self.network is None:
            self._unapplied.append(effect)
            return
        try:
            self.network.configured(effect.entity, effect.overrides)
        except ConfigError as error:
            log.warning("a configuration is not applied: %s", error)

    async def _on_controlled_shutdown(self, broker: int) -> ControlledShutdownResponse:
        """Asks the controller in this process for the controlled shutdown of a broker.

        The port opens before this process has a controller. Until then the request is refused: its sender
        knows this broker as controller from an earlier session.
        """
        if self._controller is None:
            return ControlledShutdownResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
        return await asyncio.wrap_future(self._controller.shut_down(broker))

    def _leader_failed(self, tp: TopicPartition, why: str) -> None:
        """Stops the broker because the log of a partition that it leads has failed; 0.8.2.2 halts as well.

        It leads that partition in ZooKeeper but cannot serve it, and the controller elects another leader
        only when the session ends. The other partitions stop too: a broker cannot ask the controller for the
        election of a single partition (ADR 0018).
        """
        self._begin_controlled_shutdown()
        self._parts.fail(
            ReplicaStorageError(
                f"{tp}, which this broker led: {why}; it stops, so that others can lead: free space or "
                "repair the disk, then start it again"
            )
        )

    async def _request_controlled_shutdown(self, broker: int) -> bool:
        """Asks the controller for a controlled shutdown; returns whether it is complete.

        A broker whose replicas have no role needs none. A failed replica counts: the controller may still
        regard it as the leader.
        """
        network = self.network
        assert network is not None
        replicas = await network.replicas()
        if all(view.role is Role.NONE and view.failure is None for view in replicas.values()):
            return True
        network.end_fetches()
        epoch = self.machine.registration.epoch
        request = ControlledShutdownRequest(broker, -1 if epoch is None else epoch)
        return await run_controlled_shutdown(
            request,
            self._find_controller,
            self._settings,
            network.wait_while_others_live,
            self._parts.security.client,
        )

    async def _find_controller(self) -> Address | None:
        """The controller's address from ZooKeeper; without an answer, from the last UpdateMetadata."""
        found: asyncio.Future[Address | None] = asyncio.get_running_loop().create_future()
        self._controller_waiters.append(found)
        self._loop.post(FindController())
        controller = None
        try:
            async with asyncio.timeout(FIND_CONTROLLER_S):
                controller = await found
        except TimeoutError:
            log.debug("ZooKeeper did not return the controller in time")
        assert self.network is not None
        return controller or self.network.cache.controller

    def _take_result(self, result: ControllerFound | ProducerIdsClaimed) -> None:
        """Passes the result of an event on to what waits for it."""
        if isinstance(result, ControllerFound):
            self._found(result.controller)
        elif self.network is not None:
            self.network.producer_ids_claimed(result)

    def _found(self, controller: Address | None) -> None:
        finding, self._controller_waiters = self._controller_waiters, []
        for future in finding:
            if not future.done():
                future.set_result(controller)

    def _perform(self, effect: BrokerEffect) -> None:
        match effect:
            case Prepared():
                opened = self.thread.run(self._open(effect))
                opened.add_done_callback(lambda future: self._loop.post(lambda: self._opened(future)))
            case Registered():
                self._registered(effect)
            case SetMaximalIsrs():
                self._on_network(lambda network: network.set_maximal_isrs(effect))
            case ReadFollowers():
                self._on_network(lambda network: network.read_followers(effect))
            case PauseFetches():
                self.thread.call(BrokerNetwork.pause_fetches, self.network)
            case ResumeFetches(partitions):
                self.thread.call(BrokerNetwork.resume_fetches, self.network, partitions)
            case IsrChanged(tp, leader_epoch, isr):
                self.thread.call(BrokerNetwork.isr_changed, self.network, tp, leader_epoch, isr)
                self._listener.on_isr(tp, leader_epoch, isr)
            case ConfigChanged() | CredentialsChanged() | AclsChanged():
                self._configured(effect)
            case ControllerFound() | ProducerIdsClaimed():
                self.thread.call(self._take_result, effect)
            case Failed(error):
                self._parts.fail(error)
            case LogEvent():
                self._telemetry.note(effect)

    def _after_step(self) -> None:
        if self.network is not None and self._telemetry.is_due(self._clock.now_ms()):
            self._on_network(BrokerNetwork.report_metrics)

    def _opened(self, future: Future[Serving]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is not None:
            self._parts.fail(error)
            return
        serving = future.result()
        self.endpoints = serving.endpoints
        self._loop.step(serving)

    def _registered(self, effect: Registered) -> None:
        broker, endpoints = self.machine.core.broker, self.endpoints
        assert broker is not None
        assert endpoints is not None
        self.thread.call(BrokerNetwork.registered, self.network, effect.epoch)
        self._listener.on_registered(broker, *plain_address(endpoints), effect.epoch, addresses(endpoints))
        self._make_controller(broker, endpoints)
        self._registered_store.registered(effect.incarnation)
        self._parts.registered()

    def _make_controller(self, broker: int, endpoints: tuple[Endpoint, ...]) -> None:
        """Starts the controller of this process, once, unless the broker is closing meanwhile."""
        with self._controller_lock:
            if self._controller is not None or self._is_closing:
                return
            parts = self._parts
            self._controller = parts.make_controller(
                broker,
                endpoints,
                self._registered_store,
                self._clock,
                settings=self._settings,
                security=parts.security,
                listener=self._listener,
                metrics=parts.metrics,
                on_failure=parts.fail,
                make_loop=parts.make_loop,
            )
            self._controller.start()

    def _on_network(self, order: Callable[[BrokerNetwork], Awaitable[None]]) -> None:
        network = self.network
        assert network is not None, "no partition is led before the port is open"

        async def carried_out() -> None:
            try:
                await order(network)
            except ExecutorClosedError as error:  # the broker is closing
                log.debug("not carried out: %s", error)

        self.thread.run(carried_out())

    def _on_session(self, event: SessionEvent) -> None:
        match event:
            case Connected(session):
                self.thread.call(self._absence.connected, session)
            case Suspended():
                self.thread.call(self._disconnected)
            case Lost(fatal=fatal) if fatal is not None:
                self._parts.fail(fatal)

    def _disconnected(self) -> None:
        self._absence.disconnected()
        if self._authorizer is not None:
            self._authorizer.disconnected()
        if self.network is not None:
            cache = self.network.cache
            self._listener.on_disconnected(cache.age_ms(self._clock.now_ms()), cache.controller_epoch)

    def _give_up_shutdown(self) -> None:
        if self._controlled_shutdown is not None and not self._controlled_shutdown.done():
            log.warning("broker %s: %s", self.machine.core.broker, self._absence)
            self._controlled_shutdown.cancel()


def _warn(fault: str) -> None:
    log.warning("users are as they were: %s", fault, extra=limited())
