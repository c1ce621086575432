"""What a ruling controller counts, for its metrics. Source: kafka/controller/KafkaController.scala@2.8.2."""

from __future__ import annotations

from dataclasses import dataclass

from zkgroup.controller.machine.leading import LEADERLESS
from zkgroup.controller.machine.reign import Reign


@dataclass(frozen=True, slots=True)
class Figures:
    """Counted at one moment."""

    topics: int
    partitions: int
    offline_partitions: int
    """Without a leader, topics that are being deleted, or that no broker hosts, left out."""
    preferred_imbalance: int
    """Led by another than the first replica, topics that are being deleted left out."""
    queue_size: int
    """Pieces of work that wait."""
    queue_oldest_ms: int
    """How long the oldest of them has waited; 0 where none does."""


def figures(reign: Reign) -> Figures:
    """Counts; goes through all partitions."""
    picture = reign.picture
    offline = [
        each
        for each in reign.partitions.unusual(LEADERLESS)
        if not picture.is_going(each) and not picture.is_unhosted(each)
    ]
    elsewhere = 0
    for each in picture.partitions():
        standing, replicas = picture.standing(each), picture.replicas(each)
        if standing and replicas and standing.leader != replicas[0] and not picture.is_going(each):
            elsewhere += 1
    oldest_ms = reign.agenda.oldest_ms
    return Figures(
        topics=len(picture.topics),
        partitions=picture.size,
        offline_partitions=len(offline),
        preferred_imbalance=elsewhere,
        queue_size=len(reign.agenda),
        queue_oldest_ms=0 if oldest_ms is None else reign.core.now.ms - oldest_ms,
    )
