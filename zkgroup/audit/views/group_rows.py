"""The rows of groups, partition by partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from zkgroup.audit.events import Event
from zkgroup.errors import NotFoundError
from zkgroup.model import TopicPartition
from zkgroup.znodes.consumer_paths import group_path
from zkgroup.znodes.places import place_of

_NAMED = 8


class GroupPartition(NamedTuple):
    """One partition as one group has it."""

    group: str
    topic_partition: TopicPartition


def rows_by_partition(
    events: Iterable[Event], group: str | None = None
) -> Mapping[GroupPartition, list[Event]]:
    """The rows of owners and offsets of a group, or of all, each partition's in order; partitions in order.

    Memory: the rows that are asked for. Raises NotFoundError where there never was such a group.
    """
    found: dict[GroupPartition, list[Event]] = {}
    groups: set[str] = set()
    for event in events:
        place = place_of(event.path)
        if place.kind not in ("member", "owner", "offset", "group"):
            continue
        groups.add(place.name)
        if place.kind in ("owner", "offset") and group in (None, place.name):
            where = GroupPartition(place.name, TopicPartition(place.topic, place.partition))
            found.setdefault(where, []).append(event)
    if group is not None and group not in groups:
        known = ", ".join(sorted(groups)[:_NAMED]) or "none"
        more = f" and {len(groups) - _NAMED} more" if len(groups) > _NAMED else ""
        raise NotFoundError(f"{group_path(group)}: there was no such group; those that were: {known}{more}")
    return dict(sorted(found.items()))
