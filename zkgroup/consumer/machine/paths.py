"""The paths that one member touches, bound to its group and id."""

from __future__ import annotations

from collections.abc import Iterable

from zkgroup.model import TopicPartition
from zkgroup.znodes.consumers import (
    Offset,
    Owner,
    Plan,
    Registration,
    Reset,
    View,
    consumers_path,
    group_path,
    ids_path,
    offsets_path,
    offsets_topic_path,
    owners_path,
    owners_topic_path,
    resets_path,
    views_path,
)


class Paths:
    """Paths below `/consumers/<group>`."""

    def __init__(self, group: str, member_id: str) -> None:
        self._group = group
        self.ids = ids_path(group)
        self.own = Registration.path(group, member_id)
        self.resets = resets_path(group)
        self.plan = Plan.path(group)
        self.view = View.path(group, member_id)
        self.parents = (
            consumers_path(),
            group_path(group),
            self.ids,
            owners_path(group),
            offsets_path(group),
            self.resets,
            views_path(group),
        )
        """Persistent znodes that a member makes where they are missing, in this order (recipes.md 5)."""

    def registration(self, member: str) -> str:
        return Registration.path(self._group, member)

    def owner(self, tp: TopicPartition) -> str:
        return Owner.path(self._group, tp)

    def offset(self, tp: TopicPartition) -> str:
        return Offset.path(self._group, tp)

    def marker(self, tp: TopicPartition) -> str:
        return Reset.path(self._group, tp)

    def owners(self, partitions: Iterable[TopicPartition]) -> list[str]:
        return [self.owner(tp) for tp in partitions]

    def offsets(self, partitions: Iterable[TopicPartition]) -> list[str]:
        return [self.offset(tp) for tp in partitions]

    def topic_parents(self, topics: Iterable[str]) -> list[str]:
        """Parents of the owner and offset znodes of these topics."""
        return [
            path
            for topic in sorted(topics)
            for path in (owners_topic_path(self._group, topic), offsets_topic_path(self._group, topic))
        ]
