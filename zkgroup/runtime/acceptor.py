"""A TCP server on an event loop that closes every client it accepted.

`asyncio.start_server` passes a client on some turns of the loop after it was accepted. A client between the
two when the server closes is never closed (python/cpython#109564).

* `Acceptor` passes each client on as a socket
* `over_streams` serves a client through asyncio's streams
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from zkgroup.errors import NOTHING_LEFT
from zkgroup.runtime.logs import get_logger

_log = get_logger(__name__)
_BACKLOG = 1024
"""Clients that the system accepts beforehand; those beyond wait for seconds, or are reset. All clients of a
coordinator that has failed come to the next one at once. The system may have a lower limit (somaxconn)."""
_AT_ONCE = 64
"""Most clients that are accepted in one turn of the loop."""
_PAUSE_S = 1.0
"""Seconds before the next accept after the system had no resources for one; asyncio waits as long."""
_WARNED_AGAIN_S = 60.0

Serve = Callable[[socket.socket], Awaitable[None]]
ServeStreams = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def over_streams(serve: ServeStreams, piece_bytes: int = 1 << 16) -> Serve:
    """Serves a client through streams; `piece_bytes` is asyncio's limit of a reader."""

    async def serve_socket(client: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=client, limit=piece_bytes)
        try:
            await serve(reader, writer)
        finally:
            writer.transport.abort()

    return serve_socket


class Acceptor:
    """A listening server that runs `serve` for each client in a task, and then closes the client.

    Made and used on one event loop.
    """

    def __init__(
        self, serve: Serve, has_room: Callable[[socket.socket, str], bool] = lambda client, address: True
    ) -> None:
        """
        Args:
            serve: gets a socket that does not block. It aborts the transport that it makes of it.
            has_room: whether one more client, from this address, is served; else it is closed at once.
        """
        self._serve = serve
        self._has_room = has_room
        self._listening: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._refused = 0
        """Clients that were closed and are in no warning yet."""
        self._warned_s: float | None = None

    async def start(self, host: str, port: int = 0) -> tuple[str, int]:
        """Listens on every address of the host; port 0 lets the system choose. Returns the first address.

        Raises OSError; nothing listens then.
        """
        assert not self._listening
        loop = asyncio.get_running_loop()
        self._listen(await _addresses(host, port))
        for one in self._listening:
            loop.add_reader(one, self._accept, one)
        name = self._listening[0].getsockname()
        return name[0], name[1]

    @property
    def clients(self) -> int:
        """The number of connected clients."""
        return len(self._tasks)

    @property
    def listening(self) -> Sequence[socket.socket]:
        """The sockets that it listens on."""
        return tuple(self._listening)

    def stop(self) -> None:
        """Stops listening; connected clients stay. Idempotent."""
        listening, self._listening = self._listening, []
        for one in listening:
            asyncio.get_running_loop().remove_reader(one)
            one.close()

    async def close(self) -> None:
        """Stops listening, cancels the tasks of all clients and waits for their end. Idempotent."""
        self.stop()
        for task in self._tasks:
            task.cancel()
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    def _listen(self, addresses: Iterable[tuple[int, tuple[Any, ...]]]) -> None:
        failed: OSError | None = None
        for family, address in addresses:
            try:
                self._listening.append(_listening(family, address))
            except OSError as error:
                failed = error
                if error.errno != errno.EAFNOSUPPORT:  # a kind of address that this machine lacks
                    self.stop()
                    break
        if failed is not None and not self._listening:
            raise failed

    def _accept(self, listening: socket.socket) -> None:
        """Accepts the clients that wait, up to a limit; the loop calls again for the others."""
        for _ in range(_AT_ONCE):
            try:
                client, address = listening.accept()
            except OSError as error:
                if error.errno in NOTHING_LEFT:
                    self._pause(listening, error)
                return  # none waits, or the client has left meanwhile
            self._take(client, address[0])

    def _take(self, client: socket.socket, address: str) -> None:
        if not self._has_room(client, address):
            client.close()
            self._refused += 1
            self._warn()
            return
        client.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._run(client), name="connection")
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._over(done, client))

    def _warn(self) -> None:
        """Logs clients that were closed, at most once a minute: they come again and again."""
        if self._warns():
            who = "a client was" if self._refused == 1 else f"{self._refused} clients were"
            _log.warning("%s closed: there are already %d connections", who, self.clients)
            self._refused = 0

    def _warns(self) -> bool:
        """Returns whether it is time for a warning again."""
        now_s = asyncio.get_running_loop().time()
        if self._warned_s is not None and now_s - self._warned_s < _WARNED_AGAIN_S:
            return False
        self._warned_s = now_s
        return True

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        if self._warns():
            _log.error("no client can be accepted for now: %s", error)
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        loop.call_later(_PAUSE_S, self._go_on, listening)

    def _go_on(self, listening: socket.socket) -> None:
        if listening in self._listening:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    async def _run(self, client: socket.socket) -> None:
        # As asyncio does for its own sockets; else a second response waits until the first is acknowledged.
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await self._serve(client)

    def _over(self, task: asyncio.Task[None], client: socket.socket) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            client.close()  # the task may have been cancelled before its first step
        elif (error := task.exception()) is not None:
            _log.debug("a client was lost: %r", error)


async def _addresses(host: str, port: int) -> dict[tuple[int, tuple[Any, ...]], None]:
    """The addresses of a host, in the system's order. A numeric address needs no lookup. Raises OSError."""
    kind, flags = socket.SOCK_STREAM, socket.AI_PASSIVE
    try:
        found = socket.getaddrinfo(host or None, port, type=kind, flags=flags | socket.AI_NUMERICHOST)
    except socket.gaierror:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=kind, flags=flags)
    return dict.fromkeys((family, address) for family, _, _, _, address in found)


def _listening(family: int, address: tuple[Any, ...]) -> socket.socket:
    """A socket that listens on the address. Raises OSError."""
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        one.setblocking(False)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(address)
        one.listen(_BACKLOG)
    except OSError:
        one.close()
        raise
    return one
