"""Leaders that were elected and have not confirmed yet that they can serve.

Such a leader is alone in the ISR. Where it cannot serve it has never led, so nothing was acknowledged since
its election, and the brokers that were in sync before still have everything.
"""

from __future__ import annotations

from collections.abc import Collection

from zkgroup.controller.machine.context import Brokers
from zkgroup.model import TopicPartition


class UnconfirmedLeaders:
    """Partition to its leader and to the ISR before its election."""

    def __init__(self) -> None:
        self._leaders: dict[TopicPartition, tuple[int, Brokers]] = {}

    def __len__(self) -> int:
        return len(self._leaders)

    def elected(self, topic_partition: TopicPartition, leader: int, before: Brokers) -> None:
        """A leader that is alone in the ISR; `before` is the ISR that others were in as well."""
        self._leaders[topic_partition] = (leader, before)

    def discard(self, topic_partition: TopicPartition) -> None:
        """Another election, or the topic is gone."""
        self._leaders.pop(topic_partition, None)

    def confirmed(self, topic_partition: TopicPartition, broker: int) -> None:
        """The broker has answered LeaderAndIsr without an error for this partition."""
        if topic_partition in self._leaders and self._leaders[topic_partition][0] == broker:
            del self._leaders[topic_partition]

    def broker_restarted(self, broker: int) -> None:
        """It may have led, and stopped before its response arrived."""
        for topic_partition in [each for each, (leader, _) in self._leaders.items() if leader == broker]:
            del self._leaders[topic_partition]

    def in_sync(self, topic_partition: TopicPartition, isr: Brokers, unfit: Collection[int]) -> Brokers:
        """The ISR; and where its only member could not serve, the ISR before its election.

        unfit: brokers whose replica of the partition is offline.
        """
        leader, before = self._leaders.get(topic_partition, (None, ()))
        if leader is None or isr != (leader,):
            return isr
        return before if leader in unfit else isr
