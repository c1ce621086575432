"""What the demo of a group shows while it runs: members, partitions and what has happened. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zkgroup.demo.story import Happening


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One process: what it is doing, what it owns, how many records it has processed."""

    name: str
    pid: int
    state: str
    partitions: tuple[int, ...]
    processed: int
    gone: bool


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One partition: who owns it and how far it is."""

    partition: int
    owner: str | None
    token: int | None
    offset: int
    end: int

    @property
    def lag(self) -> int:
        """Records not committed yet."""
        return self.end - self.offset


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything on the screen."""

    elapsed_s: float
    zookeeper: str
    headline: str
    members: Sequence[MemberRow]
    partitions: Sequence[PartitionRow]
    story: Sequence[Happening]
    command: str = "zkgroup demo"
    """The demo whose group this is."""

    @property
    def committed(self) -> int:
        """Records committed in all partitions."""
        return sum(row.offset for row in self.partitions)

    @property
    def total(self) -> int:
        """Records in all partitions."""
        return sum(row.end for row in self.partitions)
