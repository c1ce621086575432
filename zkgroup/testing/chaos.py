"""A TCP proxy in front of real servers that cuts, delays, withholds and drops on demand.

It understands ZooKeeper's framing (a length before each packet) and just enough of the packets to know
the kind of a request, its reply, and a session's id and password. It runs in one thread of its own; all
methods of `ChaosZooKeeper` are called from the test's thread and return when the fault is in force.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, Self, TypeVar

from zkgroup.zookeeper.embedded import EmbeddedZooKeeper, probe
from zkgroup.zookeeper.embedded.ports import HOST

Kind = Literal["create", "delete", "exists", "read", "set", "list", "sync", "multi", "multi_read"]
_OPCODES: dict[Kind, tuple[int, ...]] = {  # ZooDefs.OpCode@3.9.5
    "create": (1, 15),
    "delete": (2,),
    "exists": (3,),
    "read": (4,),
    "set": (5,),
    "list": (8, 12),
    "sync": (9,),
    "multi": (14,),
    "multi_read": (22,),
}
_CALL_S = 10.0
_LARGEST_FRAME = 1 << 26

T = TypeVar("T")


class Dropped:
    """Tells whether an armed `drop_reply` or `drop_request` has hit."""

    def __init__(self, opcodes: tuple[int, ...], *, executed: bool) -> None:
        self.opcodes = opcodes
        self.executed = executed
        self._hit = threading.Event()

    def hit(self) -> None:
        self._hit.set()

    def wait(self, timeout_s: float = 10.0) -> None:
        """Raises TimeoutError when no such request came."""
        if not self._hit.wait(timeout_s):
            raise TimeoutError(f"no request of kind {self.opcodes} in {timeout_s:g} s")


class _Way:
    """One direction of all connections: open or withheld, and how slow."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.delay_s = 0.0


