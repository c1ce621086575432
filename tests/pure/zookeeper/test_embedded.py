"""Embedded servers that do not run: every call says so, instead of an empty answer. Nothing is started."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from zkgroup.errors import EmbeddedServerError, RefusedError
from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.testing.proxies import PeerLinks
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper


@pytest.mark.parametrize(
    "call",
    [
        lambda zookeeper: zookeeper.address,
        lambda zookeeper: zookeeper.addresses,
        lambda zookeeper: zookeeper.data_dir,
        lambda zookeeper: zookeeper.server(0),
        ChaosZooKeeper,
    ],
)
def test_servers_that_are_not_started(call: Callable[[EmbeddedZooKeeper], object]) -> None:
    """Before the start, and after the end."""
    zookeeper = EmbeddedZooKeeper()
    for _ in range(2):
        with pytest.raises(EmbeddedServerError, match="is not started: use `with EmbeddedZooKeeper"):
            call(zookeeper)
        zookeeper.stop()


def test_no_chroot_without_a_server() -> None:
    """There is nothing to wait for."""
    with pytest.raises(EmbeddedServerError, match="/a cannot be created: no server"):
        EmbeddedZooKeeper().create_chroot("/a")


def test_links_that_do_not_run() -> None:
    """The call would wait for a thread that has not been started."""
    with pytest.raises(RefusedError, match="use it in its `with` block"):
        PeerLinks().heal()
