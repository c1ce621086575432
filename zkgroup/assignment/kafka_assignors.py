"""Kafka's strategy `roundrobin`, and Java's orders and hashes that every member must reproduce.

Nothing here or in the other assignors iterates a set or uses `hash()`: Python salts string hashes per
process. Source: RoundRobinAssignor in kafka/consumer/PartitionAssignor.scala@0.8.2.2.

`roundrobin` gives the partitions of all topics, in the order of a Java hash, to threads in turn. The hash is
that of the text `[topic,partition]`. If two texts have the same hash, the JVM takes them in the order of a
Scala hash map, which cannot be reproduced. zkgroup members order them by topic and partition, and the
assignment has a note about it.

A JVM member fails its rebalance unless all members subscribe to the same topics with the same number of
threads each. Without JVM members, unequal subscriptions are assigned as KIP-49 says: the topics with the
fewest threads come first, of these the one with most partitions, then by name, and each partition goes to the
thread of its topic that has the fewest so far, in the order of thread ids.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from zkgroup.assignment.shares import thread_costs, turns
from zkgroup.errors import AssignmentError
from zkgroup.model import Assignment, EvaluatedMember, TopicPartition
from zkgroup.model.assignors import AssignorInput

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


def assign_round_robin(group: AssignorInput) -> Assignment:
    """The whole group's assignment.

    Raises AssignmentError if topics have different threads and a JVM member, or one of an earlier version, is
    in the group: it fails its rebalance then. A group without any subscription is not an error (as in Kafka
    0.9; 0.8.2.2 fails).
    """
    by_topic = threads_by_topic(group.members)
    threads = next(iter(by_topic.values()), [])
    if not threads:
        return Assignment({})
    numbers = {topic: sorted_partitions(group.partitions, topic) for topic in by_topic}
    costs = thread_costs(group.members, by_topic)
    if any(other != threads for other in by_topic.values()):
        if not all(member.negotiates for member in group.members):
            raise _unequal(by_topic)
        return Assignment(_fair(by_topic, numbers, costs))
    order = _hash_order(numbers)
    in_turn = itertools.cycle(threads) if costs is None else turns(threads, costs)
    owners = {
        TopicPartition(topic, number): thread
        for (_, topic, number), thread in zip(order, in_turn, strict=False)
    }
    return Assignment(owners, tuple(map(_tie_note, _ties(order))))


def _fair(
    by_topic: Mapping[str, Sequence[str]],
    numbers: Mapping[str, Sequence[int]],
    costs: Mapping[str, int] | None,
) -> dict[TopicPartition, str]:
    """The assignment of KIP-49; with `costs`, the fewest partitions are those that cost least."""
    loads: dict[str, int] = {}
    owners: dict[TopicPartition, str] = {}
    order = {topic: place for place, topic in enumerate(by_topic)}
    for topic in sorted(by_topic, key=lambda t: (len(by_topic[t]), -len(numbers[t]), order[t])):
        threads = by_topic[topic]
        emptiest = [
            (loads.get(thread, costs[thread] if costs else 0), place) for place, thread in enumerate(threads)
        ]
        heapq.heapify(emptiest)
        for number in numbers[topic]:
            load, place = emptiest[0]
            thread = threads[place]
            owners[TopicPartition(topic, number)] = thread
            loads[thread] = load + (2 * costs[thread] if costs else 1)
            heapq.heapreplace(emptiest, (loads[thread], place))
    return owners


def round_robin_ties(partitions: Mapping[str, Sequence[int]]) -> tuple[tuple[TopicPartition, ...], ...]:
    """Groups of partitions with the same Java hash. With them and a JVM member, use another strategy."""
    order = _hash_order({topic: sorted_partitions(partitions, topic) for topic in partitions})
    return tuple(tuple(TopicPartition(topic, number) for _, topic, number in tie) for tie in _ties(order))


def _unequal(by_topic: Mapping[str, list[str]]) -> AssignmentError:
    first, *others = by_topic.items()
    topic, threads = next(each for each in others if each[1] != first[1])
    odd = sorted(set(threads) ^ set(first[1]))[:3]
    return AssignmentError(
        "strategy roundrobin with a JVM member: expected every member to have the same topics with equal "
        f"thread counts, found topics {first[0]!r} and {topic!r} to differ in {', '.join(odd)}"
    )


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
