"""kazoo's client, for reads and writes without zkgroup's client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient

from tests.waiting import PATIENCE_S
from zkgroup.zookeeper import Digest

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
