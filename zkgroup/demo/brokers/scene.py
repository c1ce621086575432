"""What the demo of brokers shows while it runs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zkgroup.demo.story import Happening


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """One broker: its process, and what it does in the cluster."""

    broker: int
    pid: int
    state: str
    rules: int | None
    """The epoch in which it is controller."""
    leads: int
    in_sync: int
    hosts: int
    """Partitions with a replica on it."""


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One partition: who leads since which leader epoch, who is in sync, and how far all of these are."""

    partition: int
    leader: int | None
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    high_watermark: int

    @property
    def behind(self) -> tuple[int, ...]:
        """Replicas that are not in sync."""
        return tuple(one for one in self.replicas if one not in self.isr)


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything on the screen."""

    elapsed_s: float
    zookeeper: str
    headline: str
    brokers: Sequence[BrokerRow]
    partitions: Sequence[PartitionRow]
    acknowledged: int
    consumed: int
    total: int
    """Lines that there are to produce."""
    open_moves: int
    story: Sequence[Happening]
