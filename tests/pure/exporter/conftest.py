"""A fresh world for each test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.worlds.coordinated_groups import CoordinatedGroups
from tests.worlds.memory_cluster import MemoryCluster
from tests.worlds.memory_groups import MemoryGroups
from zkgroup.exporter.metrics import render
from zkgroup.exporter.reading import Reader, ReadingSettings
from zkgroup.groups.lag_verdict import LagWindows
from zkgroup.model import TopicPartition
from zkgroup.zookeeper.four_letter_words import ServerStatus

LEADER = ServerStatus(
    server="a:1",
    by="mntr",
    mode="leader",
    znodes=9,
    data_bytes=70,
    watches=3,
    connections=2,
    average_latency=1.5,
    synced_followers=1,
)
"""A server that reports everything."""


@pytest.fixture
def world() -> Iterator[MemoryGroups]:
    """An empty ensemble in memory with an operator connected to it."""
    made = MemoryGroups()
    yield made
    for client in list(made.server.clients.values()):
        client.close()


@pytest.fixture
def everything(world: MemoryGroups) -> bytes:
    """The text of a reading in which every metric has a sample."""
    CoordinatedGroups(world).lead(1)
    MemoryCluster(world).topic("orders", (1, 2))
    world.member("g", "m", {"orders": 1})
    world.commit("g", "orders", 0, 5)
    ends = {TopicPartition("orders", 0): 5}
    reading = Reader(
        world.ensemble, ReadingSettings(), LagWindows(), log_ends=lambda partitions: ends, packets=lambda: 0
    ).read()
    return render(replace(reading, servers=(LEADER,), certificates={1: 2e9}), 0, 0)
