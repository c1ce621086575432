"""The zkgroup client on a ZooKeeper 3.4.6: no bulk reads there, so it pipelines single reads."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.long.interop.servers import RealZooKeeper
from tests.worlds.clients import opener
from zkgroup.testing.conformance import CHECKS, Target
from zkgroup.zookeeper import ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking

_numbers = itertools.count(1)


@pytest.fixture
def address(real_zookeeper: RealZooKeeper) -> str:
    """A chroot of the test's own."""
    chroot = f"/old-{next(_numbers)}"
    with ZooKeeperClient(real_zookeeper.address) as client, Blocking(client) as blocking:
        blocking.wait_connected()
        blocking.create_missing(chroot)
    return real_zookeeper.address + chroot


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_store(address: str, check: Callable[[Target], None]) -> None:
    """The store keeps every rule of its contract on a 3.4 server too (recipes 3)."""
    with Target(opener(address)) as target:
        check(target)


def test_bulk_reads_do_not_cost_the_session(address: str) -> None:
    """Support is probed on a separate connection, so the member's session survives (recipes 3)."""
    with ZooKeeperClient(address) as client, Blocking(client) as blocking:
        before = blocking.wait_connected()
        found = blocking.read_many([f"/none-{n}" for n in range(300)])
        assert set(found.values()) == {None}
        assert blocking.wait_connected() == before
