"""Which thread has which partitions, topic by topic, and how many are away from their previous thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from zkgroup.model import TopicPartition

Bucket = dict[TopicPartition, None]


class Hop(Protocol):
    @property
    def source(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def target(self) -> str: ...


class Holdings:
    """An assignment under improvement. Everything is iterated in the order given, so all members agree.

    A partition is *settled* where it is at home, and *loose* elsewhere, also where it has no home: to move it
    on is no further move.
    """

    def __init__(self, allowed: Mapping[str, Sequence[str]], homes: Mapping[TopicPartition, str]) -> None:
        self.allowed = allowed
        self.threads = list(dict.fromkeys(t for threads in allowed.values() for t in threads))
        self.owners: dict[TopicPartition, str] = {}
        self.loads = dict.fromkeys(self.threads, 0)
        self._homes = homes
        self._topics: dict[str, list[str]] = {thread: [] for thread in self.threads}
        for topic, threads in allowed.items():
            for thread in threads:
                self._topics[thread].append(topic)
        self._settled: dict[tuple[str, str], Bucket] = {}
        self._loose: dict[tuple[str, str], Bucket] = {}
        self._away: dict[TopicPartition, str] = {}

    # --- looking ----------------------------------------------------------------------------------

    def topics_of(self, thread: str) -> Sequence[str]:
        """Those that it may have."""
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

    # --- changing ---------------------------------------------------------------------------------

    def place(self, tp: TopicPartition, thread: str) -> None:
        before = self.owners.get(tp)
        home = self._homes.get(tp)
        if before is not None:
            self.loads[before] -= 1
            del (self._settled if before == home else self._loose)[before, tp.topic][tp]
        self.owners[tp] = thread
        self.loads[thread] += 1
        buckets = self._settled if thread == home else self._loose
        buckets.setdefault((thread, tp.topic), {})[tp] = None
        if home is None or thread == home:
            self._away.pop(tp, None)
        else:
            self._away[tp] = home

    def place_all(self, moves: Iterable[tuple[TopicPartition, str]]) -> None:
        for tp, thread in moves:
            self.place(tp, thread)

    def choose(self, hops: Iterable[Hop]) -> list[tuple[TopicPartition, str]]:
        """For each hop a partition: one that comes home by it, else a loose one, else one at home."""
        return [(self._chosen(hop), hop.target) for hop in hops]

    def pass_on(self, hops: Iterable[Hop]) -> None:
        self.place_all(self.choose(hops))

    def _chosen(self, hop: Hop) -> TopicPartition:
        loose = self._loose.get((hop.source, hop.topic), {})
        for tp in loose:
            if self._homes.get(tp) == hop.target:
                return tp
        found = next(iter(loose), None) or self.settled(hop.source, hop.topic)
        assert found is not None, hop
        return found
