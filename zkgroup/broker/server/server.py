"""The listeners of a broker: they accept connections and limit their buffered bytes."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from zkgroup.broker.quotas.connections import ConnectionQuotas
from zkgroup.broker.quotas.levels import CONNECTION_RATE
from zkgroup.broker.request_time import RequestTime
from zkgroup.broker.server.connection import Connection
from zkgroup.broker.server.connection_choice import CLUSTER_MAX, ClusterPeers, slowest, to_make_room
from zkgroup.broker.server.handlers import Respond
from zkgroup.broker.server.handshakes import Handshakes, TlsListener
from zkgroup.broker.server.logins import Login, SaslListener
from zkgroup.broker.server.port import CameBy, ConnectionLimits, Port, nothing
from zkgroup.errors import ConfigError, ConflictError
from zkgroup.model.values import PLAINTEXT
from zkgroup.runtime.acceptor import Acceptor
from zkgroup.runtime.logs import get_logger, limited
from zkgroup.security.listeners import Listener
from zkgroup.wire.messages import Request

_log = get_logger("zkgroup.broker")

WAITING_MAX: Final = 100
"""Most clients beyond their rate that are kept until they are closed; more are closed at once."""


class BrokerServer:
    """Serves Kafka's protocol on the listeners of a broker. Made and used on one event loop.

    It closes the connection of a client that sends invalid bytes, is too slow, or sends a request that is not
    served; other connections are not affected.
    """

    def __init__(
        self,
        respond: Respond,
        served: Mapping[int, type[Request]],
        limits: ConnectionLimits | None = None,
        *,
        inter_broker: str = PLAINTEXT,
        logins: Mapping[str, SaslListener] | None = None,
        tls: Mapping[str, TlsListener] | None = None,
        quotas: ConnectionQuotas | None = None,
        first_time: Callable[[], RequestTime | None] = lambda: None,
    ) -> None:
        """
        Args:
            respond: answers one request (`BrokerApis.respond`).
            served: the requests that are served, by API key; another one closes the connection.
            limits: of all listeners together.
            inter_broker: the listener of brokers and controllers. Where there are others, its connections do
                not count for the limit of clients, as in Kafka; `ClusterPeers` bounds them.
            logins: those of the listeners with SASL, by name.
            tls: of each listener with TLS, by its name.
            quotas: of addresses; None for addresses without any.
            first_time: see `Throttles.first_time`.
        """
        self._limits = limits or ConnectionLimits()
        self._tls = tls or {}
        self._handshakes = Handshakes(self._limits)
        self._inter_broker = inter_broker
        self._logins = logins or {}
        self._quotas = quotas
        self._taken: dict[socket.socket, str] = {}
        """Clients that are not served yet, with their address."""
        self._waiting: dict[socket.socket, float] = {}
        """Clients of addresses beyond their rate, with the seconds after which each is closed."""
        self._acceptors: list[Acceptor] = []
        self._connections: dict[Connection, None] = {}
        """In the order in which they were opened."""
        self._displaced: set[Connection] = set()
        """Those that are being closed for others."""
        self._cluster = ClusterPeers()
        self._port = Port(
            self._limits, respond, served, self._close_slowest, self._cluster.confirmed, first_time
        )

    async def start(self, listeners: Iterable[Listener]) -> tuple[Listener, ...]:
        """Opens the listeners and returns them with their ports; port 0 lets the system choose.

        Raises ConflictError if another process uses a port, ConfigError if an address cannot be used; then
        none is open.
        """
        opened = []
        for each in listeners:
            acceptor = Acceptor(partial(self._serve, each), partial(self._takes, each))
            try:
                opened.append(each.bound(*await acceptor.start(each.host, each.port)))
            except OSError as error:
                for one in self._acceptors:
                    one.stop()
                kind = ConflictError if error.errno == errno.EADDRINUSE else ConfigError
                where = f"{each.host}:{each.port}"
                raise kind(f"cannot listen on {where}: {error.strerror or error}") from error
            self._acceptors.append(acceptor)
        return tuple(opened)

    @property
    def held(self) -> int:
        """Buffered bytes of all connections."""
        return self._port.held

    @property
    def connections(self) -> int:
        """Number of connections."""
        return sum(each.clients for each in self._acceptors)

    async def close(self) -> None:
        """Closes the listeners and every connection, and waits until they are closed. Idempotent."""
        for each in self._acceptors:
            await each.close()

    async def _serve(self, listener: Listener, client: socket.socket) -> None:
        if (wait_s := self._waiting.get(client)) is not None:
            try:
                await asyncio.sleep(wait_s)
            finally:
                del self._waiting[client]
                client.close()
        elif self._quotas is None:
            await self._serve_taken(listener, client)
        else:
            address = self._taken.pop(client)
            try:
                await self._serve_taken(listener, client)
            finally:
                self._quotas.closed(address)

    async def _serve_taken(self, listener: Listener, client: socket.socket) -> None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        is_inter_broker = listener.name == self._inter_broker
        sasl = self._logins.get(listener.name)
        came_by = CameBy(
            listener.name,
            is_inter_broker,
            is_tls=listener.uses_tls,
            login=None if sasl is None else Login(sasl),
            on_logged_in=self._cluster.confirmed if self._is_of_cluster(listener) else nothing,
        )
        connection = Connection(self._port, came_by)
        if (tls := self._tls.get(listener.name)) is None:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, client)
        elif not await self._handshakes.run(tls, connection, client, listener):
            return
        self._connections[connection] = None
        if sasl is None and self._is_of_cluster(listener):
            self._cluster.confirmed(connection.peer)
        try:
            await connection.serve()
        finally:
            self._connections.pop(connection, None)
            self._displaced.discard(connection)
            self._cluster.ended(connection.peer)

    def _is_of_cluster(self, listener: Listener) -> bool:
        """Returns whether only brokers and controllers are to come by this listener."""
        return listener.name == self._inter_broker and len(self._acceptors) > 1

    def _takes(self, listener: Listener, client: socket.socket, address: str) -> bool:
        """Returns whether a client is taken; one of an address beyond its rate to be closed a little later.

        It would else come again at once. Such clients take no place of others.
        """
        if (quotas := self._quotas) is None:
            return self._has_room(listener)
        if wait_ms := quotas.throttle_ms(address, int(asyncio.get_running_loop().time() * 1000)):
            _log.info("%s opens more connections than %s allows", address, CONNECTION_RATE, extra=limited())
            if len(self._waiting) < WAITING_MAX:
                self._waiting[client] = wait_ms / 1000
            return client in self._waiting
        if not quotas.has_place(address):
            _log.info(
                "%s has as many connections as it may: a further one is closed", address, extra=limited()
            )
            return False
        if not self._has_room(listener):
            return False
        quotas.opened(address)
        self._taken[client] = address
        return True

    def _has_room(self, listener: Listener) -> bool:
        """Returns whether one more is taken. Where all places of clients are, another is closed for it."""
        if listener.uses_tls and self._handshakes.are_full:
            self._handshakes.cut_one()
        is_known = self._is_of_cluster(listener) and listener.name not in self._logins
        if is_known and len(self._cluster) < CLUSTER_MAX:
            return True
        places = self._limits.connections_max
        closing = len(self._displaced) + self._handshakes.cut + len(self._waiting)
        if self.connections - closing - len(self._cluster) < places:
            return True
        clients = (each for each in reversed(self._connections) if each.peer not in self._cluster)
        goes = to_make_room(clients, asyncio.get_running_loop().time(), places)
        if goes is None:
            return self._handshakes.cut_one()
        del self._connections[goes]
        self._displaced.add(goes)
        goes.cut_off(f"the broker has {places} connections of clients, and one more came")
        return True

    def _close_slowest(self) -> None:
        """Closes the slowest connections until the total is within the limit."""
        while self.held > self._limits.buffered_bytes_max:
            if (slow := slowest(self._connections, self.held)) is None:
                return
            slow.cut_off(f"it holds {slow.held} of {self.held} bytes, and is the slowest that holds as many")
