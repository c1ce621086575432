"""Brokers that run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.worlds.running_brokers import MemoryBrokers


@pytest.fixture
def world() -> Iterator[MemoryBrokers]:
    """No brokers yet."""
    world = MemoryBrokers()
    try:
        yield world
    finally:
        for idle in world.running.idle.values():
            idle.answers.clear()
        world.running.close()
        world.zk.close()
