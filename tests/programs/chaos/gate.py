"""A proxy that holds single writes on their way to ZooKeeper, while the session of their writer lives on.

The time between two writes of a controller is too short for a test to act in it. So the proxy holds the
writes about one topic, and lets each go when the test has done its part.

Meanwhile the proxy sends pings for the client, so that the fence refuses a late write, and not the end of the
client's session.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable

from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.testing.proxies import OPCODES, ClientProxy, PeerLinks, ProxiedClient, Way
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

PING_S = 0.5
_PING_XID = -2  # ClientCnxn.PING_XID@3.9.5
_PING = struct.pack(">iii", 8, _PING_XID, 11)  # ZooDefs.OpCode.ping@3.9.5
_WRITES = (*OPCODES["multi"], *OPCODES["set"])


class GateProxy(ClientProxy):
    """The proxy in front of one server. Everything here runs on the loop's thread."""

    def __init__(self, server_port: int) -> None:
        super().__init__(server_port)
        self.needle: bytes | None = None
        """A write that contains these bytes is held."""
        self.held: dict[ProxiedClient, asyncio.Event] = {}
        self.let_go: set[tuple[ProxiedClient, int]] = set()
        """Connection and xid of the writes that have passed and are not answered yet."""
        self.answered: list[int] = []
        """zxids of the answers to those writes."""
        self._pings: dict[ProxiedClient, int] = {}
        """Pings of the proxy, whose answers the client must not see."""

    async def _may_pass(self, connection: ProxiedClient, piece: bytes, way: Way) -> None:
        await super()._may_pass(connection, piece, way)
        if way is not self.to_server or not self._is_to_be_held(piece):
            return
        gone_on = self.held[connection] = asyncio.Event()
        try:
            while not gone_on.is_set():
                try:
                    await asyncio.wait_for(gone_on.wait(), PING_S)
                except TimeoutError:
                    self._pings[connection] = self._pings.get(connection, 0) + 1
                    connection.server.write(_PING)
            self.let_go.add((connection, struct.unpack_from(">i", piece, 4)[0]))
        finally:
            del self.held[connection]

    def _is_to_be_held(self, piece: bytes) -> bool:
        if self.needle is None or len(piece) < 12 or self.needle not in piece:
            return False
        return struct.unpack_from(">i", piece, 8)[0] in _WRITES

    def _inspect(self, connection: ProxiedClient, piece: bytes, way: Way, first: bool) -> bytes:
        passed = super()._inspect(connection, piece, way, first)
        if way is self.to_client and not first and len(piece) >= 16:
            xid = struct.unpack_from(">i", piece, 4)[0]
            if (connection, xid) in self.let_go:
                self.let_go.remove((connection, xid))
                self.answered.append(struct.unpack_from(">q", piece, 8)[0])  # ReplyHeader: xid, zxid, err
            if xid == _PING_XID and self._pings.get(connection, 0) > 0:
                self._pings[connection] -= 1
                return b""
        return passed


class GatedZooKeeper(ChaosZooKeeper):
    """A ChaosZooKeeper that can hold single writes."""

    _proxies: list[GateProxy]  # type: ignore[assignment]

    def __init__(
        self, zookeeper: EmbeddedZooKeeper, chroot: str = "", links: PeerLinks | None = None
    ) -> None:
        super().__init__(zookeeper, chroot, links)
        self._proxies = [GateProxy(server.port) for server in zookeeper.servers]

    def close_gate(self, path: str) -> None:
        """Holds every write that names this path from now on, one at a time, with all requests behind it."""
        self._loop.do(lambda: self._hold_back(path.encode()))

    def open_gate(self) -> None:
        """Lets everything pass. Idempotent."""

        def action() -> None:
            self._hold_back(None)
            self._let_go(self._proxies)

        self._loop.do(action)

    def _hold_back(self, needle: bytes | None) -> None:
        for proxy in self._proxies:
            proxy.needle = needle

    @staticmethod
    def _let_go(proxies: Iterable[GateProxy]) -> None:
        for proxy in proxies:
            for gone_on in proxy.held.values():
                gone_on.set()

    @property
    def is_holding(self) -> bool:
        """Whether a write is held."""
        return self._loop.do(lambda: any(proxy.held for proxy in self._proxies))

    @property
    def is_answering(self) -> bool:
        """Whether a write that was let go has no answer yet; on a broken connection no answer is awaited."""
        return self._loop.do(
            lambda: any(
                connection in proxy.connections for proxy in self._proxies for connection, _ in proxy.let_go
            )
        )

    @property
    def answered(self) -> tuple[int, ...]:
        """zxids of the held writes that were answered; the log says whether each was accepted or refused."""
        return self._loop.do(lambda: tuple(zxid for proxy in self._proxies for zxid in proxy.answered))

    def let_go(self) -> None:
        """Lets the held write go to the server; the next one is held again."""
        self._loop.do(lambda: self._let_go(self._proxies))

    def heal(self, *, cut: bool = False) -> None:
        super().heal(cut=cut)
        self.open_gate()