@dataclass(eq=False)
class _Connection:
    """A client's connection and the one made for it to the server."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    session_id: int = 0
    password: bytes = b""
    doomed: dict[int, Dropped] = field(default_factory=dict)
    """xid of requests whose reply must not arrive."""

    def abort(self) -> None:
        for writer in (self.client, self.server):
            writer.transport.abort()


class _Proxy:
    """In front of one server. Everything here runs on the loop's thread."""

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self.to_server, self.to_client = _Way(), _Way()
        self.refusing = False
        self.armed: Dropped | None = None
        self.connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None

    async def start(self) -> int:
        """The port that clients use."""
        self._listener = await asyncio.start_server(self._accept, HOST, 0, limit=_LARGEST_FRAME)
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        self.cut()
        for way in (self.to_server, self.to_client):
            way.open.set()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def cut(self) -> None:
        for connection in list(self.connections):
            connection.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if not self.refusing:
                await self._serve(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # either end has gone, or the proxy stops
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(
            HOST, self.server_port, limit=_LARGEST_FRAME
        )
        connection = _Connection(writer, server_writer)
        self.connections.add(connection)
        pumps = [
            asyncio.create_task(self._pump(connection, reader, server_writer, self.to_server)),
            asyncio.create_task(self._pump(connection, server_reader, writer, self.to_client)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            connection.abort()
            self.connections.discard(connection)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(
        self, connection: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: _Way
    ) -> None:
        """Passes frames on. Reading and writing apart, so that a delay slows nothing down."""
        due: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue()
        sender = asyncio.create_task(self._send(connection, due, writer, way))
        try:
            first = True
            while (frame := await _read_frame(reader)) is not None:
                self._look(connection, frame, way, first)
                due.put_nowait((asyncio.get_running_loop().time() + way.delay_s, frame))
                first = False
            due.put_nowait(None)
            await sender
        finally:
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)

    def _look(self, connection: _Connection, frame: bytes, way: _Way, first: bool) -> None:
        """Notes sessions and arms the drop of a reply."""
        if first:
            if way is self.to_client and len(frame) >= 24:
                connection.session_id, length = struct.unpack_from(">qi", frame, 12)
                connection.password = frame[24 : 24 + length]
        elif way is self.to_server and self.armed is not None:
            xid, opcode = struct.unpack_from(">ii", frame, 4)
            if opcode in self.armed.opcodes:
                connection.doomed[xid] = self.armed
                self.armed = None

    async def _send(
        self,
        connection: _Connection,
        due: asyncio.Queue[tuple[float, bytes] | None],
        writer: asyncio.StreamWriter,
        way: _Way,
    ) -> None:
        loop = asyncio.get_running_loop()
        while (item := await due.get()) is not None:
            at, frame = item
            await asyncio.sleep(max(0.0, at - loop.time()))
            await way.open.wait()
            doom = connection.doomed.get(struct.unpack_from(">i", frame, 4)[0]) if len(frame) > 8 else None
            if doom is not None and doom.executed is (way is self.to_client):
                connection.abort()
                doom.hit()
                return
            writer.write(frame)
            await writer.drain()


async def _read_frame(reader: asyncio.StreamReader) -> bytes | None:
    """A packet with its length in front; None at the end. A four-letter command passes as it is."""
    try:
        head = await reader.readexactly(4)
        (length,) = struct.unpack(">i", head)
        if not 0 <= length < _LARGEST_FRAME:
            return head + await reader.read(_LARGEST_FRAME)
        return head + await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


class ChaosZooKeeper:
    """Real servers with a proxy in front of each client port. A context manager."""

    def __init__(self, zookeeper: EmbeddedZooKeeper, chroot: str = "") -> None:
        """`zookeeper` must run. It is not stopped at the end, only brought back to health."""
        self.zookeeper = zookeeper
        self.chroot = chroot
        self._proxies = [_Proxy(server.port) for server in zookeeper.servers]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="zkgroup-chaos", daemon=True)
        self._ports: list[int] = []

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _call(self, work: Callable[[], Awaitable[T]]) -> T:
        async def run() -> T:
            return await work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(_CALL_S)

    def _do(self, act: Callable[[_Proxy], object], server: int | None = None) -> None:
        """On the loop's thread, for one proxy or all."""

        async def work() -> None:
            for number, proxy in enumerate(self._proxies):
                if server in (None, number):
                    act(proxy)

        self._call(work)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ports = [self._call(proxy.start) for proxy in self._proxies]
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for proxy in self._proxies:
                self._call(proxy.stop)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_CALL_S)
            self._loop.close()
        self.heal_servers()

    @property
    def addresses(self) -> tuple[str, ...]:
        """`host:port` of the proxy before each server, without chroot."""
        return tuple(f"{HOST}:{port}" for port in self._ports)

    @property
    def address(self) -> str:
        """The connection string through the proxies."""
        return ",".join(self.addresses) + self.chroot

    @property
    def direct_address(self) -> str:
        """The connection string past the proxies: for a witness."""
        return self.zookeeper.address + self.chroot

    # --- the network ------------------------------------------------------------------------------

    def cut(self, server: int | None = None, *, refuse: bool = False) -> None:
        """Resets all connections. With `refuse`, new ones are reset as well until `heal`."""

        def act(proxy: _Proxy) -> None:
            proxy.refusing = refuse
            proxy.cut()

        self._do(act, server)

    def delay(
        self, seconds: float, *, to_server: bool = True, to_client: bool = True, server: int | None = None
    ) -> None:
        """Every packet takes this much longer, until `heal`."""

        def act(proxy: _Proxy) -> None:
            proxy.to_server.delay_s = seconds if to_server else 0.0
            proxy.to_client.delay_s = seconds if to_client else 0.0

        self._do(act, server)

    def swallow(self, *, to_server: bool = True, to_client: bool = True, server: int | None = None) -> None:
        """Connections stay open and nothing arrives, until `heal`.

        What was withheld then arrives late, as TCP would send it again.
        """

        def act(proxy: _Proxy) -> None:
            for way, held in ((proxy.to_server, to_server), (proxy.to_client, to_client)):
                if held:
                    way.open.clear()

        self._do(act, server)

    def heal(self, *, cut: bool = False) -> None:
        """The network is as before. With `cut`, what was withheld is lost with its connections."""

        def act(proxy: _Proxy) -> None:
            if cut:
                proxy.cut()
            proxy.refusing = False
            proxy.armed = None
            for way in (proxy.to_server, proxy.to_client):
                way.delay_s = 0.0
                way.open.set()

        self._do(act)

    def drop_reply(self, kind: Kind) -> Dropped:
        """The next request of this kind is executed; the connection breaks instead of its reply."""
        return self._arm(Dropped(_OPCODES[kind], executed=True))

    def drop_request(self, kind: Kind) -> Dropped:
        """The connection breaks before the next request of this kind reaches the server."""
        return self._arm(Dropped(_OPCODES[kind], executed=False))

    def _arm(self, drop: Dropped) -> Dropped:
        def act(proxy: _Proxy) -> None:
            proxy.armed = drop

        self._do(act)
        return drop

    # --- sessions and servers ---------------------------------------------------------------------

    def sessions(self) -> tuple[int, ...]:
        """Ids of the sessions that are connected through the proxies."""
        return tuple(connection.session_id for connection in self._connections())

    def _connections(self) -> list[_Connection]:
        found: list[_Connection] = []
        self._do(lambda proxy: found.extend(proxy.connections))
        return [connection for connection in found if connection.session_id]

    def expire_session(self, session_id: int) -> None:
        """Ends a session at the server, as its expiry would: its client learns it on reconnecting.

        Done by a second connection with the session's own id and password, which closes it.
        """
        for connection in self._connections():
            if connection.session_id == session_id:
                running = next(server for server in self.zookeeper.servers if server.pid is not None)
                probe.end_session(running.port, session_id, connection.password, _CALL_S)
                self._abort(connection)
                return
        raise KeyError(f"session 0x{session_id:x} is not connected through the proxies")

    def _abort(self, connection: _Connection) -> None:
        async def work() -> None:
            connection.abort()

        self._call(work)

    def restart(self, server: int = 0) -> None:
        """Stops a server and starts it again on its data."""
        self.zookeeper.server(server).restart()

    def lose_quorum(self) -> None:
        """Kills just enough servers that the rest cannot go on. Undone by `heal_servers`."""
        servers = self.zookeeper.servers
        for server in servers[len(servers) // 2 :]:
            if server.pid is not None:
                server.kill()

    def heal_servers(self) -> None:
        """Every server runs again and serves sessions."""
        self.zookeeper.revive()
