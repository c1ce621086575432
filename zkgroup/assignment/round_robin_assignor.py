"""The strategy `roundrobin`: the partitions of all topics, in the order of a Java hash, to threads in turn.

Precondition: every subscribed topic has the same threads, which means that every member subscribes to the
same topics with the same number of threads each. (RoundRobinAssignor in
kafka/consumer/PartitionAssignor.scala@0.8.2.2.)

The hash is that of the text `[topic,partition]`. If two texts have the same hash, the JVM takes them in the
order of a Scala hash map, which cannot be reproduced. zkgroup members order them by topic and partition, and
the assignment has a note about it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from zkgroup.assignment.order import java_hash, sorted_partitions, threads_by_topic
from zkgroup.errors import AssignmentError
from zkgroup.model import Assignment, EvaluatedMember, TopicPartition


def assign_round_robin(
    members: Sequence[EvaluatedMember], partitions: Mapping[str, Sequence[int]]
) -> Assignment:
    """The whole group's assignment.

    Raises AssignmentError if topics have different threads; a JVM member fails its rebalance then, too.
    A group without any subscription is not an error (as in Kafka 0.9; 0.8.2.2 fails).
    """
    by_topic = threads_by_topic(members)
    if not by_topic:
        return Assignment({})
    threads = _common_threads(by_topic)
    if not threads:
        return Assignment({})
    order = _hash_order({topic: sorted_partitions(partitions, topic) for topic in by_topic})
    owners = {
        TopicPartition(topic, number): thread
        for (_, topic, number), thread in zip(order, itertools.cycle(threads), strict=False)
    }
    return Assignment(owners, tuple(map(_tie_note, _ties(order))))


def round_robin_ties(partitions: Mapping[str, Sequence[int]]) -> tuple[tuple[TopicPartition, ...], ...]:
    """Groups of partitions with the same Java hash. With them and a JVM member, use another strategy."""
    order = _hash_order({topic: sorted_partitions(partitions, topic) for topic in partitions})
    return tuple(tuple(TopicPartition(topic, number) for _, topic, number in tie) for tie in _ties(order))


def _common_threads(by_topic: Mapping[str, list[str]]) -> list[str]:
    first, *others = by_topic.items()
    for topic, threads in others:
        if threads != first[1]:
            odd = sorted(set(threads) ^ set(first[1]))[:3]
            raise AssignmentError(
                "strategy roundrobin: expected every member to have the same topics with equal thread counts,"
                f" found topics {first[0]!r} and {topic!r} to differ in {', '.join(odd)}"
            )
    return first[1]


_Hashed = tuple[int, str, int]
"""Java hash, topic, partition."""


def _hash_order(partitions: Mapping[str, Sequence[int]]) -> list[_Hashed]:
    return sorted(
        (java_hash(f"{number}]", seed), topic, number)
        for topic, numbers in partitions.items()
        for seed in [java_hash(f"[{topic},")]
        for number in numbers
    )


def _ties(order: Sequence[_Hashed]) -> list[list[_Hashed]]:
    groups = (list(group) for _, group in itertools.groupby(order, key=lambda hashed: hashed[0]))
    return [group for group in groups if len(group) > 1]


def _tie_note(tie: Sequence[_Hashed]) -> str:
    names = ", ".join(f"{topic}-{number}" for _, topic, number in tie)
    return f"roundrobin: {names} have the same Java hash {tie[0][0]}; JVM members may order them differently"
