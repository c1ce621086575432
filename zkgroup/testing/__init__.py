"""Test doubles and checks that ship with zkgroup, for its own tests and for those of its users.

Nothing in zkgroup imports this package. Names are loaded when first used: the pytest plugin lives here
and must cost nothing in a run that does not need it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zkgroup.history import check_history
    from zkgroup.testing.clock import FakeClock, wait_until
    from zkgroup.testing.kafka_cluster import KafkaCluster
    from zkgroup.testing.memory_zookeeper import MemoryZooKeeper
    from zkgroup.testing.memory_zookeeper.leader import server_transactions

_HOMES = {
    "FakeClock": "zkgroup.testing.clock",
    "KafkaCluster": "zkgroup.testing.kafka_cluster",
    "MemoryZooKeeper": "zkgroup.testing.memory_zookeeper",
    "check_history": "zkgroup.history",
    "server_transactions": "zkgroup.testing.memory_zookeeper.leader",
    "wait_until": "zkgroup.testing.clock",
}

__all__ = [
    "FakeClock",
    "KafkaCluster",
    "MemoryZooKeeper",
    "check_history",
    "server_transactions",
    "wait_until",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
