"""Brokers that run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.worlds.node_world import World


@pytest.fixture
def world() -> Iterator[World]:
    """No brokers yet."""
    world = World()
    try:
        yield world
    finally:
        for idle in world.running.idle.values():
            idle.answers.clear()
        world.running.close()
        world.zk.close()
