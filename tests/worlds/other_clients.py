"""Other clients of a server: reads, writes, changes beside a command, the end of a session."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient

from tests.waiting import PATIENCE_S, outcome
from zkgroup.zookeeper import Digest, raw_connection
from zkgroup.zookeeper.blocking import Blocking

SESSION_S = 60.0
"""The longest session timeout of the embedded servers: it outlives their faults."""


@contextmanager
def kazoo_on(address: str, auth: Digest | None = None) -> Iterator[KazooClient]:
    """A connected client for a `with` block."""
    auth_data = [("digest", auth.credential)] if auth is not None else None
    client = KazooClient(address, timeout=SESSION_S, auth_data=auth_data)
    client.start(PATIENCE_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


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


_SECRET = 0xB3415C00
_MULTIPLIER, _INCREMENT, _MASK = 0x5DEECE66D, 0xB, (1 << 48) - 1


def end_session_of(zk: Blocking, path: str, port: int) -> None:
    """Closes the session that owns this ephemeral znode, at a server's port, as an expiry would."""
    end_session(zk.read(path).stat.ephemeral_owner, port)


def end_session(session_id: int, port: int) -> None:
    """Closes a session by a second connection with its password. Raises ConnectionError when it has ended."""
    raw_connection.end_session(port, session_id, password_of(session_id), PATIENCE_S)


def password_of(session_id: int) -> bytes:
    """The password of a session as servers compute it (ZooKeeperServer.generatePasswd).

    It is 16 bytes of java.util.Random, seeded by the session id.
    """
    seed = ((session_id ^ _SECRET) ^ _MULTIPLIER) & _MASK
    found = b""
    for _ in range(4):
        seed = (seed * _MULTIPLIER + _INCREMENT) & _MASK
        found += (seed >> 16).to_bytes(4, "little")
    return found


@contextmanager
def beside(act: Callable[[], object]) -> Iterator[None]:
    """`act` runs on a thread of its own meanwhile; the block ends when it has. What it raises is raised."""
    with ThreadPoolExecutor(1, "beside") as pool:
        acting = pool.submit(act)
        yield
        outcome(acting, what="the end of what is done beside the command")
