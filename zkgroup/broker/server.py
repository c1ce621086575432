"""A broker's port: accepts connections, bounds what they hold, and closes cleanly."""

from __future__ import annotations

import asyncio
import errno
import socket

from zkgroup.broker.connection import CHUNK_BYTES, Connection, Limits, Respond
from zkgroup.errors import ConfigError, ConflictError
from zkgroup.machinery.acceptor import Acceptor


class BrokerServer:
    """Serves Kafka's protocol on one TCP port. Made and used on one event loop.

    A client that sends what cannot be read, is too slow, or asks for what is not served is cut off; the
    others notice nothing. `respond` answers one request (`BrokerService.respond`).
    """

    def __init__(self, respond: Respond, limits: Limits | None = None) -> None:
        self._respond = respond
        self._limits = limits or Limits()
        self._acceptor = Acceptor(
            self._serve, clients_max=self._limits.connections_max, piece_bytes=CHUNK_BYTES
        )
        self._connections: dict[Connection, asyncio.Task[None] | None] = {}
        self.held = 0
        """Bytes of all clients: requests that are not answered yet, answers that are not taken yet."""

    async def start(self, host: str, port: int = 0) -> tuple[str, int]:
        """Listens; port 0 lets the system choose. Returns where it listens.

        Raises ConflictError where somebody else listens there, ConfigError where nobody can.
        """
        try:
            return await self._acceptor.start(host, port)
        except OSError as error:
            kind = ConflictError if error.errno == errno.EADDRINUSE else ConfigError
            raise kind(f"cannot listen on {host}:{port}: {error.strerror or error}") from error

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return self._acceptor.clients

    async def close(self) -> None:
        """Stops listening and cuts every client off. Returns when nothing is left; again is no matter."""
        await self._acceptor.close()

    # --- connections ----------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client: socket.socket = writer.get_extra_info("socket")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection = Connection(reader, writer, self._limits, self._respond, self._on_held)
        self._connections[connection] = asyncio.current_task()
        try:
            await connection.serve()
        finally:
            del self._connections[connection]

    def _on_held(self, more: int) -> None:
        """Together they hold too much: whoever holds most goes, until the rest fits."""
        self.held += more
        while self.held > self._limits.buffered_bytes_max:
            most, task = max(self._connections.items(), key=lambda item: item[0].held)
            most.cut_off(f"it holds {most.held} of {self.held} bytes")
            if task is not None:
                task.cancel()
