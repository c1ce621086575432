"""`EmbeddedZooKeeper`: a standalone server or an ensemble, started and stopped as one."""

from __future__ import annotations

import fcntl
import itertools
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from zkgroup.errors import ConfigError, EmbeddedServerError
from zkgroup.zookeeper.embedded.java import server_command
from zkgroup.zookeeper.embedded.server import (
    HOST,
    READY_S,
    EmbeddedServer,
    PeerPorts,
    ReservedPort,
    ServerState,
)
from zkgroup.zookeeper.raw_connection import create_node

_CREATE_S = 30.0
_AGAIN_S = 0.1

Route = Callable[[int, int, PeerPorts], PeerPorts]
"""(server, peer, ports of the peer) -> ports at which this server reaches that peer."""


class EmbeddedZooKeeper:
    """Real ZooKeeper servers for development, tests and demonstrations.

    The servers are processes of their own and end with this process, even when it is killed. The first one
    that ends in order leaves an archive of Java's classes in `~/.cache/zkgroup` (`$XDG_CACHE_HOME/zkgroup`),
    with which later ones start faster; its end takes a second longer.
    Not thread-safe; may be started from any thread.
    """

    def __init__(
        self,
        servers: int = 1,
        port: int | None = None,
        data_dir: Path | str | None = None,
        tick_time_ms: int = 500,
        max_session_timeout_ms: int = 60_000,
        *,
        fsync: bool = True,
        heap_mb: int = 256,
        config: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
        route: Route | None = None,
    ) -> None:
        """Does not start a server yet.

        Args:
            servers: how many; an odd number.
            port: client port of the first server, the others follow; any free ports when absent.
            data_dir: kept after `stop`; when absent, a new folder that `stop` removes. It contains one folder
                `server-<n>` for each server with its `zoo.cfg`, `zookeeper.log` and `version-2`.
            tick_time_ms: `tickTime` of zoo.cfg, in milliseconds.
            max_session_timeout_ms: `maxSessionTimeout` of zoo.cfg, in milliseconds.
            fsync: False skips the wait for the disk at every write, for tests.
            heap_mb: the largest heap of each Java process, in MiB.
            config: adds or replaces lines of zoo.cfg.
            java_options: further options of each Java process.
            route: called at the start for each ordered pair of servers, counted from 0, for proxies between
                the servers of an ensemble. They reach each other directly when absent.

        Raises:
            ConfigError: an even number of servers.
        """
        if servers < 1 or servers % 2 == 0:
            raise ConfigError(f"servers: expected an odd number, found {servers}")
        self._count = servers
        self._wanted_port = port
        self._wanted_data_dir = Path(data_dir) if data_dir is not None else None
        self._settings = {
            "tickTime": str(tick_time_ms),
            "maxSessionTimeout": str(max_session_timeout_ms),
            "initLimit": "20",
            "syncLimit": "10",
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            **(config or {}),
        }
        self._options = {"heap_mb": heap_mb, "fsync": fsync, "options": tuple(java_options)}
        self._route = route
        self._ports: list[ReservedPort] = []
        self._servers: list[EmbeddedServer] = []
        self._data_dir: Path | None = None
        self._lock: BinaryIO | None = None
        self._starting = False
        self._abandoned = False

    @property
    def data_dir(self) -> Path:
        """Folder of the servers' data and logs. Raises EmbeddedServerError before `start`."""
        if self._data_dir is None:
            raise _not_started()
        return self._data_dir

    @property
    def servers(self) -> tuple[EmbeddedServer, ...]:
        """The servers, in the order of their numbers; empty before `start`."""
        return tuple(self._servers)

    def server(self, number: int) -> EmbeddedServer:
        """One server, counted from 0. Raises ConfigError, and EmbeddedServerError before `start`."""
        if not self._servers:
            raise _not_started()
        if number not in range(len(self._servers)):
            raise ConfigError(f"there is no server {number}: expected 0 to {len(self._servers) - 1}")
        return self._servers[number]

    @property
    def addresses(self) -> tuple[str, ...]:
        """`host:port` of each server. Raises EmbeddedServerError before `start` and after `stop`."""
        if not self._servers:
            raise _not_started()
        return tuple(server.address for server in self._servers)

    @property
    def address(self) -> str:
        """The connection string with all servers. Raises as `addresses`."""
        return ",".join(self.addresses)

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the servers that run."""
        return tuple(pid for server in self._servers if (pid := server.pid) is not None)

    @property
    def launcher_pids(self) -> tuple[int, ...]:
        """Process ids of the launchers of the servers that run."""
        return tuple(pid for server in self._servers if (pid := server.launcher_pid) is not None)

    def start(self, timeout_s: float = READY_S) -> Self:
        """Starts all servers and returns once each of them serves sessions.

        Raises EmbeddedServerError, with nothing left running, if Java or pyspark is missing, the port or the
        data folder is in use, a server does not come up (with the end of its log), or `abandon_start` was
        called.
        """
        if self._servers:
            raise EmbeddedServerError("the embedded ZooKeeper is already started")
        deadline = time.monotonic() + timeout_s
        self._starting, self._abandoned = True, False
        try:
            self._prepare()
            for server in self._servers:
                self._go_on()
                server.spawn()
            for server in self._servers:
                self._go_on()
                server.wait_ready(deadline)
            self._go_on()
        except BaseException:
            self.stop()
            raise
        finally:
            self._starting = False
        return self

    def abandon_start(self) -> None:
        """Makes a running `start` end at once with EmbeddedServerError, with nothing left running.

        For signal handlers: it takes no lock and does not wait. Does nothing at any other time.
        """
        if self._starting:
            self._abandoned = True
            for server in self._servers:
                server.begin_kill()

    def _go_on(self) -> None:
        if self._abandoned:
            raise EmbeddedServerError("the start of the embedded ZooKeeper was abandoned")

    def revive(self, timeout_s: float = READY_S) -> None:
        """Makes every server run and serve sessions again, after a test paused, stopped or killed some.

        A server of an ensemble that was paused can end by itself at the first transaction after it
        ("Committed proposal cached out of order", ZKDatabase@3.9.5), also when it was resumed long ago. The
        session opened here is such a transaction; a server that ended is started again.
        """
        deadline = time.monotonic() + timeout_s
        hurt = [
            server
            for server in self._servers
            if server.state is not ServerState.RUNNING or not server.pid or server.stood_still
        ]
        for server in hurt:
            if server.pid is None:
                server.spawn()
            else:
                server.resume()
        for server in self._servers if hurt else ():
            self._await_revived(server, deadline)

    def _await_revived(self, server: EmbeddedServer, deadline: float) -> None:
        try:
            server.wait_ready(deadline)
        except EmbeddedServerError:
            if server.pid is not None or not server.stood_still:
                raise
            server.spawn()
            server.wait_ready(deadline)
        server.stood_still = False

    def create_chroot(self, path: str, timeout_s: float = READY_S) -> None:
        """Creates one level of a chroot, so that clients may connect to `address + path`.

        Servers that have lost each other may still be electing a leader. Raises OSError if no server has
        created it within `timeout_s`, EmbeddedServerError if no server runs.
        """
        deadline = time.monotonic() + timeout_s
        running = [server for server in self._servers if server.pid is not None]
        if not running:
            raise EmbeddedServerError(f"{path} cannot be created: no server of the embedded ZooKeeper runs")
        ports = itertools.cycle([server.port for server in running])
        while True:
            try:
                return create_node(next(ports), path, _CREATE_S)
            except OSError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_AGAIN_S)

    def stop(self, timeout_s: float = 5.0) -> None:
        """Ends all servers; removes the data folder unless it was given. Idempotent."""
        for server in self._servers:
            if self._wanted_data_dir is None and not server.writes_archive:
                server.begin_kill()  # the data is removed anyway; 0.3 s less than an orderly end
            else:
                server.begin_stop()
        for server in self._servers:
            server.stop(timeout_s)
        for port in self._ports:
            port.release()
        self._servers, self._ports = [], []
        self._release_data_dir()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _prepare(self) -> None:
        self._take_data_dir()
        first = self._wanted_port
        self._ports = []
        for number in range(self._count):
            self._ports.append(ReservedPort(None if first is None else first + number))
        clients = [port.number for port in self._ports]
        peers = self._hold_peer_ports() if self._count > 1 else []
        for number, client_port in enumerate(clients):
            folder = self.data_dir / f"server-{number}"
            folder.mkdir(mode=0o750, parents=True, exist_ok=True)
            config = folder / "zoo.cfg"
            config.write_text(self._zoo_cfg(folder, client_port, self._peer_lines(number, peers)))
            (folder / "myid").write_text(f"{number + 1}\n")
            self._servers.append(self._make_server(number, client_port, folder, config))

    def _make_server(self, number: int, port: int, folder: Path, config: Path) -> EmbeddedServer:
        archives = folder if number == 0 else None

        def command() -> list[str]:
            return server_command(config, **self._options, archive_folder=archives)  # type: ignore[arg-type]

        return EmbeddedServer(number, port, folder, command, in_ensemble=self._count > 1)

    def _hold_peer_ports(self) -> list[PeerPorts]:
        pairs = [(ReservedPort(), ReservedPort()) for _ in range(self._count)]
        self._ports.extend(port for pair in pairs for port in pair)
        return [PeerPorts(quorum.number, election.number) for quorum, election in pairs]

    def _peer_lines(self, server: int, peers: Sequence[PeerPorts]) -> list[str]:
        """The `server.<id>` lines of one server's `zoo.cfg`."""
        lines = []
        for peer, ports in enumerate(peers):
            if peer != server and self._route is not None:
                ports = self._route(server, peer, ports)
            lines.append(f"server.{peer + 1}={HOST}:{ports.quorum}:{ports.election}")
        return lines

    def _zoo_cfg(self, folder: Path, port: int, peers: Sequence[str]) -> str:
        settings = {
            "dataDir": str(folder.resolve()),
            "clientPort": str(port),
            "clientPortAddress": HOST,
            **self._settings,
        }
        return "\n".join([*(f"{name}={value}" for name, value in settings.items()), *peers, ""])

    def _take_data_dir(self) -> None:
        folder = self._wanted_data_dir or Path(tempfile.mkdtemp(prefix="zkgroup-zookeeper-"))
        try:
            folder.mkdir(mode=0o750, parents=True, exist_ok=True)
            lock = (folder / "lock").open("wb")
        except OSError as error:
            raise EmbeddedServerError(
                f"data folder {folder}: expected one that can be made and written, found: {error}"
            ) from error
        self._data_dir = folder.resolve()
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            raise EmbeddedServerError(f"another ZooKeeper is running on the data in {folder}") from error
        self._lock = lock

    def _release_data_dir(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        if self._data_dir is not None and self._wanted_data_dir is None:
            shutil.rmtree(self._data_dir, ignore_errors=True)
        self._data_dir = None


def _not_started() -> EmbeddedServerError:
    return EmbeddedServerError(
        "the embedded ZooKeeper is not started: use `with EmbeddedZooKeeper() as zookeeper`, or start()"
    )
