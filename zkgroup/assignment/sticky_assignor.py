"""The strategy `sticky`: balanced, with as few moves as possible. JVM members do not have it.

It has two goals, the first before the second:

1. Balance: the loads of the threads are as even as the subscriptions allow (the sum of their squares, each
   divided by the capacity of the thread, is least). Threads of equal capacity that can take each other's
   partitions then differ by at most 1.
2. Moves: among all balanced assignments, one that takes the fewest partitions from their previous thread.

A group is split into parts that share no thread. If all topics of a part have the same threads, quotas give
the result. Otherwise the assignment is computed as a flow of least cost:

Every partition sends one unit to a thread that may have it, and from there to a sink. The n-th unit of a
thread costs 2n-1 (their sum is the square of the load), times its cost of one partition where members publish
capacities; a unit costs a little more when its partition leaves its previous thread. An assignment is optimal
exactly when no cycle of changes lowers the cost. So the search starts from a good assignment, applies chains
that improve the balance, and then cycles that keep the balance and save moves, until there are none.

A group of 200 members and 10,000 partitions is computed on the member's own thread, within its lease. So
partitions of a topic differ only by their home here, cheap cycles are tried first, and the search that proves
that there is none comes last.

Racks count where all topics of a part have the same threads. After a thread has kept what has a replica in
its rack, it takes, up to its quota, other partitions that have one, as in KIP-881; then it keeps the rest.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from zkgroup.assignment.kafka_assignors import java_sorted, sorted_partitions, threads_by_topic
from zkgroup.assignment.shares import shares, thread_costs
from zkgroup.model import Assignment, TopicPartition
from zkgroup.model.assignors import AssignorInput


def assign_sticky(group: AssignorInput) -> Assignment:
    """The whole group's assignment. A previous owner that has left the group or the topic counts as none."""
    partitions, previous = group.partitions, group.previous
    by_topic = {topic: threads for topic, threads in threads_by_topic(group.members).items() if threads}
    costs = thread_costs(group.members, by_topic)
    owners: dict[TopicPartition, str] = {}
    for topics in _parts(by_topic):
        wanted = {topic: by_topic[topic] for topic in topics}
        numbers = [TopicPartition(topic, n) for topic in topics for n in sorted_partitions(partitions, topic)]
        eligible = {topic: frozenset(threads) for topic, threads in wanted.items()}
        homes = {tp: previous[tp] for tp in numbers if previous.get(tp) in eligible[tp.topic]}
        if len(set(eligible.values())) == 1:
            owners |= _by_quota(numbers, wanted[topics[0]], homes, costs, _rack_matcher(group))
        else:
            owners |= balance(numbers, wanted, homes, costs)
    return Assignment(owners)


def _rack_matcher(group: AssignorInput) -> Callable[[str, TopicPartition], bool] | None:
    """Returns whether a partition has a replica in a thread's rack; None if racks decide nothing."""
    if not group.racks:
        return None
    racks = {member.member: member.rack for member in group.members}
    return lambda thread, tp: racks[thread.rpartition("-")[0]] in group.racks.get(tp, ())


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
    partitions: Sequence[TopicPartition],
    threads: Sequence[str],
    homes: Mapping[TopicPartition, str],
    costs: Mapping[str, int] | None,
    matches: Callable[[str, TopicPartition], bool] | None,
) -> dict[TopicPartition, str]:
    """Partition to thread: each keeps its partitions up to its quota, and the rest fills the other quotas.

    The quotas that are one higher go to the threads with most partitions, which saves one move each.
    """
    kept: dict[str, list[TopicPartition]] = {thread: [] for thread in threads}
    for tp, thread in homes.items():
        kept[thread].append(tp)
    most_first = sorted(threads, key=lambda thread: -len(kept[thread]))
    quotas = shares(len(partitions), most_first, costs)
    owners: dict[TopicPartition, str] = {}
    if matches is not None:
        owners = _in_their_racks(partitions, kept, quotas, matches)
        kept = {thread: [tp for tp in tps if tp not in owners] for thread, tps in kept.items()}
        for thread in owners.values():
            quotas[thread] -= 1
    owners |= {tp: thread for thread in threads for tp in kept[thread][: quotas[thread]]}
    room = {thread: quotas[thread] - min(quotas[thread], len(kept[thread])) for thread in threads}
    in_turn = (
        thread for turn in range(max(room.values(), default=0)) for thread in threads if room[thread] > turn
    )
    owners.update(zip((tp for tp in partitions if tp not in owners), in_turn, strict=True))
    return owners


