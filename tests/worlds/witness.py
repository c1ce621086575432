"""A third client on the servers of a test, whose session survives the faults of the others."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from zkgroup.zookeeper.blocking import Blocking

SESSION_MS = 60_000
"""The longest that the embedded servers grant: neither a slow machine nor a fault of seconds ends it."""

_TREES = ("zk_chaos", "zk_chaos_server", "zk_ensemble", "zk_server")


@contextlib.contextmanager
def witness_on(address: str) -> Iterator[Blocking]:
    """A client that reads and writes at the address; every call waits as long as tests may wait."""
    from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
    from zkgroup.zookeeper.blocking import Blocking

    settings = ClientSettings(session_timeout_ms=SESSION_MS)
    with ZooKeeperClient(address, settings) as client, Blocking(client, PATIENCE_S) as blocking:
        yield blocking


@pytest.fixture
def witness(request: pytest.FixtureRequest) -> Iterator[Blocking]:
    """A client on the test's own tree, past the proxies where there are some."""
    name = next(tree for tree in _TREES if tree in request.fixturenames)
    tree = request.getfixturevalue(name)
    with witness_on(getattr(tree, "direct_address", None) or tree.address) as blocking:
        yield blocking
