"""`ChaosZooKeeper`: proxies in front of real servers that cut, delay, withhold and drop on demand.

The proxies run in one thread of their own; all methods of `ChaosZooKeeper` are called from the test's thread
and return when the fault is in force.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Self

from zkgroup.testing.proxies import (
    CALL_S,
    OPCODES,
    ClientProxy,
    Dropped,
    LoopThread,
    PeerLinks,
    ProxiedClient,
    RequestKind,
)
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper
from zkgroup.zookeeper.embedded.server import HOST
from zkgroup.zookeeper.raw_connection import end_session

_READY_S = 60.0


class ChaosZooKeeper:
    """Real servers with a proxy in front of each client port. A context manager."""

    def __init__(
        self, zookeeper: EmbeddedZooKeeper, chroot: str = "", links: PeerLinks | None = None
    ) -> None:
        """`zookeeper` must run. It is not stopped at the end, only brought back to health.

        `links`: those between its servers, where it was started with proxies for them.
        """
        self.zookeeper = zookeeper
        self.chroot = chroot
        self._links = links
        self._proxies = [ClientProxy(server.port) for server in zookeeper.servers]
        self._loop = LoopThread("zkgroup-chaos")

    def _do(self, act: Callable[[ClientProxy], object], server: int | None = None) -> None:
        """On the loop's thread, for one proxy or all."""

        def work() -> None:
            for number, proxy in enumerate(self._proxies):
                if server in (None, number):
                    act(proxy)

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
        """The connection string past the proxies: for a witness."""
        return self.zookeeper.address + self.chroot

    def most_unanswered(self) -> int:
        """Requests of one connection that waited for their replies at once, at most, since the last call."""
        found: list[int] = []

        def act(proxy: ClientProxy) -> None:
            found.append(proxy.most_unanswered)
            proxy.most_unanswered = 0

        self._do(act)
        return max(found)

    def mean_unanswered(self) -> float:
        """Requests of one connection that waited for their replies at once, on average, since the last call.

        So many times faster than one by one they are answered where the way to the server takes the time.
        """
        found: list[tuple[int, int]] = []

        def act(proxy: ClientProxy) -> None:
            found.append((proxy.unanswered, proxy.requests))
            proxy.unanswered = proxy.requests = 0

        self._do(act)
        return sum(unanswered for unanswered, _ in found) / max(1, sum(requests for _, requests in found))

    # --- the network ------------------------------------------------------------------------------

    def cut(self, server: int | None = None, *, refuse: bool = False) -> None:
        """Resets all connections. With `refuse`, new ones are reset as well until `heal`."""

        def act(proxy: ClientProxy) -> None:
            proxy.refusing = refuse
            proxy.cut()

        self._do(act, server)

    def delay(
        self, seconds: float, *, to_server: bool = True, to_client: bool = True, server: int | None = None
    ) -> None:
        """Every packet takes this much longer, until `heal`."""

        def act(proxy: ClientProxy) -> None:
            proxy.to_server.delay_s = seconds if to_server else 0.0
            proxy.to_client.delay_s = seconds if to_client else 0.0

        self._do(act, server)

    def swallow(self, *, to_server: bool = True, to_client: bool = True, server: int | None = None) -> None:
        """Connections stay open and nothing arrives, until `heal`.

        What was withheld then arrives late, as TCP would send it again.
        """

        def act(proxy: ClientProxy) -> None:
            for way, held in ((proxy.to_server, to_server), (proxy.to_client, to_client)):
                if held:
                    way.open.clear()

        self._do(act, server)

    def heal(self, *, cut: bool = False) -> None:
        """The network is as before. With `cut`, what was withheld is lost with its connections."""

        def act(proxy: ClientProxy) -> None:
            if cut:
                proxy.cut()
            proxy.refusing = False
            proxy.armed = None
            for way in (proxy.to_server, proxy.to_client):
                way.delay_s = 0.0
                way.open.set()

        self._do(act)
        if self._links is not None:
            self._links.heal(cut=cut)

    def isolate(self, server: int, *peers: int, to_peers: bool = True, from_peers: bool = True) -> None:
        """Cuts a server off from the others, or from these `peers`, until `heal`; its clients still reach it.

        Nothing passes between the servers, in one way or both; their connections stay open, and new ones
        are not made. Raises RuntimeError where they have no proxies between them.
        """
        if self._links is None:
            raise RuntimeError("these servers were started without PeerLinks: use the fixture zk_chaos")
        others = [other for other in range(len(self._proxies)) if other != server]
        self._links.cut(server, peers or others, to_peers=to_peers, from_peers=from_peers)

    def drop_reply(self, kind: RequestKind, *, then_refuse: bool = False) -> Dropped:
        """The next request of this kind is executed; the connection breaks instead of its reply.

        With `then_refuse` that server takes no new connection until `heal`, so nobody can read back there.
        """
        return self._arm(Dropped(OPCODES[kind], executed=True, then_refuse=then_refuse))

    def drop_request(self, kind: RequestKind) -> Dropped:
        """The connection breaks before the next request of this kind reaches the server."""
        return self._arm(Dropped(OPCODES[kind], executed=False))

    def _arm(self, drop: Dropped) -> Dropped:
        def act(proxy: ClientProxy) -> None:
            proxy.armed = drop

        self._do(act)
        return drop

    # --- sessions and servers ---------------------------------------------------------------------

    def sessions(self) -> tuple[int, ...]:
        """Ids of the sessions that are connected through the proxies."""
        return tuple(connection.session_id for connection in self._connections())

    def _connections(self) -> list[ProxiedClient]:
        found: list[ProxiedClient] = []
        self._do(lambda proxy: found.extend(proxy.connections))
        return [connection for connection in found if connection.session_id]

    def expire_session(self, session_id: int) -> None:
        """Ends a session at the server, as its expiry would: its client learns it on reconnecting.

        Done by a second connection with the session's own id and password, which closes it.
        """
        for connection in self._connections():
            if connection.session_id == session_id:
                running = next(server for server in self.zookeeper.servers if server.pid is not None)
                end_session(running.port, session_id, connection.password, CALL_S)
                self._loop.do(connection.abort)
                return
        raise KeyError(f"session 0x{session_id:x} is not connected through the proxies")

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
        """Every server runs again, reaches the others and serves sessions."""
        were_cut = self._links is not None and self._links.heal(cut=True)
        self.zookeeper.revive(_READY_S)
        for server in self.zookeeper.servers if were_cut else ():
            server.wait_ready(time.monotonic() + _READY_S)
