"""All flows of one consumer, and the one lock that guards them: held briefly, never over a foreign call."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from zkgroup.consumer.flow import Flow
from zkgroup.consumer.share import Processed
from zkgroup.errors import NotOwnerError
from zkgroup.model import TopicPartition


class Flows:
    """Owned partitions by name. Every method and field is used with `lock` held."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.by_partition: dict[TopicPartition, Flow] = {}
        self.last_move_id = 0
        """`move_id` of the last `Assign` or `MoveTo` carried out."""

    def find(self, topic_partition: TopicPartition) -> Flow | None:
        return self.by_partition.get(topic_partition)

    def of(self, partitions: Iterable[TopicPartition]) -> list[Flow]:
        """The flows of those among these that are owned."""
        return [flow for tp in partitions if (flow := self.by_partition.get(tp)) is not None]

    def owned(self, topic_partition: TopicPartition) -> Flow:
        """Raises `NotOwnerError`."""
        flow = self.by_partition.get(topic_partition)
        if flow is None:
            raise NotOwnerError(f"{topic_partition} is not owned by this member")
        return flow

    def put_last(self, flow: Flow) -> None:
        """The others come before it next time."""
        self.by_partition[flow.topic_partition] = self.by_partition.pop(flow.topic_partition)

    def are_drained(self, partitions: Iterable[TopicPartition]) -> bool:
        """Nothing of these is in the application's hands."""
        return all(flow.tracker.unacked == 0 for flow in self.of(partitions))

    def news(self, partitions: Iterable[TopicPartition]) -> Processed:
        """What of these is processed and not committed yet."""
        flows = self.of(partitions)
        positions = {flow.topic_partition: at for flow in flows if (at := flow.to_commit()) is not None}
        return Processed(positions, self.seeks(positions), self.last_move_id)

    def seeks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Those among them that were sought, each with the number of its last seek."""
        return {flow.topic_partition: flow.sought for flow in self.of(partitions) if flow.sought}
