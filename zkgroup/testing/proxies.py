"""TCP proxies that break connections: of ZooKeeper clients, and between the servers of an ensemble."""

from __future__ import annotations

import asyncio
import os
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, Literal, Self, TypeVar

from zkgroup.errors import RefusedError
from zkgroup.runtime.acceptor import Acceptor, over_streams
from zkgroup.testing.patience import PATIENCE_S
from zkgroup.zookeeper.embedded.server import HOST, PeerPorts

LARGEST_PIECE = 1 << 26

T = TypeVar("T")


class ProxyLoop:
    """An event loop in a thread, called from other threads."""

    def __init__(self, name: str) -> None:
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread.start()

    def call(self, work: Callable[[], Awaitable[T]]) -> T:
        """Awaits `work()` on the loop. Raises RefusedError unless it runs; TimeoutError."""
        if not self._thread.is_alive():
            raise RefusedError(f"{self._thread.name} does not run: use it in its `with` block")

        async def run() -> T:
            return await work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(PATIENCE_S)

    def do(self, action: Callable[[], T]) -> T:
        """Calls `action()` on the loop's thread."""

        async def work() -> T:
            return action()

        return self.call(work)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()


class Way:
    """One direction of all connections: open or withheld, and its delay."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.delay_s = 0.0


@dataclass(eq=False)
class ProxyConnection:
    """A client's connection, and the connection to the server that belongs to it."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter

    def abort(self) -> None:
        for writer in (self.client, self.server):
            writer.transport.abort()


C = TypeVar("C", bound=ProxyConnection)


