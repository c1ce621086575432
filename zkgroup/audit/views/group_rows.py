"""The rows of one group, partition by partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zkgroup.audit.events import Event
from zkgroup.errors import NotFoundError
from zkgroup.model import TopicPartition
from zkgroup.znodes.places import place_of

_NAMED = 8


def rows_by_partition(events: Iterable[Event], group: str) -> Mapping[TopicPartition, list[Event]]:
    """The rows of owners and offsets of a group, each partition's in order; partitions in order.

    Memory: the rows of this group. Raises NotFoundError where there never was such a group.
    """
    found: dict[TopicPartition, list[Event]] = {}
    others: set[str] = set()
    is_known = False
    for event in events:
        place = place_of(event.path)
        if place.kind not in ("member", "owner", "offset", "group"):
            continue
        if place.name != group:
            others.add(place.name)
            continue
        is_known = True
        if place.kind in ("owner", "offset"):
            found.setdefault(TopicPartition(place.topic, place.partition), []).append(event)
    if not is_known:
        known = ", ".join(sorted(others)[:_NAMED]) or "none"
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        raise NotFoundError(f"/consumers/{group}: there was no such group; those that were: {known}{more}")
    return dict(sorted(found.items()))
