"""A broker's port: accepts connections, bounds what they hold, and closes cleanly."""

from __future__ import annotations

import asyncio
import errno
import socket

from zkgroup.broker.connection import CHUNK_BYTES, Connection, Limits, Respond
from zkgroup.errors import ConfigError, ConflictError


class BrokerServer:
    """Serves Kafka's protocol on one TCP port. Made and used on one event loop.

    A client that sends what cannot be read, is too slow, or asks for what is not served is cut off; the
    others notice nothing. `respond` answers one request (`BrokerService.respond`).
    """

    def __init__(self, respond: Respond, limits: Limits | None = None) -> None:
        self._respond = respond
        self._limits = limits or Limits()
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], Connection] = {}
        self._closed = False

    async def start(self, host: str, port: int = 0) -> tuple[str, int]:
        """Listens; port 0 lets the system choose. Returns where it listens.

        Raises ConflictError where somebody else listens there, ConfigError where nobody can.
        """
        assert self._server is None
        assert not self._closed
        try:
            self._server = await asyncio.start_server(self._accept, host, port, limit=CHUNK_BYTES)
        except OSError as error:
            kind = ConflictError if error.errno == errno.EADDRINUSE else ConfigError
            raise kind(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
        name = self._server.sockets[0].getsockname()
        return name[0], name[1]

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    @property
    def held(self) -> int:
        """Bytes of all clients: requests that are not answered yet, answers that are not taken yet."""
        return sum(connection.held for connection in self._connections.values())

    async def close(self) -> None:
        """Stops listening and cuts every client off. Returns when nothing is left; again is no matter."""
        self._closed = True
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        while self._connections:
            await asyncio.wait(list(self._connections))
        if self._server is not None:
            await self._server.wait_closed()

    # --- connections ----------------------------------------------------------------------------

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer, self._limits, self._respond, self._make_room)
        if self._closed or len(self._connections) >= self._limits.connections_max:
            connection.cut_off(f"{len(self._connections)} connections are the most")
            return
        found: socket.socket | None = writer.get_extra_info("socket")
        if found is not None:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        task = asyncio.get_running_loop().create_task(
            connection.serve(), name=f"connection of {connection.peer}"
        )
        self._connections[task] = connection
        task.add_done_callback(self._connections.pop)

    def _make_room(self) -> None:
        """Together they hold too much: whoever holds most goes, until the rest fits."""
        while (held := self.held) > self._limits.buffered_bytes_max:
            task, most = max(self._connections.items(), key=lambda item: item[1].held)
            most.cut_off(f"it holds {most.held} of {held} bytes")
            most.held = 0
            task.cancel()