def _in_their_racks(
    partitions: Sequence[TopicPartition],
    kept: Mapping[str, Sequence[TopicPartition]],
    quotas: Mapping[str, int],
    matches: Callable[[str, TopicPartition], bool],
) -> dict[TopicPartition, str]:
    """The partitions that go to a thread in the rack of a replica, first to the one that has them."""
    owners: dict[TopicPartition, str] = {}
    room = dict(quotas)
    for thread, tps in kept.items():
        for tp in [tp for tp in tps if matches(thread, tp)][: quotas[thread]]:
            owners[tp] = thread
            room[thread] -= 1
    for tp in partitions:
        if tp not in owners:
            fitting = [thread for thread in kept if room[thread] > 0 and matches(thread, tp)]
            if fitting:
                owners[tp] = max(fitting, key=room.__getitem__)  # of equal ones the first
                room[owners[tp]] -= 1
    return owners


Bucket = dict[TopicPartition, None]


class ThreadHop(Protocol):
    @property
    def source(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def target(self) -> str: ...


class ThreadHoldings:
    """An assignment that is being improved. Everything is iterated in the order given, so all members agree.

    The *home* of a partition is its previous thread. A partition is *at home* on that thread, and *loose* on
    any other or if it has no home: moving a loose partition on costs no further move.
    """

    def __init__(
        self,
        allowed: Mapping[str, Sequence[str]],
        homes: Mapping[TopicPartition, str],
        costs: Mapping[str, int] | None = None,
    ) -> None:
        self.allowed = allowed
        self.threads = list(dict.fromkeys(t for threads in allowed.values() for t in threads))
        self.owners: dict[TopicPartition, str] = {}
        self.next_costs = {thread: costs[thread] if costs else 1 for thread in self.threads}
        """Thread to what one partition more would cost there: 2n+1 with n, times its cost of one."""
        self.steps = {thread: 2 * cost for thread, cost in self.next_costs.items()}
        """By how much that grows with each partition; the last one has cost as much less."""
        self._homes = homes
        self._topics: dict[str, list[str]] = {thread: [] for thread in self.threads}
        for topic, threads in allowed.items():
            for thread in threads:
                self._topics[thread].append(topic)
        self._settled: dict[tuple[str, str], Bucket] = {}
        self._loose: dict[tuple[str, str], Bucket] = {}
        self._away: dict[TopicPartition, str] = {}

    def topics_of(self, thread: str) -> Sequence[str]:
        """The topics that the thread may have."""
        return self._topics[thread]

    def has_loose(self, thread: str, topic: str) -> bool:
        return bool(self._loose.get((thread, topic)))

    def has_settled(self, thread: str, topic: str) -> bool:
        return bool(self._settled.get((thread, topic)))

    def loose(self, thread: str, topic: str) -> TopicPartition | None:
        return next(iter(self._loose.get((thread, topic), ())), None)

    def settled(self, thread: str, topic: str) -> TopicPartition | None:
        return next(iter(self._settled.get((thread, topic), ())), None)

    def away(self) -> Iterator[tuple[TopicPartition, str]]:
        """Partitions that have a home and are elsewhere, with that home."""
        return iter(self._away.items())

    def place(self, tp: TopicPartition, thread: str) -> None:
        before = self.owners.get(tp)
        home = self._homes.get(tp)
        if before is not None:
            self.next_costs[before] -= self.steps[before]
            del (self._settled if before == home else self._loose)[before, tp.topic][tp]
        self.owners[tp] = thread
        self.next_costs[thread] += self.steps[thread]
        buckets = self._settled if thread == home else self._loose
        buckets.setdefault((thread, tp.topic), {})[tp] = None
        if home is None or thread == home:
            self._away.pop(tp, None)
        else:
            self._away[tp] = home

    def place_all(self, moves: Iterable[tuple[TopicPartition, str]]) -> None:
        for tp, thread in moves:
            self.place(tp, thread)

    def choose(self, hops: Iterable[ThreadHop]) -> list[tuple[TopicPartition, str]]:
        """A partition for each hop: one that comes home by it, else a loose one, else one at home."""
        return [(self._chosen(hop), hop.target) for hop in hops]

    def pass_on(self, hops: Iterable[ThreadHop]) -> None:
        self.place_all(self.choose(hops))

    def _chosen(self, hop: ThreadHop) -> TopicPartition:
        loose = self._loose.get((hop.source, hop.topic), {})
        for tp in loose:
            if self._homes.get(tp) == hop.target:
                return tp
        found = next(iter(loose), None) or self.settled(hop.source, hop.topic)
        assert found is not None, hop
        return found


def balance(
    partitions: Sequence[TopicPartition],
    threads_by_topic: Mapping[str, Sequence[str]],
    homes: Mapping[TopicPartition, str],
    costs: Mapping[str, int] | None = None,
) -> dict[TopicPartition, str]:
    """Partition to thread, with loads as even as possible and then the fewest partitions away from home.

    Args:
        partitions: all partitions, topic by topic, in order.
        threads_by_topic: for each topic the threads that may have it, in order; never empty.
        homes: the previous thread of a partition, where it may still have it.
        costs: the cost of one partition on each thread (`thread_costs`); None if they are equal.
    """
    holdings = ThreadHoldings(threads_by_topic, homes, costs)
    _deal(holdings, partitions, threads_by_topic, homes)
    _even_out(holdings)
    while _bring_home(holdings):
        pass
    while _apply_cheaper_cycle(holdings):
        pass
    return holdings.owners


def _deal(
    holdings: ThreadHoldings,
    partitions: Sequence[TopicPartition],
    threads_by_topic: Mapping[str, Sequence[str]],
    homes: Mapping[TopicPartition, str],
) -> None:
    """Places each partition on its home, or without one on the least loaded thread that may have it."""
    for tp in partitions:
        if tp in homes:
            holdings.place(tp, homes[tp])
    emptiest: list[tuple[int, int]] = []
    topic: str | None = None
    for tp in partitions:
        if tp in homes:
            continue
        threads = threads_by_topic[tp.topic]
        if tp.topic != topic:  # loads change by this topic alone until the next one
            topic = tp.topic
            emptiest = [(holdings.next_costs[thread], n) for n, thread in enumerate(threads)]
            heapq.heapify(emptiest)
        _, number = emptiest[0]
        holdings.place(tp, threads[number])
        heapq.heapreplace(emptiest, (holdings.next_costs[threads[number]], number))


class _Hop(NamedTuple):
    """A partition of this topic goes from one thread to another."""

    source: str
    topic: str
    target: str


def _even_out(holdings: ThreadHoldings) -> None:
    """Applies the cheapest chains from the fullest threads to ones where it saves cost, until none is left.

    A thread from which no emptier thread can be reached is not tried again: no later chain changes that.
    """
    left = dict.fromkeys(holdings.threads)
    while left:
        last = {thread: holdings.next_costs[thread] - holdings.steps[thread] for thread in left}
        top = max(last.values())
        fullest = [thread for thread in left if last[thread] == top]
        chain, reached = _cheapest_chain(holdings, fullest, top)
        if chain:
            holdings.pass_on(chain)
        else:
            for thread in reached:
                left.pop(thread, None)


def _cheapest_chain(
    holdings: ThreadHoldings, sources: Iterable[str], below: int
) -> tuple[list[_Hop], Iterable[str]]:
    """The chain to a thread where one partition more costs less than `below` that takes the fewest partitions
    from home, and, where there is none, all threads that can be reached."""
    came: dict[str, _Hop | None] = dict.fromkeys(sources)
    cheap, dear, topics = list(came), list[tuple[str, str]](), set[str]()
    while cheap:
        for thread in cheap:  # grows during the loop: a hop that costs nothing more is followed at once
            for topic in holdings.topics_of(thread):
                if topic in topics:
                    continue
                if holdings.has_loose(thread, topic):
                    topics.add(topic)
                    new = _arrive(holdings, came, thread, topic)
                    if (end := _emptiest(holdings, new, below)) is not None:
                        return _walk_back(came, end), ()
                    cheap += new
                elif holdings.has_settled(thread, topic):
                    dear.append((thread, topic))
        cheap = []
        for thread, topic in dear:
            if topic not in topics:
                topics.add(topic)
                new = _arrive(holdings, came, thread, topic)
                if (end := _emptiest(holdings, new, below)) is not None:
                    return _walk_back(came, end), ()
                cheap += new
        dear = []
    return [], came


def _arrive(holdings: ThreadHoldings, came: dict[str, _Hop | None], source: str, topic: str) -> list[str]:
    """The threads that a partition of this topic can go to, and that were not reached before."""
    new = [thread for thread in holdings.allowed[topic] if thread not in came]
    came.update((thread, _Hop(source, topic, thread)) for thread in new)
    return new


def _emptiest(holdings: ThreadHoldings, threads: Sequence[str], below: int) -> str | None:
    """The one where one partition more costs least, if that is less than `below`."""
    costs = holdings.next_costs
    end = min(threads, key=costs.__getitem__, default=None)
    return end if end is not None and costs[end] < below else None


def _walk_back(came: Mapping[str, _Hop | None], end: str) -> list[_Hop]:
    hops: list[_Hop] = []
    while (hop := came[end]) is not None:
        hops.append(hop)
        end = hop.source
    return hops


def _bring_home(holdings: ThreadHoldings) -> bool:
    """Brings partitions home by changes that take no other from its home; whether there was any."""
    found = False
    reached: dict[str, Mapping[str, object]] = {}
    """Home to the threads that its load can be handed on to, until something is changed."""
    for tp, home in list(holdings.away()):
        owner = holdings.owners[tp]
        if owner == home:
            continue  # a change for another partition brought it home
        came = reached.get(home)
        if came is not None and owner not in came:
            continue
        chain = _free_chain(holdings, home, owner)
        if owner in chain:
            holdings.place_all([*holdings.choose(_hops_to(chain, owner)), (tp, home)])
            found = True
            reached.clear()
        else:
            reached[home] = chain
    return found


def _free_chain(holdings: ThreadHoldings, start: str, end: str) -> dict[str, _Hop | str | None]:
    """Finds how threads are reached from `start`, up to `end` or all, by hops of partitions not at home.

    A chain that ends at a thread can continue at another whose last partition cost what one more costs there:
    that one gives one up instead. With equal capacities the two exchange their loads.
    """
    came: dict[str, _Hop | str | None] = {start: None}
    queue, topics, costs = [start], set[str](), set[int]()
    next_costs, steps = holdings.next_costs, holdings.steps
    for thread in queue:
        cost = next_costs[thread]
        if cost not in costs:
            costs.add(cost)
            for other in holdings.threads:
                if next_costs[other] - steps[other] == cost and other not in came:
                    came[other] = thread
                    queue.append(other)
        for topic in holdings.topics_of(thread):
            if topic not in topics and holdings.has_loose(thread, topic):
                topics.add(topic)
                for other in holdings.allowed[topic]:
                    if other not in came:
                        came[other] = _Hop(thread, topic, other)
                        queue.append(other)
        if end in came:
            break
    return came


def _hops_to(came: Mapping[str, _Hop | str | None], end: str) -> list[_Hop]:
    hops: list[_Hop] = []
    while (step := came[end]) is not None:
        if isinstance(step, _Hop):
            hops.append(step)
        end = step.source if isinstance(step, _Hop) else step
    return hops


class _ThreadEdge(NamedTuple):
    """A change: a partition leaves its thread for the topic's or for its home, or load is handed on."""

    source: int
    target: int
    price: int
    leaves: TopicPartition | None = None


def _apply_cheaper_cycle(holdings: ThreadHoldings) -> bool:
    """Applies a cycle of negative price, found by the method of Bellman and Ford; False if none is left."""
    if not any(True for _ in holdings.away()):
        return False  # only a partition that comes home lowers the cost
    edges, threads = _edges(holdings)
    cycle = _negative_cycle(edges)
    moves = []
    for edge, after in zip(cycle, cycle[1:] + cycle[:1], strict=True):
        if edge.leaves is not None:
            moves.append((edge.leaves, threads[after.target]))
    holdings.place_all(moves)
    return bool(moves)


def _negative_cycle(edges: Sequence[_ThreadEdge]) -> list[_ThreadEdge]:
    count = 1 + max(max(edge.source, edge.target) for edge in edges)
    cost, via = [0] * count, dict[int, _ThreadEdge]()
    for _ in range(count + 1):
        changed = False
        for edge in edges:
            source, target, price, _ = edge
            if cost[source] + price < cost[target]:
                cost[target] = cost[source] + price
                via[target] = edge
                changed = True
        if not changed:
            return []
        if cycle := _cycle_in(via):
            return cycle
    raise AssertionError("prices fell for longer than there are nodes, without a cycle")


def _edges(holdings: ThreadHoldings) -> tuple[list[_ThreadEdge], Sequence[str]]:
    """Every change by one partition, and every exchange of loads that keeps the balance; threads by number.

    From thread to topic: a partition leaves, at price 1 when it leaves home. From topic to thread: it
    arrives. Straight to the home of a partition that is away: -1.
    """
    threads = holdings.threads
    number = {thread: n for n, thread in enumerate(threads)}
    topics = {topic: len(number) + n for n, topic in enumerate(holdings.allowed)}
    nodes = len(number) + len(topics)
    edges: list[_ThreadEdge] = []
    for thread, n in number.items():
        for topic in holdings.topics_of(thread):
            if (tp := holdings.loose(thread, topic)) is not None:
                edges.append(_ThreadEdge(n, topics[topic], 0, tp))
            elif (tp := holdings.settled(thread, topic)) is not None:
                edges.append(_ThreadEdge(n, topics[topic], 1, tp))
    costs = {cost: nodes + n for n, cost in enumerate(sorted(set(holdings.next_costs.values())))}
    nodes += len(costs)
    for tp, home in holdings.away():
        edges += (
            _ThreadEdge(number[holdings.owners[tp]], nodes, -1, tp),
            _ThreadEdge(nodes, number[home], 0),
        )
        nodes += 1
    for thread, n in number.items():
        cost = holdings.next_costs[thread]
        edges.append(_ThreadEdge(n, costs[cost], 0))
        if (before := costs.get(cost - holdings.steps[thread])) is not None:
            edges.append(_ThreadEdge(before, n, 0))
    for topic, allowed in holdings.allowed.items():
        edges += (_ThreadEdge(topics[topic], number[thread], 0) for thread in allowed)
    return edges, threads


def _cycle_in(via: Mapping[int, _ThreadEdge]) -> list[_ThreadEdge]:
    """A cycle among the edges by which nodes were reached, in walking order; empty if there is none."""
    seen: set[int] = set()
    for start in via:
        path: set[int] = set()
        node = start
        while node in via and node not in seen:
            if node in path:
                return _walk_round(node, via)
            path.add(node)
            node = via[node].source
        seen |= path
    return []


def _walk_round(start: int, via: Mapping[int, _ThreadEdge]) -> list[_ThreadEdge]:
    cycle = [via[start]]
    while cycle[-1].source != start:
        cycle.append(via[cycle[-1].source])
    return cycle[::-1]
