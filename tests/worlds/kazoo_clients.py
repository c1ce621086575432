"""kazoo's own client, for what is written and seen past ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient

from tests.waiting import PATIENCE_S

SESSION_S = 60.0
"""The longest that the embedded servers grant: it outlives what is done to them."""


@contextmanager
def kazoo_on(address: str) -> Iterator[KazooClient]:
    """Connected as long as the block runs."""
    client = KazooClient(address, timeout=SESSION_S)
    client.start(PATIENCE_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()
