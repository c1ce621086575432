"""Groups and offsets in ZooKeeper, as a pure machine of a broker (recipes 20-23)."""

from __future__ import annotations

from collections.abc import Callable

from zkgroup.broker.groups.store_events import (
    GroupStoreConfig,
    GroupStoreContext,
    StoreEffect,
    StoreEvent,
)
from zkgroup.model.ports import Instant


class GroupStore:
    """The store of one broker's groups. Not thread-safe: one thread steps it."""

    def __init__(self, config: GroupStoreConfig, jitter: Callable[[], float]) -> None:
        """jitter: random numbers in [0, 1)."""
        self._context = GroupStoreContext(config, jitter)

    def step(self, event: StoreEvent, now: Instant) -> tuple[StoreEffect, ...]:
        """The effects of one event, to be performed in this order. Events are given in their order."""
        raise NotImplementedError
