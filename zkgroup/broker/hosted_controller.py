"""The controller, the ZooKeeper client, file descriptors and connection limits of a broker's process."""

from __future__ import annotations

import asyncio
import logging
import random
import resource
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from zkgroup.broker.log.disk_storage import OPEN_FILES_MAX
from zkgroup.broker.security_settings import SecuritySettings
from zkgroup.broker.server.port import ConnectionLimits
from zkgroup.broker.settings import BrokerSettings
from zkgroup.broker.telemetry import BrokerListener
from zkgroup.controller.channels import ChannelSettings
from zkgroup.controller.controller import Controller, ControllerNews, Loaded
from zkgroup.controller.machine.events import Resigned
from zkgroup.controller.machine.machine import ControllerMachine
from zkgroup.controller.machine.settings import ControllerAddress, ControllerSettings, ElectorConfig
from zkgroup.model.ports import Clock, MetricsSink, Store
from zkgroup.model.requests import Connected, Outcome, Request, Session, SessionEvent, Suspended
from zkgroup.runtime.logs import get_logger
from zkgroup.wire.control import controller_client_id
from zkgroup.znodes.brokers import Endpoint
from zkgroup.zookeeper import CREATOR_ACL, ClientSettings

log = get_logger("zkgroup.broker")


def open_controller(
    broker: int,
    endpoints: tuple[Endpoint, ...],
    store: Store,
    clock: Clock,
    *,
    settings: BrokerSettings,
    security: SecuritySettings,
    listener: BrokerListener,
    alone: bool = False,
    metrics: MetricsSink | None = None,
    on_failure: Callable[[BaseException], None] = lambda error: None,
    make_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> Controller:
    """Makes a controller that is not started yet.

    Args:
        broker: its broker id.
        endpoints: its advertised listeners.
        store: reports a session once the broker may take part in elections in it.
        security: how it reaches brokers, and is reached.
        alone: it has no replicas and is registered only while it is the active controller
            (`--controller-only`).
        on_failure: see `Controller`, as `make_loop`.
    """
    own = next(each for each in endpoints if each.listener == security.inter_broker.name)
    host, port = own.host or "", own.port
    are_plain = len(endpoints) == 1 and own.is_plain
    config = ElectorConfig(
        broker=broker,
        controller_only=ControllerAddress(host, port, () if are_plain else endpoints) if alone else None,
        inter_broker=security.inter_broker,
        takeover_grace_ms=settings.controller_takeover_grace_ms,
        jitter=random.random,
    )
    return Controller(
        ControllerMachine(config, controller_settings(settings)),
        store,
        clock,
        broker=broker,
        client_id=controller_client_id(broker, host, port),
        on_news=lambda news: _notify(listener, news),
        on_failure=on_failure,
        metrics=metrics,
        channels=ChannelSettings(
            socket_timeout_ms=settings.controller_socket_timeout_ms, security=security.client
        ),
        make_loop=make_loop,
    )


def controller_settings(settings: BrokerSettings) -> ControllerSettings:
    """The controller's settings from those of its broker."""
    return ControllerSettings(
        unclean_election=settings.unclean_leader_election_enable,
        delete_topics=settings.delete_topic_enable,
        auto_rebalance=settings.auto_leader_rebalance_enable,
        rebalance_interval_ms=settings.leader_imbalance_check_interval_ms,
        rebalance_percentage=settings.leader_imbalance_per_broker_percentage,
        slot_replicas=settings.offsets_topic_replication_factor,
    )


def client_settings(settings: BrokerSettings, connection: ClientSettings | None) -> ClientSettings:
    """The settings of the ZooKeeper client: credentials and TLS of `connection`, the rest of `settings`.

    Raises ConfigError for `zookeeper.set.acl` without credentials.
    """
    connection = connection or ClientSettings()
    return replace(
        connection,
        session_timeout_ms=settings.session_timeout_ms,
        connection_timeout_ms=settings.connection_timeout_ms,
        max_in_flight=settings.max_in_flight_requests,
        acl=CREATOR_ACL if settings.set_acl else connection.acl,
    )


def connection_limits(settings: BrokerSettings, shares: DescriptorShares) -> ConnectionLimits:
    """The limits of connections to the port; fewer than the setting where descriptors are kept for files."""
    return ConnectionLimits(
        connections_max=shares.connections,
        request_bytes_max=settings.socket_request_max_bytes,
        buffered_bytes_max=settings.queued_max_request_bytes,
        idle_ms=settings.connections_max_idle_ms,
        request_ms=settings.socket_request_timeout_ms,
        answer_ms=settings.socket_response_timeout_ms,
        handshake_ms=settings.ssl_handshake_timeout_ms,
    )


def descriptor_shares(settings: BrokerSettings) -> DescriptorShares:
    """Returns the shares of this process's descriptors."""
    return shared(descriptor_limit(), settings.max_connections, OPEN_FILES_MAX)


def limits_of_process(settings: BrokerSettings) -> ConnectionLimits:
    """The limits of connections to a port that is opened now; says how the descriptors are shared."""
    shares = descriptor_shares(settings)
    level = logging.WARNING if shares.connections < settings.max_connections else logging.INFO
    log.log(level, "%s", shares)
    return connection_limits(settings, shares)


def _notify(listener: BrokerListener, news: ControllerNews) -> None:
    match news:
        case Loaded(epoch, partitions, load_ms):
            listener.on_controller(epoch, partitions, load_ms)
        case Resigned(_, reason):
            listener.on_resigned(reason)


Listener = Callable[[SessionEvent], None]


class RegisteredStore:
    """A `Store` that reports a session of another store only after `registered` was called for it.

    `close` does not close the other store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.RLock()
        self._listeners: dict[object, Listener] = {}
        self._session: Session | None = None
        self._open = 0
        """Incarnation of the session in which the broker is registered."""
        self._unlisten = store.listen(self._on_session)

    def registered(self, incarnation: int) -> None:
        """Notifies listeners of this session: the broker is registered in it."""
        with self._lock:
            self._open = incarnation
            session = self._session
            if session is not None and session.incarnation == incarnation:
                self._notify(Connected(session))

    def _on_session(self, event: SessionEvent) -> None:
        with self._lock:
            self._session = event.session if isinstance(event, Connected) else None
            match event:
                case Connected(session) if session.incarnation != self._open:
                    return
                case Suspended(incarnation) if incarnation != self._open:
                    return
            self._notify(event)

    def _notify(self, event: SessionEvent) -> None:
        for listener in tuple(self._listeners.values()):
            listener(event)

    def submit(
        self,
        request: Request,
        *,
        incarnation: int,
        on_outcome: Callable[[Outcome], None],
        on_watch: Callable[[str], None] | None = None,
    ) -> None:
        """See `Store`."""
        self._store.submit(request, incarnation=incarnation, on_outcome=on_outcome, on_watch=on_watch)

    @property
    def last_zxid(self) -> int:
        """See `Store`."""
        return self._store.last_zxid

    def listen(self, listener: Listener) -> Callable[[], None]:
        """See `Store`."""
        key = object()
        with self._lock:
            self._listeners[key] = listener
            session = self._session
            if session is not None and session.incarnation == self._open:
                listener(Connected(session))

        def remove() -> None:
            with self._lock:
                self._listeners.pop(key, None)

        return remove

    def abandon(self, incarnation: int, reason: str) -> None:
        """See `Store`."""
        self._store.abandon(incarnation, reason)

    def close(self, timeout_s: float = 5.0) -> None:
        """Removes all listeners; the other store stays open."""
        self._unlisten()
        with self._lock:
            self._listeners.clear()


RESERVE: Final = 128
"""Descriptors for all else: the ZooKeeper client, fetches, the controller's channels, the files of libraries,
and connections of the controller and of followers."""


class DescriptorShares(NamedTuple):
    """The shares of the descriptors of a process."""

    limit: int | None
    """Most that the process may have; None without a limit."""
    connections: int
    """Most connections of clients."""
    files: int
    """Most files of logs that stay open."""
    reserve: int

    def __str__(self) -> str:
        if self.limit is None:
            return f"at most {self.connections} connections of clients; descriptors have no limit"
        return (
            f"at most {self.connections} connections of clients: {self.files} of {self.limit} descriptors "
            f"are kept for files of logs, and {self.reserve} for all else (ulimit -n)"
        )


def shared(limit: int | None, connections_max: int, files_max: int) -> DescriptorShares:
    """Keeps descriptors back for files before connections get the rest, at most `connections_max`.

    Of a small limit files get two fifths, and all else an eighth.
    """
    if limit is None:
        return DescriptorShares(None, connections_max, files_max, RESERVE)
    files, reserve = min(files_max, limit * 2 // 5), min(RESERVE, limit // 8)
    return DescriptorShares(limit, max(1, min(connections_max, limit - files - reserve)), files, reserve)


def descriptor_limit() -> int | None:
    """The soft limit of this process; None without one."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit() -> None:
    """Raises the soft limit of this process to its hard one, as the JVM does, where the system lets it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # no hard limit, and the system allows fewer
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
