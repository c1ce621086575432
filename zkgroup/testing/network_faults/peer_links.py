"""The links between the servers of an ensemble, each through a proxy of its own, so that it can be cut.

A server reaches each of its peers by two ports: that of the quorum, which followers open to their leader,
and that of elections. Every server's configuration names its peers by proxies that only it uses:

>>> with PeerLinks() as links, EmbeddedZooKeeper(3, route=links.route) as zookeeper:  # doctest: +SKIP
...     links.cut(0, [1, 2])

A server greets the peer to which it opens an election connection with its own address, and a peer of
higher number hangs up and calls back there (QuorumCnxManager@3.9.5, handleConnection). The proxy replaces
that address by the one of the proxy for the way back; otherwise the call would pass by every proxy.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable, Collection, Iterable
from typing import Self

from zkgroup.testing.network_faults.proxy import LoopThread, Proxy, ProxyConnection, Way
from zkgroup.zookeeper.embedded.server import HOST, PeerPorts

_GREETING = struct.Struct(">qqi")  # QuorumCnxManager.InitialMessage: version, server, length of its address
_PROTOCOL_VERSION_V1 = -65536
_LONGEST_ADDRESS = 1024
_LISTEN_S = 5.0
_LOOK_S = 0.02


class PeerLinks:
    """The proxies between the servers of one ensemble. A context manager; outlives the ensemble.

    Not thread-safe.
    """

    def __init__(self) -> None:
        self._loop = LoopThread("zkgroup-peer-links")
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
        """Starts the proxies by which `server` reaches `peer`: the `route` of an EmbeddedZooKeeper."""
        self._stop(self._links.pop((server, peer), ()))
        pair = _LinkProxy(ports.quorum), _ElectionProxy(ports.election, lambda: self._way_back(server, peer))
        self._links[server, peer] = pair
        return PeerPorts(*(self._loop.call(proxy.start) for proxy in pair))

    def _way_back(self, server: int, peer: int) -> int:
        return self._links[peer, server][1].port

    # --- faults -----------------------------------------------------------------------------------

    def cut(
        self, server: int, peers: Collection[int], *, to_peers: bool = True, from_peers: bool = True
    ) -> None:
        """Nothing passes between a server and these peers, in one way or both, until `heal`.

        As when a cable is pulled: connections stay open, and new ones are not made.
        """

        def act() -> None:
            for peer in peers:
                for proxy in self._links[server, peer]:
                    proxy.withhold(to_server=to_peers, to_client=from_peers)
                for proxy in self._links[peer, server]:
                    proxy.withhold(to_server=from_peers, to_client=to_peers)

        self._loop.do(act)

    def heal(self, *, cut: bool = False) -> bool:
        """Every link is whole; whether one was not. What was withheld arrives late, or never with `cut`."""

        def act() -> bool:
            hurt = [proxy for pair in self._links.values() for proxy in pair if not proxy.is_whole]
            for proxy in hurt:
                proxy.heal(cut=cut)
            return bool(hurt)

        return self._loop.do(act)

    @property
    def socket_inodes(self) -> tuple[str, ...]:
        """Of all sockets that are open now, as /proc/self/fd names them: for leak checks."""

        def act() -> tuple[str, ...]:
            proxies = [proxy for pair in self._links.values() for proxy in pair]
            return tuple(inode for proxy in proxies for inode in proxy.socket_inodes())

        return self._loop.do(act)


class _LinkProxy(Proxy[ProxyConnection]):
    """In front of a quorum port, for one peer."""

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
        """A connection needs both ways; what was tried in vain is not made late, but reset."""
        was_whole = self.is_whole
        await self.to_server.open.wait()
        await self.to_client.open.wait()
        return was_whole

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Waits a while for a server that does not listen yet.

        Followers often come before their leader listens. Refused they would try again; a connection that is
        made and then breaks sends them back to the election, and under load into one after the other.
        """
        deadline = time.monotonic() + _LISTEN_S
        while True:
            try:
                return await super()._connect()
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_LOOK_S)


class _ElectionProxy(_LinkProxy):
    """In front of an election port, for one peer."""

    def __init__(self, server_port: int, way_back: Callable[[], int]) -> None:
        super().__init__(server_port)
        self._way_back = way_back

    async def _read(self, reader: asyncio.StreamReader, way: Way, first: bool) -> bytes | None:
        """Whole greetings, else whatever comes. A greeting that is none ends the connection."""
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
