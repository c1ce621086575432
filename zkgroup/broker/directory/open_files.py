"""How many files are open at a time."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

OPEN_LOGS_MAX = 128
"""Partitions whose files, three each, are held open; a process may usually have 1024 files."""


class Releasable(Protocol):
    """What holds files open, and can do without."""

    def release(self) -> None: ...


class OpenFiles:
    """Who has files open; the one that has not used them for longest gives them up to a newcomer."""

    def __init__(self, maximum: int = OPEN_LOGS_MAX) -> None:
        self._maximum = maximum
        self._holders: OrderedDict[Releasable, None] = OrderedDict()

    def used(self, holder: Releasable) -> None:
        """Its files are open, and just being used."""
        self._holders[holder] = None
        self._holders.move_to_end(holder)
        if len(self._holders) > self._maximum:
            self._holders.popitem(last=False)[0].release()

    def forget(self, holder: Releasable) -> None:
        """It has none open any more."""
        self._holders.pop(holder, None)

    def close(self) -> None:
        """All give theirs up."""
        while self._holders:
            self._holders.popitem()[0].release()
