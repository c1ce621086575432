"""Least-cost balancing for groups whose members want different topics.

Seen as a flow, every partition sends one unit to a thread that may have it, and from there to a sink. The
n-th unit of a thread costs 2n-1 (their sum is the square of the load); a unit costs a little more when its
partition leaves its previous thread. An assignment is optimal exactly when no cycle of changes lowers the
cost. So we start from a good one, first apply chains that improve the balance, then cycles that keep it and
save moves, until there are none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from zkgroup.model import TopicPartition


def balance(
    partitions: Sequence[TopicPartition],
    threads_by_topic: Mapping[str, Sequence[str]],
    homes: Mapping[TopicPartition, str],
) -> dict[TopicPartition, str]:
    """Partition to thread: loads as even as can be, and among those the fewest partitions away from home.

    Args:
        partitions: all partitions, in order.
        threads_by_topic: for each topic the threads that may have it, in order; never empty.
        homes: the previous thread of a partition, where it may still have it.
    """
    flow = _Flow(partitions, threads_by_topic, homes)
    flow.even_out()
    flow.bring_home()
    return flow.owners


_Node = tuple[str, str | int]
"""`("thread", id)`, and between threads: `("topic", name)`, `("home", partition)`, `("load", n)`."""


class _Edge(NamedTuple):
    """A change: `partition` leaves its thread for the topic's, or load is handed on where it is None."""

    source: _Node
    target: _Node
    price: int
    partition: TopicPartition | None = None


class _Flow:
    """An assignment under improvement. Everything is iterated in the order given, so all members agree."""

    def __init__(
        self,
        partitions: Sequence[TopicPartition],
        threads_by_topic: Mapping[str, Sequence[str]],
        homes: Mapping[TopicPartition, str],
    ) -> None:
        self._allowed = threads_by_topic
        self._homes = homes
        self._threads = list(dict.fromkeys(t for threads in threads_by_topic.values() for t in threads))
        self._held: dict[str, dict[TopicPartition, None]] = {thread: {} for thread in self._threads}
        self.owners: dict[TopicPartition, str] = {}
        for tp in partitions:
            if tp in homes:
                self._place(tp, homes[tp])
        for tp in partitions:
            if tp not in homes:
                self._place(tp, min(threads_by_topic[tp.topic], key=self._load))

    def even_out(self) -> None:
        """Moves partitions along chains of threads from fuller to emptier ones until no chain helps."""
        improved = True
        while improved:
            improved = False
            for thread in sorted(self._threads, key=self._load, reverse=True):
                while self._relieve(thread):
                    improved = True

    def bring_home(self) -> None:
        """Applies cycles that keep the balance and lower the number of moves until there are none."""
        while cycle := self._cheaper_cycle():
            for edge, after in zip(cycle, cycle[1:] + cycle[:1], strict=True):
                if edge.partition is not None:
                    self._place(edge.partition, str(after.target[1]))

    def _load(self, thread: str) -> int:
        return len(self._held[thread])

    def _place(self, tp: TopicPartition, thread: str) -> None:
        if tp in self.owners:
            del self._held[self.owners[tp]][tp]
        self.owners[tp] = thread
        self._held[thread][tp] = None

    def _relieve(self, start: str) -> bool:
        """One chain from this thread to the nearest one with at least 2 less; False where there is none."""
        reached: dict[str, tuple[str, TopicPartition]] = {}
        queue, topics = deque([start]), set[str]()
        while queue:
            thread = queue.popleft()
            if self._load(thread) <= self._load(start) - 2:
                self._pass_along(start, thread, reached)
                return True
            for topic, tp in self._cheapest(thread).items():
                if topic in topics:
                    continue
                topics.add(topic)
                for target in self._allowed[topic]:
                    if target not in reached and target != start:
                        reached[target] = (thread, tp)
                        queue.append(target)
        return False

    def _cheapest(self, thread: str) -> dict[str, TopicPartition]:
        """A partition of each topic that the thread holds, one that is not at home where there is one."""
        found: dict[str, TopicPartition] = {}
        for tp in self._held[thread]:
            if tp.topic not in found or self._homes.get(tp) != thread:
                found[tp.topic] = tp
        return found

    def _pass_along(self, start: str, end: str, reached: Mapping[str, tuple[str, TopicPartition]]) -> None:
        while end != start:
            source, tp = reached[end]
            self._place(tp, end)
            end = source

    def _cheaper_cycle(self) -> list[_Edge]:
        """A cycle of negative price, by the method of Bellman and Ford; empty where there is none."""
        edges = list(self._edges())
        cost: dict[_Node, int] = {node: 0 for edge in edges for node in edge[:2]}
        via: dict[_Node, _Edge] = {}
        for _ in range(len(cost) + 1):
            changed: _Node | None = None
            for edge in edges:
                price = cost[edge.source] + edge.price
                if price < cost[edge.target]:
                    cost[edge.target] = price
                    via[edge.target] = edge
                    changed = edge.target
            if changed is None:
                return []
            if cycle := _cycle_in(via):
                return cycle
        raise AssertionError("prices fell for longer than there are nodes, without a cycle")

    def _edges(self) -> Iterator[_Edge]:
        """Every change by one partition, and every exchange of loads that keeps the balance.

        From thread to topic: a partition leaves, at price 1 when it leaves home. From topic to thread: it
        arrives. Straight to the home of a partition that is away: -1. A chain that ends at a thread of load n
        may go on at one of load n + 1, which gives one up instead: the two exchange their loads.
        """
        for thread in self._threads:
            for topic, tp in self._cheapest(thread).items():
                price = 1 if self._homes.get(tp) == thread else 0
                yield _Edge(("thread", thread), ("topic", topic), price, tp)
            for tp in self._held[thread]:
                home = self._homes.get(tp, thread)
                if home != thread:
                    yield _Edge(("thread", thread), ("home", str(tp)), -1, tp)
                    yield _Edge(("home", str(tp)), ("thread", home), 0)
            yield _Edge(("thread", thread), ("load", self._load(thread)), 0)
            yield _Edge(("load", self._load(thread) - 1), ("thread", thread), 0)
        for topic, threads in self._allowed.items():
            for thread in threads:
                yield _Edge(("topic", topic), ("thread", thread), 0)


def _cycle_in(via: Mapping[_Node, _Edge]) -> list[_Edge]:
    """A cycle among the edges by which nodes were reached, in walking order; empty where there is none."""
    seen: set[_Node] = set()
    for start in via:
        path: dict[_Node, None] = {}
        node = start
        while node in via and node not in seen:
            if node in path:
                return _walk_back(node, via)
            path[node] = None
            node = via[node].source
        seen.update(path)
    return []


def _walk_back(start: _Node, via: Mapping[_Node, _Edge]) -> list[_Edge]:
    cycle = [via[start]]
    while cycle[-1].source != start:
        cycle.append(via[cycle[-1].source])
    return cycle[::-1]
