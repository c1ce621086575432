"""One server behind a proxy that counts the requests in flight."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from typing import cast

import pytest

from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.testing.plugin import ServerTree
from zkgroup.testing.proxies import ClientProxy, ProxiedClient, Way


class CountingProxy(ClientProxy):
    """Knows the requests of each connection that have no response yet, except pings."""

    def __init__(self, server_port: int) -> None:
        super().__init__(server_port)
        self._unanswered: defaultdict[ProxiedClient, set[int]] = defaultdict(set)
        self.counts: list[int] = []
        """At each request, how many of its connection waited then, itself included."""

    def _inspect(self, connection: ProxiedClient, piece: bytes, way: Way, first: bool) -> bytes:
        if not first and way is self.to_server and len(piece) >= 12:
            (xid,) = struct.unpack_from(">i", piece, 4)
            if xid > 0:
                self._unanswered[connection].add(xid)
                self.counts.append(len(self._unanswered[connection]))
        return super()._inspect(connection, piece, way, first)

    def _arrives(self, connection: ProxiedClient, piece: bytes, way: Way) -> bool:
        if way is self.to_client and len(piece) > 8:
            self._unanswered[connection].discard(struct.unpack_from(">i", piece, 4)[0])
        return super()._arrives(connection, piece, way)


class CountingZooKeeper(ChaosZooKeeper):
    """One server with such a proxy."""

    proxy = CountingProxy

    def unanswered(self) -> list[int]:
        """The counts since the last call."""
        found: list[int] = []

        def action(proxy: ClientProxy) -> None:
            counts = cast("CountingProxy", proxy).counts
            found.extend(counts)
            counts.clear()

        self._do(action)
        return found

    def most_unanswered(self) -> int:
        """Highest number of requests in flight on one connection since the last call."""
        return max(self.unanswered(), default=0)


@pytest.fixture
def zk_chaos_server(zk_server: ServerTree) -> Iterator[CountingZooKeeper]:
    """As the plugin's fixture of this name."""
    with CountingZooKeeper(zk_server.zookeeper, zk_server.chroot) as chaos:
        yield chaos