class Proxy(Generic[C]):
    """A proxy in front of one port. All its methods run on the loop's thread.

    A subclass defines the connections, and may inspect the data that passes.
    """

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self.port = 0
        """The port that clients use; set by `start`."""
        self.to_server, self.to_client = Way(), Way()
        self.refusing = False
        self.connections: set[C] = set()
        self._accepted: set[asyncio.StreamWriter] = set()
        self._acceptor = Acceptor(over_streams(self._accept, LARGEST_PIECE))

    async def start(self) -> int:
        """The port that clients use."""
        _, self.port = await self._acceptor.start(HOST)
        return self.port

    async def stop(self) -> None:
        self._acceptor.stop()
        self.cut()
        for way in (self.to_server, self.to_client):
            way.open.set()
        await self._acceptor.close()

    def cut(self) -> None:
        """Resets every connection."""
        for connection in list(self.connections):
            connection.abort()

    def socket_inodes(self) -> Iterator[str]:
        """Inodes of all its sockets, as in /proc/self/fd."""
        writers = {*self._accepted, *(connection.server for connection in self.connections)}
        sockets = [writer.get_extra_info("socket") for writer in writers]
        for one in [*sockets, *self._acceptor.listening]:
            if one.fileno() >= 0:
                yield str(os.fstat(one.fileno()).st_ino)

    def _connection(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> C:
        raise NotImplementedError

    async def _admit(self) -> bool:
        """Returns whether a new connection is accepted."""
        return not self.refusing

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connects to the server. Raises OSError where it does not listen."""
        return await asyncio.open_connection(HOST, self.server_port, limit=LARGEST_PIECE)

    async def _read(self, reader: asyncio.StreamReader, way: Way, first: bool) -> bytes | None:
        """Reads the next piece of data; None at the end."""
        try:
            return await reader.read(1 << 16) or None
        except ConnectionError:
            return None

    def _inspect(self, connection: C, piece: bytes, way: Way, first: bool) -> bytes:
        """Returns the data to send in place of a piece that was read."""
        return piece

    async def _may_pass(self, connection: C, piece: bytes, way: Way) -> None:
        """Waits until this piece may be sent; later pieces wait too."""
        await way.open.wait()

    def _arrives(self, connection: C, piece: bytes, way: Way) -> bool:
        """Returns whether the piece arrives; otherwise the connection breaks instead."""
        return True

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._accepted.add(writer)
        try:
            if await self._admit():
                await self._serve(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # one end is closed, or the proxy stops
        finally:
            self._accepted.discard(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await self._connect()
        connection = self._connection(writer, server_writer)
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
        self, connection: C, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way
    ) -> None:
        """Forwards data. Reading and writing are separate, so that a delay does not reduce the throughput."""
        due: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue()
        sender = asyncio.create_task(self._send(connection, due, writer, way))
        try:
            first = True
            while (piece := await self._read(reader, way, first)) is not None:
                passed = self._inspect(connection, piece, way, first)
                due.put_nowait((asyncio.get_running_loop().time() + way.delay_s, passed))
                first = False
            due.put_nowait(None)
            await sender
        finally:
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)

    async def _send(
        self,
        connection: C,
        due: asyncio.Queue[tuple[float, bytes] | None],
        writer: asyncio.StreamWriter,
        way: Way,
    ) -> None:
        loop = asyncio.get_running_loop()
        while (item := await due.get()) is not None:
            at, piece = item
            await asyncio.sleep(max(0.0, at - loop.time()))
            await self._may_pass(connection, piece, way)
            if not self._arrives(connection, piece, way):
                connection.abort()
                return
            writer.write(piece)
            await writer.drain()


RequestKind = Literal["create", "delete", "exists", "read", "set", "list", "sync", "multi", "multi_read"]
OPCODES: dict[RequestKind, tuple[int, ...]] = {  # ZooDefs.OpCode@3.9.5
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


class Dropped:
    """The state of an armed `drop_reply` or `drop_request`."""

    def __init__(self, opcodes: tuple[int, ...], *, executed: bool, then_refuse: bool = False) -> None:
        self.opcodes = opcodes
        self.executed = executed
        self.then_refuse = then_refuse
        self._hit = threading.Event()

    def hit(self) -> None:
        self._hit.set()

    @property
    def happened(self) -> bool:
        """True if the request was dropped."""
        return self._hit.is_set()

    def wait(self, timeout_s: float = PATIENCE_S) -> None:
        """Raises TimeoutError when no such request came."""
        if not self._hit.wait(timeout_s):
            raise TimeoutError(f"no request of kind {self.opcodes} in {timeout_s:g} s")


@dataclass(eq=False)
class ProxiedClient(ProxyConnection):
    """A client's connection and its session."""

    session_id: int = 0
    password: bytes = b""
    to_drop: dict[int, Dropped] = field(default_factory=dict)
    """xids of requests whose response is to be dropped."""


class ClientProxy(Proxy[ProxiedClient]):
    """In front of one server's client port."""

    def __init__(self, server_port: int) -> None:
        super().__init__(server_port)
        self.armed: Dropped | None = None

    def _connection(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> ProxiedClient:
        return ProxiedClient(client, server)

    async def _read(self, reader: asyncio.StreamReader, way: Way, first: bool) -> bytes | None:
        """Reads a packet with its length; None at the end. A four-letter command is forwarded unchanged."""
        try:
            head = await reader.readexactly(4)
            (length,) = struct.unpack(">i", head)
            if not 0 <= length < LARGEST_PIECE:
                return head + await reader.read(LARGEST_PIECE)
            return head + await reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    def _inspect(self, connection: ProxiedClient, piece: bytes, way: Way, first: bool) -> bytes:
        """Tracks sessions and requests, and arms the drop of a response."""
        if first:
            if way is self.to_client and len(piece) >= 24:
                connection.session_id, length = struct.unpack_from(">qi", piece, 12)
                connection.password = piece[24 : 24 + length]
        elif way is self.to_server and len(piece) >= 12:
            xid, opcode = struct.unpack_from(">ii", piece, 4)
            if self.armed is not None and opcode in self.armed.opcodes:
                connection.to_drop[xid] = self.armed
                self.armed = None
        return piece

    def _arrives(self, connection: ProxiedClient, piece: bytes, way: Way) -> bool:
        xid = struct.unpack_from(">i", piece, 4)[0] if len(piece) > 8 else 0
        doom = connection.to_drop.get(xid)
        if doom is None or doom.executed is not (way is self.to_client):
            return True
        self.refusing |= doom.then_refuse
        connection.abort()
        doom.hit()
        return False


_GREETING = struct.Struct(">qqi")  # QuorumCnxManager.InitialMessage: version, server, length of its address
_PROTOCOL_VERSION_V1 = -65536
_LONGEST_ADDRESS = 1024
_LISTEN_S = 5.0
_RETRY_S = 0.02


class PeerLinks:
    """The proxies between the servers of one ensemble. A context manager; not thread-safe.

    A server reaches each of its peers by two ports: that of the quorum, which followers open to their leader,
    and that of elections. The configuration of every server names its peers by proxies that only it uses:

    >>> with PeerLinks() as links, EmbeddedZooKeeper(3, route=links.route) as zookeeper:  # doctest: +SKIP
    ...     links.cut(0, [1, 2])

    A server sends its own address on an election connection to a peer, and a peer of higher number closes the
    connection and connects back to that address (QuorumCnxManager@3.9.5, handleConnection). The proxy
    replaces the address by that of the proxy for the way back, because the new connection would bypass the
    proxies otherwise.
    """

    def __init__(self) -> None:
        self._loop = ProxyLoop("zkgroup-peer-links")
        self._links: dict[tuple[int, int], tuple[_LinkProxy, _ElectionProxy]] = {}

    def __enter__(self) -> Self:
        self._loop.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._stop([proxy for pair in self._links.values() for proxy in pair])
        finally:
            self._loop.stop()

    def _stop(self, proxies: Iterable[_LinkProxy]) -> None:
        for proxy in proxies:
            self._loop.call(proxy.stop)

    def route(self, server: int, peer: int, ports: PeerPorts) -> PeerPorts:
        """Starts the proxies through which `server` reaches `peer`: the `route` of an EmbeddedZooKeeper."""
        self._stop(self._links.pop((server, peer), ()))
        pair = _LinkProxy(ports.quorum), _ElectionProxy(ports.election, lambda: self._way_back(server, peer))
        self._links[server, peer] = pair
        return PeerPorts(*(self._loop.call(proxy.start) for proxy in pair))

    def _way_back(self, server: int, peer: int) -> int:
        return self._links[peer, server][1].port

    def cut(
        self, server: int, peers: Collection[int], *, to_peers: bool = True, from_peers: bool = True
    ) -> None:
        """Cuts the network between a server and these peers, in one direction or both, until `heal`.

        As when a cable is pulled: connections stay open, and new ones are not made.
        """

        def action() -> None:
            for peer in peers:
                for proxy in self._links[server, peer]:
                    proxy.withhold(to_server=to_peers, to_client=from_peers)
                for proxy in self._links[peer, server]:
                    proxy.withhold(to_server=from_peers, to_client=to_peers)

        self._loop.do(action)

    def heal(self, *, cut: bool = False) -> bool:
        """Heals all links; returns whether one was cut. Withheld data arrives late, or is lost with `cut`."""

        def action() -> bool:
            hurt = [proxy for pair in self._links.values() for proxy in pair if not proxy.is_whole]
            for proxy in hurt:
                proxy.heal(cut=cut)
            return bool(hurt)

        return self._loop.do(action)

    @property
    def socket_inodes(self) -> tuple[str, ...]:
        """Inodes of all open sockets, as in /proc/self/fd: for leak checks."""

        def action() -> tuple[str, ...]:
            proxies = [proxy for pair in self._links.values() for proxy in pair]
            return tuple(inode for proxy in proxies for inode in proxy.socket_inodes())

        return self._loop.do(action)


class _LinkProxy(Proxy[ProxyConnection]):
    """The proxy in front of a quorum port, for one peer."""

    def _connection(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> ProxyConnection:
        return ProxyConnection(client, server)

    @property
    def is_whole(self) -> bool:
        return self.to_server.open.is_set() and self.to_client.open.is_set()

    def withhold(self, *, to_server: bool, to_client: bool) -> None:
        for way, held in ((self.to_server, to_server), (self.to_client, to_client)):
            if held:
                way.open.clear()

    def heal(self, *, cut: bool) -> None:
        if cut:
            self.cut()
        for way in (self.to_server, self.to_client):
            way.open.set()

    async def _admit(self) -> bool:
        """Rejects connections while a direction is withheld; they are reset, not delayed."""
        was_whole = self.is_whole
        await self.to_server.open.wait()
        await self.to_client.open.wait()
        return was_whole

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Waits a while for a server that does not listen yet.

        Followers often connect before their leader listens. After a refusal they try again; an accepted
        connection that breaks sends them back to the election, and under load into repeated elections.
        """
        deadline = time.monotonic() + _LISTEN_S
        while True:
            try:
                return await super()._connect()
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_RETRY_S)


class _ElectionProxy(_LinkProxy):
    """The proxy in front of an election port, for one peer."""

    def __init__(self, server_port: int, way_back: Callable[[], int]) -> None:
        super().__init__(server_port)
        self._way_back = way_back

    async def _read(self, reader: asyncio.StreamReader, way: Way, first: bool) -> bytes | None:
        """Reads a complete initial message, then data as it comes. An invalid initial message ends the
        connection."""
        if not (first and way is self.to_server):
            return await super()._read(reader, way, first)
        try:
            head = await reader.readexactly(_GREETING.size)
            version, server, length = _GREETING.unpack(head)
            if version != _PROTOCOL_VERSION_V1 or not 0 < length <= _LONGEST_ADDRESS:
                return None
            await reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        address = f"{HOST}:{self._way_back()}".encode("ascii")
        return _GREETING.pack(version, server, len(address)) + address
