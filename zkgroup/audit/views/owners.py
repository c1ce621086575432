"""Who owned a partition when, and how each ownership ended."""

from __future__ import annotations

from collections.abc import Iterable

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.owner_lives import OwnerLife, OwnerLives
from zkgroup.model import TopicPartition
from zkgroup.znodes.paths import path_kind


def owners_of(
    events: Iterable[Event], facts: Facts, group: str, topic_partition: TopicPartition
) -> list[OwnerLife]:
    """Every ownership of one partition of a group, in order; the last one may be open."""
    lives, found = OwnerLives(facts), []
    for event in events:
        place = path_kind(event.path)
        if (
            event.applied
            and place.kind == "owner"
            and place.name == group
            and (place.topic, place.partition) == topic_partition
            and (over := lives.see(event)) is not None
        ):
            found.append(over)
    return found if lives.current is None else [*found, lives.current]
