"""What differs between two assignments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zkgroup.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Moves:
    """Partitions by what becomes of them, in order. A change of thread within a member is a move, too."""

    kept: tuple[TopicPartition, ...]
    moved: tuple[TopicPartition, ...]
    gained: tuple[TopicPartition, ...]
    """Owned after, by nobody before."""
    dropped: tuple[TopicPartition, ...]
    """Owned before, by nobody after."""


def moves(before: Mapping[TopicPartition, str], after: Mapping[TopicPartition, str]) -> Moves:
    """Compares two assignments (partition to thread id)."""
    common = _sorted(before.keys() & after.keys())
    return Moves(
        kept=tuple(tp for tp in common if before[tp] == after[tp]),
        moved=tuple(tp for tp in common if before[tp] != after[tp]),
        gained=tuple(_sorted(after.keys() - before.keys())),
        dropped=tuple(_sorted(before.keys() - after.keys())),
    )


def _sorted(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    # The same order as the values' own, several times faster.
    return sorted(partitions, key=lambda tp: (tp.topic, tp.partition))
