"""Kafka's strategies `range` and `roundrobin`, and Java's orders and hashes that every member must reproduce.

Nothing here or in the other assignors iterates a set or uses `hash()`: Python salts string hashes per
process. Source: RangeAssignor and RoundRobinAssignor in kafka/consumer/PartitionAssignor.scala@0.8.2.2.

`range`, Kafka's default, cuts each topic into contiguous blocks, one per thread. For a topic with partitions
P and threads T, both sorted, let n = |P| div |T| and e = |P| mod |T|. The thread at index i gets k = n + (1
if i < e else 0) partitions from index n*i + min(i, e) on. For example 10 partitions and 3 threads give 0-3,
4-6, 7-9. Every topic is cut on its own, so the first threads get the remainders of all topics.

`roundrobin` gives the partitions of all topics, in the order of a Java hash, to threads in turn. Every member
has to subscribe to the same topics with the same number of threads each. The hash is that of the text
`[topic,partition]`. If two texts have the same hash, the JVM takes them in the order of a Scala hash map,
which cannot be reproduced. zkgroup members order them by topic and partition, and the assignment has a note
about it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from zkgroup.errors import AssignmentError
from zkgroup.model import Assignment, EvaluatedMember, TopicPartition

THREADS_COUNTED = 100_000
"""Threads of one member in a topic that take part: more partitions than any topic's znode can hold.

A registration of another client may ask for 2,147,483,647. Threads beyond the partitions own nothing, and a
name for each of them would exhaust the memory of every member of the group.
"""


def utf16_key(text: str) -> bytes:
    """Sort key that orders like `java.lang.String.compareTo`: by UTF-16 units, not by code points."""
    return text.encode("utf-16-be", "surrogatepass")


def java_sorted(texts: Iterable[str]) -> list[str]:
    """The texts in the order of `String.compareTo`."""
    found = list(texts)
    # For ASCII both orders agree, and Python's own is several times faster.
    if all(map(str.isascii, found)):
        found.sort()
    else:
        found.sort(key=utf16_key)
    return found


def java_hash(text: str, seed: int = 0) -> int:
    """`String.hashCode` as a signed 32-bit number; `seed` is the hash of the text before this one."""
    value = seed & 0xFFFFFFFF
    for unit in _utf16_units(text):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (value >> 31 << 32)


def _utf16_units(text: str) -> Iterable[int]:
    if text.isascii():
        return text.encode("ascii")
    units = text.encode("utf-16-be", "surrogatepass")
    return (high << 8 | low for high, low in zip(units[::2], units[1::2], strict=True))


def threads_by_topic(members: Sequence[EvaluatedMember]) -> dict[str, list[str]]:
    """For each topic that a member subscribes to, the thread ids of its members, in Java's string order.

    Whole ids are compared, so `g_a-10` comes before `g_a-2`, and members whose names extend one another
    by `-<digits>` interleave. Topics are in order too.
    """
    found: dict[str, list[str]] = {}
    for member in members:
        for topic, threads in member.threads.items():
            found.setdefault(topic, []).extend(f"{member.member}-{n}" for n in _first_threads(threads))
    return {topic: java_sorted(found[topic]) for topic in java_sorted(found)}


def _first_threads(count: int) -> Iterable[int]:
    """The thread numbers below `count`; of more than `THREADS_COUNTED`, those whose ids come first."""
    if count <= THREADS_COUNTED:
        return range(count)
    return islice(_in_text_order(count), THREADS_COUNTED)


def _in_text_order(count: int) -> Iterator[int]:
    """0 to `count` - 1 in the order of their decimal texts: 0, 1, 10, 100, 101, ..., 2, 20, ..."""
    yield 0
    number = 1
    for _ in range(count - 1):
        yield number
        if number * 10 < count:
            number *= 10
            continue
        while number % 10 == 9 or number + 1 >= count:
            number //= 10
        number += 1


def sorted_partitions(partitions: Mapping[str, Sequence[int]], topic: str) -> list[int]:
    """The partitions of a topic in numeric order; none where the topic does not exist."""
    return sorted(set(partitions.get(topic, ())))


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
