"""A fresh world for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.worlds.memory_groups import MemoryGroups


@pytest.fixture
def world() -> Iterator[MemoryGroups]:
    """An empty ensemble in memory with an operator connected to it."""
    made = MemoryGroups()
    yield made
    for client in list(made.server.clients.values()):
        client.close()
