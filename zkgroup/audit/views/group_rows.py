"""The rows of groups, partition by partition."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.groups import is_of_groups, require_group
from zkgroup.errors import CorruptZnodeError, NotFoundError
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.paths import path_kind

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
        place = path_kind(event.path)
        if not is_of_groups(place):
            continue
        groups.add(place.name)
        if place.kind in ("owner", "offset") and group in (None, place.name):
            where = GroupPartition(place.name, TopicPartition(place.topic, place.partition))
            found.setdefault(where, []).append(event)
    require_group(group, groups)
    return dict(sorted(found.items()))


def require_partition(partition: TopicPartition, shown: Collection[GroupPartition], facts: Facts) -> None:
    """Raises NotFoundError for a partition that neither rows of a group nor its topic show."""
    known = {
        where.topic_partition.partition for where in shown if where.topic_partition.topic == partition.topic
    }
    for change in facts.topics.get(partition.topic, ()):
        if change.data is not None:
            with suppress(CorruptZnodeError):
                known |= set(Topic.decode(Topic.path(partition.topic), change.data).partitions)
    if partition.partition not in known:
        numbers = ", ".join(map(str, sorted(known)[:_NAMED])) or "none"
        more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
        raise NotFoundError(f"{partition}: no such partition; those of {partition.topic}: {numbers}{more}")
