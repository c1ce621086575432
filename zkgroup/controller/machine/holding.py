"""Which replicas must be left alone for now, because a late request may still delete them (recipes 17).

A StopReplica with deletion carries no leader epoch on wire version 0 (K28), so it deletes whatever it meets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from zkgroup.controller.machine.picture import Picture
from zkgroup.model import TopicPartition

_NOBODY: Final[frozenset[int]] = frozenset()


class Holding:
    """The replicas that get no LeaderAndIsr and stand in no replica list that is sent.

    Two kinds: those whose StopReplica with deletion is unanswered, on any connection; and, while a move of
    their partition is open, those that are not in sync on a broker that has not answered a request of this
    controller's epoch, as the request of a predecessor may still be on its way to it.
    """

    def __init__(self) -> None:
        self._deleting: dict[TopicPartition, set[int]] = {}
        self._answered: dict[int, int] = {}
        """Broker to the incarnation that has answered a request of this epoch."""

    def delete_asked(self, topic_partition: TopicPartition, brokers: Iterable[int]) -> None:
        """StopReplica with deletion is to be sent."""
        self._deleting.setdefault(topic_partition, set()).update(brokers)

    def delete_answered(
        self, broker: int, partitions: Iterable[TopicPartition]
    ) -> tuple[TopicPartition, ...]:
        """The only copy was answered, or will never be sent. Returns the partitions that were held by it."""
        freed = []
        for topic_partition in partitions:
            brokers = self._deleting.get(topic_partition, set())
            if broker in brokers:
                freed.append(topic_partition)
                brokers.discard(broker)
            if not brokers:
                self._deleting.pop(topic_partition, None)
        return tuple(freed)

    def answered(self, broker: int, incarnation: int) -> bool:
        """This incarnation of the broker answered a request of the present epoch: it obeys no older one.

        Returns whether that is news: its replicas of partitions that are moved were held until now.
        """
        is_first = self._answered.get(broker) != incarnation
        self._answered[broker] = incarnation
        return is_first

    def epoch_raised(self) -> None:
        """The controller's epoch is a new one: no broker has answered it yet."""
        self._answered.clear()

    def restarted(self, broker: int) -> tuple[TopicPartition, ...]:
        """A new incarnation, or none: its old connections are dead. Returns the partitions it sets free."""
        self._answered.pop(broker, None)
        return self.delete_answered(broker, list(self._deleting))

    def of(self, picture: Picture, topic_partition: TopicPartition) -> frozenset[int]:
        """The held replicas of a partition."""
        held = self._deleting.get(topic_partition)
        if topic_partition not in picture.moves:
            return frozenset(held) if held else _NOBODY
        standing = picture.standing(topic_partition)
        in_sync = standing.isr if standing else ()
        return frozenset(held or ()) | {
            id_ for id_ in picture.reachable if id_ not in in_sync and not self._has_answered(picture, id_)
        }

    def is_empty(self, picture: Picture) -> bool:
        """Whether no replica of any partition can be held."""
        return not self._deleting and not picture.moves

    def all_deleting(self) -> Mapping[TopicPartition, frozenset[int]]:
        """Partition to the brokers whose StopReplica with deletion is unanswered."""
        return {each: frozenset(brokers) for each, brokers in self._deleting.items()}

    def _has_answered(self, picture: Picture, broker: int) -> bool:
        return self._answered.get(broker) == picture.brokers[broker].epoch
