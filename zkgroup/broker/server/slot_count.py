"""The number of slots, by which every broker finds the coordinator of a group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

READ_S: Final = 5.0
"""Longest wait of a client for the number of slots; then it gets error 15 and tries again."""


class SlotCount:
    """The number of slots of the cluster, read until it is known. Made and used on one event loop."""

    def __init__(self, read: Callable[[], None], read_s: float = READ_S) -> None:
        """
        Args:
            read: begins to read the number; the result comes to `read`.
            read_s: longest wait for it, in seconds.
        """
        self._begin = read
        self._read_s = read_s
        self.known: int | None = None
        """The number, once it was read; it never changes."""
        self._waiting: list[asyncio.Future[None]] = []

    def read(self, slots: int | None) -> None:
        """Takes the result of a read."""
        if slots is not None:
            self.known = slots
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    async def get(self) -> int | None:
        """The number of slots; None if no broker has written it yet, or it cannot be read now."""
        if self.known is None:
            arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            if not self._waiting:
                self._begin()
            self._waiting.append(arrived)
            try:
                async with asyncio.timeout(self._read_s):
                    await arrived
            except TimeoutError:
                self._waiting = [each for each in self._waiting if not each.done()]
        return self.known
