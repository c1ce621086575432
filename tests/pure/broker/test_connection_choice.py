"""Which connection a port closes where all together take too much."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from zkgroup.broker.server.connection_choice import slowest


@dataclass(frozen=True)
class Holds:
    held: int
    moved: int


@pytest.mark.parametrize(
    ("connections", "goes"),
    [
        ([Holds(429, 1), Holds(429, 2), Holds(429, 3), Holds(900, 4)], 0),  # not the largest
        ([Holds(900, 9), Holds(429, 2), Holds(429, 3)], 1),  # whoever was connected first
        ([Holds(3, 1), Holds(0, 2), Holds(500, 3), Holds(700, 4)], 2),  # not one for a few bytes
        ([Holds(0, 1), Holds(500, 2)], 1),
    ],
)
def test_who_has_held_its_bytes_longest_is_closed(connections: list[Holds], goes: int) -> None:
    """Among those that hold at least half of an equal share."""
    assert slowest(connections, sum(each.held for each in connections)) is connections[goes]
