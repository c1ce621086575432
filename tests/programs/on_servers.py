"""The base of chaos and of the real day: three real servers, and a client that bypasses all proxies."""

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
ANSWER_S = 15.0
"""Longest wait for an answer of the servers; while they have no quorum an operation fails after it."""
_POLL_S = 0.05


def hold(seconds: float) -> None:
    """Waits for the time of a fault, or between two reads: the only waits for time alone."""
    threading.Event().wait(seconds)


def comes_true(predicate: Callable[[], object], seconds: float) -> bool:
    """Whether the predicate becomes true in time; while ZooKeeper does not answer, it is tried again."""
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        with suppress(ZkGroupError):
            if predicate():
                return True
        hold(_POLL_S)
    return False


class OnServers:
    """A context manager around running servers with these links and an existing chroot."""

    def __init__(self, zookeeper: EmbeddedZooKeeper, links: PeerLinks, home: Path, chroot: str) -> None:
        self.zookeeper, self.links, self.home, self.chroot = zookeeper, links, home, chroot
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.network = stack.enter_context(ChaosZooKeeper(self.zookeeper, self.chroot, self.links))
            self.place(stack)
            settings = ClientSettings(session_timeout_ms=30_000)
            client = stack.enter_context(ZooKeeperClient(self.network.direct_address, settings))
            self.zk = stack.enter_context(Blocking(client, timeout_s=ANSWER_S))
            eventually(self.zk.wait_connected, lambda _: True, ignoring=(ZkGroupError,))
            self._stack = stack.pop_all()
        return self

    def place(self, stack: ExitStack) -> None:
        """Creates the places of processes, each behind its own proxies, which the stack closes."""
        raise NotImplementedError

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def leader(self) -> int | None:
        """The number of the server that leads; None where no server reports it."""
        for server in self.zookeeper.servers:
            with suppress(OSError):
                if server.pid is not None and "Mode: leader" in server.ask("srvr"):
                    return server.number
        return None

    def revive(self) -> None:
        """Starts or resumes every server; one that the others cannot reach does not serve clients yet."""
        with suppress(EmbeddedServerError):
            self.zookeeper.revive(REVIVE_S)
