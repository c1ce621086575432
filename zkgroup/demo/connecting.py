"""A demo's own connection, for looking at everything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from zkgroup.admin.ensemble import Ensemble
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.clock import SystemClock


@contextmanager
def connected(address: str, settings: ClientSettings, answer_timeout_s: float) -> Iterator[Ensemble]:
    """Closed at the end. Raises what a first connection raises."""
    client = ZooKeeperClient(address, replace(settings, session_timeout_ms=10_000))
    try:
        zk = Blocking(client, timeout_s=answer_timeout_s)
        zk.wait_connected()
        yield Ensemble(zk, SystemClock())
    finally:
        client.close()
