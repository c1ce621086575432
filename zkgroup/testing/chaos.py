"""`ChaosZooKeeper`: network faults, session expiry and server failures on ZooKeeper servers, for tests.

Proxies in front of the servers run in one thread. All methods of `ChaosZooKeeper` are called from the test's
thread and return when the fault is in effect.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar, Self

from zkgroup.testing.patience import PATIENCE_S
from zkgroup.testing.proxies import (
    OPCODES,
    ClientProxy,
    Dropped,
    PeerLinks,
    ProxiedClient,
    ProxyLoop,
    RequestKind,
)
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper
from zkgroup.zookeeper.embedded.server import HOST
from zkgroup.zookeeper.raw_connection import end_session


class ChaosZooKeeper:
    """ZooKeeper servers with a proxy in front of each client port. A context manager."""

    proxy: ClassVar[type[ClientProxy]] = ClientProxy

    def __init__(
        self, zookeeper: EmbeddedZooKeeper, chroot: str = "", links: PeerLinks | None = None
    ) -> None:
        """`zookeeper` must run. It is not stopped at the end; its faults are healed.

        `links`: the proxies between its servers, where it was started with them.
        """
        self.zookeeper = zookeeper
        self.chroot = chroot
        self._links = links
        self._proxies = [self.proxy(zookeeper.server(n).port) for n in range(len(zookeeper.addresses))]
        self._loop = ProxyLoop("zkgroup-chaos")

    def _do(self, action: Callable[[ClientProxy], object], server: int | None = None) -> None:
        """Calls `action` on the loop's thread, for one proxy or all. Raises ConfigError."""
        if server is not None:
            self.zookeeper.server(server)

        def work() -> None:
            for number, proxy in enumerate(self._proxies):
                if server in (None, number):
                    action(proxy)

        self._loop.do(work)

    def __enter__(self) -> Self:
        self._loop.start()
        for proxy in self._proxies:
            self._loop.call(proxy.start)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for proxy in self._proxies:
                self._loop.call(proxy.stop)
        finally:
            self._loop.stop()
        self.heal_servers()

    @property
    def addresses(self) -> tuple[str, ...]:
        """`host:port` of the proxy before each server, without chroot."""
        return tuple(f"{HOST}:{proxy.port}" for proxy in self._proxies)

    @property
    def address(self) -> str:
        """The connection string through the proxies."""
        return ",".join(self.addresses) + self.chroot

    @property
    def direct_address(self) -> str:
        """The connection string without the proxies: for reads and writes of the test itself."""
        return self.zookeeper.address + self.chroot

    def cut(self, server: int | None = None, *, refuse: bool = False) -> None:
        """Resets all connections. With `refuse`, new ones are reset as well until `heal`."""

        def action(proxy: ClientProxy) -> None:
            proxy.refusing = refuse
            proxy.cut()

        self._do(action, server)

    def delay(
        self, seconds: float, *, to_server: bool = True, to_client: bool = True, server: int | None = None
    ) -> None:
        """Delays every packet by this time, until `heal`."""

        def action(proxy: ClientProxy) -> None:
            proxy.to_server.delay_s = seconds if to_server else 0.0
            proxy.to_client.delay_s = seconds if to_client else 0.0

        self._do(action, server)

    def swallow(self, *, to_server: bool = True, to_client: bool = True, server: int | None = None) -> None:
        """Withholds all data on open connections, until `heal`.

        Withheld data then arrives late, as TCP would send it again.
        """

        def action(proxy: ClientProxy) -> None:
            for way, held in ((proxy.to_server, to_server), (proxy.to_client, to_client)):
                if held:
                    way.open.clear()

        self._do(action, server)

    def heal(self, *, cut: bool = False) -> None:
        """Heals the network. With `cut`, withheld data is lost with its connections."""

        def action(proxy: ClientProxy) -> None:
            if cut:
                proxy.cut()
            proxy.refusing = False
            proxy.armed = None
            for way in (proxy.to_server, proxy.to_client):
                way.delay_s = 0.0
                way.open.set()

        self._do(action)
        if self._links is not None:
            self._links.heal(cut=cut)

    def isolate(self, server: int, *peers: int, to_peers: bool = True, from_peers: bool = True) -> None:
        """Cuts a server off from the others, or from these `peers`, until `heal`; its clients still reach it.

        Nothing passes between the servers, in one way or both; their connections stay open, and new ones
        are not made. Raises RuntimeError where they have no proxies between them.
        """
        if self._links is None:
            raise RuntimeError("these servers were started without PeerLinks: use the fixture zk_chaos")
        for each in (server, *peers):
            self.zookeeper.server(each)
        others = [other for other in range(len(self._proxies)) if other != server]
        self._links.cut(server, peers or others, to_peers=to_peers, from_peers=from_peers)

    def drop_reply(self, kind: RequestKind, *, then_refuse: bool = False) -> Dropped:
        """Breaks the connection in place of the response to the next request of this kind, which is executed.

        With `then_refuse` that server accepts no new connection until `heal`, so no client can read back
        there.
        """
        return self._arm(Dropped(OPCODES[kind], executed=True, then_refuse=then_refuse))

    def drop_request(self, kind: RequestKind) -> Dropped:
        """Breaks the connection before the next request of this kind reaches the server."""
        return self._arm(Dropped(OPCODES[kind], executed=False))

    def _arm(self, drop: Dropped) -> Dropped:
        def action(proxy: ClientProxy) -> None:
            proxy.armed = drop

        self._do(action)
        return drop

    def sessions(self) -> tuple[int, ...]:
        """Ids of sessions connected through the proxies."""
        return tuple(connection.session_id for connection in self._connections())

    def _connections(self) -> list[ProxiedClient]:
        found: list[ProxiedClient] = []
        self._do(lambda proxy: found.extend(proxy.connections))
        return [connection for connection in found if connection.session_id]

    def expire_session(self, session_id: int) -> None:
        """Ends a session at the server, as its expiry would: its client learns of it on reconnecting.

        Done by a second connection with the session's own id and password, which closes it.
        """
        for connection in self._connections():
            if connection.session_id == session_id:
                running = next(server for server in self.zookeeper.servers if server.pid is not None)
                end_session(running.port, session_id, connection.password, PATIENCE_S)
                self._loop.do(connection.abort)
                return
        raise KeyError(f"session 0x{session_id:x} is not connected through the proxies")

    def restart(self, server: int = 0) -> None:
        """Restarts a server on its data."""
        self.zookeeper.server(server).restart()

    def lose_quorum(self) -> None:
        """Kills enough servers that the others have no quorum. Undone by `heal_servers`."""
        servers = self.zookeeper.servers
        for server in servers[len(servers) // 2 :]:
            if server.pid is not None:
                server.kill()

    def heal_servers(self) -> None:
        """Starts stopped servers; waits until every server serves sessions."""
        were_cut = self._links is not None and self._links.heal(cut=True)
        self.zookeeper.revive(PATIENCE_S)
        for server in self.zookeeper.servers if were_cut else ():
            server.wait_ready(time.monotonic() + PATIENCE_S)
