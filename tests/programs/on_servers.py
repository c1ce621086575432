"""What chaos and the real day are played on: three real servers, and a witness past all proxies."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

from tests.waiting import eventually
from zkgroup.errors import EmbeddedServerError, ZkGroupError
from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.testing.proxies import PeerLinks
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

REVIVE_S = 10.0
_LOOK_S = 0.05


def hold(seconds: float) -> None:
    """A fault lasts so long, or a look is not repeated at once: the one kind of wait that is for time."""
    threading.Event().wait(seconds)


def comes_true(predicate: Callable[[], object], seconds: float) -> bool:
    """Whether it does within so many seconds, while ZooKeeper may not answer; it need not."""
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        with suppress(ZkGroupError):
            if predicate():
                return True
        hold(_LOOK_S)
    return False


class OnServers:
    """A context manager; the servers run already, with these links between them, and the chroot exists."""

    def __init__(self, zookeeper: EmbeddedZooKeeper, links: PeerLinks, home: Path, chroot: str) -> None:
        self.zookeeper, self.links, self.home, self.chroot = zookeeper, links, home, chroot
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.network = stack.enter_context(ChaosZooKeeper(self.zookeeper, self.chroot, self.links))
            self.place(stack)
            settings = ClientSettings(session_timeout_ms=30_000)
            client = stack.enter_context(ZooKeeperClient(self.network.direct_address, settings))
            self.zk = stack.enter_context(Blocking(client, timeout_s=5.0))
            eventually(self.zk.wait_connected, lambda _: True, ignoring=(ZkGroupError,))
            self._stack = stack.pop_all()
        return self

    def place(self, stack: ExitStack) -> None:
        """Makes the places of processes, each behind proxies of its own, which the stack ends."""
        raise NotImplementedError

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def leader(self) -> int | None:
        """Which server leads; None where none says so."""
        for server in self.zookeeper.servers:
            with suppress(OSError):
                if server.pid is not None and "Mode: leader" in server.ask("srvr"):
                    return server.number
        return None

    def revive(self) -> None:
        """Every server is started or goes on; one that others cannot reach serves nobody for now."""
        with suppress(EmbeddedServerError):
            self.zookeeper.revive(REVIVE_S)
