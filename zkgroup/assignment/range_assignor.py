"""The strategy `range`, Kafka's default: each topic is cut into contiguous blocks, one per thread.

For a topic with partitions P and threads T, both sorted, let n = |P| div |T| and e = |P| mod |T|. The
thread at index i gets k = n + (1 if i < e else 0) partitions from index n*i + min(i, e) on. For example
10 partitions and 3 threads give 0-3, 4-6, 7-9. Every topic is cut on its own, so the first threads get the
remainders of all topics. (RangeAssignor in kafka/consumer/PartitionAssignor.scala@0.8.2.2.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zkgroup.assignment.order import sorted_partitions, threads_by_topic
from zkgroup.model import Assignment, EvaluatedMember, TopicPartition


def assign_range(members: Sequence[EvaluatedMember], partitions: Mapping[str, Sequence[int]]) -> Assignment:
    """The whole group's assignment. Threads beyond the number of partitions get nothing."""
    owners: dict[TopicPartition, str] = {}
    for topic, threads in threads_by_topic(members).items():
        numbers = sorted_partitions(partitions, topic)
        share, extra = divmod(len(numbers), len(threads)) if threads else (0, 0)
        start = 0
        for index, thread in enumerate(threads):
            end = start + share + (index < extra)
            if start == end:
                break
            for number in numbers[start:end]:
                owners[TopicPartition(topic, number)] = thread
            start = end
    return Assignment(owners)
