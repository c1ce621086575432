"""How strategies share partitions by the capacity of members, and whose racks count.

Shares follow the method of Sainte-Laguë: the next partition goes to the thread with the least
`(2 n + 1) / capacity`, where n is the number that it has. That keeps the sum of `n² / capacity` least, and
with equal capacities the numbers differ by at most 1.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from zkgroup.model import EvaluatedMember


def thread_costs(
    members: Sequence[EvaluatedMember], by_topic: Mapping[str, Sequence[str]]
) -> Mapping[str, int] | None:
    """Thread id to the cost of one partition, which is inverse to its capacity; None if all are equal.

    The capacity of a member is that of its threads together. Of a member with different numbers of threads
    for different topics the greatest number counts. `by_topic` has the threads of each topic.
    """
    weights = {
        member.member: Fraction(member.capacity, max(member.threads.values()))
        for member in members
        if member.capacity is not None and member.threads
    }
    if len(set(weights.values())) <= 1:
        return None
    scale = math.lcm(*(weight.numerator for weight in weights.values()))
    threads = dict.fromkeys(thread for each in by_topic.values() for thread in each)
    return {thread: int(scale / weights[thread.rpartition("-")[0]]) for thread in threads}


def turns(threads: Sequence[str], costs: Mapping[str, int]) -> Iterator[str]:
    """Threads without end, each as often as its cost allows; of equal ones the first in `threads`."""
    heap = [(costs[thread], index) for index, thread in enumerate(threads)]
    heapq.heapify(heap)
    while heap:
        cost, index = heap[0]
        heapq.heapreplace(heap, (cost + 2 * costs[threads[index]], index))
        yield threads[index]


def shares(count: int, threads: Sequence[str], costs: Mapping[str, int] | None) -> dict[str, int]:
    """The number of partitions of each thread, of `count`; the first threads get what is left over."""
    if costs is None:
        share, extra = divmod(count, len(threads)) if threads else (0, 0)
        return {thread: share + (index < extra) for index, thread in enumerate(threads)}
    found = dict.fromkeys(threads, 0)
    for thread, _ in zip(turns(threads, costs), range(count), strict=False):
        found[thread] += 1
    return found
