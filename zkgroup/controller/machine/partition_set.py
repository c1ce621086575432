"""Many partitions, topic by topic."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from zkgroup.model import TopicPartition


class PartitionSet:
    """A set of partitions, as numbers by topic: a tuple with the name for each would cost far more."""

    def __init__(self, partitions: Iterable[TopicPartition] = ()) -> None:
        self._numbers: dict[str, set[int]] = {}
        """No set is empty."""
        for each in partitions:
            self.add(each)

    def __bool__(self) -> bool:
        return bool(self._numbers)

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return topic_partition.partition in self._numbers.get(topic_partition.topic, ())

    def __iter__(self) -> Iterator[TopicPartition]:
        return self.of(self._numbers)

    def of(self, topics: Iterable[str]) -> Iterator[TopicPartition]:
        """Those of these topics."""
        for topic in topics:
            for number in self._numbers.get(topic, ()):
                yield TopicPartition(topic, number)

    def add(self, topic_partition: TopicPartition) -> None:
        """Puts one in."""
        self._numbers.setdefault(topic_partition.topic, set()).add(topic_partition.partition)

    def add_all(self, topic: str, numbers: Collection[int]) -> None:
        """Puts these partitions of a topic in."""
        if numbers:
            self._numbers.setdefault(topic, set()).update(numbers)

    def discard(self, topic_partition: TopicPartition) -> None:
        """Takes one out, if it is there."""
        topic, number = topic_partition
        numbers = self._numbers.get(topic)
        if numbers is not None:
            numbers.discard(number)
            if not numbers:
                del self._numbers[topic]

    def clear(self) -> None:
        """Takes all out."""
        self._numbers.clear()
