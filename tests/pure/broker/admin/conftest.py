"""Three brokers and a zkgroup controller, as znodes in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.worlds.memory_cluster import MemoryCluster
from tests.worlds.memory_groups import MemoryGroups
from zkgroup.admin.undo_records import ChangeRecord

BY = ChangeRecord(undo_id="", command="a request", user="test")


@pytest.fixture
def cluster() -> Iterator[MemoryCluster]:
    """Topic orders has two partitions; broker 3 hosts none."""
    world = MemoryGroups()
    made = MemoryCluster(world)
    made.ours()
    made.topic("orders", (1, 2), (2, 1), **{"retention.ms": "1000"})
    yield made
    for client in list(world.server.clients.values()):
        client.close()
