"""The TCP port of a broker: accepts connections and limits their buffered bytes."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Mapping

from zkgroup.broker.server.connection import Connection, ConnectionLimits, Port
from zkgroup.broker.server.connection_choice import ClusterPeers, slowest, to_make_room
from zkgroup.broker.server.handlers import Respond
from zkgroup.errors import ConfigError, ConflictError
from zkgroup.runtime.acceptor import Acceptor
from zkgroup.wire.messages import Request


class BrokerServer:
    """Serves Kafka's protocol on one TCP port. Made and used on one event loop.

    It closes the connection of a client that sends invalid bytes, is too slow, or sends a request that is not
    served; other connections are not affected.
    """

    def __init__(
        self, respond: Respond, served: Mapping[int, type[Request]], limits: ConnectionLimits | None = None
    ) -> None:
        """
        Args:
            respond: answers one request (`BrokerApis.respond`).
            served: the requests that are served, by API key; another one closes the connection.
        """
        self._limits = limits or ConnectionLimits()
        self._acceptor = Acceptor(self._serve, self._has_room)
        self._connections: dict[Connection, None] = {}
        """In the order in which they were opened."""
        self._displaced: set[Connection] = set()
        """Those that are being closed for others."""
        self._cluster = ClusterPeers()
        self._port = Port(self._limits, respond, served, self._close_slowest, self._cluster.confirmed)

    async def start(self, host: str, port: int = 0) -> tuple[str, int]:
        """Opens the port and returns its host and number; port 0 lets the system choose.

        Raises ConflictError if another process uses the port, ConfigError if the address cannot be used.
        """
        try:
            return await self._acceptor.start(host, port)
        except OSError as error:
            kind = ConflictError if error.errno == errno.EADDRINUSE else ConfigError
            raise kind(f"cannot listen on {host}:{port}: {error.strerror or error}") from error

    @property
    def held(self) -> int:
        """Buffered bytes of all connections."""
        return self._port.held

    @property
    def connections(self) -> int:
        """Number of connections."""
        return self._acceptor.clients

    async def close(self) -> None:
        """Closes the port and every connection, and waits until they are closed. Idempotent."""
        await self._acceptor.close()

    async def _serve(self, client: socket.socket) -> None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection = Connection(self._port)
        await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, client)
        self._connections[connection] = None
        try:
            await connection.serve()
        finally:
            self._connections.pop(connection, None)
            self._displaced.discard(connection)
            self._cluster.ended(connection.peer)

    def _has_room(self) -> bool:
        """Returns whether one more is taken. Where all places of clients are, another is closed for it."""
        places = self._limits.connections_max
        if self._acceptor.clients - len(self._displaced) - len(self._cluster) < places:
            return True
        clients = (each for each in reversed(self._connections) if each.peer not in self._cluster)
        goes = to_make_room(clients, asyncio.get_running_loop().time(), places)
        if goes is None:
            return False
        del self._connections[goes]
        self._displaced.add(goes)
        goes.cut_off(f"the port has {places} connections of clients, and one more came")
        return True

    def _close_slowest(self) -> None:
        """Closes the slowest connections until the total is within the limit."""
        while self.held > self._limits.buffered_bytes_max:
            if (slow := slowest(self._connections, self.held)) is None:
                return
            slow.cut_off(f"it holds {slow.held} of {self.held} bytes, and is the slowest that holds as many")
