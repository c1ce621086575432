"""A fresh world for each test that needs one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.worlds.admin_world import World


@pytest.fixture
def world() -> Iterator[World]:
    """An empty ensemble in memory with an operator connected to it."""
    made = World()
    yield made
    for client in list(made.server.clients.values()):
        client.close()
