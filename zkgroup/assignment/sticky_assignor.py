"""Balanced, and as few moves as possible. A strategy of ours; JVM members know only the other two.

Two demands, the first before the second:

1. Balance: the loads of the threads are as even as the subscriptions allow (the sum of their squares is
   least). Threads that can take each other's partitions then differ by at most 1.
2. Moves: among all balanced assignments, one that takes the fewest partitions from their previous thread.

Groups are split into parts that share no thread. Where all topics of a part have the same threads, the
answer follows from quotas. Otherwise it is a flow of least cost (`sticky_flow`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zkgroup.assignment.order import java_sorted, sorted_partitions, threads_by_topic
from zkgroup.assignment.sticky_flow import balance
from zkgroup.model import Assignment, EvaluatedMember, TopicPartition


def assign_sticky(
    members: Sequence[EvaluatedMember],
    partitions: Mapping[str, Sequence[int]],
    previous: Mapping[TopicPartition, str],
) -> Assignment:
    """The whole group's assignment. A previous owner that is gone or left the topic counts as none."""
    by_topic = {topic: threads for topic, threads in threads_by_topic(members).items() if threads}
    owners: dict[TopicPartition, str] = {}
    for topics in _parts(by_topic):
        wanted = {topic: by_topic[topic] for topic in topics}
        numbers = [TopicPartition(topic, n) for topic in topics for n in sorted_partitions(partitions, topic)]
        eligible = {topic: frozenset(threads) for topic, threads in wanted.items()}
        homes = {tp: previous[tp] for tp in numbers if previous.get(tp) in eligible[tp.topic]}
        if len(set(eligible.values())) == 1:
            owners |= _by_quota(numbers, wanted[topics[0]], homes)
        else:
            owners |= balance(numbers, wanted, homes)
    return Assignment(owners)


def _parts(by_topic: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Topics, grouped so that topics of different groups have no thread in common."""
    part_of_thread: dict[str, int] = {}
    parts: dict[int, list[str]] = {}
    for number, (topic, threads) in enumerate(by_topic.items()):
        merged = [topic]
        for part in sorted({part_of_thread[thread] for thread in threads if thread in part_of_thread}):
            merged = parts.pop(part) + merged
        parts[number] = merged
        part_of_thread.update((thread, number) for each in merged for thread in by_topic[each])
    return [java_sorted(topics) for topics in parts.values()]


def _by_quota(
    partitions: Sequence[TopicPartition], threads: Sequence[str], homes: Mapping[TopicPartition, str]
) -> dict[TopicPartition, str]:
    """Every thread keeps what it has up to its quota; the rest is dealt in turn to those below theirs.

    The quotas that are one higher go to the threads that have most, which saves one move each.
    """
    kept: dict[str, list[TopicPartition]] = {thread: [] for thread in threads}
    for tp, thread in homes.items():
        kept[thread].append(tp)
    share, extra = divmod(len(partitions), len(threads))
    most_first = sorted(threads, key=lambda thread: -len(kept[thread]))
    quotas = {thread: share + (index < extra) for index, thread in enumerate(most_first)}
    owners = {tp: thread for thread in threads for tp in kept[thread][: quotas[thread]]}
    room = {thread: quotas[thread] - min(quotas[thread], len(kept[thread])) for thread in threads}
    turns = (
        thread for turn in range(max(room.values(), default=0)) for thread in threads if room[thread] > turn
    )
    owners.update(zip((tp for tp in partitions if tp not in owners), turns, strict=True))
    return owners
