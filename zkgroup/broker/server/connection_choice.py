"""Which connection a port closes where all together take too much. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol, TypeVar


class Holder(Protocol):
    """A connection with buffered bytes."""

    held: int
    """Bytes of requests without an answer, and of an answer not yet received."""
    moved: int
    """Rises from connection to connection, as each begins a request or has it whole."""


HolderT = TypeVar("HolderT", bound=Holder)


def slowest(connections: Collection[HolderT], held: int) -> HolderT:
    """The one to close where all together hold too much: the one whose bytes are there the longest.

    It holds at least half of an equal share of `held`, the sum: those that do hold half of all bytes. So a
    large request is not closed for many small ones that never end, nor one of a few bytes for nothing.
    """
    share = held / (2 * len(connections))
    return min((each for each in connections if each.held >= share), key=lambda each: each.moved)
