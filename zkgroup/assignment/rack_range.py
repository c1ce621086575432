"""The strategy `range`, also by the racks of members and replicas.

Source: RangeAssignor in kafka/consumer/PartitionAssignor.scala@0.8.2.2; with racks KIP-881,
org/apache/kafka/clients/consumer/RangeAssignor.java@3.5.0.

Kafka's default cuts each topic into contiguous blocks, one per thread. For a topic with partitions P and
threads T, both sorted, let n = |P| div |T| and e = |P| mod |T|. The thread at index i gets k = n + (1 if i <
e else 0) partitions from index n*i + min(i, e) on. For example 10 partitions and 3 threads give 0-3, 4-6,
7-9. Every topic is cut on its own, so the first threads get the remainders of all topics. Where all members
publish a capacity, the lengths of the blocks follow it.

Racks decide where every member has one, some replica is in one of these racks, and not every partition has
replicas in the same racks. Then threads take, up to their share, partitions with a replica in their rack
first; topics with the same threads and as many partitions are matched together, so that equal numbers of them
stay with one thread. The rest is cut as without racks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from zkgroup.assignment.kafka_assignors import sorted_partitions, threads_by_topic
from zkgroup.assignment.shares import shares, thread_costs
from zkgroup.model import Assignment, TopicPartition
from zkgroup.model.assignors import AssignorInput, all_have_racks


def assign_range(group: AssignorInput) -> Assignment:
    """The whole group's assignment. Threads beyond the number of partitions get nothing."""
    by_topic = threads_by_topic(group.members)
    costs = thread_costs(group.members, by_topic)
    owners: dict[TopicPartition, str] = {}
    if all_have_racks(group.members):
        topics = [
            _TopicState(topic, sorted_partitions(group.partitions, topic), threads, group, costs)
            for topic, threads in by_topic.items()
        ]
        _match_racks(topics)
        for state in topics:
            state.cut(lambda thread, number: True)
            owners |= state.owners
        return Assignment(owners)
    for topic, threads in by_topic.items():
        numbers = sorted_partitions(group.partitions, topic)
        start = 0
        for thread, share in shares(len(numbers), threads, costs).items():
            if start == len(numbers):
                break
            for number in numbers[start : start + share]:
                owners[TopicPartition(topic, number)] = thread
            start += share
    return Assignment(owners)


class _TopicState:
    """A topic that is being assigned; `TopicAssignmentState` of Kafka."""

    def __init__(
        self,
        topic: str,
        numbers: Sequence[int],
        threads: Sequence[str],
        group: AssignorInput,
        costs: Mapping[str, int] | None,
    ) -> None:
        self.topic = topic
        self.numbers = numbers
        self.threads = threads
        self.owners: dict[TopicPartition, str] = {}
        members = {member.member: member.rack for member in group.members}
        self._rack_of = {thread: members[thread.rpartition("-")[0]] for thread in threads}
        self._racks = {n: frozenset(group.racks.get(TopicPartition(topic, n), ())) for n in numbers}
        self._left = dict.fromkeys(numbers)
        self._counts = dict.fromkeys(threads, 0)
        self._fixed = shares(len(numbers), threads, costs) if costs is not None else None
        self._share, self._extras = divmod(len(numbers), len(threads)) if threads else (0, 0)

    @property
    def needs_racks(self) -> bool:
        """Returns whether racks can make a difference."""
        whole = frozenset[str]().union(*self._racks.values())
        is_met = not whole.isdisjoint(rack for rack in self._rack_of.values() if rack is not None)
        return is_met and any(racks != whole for racks in self._racks.values())

    def matches(self, thread: str, number: int) -> bool:
        """Returns whether the partition has a replica in the thread's rack."""
        return self._rack_of[thread] in self._racks[number]

    def room(self, thread: str) -> int:
        """The number of partitions that the thread may still get."""
        if self._fixed is not None:
            return self._fixed[thread] - self._counts[thread]
        return max(0, self._share + (self._extras > 0) - self._counts[thread])

    def give(self, thread: str, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.owners[TopicPartition(self.topic, number)] = thread
            del self._left[number]
        self._counts[thread] += len(numbers)
        if self._counts[thread] > self._share and numbers:
            self._extras -= 1

    def cut(self, may_have: Callable[[str, int], bool]) -> None:
        """Gives each thread, in order, the first partitions that it may have, up to its share."""
        for thread in self.threads:
            if not self._left:
                break
            room = self.room(thread)
            if room:
                self.give(thread, [number for number in self._left if may_have(thread, number)][:room])


def _match_racks(topics: Sequence[_TopicState]) -> None:
    if not any(state.needs_racks for state in topics):
        return
    by_shape: dict[tuple[tuple[str, ...], int], list[_TopicState]] = {}
    for state in topics:
        by_shape.setdefault((tuple(state.threads), len(state.numbers)), []).append(state)
    for states in by_shape.values():
        if len(states) > 1 and len({tuple(state.numbers) for state in states}) == 1:
            _match_together(states)
            continue
        for state in states:
            if state.needs_racks:
                state.cut(state.matches)


def _match_together(states: Sequence[_TopicState]) -> None:
    """Gives the partitions of one number of all topics to one thread whose rack has replicas of all."""
    remaining = dict.fromkeys(states[0].threads)
    for number in states[0].numbers:
        thread = next(
            (
                thread
                for thread in remaining
                if all(state.matches(thread, number) and state.room(thread) for state in states)
            ),
            None,
        )
        if thread is not None:
            for state in states:
                state.give(thread, [number])
            if not any(state.room(thread) for state in states):
                del remaining[thread]
